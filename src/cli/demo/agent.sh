# A scripted agent for the demo. It plays claude-code and codex: what to do follows from what every agent is told.
set -eu
round=$(sed -n 's/.*"currentRound": \([0-9]*\).*/\1/p' .review-loop-state.json)
echo "$AGENCY_AGENT: step $AGENCY_TASK, $AGENCY_PHASE, round $round"
sleep 0.4

request() {
  cat > ENG_REVIEW_COMMENTS.md <<TEXT
### CR-00$AGENCY_TASK: $1
- **ID**: CR-00$AGENCY_TASK
- **Round**: $round
- **Severity**: medium
- **Category**: $2
- **File(s)**: README.md:1
- **Status**: open

$1, please.
TEXT
}

case "$AGENCY_AGENT/$AGENCY_PHASE" in
  claude-code/propose)
    echo "Step $AGENCY_TASK: add src/part$AGENCY_TASK.txt and a test." > ENG_REVIEW_RESPONSE.md
    status=proposed next=codex ;;
  codex/review)
    # One change request in review: the first proposal of step 1.
    if [ "$AGENCY_TASK/$round" = 1/1 ]; then
      request "Say how it is tested" test-coverage
      status=reviewed next=claude-code
    else
      status=approved next=claude-code
    fi ;;
  claude-code/review)
    echo "CR-00$AGENCY_TASK: agreed; the test is named now." >> ENG_REVIEW_RESPONSE.md
    status=revised next=codex ;;
  claude-code/execute)
    mkdir -p src && echo "part $AGENCY_TASK" > "src/part$AGENCY_TASK.txt"
    status=executed next=codex ;;
  codex/verify)
    # One change request in verify: the first try of step 2.
    if [ "$AGENCY_TASK/$round" = 2/1 ]; then
      request "Cover the empty case" quality
      status=reviewed next=claude-code
    else
      status=verified-clean next=claude-code
    fi ;;
  claude-code/verify)
    echo "the empty case" >> "src/part$AGENCY_TASK.txt"
    status=revised next=codex ;;
esac

printf '{"agent": "%s", "step": "%s", "status": "%s", "nextAgent": "%s", "timestamp": "%s"}\n' \
  "$AGENCY_AGENT" "$AGENCY_TASK" "$status" "$next" "$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)" > .agent-status.json.tmp
mv .agent-status.json.tmp .agent-status.json

# An honest agent: does a little work and writes the flag that its phase wants. `$HOME/slow` says how long it takes.
set -eu
[ -f "$HOME/slow" ] && sleep "$(cat "$HOME/slow")"
echo "$AGENCY_RUN $AGENCY_AGENT $AGENCY_TASK/$AGENCY_PHASE" >> "$HOME/started"
next=codex
case "$AGENCY_AGENT/$AGENCY_PHASE" in
  claude-code/propose) echo "the plan of step $AGENCY_TASK" > ENG_REVIEW_RESPONSE.md; status=proposed ;;
  codex/review) echo "nothing to change in step $AGENCY_TASK" > ENG_REVIEW_COMMENTS.md; status=approved next=claude-code ;;
  claude-code/execute) mkdir -p src; echo "step $AGENCY_TASK" > "src/$AGENCY_TASK.txt"; status=executed ;;
  codex/verify) status=verified-clean next=claude-code ;;
  *) exit 9 ;;
esac
printf '{"agent":"%s","step":"%s","status":"%s","nextAgent":"%s","timestamp":"%s"}' \
  "$AGENCY_AGENT" "$AGENCY_TASK" "$status" "$next" "$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)" > .agent-status.json.tmp
mv .agent-status.json.tmp .agent-status.json

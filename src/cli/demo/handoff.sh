# A scripted agent for the demo. It plays planner, builder, reviewer and fixer: what to do follows from what every agent is told.
set -eu
field() { sed -n "s/.*\"$1\": *\"*\([^\",]*\)\"*.*/\1/p" .claude/state.json | head -n 1; }
iteration=$(field iteration)
echo "$AGENCY_AGENT: $AGENCY_PHASE, iteration $iteration"
sleep 0.3

# leave TYPE TO ITERATION PAYLOAD: a message in pending/, whole from its first moment.
leave() {
  id=$(cat /proc/sys/kernel/random/uuid)
  mkdir -p .claude/handoffs/pending
  printf '{"schema_version": "1.0.0", "message_id": "%s", "timestamp": "%s", "from": "%s", "to": "%s", "type": "%s",
"priority": "medium", "payload": %s, "context": {"workflow": "feature", "spec": "specs/auth.md", "iteration": %s}, "status": "pending"}\n' \
    "$id" "$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)" "$AGENCY_AGENT" "$2" "$1" "$4" "$3" > ".claude/handoffs/$id.tmp"
  mv ".claude/handoffs/$id.tmp" ".claude/handoffs/pending/$id.json"
}

commit() {
  git add src
  git -c user.name="$AGENCY_AGENT" -c user.email="$AGENCY_AGENT@example.com" -c commit.gpgSign=false commit --quiet --message="$1"
  git rev-parse HEAD
}

case "$AGENCY_PHASE" in
  plan)
    mkdir -p specs && printf '# User auth\n\nSessions, with a test.\n' > specs/auth.md
    leave task_handoff builder 1 '{"spec": "specs/auth.md", "priority": "medium", "context": "small steps"}'
    leave completion orchestrator 1 '{"status": "completed", "spec": "specs/auth.md"}' ;;
  task_handoff)
    mkdir -p src && echo "fn sign_in() {}" > src/auth.rs
    id=$(commit "Add user auth")
    leave review_request reviewer 1 "{\"spec\": \"specs/auth.md\", \"commit\": \"$id\", \"files_changed\": 1, \"tests_added\": 0}" ;;
  review_request)
    leave fix_request fixer 1 '{"issues": ["src/auth.rs:1 checks no password", "src/auth.rs:1 has no test"], "priority": "high"}'
    leave completion orchestrator 1 '{"status": "needs_fixes", "issues": 2}' ;;
  fix_request)
    echo "// the password of iteration $iteration, tested" >> src/auth.rs
    id=$(commit "Fix what the review found, iteration $iteration")
    next=$((iteration + 1))
    leave rereview_request reviewer "$next" "{\"issues_fixed\": 2, \"commits\": [\"$id\"], \"iteration\": $next}" ;;
  rereview_request)
    # Two iterations of review: one more issue, then it is fine.
    if [ "$iteration" -lt 3 ]; then
      leave fix_request fixer "$iteration" '{"issues": ["src/auth.rs:2 fails on an empty password"]}'
    else
      leave completion orchestrator "$iteration" '{"status": "approved"}'
    fi ;;
esac

# An honest agent of the relay: does its part and leaves the message that its role wants.
# `$HOME/fixes` says how many fixes the reviewer asks for, `$HOME/slow` how long each run takes, `$HOME/mode` what goes wrong.
set -eu
echo "$AGENCY_RUN $AGENCY_AGENT $AGENCY_TASK/$AGENCY_PHASE" >> "$HOME/started"
echo $$ > "$HOME/pid"
# An earlier try that was killed inside git leaves these; one run works in a tree at a time, so nobody else needs them.
rm -f .git/index.lock .git/HEAD.lock .git/refs/heads/*.lock
[ -f "$HOME/slow" ] && sleep "$(cat "$HOME/slow")"
mode=$(cat "$HOME/mode" 2> /dev/null || echo fine)
fixes=$(cat "$HOME/fixes" 2> /dev/null || echo 1)
iteration=$(sed -n 's/.*"iteration": *\([0-9]*\).*/\1/p' .claude/state.json | head -n 1)
spec=specs/auth.md

leave() {
  if [ "$mode" = cli ]; then
    "$(cat "$HOME/program")" lock run messages -- "$(cat "$HOME/program")" handoff send --type "$1" --payload "$4" > /dev/null
    return
  fi
  id=$(cat /proc/sys/kernel/random/uuid)
  printf '{"schema_version":"1.0.0","message_id":"%s","timestamp":"%s","from":"%s","to":"%s","type":"%s","priority":"medium","payload":%s,"context":{"workflow":"feature","spec":"%s","iteration":%s},"status":"pending"}' \
    "$id" "$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)" "$AGENCY_AGENT" "$2" "$1" "$4" "$spec" "$3" > ".claude/$id.tmp"
  mkdir -p .claude/handoffs/pending
  mv ".claude/$id.tmp" ".claude/handoffs/pending/$id.json"
}

commit() {
  echo "$AGENCY_RUN" >> work.txt
  git add work.txt
  git -c user.name=Agent -c user.email=agent@example.com commit --quiet --message="$1"
  git rev-parse HEAD
}

if [ "$mode" = ask ] && [ "$AGENCY_PHASE" = task_handoff ] && [ ! -e "$HOME/asked" ]; then
  : > "$HOME/asked"
  leave escalation orchestrator 1 '{"reason":"spec_ambiguity","details":"Cannot determine auth method","options":["JWT","Session","OAuth"],"context":"spec line 45","blocking":true}'
  exit 0
fi

case "$AGENCY_PHASE" in
  plan)
    mkdir -p specs && echo "# Auth" > "$spec"
    leave task_handoff builder 1 "{\"spec\":\"$spec\"}"
    leave completion orchestrator 1 "{\"status\":\"completed\",\"spec\":\"$spec\"}" ;;
  task_handoff)
    id=$(commit "the work")
    leave review_request reviewer "$iteration" "{\"spec\":\"$spec\",\"commit\":\"$id\",\"files_changed\":[\"work.txt\"],\"tests_added\":[]}" ;;
  review_request | rereview_request)
    if [ "$iteration" -le "$fixes" ]; then
      leave fix_request fixer "$iteration" '{"issues":["work.txt:1 is wrong","work.txt:2 too"]}'
      leave completion orchestrator "$iteration" '{"status":"needs_fixes","issues":2}'
    else
      leave completion orchestrator "$iteration" '{"status":"approved"}'
    fi ;;
  fix_request)
    id=$(commit "the fix of iteration $iteration")
    next=$((iteration + 1))
    leave rereview_request reviewer "$next" "{\"issues_fixed\":2,\"commits\":[\"$id\"],\"iteration\":$next}" ;;
  *) exit 9 ;;
esac

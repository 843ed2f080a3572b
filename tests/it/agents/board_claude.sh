#!/bin/sh
# A claude of the board's. As a builder it works like any other agent; as an auditor it writes nothing and speaks in the events
# of its CLI. Words in a task's title make it misbehave.
printf '%s %s\n' "$AGENCY_ROLE" "$*" | head -1 >> "$HOME/flags"
[ "$AGENCY_ROLE" = auditor ] || exec sh "$HOME/../agent.sh"
echo "$AGENCY_RUN $AGENCY_AGENT $AGENCY_ROLE $AGENCY_TASK" >> "$HOME/started"
tree=$(sed -n 's/^tree: "\(.*\)"$/\1/p')
task=$(ls .kodingx/inbox/*/*/"$AGENCY_TASK"-*.md | head -1)
says() { grep -q "^title: .*$1" "$task"; }
while [ -e "$HOME/hold-audit" ]; do sleep 0.05; done
verdict=PASS findings='[]'
if says badly && ! grep -q fixed "work/$AGENCY_TASK.txt"; then
  verdict=FAIL findings="['the marker does not say fixed']"
fi
says meddled && echo meddled >> "work/$AGENCY_TASK.txt"
says undecided && verdict=perhaps
echo '{"type":"system","subtype":"init","session_id":"s-1"}'
printf '{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"I looked.\\n\\n```markdown\\n---\\ntask_id: %s\\nagent: %s\\nverdict: %s\\nfindings: %s\\ntree: \\"%s\\"\\n---\\n\\nSaid, not written.\\n```\\n"}\n' \
  "$AGENCY_TASK" "$AGENCY_AGENT" "$verdict" "$findings" "$tree"

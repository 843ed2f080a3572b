# A scripted builder or auditor for the demo of the board: what to do follows from its branch and from what lies in its tree.
set -eu
echo "$AGENCY_ROLE: $AGENCY_TASK"
sleep 0.3
prompt=$2
# The prompt says where the answer goes.
answer() { printf '%s\n' "$prompt" | grep -o "\.kodingx/outbox/[^\`]*-$1\.md" | tail -1; }
write() {
  mkdir -p "$(dirname "$1")"
  cat > "$1"
}
named() { basename "$1" | cut -d- -f1; }
task=$(git symbolic-ref --short HEAD | sed 's,.*/,,')
work=src/$task.txt

if [ "$AGENCY_ROLE" = auditor ]; then
  path=$(answer audit) verdict=PASS findings='[]'
  # One is not good enough at first.
  if [ "$task" = T0003 ] && ! grep -q checked "$work"; then
    verdict=FAIL findings='["a refund of nothing is paid out"]'
  fi
  write "$path" <<AUDIT
---
task_id: $(named "$path")
agent: $AGENCY_AGENT
verdict: $verdict
findings: $findings
---
Seen by $AGENCY_RUN.
AUDIT
  exit 0
fi

path=$(answer report) now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
again=no
[ -e "$work" ] && again=yes
mkdir -p src
echo "$task, built by $AGENCY_AGENT" > "$work"
[ $again = yes ] && echo "checked" >> "$work"
# One leaves its scope at first.
if [ "$task" = T0002 ]; then
  if [ $again = yes ]; then git checkout --quiet HEAD -- README.md; else echo "Receipts!" >> README.md; fi
fi
write "$path" <<REPORT
---
task_id: $(named "$path")
agent: $AGENCY_AGENT
status: READY_FOR_REVIEW
started_at: $now
finished_at: $now
changes:
  files_modified: ["$work"]
commands_run: []
verification:
  dod_passed: true
risks: []
---

## Summary
Built by $AGENCY_RUN.
REPORT

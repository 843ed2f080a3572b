# A builder or an auditor of the board, by what the daemon tells it. Words in a task's title make it misbehave.
echo "$AGENCY_RUN $AGENCY_AGENT $AGENCY_ROLE $AGENCY_TASK" >> "$HOME/started"
task=$(ls .kodingx/inbox/*/*/"$AGENCY_TASK"-*.md | head -1)
stem=$(basename "$task" .md)
day=$(basename "$(dirname "$task")")
owner=$(basename "$(dirname "$(dirname "$task")")")
# A subtask goes on with the marker of the task that it puts right.
root=$(sed -n 's/^remediates: //p' "$task")
[ -n "$root" ] && cat "$task" >> "$HOME/subtasks"
root=${root:-$AGENCY_TASK}
says() { grep -q "^title: .*$1" "$task"; }
now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
[ -e .env.test ] && cat .env.test >> "$HOME/copied"
while [ -e "$HOME/wait" ]; do sleep 0.05; done
[ -e "$HOME/slow" ] && sleep "$(cat "$HOME/slow")"

if [ "$AGENCY_ROLE" = auditor ]; then
  verdict=PASS findings='[]'
  if says badly && ! grep -q fixed "work/$root.txt"; then
    verdict=FAIL findings='["the marker does not say fixed"]'
  fi
  says hopeless && verdict=FAIL findings='["it will never do"]'
  says meddled && echo meddled >> "work/$root.txt"
  mkdir -p ".kodingx/outbox/$AGENCY_AGENT/$day"
  printf -- '---\ntask_id: %s\nagent: %s\nverdict: %s\nfindings: %s\n---\n%s\n' \
    "$AGENCY_TASK" "$AGENCY_AGENT" "$verdict" "$findings" "$AGENCY_RUN" \
    > ".kodingx/outbox/$AGENCY_AGENT/$day/$stem-audit.md"
  exit 0
fi

status=READY_FOR_REVIEW reason=
again=no
[ -e "work/$root.txt" ] && again=yes
mkdir -p work
echo "$root" > "work/$root.txt"
[ $again = yes ] && echo fixed >> "work/$root.txt"
if says breach; then
  if [ $again = yes ]; then rm -f outside.txt; else echo x > outside.txt; fi
fi
if says breaks; then
  if [ $again = yes ]; then rm -f broken; else touch broken; fi
fi
if says blocked; then
  status=BLOCKED reason='reason: "no access"'
fi
says silent && exit 0
# One that commits by itself, and its own gate with it.
if says sly; then
  printf 'name: tiny\ndescription: nothing\ncommands: ["true"]\n' > .kodingx/dod/profiles/tiny.yml
  printf '# Risks\n' > .kodingx/RISKS.md
  git add -A && git -c user.name=x -c user.email=x@x commit --quiet -m "all of it"
fi
# One that changes what everybody changes, until it merges as it is told.
if says clash; then
  if [ $again = yes ]; then
    git -c user.name=x -c user.email=x@x add -A -- work
    git -c user.name=x -c user.email=x@x commit --quiet -m "mine" -- work
    git -c user.name=x -c user.email=x@x merge --quiet -X ours main >/dev/null 2>&1
  else
    echo "$root" > work/shared.txt
  fi
fi
mkdir -p ".kodingx/outbox/$owner/$day"
cat > ".kodingx/outbox/$owner/$day/$stem-report.md" <<REPORT
---
task_id: $AGENCY_TASK
agent: $owner
status: $status
started_at: $now
finished_at: $now
changes:
  files_modified: []
commands_run: []
verification:
  dod_passed: true
risks: []
$reason
---

## Summary
$AGENCY_RUN
REPORT
# A builder cannot mark its own task.
[ -e "$HOME/polite" ] || sed -i 's/^status: .*/status: DONE/' "$task"
# One that puts a link to the owner's own tree in the place of its worktree.
if says swaps && ! [ -e "$HOME/swapped" ]; then
  tree=$(pwd -P)
  touch "$HOME/swapped"
  mv "$tree" "$tree.mine"
  ln -s "$AGENCY_REPO" "$tree"
fi

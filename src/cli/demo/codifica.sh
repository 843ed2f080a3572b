# A scripted agent for the demo: it does its task, records it, and closes it by our own verbs.
set -eu
echo "$AGENCY_AGENT: $AGENCY_TASK"
sleep 0.4
agency=$1
mkdir -p menu
echo "$AGENCY_TASK, made by $AGENCY_AGENT" > "menu/$AGENCY_TASK.txt"
"$agency" work artifact "$AGENCY_TASK" --path "menu/$AGENCY_TASK.txt" --type text
case $AGENCY_TASK in
  TASTE-1) ;;
  *) "$agency" work submit "$AGENCY_TASK" --summary "made" ;;
esac
"$agency" work done "$AGENCY_TASK" --summary "$AGENCY_TASK is ready"

# A scripted agent for the demo of the ledger. It plays all five: what to do follows from what every agent is told.
set -eu
agency=$1
echo "$AGENCY_PHASE: $AGENCY_TASK"
sleep 0.2

commit() {
  git add -A
  git -c user.name="$AGENCY_AGENT" -c user.email=agent@example.com -c commit.gpgSign=false commit --quiet -m "$1"
}

branch=$(git symbolic-ref --short HEAD)
case "$AGENCY_PHASE" in
  INITIALIZER)
    cat > feature_list.json <<JSON
{"project_name": "Shop", "total_features": 5, "features": [
  {"id": "F001", "name": "Health check", "description": "Answers 200", "priority": 1, "category": "api", "test_steps": ["GET /"], "passes": false},
  {"id": "F002", "name": "Login", "description": "Name and password", "priority": 1, "category": "auth", "test_steps": [], "passes": false},
  {"id": "F003", "name": "Search", "description": "Finds things", "priority": 2, "category": "ui", "test_steps": [], "passes": false},
  {"id": "F004", "name": "Cart", "description": "Holds things", "priority": 2, "category": "ui", "test_steps": [], "passes": false},
  {"id": "F005", "name": "Checkout", "description": "Takes money", "priority": 3, "category": "ui", "test_steps": [], "passes": false}
]}
JSON
    mkdir -p src && echo "the shop" > src/shop.txt
    commit "Set up"
    ;;
  IMPLEMENT)
    mkdir -p src && echo "$AGENCY_TASK on $branch" > "src/$AGENCY_TASK.txt"
    commit "$AGENCY_TASK: first try"
    echo "test of $AGENCY_TASK" > "src/$AGENCY_TASK.test"
    commit "$AGENCY_TASK: tests"
    "$agency" progress add-session -a IMPLEMENT -s "Built $AGENCY_TASK" -o READY_FOR_REVIEW --features "$AGENCY_TASK" > session.log
    rm session.log
    ;;
  REVIEW)
    fixes=$("$agency" reviews get-fix-count "$AGENCY_TASK" | sed -n 's/FIX_COUNT: //p')
    rejected=$("$agency" reviews list | grep -c "$AGENCY_TASK - REJECT" || true)
    review() {
      "$agency" reviews add-review -a REVIEW --feature-id "$AGENCY_TASK" -b "$branch" "$@"
    }
    # One is fixed twice, one is rejected and built anew.
    if [ "$AGENCY_TASK" = F002 ] && [ "$fixes" -lt 2 ]; then
      review -v REQUEST_CHANGES -s "Not yet" --issues '{"major": [{"description": "A wrong password is let in"}]}'
    elif [ "$AGENCY_TASK" = F003 ] && [ "$rejected" = 0 ]; then
      review -v REJECT -s "Searches nothing" --issues '{"critical": [{"description": "There is no index"}]}'
    else
      review -v PASS -s "Works as described"
    fi
    ;;
  FIX)
    last=$("$agency" reviews get-last --field review_id)
    echo "fixed after review $last" >> "src/$AGENCY_TASK.txt"
    commit "$AGENCY_TASK: what review $last asked for"
    "$agency" reviews add-fix -r "$last" -b "$branch" --issues-fixed \
      "[{\"issue_id\": \"R$last-M1\", \"fix_description\": \"Checked\", \"commit\": \"$(git rev-parse --short HEAD)\"}]"
    ;;
  ARCHITECTURE)
    "$agency" reviews add-review -a ARCHITECTURE -v PASS -s "Sound" --metrics '{"test_coverage_percent": 85}'
    ;;
esac

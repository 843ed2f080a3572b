# Get full status
python3 scripts/progress.py get-status

# Get specific field
python3 scripts/progress.py get-status --field current_branch
python3 scripts/progress.py get-status --field current_feature

# Get last session or specific field
python3 scripts/progress.py get-session -1
python3 scripts/progress.py get-session -1 --field agent_type
python3 scripts/progress.py get-session -1 --field commit_range.from

# Determine review type
python3 scripts/progress.py get-review-type

# Get last review or specific field
python3 scripts/reviews.py get-last
python3 scripts/reviews.py get-last --field review_id
python3 scripts/reviews.py get-last --field verdict

# Show issues from last review (formatted)
python3 scripts/reviews.py show-issues

# Feature operations
python3 scripts/features.py next
python3 scripts/features.py next-candidates  # Get up to 15 candidates to choose from
python3 scripts/features.py get F001
python3 scripts/features.py pass F001  # Single feature
python3 scripts/features.py pass-batch "F001,F002,F003"  # Multiple features
python3 scripts/features.py stats

# Count fix attempts for current feature (use wrapper script)
python3 scripts/reviews.py get-fix-count <FEATURE_ID>

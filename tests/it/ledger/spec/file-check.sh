test -f progress.json && python3 scripts/progress.py get-status || echo "File not found"

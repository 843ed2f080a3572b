# Import from GitHub Issues
agency import --from github --repo owner/repo --label "agency"

# Import from Jira
agency import --from jira --project PROJ --status "To Do"

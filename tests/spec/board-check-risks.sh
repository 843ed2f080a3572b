agency verify --task T0007 --check-risks

# Output:
# ⚠ Risk R-001 (P0 OPEN) is linked — task cannot be marked DONE
# ✓ Risk R-004 (P2 MITIGATED) — OK
# Result: FAIL (blocking risk)

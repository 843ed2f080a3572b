agency verify --task T0007 --override --reason "Hotfix INC-1234" --followup T0008

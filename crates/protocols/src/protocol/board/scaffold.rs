//! What `agency init`, `install` and `upgrade` put into a repository (spec 2 §4, §22). Values only: it writes nothing.

use super::adapters::builder_contract;
use super::manifest::{self, Manifest};
use super::profile::{self, Profile};
use super::region::{self, Comments, Torn};
use super::state::{self, Column};
use super::table::Status;

/// A part that can be added on its own (§22.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// agency.json, inbox, outbox, STATE.md.
    Core,
    Docs,
    Risks,
    Decisions,
    DodProfiles,
    Verify,
    Agents,
    Templates,
}

impl Part {
    pub const ALL: [Self; 8] = [
        Self::Core,
        Self::Docs,
        Self::Risks,
        Self::Decisions,
        Self::DodProfiles,
        Self::Verify,
        Self::Agents,
        Self::Templates,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Docs => "docs",
            Self::Risks => "risks",
            Self::Decisions => "decisions",
            Self::DodProfiles => "dod-profiles",
            Self::Verify => "verify",
            Self::Agents => "agents",
            Self::Templates => "templates",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.word() == word)
    }
}

/// What becomes of generated files that are there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    Keep,
    /// Our own part is written anew; text that people added stays (AG-39).
    Regenerate,
}

/// Which part of a generated file is ours when it is written anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ours {
    Nothing,
    /// The header line: it follows the manifest. The rest is people's.
    Header,
    /// The block between the markers.
    Region,
    /// The fields of the manifest that we know.
    Fields,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    pub path: String,
    pub text: String,
    pub ours: Ours,
}

impl Planned {
    /// The file that lies there with our part of it written anew.
    pub fn onto(&self, old: &str, header: &str) -> Result<String, Torn> {
        match self.ours {
            Ours::Nothing => Ok(old.to_owned()),
            Ours::Header => Ok(with_header(old, header)),
            Ours::Region => self.region_in(old, header),
            Ours::Fields => Ok(manifest::with_other_fields(&self.text, old)),
        }
    }

    fn region_in(&self, old: &str, header: &str) -> Result<String, Torn> {
        let block = region::find(&self.text, Comments::Markdown).unwrap_or_default().trim_start();
        // An earlier version wrote this file without markers.
        if old.contains(manifest::GENERATED) && region::find(old, Comments::Markdown).is_none() {
            let renewed = with_header(old, header);
            return Ok(if renewed.trim_end() == block.trim_end() {
                self.text.clone()
            } else {
                renewed
            });
        }
        region::place(Some(old), "", block, Comments::Markdown)
    }
}

/// The same text with the header line of this manifest, where it has one of ours.
pub fn with_header(old: &str, header: &str) -> String {
    const LAST: &str = "license_mode=";
    let line = old.find(manifest::GENERATED).map(|start| (start, &old[start..]));
    let end = line.and_then(|(start, rest)| {
        let line = rest.lines().next().unwrap_or_default();
        let word = line.find(LAST)? + LAST.len();
        let letters = line[word..].bytes().take_while(u8::is_ascii_alphabetic).count();
        Some((start, start + word + letters))
    });
    match end {
        Some((start, end)) => format!("{}{header}{}", &old[..start], &old[end..]),
        None => old.to_owned(),
    }
}

/// The files of these parts. STATE.md is not among them: the board writes it itself; so it does TASK_BOARD.md once there are tasks.
pub fn files(manifest: &Manifest, detected: Option<&Profile>, parts: &[Part]) -> Vec<Planned> {
    let header = manifest.header();
    let mut files = Vec::new();
    let mut add = |path: &str, text: String, ours: Ours| {
        files.push(Planned { path: path.to_owned(), text, ours });
    };
    let comment = format!("<!-- {header} -->");
    for part in parts {
        match part {
            Part::Core => {
                add(manifest::PATH, manifest.render(), Ours::Fields);
                // Git keeps no empty folder, and a clone needs both.
                for folder in ["inbox", "outbox"] {
                    add(&format!(".kodingx/{folder}/.gitkeep"), String::new(), Ours::Nothing);
                }
            }
            Part::Docs => {
                let text = region::place(None, "", &protocol(&comment), Comments::Markdown);
                add(".kodingx/PROTOCOL.md", text.unwrap_or_default(), Ours::Region);
                add(state::BOARD, empty_board(manifest), Ours::Header);
            }
            Part::Risks => add(super::risks::PATH, risks(&comment), Ours::Header),
            Part::Decisions => add(super::artifact::DECISIONS, decisions(&comment), Ours::Header),
            Part::DodProfiles => {
                for profile in detected.into_iter().cloned().chain([profile::generic()]) {
                    let path = format!("{}/{}.yml", profile::FOLDER, profile.name);
                    add(&path, profile.render(&header), Ours::Header);
                }
            }
            Part::Verify => {}
            Part::Agents => {
                for agent in &manifest.builders {
                    let path = format!(".kodingx/agents/{agent}.md");
                    add(&path, builder_contract(agent, &header), Ours::Header);
                }
            }
            Part::Templates => {
                add(".kodingx/templates/task.md", task(&comment), Ours::Header);
                add(".kodingx/templates/report.md", report(&comment), Ours::Header);
                add(".kodingx/templates/audit.md", audit(&comment), Ours::Header);
            }
        }
    }
    files
}

/// The folders of these parts.
pub fn folders(manifest: &Manifest, parts: &[Part]) -> Vec<String> {
    let mut folders = Vec::new();
    for part in parts {
        match part {
            Part::Core => {
                for agent in &manifest.builders {
                    folders.push(format!(".kodingx/inbox/{agent}"));
                    folders.push(format!(".kodingx/outbox/{agent}"));
                }
                folders.extend([".kodingx/inbox".to_owned(), ".kodingx/outbox".to_owned()]);
            }
            Part::Verify => folders.push(".kodingx/verify".to_owned()),
            Part::DodProfiles => folders.push(profile::FOLDER.to_owned()),
            Part::Agents => folders.push(".kodingx/agents".to_owned()),
            Part::Templates => folders.push(".kodingx/templates".to_owned()),
            Part::Docs | Part::Risks | Part::Decisions => {}
        }
    }
    folders
}

fn empty_board(manifest: &Manifest) -> String {
    let columns = Status::ALL.map(|status| Column { status, count: 0, cards: Vec::new() });
    let board = state::board(&columns, &manifest.header(), &manifest.created_at);
    String::from_utf8(board).expect("BUG: a board is text")
}

fn protocol(comment: &str) -> String {
    format!(
        "# How we work here

{comment}

The files below `.kodingx/` are the truth about tasks. People and agents write tasks and reports; `agency` judges them.

| file | who writes it |
|---|---|
| `inbox/{{agent}}/YYYY-MM-DD/T{{ID}}-{{HHMM}}-{{slug}}.md` | orchestrator: one task, with its scope |
| `outbox/{{agent}}/YYYY-MM-DD/T{{ID}}-{{HHMM}}-{{slug}}-report.md` | the builder: what it did |
| `outbox/{{auditor}}/YYYY-MM-DD/T{{ID}}-{{HHMM}}-{{slug}}-audit.md` | the auditor: PASS or FAIL with findings |
| `verify/YYYY-MM-DD/T{{ID}}-{{HHMM}}-{{slug}}.verify.json` | `agency verify` |
| `STATE.md` (frontmatter), `TASK_BOARD.md` | `agency` only |
| `RISKS.md`, `DECISIONS.md`, `dod/profiles/*.yml` | people; `agency verify --override` appends |

NEW → ASSIGNED → IN_PROGRESS → READY_FOR_REVIEW → DONE. A builder reports READY_FOR_REVIEW or BLOCKED, never DONE. DONE needs a report
and a verify that `agency` itself ran with result pass. `agency check` says whether this repository keeps the rules.
"
    )
}

fn risks(comment: &str) -> String {
    format!(
        "# Risks

{comment}

One entry per risk. An OPEN P0 keeps linked tasks from DONE; an OPEN P1 needs an override.

```markdown
### R-001: What can go wrong
**Priority:** P0 (Critical)
**Status:** OPEN | MITIGATED | CLOSED
**Linked Tasks:** T0007, T0012
```
"
    )
}

fn decisions(comment: &str) -> String {
    format!(
        "# Decisions\n\n{comment}\n\nArchitecture and strategy, one `### ADR-NNN: title` each. Overrides of verify are recorded here.\n"
    )
}

fn task(comment: &str) -> String {
    format!(
        "---
id: T0000
title: \"One sentence\"
priority: P2
status: NEW
assignee: claude-code
created_at: 2026-01-31T16:10:00+01:00
dod_profile: auto
scope:
  must_touch: []
  may_touch:
    - \"src/**\"
  must_not_touch: []
acceptance: []
constraints: []
context_files: []
labels: []
depends_on: []
risks: []
---

{comment}

## Problem

## Expected Outcome

## Notes
"
    )
}

fn report(comment: &str) -> String {
    format!(
        "---
task_id: T0000
agent: claude-code
status: READY_FOR_REVIEW
started_at: 2026-01-31T16:12:00+01:00
finished_at: 2026-01-31T16:45:00+01:00
changes:
  files_modified: []
commands_run: []
verification:
  dod_passed: # true or false: did the checks pass?
risks: []
---

{comment}

## Summary

## Evidence

## Follow-ups
"
    )
}

fn audit(comment: &str) -> String {
    format!(
        "---\ntask_id: T0000\nagent: gemini\nverdict: PASS\nfindings: []\n---\n\n{comment}\n\n## Review\n"
    )
}

/// `.github/workflows/agency.yml`, only on request (AG-22).
pub fn workflow(header: &str) -> String {
    format!(
        "# {header}
name: agency
on: [push, pull_request]
permissions:
  contents: read
jobs:
  check:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      # The repository variable AGENCY_SOURCE is the git URL of agency's source.
      - name: Install agency
        run: cargo install --locked --git \"${{{{ vars.AGENCY_SOURCE }}}}\" agency
      - name: Does the board keep its rules?
        run: agency check
"
    )
}

pub const WORKFLOW: &str = ".github/workflows/agency.yml";

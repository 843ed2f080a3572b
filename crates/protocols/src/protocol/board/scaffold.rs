//! What `agency init`, `install` and `upgrade` put into a repository (spec 2 §4, §22). Values only: it writes nothing.

use super::adapters::builder_contract;
use super::manifest::{self, Manifest};
use super::profile::{self, Profile};
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

/// What becomes of a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It is people's by now.
    Keep,
    /// It is generated; a new generation replaces it.
    Regenerate,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    pub path: String,
    pub text: String,
    pub existing: Existing,
}

/// The files of these parts. STATE.md is not among them: the board writes it itself; so it does TASK_BOARD.md once there are tasks.
pub fn files(manifest: &Manifest, detected: Option<&Profile>, parts: &[Part]) -> Vec<Planned> {
    let header = manifest.header();
    let mut files = Vec::new();
    let mut add = |path: &str, text: String, existing: Existing| {
        files.push(Planned { path: path.to_owned(), text, existing });
    };
    let comment = format!("<!-- {header} -->");
    for part in parts {
        match part {
            Part::Core => {
                add(manifest::PATH, manifest.render(), Existing::Regenerate);
                // Git keeps no empty folder, and a clone needs both.
                for folder in ["inbox", "outbox"] {
                    add(&format!(".kodingx/{folder}/.gitkeep"), String::new(), Existing::Keep);
                }
            }
            Part::Docs => {
                add(".kodingx/PROTOCOL.md", protocol(&comment), Existing::Regenerate);
                add(state::BOARD, empty_board(manifest), Existing::Keep);
            }
            Part::Risks => add(super::risks::PATH, risks(&comment), Existing::Keep),
            Part::Decisions => add(super::artifact::DECISIONS, decisions(&comment), Existing::Keep),
            Part::DodProfiles => {
                for profile in detected.into_iter().cloned().chain([profile::generic()]) {
                    let path = format!("{}/{}.yml", profile::FOLDER, profile.name);
                    add(&path, profile.render(&header), Existing::Keep);
                }
            }
            Part::Verify => {}
            Part::Agents => {
                for agent in &manifest.builders {
                    let path = format!(".kodingx/agents/{agent}.md");
                    add(&path, builder_contract(agent, &header), Existing::Keep);
                }
            }
            Part::Templates => {
                add(".kodingx/templates/task.md", task(&comment), Existing::Regenerate);
                add(".kodingx/templates/report.md", report(&comment), Existing::Regenerate);
                add(".kodingx/templates/audit.md", audit(&comment), Existing::Regenerate);
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
  dod_passed: true
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
      - name: Does the board keep its rules?
        run: agency check
"
    )
}

pub const WORKFLOW: &str = ".github/workflows/agency.yml";

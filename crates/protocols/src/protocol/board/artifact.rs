//! The verify artifact (spec 2 §11.1, §20.3, §21.5) and the decision record of an override (§20.4). It writes nothing.

use super::names::{TaskId, Zone};
use super::region;
use super::risks::RiskCheck;
use crate::model::{RelPath, Timestamp, clip};
use serde::{Deserialize, Serialize};

/// Where artifacts lie, and how their names end.
pub const FOLDER: &str = ".kodingx/verify";
pub const ENDING: &str = ".verify.json";
pub const DECISIONS: &str = ".kodingx/DECISIONS.md";
/// The exit code of a command that passed its limit (AG-31), as `timeout` has it.
pub const TIMED_OUT: i32 = 124;
/// The exit code of a command that could not be started or was ended otherwise.
pub const NOT_RUN: i32 = 126;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    pub protocol: String,
    pub task_id: TaskId,
    /// §21.5 shows an artifact without this and the next, §20.3 one without notes: such are read too.
    #[serde(default)]
    pub timestamp: String,
    #[serde(default)]
    pub dod_profile: String,
    pub result: Passed,
    #[serde(default, rename = "override", skip_serializing_if = "Option::is_none")]
    pub overridden: Option<Override>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_check: Option<RiskCheck>,
    /// Gates that the change loosened (AG-18); only the owner may pass it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weakened: Vec<String>,
    #[serde(default)]
    pub commands: Vec<Ran>,
    #[serde(default)]
    pub notes: Vec<String>,
    /// The tree that was verified, where there is git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Passed {
    Pass,
    Fail,
}

impl Passed {
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    pub cmd: String,
    pub exit_code: i32,
    pub duration_ms: u64,
}

impl Ran {
    /// How it ended, for people.
    pub fn words(&self) -> String {
        let cmd = clip(&self.cmd, 80);
        match self.exit_code {
            TIMED_OUT => {
                let seconds = self.duration_ms / 1000;
                let after = if seconds > 0 { format!(" after {seconds} s") } else { String::new() };
                format!("`{cmd}` was stopped{after}, at its time limit")
            }
            NOT_RUN => format!("`{cmd}` could not be run, or was stopped"),
            code => format!("`{cmd}` ended with exit code {code}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    pub approved: bool,
    pub approver: String,
    pub reason: String,
    pub decision_ref: String,
    pub followup_task: TaskId,
}

impl Artifact {
    pub fn render(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("BUG: an artifact is plain data");
        bytes.push(b'\n');
        bytes
    }

    /// DONE may follow, as far as the artifact goes.
    pub fn allows_done(&self) -> bool {
        let risky =
            self.risk_check.as_ref().is_some_and(|check| !check.override_required.is_empty());
        let clean = self.result == Passed::Pass && self.weakened.is_empty() && !risky;
        let overridden = self.overridden.as_ref().is_some_and(|by| by.approved);
        clean || (overridden && self.blocking_risk().is_none())
    }

    /// §21.4: why the task cannot be DONE, which no override changes (AG-20).
    pub fn blocking_risk(&self) -> Option<&str> {
        self.risk_check.as_ref()?.blocking_reason.as_deref()
    }

    /// What an override of this artifact passes over.
    pub fn bypassed(&self) -> Bypassed {
        let p1 = self.risk_check.as_ref().and_then(|check| check.override_required.first());
        if self.result == Passed::Fail {
            Bypassed::Dod
        } else if let Some(id) = p1 {
            Bypassed::Risk(id.clone())
        } else if !self.weakened.is_empty() {
            Bypassed::Gates
        } else {
            Bypassed::Other
        }
    }

    /// Why it does not, in words.
    pub fn objection(&self) -> Option<String> {
        if self.allows_done() {
            return None;
        }
        let failed = self.commands.iter().find(|ran| ran.exit_code != 0);
        let risk = self.risk_check.as_ref().and_then(|check| check.blocking_reason.clone());
        let p1 = self.risk_check.as_ref().and_then(|check| check.override_required.first());
        Some(match (failed, risk, p1) {
            (Some(ran), ..) => ran.words(),
            (None, Some(reason), _) => reason,
            (None, None, Some(id)) => format!("{id} is P1 OPEN — DONE needs an override"),
            (None, None, None) if !self.weakened.is_empty() => {
                format!("the change loosens its own gates: {}", self.weakened.join(", "))
            }
            (None, None, None) => {
                self.notes.first().cloned().unwrap_or_else(|| "nothing was checked".to_owned())
            }
        })
    }
}

/// `.kodingx/verify/{date}/{stem}.verify.json`.
pub fn path(stem: &str, zone: Zone, at: Timestamp) -> String {
    format!(".kodingx/verify/{}/{stem}.verify.json", zone.date(at))
}

/// Whose artifact a path is, by its file name.
pub fn task_of(path: &RelPath) -> Option<TaskId> {
    TaskId::parse(path.file_name().split(['-', '.']).next()?)
}

/// Where an earlier artifact of the same day is kept.
pub fn earlier(path: &str, timestamp: &str) -> String {
    let digits: String = timestamp.chars().filter(char::is_ascii_digit).skip(8).take(6).collect();
    path.replace(".verify.json", &format!(".{digits}.verify.json"))
}

/// `ADR-015`: one more than the highest there is.
pub fn next_decision(text: &str) -> String {
    let numbers = text.lines().filter_map(|line| {
        let rest = line.trim().strip_prefix("### ADR-")?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
    });
    format!("ADR-{:03}", numbers.max().unwrap_or(0) + 1)
}

/// What an override passes over, so that its record says what is true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bypassed {
    /// A command of the profile failed, or nothing was checked.
    Dod,
    /// A P1 risk that is OPEN.
    Risk(String),
    /// The change loosens its own gates.
    Gates,
    /// This verify passed; the owner passes over what the board asked them about.
    Other,
}

impl Bypassed {
    /// `**Override Type:**` of §20.4.
    fn kind(&self) -> &'static str {
        match self {
            Self::Dod => "DoD Bypass",
            Self::Risk(_) => "Risk Acceptance",
            Self::Gates => "Gate Change",
            Self::Other => "Review Bypass",
        }
    }

    fn although(&self) -> String {
        match self {
            Self::Dod => "its Definition of Done did not pass".to_owned(),
            Self::Risk(id) => format!("the P1 risk {id} is OPEN; its Definition of Done passed"),
            Self::Gates => {
                "the change loosens its own gates; the commands that ran passed".to_owned()
            }
            Self::Other => "the board had asked the owner about it; this verify passed".to_owned(),
        }
    }
}

/// An override as DECISIONS.md records it, with every field of §20.4.
pub struct Decision<'a> {
    pub task: &'a TaskId,
    pub by: &'a Override,
    pub bypassed: &'a Bypassed,
    pub date: &'a str,
    pub failed: &'a str,
    pub risk: &'a str,
}

impl Decision<'_> {
    pub fn append_to(&self, text: &str) -> String {
        let Override { approver, reason, decision_ref, followup_task, .. } = self.by;
        let (task, reason) = (self.task, clip(reason, 500));
        let entry = format!(
            "### {decision_ref}: Override {task}: {title}\n\n\
             **Date:** {date}\n**Status:** Accepted\n**Override Type:** {kind}\n\n\
             **Context:**\n{reason}\nVerify said: {failed}.\n\n\
             **Decision:**\nApproved {task} although {although}.\n\n\
             **Consequences:**\n- {task} may be marked DONE\n- Follow-up task {followup_task} is to put it right\n\
             - Technical debt added to RISKS.md ({risk})\n\n\
             **Approver:** {approver}\n",
            title = clip(&reason, 80),
            kind = self.bypassed.kind(),
            although = self.bypassed.although(),
            date = self.date,
            failed = clip(self.failed, 200),
            risk = self.risk,
            approver = clip(approver, 120),
        );
        let entry = entry.replace('\n', region::newline_of(text));
        format!("{text}{}{entry}", region::gap(text))
    }
}

//! `RISKS.md` (spec 2 §21): the register read, and what a task's risks mean for DONE. It reads no file itself.

use super::names::TaskId;
use super::region;
use super::task::Priority;
use crate::model::clip;
use serde::{Deserialize, Serialize};

pub const PATH: &str = ".kodingx/RISKS.md";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RiskStatus {
    Open,
    Mitigated,
    Closed,
}

impl RiskStatus {
    const ALL: [Self; 3] = [Self::Open, Self::Mitigated, Self::Closed];

    pub fn word(self) -> &'static str {
        match self {
            Self::Open => "OPEN",
            Self::Mitigated => "MITIGATED",
            Self::Closed => "CLOSED",
        }
    }
}

/// One entry. What cannot be read is `None`, and counts as the worst.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Risk {
    pub id: String,
    pub title: String,
    pub priority: Option<Priority>,
    pub status: Option<RiskStatus>,
    pub linked: Vec<TaskId>,
    pub line: u64,
}

impl Risk {
    /// Which line is missing or cannot be read.
    pub fn lacks(&self) -> &'static str {
        match (self.priority, self.status) {
            (None, None) => "has no **Priority:** (P0 to P3) and no **Status:** line",
            (None, Some(_)) => "has no **Priority:** line (P0 to P3)",
            (Some(_), None) => "has no **Status:** line (OPEN, MITIGATED or CLOSED)",
            (Some(_), Some(_)) => "is complete",
        }
    }
}

/// `### R-001: title` and the bold fields below it; fenced text is an example, not an entry.
pub fn parse(text: &str) -> Vec<Risk> {
    let mut risks: Vec<Risk> = Vec::new();
    let (mut fenced, mut inside) = (false, false);
    for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            fenced = !fenced;
        } else if fenced {
        } else if line.starts_with('#') {
            // Any heading ends the entry above it: its fields are somebody else's.
            let risk = line.strip_prefix("### ").and_then(|heading| begin(heading, at as u64 + 1));
            inside = risk.is_some();
            risks.extend(risk);
        } else if let Some(risk) = risks.last_mut().filter(|_| inside) {
            read_field(risk, line);
        }
    }
    risks
}

fn begin(heading: &str, line: u64) -> Option<Risk> {
    let (id, title) = heading.split_once(':')?;
    let id = super::task::risk_id(id.trim())?;
    let title = clip(title.trim(), 200);
    Some(Risk { id, title, priority: None, status: None, linked: Vec::new(), line })
}

fn read_field(risk: &mut Risk, line: &str) {
    let line = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).unwrap_or(line);
    let field = |name: &str| {
        let rest = line.strip_prefix(&format!("**{name}:**"))?;
        Some(rest.trim())
    };
    let word = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
    if let Some(text) = field("Priority") {
        risk.priority = Priority::parse(&word(text));
    } else if let Some(text) = field("Status") {
        // The template's `OPEN | MITIGATED | CLOSED` says nothing yet.
        let known = RiskStatus::ALL.into_iter().find(|status| status.word() == word(text));
        risk.status = known.filter(|_| !text.contains('|'));
    } else if let Some(text) = field("Linked Tasks") {
        risk.linked = text.split([',', ' ']).filter_map(|id| TaskId::parse(id.trim())).collect();
    }
}

/// §21.4, one risk; the heaviest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    Fail,
    /// DONE needs an override.
    Warn,
    Pass,
}

fn weight(risk: &Risk) -> Weight {
    match (risk.status, risk.priority) {
        (Some(RiskStatus::Mitigated | RiskStatus::Closed), Some(_)) => Weight::Pass,
        (Some(RiskStatus::Open), Some(Priority::P1)) => Weight::Warn,
        (Some(RiskStatus::Open), Some(Priority::P2 | Priority::P3)) => Weight::Pass,
        (Some(RiskStatus::Open), Some(Priority::P0)) | (None, _) | (_, None) => Weight::Fail,
    }
}

/// `risk_check` of the verify artifact (§21.5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RiskCheck {
    pub linked_risks: Vec<String>,
    pub blocking_risks: Vec<String>,
    /// P1 risks that are OPEN: DONE needs an override.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub override_required: Vec<String>,
    pub blocking_reason: Option<String>,
    /// §21.6, for people.
    #[serde(skip)]
    pub lines: Vec<String>,
}

/// Links of the task and of the register both count; an id that is not in the register fails.
pub fn check(task: &TaskId, named: &[String], register: &[Risk]) -> RiskCheck {
    let mut ids: Vec<String> = named.to_vec();
    let linked = register.iter().filter(|risk| risk.linked.contains(task));
    ids.extend(linked.map(|risk| risk.id.clone()));
    ids.sort();
    ids.dedup();
    let mut check = RiskCheck::default();
    for id in ids {
        // Two entries of one id contradict each other; the worse one counts.
        let risk = register.iter().filter(|risk| risk.id == id).min_by_key(|risk| weight(risk));
        judge(&mut check, &id, risk);
        check.linked_risks.push(id);
    }
    check
}

fn judge(check: &mut RiskCheck, id: &str, risk: Option<&Risk>) {
    let Some(risk) = risk else {
        check.lines.push(format!("⚠ Risk {id} is not in RISKS.md — task cannot be marked DONE"));
        block(check, id, format!("{id} is not in RISKS.md — add it before DONE"));
        return;
    };
    let (Some(priority), Some(status)) = (risk.priority, risk.status) else {
        let lacks = risk.lacks();
        check.lines.push(format!("⚠ Risk {id} {lacks} — task cannot be marked DONE"));
        block(check, id, format!("{id} in RISKS.md {lacks}"));
        return;
    };
    let (priority, status) = (priority.word(), status.word());
    match weight(risk) {
        Weight::Fail => {
            check.lines.push(format!(
                "⚠ Risk {id} ({priority} {status}) is linked — task cannot be marked DONE"
            ));
            block(check, id, format!("{id} is {priority} {status} — resolve before DONE"));
        }
        Weight::Warn => {
            check.lines.push(format!(
                "⚠ WARN: Risk {id} ({priority} {status}) is linked — DONE needs an override"
            ));
            check.override_required.push(id.to_owned());
        }
        Weight::Pass => check.lines.push(format!("✓ Risk {id} ({priority} {status}) — OK")),
    }
}

fn block(check: &mut RiskCheck, id: &str, reason: String) {
    check.blocking_risks.push(id.to_owned());
    check.blocking_reason.get_or_insert(reason);
}

/// A new entry at the end of the register; returns its id and the new text.
pub fn append(text: &str, title: &str, task: &TaskId) -> (String, String) {
    let highest = parse(text).iter().filter_map(|risk| risk.id[2..].parse::<u64>().ok()).max();
    let id = format!("R-{:03}", highest.unwrap_or(0) + 1);
    let gap = region::gap(text);
    let entry = format!(
        "### {id}: {}\n**Priority:** P2 (Medium)\n**Status:** OPEN\n**Linked Tasks:** {task}\n",
        clip(title, 160)
    );
    let entry = entry.replace('\n', region::newline_of(text));
    (id, format!("{text}{gap}{entry}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register(entries: &[(&str, &str, &str, &str)]) -> String {
        let entry = |(id, priority, status, tasks): &(&str, &str, &str, &str)| {
            format!(
                "### {id}: A risk\n**Priority:** {priority}\n**Status:** {status}\n**Linked Tasks:** {tasks}\n\n"
            )
        };
        format!(
            "# Risks\n\n```\n### R-900: example\n```\n\n{}",
            entries.iter().map(entry).collect::<String>()
        )
    }

    // covers: AG-20
    #[test]
    fn the_table_of_21_4_holds_row_by_row() {
        let task = TaskId::sequential(7);
        for (priority, status, weight) in [
            ("P0 (Critical)", "OPEN", "fail"),
            ("P1 (High)", "OPEN", "warn"),
            ("P2", "OPEN", "pass"),
            ("P3", "OPEN", "pass"),
            ("P0", "MITIGATED", "pass"),
            ("P1", "CLOSED", "pass"),
            ("P0", "OPEN | MITIGATED | CLOSED", "fail"),
            ("", "OPEN", "fail"),
        ] {
            let text = register(&[("R-001", priority, status, "")]);
            let check = check(&task, &["R-001".to_owned()], &parse(&text));
            let found = match (check.blocking_risks.is_empty(), check.override_required.is_empty())
            {
                (false, _) => "fail",
                (true, false) => "warn",
                (true, true) => "pass",
            };
            assert_eq!(found, weight, "{priority} {status}");
        }
    }

    // covers: AG-20
    #[test]
    fn both_links_count_and_an_unknown_id_fails() {
        let task = TaskId::sequential(7);
        let text = register(&[
            ("R-001", "P0 (Critical)", "OPEN", "T0007, T0012"),
            ("R-004", "P2", "MITIGATED", ""),
        ]);
        let check = check(&task, &["R-004".to_owned(), "R-099".to_owned()], &parse(&text));
        assert_eq!(check.linked_risks, ["R-001", "R-004", "R-099"]);
        assert_eq!(check.blocking_risks, ["R-001", "R-099"]);
        assert_eq!(
            check.blocking_reason.as_deref(),
            Some("R-001 is P0 OPEN — resolve before DONE")
        );
        assert_eq!(check.lines[0], "⚠ Risk R-001 (P0 OPEN) is linked — task cannot be marked DONE");
        assert_eq!(check.lines[1], "✓ Risk R-004 (P2 MITIGATED) — OK");
    }

    // covers: AG-20
    #[test]
    fn another_heading_or_a_second_entry_loosens_nothing() {
        let task = TaskId::sequential(7);
        let text = register(&[("R-001", "P0", "OPEN", "")]);
        for more in [
            "### How we close risks\n**Status:** CLOSED\n",
            "## Notes\n**Status:** CLOSED\n",
            "### R-001: Again\n**Priority:** P0\n**Status:** CLOSED\n",
            "~~~\n### R-001: In an example\n**Priority:** P3\n**Status:** CLOSED\n~~~\n",
        ] {
            for text in [format!("{text}{more}"), format!("{more}\n{text}")] {
                let check = check(&task, &["R-001".to_owned()], &parse(&text));
                assert_eq!(check.blocking_risks, ["R-001"], "{text}");
            }
        }
        let listed =
            "### R-002: x\n- **Priority:** P2\n- **Status:** OPEN\n- **Linked Tasks:** T0007\n";
        assert_eq!(parse(listed)[0].linked, [task]);
    }

    #[test]
    fn a_new_risk_gets_the_next_number() {
        let (id, text) =
            append(&register(&[("R-011", "P2", "OPEN", "")]), "debt", &TaskId::sequential(7));
        assert_eq!(id, "R-012");
        assert_eq!(parse(&text).last().unwrap().linked, [TaskId::sequential(7)]);
    }
}

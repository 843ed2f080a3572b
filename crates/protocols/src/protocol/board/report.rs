//! What builders and auditors write (spec 2 §7, AG-10): bytes → report or audit, or every problem with its line.
//! Whether it is its author's turn is not known here.

use super::front::{self, Fields};
use super::names::{DocumentKind, DocumentPath, TaskId, Zone, is_agent, same_agent};
use crate::model::{Digest, Rejection, RelPath, clip};
use chrono::{DateTime, FixedOffset};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportStatus {
    ReadyForReview,
    Blocked,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub task_id: TaskId,
    pub agent: String,
    pub says: ReportStatus,
    pub started_at: DateTime<FixedOffset>,
    pub finished_at: DateTime<FixedOffset>,
    /// A claim; what really changed is git's to say.
    pub files_modified: Vec<String>,
    pub commands_run: Vec<String>,
    /// A claim.
    pub dod_passed: bool,
    pub risks: Vec<String>,
    /// Why it is BLOCKED.
    pub reason: Option<String>,
    pub follow_ups: Vec<String>,
    pub body: String,
}

const RULE: &str = "AG-07";

pub fn parse(bytes: &[u8], path: &RelPath) -> Result<Report, Vec<Rejection>> {
    parse_in(bytes, path, Zone::UTC)
}

/// Times without a zone are in the board's.
pub fn parse_in(bytes: &[u8], path: &RelPath, zone: Zone) -> Result<Report, Vec<Rejection>> {
    let digest = Digest::of(bytes);
    let front = front::read(bytes, RULE, path).map_err(|p| vec![p.with_digest(&digest)])?;
    let mut fields = Fields::new(RULE, path, &front.root, 1);
    let task_id = fields.one_of("task_id", "an id such as T0001", TaskId::parse);
    let agent = fields.one_of("agent", "an agent's name", name);
    let says = fields.one_of("status", "READY_FOR_REVIEW or BLOCKED", |word| match word {
        "READY_FOR_REVIEW" => Some(ReportStatus::ReadyForReview),
        "BLOCKED" => Some(ReportStatus::Blocked),
        _ => None,
    });
    let started_at = fields.time("started_at", zone);
    let finished_at = fields.time("finished_at", zone);
    if let (Some(start), Some(end)) = (started_at, finished_at)
        && end < start
    {
        fields.refuse_at("finished_at", "a time before started_at", "an end after the start");
    }
    let files_modified = fields.needed_list("changes.files_modified");
    let commands_run = fields.needed_list("commands_run");
    let dod_passed = fields.truth("verification.dod_passed");
    let risks = fields.needed_list("risks");
    let reason = reason(&front);
    if says == Some(ReportStatus::Blocked) && reason.is_none() {
        let wanted = "`reason:` or a section `## Blocked` that says why (AG-30)";
        fields.refuse_at("status", "BLOCKED without a reason", wanted);
    }
    check_place(&mut fields, path, DocumentKind::Report, task_id.as_ref(), agent.as_deref());
    let mut follow_ups = fields.list("follow_ups");
    follow_ups.extend(listed(&front));
    fields.finish(&digest)?;
    let whole = (task_id, agent, says, started_at, finished_at, dod_passed);
    let (
        Some(task_id),
        Some(agent),
        Some(says),
        Some(started_at),
        Some(finished_at),
        Some(dod_passed),
    ) = whole
    else {
        unreachable!("BUG: a field that is missing is a problem")
    };
    let body = front.body.to_owned();
    Ok(Report {
        task_id,
        agent,
        says,
        started_at,
        finished_at,
        files_modified,
        commands_run,
        dod_passed,
        risks,
        reason,
        follow_ups,
        body,
    })
}

fn name(text: &str) -> Option<String> {
    is_agent(text).then(|| text.to_owned())
}

fn reason(front: &front::Front<'_>) -> Option<String> {
    let field = front.root.get("reason").and_then(|node| node.text());
    let section = || {
        ["Blocked", "Reason", "Blockers"].iter().find_map(|name| front::section(front.body, name))
    };
    let text = field.or_else(section)?.trim();
    (!text.is_empty()).then(|| clip(text, 2000))
}

/// `## Follow-ups` with a list: each item is a request (AG-30).
fn listed(front: &front::Front<'_>) -> Vec<String> {
    let text = front::section(front.body, "Follow-ups").unwrap_or_default();
    let item = |line: &str| {
        let item = line.trim().strip_prefix(['-', '*'])?.trim();
        let nothing = ["none", "none.", "n/a", ""].contains(&item.to_ascii_lowercase().as_str());
        (!nothing).then(|| clip(item, 300))
    };
    text.lines().filter_map(item).take(20).collect()
}

fn check_place(
    fields: &mut Fields<'_>,
    path: &RelPath,
    kind: DocumentKind,
    id: Option<&TaskId>,
    agent: Option<&str>,
) {
    let Some(place) = DocumentPath::parse(path.as_str()).filter(|place| place.kind == kind) else {
        let wanted = ".kodingx/outbox/{agent}/{YYYY-MM-DD}/T{ID}-{HHMM}-{slug}-report.md (audits: -audit.md)";
        fields.refuse(0, format!("the path `{}`", clip(path.as_str(), 160)), wanted);
        return;
    };
    if id.is_some_and(|id| *id != place.id) {
        let wanted = format!("the file's `{}`", place.id);
        fields.refuse_at("task_id", "another id than the file name's", &wanted);
    }
    if agent.is_some_and(|agent| !same_agent(agent, &place.agent)) {
        let wanted = format!("the folder's `{}`", place.agent);
        fields.refuse_at("agent", "another agent than the folder's", &wanted);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    Fail,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Audit {
    pub task_id: TaskId,
    pub agent: String,
    pub verdict: Verdict,
    pub findings: Vec<String>,
    /// The tree that the auditor saw, where it says so.
    pub tree: Option<String>,
    /// The audit that was asked for, where it says so.
    pub asked: Option<String>,
}

impl Audit {
    /// AG-34: a verdict that names its tree counts for that tree only.
    pub fn is_of(&self, tree: Option<&str>) -> bool {
        self.tree.is_none() || self.tree.as_deref() == tree
    }
}

/// SPEC GAP: §3.5 asks for an auditor and gives it no file; AG-10 does.
pub fn parse_audit(bytes: &[u8], path: &RelPath) -> Result<Audit, Vec<Rejection>> {
    const RULE: &str = "AG-10";
    let digest = Digest::of(bytes);
    let front = front::read(bytes, RULE, path).map_err(|p| vec![p.with_digest(&digest)])?;
    let mut fields = Fields::new(RULE, path, &front.root, 1);
    let task_id = fields.one_of("task_id", "an id such as T0001", TaskId::parse);
    let agent = fields.one_of("agent", "an agent's name", name);
    let verdict = fields.one_of("verdict", "PASS or FAIL", |word| match word {
        "PASS" => Some(Verdict::Pass),
        "FAIL" => Some(Verdict::Fail),
        _ => None,
    });
    let findings = fields.needed_list("findings");
    if verdict == Some(Verdict::Fail) && findings.is_empty() {
        fields.refuse_at("findings", "a FAIL without findings", "what the builder must put right");
    }
    let tree = front.root.get("tree").and_then(|node| node.text()).map(str::to_owned);
    let asked = front.root.get("audit").and_then(|node| node.text()).map(str::to_owned);
    check_place(&mut fields, path, DocumentKind::Audit, task_id.as_ref(), agent.as_deref());
    fields.finish(&digest)?;
    let (Some(task_id), Some(agent), Some(verdict)) = (task_id, agent, verdict) else {
        unreachable!("BUG: a field that is missing is a problem")
    };
    Ok(Audit { task_id, agent, verdict, findings, tree, asked })
}

//! The spec's own examples are read and come out as the spec shows; everything else is refused with its lines.

use agency::model::RelPath;
use agency::protocol::board::names::{TaskId, Zone};
use agency::protocol::board::scope::Scope;
use agency::protocol::board::table::Status;
use agency::protocol::board::task::{self, NewTask, Priority};
use agency::protocol::board::{artifact, manifest, profile, report, risks, state};
use proptest::prelude::*;

const TASK: &str = include_str!("../../spec/board-task.md");
const REPORT: &str = include_str!("../../spec/board-report.md");
const STATE: &str = include_str!("../../spec/board-state.md");

fn task_path() -> RelPath {
    RelPath::fixed(".kodingx/inbox/claude-code/2026-01-31/T0007-1610-fix-vat.md")
}

fn report_path() -> RelPath {
    RelPath::fixed(".kodingx/outbox/claude-code/2026-01-31/T0007-1610-fix-vat-report.md")
}

fn words(problems: Vec<agency::model::Rejection>) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

// covers: AG-06, AG-27
#[test]
fn the_specs_task_is_read_whole() {
    let task = task::parse(TASK.as_bytes(), &task_path()).map_err(words).unwrap();
    assert_eq!(
        (task.id.as_str(), task.priority, task.status),
        ("T0007", Priority::P1, Status::New)
    );
    assert_eq!(task.scope.must_not_touch, ["db/migrations/**"]);
    assert_eq!((task.acceptance.len(), task.labels.len(), task.context_files.len()), (2, 2, 1));
    // The same in the other spelling of the agent's folder, with CRLF and a BOM.
    let other = RelPath::fixed(".kodingx/inbox/claude_code/2026-01-31/T0007-1610-fix-vat.md");
    let crlf = format!("\u{feff}{}", TASK.replace('\n', "\r\n"));
    assert_eq!(task::parse(crlf.as_bytes(), &other).map_err(words).unwrap().title, task.title);
}

// covers: AG-06
#[test]
fn every_problem_of_a_task_is_listed_with_its_line() {
    let text = TASK
        .replace("id: T0007", "id: T0008")
        .replace("priority: P1", "priority: high")
        .replace("assignee: claude-code", "assignee: codex")
        .replace("created_at: 2026-01-31T16:10:00+01:00", "created_at: yesterday")
        .replace("  must_not_touch:", "  must_not_tuoch:")
        .replace("labels: [\"bug\", \"accounting\"]", "labels: bug\ndepends_on: [T1]")
        .replace("title: \"Fix VAT rounding in invoice totals\"\n", "");
    let problems = words(task::parse(text.as_bytes(), &task_path()).unwrap_err());
    for (line, found) in [
        (2, "id: another id"),
        (2, "no `title`"),
        (3, "priority: `high`"),
        (5, "assignee: another agent"),
        (6, "created_at: `yesterday`"),
        (13, "must_not_tuoch"),
        (22, "labels: `bug`"),
        (23, "depends_on: `T1`"),
    ] {
        let hit = problems
            .iter()
            .any(|p| p.contains(&format!("fix-vat.md:{line} ")) && p.contains(found));
        assert!(hit, "no {found} on line {line} in {problems:#?}");
    }
    assert_eq!(problems.len(), 8, "{problems:#?}");
}

// covers: AG-06, DM-12
#[test]
fn hostile_frontmatter_is_refused_and_never_hangs() {
    let bomb = format!("---\na: &a [x]\nb: [{}]\n---\n", vec!["*a"; 1000].join(", "));
    for text in [
        "",
        "---",
        "---\n",
        "no frontmatter",
        "---\n- a list\n---\n",
        "---\nid: [\n---\n",
        "---\nid: T0007\nid: T0007\n---\n",
        &bomb,
    ] {
        let problems = task::parse(text.as_bytes(), &task_path()).unwrap_err();
        assert!(problems.iter().all(|problem| problem.line.is_some()), "{text:?}");
    }
    assert!(task::parse(b"---\nid: \xff\n---\n", &task_path()).is_err());
}

// covers: AG-07
#[test]
fn the_specs_report_is_read_and_its_mistakes_are_named() {
    let report = report::parse(REPORT.as_bytes(), &report_path()).map_err(words).unwrap();
    assert_eq!(
        (report.task_id.as_str(), report.files_modified.len(), report.dod_passed),
        ("T0007", 2, true)
    );
    let text = REPORT
        .replace("status: READY_FOR_REVIEW", "status: DONE")
        .replace("finished_at: 2026-01-31T16:45:00+01:00", "finished_at: 2026-01-31T16:05:00+01:00")
        .replace("  dod_passed: true", "  dod_passed: yes")
        .replace("agent: claude-code", "agent: codex");
    let problems = words(report::parse(text.as_bytes(), &report_path()).unwrap_err());
    for found in ["status: `DONE`", "before started_at", "dod_passed: `yes`", "another agent"] {
        assert!(
            problems.iter().any(|problem| problem.contains(found)),
            "no {found} in {problems:#?}"
        );
    }
}

// covers: AG-30
#[test]
fn blocked_needs_a_reason_and_follow_ups_are_found() {
    let blocked = REPORT.replace("READY_FOR_REVIEW", "BLOCKED");
    let problems = words(report::parse(blocked.as_bytes(), &report_path()).unwrap_err());
    assert!(problems[0].contains("BLOCKED without a reason"), "{problems:#?}");
    let field = blocked.replace("risks:", "reason: \"no access\"\nrisks:");
    assert_eq!(
        report::parse(field.as_bytes(), &report_path()).unwrap().reason.unwrap(),
        "no access"
    );
    let section = format!("{blocked}\n## Blocked\nNo access to the database.\n");
    assert!(
        report::parse(section.as_bytes(), &report_path())
            .unwrap()
            .reason
            .unwrap()
            .contains("database")
    );
    let more = REPORT.replace("If any.", "- Round the discounts too\n- none");
    assert_eq!(
        report::parse(more.as_bytes(), &report_path()).unwrap().follow_ups,
        ["Round the discounts too"]
    );
}

// covers: AG-10
#[test]
fn an_audit_says_pass_or_fail_with_findings() {
    let path = RelPath::fixed(".kodingx/outbox/gemini/2026-01-31/T0007-1610-fix-vat-audit.md");
    let audit = |verdict: &str, findings: &str| {
        let text = format!(
            "---\ntask_id: T0007\nagent: gemini\nverdict: {verdict}\nfindings: {findings}\n---\n"
        );
        report::parse_audit(text.as_bytes(), &path).map_err(words)
    };
    assert_eq!(audit("PASS", "[]").unwrap().verdict, report::Verdict::Pass);
    assert_eq!(audit("FAIL", "[\"case 4 is wrong\"]").unwrap().findings.len(), 1);
    assert!(audit("FAIL", "[]").unwrap_err()[0].contains("without findings"));
    assert!(audit("APPROVE", "[]").is_err());
}

// covers: AG-15, AG-26
#[test]
fn the_specs_state_comes_out_as_it_went_in() {
    let state = state::parse(STATE.as_bytes()).map_err(words).unwrap();
    assert_eq!(state.active_tasks, [TaskId::sequential(7)]);
    assert_eq!(state.last_verify.as_ref().unwrap().result, "pass");
    let again = state.render(Some(STATE.as_bytes()), "header");
    assert_eq!(String::from_utf8(again).unwrap(), STATE, "every byte, the text below included");
    let problems = words(
        state::parse(b"---\nprotocol: \"agency/1.0\"\nactive_tasks: [T1]\n---\n").unwrap_err(),
    );
    for found in
        ["updated_at", "active_tasks: `T1`", "blocked_tasks", "done_tasks_recent", "last_verify"]
    {
        assert!(
            problems.iter().any(|problem| problem.contains(found)),
            "no {found} in {problems:#?}"
        );
    }
}

// covers: AG-26
#[test]
fn the_specs_manifest_is_read_and_its_mistakes_are_named() {
    let text = include_str!("../../spec/board-manifest.json");
    let manifest = manifest::parse(text.as_bytes()).map_err(words).unwrap();
    assert_eq!(
        (manifest.builders.len(), manifest.zone),
        (3, Zone::parse("Europe/Zurich").unwrap())
    );
    assert_eq!(manifest::parse(manifest.render().as_bytes()).map_err(words).unwrap(), manifest);
    let without = text.replace("  \"task_id_strategy\": \"sequential\",\n", "");
    assert_eq!(manifest::parse(without.as_bytes()).unwrap().ids, manifest::IdStrategy::Sequential);
    let bad = text
        .replace("agency/1.0", "agency/2.0")
        .replace("lexaplus", "gpl")
        .replace("Europe/Zurich", "Mars");
    let problems = words(manifest::parse(bad.as_bytes()).unwrap_err());
    for found in
        [":2", "agency migrate", "license_mode: `\"gpl\"`", "defaults.timezone: `\"Mars\"`"]
    {
        assert!(
            problems.iter().any(|problem| problem.contains(found)),
            "no {found} in {problems:#?}"
        );
    }
    assert!(
        manifest::parse(text.replace("agency/1.0", "agency/1.7").as_bytes()).is_ok(),
        "1.x is accepted"
    );
}

// covers: AG-17, AG-19, AG-20
#[test]
fn the_specs_artifacts_are_read_and_written_in_its_order() {
    for (text, allows) in [
        (include_str!("../../spec/board-verify.json"), true),
        (include_str!("spec/override.json"), true),
        (include_str!("spec/risk.json"), false),
    ] {
        let artifact: artifact::Artifact = serde_json::from_str(text).unwrap();
        assert_eq!(artifact.allows_done(), allows, "{text}");
        let again = String::from_utf8(artifact.render()).unwrap();
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&again), value(text));
        let at = |key: &str| again.find(&format!("\"{key}\"")).unwrap();
        assert!(
            at("protocol") < at("task_id")
                && at("task_id") < at("result")
                && at("result") < at("commands")
        );
    }
}

// covers: AG-19, AG-20
#[test]
fn artifacts_as_short_as_the_spec_shows_them_are_read() {
    let risky = r#"{"protocol": "agency/1.0", "task_id": "T0007", "result": "fail", "risk_check": {
        "linked_risks": ["R-001", "R-004"], "blocking_risks": ["R-001"],
        "blocking_reason": "R-001 is P0 OPEN — resolve before DONE"}, "commands": []}"#;
    let found: artifact::Artifact = serde_json::from_str(risky).unwrap();
    assert_eq!(found.objection().unwrap(), "R-001 is P0 OPEN — resolve before DONE");
    let overridden = r#"{"protocol": "agency/1.0", "task_id": "T0007", "timestamp": "2026-01-31T17:00:00+01:00",
        "result": "fail", "override": {"approved": true, "approver": "john.doe@company.com",
        "reason": "Hotfix for production incident INC-1234", "decision_ref": "ADR-015",
        "followup_task": "T0008"}, "commands": []}"#;
    assert!(serde_json::from_str::<artifact::Artifact>(overridden).unwrap().allows_done());
}

// covers: AG-16, AG-20, AG-23
#[test]
fn the_specs_profile_register_and_links_are_read() {
    let path = RelPath::fixed(".kodingx/dod/profiles/node_strict.yml");
    let text = include_str!("../../spec/board-profile.yml");
    let profile = profile::parse(text.as_bytes(), &path).map_err(words).unwrap();
    assert_eq!(profile.render("h"), format!("# h\n{text}"), "it comes out as the spec writes it");
    let task = include_str!("spec/task_refs.md");
    let task = task::parse(task.as_bytes(), &task_path()).map_err(words).unwrap();
    assert_eq!(task.risks, ["R-001", "R-004"]);
    let refs: Vec<_> = task.refs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(refs, ["github_issue=#123", "jira=PROJ-456", "linear=ENG-789", "pr=#125"]);
    let register = risks::parse(include_str!("spec/risks.md"));
    let check = risks::check(&task.id, &task.risks, &register);
    let artifact: artifact::Artifact =
        serde_json::from_str(include_str!("spec/risk.json")).unwrap();
    let lines = check.lines.clone();
    assert_eq!(Some(risks::RiskCheck { lines: Vec::new(), ..check }), artifact.risk_check);
    assert_eq!(lines[0], "⚠ Risk R-001 (P0 OPEN) is linked — task cannot be marked DONE");
    assert_eq!(lines[1], "✓ Risk R-004 (P2 MITIGATED) — OK");
    // What a template says of a status says nothing yet.
    let template =
        "### R-001: x\n**Priority:** P0 (Critical)\n**Status:** OPEN | MITIGATED | CLOSED\n";
    assert_eq!(risks::parse(template)[0].status, None);
    let odd = include_str!("spec/task_refs.md").replace("external_refs:", "external_refs: [x]\nx:");
    assert!(
        words(task::parse(odd.as_bytes(), &task_path()).unwrap_err())[0].contains("external_refs")
    );
}

// covers: AG-19
#[test]
fn a_decision_gets_the_next_number_and_every_field() {
    let text = "# Decisions\n\n### ADR-014: Something else\n";
    assert_eq!(artifact::next_decision(text), "ADR-015");
    let task = TaskId::sequential(7);
    let by = artifact::Override {
        approved: true,
        approver: "john.doe@company.com".to_owned(),
        reason: "Production incident INC-1234".to_owned(),
        decision_ref: "ADR-015".to_owned(),
        followup_task: TaskId::sequential(8),
    };
    let record = artifact::Decision {
        task: &task,
        by: &by,
        bypassed: &artifact::Bypassed::Dod,
        date: "2026-01-31",
        failed: "`x` ended with 1",
        risk: "R-012",
    };
    let text = record.append_to(text);
    for field in [
        "### ADR-015: Override T0007",
        "**Date:** 2026-01-31",
        "**Status:** Accepted",
        "**Override Type:** DoD Bypass",
        "**Context:**",
        "**Decision:**",
        "**Consequences:**",
        "T0008",
        "R-012",
        "**Approver:** john.doe@company.com",
        "### ADR-014",
    ] {
        assert!(text.contains(field), "no {field} in {text}");
    }
}

// covers: AG-23
#[test]
fn references_are_kept_as_written_also_an_unquoted_number() {
    let text = TASK.replace(
        "labels:",
        "issue: #123\njira: PROJ-456\nexternal_refs:\n  linear: \"ENG-789\"\n  pr: #125\nlabels:",
    );
    let task = task::parse(text.as_bytes(), &task_path()).map_err(words).unwrap();
    let refs: Vec<_> = task.refs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(refs, ["issue=#123", "jira=PROJ-456", "linear=ENG-789", "pr=#125"]);
    let moved = task::with_status(text.as_bytes(), &task_path(), Status::Assigned).unwrap();
    assert_eq!(
        String::from_utf8(moved).unwrap(),
        text.replace("status: NEW", "status: ASSIGNED"),
        "and kept by an edit"
    );
}

pub(super) fn new_task(title: &str, list: Vec<String>) -> NewTask {
    NewTask {
        title: title.to_owned(),
        priority: Priority::P0,
        assignee: "codex".to_owned(),
        person: false,
        status: Status::New,
        dod_profile: "auto".to_owned(),
        scope: Scope { may_touch: vec!["**".to_owned()], ..Scope::default() },
        labels: list.clone(),
        depends_on: Vec::new(),
        context_files: Vec::new(),
        acceptance: list.clone(),
        constraints: list,
        risks: Vec::new(),
        refs: vec![("url".to_owned(), title.to_owned())],
        parent: None,
        problem: title.to_owned(),
        notes: String::new(),
    }
}

fn trials() -> u32 {
    std::env::var("AGENCY_TRIALS").ok().and_then(|text| text.parse().ok()).unwrap_or(400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(trials()))]

    // covers: AG-04
    #[test]
    fn any_title_makes_a_valid_task_inside_the_inbox(title in "\\PC{1,80}", list in proptest::collection::vec("\\PC{1,40}", 0..4)) {
        prop_assume!(!title.trim().is_empty() && list.iter().all(|item| !item.trim().is_empty()));
        let at = "2026-01-31T15:10:00Z".parse().unwrap();
        let id = TaskId::sequential(7);
        let path = agency::protocol::board::names::task_path("codex", &id, title.trim(), Zone::UTC, at);
        prop_assert!(path.as_str().starts_with(".kodingx/inbox/codex/2026-01-31/T0007-1510-"));
        let text = new_task(title.trim(), list.clone()).render(&id, &Zone::UTC.stamp(at));
        let task = task::parse(text.as_bytes(), &path).map_err(words).unwrap();
        prop_assert_eq!(&task.title, title.trim());
        let trimmed: Vec<String> = list.iter().map(|item| item.trim().to_owned()).collect();
        prop_assert_eq!(&task.acceptance, &trimmed);
    }

    // covers: AG-06, AG-15
    #[test]
    fn a_status_edit_changes_one_value_and_no_other_byte(noise in "[ -~\\n]{0,200}", body in "\\PC{0,100}") {
        let text = format!("{}\n{body}", TASK.replace("labels:", &format!("x: {:?}\nlabels:", noise.replace('\n', " "))));
        if let Ok(before) = task::parse(text.as_bytes(), &task_path()) {
            let bytes = task::with_status(text.as_bytes(), &task_path(), Status::Done).unwrap();
            let after = String::from_utf8(bytes).unwrap();
            prop_assert_eq!(&after, &text.replacen("status: NEW", "status: DONE", 1));
            let after = task::parse(after.as_bytes(), &task_path()).map_err(words).unwrap();
            prop_assert_eq!(task::Task { status: Status::New, ..after }, before);
        }
    }

    #[test]
    fn no_frontmatter_makes_a_parser_panic(text in "(---\\n)?([ -~\\n\\t\u{e9}\u{1F600}]{0,300})(\\n---\\n)?.{0,40}") {
        drop(task::parse(text.as_bytes(), &task_path()));
        drop(report::parse(text.as_bytes(), &report_path()));
        drop(state::parse(text.as_bytes()));
        drop(manifest::parse(text.as_bytes()));
        risks::parse(&text);
    }
}

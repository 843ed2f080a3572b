//! The specification's own examples, word for word, as input.

use super::*;
use crate::model::Change;
use crate::protocol::codifica::table::{From, TABLE};
use serde_json::Value;

const MINIMAL: &[u8] = include_bytes!("../../../../../../tests/spec/codifica-minimal.json");
const EXTENDED: &[u8] = include_bytes!("../../../../../../tests/spec/codifica-extended.json");
const MODEL: &str = include_str!("../../../../../../tests/spec/codifica-task.yaml");

const TRANSITIONS: &str = include_str!("../../../../../../tests/spec/codifica-transitions.md");
const FIELDS: &str = include_str!("../../../../../../tests/spec/codifica-fields.md");
const RULES: &str = include_str!("../../../../../../tests/spec/codifica-rules.md");
const IMAGE: &str = include_str!("../../../../../../tests/spec/codifica-image.md");
const PROVENANCE: &str = include_str!("../../../../../../tests/spec/codifica-provenance.yaml");
const FLOW: &str = include_str!("../../../../../../tests/spec/codifica-flow.txt");

/// The cells of a table's rows, without backticks.
fn rows(table: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| {
        line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect()
    };
    table.lines().skip(2).map(cells).collect()
}

// covers: CD-07
#[test]
fn the_table_of_transitions_is_ours_in_its_order_and_ours_has_the_two_gaps_more() {
    let rows = rows(TRANSITIONS);
    let (ours, gaps) = TABLE.split_at(rows.len());
    for (row, line) in ours.iter().zip(&rows) {
        let from = match row.from {
            From::Is(state) => state.word(),
            From::Any => "any",
        };
        assert_eq!([from, row.to.word(), row.who.word()], line[..], "{}", row.id);
    }
    assert_eq!(gaps.iter().map(|row| row.id).collect::<Vec<_>>(), ["CX13", "CX14"]);
    let flow: Vec<State> =
        FLOW.trim().split(" → ").map(|word| State::read(word).unwrap()).collect();
    assert_eq!(flow.len(), 4);
    for pair in flow.windows(2) {
        assert!(crate::protocol::codifica::table::find(pair[0], pair[1]).is_some(), "{pair:?}");
    }
}

// covers: CD-01, CD-29
#[test]
fn what_the_table_of_fields_requires_is_required_and_nothing_else() {
    for row in rows(FIELDS) {
        let mut contract: Value = serde_json::from_slice(MINIMAL).unwrap();
        assert!(contract.as_object_mut().unwrap().remove(&row[0]).is_some(), "{}", row[0]);
        let read = Config::read(contract.to_string().as_bytes());
        assert_eq!(read.is_err(), row[1] == "yes", "{}: {read:?}", row[0]);
        if let Err(findings) = read {
            let said: Vec<String> = findings.iter().map(ToString::to_string).collect();
            assert!(said.iter().any(|line| line.contains(&row[0])), "{said:?}");
        }
    }
    let minimal = Config::read(MINIMAL).unwrap();
    assert_eq!(minimal.assets.as_str(), "assets");
}

// covers: CD-01
#[test]
fn the_defaults_of_the_rules_are_those_of_the_table() {
    let rules = &Config::read(MINIMAL).unwrap().rules;
    let texts = |patterns: &[Pattern]| {
        serde_json::json!(patterns.iter().map(|one| one.text.as_str()).collect::<Vec<_>>())
    };
    for row in rows(RULES) {
        let found = match row[0].as_str() {
            "mode" => serde_json::json!(if rules.mode == Mode::Strict { "strict" } else { "" }),
            "allowed_agents" => serde_json::json!(rules.allowed_agents),
            "file_scope.include" => texts(&rules.include),
            "file_scope.exclude" => texts(&rules.exclude),
            "custom_types" => serde_json::json!(rules.custom_types),
            "branch_pattern" => serde_json::json!(rules.branch_pattern),
            "max_concurrent_tasks_per_agent" => serde_json::json!(rules.max_concurrent),
            "stale_claim_hours" => serde_json::json!(rules.stale_claim.as_secs() / 3600),
            other => panic!("{other}"),
        };
        let wanted = row[1].split(" (").next().unwrap().replace("none", "null");
        assert_eq!(found.to_string(), wanted, "{}", row[0]);
    }
}

// covers: CD-16
#[test]
fn the_image_of_the_spec_is_evidence_of_its_task_and_of_no_other() {
    let path = IMAGE.split(['(', ')']).nth(1).unwrap();
    let new = Change {
        path: RelPath::fixed(Box::leak(path.to_owned().into_boxed_str())),
        to: Some(("100644".to_owned(), "0".repeat(40))),
        new: true,
    };
    let config = config();
    assert!(is_image(&new.path) && config.is_asset(&new.path));
    assert!(judge_changes(&config, "FEAT-101", std::slice::from_ref(&new)).is_empty());
    assert_eq!(ids(&judge_changes(&config, "TEST-012", &[new])), ["CD-16"]);
}

// covers: CD-14
#[test]
fn the_provenance_block_is_read_where_it_may_stand() {
    let block: String = PROVENANCE.lines().map(|line| format!("      {line}\n")).collect();
    let task = format!(
        "- id: BUG-203\n  type: test\n  state: todo\n  owner: human\n  title: t\n  execution_notes:\n    - by: agent:builder\n      note: n\n      timestamp: 2026-01-01T00:00:00Z\n{block}"
    );
    let board = board(&fenced(&task));
    let read = board.task("BUG-203").unwrap().unwrap();
    let found = &read.execution_notes[0].provenance;
    assert_eq!(found.session_id.as_deref(), Some("<string>"));
    assert_eq!(found.commit_sha.as_deref(), Some("<string>"));
}

// covers: CD-01
#[test]
fn both_forms_of_codifica_json_are_read_as_the_spec_prints_them() {
    let minimal = Config::read(MINIMAL).unwrap();
    assert_eq!(minimal.spec.as_str(), "codifica-spec.md");
    assert!(minimal.is_state(&RelPath::fixed("work.md")));
    let extended = Config::read(EXTENDED).unwrap();
    assert_eq!(extended.rules.allowed_agents, ["builder", "writer", "reviewer"]);
    assert_eq!(extended.rules.custom_types, ["deploy", "migrate"]);
    assert_eq!(extended.rules.branch_pattern.as_deref(), Some("{type}/{id}-{slug}"));
    assert_eq!(extended.rules.max_concurrent, Some(1));
    let outside = |path| super::super::scope::is_out_of_scope(&extended, &RelPath::fixed(path));
    assert!([".env", "secrets/deep/a", "my.key", "README.md"].into_iter().all(outside));
    assert!(!["src/a/b.rs", "docs/x.md", "work/a.md"].into_iter().any(outside));
}

// covers: CD-03, CD-29
#[test]
fn the_task_model_as_printed_is_no_task_and_every_placeholder_is_named() {
    let board = board(&fenced(MODEL));
    let said: Vec<String> = validate(&board).iter().map(ToString::to_string).collect();
    for field in ["`id`", "`state`", "`owner`", "`priority`", "`claimed_at`", "`completed_at`"] {
        assert!(said.iter().any(|line| line.contains(field)), "{field} in {said:#?}");
    }
    assert!(said.iter().any(|line| line.contains("the type `build | test | review")), "{said:#?}");
}

// covers: CD-03, CD-07
#[test]
fn a_task_with_every_field_of_the_model_goes_through_the_default_flow() {
    let filled = MODEL
        .replace("<string>", "FEAT-101")
        .replace("build | test | review | investigate | followup ", "build ")
        .replace("todo | in_progress | to_be_tested | done | blocked | rejected", "todo")
        .replace("human | agent:<name> | unassigned", "unassigned")
        .replace("critical | high | normal | low ", "high ")
        .replace("<task-id | null>", "null")
        .replace("pass | needs_work | blocked", "pass")
        .replace("    - <task-id>\n", "    - BASE-1\n")
        .replace("      - <task-id>\n", "      - BASE-1\n")
        .replace("  blocked_by: <task-id> ", "  blocked_by: null ")
        .replace("<ISO-8601>", "2026-01-01T00:00:00Z")
        .replace("<relative path>", "src/a.rs")
        .replace("from: <state>", "from: rejected")
        .replace("to: <state>", "to: todo")
        .replace("by: human | agent:<name>", "by: human")
        .replace("agent:<name>", "agent:builder")
        .replace("<single line, ≤120 chars>", "one line");
    let base = "- id: BASE-1\n  type: test\n  state: done\n  owner: human\n  title: t\n";
    let mut now = board(&fenced(&format!("{filled}{base}")));
    assert!(now.problems.is_empty(), "{:#?}\n{filled}", now.problems);
    let builder = agent("builder");
    for action in [
        Action::Claim,
        Action::Submit { note: None, summary: Some("built".to_owned()) },
        Action::Done { note: None, summary: Some("tested".to_owned()) },
    ] {
        let acted = act(&now, "FEAT-101", &builder, &action, &stamp());
        now = acted.unwrap_or_else(|refusal| panic!("{action:?}: {refusal}")).board;
    }
    assert_eq!(now.glance("FEAT-101").unwrap().state, State::Done);
}

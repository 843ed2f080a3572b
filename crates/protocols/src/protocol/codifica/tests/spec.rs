//! The specification's own examples, word for word, as input.

use super::*;

const MINIMAL: &[u8] = include_bytes!("../../../../../../tests/spec/codifica-minimal.json");
const EXTENDED: &[u8] = include_bytes!("../../../../../../tests/spec/codifica-extended.json");
const MODEL: &str = include_str!("../../../../../../tests/spec/codifica-task.yaml");

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

//! Reading codifica.json and state files.

use super::*;

fn problems(text: &str) -> Vec<String> {
    Config::read(text.as_bytes()).unwrap_err().iter().map(ToString::to_string).collect()
}

// covers: CD-01
#[test]
fn both_forms_of_the_contract_are_read() {
    let minimal = br#"{"protocol":"codifica","version":"0.2","spec":"codifica-spec.md","state":"work.md","assets":"assets/","rules":"strict"}"#;
    let config = Config::read(minimal).unwrap();
    assert_eq!((config.assets.as_str(), config.rules.mode), ("assets", Mode::Strict));
    assert_eq!(config.rules.stale_claim.as_secs(), 24 * 3600);
    assert!(config.allows("anybody"));
    let extended = br#"{"protocol":"codifica","version":"0.2","spec":"s.md","state":"work/*.md","rules":{"mode":"strict",
        "allowed_agents":["agent:builder","writer"],"file_scope":{"include":["src/**"],"exclude":[".env","*.key"]},
        "custom_types":["deploy"],"branch_pattern":"{type}/{id}-{slug}","max_concurrent_tasks_per_agent":1,"stale_claim_hours":48}}"#;
    let config = Config::read(extended).unwrap();
    assert!(config.allows("builder") && config.allows("writer") && !config.allows("other"));
    assert_eq!(
        (config.rules.max_concurrent, config.rules.stale_claim.as_secs()),
        (Some(1), 48 * 3600)
    );
    assert!(
        config.is_state(&RelPath::fixed("work/a.md"))
            && !config.is_state(&RelPath::fixed("work/deep/a.md"))
    );
}

// covers: CD-01, CD-26
#[test]
fn every_wrong_field_is_named_at_once() {
    let wrong = r#"{"protocol":"other","version":"7","spec":"/etc/passwd","state":[],"assets":"../x",
        "rules":{"mode":"lax","allowed_agents":"builder","file_scope":[],"custom_types":["build"],"branch_pattern":"{id} x{what}",
        "max_concurrent_tasks_per_agent":0,"stale_claim_hours":"24"}}"#;
    let found = problems(wrong).join("\n");
    for name in ["protocol", "version", "spec", "state", "assets", "rules.mode"] {
        assert!(found.contains(name), "{name} in\n{found}");
    }
    for rules in [
        r#"{"allowed_agents":"builder"}"#,
        r#"{"allowed_agents":["a b"]}"#,
        r#"{"file_scope":[]}"#,
        r#"{"file_scope":{"include":["/abs"]}}"#,
        r#"{"custom_types":["build"]}"#,
        r#"{"branch_pattern":"{id} x"}"#,
        r#"{"branch_pattern":"{what}-{id}"}"#,
        r#"{"branch_pattern":"fixed"}"#,
        r#"{"max_concurrent_tasks_per_agent":0}"#,
        r#"{"stale_claim_hours":"24"}"#,
        "7",
    ] {
        let text = format!(
            r#"{{"protocol":"codifica","version":"0.2","spec":"s.md","state":"w.md","rules":{rules}}}"#
        );
        assert_eq!(problems(&text).len(), 1, "{rules}");
    }
    assert!(problems("{\n\"protocol\": }")[0].contains("codifica.json:2"));
    assert!(problems("[]")[0].contains("a JSON object"));
    assert!(
        problems(r#"{"protocol":"codifica","version":"0.9","spec":"s","state":"w"}"#)[0]
            .contains("CD-26")
    );
}

const FULL: &str = r#"- id: FEAT-1
  type: build
  state: in_progress
  owner: agent:builder
  title: "Search: the words"
  description: >
    folded
    text
  priority: high
  depends_on: [BASE-1]
  labels:
    - ui
  acceptance:
    - finds a word
  checklist:
    - one
  derived_from: null
  context:
    files: [src/a.rs]
    references: [BASE-1]
    constraints:
      - no network
    notes: careful
  claimed_at: 2026-01-01T10:00:00+02:00
  execution_notes:
    - by: agent:builder
      note: begun
      summary: begun
      timestamp: 2026-01-01T08:30:00Z
      provenance: {session_id: s, commit_sha: abc}
  artifacts:
    - path: src/a.rs
      type: code
  human_review:
    status: needs_work
    reviewer: someone
    notes:
      - "![x](assets/FEAT-1/x.png)"
    recorded_at: 2026-01-01T09:00:00Z
  completed_at: null
  blocked_reason: null
  blocked_by: null
  state_transitions:
    - from: todo
      to: in_progress
      by: agent:builder
      reason: claimed
      timestamp: 2026-01-01T08:00:00Z
  x-team: {lead: someone, size: 3}
- id: BASE-1
  type: investigate
  state: done
  owner: human
  title: v0.1 tasks have few fields
"#;

// covers: CD-03, CD-25
#[test]
fn every_field_of_the_model_is_read_and_unknown_ones_are_kept() {
    let board = board(&fenced(FULL));
    assert!(validate(&board).is_empty(), "{:?}", validate(&board));
    let task = board.task("FEAT-1").unwrap().unwrap();
    assert_eq!((task.priority, task.title.as_str()), (Priority::High, "Search: the words"));
    assert_eq!(task.description.as_deref(), Some("folded text\n"));
    assert_eq!(task.claimed_at.unwrap().to_rfc3339(), "2026-01-01T08:00:00+00:00");
    assert_eq!(task.execution_notes[0].provenance.session_id.as_deref(), Some("s"));
    assert_eq!(task.human_review.as_ref().unwrap().status, Some(Verdict::NeedsWork));
    assert_eq!(task.state_transitions[0].reason.as_deref(), Some("claimed"));
    assert_eq!(task.context.constraints, ["no network"]);
    assert_eq!(task.unknown[0].0, "x-team");
    assert_eq!(task.last_activity().unwrap().to_rfc3339(), "2026-01-01T08:30:00+00:00");
    let acted = act(
        &board,
        "FEAT-1",
        &agent("builder"),
        &Action::Note { text: "more".into(), summary: None },
        &stamp(),
    )
    .unwrap();
    assert!(acted.board.text("FEAT-1").unwrap().contains("x-team: {lead: someone, size: 3}"));
}

// covers: CD-03
#[test]
fn each_wrong_field_is_named_with_its_line() {
    let text = fenced(
        "- id: A B\n  type: build\n  state: doing\n  owner: builder\n  title: ''\n  priority: urgent\n  depends_on: X\n  labels: [[x]]\n  claimed_at: yesterday\n  execution_notes:\n    - by: someone\n    - 3\n  artifacts:\n    - path: ../x\n  human_review: fine\n  state_transitions:\n    - from: a\n",
    );
    let board = board(&text);
    let lines: Vec<_> =
        board.problems.iter().map(|finding| finding.rejection.line.unwrap()).collect();
    for line in [6, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19, 20, 22] {
        assert!(lines.contains(&line), "line {line} of {:#?}", board.problems);
    }
    assert!(board.problems.iter().all(|finding| finding.rejection.rule.as_str() == "CD-03"));
}

// covers: CD-02
#[test]
fn lists_are_found_in_fences_and_in_bare_files_and_prose_is_not() {
    let text = "# T\n```yaml\nkey: an example, no list\n```\n```json\n[]\n```\n  ~~~ YML extra\n- {id: B, type: test, state: todo, owner: human, title: t}\n  ~~~\n```yaml\n```\n";
    assert_eq!(board(text).glances().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["B"]);
    assert_eq!(
        board(
            "- id: C\n  type: test\n  state: todo\n  owner: human\n  title: bare in a .md file\n"
        )
        .len(),
        1
    );
    assert_eq!(board("- a Markdown list\n- of words\n").len(), 0);
    for (bad, words) in [
        ("```yaml\n- id: A\n", "never closed"),
        ("```yaml\ntasks:\n  - id: A\n```\n", "the key `tasks:`"),
        ("```yaml\n- just words\n```\n", "`just words`"),
        ("```yaml\n- id: A\n---\n- id: B\n```\n", "document"),
        ("```yaml\n- id: &x A\n```\n", "anchor"),
        ("```yaml\n- id: A\n  id: B\n```\n", "second time"),
        ("```yaml\n- id: \"A\nB\"\n```\n", "indentation"),
    ] {
        let board = board(bad);
        assert!(
            board.problems.iter().any(|finding| finding.to_string().contains(words)),
            "{bad}: {:?}",
            board.problems
        );
    }
    let latin = Board::read(&config(), vec![(RelPath::fixed("work.md"), b"a\n\xff\n".to_vec())]);
    assert!(latin.problems[0].to_string().contains("work.md:2"));
}

// covers: CD-02
#[test]
fn bombs_are_refused_quickly() {
    let deep = format!("```yaml\n- id: A\n  x: {}\n```\n", "[".repeat(100_000));
    assert!(!board(&deep).problems.is_empty());
    let laughs = (1..30).fold("- id: A\n  a0: &a0 [x]\n".to_owned(), |text, n| {
        format!("{text}  a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(", "))
    });
    assert!(board(&fenced(&laughs)).problems[0].to_string().contains("anchor"));
}

// covers: CD-04
#[test]
fn an_id_twice_names_both_places() {
    let task = "- id: A\n  type: test\n  state: todo\n  owner: human\n  title: t\n";
    let files = vec![
        (RelPath::fixed("work.md"), fenced(task).into_bytes()),
        (RelPath::fixed("more.yaml"), task.as_bytes().to_vec()),
    ];
    let board = Board::read(&config(), files);
    assert_eq!(ids(&board.problems), ["CD-04"]);
    let said = board.problems[0].to_string();
    assert!(said.contains("more.yaml:1") && said.contains("work.md:6"), "{said}");
}

#[test]
fn a_glance_never_differs_from_a_whole_reading() {
    for text in [
        FULL,
        "- id: A # x\n  type: test\n  state: 'todo'\n  owner: human\n  title: t\n",
        "- id: A\n    B\n  type: test\n  state: todo\n  owner: human\n  title: t\n",
        "-\n  id: A\n  type: test\n  state: todo\n  owner: unassigned\n  title: t\n  depends_on:\n  - B # c\n\n  - C\n  priority: low\n",
        "- type: test\n  depends_on: [A,\n    B]\n  id: A\n  state: todo\n  owner: human\n  title: t\n",
    ] {
        for item in text.split_inclusive("\n- ").map(|part| part.trim_end_matches("- ")) {
            let item = if item.starts_with('-') { item.to_owned() } else { format!("- {item}") };
            let whole = super::super::read::mapping(&item)
                .ok()
                .and_then(|node| super::super::read::read(&node, &mut Vec::new()));
            if let Some(glance) = super::super::read::glance(&item) {
                assert_eq!(Some(glance), whole.as_ref().map(Glance::from), "{item}");
            }
        }
    }
}

// covers: CD-09
#[test]
fn one_edit_among_ten_thousand_tasks_changes_only_its_own_lines() {
    let task = |n: usize| {
        format!(
            "- id: T-{n}\n  type: build # kind\n  state: todo\n  owner: unassigned\n  title: Number {n}\n  acceptance:\n    - works\n  description: |\n    - id: not {n}\n\n"
        )
    };
    let text = fenced(&(0..10_000).map(task).collect::<String>());
    let board = board(&text);
    let acted = act(&board, "T-7777", &agent("a"), &Action::Claim, &stamp()).unwrap();
    let new = String::from_utf8(acted.bytes).unwrap();
    let (before, after) = text.split_once(&task(7777)).unwrap();
    assert!(new.starts_with(before) && new.ends_with(after));
    let block = &new[before.len()..new.len() - after.len()];
    let mut wanted = task(7777).replace("state: todo", "state: in_progress");
    wanted = wanted.replace("owner: unassigned", "owner: agent:a").trim_end().to_owned();
    wanted += "\n  claimed_at: 2026-01-02T03:04:05Z\n  state_transitions:\n    - from: todo\n      to: in_progress\n      by: agent:a\n";
    wanted += "      timestamp: 2026-01-02T03:04:05Z\n      provenance:\n        session_id: s-1\n        commit_sha: c0ffee\n\n";
    assert_eq!(block, wanted);
}

//! The table, the hard rules, the choice of the next task, and foreign edits.

use super::*;

pub(super) fn task(id: &str, fields: &str) -> String {
    format!(
        "- id: {id}\n  type: build\n  state: todo\n  owner: unassigned\n  title: {id}\n  acceptance: [works]\n{fields}"
    )
}

/// One task with these values instead of the usual ones.
pub(super) fn with(id: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(task(id, ""), |text, (key, value)| {
        let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{key}:")));
        match line {
            Some(line) => text.replace(&format!("{line}\n"), &format!("  {key}: {value}\n")),
            None => format!("{text}  {key}: {value}\n"),
        }
    })
}

pub(super) fn one(changes: &[(&str, &str)]) -> Board {
    board(&fenced(&with("A", changes)))
}

fn try_act(board: &Board, actor: &Actor, action: Action) -> Vec<String> {
    rules(act(board, "A", actor, &action, &stamp()))
}

fn done() -> Action {
    Action::Done { note: None, summary: Some("all done".into()) }
}

pub(super) const MINE: &[(&str, &str)] =
    &[("state", "in_progress"), ("owner", "agent:a"), ("claimed_at", "2026-01-01T00:00:00Z")];

pub(super) fn mine(more: &[(&'static str, &'static str)]) -> Board {
    let mut all: Vec<(&str, &str)> = MINE.to_vec();
    for (key, value) in more {
        match all.iter_mut().find(|(known, _)| known == key) {
            Some(field) => field.1 = value,
            None => all.push((key, value)),
        }
    }
    one(&all)
}

// covers: CD-07, CD-13, CD-14
#[test]
fn every_row_of_the_table_by_its_actor() {
    let (a, human) = (agent("a"), Actor::Human);
    let reason = || "because".to_owned();
    let tested = mine(&[("state", "to_be_tested")]);
    let own = one(&[("state", "to_be_tested"), ("owner", "human")]);
    let blocked = mine(&[("state", "blocked"), ("blocked_reason", "x")]);
    let rows: Vec<(&str, Board, &Actor, Action)> = vec![
        ("CX1", one(&[]), &a, Action::Claim),
        ("CX1", one(&[]), &human, Action::Claim),
        ("CX2", mine(&[]), &a, Action::Submit { note: None, summary: None }),
        ("CX3", tested.clone(), &a, done()),
        ("CX3", own.clone(), &human, done()),
        ("CX4", tested.clone(), &a, Action::Return { reason: None }),
        ("CX5", mine(&[]), &human, Action::Block { reason: reason(), by: None }),
        ("CX6", blocked.clone(), &human, Action::Unblock { to: State::Todo, reason: None }),
        ("CX7", blocked.clone(), &human, Action::Unblock { to: State::InProgress, reason: None }),
        ("CX8", one(&[]), &human, Action::Reject { reason: reason() }),
        ("CX9", blocked.clone(), &human, Action::Reject { reason: reason() }),
        ("CX10", mine(&[]), &human, Action::Reject { reason: reason() }),
        ("CX11", mine(&[("state", "rejected")]), &human, Action::Reopen { reason: reason() }),
        ("CX12", mine(&[("state", "done")]), &human, Action::Reopen { reason: reason() }),
        ("CX13", mine(&[("type", "test")]), &a, done()),
        ("CX14", mine(&[]), &human, Action::Reclaim { reason: reason() }),
    ];
    for (row, board, actor, action) in &rows {
        let from = board.glance("A").unwrap().state;
        let acted = act(board, "A", actor, action, &stamp())
            .unwrap_or_else(|refusal| panic!("{row} {action:?}: {refusal}"));
        let task = acted.board.task("A").unwrap().unwrap();
        assert_eq!(table::find(from, task.state).map(|row| row.id), Some(*row));
        let last = task.state_transitions.last().unwrap();
        assert_eq!((last.from, last.to, &last.by), (from, task.state, *actor));
        assert_eq!(
            last.provenance.session_id.is_some(),
            actor.is_agent(),
            "provenance is filled for agents"
        );
        assert_eq!(task.completed_at.is_some(), task.state.is_terminal(), "{row}");
        let free = matches!(task.state, State::Todo | State::InProgress);
        assert!(!free || task.blocked_reason.is_none(), "{row}");
    }
    let shown: std::collections::BTreeSet<_> = rows.iter().map(|row| row.0).collect();
    assert_eq!(shown.len(), table::TABLE.len());
}

// covers: CD-07, CD-11, CD-12, CD-13, CD-21, CD-24
#[test]
fn each_hard_rule_has_its_own_refusal() {
    let (a, b, human) = (agent("a"), agent("b"), Actor::Human);
    let blank = || " ".to_owned();
    let cases: Vec<(&str, Board, &Actor, Action)> = vec![
        ("CD-07", one(&[("state", "done")]), &a, Action::Claim),
        ("CD-07b", mine(&[("state", "to_be_tested")]), &b, done()),
        ("CD-07b", mine(&[("state", "to_be_tested")]), &human, done()),
        ("CD-07b", one(&[("state", "to_be_tested"), ("owner", "human")]), &a, done()),
        ("CD-07b", mine(&[]), &human, Action::Submit { note: None, summary: None }),
        ("CD-07c", one(&[("acceptance", "[]")]), &a, Action::Claim),
        ("CD-07d", mine(&[]), &a, done()),
        ("CD-07a", mine(&[]), &a, Action::Block { reason: "x".into(), by: None }),
        ("CD-07a", mine(&[("state", "todo")]), &a, Action::Reject { reason: "x".into() }),
        ("CD-07a", mine(&[("state", "rejected")]), &a, Action::Reopen { reason: "x".into() }),
        ("CD-07a", mine(&[]), &a, Action::Reclaim { reason: "x".into() }),
        ("CD-13", mine(&[]), &human, Action::Block { reason: blank(), by: None }),
        ("CD-13", mine(&[]), &human, Action::Reject { reason: blank() }),
        ("CD-13", mine(&[("state", "rejected")]), &human, Action::Reopen { reason: blank() }),
        ("CD-13", mine(&[("state", "done")]), &human, Action::Reopen { reason: blank() }),
        ("CD-13", mine(&[]), &human, Action::Reclaim { reason: blank() }),
        ("CD-13", mine(&[("type", "test")]), &a, Action::Done { note: None, summary: None }),
        (
            "CD-13",
            mine(&[("type", "test")]),
            &a,
            Action::Done { note: None, summary: Some("x".repeat(121)) },
        ),
        (
            "CD-13",
            mine(&[("type", "test")]),
            &a,
            Action::Done { note: Some("x".into()), summary: Some("two\nlines".into()) },
        ),
        ("CD-21", one(&[("type", "review")]), &a, Action::Claim),
        ("CD-21", mine(&[("type", "review")]), &a, done()),
        ("CD-08", one(&[("owner", "agent:b")]), &a, Action::Claim),
        ("CD-10", mine(&[]), &b, Action::Note { text: "x".into(), summary: None }),
        (
            "CD-24",
            mine(&[]),
            &a,
            Action::Review { status: Verdict::Pass, reviewer: "a".into(), notes: vec![] },
        ),
        ("CD-14", mine(&[]), &human, Action::Note { text: "x".into(), summary: None }),
    ];
    for (rule, board, actor, action) in cases {
        let found = try_act(&board, actor, action.clone());
        assert!(
            found.contains(&rule.to_owned()),
            "{action:?} by {actor}: {found:?}, wanted {rule}"
        );
    }
    let followup = one(&[("type", "followup")]);
    assert!(ids(&validate(&followup)).contains(&"CD-21"), "a followup needs `derived_from`");
    assert!(ids(&validate(&one(&[("type", "deploy")]))).contains(&"CD-21"));
    let custom = board_with(
        &config_with(r#"{"custom_types":["deploy"]}"#),
        &fenced(&with("A", &[("type", "deploy"), ("acceptance", "[]")])),
    );
    assert_eq!(try_act(&custom, &a, Action::Claim), ["CD-07c"], "custom types follow build");
    assert!(ids(&validate(&mine(&[("owner", "unassigned")]))).contains(&"CD-22"));
}

// covers: CD-12
#[test]
fn allowed_agents_and_their_number_of_tasks_are_kept_to() {
    let config = config_with(r#"{"allowed_agents":["a"],"max_concurrent_tasks_per_agent":1}"#);
    let text = fenced(&(with("A", &[]) + &with("B", MINE)));
    let board = board_with(&config, &text);
    assert_eq!(try_act(&board, &agent("a"), Action::Claim), ["CD-12"]);
    assert_eq!(try_act(&board, &agent("stranger"), Action::Claim), ["CD-12"]);
    assert!(matches!(next(&board, "a"), Err(Nothing::Full { held: 1, limit: 1, .. })));
    assert!(matches!(next(&board, "stranger"), Err(Nothing::NotAllowed(_))));
}

// covers: CD-06
#[test]
fn dependencies_are_there_done_and_end_somewhere() {
    let text = fenced(&(with("A", &[("depends_on", "[B]")]) + &with("B", &[])));
    assert_eq!(try_act(&board(&text), &agent("a"), Action::Claim), ["CD-06"]);
    assert!(
        try_act(
            &board(&text.replace(
                "id: B\n  type: build\n  state: todo",
                "id: B\n  type: build\n  state: done"
            )),
            &agent("a"),
            Action::Claim
        )
        .is_empty()
    );
    assert_eq!(
        try_act(&one(&[("depends_on", "[GONE]")]), &agent("a"), Action::Claim),
        ["CD-06", "CD-06"][..1]
    );
    let circle = fenced(
        &(with("A", &[("depends_on", "[B]")])
            + &with("B", &[("depends_on", "[C]")])
            + &with("C", &[("depends_on", "[A]")])),
    );
    let found = validate(&board(&circle));
    assert!(found.iter().any(|finding| finding.to_string().contains("A → B → C → A")), "{found:?}");
    let before = board(&fenced(&(with("A", &[]) + &with("B", &[("depends_on", "[A]")]))));
    let after = board(&fenced(
        &(with("A", &[("depends_on", "[B]")]) + &with("B", &[("depends_on", "[A]")])),
    ));
    assert!(
        judge(&before, &after, &Actor::Human)
            .iter()
            .any(|finding| finding.to_string().contains("A → B → A"))
    );
}

// covers: CD-05
#[test]
fn the_next_task_is_chosen_step_by_step() {
    let text = fenced(
        &[
            with("SELF", &[("owner", "agent:a"), ("priority", "low")]),
            with("OTHER", &[("owner", "agent:b"), ("priority", "critical")]),
            with("HUMANS", &[("owner", "human"), ("priority", "critical")]),
            with("WAITS", &[("depends_on", "[SELF]"), ("priority", "critical")]),
            with("TAKEN", MINE),
            with("READY", &[("depends_on", "[OLD]"), ("priority", "high")]),
            with("LEAF", &[("priority", "high")]),
            with("LEAF2", &[("priority", "high")]),
            with("PLAIN", &[]),
            with("BARE", &[("acceptance", "[]"), ("priority", "critical")]),
            with("SIGN", &[("type", "review"), ("priority", "critical")]),
            with("OLD", &[("state", "done")]),
        ]
        .concat(),
    );
    let mut now = board(&text);
    let order: Vec<_> = candidates(&now, "a").unwrap().iter().map(|task| task.id.clone()).collect();
    assert_eq!(order, ["BARE", "SIGN", "LEAF", "LEAF2", "READY", "PLAIN", "SELF"]);
    for wanted in ["LEAF", "LEAF2", "READY", "PLAIN", "SELF"] {
        assert_eq!(next(&now, "a").unwrap().id, wanted);
        let (id, acted) = claim_next(&now, "a", &stamp()).unwrap();
        assert_eq!(id, wanted);
        now = acted.board;
    }
    assert!(matches!(next(&now, "a"), Err(Nothing::NoTask(_))));
}

fn judged(old: &str, new: &str, actor: &Actor) -> Vec<String> {
    let (old, new) = (board(&fenced(old)), board(&fenced(new)));
    judge(&old, &new, actor)
        .iter()
        .filter(|finding| finding.is_violation())
        .map(|finding| finding.rejection.rule.to_string())
        .collect()
}

// covers: CD-10, CD-20, CD-22
#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn a_foreign_edit_is_judged_by_what_changed_and_who_did_it() {
    let (a, human) = (agent("a"), Actor::Human);
    let (plain, b) = (with("A", &[]), with("B", &[]));
    let mine = with("A", MINE);
    let noted = mine.clone() + "  execution_notes:\n    - by: agent:a\n      note: one\n";
    let entry = "  state_transitions:\n    - {from: todo, to: in_progress, by: 'agent:a'}\n";
    let cases: Vec<(&str, String, String, &Actor, &[&str])> = vec![
        ("a proper claim by hand", plain.clone(), mine.clone() + entry, &a, &[]),
        ("the same written down by a human", plain.clone(), mine.clone() + entry, &human, &[]),
        ("no entry in the log", plain.clone(), mine.clone(), &a, &["CD-20"]),
        (
            "an illegal transition",
            plain.clone(),
            with("A", &[("state", "done"), ("owner", "agent:a")]),
            &a,
            &["CD-07", "CD-20"],
        ),
        (
            "a claim without claimed_at",
            plain.clone(),
            with("A", &[("state", "in_progress"), ("owner", "agent:a")]) + entry,
            &a,
            &["CD-08"],
        ),
        (
            "a claim for nobody",
            plain.clone(),
            with("A", &[("state", "in_progress"), ("claimed_at", "2026-01-01T00:00:00Z")])
                + &entry.replace("'agent:a'", "human"),
            &human,
            &["CD-22"],
        ),
        (
            "a wrong actor",
            mine.clone(),
            mine.replace("in_progress", "rejected")
                + "  state_transitions:\n    - {from: in_progress, to: rejected, by: 'agent:a', reason: x}\n",
            &a,
            &["CD-07a"],
        ),
        (
            "an agent that says it is human",
            mine.clone(),
            mine.replace("in_progress", "rejected")
                + "  state_transitions:\n    - {from: in_progress, to: rejected, by: human, reason: x}\n",
            &a,
            &["CD-10", "CD-07a"],
        ),
        (
            "human_review by an agent",
            mine.clone(),
            mine.clone() + "  human_review: {status: pass}\n",
            &a,
            &["CD-10"],
        ),
        (
            "human_review by a human",
            mine.clone(),
            mine.clone() + "  human_review: {status: pass}\n",
            &human,
            &[],
        ),
        (
            "somebody else's task",
            plain.clone(),
            plain.replace("title: A", "title: mine now"),
            &a,
            &["CD-10"],
        ),
        ("reordering", plain.clone() + &b, b.clone() + &plain, &a, &["CD-10"]),
        ("reordering by a human", plain.clone() + &b, b.clone() + &plain, &human, &[]),
        ("a removed task", plain.clone() + &b, plain.clone(), &human, &["CD-20"]),
        ("a changed id", plain.clone(), plain.replace("id: A", "id: Z"), &human, &["CD-20"]),
        (
            "an edited past note",
            noted.clone(),
            noted.replace("note: one", "note: two"),
            &a,
            &["CD-20"],
        ),
        ("a removed past note", noted.clone(), mine.clone(), &a, &["CD-20"]),
        (
            "an edited past transition",
            mine.clone() + entry,
            mine.clone() + &entry.replace("todo", "blocked"),
            &a,
            &["CD-20"],
        ),
        (
            "a note in another's name",
            noted.clone(),
            noted.clone() + "    - by: agent:b\n      note: two\n",
            &a,
            &["CD-10"],
        ),
        (
            "a human among the notes",
            noted.clone(),
            noted.clone() + "    - by: human\n      note: two\n",
            &human,
            &["CD-14"],
        ),
        ("a task given away", mine.clone(), mine.replace("agent:a", "agent:b"), &a, &["CD-10"]),
        ("a new task by an agent", plain.clone(), plain.clone() + &b, &a, &[]),
        (
            "a new task that is done already",
            plain.clone(),
            plain.clone() + &with("B", &[("state", "done"), ("owner", "agent:a")]),
            &a,
            &["CD-10"],
        ),
        (
            "a broken file",
            plain.clone(),
            plain.replace("state: todo", "state: [todo"),
            &a,
            &["CD-03", "CD-20"],
        ),
    ];
    for (what, old, new, actor, wanted) in cases {
        let mut found = judged(&old, &new, actor);
        found.sort();
        found.dedup();
        let mut wanted: Vec<String> = wanted.iter().map(|rule| (*rule).to_owned()).collect();
        wanted.sort();
        assert_eq!(found, wanted, "{what}");
    }
    let (old, new) =
        (board(&fenced(&plain)), board(&fenced(&plain).replace("More prose", "Other prose")));
    assert_eq!(ids(&judge(&old, &new, &a)), ["CD-10"], "prose is not an agent's");
    assert!(judge(&old, &new, &human).is_empty());
}

// covers: CD-10, CD-24
#[test]
fn our_own_warnings_are_notes_on_anybodys_task_and_nothing_else() {
    let us = agent(OURSELVES);
    let board = mine(&[]);
    assert!(
        try_act(&board, &us, Action::Note { text: "a dependency fell back".into(), summary: None })
            .is_empty()
    );
    assert!(
        try_act(&board, &us, Action::Artifact { path: RelPath::fixed("x"), kind: "y".into() })
            .contains(&"CD-10".to_owned())
    );
}

// covers: CD-13, CD-25
#[test]
fn legacy_tasks_are_valid_and_their_closing_notes_warn() {
    let old = one(&[("state", "done"), ("owner", "agent:a")]);
    assert!(validate(&old).is_empty(), "{:?}", validate(&old));
    let noted = board(&fenced(
        &(with("A", &[("state", "done"), ("owner", "agent:a")])
            + "  execution_notes:\n    - by: agent:a\n      note: done\n"),
    ));
    let found = validate(&noted);
    assert_eq!((ids(&found), found[0].level), (vec!["CD-25"], Level::Warning));
    let blocked = validate(&one(&[("state", "blocked")]));
    assert_eq!((ids(&blocked), blocked[0].level), (vec!["CD-25"], Level::Warning));
    assert!(
        validate(&mine(&[("claimed_at", "null")])).iter().all(|finding| !finding.is_violation())
    );
}

// covers: CD-17
#[test]
fn archiving_moves_a_tasks_bytes_as_they_are() {
    let finished = with("B", &[("state", "done"), ("x-note", "'kept  as: it is' # too")]);
    let text = fenced(
        &(with("A", &[("depends_on", "[B]")])
            + "\n# about B\n"
            + &finished
            + "\n"
            + &with("C", &[])),
    );
    for archived in [
        Some("# Done\n"),
        Some(
            "# Done\n\n```yaml\n- id: OLD\n  type: test\n  state: done\n  owner: human\n  title: t\n```\nend\n",
        ),
        None,
    ] {
        let mut files = vec![(RelPath::fixed("work.md"), text.clone().into_bytes())];
        files.extend(archived.map(|text| (RelPath::fixed("done.md"), text.as_bytes().to_vec())));
        let board = Board::read(&config(), files);
        let to = RelPath::fixed("done.md");
        let [(from, left), (path, moved)] = archive(&board, "B", &to).unwrap();
        let (left, moved) = (String::from_utf8(left).unwrap(), String::from_utf8(moved).unwrap());
        assert_eq!((from.as_str(), path.as_str()), ("work.md", "done.md"));
        assert!(moved.contains(&finished), "{moved}");
        assert_eq!(left, text.replace(&format!("{finished}\n"), ""));
        let after = board.with(&from, left.into_bytes()).with(&path, moved.into_bytes());
        assert!(
            judge(&board, &after, &agent("a")).is_empty(),
            "{:?}",
            judge(&board, &after, &agent("a"))
        );
        assert!(
            try_act(&after, &agent("a"), Action::Claim).is_empty(),
            "an archived dependency counts"
        );
        assert_eq!(archive(&after, "B", &to), Err(AddFault::There("B".into())));
    }
    let board = board(&text);
    assert_eq!(
        archive(&board, "A", &RelPath::fixed("done.md")),
        Err(AddFault::NotFinished("A".into()))
    );
    assert!(matches!(
        archive(&board, "B", &RelPath::fixed("other.md")),
        Err(AddFault::NotState(_))
    ));
}

// covers: CD-24
#[test]
fn a_new_task_is_put_after_the_others_whatever_its_title() {
    let text = fenced(&with("A", &[]));
    for title in
        ["Plain", "a: b # c", "\"quoted\"", "🎉 – ü", "- id: X", "```", "null", "two\nlines"]
    {
        let new = NewTask {
            id: "N-1".into(),
            kind: "build".into(),
            title: title.into(),
            owner: "unassigned".into(),
            acceptance: vec!["- [ ] x: y".into()],
            ..NewTask::default()
        };
        let before = board(&text);
        let bytes = add(&before, &RelPath::fixed("work.md"), &new).unwrap();
        let after = before.with(&RelPath::fixed("work.md"), bytes);
        assert_eq!(after.task("N-1").unwrap().unwrap().title, title);
        assert!(judge(&before, &after, &Actor::Human).is_empty());
        assert!(matches!(
            add(&after, &RelPath::fixed("work.md"), &new),
            Err(AddFault::Taken { .. })
        ));
    }
}

// covers: CD-12, CD-16, CD-26
#[test]
fn the_scope_is_matched_against_what_really_changed() {
    use crate::model::Change;
    let config = config_with(
        r#"{"file_scope":{"include":["src/**","docs/*.md"],"exclude":["*.key","src/secret/**",".env"]}}"#,
    );
    let changed = |path: &str, there: bool, new: bool| Change {
        path: RelPath::new(path).unwrap(),
        to: there.then(|| ("100644".to_owned(), "0".repeat(40))),
        new,
    };
    for fine in [
        "src/a.rs",
        "src/deep/b.rs",
        "docs/x.md",
        "work.md",
        "assets/A/new.png",
        "assets/A/log.txt",
    ] {
        assert!(judge_changes(&config, "A", &[changed(fine, true, true)]).is_empty(), "{fine}");
    }
    for bad in [
        "README.md",
        "docs/deep/x.md",
        "src/my.key",
        "src/secret/x",
        "src/.env",
        "codifica.json",
        "spec.md",
    ] {
        assert_eq!(
            ids(&judge_changes(&config, "A", &[changed(bad, true, true)])),
            ["CD-12"],
            "{bad}"
        );
    }
    for (there, new) in [(true, false), (false, false)] {
        assert_eq!(
            ids(&judge_changes(&config, "A", &[changed("assets/A/x.PNG", there, new)])),
            ["CD-16"]
        );
    }
    let astray =
        one(&[("description", "'see ![x](elsewhere/x.png) and ![y](https://example.com/y.png)'")]);
    assert_eq!(ids(&validate(&astray)), ["CD-16"]);
}

// covers: CD-18
#[test]
fn a_branch_follows_the_owners_pattern_whatever_the_title() {
    let task = |title: &str| {
        let board = one(&[("title", &format!("\"{title}\""))]);
        board.task("A").unwrap().unwrap()
    };
    assert_eq!(
        branch(Some("{type}/{id}-{slug}"), &task("Fix: the Search!")),
        "build/A-fix-the-search"
    );
    assert_eq!(branch(Some("work/{id}"), &task("x")), "work/A");
    assert_eq!(branch(None, &task("../../etc – 漢字")), "build/A-etc");
    assert_eq!(slug("漢字"), "task");
    assert!(slug(&"long ".repeat(50)).len() <= 40);
}

// covers: CD-18
#[test]
fn every_duty_of_the_contract_names_a_rule_that_can_be_explained() {
    let text = contract(Some(&config()));
    for term in TERMS {
        assert!(text.contains(term.text) && text.contains(term.rule));
    }
    for word in [
        "codifica.json",
        "spec.md",
        "work.md",
        "human_review",
        "image",
        "to_be_tested",
        "reclaim",
        "block",
        "120",
        "artifact",
        "completed_at",
        "provenance",
        "file_scope",
        "depends_on",
        "push",
        "ask a human",
    ] {
        assert!(text.contains(word), "{word}");
    }
}

//! Random edits of random files: the meaning changes by exactly the edit, and every other byte stays (CD-09).

use super::super::edit::{change_meaning, same};
use super::*;
use proptest::prelude::*;

/// How one file is written.
#[derive(Clone, Debug)]
struct Shape {
    crlf: bool,
    final_break: bool,
    bare: bool,
    indent: usize,
    gap: bool,
    tasks: Vec<Written>,
}

/// How one task is written.
#[derive(Clone, Debug)]
struct Written {
    flow: bool,
    dash_alone: bool,
    keys: usize,
    title: String,
    description: usize,
    notes: usize,
    artifacts: usize,
    transitions: usize,
    claimed: usize,
    review: usize,
    comment: usize,
    unknown: bool,
}

fn shape() -> impl Strategy<Value = Shape> {
    let tasks = proptest::collection::vec(written(), 1..5);
    (any::<[bool; 4]>(), 0..3usize, tasks).prop_map(
        |([crlf, final_break, bare, gap], indent, tasks)| Shape {
            crlf,
            final_break,
            bare,
            indent,
            gap,
            tasks,
        },
    )
}

fn written() -> impl Strategy<Value = Written> {
    let title = prop_oneof![
        Just("Plain title".to_owned()),
        Just("\"quoted: yes # no\"".to_owned()),
        Just("'it''s – ünïcödé 漢字 🎉'".to_owned()),
        Just("words over\n      two lines".to_owned()),
    ];
    (any::<[bool; 3]>(), 0..2usize, title, any::<[u8; 7]>()).prop_map(
        |([flow, dash_alone, unknown], keys, title, n)| {
            let pick = |at: usize, of: u8| usize::from(n[at] % of);
            Written {
                flow: flow && n[0] % 4 == 0,
                dash_alone,
                keys: 2 + 2 * keys,
                title,
                description: pick(0, 6),
                notes: pick(1, 6),
                artifacts: pick(2, 5),
                transitions: pick(3, 4),
                claimed: pick(4, 4),
                review: pick(5, 3),
                comment: pick(6, 5),
                unknown,
            }
        },
    )
}

impl Written {
    #[expect(clippy::too_many_lines, reason = "a list of forms")]
    fn text(&self, number: usize, base: usize) -> String {
        if self.flow {
            let notes =
                ["", ", execution_notes: []", ", execution_notes: [{by: \"agent:a\", note: x},]"]
                    [self.notes % 3];
            return format!(
                "{}- {{id: T-{number}, type: test, state: in_progress, owner: \"agent:a\",\n{}title: 'flow # no comment'{notes}}} # end\n",
                " ".repeat(base),
                " ".repeat(base + 4),
            );
        }
        let mut lines = vec![
            format!("id: T-{number}{}", ["", " # the id"][self.comment % 2]),
            "type: test".to_owned(),
        ];
        lines.push(
            ["state: in_progress", "state: \"in_progress\"  # now", "state:   in_progress"]
                [self.comment % 3]
                .to_owned(),
        );
        lines.push(["owner: agent:a", "'owner': \"agent:a\""][self.comment % 2].to_owned());
        lines.push(format!("title: {}", self.title));
        lines.push(match self.description {
            0 => String::new(),
            1 => "description: |\n    first – line\n\n    - id: not a task\n      state: todo\n"
                .to_owned(),
            2 => "description: >-\n    folded\n    text\n\n\n".to_owned(),
            3 => "description: |+\n    kept\n\n".to_owned(),
            4 => "description: \"a\n    b: c\"".to_owned(),
            _ => "description:".to_owned(),
        });
        lines.push(
            ["", "# a comment of the task", "  # an indented comment", "", "#"][self.comment]
                .to_owned(),
        );
        lines.push(match self.claimed {
            0 => String::new(),
            1 => "claimed_at: 2026-01-01T00:00:00Z".to_owned(),
            2 => "claimed_at: null # not yet".to_owned(),
            _ => "claimed_at:".to_owned(),
        });
        lines.push(match self.notes {
            0 => String::new(),
            1 => "execution_notes: []  # none".to_owned(),
            2 => "execution_notes:".to_owned(),
            3 => "execution_notes:\n  - by: agent:a\n    note: |\n      several\n\n      lines\n\n"
                .to_owned(),
            4 => "execution_notes:\n- by: agent:a\n  note: 'x'\n  # about the note\n".to_owned(),
            _ => "execution_notes: [{by: 'agent:a', note: \"[x], {y}\"}]".to_owned(),
        });
        lines.push(
            [
                "",
                "artifacts: [ ]",
                "artifacts: ~",
                "artifacts:\n    -   path: a/b.txt\n        type: code",
                "artifacts: [{path: a}, {path: b,\n     type: c}]",
            ][self.artifacts]
                .to_owned(),
        );
        lines.push(
            [
                "",
                "human_review:",
                "human_review:\n  status: pass\n  notes:\n    - fine ![x](assets/T-1/x.png)",
            ][self.review]
                .to_owned(),
        );
        if self.unknown {
            lines.push("x-custom: {deep: [1, two]}".to_owned());
        }
        lines.push(
            [
                "",
                "state_transitions: []",
                "state_transitions:\n  - {from: todo, to: in_progress, by: human}",
                "state_transitions:\n  -\n    from: todo\n    to: in_progress\n    by: human",
            ][self.transitions]
                .to_owned(),
        );
        let pad = " ".repeat(base + self.keys);
        let mut text = String::new();
        for line in lines.iter().filter(|line| !line.is_empty()).flat_map(|line| line.split('\n')) {
            let line = if line.is_empty() { String::new() } else { format!("{pad}{line}") };
            text.push_str(&format!("{line}\n"));
        }
        let dash = " ".repeat(base);
        if self.dash_alone && self.comment == 3 {
            format!("{dash}-\n{text}")
        } else {
            format!("{dash}-{}{}", " ".repeat(self.keys - 1), &text[base + self.keys..])
        }
    }
}

impl Shape {
    fn text(&self) -> String {
        let gap = if self.gap { "\n" } else { "" };
        let base = self.indent;
        let tasks: Vec<_> =
            self.tasks.iter().zip(1..).map(|(task, number)| task.text(number, base)).collect();
        let list = tasks.join(gap);
        let mut text = if self.bare {
            list
        } else {
            format!(
                "# Ärbeit\t\n\n\tA tab, `code`, and:\n````md\n```yaml\n- id: no task\n```\n````\n\n```yaml\n# head\n{list}```\nafter\n"
            )
        };
        if self.crlf {
            text = text.replace('\n', "\r\n");
        }
        if !self.final_break && text.ends_with('\n') && (!self.bare || !text.ends_with("\n\n")) {
            text.truncate(text.trim_end_matches(['\r', '\n']).len());
        }
        text
    }
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,40}",
        "[a-z:# '\"\\\\{}\\[\\],&*!|>%@`?-]{0,20}",
        "\\PC{0,20}",
        "[a-z \\n\\t]{0,40}",
        Just("yes".to_owned()),
        Just("~".to_owned()),
        Just("0x1F".to_owned()),
        Just("```\n- id: T-1\n```".to_owned()),
        Just("a\r\nb\u{85}\u{2028}\u{feff}\u{0}".to_owned()),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    let set = (0..6usize, value()).prop_map(|(at, value)| {
        let keys = ["state", "owner", "claimed_at", "blocked_reason", "blocked_by", "completed_at"];
        Edit::Set { key: keys[at], value: Meaning::Text(value) }
    });
    let review = value().prop_map(|text| Edit::Set {
        key: "human_review",
        value: Meaning::Map(vec![("notes".to_owned(), Meaning::List(vec![Meaning::Text(text)]))]),
    });
    let append = (0..3usize, value(), value()).prop_map(|(at, one, two)| {
        let key = ["execution_notes", "artifacts", "state_transitions"][at];
        let item = super::super::act::map(&[
            ("by", "agent:a"),
            ("note", &one),
            ("reason", &two),
            ("timestamp", "2026-01-01T00:00:00Z"),
        ]);
        Edit::Append { key, item }
    });
    let remove = (0..4usize).prop_map(|at| Edit::Remove {
        key: ["claimed_at", "completed_at", "blocked_reason", "blocked_by"][at],
    });
    prop_oneof![3 => set, 1 => review, 4 => append, 1 => remove]
}

/// Every verb that edits a task, with any words.
fn action() -> impl Strategy<Value = (Actor, Action)> {
    let words = (value(), value(), any::<bool>());
    (0..13usize, words, any::<bool>()).prop_map(|(at, (one, two, some), human)| {
        let actor = if human { Actor::Human } else { agent("a") };
        let maybe = some.then(|| two.clone());
        let to = if some { State::Todo } else { State::InProgress };
        let path = RelPath::fixed("src/ä b.rs");
        let action = match at {
            0 => Action::Claim,
            1 => Action::Note { text: one, summary: maybe },
            2 => Action::Submit { note: Some(one), summary: maybe },
            3 => Action::Done { note: maybe, summary: Some(one) },
            4 => Action::Return { reason: maybe },
            5 => Action::Block { reason: one, by: maybe },
            6 => Action::Unblock { to, reason: maybe },
            7 => Action::Reject { reason: one },
            8 => Action::Reopen { reason: one },
            9 => Action::Reclaim { reason: one },
            10 => Action::RequestBlock { reason: one },
            11 => Action::Review { status: Verdict::NeedsWork, reviewer: one, notes: vec![two] },
            _ => Action::Artifact { path, kind: one },
        };
        (actor, action)
    })
}

/// `PROPTEST_CASES=20000` is the full number; 256 are tried every day.
fn trials() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

fn path(shape: &Shape) -> RelPath {
    if shape.bare { RelPath::fixed("more.yaml") } else { RelPath::fixed("work.md") }
}

fn read(shape: &Shape, text: &str) -> Board {
    Board::read(&config(), vec![(path(shape), text.as_bytes().to_vec())])
}

/// The edits are made, mean what they say, and leave every other byte alone.
fn check(shape: &Shape, board: &Board, id: &str, edits: &[Edit]) -> Result<(), TestCaseError> {
    let text = &board.files[0].text;
    let place = board.place(id).unwrap();
    let mut wanted = board.meaning_at(place).unwrap();
    edits.iter().for_each(|edit| change_meaning(&mut wanted, edit));
    let (_, new) = match board.edited(id, edits) {
        Ok(edited) => edited,
        Err(error) => return Err(TestCaseError::fail(format!("{error}\n{text}\n{edits:#?}"))),
    };
    let new = String::from_utf8(new).unwrap();
    let (before, after) = text.split_once(board.text(id).unwrap()).unwrap();
    prop_assert!(new.starts_with(before) && new.ends_with(after), "{}\n---\n{}", text, new);
    let now = read(shape, &new);
    let mut others = 0;
    for item in 0..now.files[0].items.len() {
        let other = super::super::board::TaskPosition { file: 0, item };
        let meaning = now.meaning_at(other).unwrap();
        if item == place.item {
            prop_assert!(same(&meaning, &wanted), "{:#?}\n{:#?}", meaning, wanted);
        } else {
            prop_assert_eq!(now.text_at(other), board.text_at(other));
            others += 1;
        }
    }
    prop_assert_eq!(others + 1, shape.tasks.len());
    let kept = untouched(board, place, edits, now.text_at(place));
    prop_assert!(kept, "{}\n---\n{}", board.text(id).unwrap(), now.text_at(place));
    Ok(())
}

/// One text is the other with one stretch put in.
fn is_insertion(short: &str, long: &str) -> bool {
    let (short, long) = (short.as_bytes(), long.as_bytes());
    let head = short.iter().zip(long).take_while(|(a, b)| a == b).count();
    let tail = short.iter().rev().zip(long.iter().rev()).take_while(|(a, b)| a == b).count();
    head + tail >= short.len()
}

// covers: CD-02, CD-03, CD-09
#[test]
fn an_edit_changes_its_own_meaning_and_no_other_byte() {
    let strategy = (shape(), proptest::collection::vec(edit(), 1..4), any::<prop::sample::Index>());
    proptest!(trials(), |((shape, edits, at) in strategy)| {
        let text = shape.text();
        let board = read(&shape, &text);
        prop_assert!(board.problems.is_empty(), "{text}\n{:#?}", board.problems);
        prop_assert_eq!(board.len(), shape.tasks.len(), "{}", text);
        check(&shape, &board, &format!("T-{}", at.index(shape.tasks.len()) + 1), &edits)?;
    });
}

// covers: CD-09
#[test]
fn a_comment_below_the_last_field_does_not_become_part_of_a_new_one() {
    let task = "- id: T-1\n  type: test\n  state: todo\n  owner: unassigned\n  title: T\n  execution_notes:\n  - by: human\n    note: x\n    # about the note\n";
    let board = Board::read(&config(), vec![(RelPath::fixed("more.yaml"), task.into())]);
    let lines = Meaning::Text("one\ntwo".to_owned());
    let item = Meaning::Map(vec![("note".to_owned(), lines.clone())]);
    let edits = [
        Edit::Set { key: "blocked_reason", value: lines },
        Edit::Append { key: "execution_notes", item },
    ];
    for edit in edits {
        let (_, new) = board.edited("T-1", &[edit]).unwrap();
        let new = String::from_utf8(new).unwrap();
        assert!(is_insertion(task, &new), "{new}");
    }
}

// covers: CD-09, CD-14
#[test]
fn every_verb_changes_its_own_task_and_no_other_byte() {
    let strategy = (shape(), action(), any::<prop::sample::Index>());
    proptest!(trials(), |((shape, (actor, action), at) in strategy)| {
        let board = read(&shape, &shape.text());
        let id = format!("T-{}", at.index(shape.tasks.len()) + 1);
        let edits = super::super::act::edits(&board, &id, &actor, &action, &stamp());
        prop_assert!(!edits.is_empty());
        check(&shape, &board, &id, &edits)?;
    });
}

// covers: CD-09, CD-17, CD-24
#[test]
fn a_new_task_is_one_insertion_and_an_archived_one_is_one_deletion() {
    let strategy = (shape(), value(), any::<prop::sample::Index>());
    proptest!(trials(), |((shape, title, at) in strategy)| {
        let text = shape.text();
        let board = read(&shape, &text);
        let new = NewTask {
            id: "N-1".into(),
            kind: "test".into(),
            title: title.clone(),
            owner: "unassigned".into(),
            labels: vec![title],
            ..NewTask::default()
        };
        // A title that YAML cannot hold is refused, never bent.
        if let Ok(bytes) = add(&board, &path(&shape), &new) {
            let long = String::from_utf8(bytes).unwrap();
            prop_assert!(is_insertion(&text, &long), "{}\n---\n{}", text, long);
            prop_assert_eq!(read(&shape, &long).len(), shape.tasks.len() + 1);
        }
        let text = text.replace("in_progress", "done");
        let board = read(&shape, &text);
        let id = format!("T-{}", at.index(shape.tasks.len()) + 1);
        // A comment after its last field may be about what follows, and stays.
        let lines: Vec<&str> = board.text(&id).unwrap().trim_end().split('\n').collect();
        let end = lines.iter().rposition(|line| !line.trim().is_empty() && !line.trim().starts_with('#'));
        let block = lines[..=end.unwrap()].join("\n").trim_end().to_owned();
        let [(_, left), (_, moved)] = archive(&board, &id, &RelPath::fixed("done.md")).unwrap();
        let (left, moved) = (String::from_utf8(left).unwrap(), String::from_utf8(moved).unwrap());
        prop_assert!(is_insertion(&left, &text), "{}\n---\n{}", text, left);
        prop_assert!(moved.contains(&block), "{}\n---\n{}", block, moved);
        prop_assert_eq!(read(&shape, &left).len(), shape.tasks.len() - 1);
    });
}

/// The lines of all fields that were not edited are there still, in their order.
fn untouched(
    board: &Board,
    place: super::super::board::TaskPosition,
    edits: &[Edit],
    now: &str,
) -> bool {
    let text = board.text_at(place);
    let node = super::super::read::mapping(text).unwrap();
    let Some(entries) = node.entries() else { return false };
    if text.trim_start().trim_start_matches('-').trim_start().starts_with('{') {
        return true;
    }
    let key = |edit: &Edit| match edit {
        Edit::Set { key, .. } | Edit::Remove { key } | Edit::Append { key, .. } => *key,
    };
    let mut lines = now.lines();
    entries.iter().filter(|entry| !edits.iter().any(|edit| key(edit) == entry.key)).all(|entry| {
        let end = entry.value.span.end.max(entry.key_span.end);
        text[entry.key_span.start..end]
            .trim_end()
            .lines()
            .all(|wanted| lines.any(|line| line.contains(wanted)))
    })
}

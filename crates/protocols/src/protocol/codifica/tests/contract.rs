//! The agent contract of spec 3 §11, rule by rule: what an agent does against it, and what is said to that (CD-18).

use super::ruling::{MINE, mine, one, with};
use super::*;
use crate::model::{Change, RelPath};

/// One duty of the contract, and each way to break it with the rules that are then named.
struct Duty {
    text: &'static str,
    broken: Vec<(&'static str, Vec<String>)>,
}

fn verb(board: &Board, actor: &Actor, action: Action) -> Vec<String> {
    rules(act(board, "A", actor, &action, &stamp()))
}

/// What a foreign edit by agent:a is told, warnings included.
fn hand(old: &str, new: &str) -> Vec<String> {
    named(&judge(&board(&fenced(old)), &board(&fenced(new)), &agent("a")))
}

fn named(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(|finding| finding.rejection.rule.to_string()).collect()
}

fn reason() -> String {
    "because".to_owned()
}

fn done(summary: Option<&str>) -> Action {
    Action::Done { note: Some("all done".into()), summary: summary.map(str::to_owned) }
}

fn changed(path: &str, there: bool, new: bool) -> Vec<String> {
    let to = there.then(|| ("100644".to_owned(), "0".repeat(40)));
    let change = Change { path: RelPath::new(path).unwrap(), to, new };
    let config = config_with(r#"{"file_scope":{"include":["src/**"],"exclude":["*.key"]}}"#);
    named(&judge_changes(&config, "A", &[change]))
}

fn entry(from: &str, to: &str) -> String {
    format!(
        "  state_transitions:\n    - {{from: {from}, to: {to}, by: 'agent:a', provenance: {{session_id: s}}}}\n"
    )
}

#[expect(clippy::too_many_lines, reason = "the contract, line by line")]
fn duties() -> Vec<Duty> {
    let (a, b) = (agent("a"), agent("b"));
    let own = mine(&[]);
    let tested = mine(&[("state", "to_be_tested")]);
    let (plain, held) = (with("A", &[]), with("A", MINE));
    let of_b = held.replace("agent:a", "agent:b");
    let limited = config_with(r#"{"allowed_agents":["a"],"max_concurrent_tasks_per_agent":1}"#);
    let crowded = board_with(&limited, &fenced(&(plain.clone() + &with("HELD", MINE))));
    let no_contract =
        |text: &str| Config::read(text.as_bytes()).err().map(|all| named(&all)).unwrap_or_default();
    let wrong_version = r#"{"protocol":"codifica","version":"9","spec":"s.md","state":"w.md"}"#;
    let open_fence = named(&board("```yaml\n- id: A\n").problems);
    let duty = |text, broken| Duty { text, broken };
    vec![
        duty("read codifica.json", vec![("there is none", no_contract("{}"))]),
        duty("read the spec", vec![("of a version that nobody knows", no_contract(wrong_version))]),
        duty("read all state files", vec![("one that cannot be read", open_fence)]),
        duty(
            "pull before reading and writing",
            vec![("another's claim written over from an old copy", hand(&of_b, &plain))],
        ),
        duty(
            "claim with a single commit",
            vec![
                ("no claimed_at", {
                    let claimed = with("A", &[("state", "in_progress"), ("owner", "agent:a")]);
                    hand(&plain, &(claimed + &entry("todo", "in_progress")))
                }),
                ("no owner", {
                    let claimed = with(
                        "A",
                        &[("state", "in_progress"), ("claimed_at", "2026-01-01T00:00:00Z")],
                    );
                    hand(&plain, &(claimed + &entry("todo", "in_progress")))
                }),
            ],
        ),
        duty(
            "a lost claim is no claim",
            vec![
                ("claimed all the same", verb(&board(&fenced(&of_b)), &a, Action::Claim)),
                ("taken by hand", hand(&of_b, &held)),
            ],
        ),
        duty(
            "leave human_review alone",
            vec![
                (
                    "written by hand",
                    hand(&held, &(held.clone() + "  human_review: {status: pass}\n")),
                ),
                ("by the verb", {
                    let status = Verdict::Pass;
                    verb(
                        &own,
                        &a,
                        Action::Review { status, reviewer: "a".into(), notes: Vec::new() },
                    )
                }),
            ],
        ),
        duty(
            "never delete or modify images",
            vec![
                ("deleted", changed("assets/A/x.png", false, false)),
                ("modified", changed("assets/A/x.png", true, false)),
                ("kept elsewhere", changed("shots/x.png", true, true)),
                ("in another task's folder", changed("assets/B/x.png", true, true)),
            ],
        ),
        duty(
            "only the owner completes",
            vec![
                ("another agent", verb(&tested, &b, done(Some("x")))),
                ("another agent returns it", verb(&tested, &b, Action::Return { reason: None })),
            ],
        ),
        duty(
            "do not reclaim",
            vec![
                (
                    "another's",
                    verb(&board(&fenced(&of_b)), &a, Action::Reclaim { reason: reason() }),
                ),
                ("one's own", verb(&own, &a, Action::Reclaim { reason: reason() })),
            ],
        ),
        duty(
            "do not block or reject",
            vec![
                ("blocked", verb(&own, &a, Action::Block { reason: reason(), by: None })),
                ("rejected", verb(&own, &a, Action::Reject { reason: reason() })),
                ("reopened", {
                    let over = mine(&[("state", "rejected")]);
                    verb(&over, &a, Action::Reopen { reason: reason() })
                }),
            ],
        ),
        duty(
            "recommend a block by a note",
            // An agent may; what is broken is the other way: a human who writes an agent's note.
            vec![(
                "a human in the notes",
                verb(&own, &Actor::Human, Action::RequestBlock { reason: reason() }),
            )],
        ),
        duty(
            "a summary of at most 120 characters",
            vec![
                ("none", verb(&tested, &a, done(None))),
                ("too long", verb(&tested, &a, done(Some(&"x".repeat(121))))),
                ("of two lines", verb(&tested, &a, done(Some("x\ny")))),
            ],
        ),
        duty(
            "record artifacts",
            vec![("files without artifacts", {
                let to = Some(("100644".to_owned(), "0".repeat(40)));
                let change = Change { path: RelPath::fixed("src/a.rs"), to, new: true };
                let task = tested.task("A").unwrap().unwrap();
                let found = super::super::scope::unrecorded(&config(), &task, &[change]);
                named(&found.into_iter().collect::<Vec<_>>())
            })],
        ),
        duty(
            "set completed_at",
            vec![("done without it", {
                let closed = held.replace("in_progress", "done")
                    + "  execution_notes:\n    - {by: 'agent:a', note: x, summary: y, provenance: {session_id: s}}\n"
                    + &entry("to_be_tested", "done");
                hand(&held.replace("in_progress", "to_be_tested"), &closed)
            })],
        ),
        duty(
            "include provenance",
            vec![("an entry without it", {
                hand(
                    &held,
                    &(held.clone() + "  execution_notes:\n    - {by: 'agent:a', note: x}\n"),
                )
            })],
        ),
        duty(
            "respect file_scope, allowed_agents and max_concurrent_tasks",
            vec![
                ("outside the scope", changed("docs/x.md", true, true)),
                ("excluded", changed("src/my.key", true, true)),
                ("not allowed", verb(&crowded, &b, Action::Claim)),
                ("one too many", verb(&crowded, &a, Action::Claim)),
            ],
        ),
        duty(
            "do not start with unmet depends_on",
            vec![
                ("not done", {
                    let text = fenced(&(with("A", &[("depends_on", "[B]")]) + &with("B", &[])));
                    verb(&board(&text), &a, Action::Claim)
                }),
                ("not there", verb(&one(&[("depends_on", "[GONE]")]), &a, Action::Claim)),
            ],
        ),
        duty(
            "when a push fails, look again",
            vec![("a note of another's undone by an old copy", {
                let noted = held.clone()
                    + "  execution_notes:\n    - {by: 'agent:a', note: one, provenance: {session_id: s}}\n";
                hand(&noted, &held)
            })],
        ),
        // Nothing can show that somebody guessed; it is said, and a note asks.
        duty("ask a human", Vec::new()),
        duty(
            "touch only your own block",
            vec![
                ("another's", hand(&of_b, &of_b.replace("title: A", "title: mine"))),
                ("the order", hand(&(plain.clone() + &with("B", &[])), &(with("B", &[]) + &plain))),
            ],
        ),
    ]
}

// covers: CD-18
#[test]
fn every_rule_of_the_contract_has_its_counterpart() {
    let duties = duties();
    assert_eq!(duties.len(), TERMS.len(), "a duty for every term, in its order");
    let by = |rule: &str| {
        match rule {
            // The term speaks of the verb; what refuses it is the table or the rule about foreign edits.
            "CD-11" => vec!["CD-07", "CD-07a"],
            "CD-23" => vec!["CD-10", "CD-20"],
            "CD-08" => vec!["CD-08", "CD-22", "CD-07", "CD-10"],
            "CD-10" => vec!["CD-10", "CD-24"],
            "CD-12" => vec!["CD-12"],
            other => vec![other],
        }
        .into_iter()
        .map(str::to_owned)
        .collect::<Vec<_>>()
    };
    for (duty, term) in duties.iter().zip(TERMS) {
        assert!(contract(None).contains(term.text), "{} is not told", duty.text);
        assert!(!duty.broken.is_empty() || term.rule == "CD-18", "{} is only told", duty.text);
        for (how, found) in &duty.broken {
            let wanted = by(term.rule);
            assert!(
                found.iter().any(|rule| wanted.contains(rule)),
                "{}, {how}: found {found:?}, wanted one of {wanted:?}",
                duty.text
            );
        }
    }
    // What an honest agent does by the verbs breaks none of it.
    let a = agent("a");
    let asked = act(&mine(&[]), "A", &a, &Action::RequestBlock { reason: reason() }, &stamp());
    assert!(asked.unwrap().warnings.is_empty());
}

/// spec 3 §11, word for word.
const SECTION_11: &str = include_str!("../../../../../../tests/spec/codifica-11.txt");

// covers: CD-18
#[test]
fn the_instruction_of_the_spec_reaches_agents_in_full_and_in_order() {
    let told = contract(None);
    assert!(told.starts_with(SECTION_11), "told:\n{told}");
    let rules: Vec<&str> = SECTION_11.lines().filter_map(|line| line.strip_prefix("- ")).collect();
    assert_eq!(rules.len(), 15);
    let mut from = 0;
    for rule in rules {
        let at =
            told[from..].find(rule).unwrap_or_else(|| panic!("not told, or not in order: {rule}"));
        from += at + rule.len();
        assert!(TERMS.iter().any(|term| term.text == rule), "no rule of ours enforces: {rule}");
    }
}

// covers: CD-25
#[test]
fn older_repositories_and_tasks_are_judged_by_what_they_knew() {
    let config = std::sync::Arc::new(
        Config::read(br#"{"protocol":"codifica","version":"0.1","spec":"s.md","state":"work.md"}"#)
            .unwrap(),
    );
    let old = "- id: A\n  type: test\n  state: in_progress\n  owner: agent:a\n  title: A\n";
    let older = board_with(&config, &fenced(old));
    assert!(validate(&older).is_empty(), "no field of v0.2 is missed: {:?}", validate(&older));
    let action = Action::Done { note: Some("done".into()), summary: None };
    let closed = act(&older, "A", &agent("a"), &action, &stamp()).unwrap();
    let warned: Vec<_> = closed.warnings.iter().map(|it| it.rejection.rule.as_str()).collect();
    assert_eq!(warned, ["CD-25"], "a closing note without a summary only warns");
    let newer = board(&fenced(old));
    assert!(validate(&newer).is_empty(), "a legacy task in a v0.2 repository is valid");
    assert_eq!(rules(act(&newer, "A", &agent("a"), &action, &stamp())), ["CD-13"]);
}

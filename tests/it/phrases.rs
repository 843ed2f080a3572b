//! Phrases that new users did not understand, and that were replaced: none of them may come back into the program's texts.

use crate::tidy::texts;

/// As the program printed them; placeholders are left out. Beside each: what it says now.
const REPLACED: &[(&str, &str)] = &[
    ("; wanted from ", "A-1 was claimed by agent:one first. Take another: agency work claim …"),
    ("was left as it was", "your main was not moved: work.md has uncommitted changes. …"),
    ("no report was written", "no report at `…`; found `…` instead"),
    ("one try", "1 try"),
    ("agency explain the rule", "one command that can be pasted, or prose without a command"),
    ("may make of it", "T0010 is canceled already"),
    ("cannot follow", "T0004 cannot be DONE: its report is refused (…)"),
    ("is no priority", "R-005 has no **Priority:** or **Status:** line"),
    ("while scanning", "line 4: found a line that is indented with a tab"),
    ("YAML that is indented strictly", "`[`, which is never closed"),
    ("Do this with a reason", "one sentence and one example for each verb"),
    ("inside it, what agents do wrong", "isolation: none (container, shared user). …"),
    (
        "machine's journal does not know",
        "this repository already has …; `agency adopt` continues it",
    ),
    ("this machine does not know it;", "First time here: run \"agency adopt\" …"),
    ("a ledger is here", "this repository already has a ledger …"),
    ("agency escalations\\\" lists it", "nothing to do; `agency ack ID` closes it"),
    ("We do not know who", "agency does not decide whether an agent or a human wrote it"),
    ("state file is another's", "`.claude/state.json` has another format (…)"),
    ("another agency works", "another agency daemon (pid 4242) has this repository"),
    ("cannot be worked by", "`agency.json` cannot be read: line 4: …"),
    ("for no success", "A lost run does not count as success."),
    ("the unit is written", "what failed, and the command to try"),
    ("starts again in", "waiting: claude's usage limit, resets 03:41Z"),
    ("signed-in failure", "claude-code cannot sign in (401). Check … then: agency resume"),
    ("For machines", "Print as JSON"),
    ("somebody else ran", "another machine ran it"),
];

#[test]
fn no_phrase_that_was_not_understood_is_in_the_programs_texts() {
    let mut found = Vec::new();
    for (path, text) in texts() {
        for (phrase, now) in REPLACED {
            if text.contains(phrase) {
                found.push(format!("{}: `{phrase}`; say: {now}", path.display()));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// A count before a noun in the plural reads wrong for one: `counted` takes care of it.
#[test]
fn no_text_says_one_tries() {
    let nouns = ["tries", "messages were", "problems;", "violations in"];
    let shapes = |noun: &str| [format!("{{}} {noun}"), format!("{{tries}} {noun}")];
    for (path, text) in texts() {
        for shape in nouns.iter().flat_map(|noun| shapes(noun)) {
            assert!(!text.contains(&shape), "{} has `{shape}`", path.display());
        }
    }
}

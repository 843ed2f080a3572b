//! What every agent is told (spec 3 §11): the specification's own instruction, word for word, then what each rule means
//! here. `TERMS` pairs each rule with the one that enforces it.

use super::config::Config;

/// One duty of an agent, and the rule that enforces it.
pub struct Term {
    pub rule: &'static str,
    /// As spec 3 §11 words it.
    pub text: &'static str,
    /// What does it here, or what is refused; empty: the words say it all.
    pub here: &'static str,
}

const fn term(rule: &'static str, text: &'static str, here: &'static str) -> Term {
    Term { rule, text, here }
}

/// How many of `TERMS` come before the rules, and how many are rules.
const STEPS: usize = 3;
const RULES: usize = 15;

#[rustfmt::skip]
pub const TERMS: &[Term] = &[
    term("CD-01", "Read codifica.json at repo root.", ""),
    term("CD-26", "Read the spec file specified by the `spec` field.", ""),
    term("CD-02", "Read ALL state files matching the `state` field.", ""),
    term("CD-23", "Pull before reading. Pull before writing.", "`agency work` does both for you."),
    term("CD-08", "Claim tasks with a single commit (state + owner + claimed_at) before starting work.", "`agency work claim` makes this commit and pushes it."),
    term("CD-08", "If your claim push fails, do not start — pick a different task.", ""),
    term("CD-10", "Do not edit human_review sections.", ""),
    term("CD-16", "Do not delete or modify image files.", "Images are evidence."),
    term("CD-07b", "Only the task owner may move a task from to_be_tested to done.", "`agency work done`, or `agency work return` to send it back."),
    term("CD-11", "Do not reclaim stale tasks from other agents — only humans may reclaim.", ""),
    term("CD-07a", "Do not move tasks to blocked or rejected — only humans may do this.", ""),
    term("CD-14", "If you discover a blocker, add a note to execution_notes recommending the task be blocked, with a reason.", "`agency work request-block ID --reason …` writes it."),
    term("CD-13", "Include a summary (≤120 chars) on your closing execution note.", "`--summary`, one line."),
    term("CD-15", "Record artifacts produced by your work.", "`agency work artifact ID --path … --type …`"),
    term("CD-13", "Set completed_at when moving a task to done.", "`agency work done` sets it."),
    term("CD-14", "Include provenance (session_id) on execution_notes and state_transitions when available.", "`agency work` fills it in."),
    term("CD-12", "Respect file_scope, allowed_agents, and max_concurrent_tasks from codifica.json.", "A file outside the scope is not committed."),
    term("CD-06", "Do not start tasks with unmet depends_on.", ""),
    term("CD-23", "If a push fails due to conflict, pull and re-evaluate.", ""),
    term("CD-18", "If intent is unclear, ask a human.", ""),
    // spec 3 §8.3, which §11 does not repeat.
    term("CD-10", "Structure commits to touch only your own task block; do not reformat or reorder other tasks.", ""),
];

pub fn contract(config: Option<&Config>) -> String {
    let mut text = String::from(
        "You are operating in a repository that uses the Codifica protocol.\n\nBefore doing any work:\n",
    );
    for (term, number) in TERMS[..STEPS].iter().zip(1..) {
        text.push_str(&format!("{number}. {}\n", term.text));
    }
    text.push_str("\nRules:\n");
    for term in &TERMS[STEPS..STEPS + RULES] {
        text.push_str(&format!("- {}\n", term.text));
    }
    text.push('\n');
    for term in &TERMS[STEPS + RULES..] {
        text.push_str(&format!("{}\n", term.text));
    }
    text.push_str("\nWhat this means here:\n");
    for term in TERMS.iter().filter(|term| !term.here.is_empty()) {
        text.push_str(&format!("- {} {} [{}]\n", term.text, term.here, term.rule));
    }
    let mut rules: Vec<_> = TERMS.iter().map(|term| term.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    text.push_str(&format!(
        "`agency explain RULE` explains a refusal. The rules: {}.\n",
        rules.join(", ")
    ));
    if let Some(config) = config {
        let state: Vec<_> = config.state.iter().map(|pattern| pattern.text.as_str()).collect();
        text.push_str(&format!(
            "\nThe spec is `{}`, the state is in `{}`, evidence belongs below `{}/`.\n",
            config.spec,
            state.join("`, `"),
            config.assets
        ));
    }
    text
}

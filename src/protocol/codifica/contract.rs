//! What every agent is told (spec 3 §11), in our own words and with our own verbs. `TERMS` pairs each duty with its rule.

use super::config::Config;

/// One duty of an agent, and the rule that enforces it.
pub struct Term {
    pub rule: &'static str,
    pub text: &'static str,
}

const fn term(rule: &'static str, text: &'static str) -> Term {
    Term { rule, text }
}

#[rustfmt::skip]
pub const TERMS: &[Term] = &[
    term("CD-01", "Read `codifica.json` at the top of the repository before anything else."),
    term("CD-26", "Then read the spec file that it names under `spec`."),
    term("CD-02", "Then read every state file that `state` names."),
    term("CD-23", "Pull before you read and again before you write; `agency work` does both for you."),
    term("CD-08", "Claim a task before you work on it: state, owner and claimed_at in one commit, pushed (`agency work claim`)."),
    term("CD-08", "A claim that cannot be pushed is lost: do not begin; take another task."),
    term("CD-10", "`human_review` belongs to humans. Leave it as it is."),
    term("CD-16", "Never change or delete an image; images are evidence."),
    term("CD-07b", "From to_be_tested only the task's owner moves it on (`agency work done`, `agency work return`)."),
    term("CD-11", "Never take over a task that another agent left lying; only humans reclaim."),
    term("CD-07a", "Never block or reject a task yourself."),
    term("CD-14", "When something blocks you, say so with its reason: `agency work request-block ID --reason …`."),
    term("CD-13", "Close with a note that has a summary of at most 120 characters on one line."),
    term("CD-15", "Record what you made: `agency work artifact ID --path … --type …`."),
    term("CD-13", "`completed_at` is set when a task is done; `agency work done` does it."),
    term("CD-14", "Your notes and transitions carry your session as provenance; `agency work` fills it in."),
    term("CD-12", "Stay within `file_scope`, `allowed_agents` and `max_concurrent_tasks_per_agent`."),
    term("CD-06", "Do not begin a task whose `depends_on` are not all done."),
    term("CD-10", "Touch only your own task's block; do not reorder or reformat others'."),
    term("CD-23", "When a push fails, pull and look again at what is true now."),
    term("CD-18", "When it is not clear what is wanted, ask a human instead of guessing."),
];

pub fn contract(config: Option<&Config>) -> String {
    let mut text = String::from(
        "This repository is coordinated by the Codifica protocol. You must keep to this:\n",
    );
    for (term, number) in TERMS.iter().zip(1..) {
        text.push_str(&format!("{number:>2}. {} [{}]\n", term.text, term.rule));
    }
    if let Some(config) = config {
        let state: Vec<_> = config.state.iter().map(|pattern| pattern.text.as_str()).collect();
        text.push_str(&format!(
            "\nHere: spec `{}`, state `{}`, evidence below `{}/`.\n",
            config.spec,
            state.join("`, `"),
            config.assets
        ));
    }
    text
}

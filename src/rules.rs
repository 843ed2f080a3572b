//! Every rule that a refusal, a message or a log line can name, in words for people. It judges nothing.

pub struct Rule {
    pub id: &'static str,
    pub title: &'static str,
    pub text: &'static str,
}

pub fn find(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.id == id)
}

const fn rule(id: &'static str, title: &'static str, text: &'static str) -> Rule {
    Rule { id, title, text }
}

#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    rule("LP-01", "the six rows of the loop", "propose → review → execute → verify, then the next step. Each accepted flag moves phase and turn exactly as `agency protocol show loop` prints it; after `verified-clean` the next step begins with claude-code in round 1."),
    rule("LP-02", "the way back after change requests", "With claude-code holding, `proposed` or `revised` in review, and `executed` or `revised` in verify, hand the turn back to codex in a new round."),
    rule("LP-03", "invalid transition", "The flag's status is known, but no row allows it for this phase and turn holder. The flag is in quarantine and the loop is held: somebody works on another loop than this one. Look at the evidence, then `agency resume`."),
    rule("LP-04", "a flag has five fields", "`.agent-status.json` must be one JSON object with agent, step, status, nextAgent and timestamp, each a non-empty string and each key once. Other fields are ignored; a step written as a number is fine when it prints the same."),
    rule("LP-05", "the flag's step is the loop's step", "A flag for another step answers an old prompt. It is refused; the agent is started again with the reason."),
    rule("LP-06", "a flag's time", "RFC 3339 with a zone, at most 30 minutes old when its run ended, at most 2 minutes in the future. Time while the daemon was down does not count."),
    rule("LP-07", "status and nextAgent", "The status must be one that the protocol knows, and nextAgent must name the agent that the row hands the turn to. After `verified-clean` either agent, or `advance`, is fine."),
    rule("LP-08", "only the turn holder speaks", "The flag's agent must be the one whose turn it is."),
    rule("LP-09", "what happens to a refused flag", "It is taken into quarantine, the turn stays, and the agent is started again with the reason in its prompt."),
    rule("LP-10", "three refusals in a row", "The agent does not learn from the reasons, so the loop is held. `agency escalations` shows them; `agency resume` gives it three more."),
    rule("LP-11", "only the daemon writes the state file", "`.review-loop-state.json` was changed by somebody else. The foreign bytes are in quarantine, our state is back in its place, and you were told."),
    rule("LP-12", "owner mandates bind the reviewer", "On a step that `owner-mandates.json` lists, change requests about scope or plan are not allowed."),
    rule("LP-13", "owner mandates bind the builder", "A mandated step may not be deferred, skipped or redefined."),
    rule("LP-14", "the format of change requests", "Each has an id, round, severity, category, files and status, in the form that the prompt shows."),
    rule("LP-15", "approval with open requests", "Nothing is approved or verified while a critical or high change request of the round is open."),
    rule("LP-16", "review files are archived", "Before a turn that rewrites a review file, its previous version is kept under `reviews/`, once for the same bytes, never over another file."),
    rule("LP-17", "who writes which review file", "Comments are codex's, responses are claude-code's; a change at another time is told to the owner."),
    rule("LP-18", "CODEBASE.md", "Every repository with a loop keeps a map of itself; prompts tell agents to read it first."),
    rule("LP-19", "only the daemon commits", "One commit for each accepted transition, with exactly what the run changed. It holds when the run changed a file that had uncommitted work before, or left a new file that looks like a secret: put that right, then `agency resume`. A push is never forced; one that is not a fast-forward holds."),
    rule("LP-20", "hands off the history", "An agent that moved HEAD, made commits, branches or tags is in violation, and the loop is held. When you switch branches or rebase yourself the loop is away: it waits and goes on when the branch is back. A branch that lost our last commit needs `agency adopt` or `agency loop restore`."),
    rule("LP-21", "stale locks", "The run that has the turn is its lock. One that is lost after holding it for more than 45 minutes (`loop.lock_stale`) is told to you, and the agent is tried again. While its process lives nothing is said: how long a run may take is for its own limits (SU-04)."),
    rule("LP-22", "quality gates", "The daemon runs `loop.gates`, or the checks it finds in the repository, itself before it believes `executed` or `verified-clean`. A failing one refuses the flag and its output goes into the next prompt; one that changes files holds the loop: let gates write nothing, or ignore what they write. No gate at all is said once and never counted as passed."),
    rule("LP-23", "five causes, one message each", "Each cause of the protocol's §7 gives exactly one escalation."),
    rule("LP-24", "the steps of a loop", "They come from `agency loop init --steps` or from a plan's `## Step <id>` headings. After the last one the loop is complete and you are told."),
    rule("LP-25", "rounds are bounded", "After 8 rounds of one phase (`loop.max_rounds`) the agents do not agree, and you are asked. `agency resume` allows as many rounds again."),
    rule("LP-26", "the owner's way out", "`agency loop inject` sets step, phase or turn by hand. It needs a reason, is committed and announced."),
    rule("LP-27", "the turn passes when the run has ended", "After a good flag the agent has 30 seconds to exit (`loop.settle`), then it is stopped. A flag written by hand is judged at once."),
    rule("LP-28", "a flag counts once", "A flag older than its turn, or with bytes that were judged before, is refused, also after a restart."),
    rule("LP-29", "mandated decisions reach both agents", "Whatever their shape; an invalid mandates file holds the loop."),
    rule("LP-30", "gates count as trusted", "The run changed CI, lint or test settings, a script that a gate calls, or there are fewer tests or more skipped ones than before. Nothing is accepted on the word of checks that the work itself changed: look at the evidence; `agency resume` accepts them as they are now."),
    rule("LG-01", "the ledger's three files", "`progress.json`, `reviews.json` and `feature_list.json` follow their schemas, as JSON in UTF-8 with each key once. Unknown fields are kept. `agency check` lists every problem at once."),
    rule("LG-02", "files of another shape", "A file of the right name that holds something else (a shop's product reviews) is left alone and never written, also not by `--force`. Keep the ledger in a directory of its own: `-d DIR` or `$AGENT_STATE_DIR`."),
    rule("LG-03", "the ledger's commands", "`agency progress`, `reviews` and `features` print what the scripts in the wild print; `agency ledger scripts` writes scripts that call them."),
    rule("LG-04", "the ledger's loop", "INITIALIZER where there is no feature list, then for each feature IMPLEMENT, REVIEW, and FIX and REVIEW again while it is not good; ARCHITECTURE after every 5 completed features. `agency protocol show ledger` prints the table."),
    rule("LG-05", "words that agree", "Verdicts, outcomes, issue ids and health status come from the tables of the protocol, and agree: no PASS with open issues, no GOOD with low coverage, `R3-M1` only for a major issue of review 3. The refusal names the right word."),
    rule("LG-06", "one gatekeeper", "Only REVIEW merges and makes a feature pass, IMPLEMENT may report a regression, FIX records fixes, ARCHITECTURE only reviews. What an agent did beyond that is undone and kept aside, or held for you where it reached your main branch."),
    rule("LG-07", "commits are recorded from git", "What a session says about its commits is corrected to what git shows, and noted."),
    rule("LG-08", "three fix attempts", "Then severity decides: with critical or major issues left it is rejected and built anew, with minor ones it is merged with its comments. Before a rejected branch is deleted its commits are kept under `refs/agency/`."),
    rule("LG-09", "numbers in order", "Sessions, reviews and fixes are numbered one by one, also with many writers."),
    rule("LG-10", "times and spellings", "Times are UTC as 2026-01-01T00:00:00Z. The spellings of the scripts in the wild (`APPROVE`, flat lists of issues, a bare list of features) are read; ours are written."),
    rule("LG-11", "all that a review can say", "Checklist, health status, metrics, trigger, feature name and the description of its range; a merged fix carries its merge commit."),
    rule("LG-12", "fixes name what exists", "The review, its issues, and commits of the session that fixed them."),
    rule("LG-13", "what is computed", "Counts, the head commit, the branch (null on main) and the current feature. The next feature is the first open bug, then the first open one in the file."),
    rule("DM-01", "protocols are found by content", "A file of the right name with another content is left alone."),
    rule("DM-02", "file events are hints", "Everything is looked at again every 30 seconds; where events do not arrive it is looked at by the clock, and `agency status` says so."),
    rule("DM-03", "half-written files", "A closed or renamed-in file is judged at once, others when they rest; text that looks cut is waited for up to 10 seconds."),
    rule("DM-04", "safe reads", "Links, pipes, devices, second hard links and oversized files are refused, never opened for long, and kept aside. Write a plain file of the allowed size."),
    rule("DM-05", "deciding twice", "The same facts never cause the same thing twice."),
    rule("DM-06", "killed at any moment", "After a restart nothing is lost, torn or done twice."),
    rule("DM-07", "one daemon per repository", "The lock lies in the repository's git directory; the second one says who holds it and exits with 75."),
    rule("DM-08", "the journal", "Every decision and effect, hash-chained. `agency journal verify` finds any change."),
    rule("DM-09", "stopping and reloading", "SIGTERM stops the daemon, not its runs; they are found again."),
    rule("DM-10", "one broken repository", "It is frozen and shown; the others go on. The message says what failed; put it right, then `agency resume` where the loop is held, or wait for the next try where it is frozen."),
    rule("DM-11", "clocks", "Jumps of the wall clock and suspend cause no false staleness."),
    rule("DM-12", "configuration", "Unknown keys are errors with a suggestion, all problems are listed at once, and a repository's own file counts only as you trusted it."),
    rule("DM-13", "unknown repositories", "Protocol files without our journal, a copy, or another machine's state are not touched until you say `agency adopt`."),
    rule("DM-14", "one lease per tree", "Two runs never work in one tree at the same time."),
    rule("DM-15", "commands", "They follow the same tables and journal, with or without a daemon."),
    rule("SU-01", "how agents are started", "From a list of words, never by a shell; stdin empty, own session, listed environment."),
    rule("SU-02", "runs outlive the daemon", "Each has a shim; a run is lost only when its shim is, and lost is never success."),
    rule("SU-03", "stopping a run", "The whole tree of processes ends. After you stop a run yourself the loop is held until `agency resume`."),
    rule("SU-04", "limits of a run", "First output, silence and wall clock; logs are bounded."),
    rule("SU-05", "how a run ended", "Exit 0 without the expected file is not success. A usage limit parks the turn; a failed sign-in or a denial needs you."),
    rule("SU-06", "tries", "A run without a flag is tried again, later each time; after the last try the loop is held. Look at `agency logs RUN`, then `agency resume`."),
    rule("SU-07", "cost", "Session, tokens and cost of each run are kept where the CLI tells them."),
    rule("SU-08", "capacity", "How many runs at a time: per repository, per agent, in all."),
    rule("SE-01", "git in a hostile repository", "Hooks, monitors, filters, drivers, includes, remotes and the like count as they were when you began or last said `agency trust`; git itself reads our checked copy of the settings. When one changes, no git is run and the message names file and setting: look, put it back or keep it, then `agency trust`. `branch.*`, `user.*`, colours and the like never hold; your LFS filter runs from where it lay when you trusted it."),
    rule("SE-02", "names from files", "Ids, steps and agent names never become paths outside the repository, shell text or options."),
    rule("SE-03", "secrets", "Agents see only the listed environment; text from the repository is quoted in prompts as data."),
    rule("SE-04", "owner verbs", "Agents may not resume, adopt, trust, inject or stop; those who try are refused, and every loosening verb is announced."),
    rule("SE-05", "the level of isolation", "With agents under your own user we detect; preventing needs a user of their own."),
    rule("HO-01", "the schema of a message", "Every field of the spec, a UUID v4 as its id and as its file name (`<id>.json` or `handoff-<id>.json`), RFC 3339 times, and `from` and `to` as `agency protocol show handoff` prints them. Everything that is wrong is listed at once; the file is in quarantine. Write a new message."),
    rule("HO-02", "one message, one folder", "pending → accepted → completed (or rejected), `status` always equal to the folder, never two copies, never other words. A move that no row allows is put back, an older copy is taken away, and a handoff that its recipient rejects waits for you."),
    rule("HO-03", "who is started next", "The recipient of the pending handoff with the highest priority, the oldest first among equals, one at a time."),
    rule("HO-04", "the shared state", "`.claude/state.json` is kept by the daemon; keys of others stay. A file of another shape is never overwritten: put it right or away, then `agency resume`."),
    rule("HO-05", "locks", "Entries in the state expire after 30 minutes and may be taken over then; the token rises with each grant, and an old one is refused. A lock that changes hands before its time, or a locked file that another agent changes, is told to you."),
    rule("HO-06", "three tries", "A run without a result is tried again, each time later; what cannot get better by itself (no sign-in, a denial) asks at once. `agency resume` gives all tries again."),
    rule("HO-07", "questions of agents", "An `escalation` message reaches you with its options; `agency answer ID TEXT` sends your answer back as a handoff. A blocking one holds the workflow."),
    rule("HO-08", "fixes are bounded", "`context.iteration` counts: a re-review is of the next iteration, all else of the current one. After 5 fixes (`handoff.max_iterations`) you are asked; `agency resume` allows as many again."),
    rule("HO-09", "events", "agent_started, agent_completed, handoff_created, handoff_accepted, error_occurred, escalation_triggered: one JSON per line in `events.ndjson`."),
    rule("HO-10", "metrics", "`agency metrics`: time per agent, handoffs per workflow, fix iterations, escalation rate."),
    rule("HO-11", "conflicts", "The daemon is the arbiter of the fields that are its own. Two current agents, a lost handoff and a workflow without an open handoff are yours to look at."),
    rule("HO-12", "beginning", "`agency handoff start --type feature TEXT` makes the workflow and starts the planner."),
    rule("HO-13", "results", "A `completion` says completed, needs_fixes, fixes_applied or approved, as `agency protocol show handoff` allows its sender, together with the handoff that it needs. `approved` ends the workflow."),
    rule("ES-01", "channels", "Webhook, mail, desktop and command."),
    rule("ES-02", "durable messages", "Kept before they count, retried until they arrive."),
    rule("ES-03", "one message per cause", "The same cause again is counted, not sent again."),
    rule("ES-04", "signed webhooks", "Standard Webhooks signatures, no redirects, https or loopback."),
    rule("ES-05", "safe messages", "No markup, header or secret from a repository gets into a message."),
    rule("ES-06", "messages that can be acted on", "What happened, what we did, what we will not do alone, and the command that resolves it."),
    rule("ES-07", "the owner's answers", "Escalations are listed, acknowledged, answered, resumed."),
    rule("ES-08", "the dead-man's switch", "A heartbeat that stops when the daemon no longer proves itself."),
    rule("OP-01", "the demo", "`agency demo` plays a whole loop without network or key."),
    rule("OP-02", "the doctor", "What this machine lacks, each with the fix."),
    rule("OP-03", "services", "systemd, launchd, containers."),
    rule("OP-04", "looking", "`agency status`, `agency runs`, `agency logs`."),
    rule("OP-05", "help and exit codes", "0 fine, 1 a finding or a refusal, 2 usage or configuration, 3 our failure, 75 busy."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_there_once() {
        for (at, rule) in RULES.iter().enumerate() {
            assert!(RULES[..at].iter().all(|other| other.id != rule.id), "{} twice", rule.id);
            assert!(!rule.title.is_empty() && rule.text.ends_with('.'), "{}", rule.id);
        }
    }
}

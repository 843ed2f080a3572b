//! The owner's commands to the keeper. The verbs of `agency work` change the files themselves and are not among them.

use super::images;
use super::keeper::Codifica;
use super::memory::{Accepted, Hold, Job, Stage};
use super::words::{Owner, State};
use crate::model::{Answer, Builder, Command, Decision, Effect, Now, RunId, Verb};

pub(super) fn answer(codifica: &Codifica, _: Now) -> Option<Decision> {
    let command = codifica.index.in_flight.command()?;
    let mut decision = codifica.builder();
    let answer = match command.verb {
        Verb::Adopt => adopt(codifica, &mut decision),
        Verb::Resume => resume(codifica, &mut decision),
        Verb::Stop => stop(codifica, &mut decision, command),
        Verb::Trust => trust(codifica, &mut decision),
        Verb::Init
        | Verb::Restore
        | Verb::Inject
        | Verb::Ack
        | Verb::Pause
        | Verb::Unpause
        | Verb::Forget
        | Verb::Do => no("Codifica has no such verb; `agency work --help` lists what it has"),
    };
    decision.effect(Effect::Reply { command: command.id.clone(), answer });
    Some(decision.finish())
}

fn no(text: &str) -> Answer {
    Answer { accepted: false, text: text.to_owned() }
}

fn yes(text: String) -> Answer {
    Answer { accepted: true, text }
}

/// The state files count as they are now.
fn adopt(codifica: &Codifica, decision: &mut Builder) -> Answer {
    let Some(checkout) = &codifica.index.checkout else {
        return no("there is no git repository here; `agency work` works without the daemon");
    };
    let (Some(branch), Some(commit)) = (&checkout.branch, &checkout.head) else {
        return no(
            "HEAD is on no branch with a commit; switch to the one that holds the state files",
        );
    };
    if codifica.index.config().is_none() {
        return no("`codifica.json` cannot be read; `agency work validate` says why");
    }
    let paths = codifica.index.state_paths();
    let accepted = Accepted { branch: branch.clone(), commit: commit.clone(), paths };
    decision.remember("accepted", accepted);
    images::forget_all(codifica, decision);
    let_go(codifica, decision, "adopted", |_| true);
    let text = format!(
        "Codifica is kept from commit {} of `{branch}` on",
        &commit.as_str()[..12.min(commit.as_str().len())]
    );
    decision.announce("adopt", &text);
    yes(text)
}

fn let_go(codifica: &Codifica, decision: &mut Builder, how: &str, ends: fn(&Hold) -> bool) {
    let (over, left): (Vec<_>, Vec<_>) =
        codifica.index.memory.holds.iter().cloned().partition(ends);
    decision.remember("holds", left);
    decision.remember("epoch", codifica.index.memory.epoch + 1);
    for hold in over {
        decision.effect(Effect::Resolve { cause: hold.cause, how: how.to_owned() });
    }
}

/// SE-01: the shell has pinned what git finds now; what waited for that goes on.
fn trust(codifica: &Codifica, decision: &mut Builder) -> Answer {
    let how = "the owner trusts what git finds here now";
    let waited = codifica.index.memory.holds.iter().any(Hold::waits_for_trust);
    let_go(codifica, decision, how, Hold::waits_for_trust);
    yes(if waited { "Codifica goes on" } else { "Codifica did not wait for this" }.to_owned())
}

/// Tasks that our agents hold and that nobody works on are taken up again.
fn resume(codifica: &Codifica, decision: &mut Builder) -> Answer {
    let memory = &codifica.index.memory;
    if memory.accepted.is_none() && codifica.desk.git {
        return no("this repository is not adopted yet: agency adopt");
    }
    for agent in memory.rests.keys() {
        decision.forget(&format!("rest/{agent}"));
    }
    let mut again = Vec::new();
    if let Some(board) = codifica.index.ruling_board() {
        let roster = codifica.roster(board);
        for task in board.glances().filter(|task| task.state == State::InProgress) {
            let Owner::Agent(agent) = &task.owner else { continue };
            if roster.contains(agent) && !memory.jobs.contains_key(&task.id) {
                again.push(task.id.clone());
                decision.remember(
                    &format!("job/{}", task.id),
                    Job::of(codifica, &task.id, agent, Stage::Tree),
                );
            }
        }
    }
    for (id, job) in memory.jobs.iter().filter(|(_, job)| job.stage == Stage::Tree) {
        decision
            .remember(&format!("job/{id}"), Job { failures: 0, not_before: None, ..job.clone() });
    }
    let_go(codifica, decision, "the owner resumed", |hold| !hold.waits_for_trust());
    let text = if again.is_empty() {
        "Codifica goes on".to_owned()
    } else {
        format!("Codifica goes on; taken up again: {}", again.join(", "))
    };
    decision.announce("resume", &text);
    yes(text)
}

fn stop(codifica: &Codifica, decision: &mut Builder, command: &Command) -> Answer {
    let run = RunId::new(command.arg("run").unwrap_or_default());
    let ours = codifica.index.memory.jobs.values().any(|job| job.stage.run() == Some(&run));
    if !ours {
        return no("no such run of Codifica is alive");
    }
    let why = format!("stopped by {}", command.by);
    decision.effect(Effect::Stop { run: run.clone(), why });
    yes(format!("`{run}` is being stopped"))
}

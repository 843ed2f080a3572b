//! What the owner asks of the ledger's loop: begin, resume, adopt, stop. The same journal as everything else.

use super::memory::Memo;
use super::{Ledger, PROGRESS, foreign, parking};
use crate::engine::{self, Draft, WayOut};
use crate::model::{Answer, Command, Decision, Effect, Now, RelPath, Verb};

/// Answers the oldest command that is for us.
pub(super) fn answer(ledger: &Ledger, _: Now) -> Option<Decision> {
    let command = ledger.index.in_flight.command()?;
    let verb = match command.verb {
        Verb::Init => init,
        Verb::Resume => resume,
        Verb::Adopt => adopt,
        Verb::Stop => stop,
        Verb::Trust => trust,
        Verb::Restore
        | Verb::Inject
        | Verb::Ack
        | Verb::Pause
        | Verb::Unpause
        | Verb::Forget
        | Verb::Do => not_ours,
    };
    let (mut decision, answer) = match verb(ledger, command) {
        Ok((decision, text)) => (decision, Answer { accepted: true, text }),
        Err(text) => (ledger.draft(), Answer { accepted: false, text }),
    };
    decision.effect(Effect::Reply { command: command.id.clone(), answer });
    Some(decision.finish())
}

/// What to do and what to say, or why not.
type Outcome = Result<(Draft<Memo>, String), String>;

fn init(ledger: &Ledger, command: &Command) -> Outcome {
    if let Some(main) = &ledger.index.memory.main {
        return Err(format!("the ledger's loop is at work here, on `{main}`"));
    }
    refuse_beside_foreign(ledger, "agency ledger init")?;
    let spec = command.arg("spec").map(|path| {
        RelPath::new(path).map_err(|error| error.to_string()).map(|path| path.to_string())
    });
    let (mut decision, branch) = begin(ledger)?;
    if let Some(spec) = spec.transpose()? {
        decision.remember(Memo::Spec(Some(spec)));
    }
    if ledger.index.memory.is_held() {
        release(ledger, &mut decision, "the owner began the loop");
    }
    Ok((decision, format!("the ledger's loop begins on `{branch}`")))
}

/// LG-02, LG-15: nothing begins or goes on beside a file that is not the ledger's.
fn refuse_beside_foreign(ledger: &Ledger, command: &str) -> Result<(), String> {
    if let Some(name) = foreign::unread(ledger) {
        return Err(foreign::unread_refusal(name, command));
    }
    foreign::in_tree(ledger).map_or(Ok(()), |foreign| Err(foreign.refusal(command)))
}

/// The branch that is checked out is the one that everything is merged into.
fn begin(ledger: &Ledger) -> Result<(Draft<Memo>, String), String> {
    let checkout = ledger.index.checkout.as_ref().filter(|_| ledger.place.git);
    let checkout = checkout.ok_or("the ledger's loop needs git: `git init` first")?;
    let branch = checkout.branch.clone().ok_or("HEAD is detached; check out a branch first")?;
    if checkout.head.is_none() {
        return Err("there is no commit yet; make a first one".to_owned());
    }
    let mut decision = ledger.draft();
    decision.remember(Memo::Main(Some(branch.clone())));
    Ok((decision, branch))
}

fn adopt(ledger: &Ledger, _: &Command) -> Outcome {
    if ledger.index.memory.main.is_some() {
        return Err("there is nothing to adopt: our journal knows this ledger".to_owned());
    }
    refuse_beside_foreign(ledger, "agency adopt")?;
    ledger.index.whole(PROGRESS).ok_or_else(|| format!("there is no readable `{PROGRESS}`"))?;
    let (mut decision, branch) = begin(ledger)?;
    release(ledger, &mut decision, "the owner adopted the ledger as it is");
    let text = format!("the ledger on `{branch}` is ours now");
    decision.announce("adopt", &text);
    Ok((decision, text))
}

fn resume(ledger: &Ledger, _: &Command) -> Outcome {
    let memory = &ledger.index.memory;
    if let Some(hold) = memory.holds.open.iter().find(|hold| hold.way_out != WayOut::Resume) {
        return Err(format!("{}; `agency {}` ends this", hold.summary, hold.way_out.verb()));
    }
    if !memory.is_held() && parking::parked(ledger).is_empty() {
        return Err("the ledger's loop is not held".to_owned());
    }
    refuse_beside_foreign(ledger, "agency resume")?;
    let mut decision = ledger.draft();
    let text = release(ledger, &mut decision, "the owner resumed");
    let text = release_parked(ledger, &mut decision, text);
    if let Some(turn) = memory.turn() {
        let mut next = turn.clone();
        next.tries.renew();
        next.task.excused = true;
        decision.remember(Memo::turn(next));
    }
    decision.announce("resume", &text);
    Ok((decision, text))
}

/// LG-08: what was parked is tried again.
fn release_parked(ledger: &Ledger, decision: &mut Draft<Memo>, text: String) -> String {
    let parked = parking::parked(ledger).join(", ");
    if parking::release(ledger, decision, "the owner lets it try again") == 0 {
        return text;
    }
    decision.remember(Memo::Rest(None));
    if ledger.index.memory.is_held() {
        format!("{text}; tried again: {parked}")
    } else {
        format!("tried again: {parked}")
    }
}

/// SE-01: the owner trusts git as it is now; what waited for that goes on.
fn trust(ledger: &Ledger, _: &Command) -> Outcome {
    let waited = ledger.index.memory.holds.open.iter().any(|hold| hold.way_out == WayOut::Trust);
    if !waited {
        return Ok((ledger.draft(), "the ledger's loop waited for nothing of this".to_owned()));
    }
    let mut decision = ledger.draft();
    let text = engine::release_holds(ledger, &mut decision, "the owner trusts git", |hold| {
        hold.way_out == WayOut::Trust
    });
    Ok((decision, text))
}

fn release(ledger: &Ledger, decision: &mut Draft<Memo>, how: &str) -> String {
    engine::release_holds(ledger, decision, how, |hold| hold.way_out != WayOut::Trust)
}

fn stop(ledger: &Ledger, command: &Command) -> Outcome {
    engine::stop(ledger, ledger.index.memory.turn(), command)
}

fn not_ours(_: &Ledger, _: &Command) -> Outcome {
    Err("that is not the ledger's to do".to_owned())
}

//! Holding, telling and releasing: how notices and holds become part of a decision.

use super::Draft;
use super::drive::{Common, Host};
use super::notice::{Hold, Notice, WayOut, Weight};
use super::session::{Session, Stage};
use crate::model::{Answer, Cause, Command, Decision, Effect, Verb};

/// Stops the protocol and tells the owner. Effects that belong to the same decision must be added before: talk comes last.
pub fn hold<H: Host>(host: &H, draft: &mut Draft<H::Memo>, notice: Notice) {
    let way_out = notice.way_out;
    let escalation = notice.escalation(host.protocol(), host.holds().epoch, Weight::Hold);
    let (cause, summary) = (escalation.cause.clone(), escalation.summary.clone());
    let open = host.holds().with(Hold { cause, summary, way_out });
    draft.remember(H::memo(Common::Holds(open)));
    draft.effect(Effect::Escalate(Box::new(escalation)));
}

/// Tells or asks the owner; the protocol goes on. Returns the cause, for when it is over.
pub fn tell<H: Host>(
    host: &H,
    draft: &mut Draft<H::Memo>,
    weight: Weight,
    notice: Notice,
) -> Cause {
    let escalation = notice.escalation(host.protocol(), host.holds().epoch, weight);
    let cause = escalation.cause.clone();
    draft.effect(Effect::Escalate(Box::new(escalation)));
    cause
}

/// Ends holds; the causes' epoch is over. Returns what to answer.
pub fn release_holds<H: Host>(
    host: &H,
    draft: &mut Draft<H::Memo>,
    how: &str,
    which: fn(&Hold) -> bool,
) -> String {
    let (ended, kept): (Vec<Hold>, Vec<Hold>) = host.holds().open.iter().cloned().partition(which);
    for hold in &ended {
        draft.effect(Effect::Resolve { cause: hold.cause.clone(), how: how.to_owned() });
    }
    draft.remember(H::memo(Common::Holds(kept)));
    draft.remember(H::memo(Common::Epoch(host.holds().epoch + 1)));
    let count =
        if ended.len() == 1 { "one cause".to_owned() } else { format!("{} causes", ended.len()) };
    format!("{how}; {count} resolved")
}

/// Answers the oldest command: resume, trust and stop mean the same in every protocol that has one session and no verbs of its own.
pub fn answer<H: Host>(host: &H, session: Option<&Session<H::Work>>) -> Option<Decision> {
    let command = host.in_flight().command()?;
    let outcome = match command.verb {
        Verb::Resume => resume(host, session),
        Verb::Trust => Ok(trust(host)),
        Verb::Stop => stop(host, session, command),
        Verb::Init
        | Verb::Adopt
        | Verb::Restore
        | Verb::Inject
        | Verb::Ack
        | Verb::Pause
        | Verb::Unpause
        | Verb::Forget
        | Verb::Do => Err(format!("{} has no such verb", host.called())),
    };
    let (mut draft, answer) = match outcome {
        Ok((draft, text)) => (draft, Answer { accepted: true, text }),
        Err(text) => (host.draft(), Answer { accepted: false, text }),
    };
    draft.effect(Effect::Reply { command: command.id.clone(), answer });
    Some(draft.finish())
}

fn resume<H: Host>(host: &H, session: Option<&Session<H::Work>>) -> Outcome<H> {
    let holds = &host.holds().open;
    if let Some(hold) = holds.iter().find(|hold| hold.way_out != WayOut::Resume) {
        return Err(format!("{}; `{}` ends this", hold.summary, hold.way_out.command()));
    }
    if holds.is_empty() {
        return Err(format!("{} is not held", host.called()));
    }
    let mut draft = host.draft();
    let text = release_holds(host, &mut draft, "the owner resumed", |_| true);
    if let Some(session) = session {
        let mut next = session.clone();
        next.tries.renew();
        draft.remember(H::memo(Common::Session(Box::new(next))));
    }
    draft.announce("resume", &text);
    Ok((draft, text))
}

fn trust<H: Host>(host: &H) -> (Draft<H::Memo>, String) {
    let mut draft = host.draft();
    if host.holds().open.iter().all(|hold| hold.way_out != WayOut::Trust) {
        return (draft, format!("{} waited for nothing of this", host.called()));
    }
    let is_of_git = |hold: &Hold| hold.way_out == WayOut::Trust;
    let text = release_holds(host, &mut draft, "the owner trusts git", is_of_git);
    (draft, text)
}

/// What to do and what to say, or why not.
type Outcome<H> = Result<(Draft<<H as Host>::Memo>, String), String>;

/// The owner stops the run of this session.
pub fn stop<H: Host>(
    host: &H,
    session: Option<&Session<H::Work>>,
    command: &Command,
) -> Outcome<H> {
    let run = match session.map(|session| &session.stage) {
        Some(Stage::Running(running)) if command.arg("run") == Some(running.run.as_str()) => {
            running.run.clone()
        }
        Some(_) | None => return Err(format!("no such run is alive in {}", host.called())),
    };
    if host.in_flight().is_stopping(&run) {
        return Err(format!("`{run}` is being stopped already"));
    }
    let mut draft = host.draft();
    let text = format!("`{run}` is being stopped");
    draft.effect(Effect::Stop { run, why: format!("stopped by {}", command.by) });
    Ok((draft, text))
}

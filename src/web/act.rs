//! The owner's verbs from a page: the same functions that the command line calls, handed to the repository's own task as an
//! internal command. The dashboard has found out who asks; nothing goes by a socket.

use super::places;
use crate::apply::chain;
use crate::cli::context::Context;
use crate::daemon::{CommandRouter, Routed};
use crate::escalate::{Outbox, Record};
use crate::repository::Known;
use crate::verbs::{self, OwnerVerb, RequestId, TaskVerb, next_step};
use agency_dashboard::{Act, Caller, Outcome};
use std::path::{Path, PathBuf};

pub(super) async fn perform(
    context: Context,
    router: CommandRouter,
    home: PathBuf,
    key: String,
    act: Act,
    caller: Caller,
) -> Outcome {
    let unknown = |what: &str| Outcome::Unknown(format!("there is no {what}; load the page again"));
    let Some(request) = RequestId::parse(&caller.request) else {
        return Outcome::Refused("the number of the request is not one of ours".to_owned());
    };
    let repo = places::find(&context, &key);
    if let Act::Ack { cause } = &act
        && let Some(outcome) = ack_of_daemon(&home, cause, repo.as_ref())
    {
        return outcome;
    }
    let Some(known) = repo else { return unknown("such repository here") };
    let verb = match verb(&known.folder, act) {
        Ok(verb) => verb,
        Err(outcome) => return outcome,
    };
    let caller = verbs::Caller { who: caller.who, from: caller.from };
    let command = verb.command(request, caller);
    let hint = next_step(&command);
    match router.ask(&known.path, command).await {
        Routed::Answered(answer) if answer.accepted => Outcome::Accepted(answer.text),
        Routed::Answered(answer) if answer.text.contains("agency ") => {
            Outcome::Refused(answer.text)
        }
        Routed::Answered(answer) => Outcome::Refused(format!("{}\n{hint}", answer.text)),
        Routed::NoRoute => Outcome::Refused(
            "this daemon does not work in that repository now; `agency status` says why".to_owned(),
        ),
        Routed::Late => {
            Outcome::Accepted("the daemon is busy; the command is in its queue".to_owned())
        }
    }
}

/// The daemon tells of a repository that it cannot open in an outbox of its own (DM-18).
fn ack_of_daemon(home: &Path, cause: &str, known: Option<&Known>) -> Option<Outcome> {
    let dir = home.join("outbox");
    let record = Outbox::list(&dir).into_iter().find(|record| record.id == cause)?;
    let is_there = known.is_none_or(|known| known.path == record.repo);
    let done = Outbox::open(dir, "", &record.repo).and_then(|outbox| outbox.acknowledge(cause));
    is_there.then(|| match done {
        Ok(()) => Outcome::Accepted(format!("`{cause}` is acknowledged")),
        Err(error) => Outcome::Refused(chain(&error)),
    })
}

fn verb(folder: &Path, act: Act) -> Result<OwnerVerb, Outcome> {
    Ok(match act {
        Act::Answer { cause, option, reason } => {
            let record = record(folder, &cause)?;
            verbs::answer(&record, &option, reason.as_deref())
                .map_err(|error| Outcome::Refused(error.to_string()))?
        }
        Act::Ack { cause } => OwnerVerb::ack(&record(folder, &cause)?.id),
        Act::Resume { reason } => OwnerVerb::resume(reason.as_deref(), &[]),
        Act::Stop { run } => OwnerVerb::stop(&run),
        Act::Pause { reason } => OwnerVerb::pause(reason.as_deref()),
        Act::Unpause => OwnerVerb::unpause(),
        Act::Task { verb, task, reason } => match TaskVerb::parse(&verb) {
            Some(verb) => verb.on(&task, reason.as_deref()),
            None => return Err(Outcome::Unknown(format!("there is no verb `{verb}`"))),
        },
    })
}

/// One that is open: an answer to what is over would mean something else.
fn record(folder: &Path, id: &str) -> Result<Record, Outcome> {
    let open = Outbox::list(&folder.join("outbox")).into_iter().filter(Record::is_for_owner);
    let gone = || Outcome::Refused("this message is over by now; load the page again".to_owned());
    open.into_iter().find(|record| record.id == id).ok_or_else(gone)
}

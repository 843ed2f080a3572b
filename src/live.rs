//! What happens in the repositories, as it happens, for a daemon that somebody watches in the foreground (OP-07). Nothing
//! else reads it: the journal, the event log and the outbox are the records.

use crate::model::{Escalation, Event, Rejection, RunEnd};
use std::path::{Path, PathBuf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

#[derive(Clone, Debug)]
pub struct LiveEvent {
    /// The repository's root.
    pub repo: PathBuf,
    pub what: Happening,
}

#[derive(Clone, Debug)]
pub enum Happening {
    /// A line of the event log: a run began, a task moved.
    Logged(Event),
    /// Something that an agent or a person wrote was refused.
    Refused {
        protocol: String,
        rejection: Rejection,
    },
    /// A message to the owner was written.
    Told(Box<Escalation>),
    /// The cause of an earlier message is gone.
    Resolved {
        subject: String,
    },
    /// A command line of the owner's begins: a gate, a check, a set-up.
    Command {
        line: String,
    },
    Ended(Box<RunEnd>),
}

/// Where happenings go. The default drops them.
#[derive(Clone, Debug, Default)]
pub struct LiveFeed(Option<UnboundedSender<LiveEvent>>);

impl LiveFeed {
    pub fn open() -> (Self, UnboundedReceiver<LiveEvent>) {
        let (sender, receiver) = unbounded_channel();
        (Self(Some(sender)), receiver)
    }

    /// The value is made only where somebody watches.
    pub fn send(&self, repo: &Path, what: impl FnOnce() -> Happening) {
        if let Self(Some(sender)) = self {
            // Nobody watches any more when the daemon stops.
            drop(sender.send(LiveEvent { repo: repo.to_owned(), what: what() }));
        }
    }
}

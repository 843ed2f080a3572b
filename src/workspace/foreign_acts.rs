//! What the owner hears of acts of other processes on our own files: a replaced control socket (SE-10), a forged record of a run
//! (SE-09), a journal or folder of ours that was removed or replaced.

use super::{BackgroundEvent, Workspace, WorkspaceError};
use crate::clock;
use crate::control::OnReplaced;
use crate::model::{Cause, Escalation, RuleId, Severity};
use crate::run::OnForged;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;

const ACK: &str = "nothing to do; \"agency ack ID\" closes it";

impl Workspace {
    /// What a run may have done to our lock, our journal or our folders. Then nothing more is written into them, except for the
    /// outbox: it is made again, so that the owner hears of it (DM-21).
    pub(super) fn check_own_files(&self) -> Result<(), WorkspaceError> {
        if !self.repository.is_ours() {
            return Err(WorkspaceError::LockLost);
        }
        let places = &self.runner.places;
        if !self.journal.is_current() {
            return Err(WorkspaceError::StateReplaced { path: places.journal() });
        }
        // Some are made when they are first needed.
        let is_other = |path: &PathBuf| path.symlink_metadata().is_ok_and(|meta| !meta.is_dir());
        if is_other(&places.outbox()) {
            self.tell(outbox_replaced(&places.outbox().display().to_string()));
        }
        let folders = [places.quarantine(), places.runs(), places.worktrees()];
        match folders.into_iter().find(is_other) {
            Some(path) => Err(WorkspaceError::StateReplaced { path }),
            None => Ok(()),
        }
    }

    pub(crate) fn on_socket_replaced(&self) -> OnReplaced {
        let (background, path) = (self.background.0.clone(), self.runner.places.control_sock());
        Box::new(move |found| {
            let told = replaced(&path.display().to_string(), found);
            // A workspace that closes makes its socket again when it is opened.
            drop(background.send(Box::new(BackgroundEvent::Tell(told))));
        })
    }
}

pub(super) fn on_forged(background: UnboundedSender<Box<BackgroundEvent>>) -> OnForged {
    Arc::new(move |run, found| {
        drop(background.send(Box::new(BackgroundEvent::Tell(forged(run.as_str(), found)))));
    })
}

fn replaced(path: &str, found: &str) -> Escalation {
    Escalation {
        summary: format!("the daemon's control socket was replaced: {found}"),
        what: format!("`{path}` is no longer the socket that the daemon made: {found}. A process of your own user did that, such as an agent without a sandbox."),
        did: "The daemon made the socket again. The `agency` command speaks only to the process that holds the repository's lock.".to_owned(),
        wont: "The daemon cannot know which process it was; `agency runs --all` lists the runs of that time.".to_owned(),
        ..foreign("SE-10", format!("control socket at {}", clock::now().wall))
    }
}

fn outbox_replaced(path: &str) -> Escalation {
    Escalation {
        summary: "the daemon's outbox was replaced".to_owned(),
        what: format!("`{path}` is no longer the folder that the daemon made. A process of your own user did that, such as an agent without a sandbox."),
        did: "The daemon moved it aside and made a new outbox. Messages that were not sent by then are written again.".to_owned(),
        wont: "The daemon cannot know which process it was; `agency runs --all` lists the runs of that time.".to_owned(),
        ..foreign("SE-09", format!("outbox at {}", clock::now().wall))
    }
}

fn forged(run: &str, found: &str) -> Escalation {
    Escalation {
        summary: format!("a record of the run {run} was forged"),
        what: format!("A process other than the run's supervisor wrote into its folder: {found}."),
        did: "The file counts for nothing. The run's end is what its supervisor says, else the run is lost.".to_owned(),
        wont: "No work is accepted on the word of a forged record.".to_owned(),
        resolve: format!("look at what it did: agency logs {run}"),
        evidence: vec![found.to_owned()],
        ..foreign("SE-09", format!("{run} {found}"))
    }
}

pub(super) fn foreign(rule: &str, subject: String) -> Escalation {
    Escalation {
        cause: Cause { protocol: "agency".to_owned(), rule: RuleId::new(rule), subject, epoch: 0 },
        severity: Severity::Critical,
        holds: false,
        summary: String::new(),
        what: String::new(),
        did: String::new(),
        wont: String::new(),
        resolve: ACK.to_owned(),
        options: Vec::new(),
        evidence: Vec::new(),
        everywhere: true,
    }
}

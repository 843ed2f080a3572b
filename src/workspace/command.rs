//! Commands: they come in by the control socket or from a command line that holds the lock itself, and are judged like
//! everything else. What concerns the repository as a whole (adopt, trust) is done here.

use super::record::Entry;
use super::{Request, Workspace, WorkspaceError, Writers};
use crate::clock;
use crate::model::{Answer, Command, Digest, FileState, RelPath, Verb, Wake};
use crate::repository::Origin;
use crate::store::{Durability, write_atomic};
use tokio::sync::oneshot;

/// Somebody waits for the answers of so many protocols.
pub(super) struct Waiter {
    left: usize,
    answers: Vec<Answer>,
    reply: oneshot::Sender<Answer>,
}

/// The repository's own settings.
pub(super) const OWN_CONFIG: &str = "agency.yaml";
const OWN_CONFIG_MAX: u64 = 1 << 20;

impl Workspace {
    pub(super) async fn on_request(&mut self, request: Request) -> Result<(), WorkspaceError> {
        let Request { command, reply } = request;
        tracing::info!(verb = ?command.verb, by = %command.by, "asked");
        self.note(&Entry::Asked { command: command.clone() }, Durability::Synced)?;
        let answer = match command.verb {
            Verb::Trust => Some(self.trust(&command)?),
            Verb::Ack => Some(self.acknowledge(&command)),
            Verb::Init
            | Verb::Resume
            | Verb::Adopt
            | Verb::Restore
            | Verb::Inject
            | Verb::Stop
            | Verb::Do => None,
        };
        if let Some(answer) = answer {
            drop(reply.send(answer));
            return Ok(());
        }
        if let Some(why) = self.closed.clone() {
            if command.verb == Verb::Adopt {
                self.reopen = Some(Request { command, reply });
            } else {
                drop(reply.send(Answer { accepted: false, text: why }));
            }
            return Ok(());
        }
        self.settle_in(&command)?;
        let known = command.protocol.as_ref().is_none_or(|name| self.activate(name));
        self.look_at_everything(Writers::Perhaps).await;
        let asked = if known { self.hand_on(&command) } else { 0 };
        if asked == 0 {
            let text = "no protocol is at work in this repository".to_owned();
            drop(reply.send(Answer { accepted: false, text }));
            return Ok(());
        }
        self.waiters.insert(command.id, Waiter { left: asked, answers: Vec::new(), reply });
        Ok(())
    }

    /// For a command line that works without a daemon: judges one command, and starts nothing beyond it.
    pub async fn command(&mut self, command: Command) -> Result<Answer, WorkspaceError> {
        let (reply, mut answer) = oneshot::channel();
        self.on_request(Request { command, reply }).await?;
        loop {
            self.apply_pending().await?;
            if let Ok(answer) = answer.try_recv() {
                self.write_status();
                return Ok(answer);
            }
            if !self.decide_once()? {
                let text = "nobody answered the command".to_owned();
                return Ok(Answer { accepted: false, text });
            }
        }
    }

    /// A new repository becomes ours when the owner begins a protocol in it or adopts what is there.
    fn settle_in(&mut self, command: &Command) -> Result<(), WorkspaceError> {
        if matches!(command.verb, Verb::Adopt | Verb::Init)
            && *self.repository.origin() == Origin::New
        {
            self.repository.adopt(clock::now().wall)?;
        }
        Ok(())
    }

    /// To the protocol it is for, or to all; returns how many will answer.
    fn hand_on(&mut self, command: &Command) -> usize {
        let concerned =
            |name: &str| command.protocol.as_deref().is_none_or(|wanted| wanted == name);
        let slots = self.slots.iter_mut().filter(|slot| concerned(slot.name()));
        slots.map(|slot| slot.absorb(&Wake::Command(command.clone()))).count()
    }

    /// One protocol has answered; the last one lets the caller go.
    pub(super) fn answer(&mut self, command: &str, answer: &Answer) {
        let Some(mut waiter) = self.waiters.remove(command) else { return };
        waiter.answers.push(answer.clone());
        waiter.left -= 1;
        if waiter.left > 0 {
            self.waiters.insert(command.to_owned(), waiter);
            return;
        }
        let any = waiter.answers.iter().any(|answer| answer.accepted);
        let said = waiter.answers.iter().filter(|answer| answer.accepted == any);
        let text = said.map(|answer| answer.text.as_str()).collect::<Vec<_>>().join("; ");
        drop(waiter.reply.send(Answer { accepted: any, text }));
    }

    /// The owner has seen it; it is repeated only as a reminder.
    fn acknowledge(&self, command: &Command) -> Answer {
        let id = command.arg("id").unwrap_or_default();
        match self.hands.outbox.acknowledge(id) {
            Ok(()) => {
                self.hands.voice.nudge();
                Answer { accepted: true, text: format!("`{id}` is acknowledged") }
            }
            Err(error) => Answer { accepted: false, text: crate::apply::chain(&error) },
        }
    }

    /// The repository's own settings count from now on as they are now (DM-12).
    fn trust(&mut self, command: &Command) -> Result<Answer, WorkspaceError> {
        let refused = |text: String| Ok(Answer { accepted: false, text });
        let path = RelPath::fixed(OWN_CONFIG);
        let now = clock::now();
        let reading = crate::read::read(&self.hands.places.root, &path, OWN_CONFIG_MAX, now);
        let bytes = match reading.map(|reading| reading.state) {
            Ok(FileState::Whole(file)) => file.bytes,
            Ok(FileState::Absent) => {
                return refused(format!("there is no `{OWN_CONFIG}` to trust"));
            }
            Ok(FileState::Unreadable(odd)) => {
                return refused(format!("`{OWN_CONFIG}` is {}", odd.found));
            }
            Err(error) => return refused(format!("`{OWN_CONFIG}`: {error}")),
        };
        let config = match crate::config::Config::overlay(&self.settings.config, &bytes) {
            Ok(config) => config,
            Err(error) => return refused(crate::apply::chain(&error)),
        };
        let digest = Digest::of(&bytes);
        let trusted = self.hands.places.trusted();
        let kept = std::fs::create_dir_all(&trusted).map_err(|error| error.to_string());
        let kept = kept.and_then(|()| {
            write_atomic(&trusted.join(OWN_CONFIG), &bytes)
                .map_err(|error| crate::apply::chain(&error))
        });
        if let Err(text) = kept {
            return refused(text);
        }
        let by = command.by.clone();
        self.note(&Entry::Trusted { digest: Some(digest.to_string()), by }, Durability::Synced)?;
        self.hands.launcher.config = config;
        self.notes.retain(|note| !note.contains(OWN_CONFIG));
        let text = format!(
            "`{OWN_CONFIG}` {} counts from now on; limits of a protocol from its next start",
            digest.short()
        );
        Ok(Answer { accepted: true, text })
    }
}

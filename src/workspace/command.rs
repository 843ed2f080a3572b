//! Commands: they come in by the control socket or from a command line that holds the lock itself, and are judged like
//! everything else. What concerns the repository as a whole (adopt, trust) is done here.

use super::record::Entry;
use super::{Request, Workspace, WorkspaceError, Writers};
use crate::clock;
use crate::model::{Answer, Command, Decision, Effect, Keyed, RunEvent, Verb, Wake};
use crate::repository::Origin;
use crate::run::{Executor as _, HeldState};
use crate::store::Durability;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Somebody waits for the answers of so many protocols.
pub(super) struct Waiter {
    left: usize,
    answers: Vec<Answer>,
    reply: oneshot::Sender<Answer>,
}

impl Workspace {
    pub(super) async fn on_request(&mut self, request: Request) -> Result<(), WorkspaceError> {
        let Request { command, reply } = request;
        // WB-02: a page that is sent twice, or a request that is replayed, does nothing a second time.
        if self.asked.has(&command.id) {
            let text = format!("the request `{}` was given before; it works once", command.id);
            drop(reply.send(Answer { accepted: false, text }));
            return Ok(());
        }
        tracing::info!(verb = ?command.verb, by = %command.by, "asked");
        self.settling.note_request();
        self.stuck.try_now();
        self.note(&Entry::Asked { command: (*command).clone() }, Durability::Synced)?;
        self.asked.note(&command.id);
        let answer = match command.verb {
            Verb::Trust => {
                let answer = self.trust(&command)?;
                self.answer_trust(*command, answer, reply);
                return Ok(());
            }
            Verb::Ack => Some(self.acknowledge(&command)),
            Verb::Pause => Some(self.pause_starts(&command)?),
            Verb::Unpause => Some(self.unpause(&command)?),
            Verb::Forget => Some(self.leave_for_good()),
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
        if let Err(text) = self.settle_in(&command).await? {
            drop(reply.send(Answer { accepted: false, text }));
            return Ok(());
        }
        if let Some(why) = self.try_stuck(command.protocol.as_deref()).await? {
            drop(reply.send(Answer { accepted: false, text: why }));
            return Ok(());
        }
        let known = command.protocol.as_ref().is_none_or(|name| self.activate(name));
        self.look_at_everything(Writers::Perhaps).await;
        let asked = if known { self.hand_on(&command) } else { 0 };
        if asked == 0 {
            let text = "no protocol is at work in this repository; begin one: `agency loop init --steps 1,2,3` (review loop), `agency init` (board), `agency handoff start TEXT`, `agency ledger init`"
                .to_owned();
            drop(reply.send(Answer { accepted: false, text }));
            return Ok(());
        }
        self.waiters.insert(command.id, Waiter { left: asked, answers: Vec::new(), reply });
        Ok(())
    }

    /// Tries what is stuck at once. Says why a protocol that the command is for still cannot take it.
    async fn try_stuck(&mut self, wanted: Option<&str>) -> Result<Option<String>, WorkspaceError> {
        if self.stuck.is_empty() {
            return Ok(None);
        }
        self.apply_pending().await?;
        let names = self.slots.iter().map(super::Slot::name);
        let mut concerned = names.filter(|name| wanted.is_none_or(|wanted| wanted == *name));
        Ok(concerned.find_map(|name| Some(self.stuck.condition(name)?.reason())))
    }

    /// For a command line that works without a daemon: judges one command. Only the protocol that the command is for decides
    /// and acts (AG-44); decisions and open effects of the other protocols, and every agent that is to start, stay in the journal until a daemon runs.
    pub async fn command(&mut self, command: Command) -> Result<Answer, WorkspaceError> {
        self.starts_runs = false;
        let only = command.protocol.clone();
        let concerned = |protocol: &str| only.as_deref().is_none_or(|only| only == protocol);
        let (reply, mut answer) = oneshot::channel();
        self.hear_of_ends().await;
        self.on_request(Request { command: Box::new(command), reply }).await?;
        if let Ok(answer) = answer.try_recv() {
            self.write_status();
            self.settle_now()?;
            return Ok(answer);
        }
        self.pending.retain(|(protocol, _)| concerned(protocol));
        loop {
            self.apply_pending().await?;
            if let Ok(answer) = answer.try_recv() {
                self.write_status();
                self.settle_now()?;
                return Ok(answer);
            }
            if !self.decide_once(concerned)? {
                let text = "nobody answered the command".to_owned();
                return Ok(Answer { accepted: false, text });
            }
        }
    }

    /// The repository was opened again for this request, which the journal has by then.
    pub fn take_again(&mut self, request: &Request) {
        self.asked.forget(&request.command.id);
    }

    /// No agent could have given a command in the owner's name: none runs.
    pub(super) fn is_owner_alone(&self) -> bool {
        self.running.is_empty() && self.settings.capacity.is_idle()
    }

    /// The announcements of a decision that answers a command are not sent back to the owner who just gave it, unless an
    /// agent may have given it (SE-04).
    pub(super) fn note_own_verb(&mut self, decision: &Decision) {
        let answers = |keyed: &Keyed| matches!(keyed.effect, Effect::Reply { .. });
        if decision.effects.iter().any(answers) && self.is_owner_alone() {
            let announces = |keyed: &&Keyed| matches!(&keyed.effect, Effect::Escalate(escalation) if escalation.everywhere);
            let keys = decision.effects.iter().filter(announces).map(|keyed| keyed.key.clone());
            self.own_verbs.extend(keys);
        }
    }

    /// Runs that ended while no daemon was there: their protocols must know before a command is judged. A daemon hears of the
    /// same ends again and does the rest.
    async fn hear_of_ends(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(2);
        let held = self.runner.executor.adopt().unwrap_or_default();
        let mut left = held.iter().filter(|held| held.state == HeldState::Ended).count();
        while left > 0 {
            match timeout(PATIENCE, self.run_events.recv()).await {
                Ok(Some(event)) => {
                    left -= usize::from(matches!(*event, RunEvent::Ended(_)));
                    self.absorb_all(&Wake::Run(*event));
                }
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// A new repository becomes ours when the owner begins a protocol in it or adopts what is there. `Err` says why not.
    async fn settle_in(&mut self, command: &Command) -> Result<Result<(), String>, WorkspaceError> {
        let new = matches!(command.verb, Verb::Adopt | Verb::Init)
            && *self.repository.origin() == Origin::New;
        if new {
            self.repository.adopt(clock::now().wall)?;
        }
        // Who begins a protocol here trusts what is here (DESIGN §6), unless an agent is at work meanwhile.
        if new || (command.verb == Verb::Init && self.running.is_empty()) {
            match self.pin_git(&command.by) {
                // Then git is held, and whoever needs it says so.
                Err(WorkspaceError::Git(error)) => tracing::warn!(%error, "git is not trusted"),
                pinned => drop(pinned?),
            }
        }
        let begins = command.verb == Verb::Init && self.running.is_empty();
        if begins { self.trust_committed_settings(command).await } else { Ok(Ok(())) }
    }

    /// What was trusted is trusted; protocols that waited for it add what they make of it.
    fn answer_trust(&mut self, command: Command, answer: Answer, reply: oneshot::Sender<Answer>) {
        let asked = if answer.accepted { self.hand_on(&command) } else { 0 };
        if asked == 0 {
            drop(reply.send(answer));
        } else {
            let answers = vec![answer];
            self.waiters.insert(command.id, Waiter { left: asked, answers, reply });
        }
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
        let mut text = said.map(|answer| answer.text.as_str()).collect::<Vec<_>>().join("; ");
        if any && self.pause.is_some() {
            text.push_str("; the repository is paused, so no run starts: agency unpause");
        }
        drop(waiter.reply.send(Answer { accepted: any, text }));
    }

    /// The caller deletes the state as soon as we have let go of the repository's lock.
    fn leave_for_good(&mut self) -> Answer {
        let alive: Vec<_> = self.running.keys().map(ToString::to_string).collect();
        if let Some(first) = alive.first() {
            let all = alive.join(", ");
            let text = format!("runs are alive here: {all}; wait, or end one: agency stop {first}");
            return Answer { accepted: false, text };
        }
        self.forgotten = true;
        Answer { accepted: true, text: "the daemon leaves this repository".to_owned() }
    }

    /// The owner has seen it; it is repeated only as a reminder.
    fn acknowledge(&self, command: &Command) -> Answer {
        let id = command.arg("id").unwrap_or_default();
        match self.runner.outbox.acknowledge(id) {
            Ok(()) => {
                self.runner.notifier.nudge();
                Answer { accepted: true, text: format!("`{id}` is acknowledged") }
            }
            Err(error) => Answer { accepted: false, text: crate::apply::chain(&error) },
        }
    }
}

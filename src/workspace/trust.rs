//! What counts in a repository only as its owner trusted it: its own settings (DM-12), and what git runs and obeys (SE-01).
//! It starts no git process.

use super::record::Entry;
use super::{OpenError, Workspace, WorkspaceError};
use crate::apply::chain;
use crate::clock;
use crate::config::Config;
use crate::escalate::EscalateError;
use crate::git::{Pin, Repo};
use crate::model::{Answer, Command, Digest, Escalation, FileState, Key, RelPath};
use crate::store::{Durability, write_atomic};
use std::sync::Arc;

/// The repository's own settings.
pub(super) const OWN_CONFIG: &str = "agency.yaml";
const OWN_CONFIG_MAX: u64 = 1 << 20;
/// Who a pin is by when nobody was asked: what was there at first sight is the owner's.
const FIRST_SIGHT: &str = "first sight";

/// A repository's own file, and the settings that it leads to.
type OwnSettings = (Arc<[u8]>, Config);

/// Whose word counts for what git finds when a repository is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// The journal's last pin; without one, first sight.
    AsPinned,
    /// The owner takes the repository over as it is.
    Anew,
}

impl Workspace {
    /// From here on git runs only as the journal's last pin allows; without one, as it is now.
    pub(super) fn guard_git(&mut self, trust: Trust) -> Result<(), OpenError> {
        let Some(repo) = &self.runner.git else { return Ok(()) };
        let known = self.pin.clone().filter(|_| trust == Trust::AsPinned);
        let first = known.is_none();
        let pin = repo.guard(self.runner.places.git(), known)?;
        if first {
            self.keep_pin(pin, FIRST_SIGHT)?;
        }
        Ok(())
    }

    fn keep_pin(&mut self, pin: Arc<Pin>, by: &str) -> Result<(), WorkspaceError> {
        if self.pin.as_ref() != Some(&pin) {
            let entry = Entry::Pinned { pin: (*pin).clone(), by: by.to_owned() };
            self.note(&entry, Durability::Synced)?;
            self.pin = Some(pin);
        }
        Ok(())
    }

    /// What git finds here now counts. `None` without git; else how many settings and files that are.
    pub(super) fn pin_git(&mut self, by: &str) -> Result<Option<usize>, WorkspaceError> {
        let Some(repo) = &self.runner.git else { return Ok(None) };
        let (pin, counting) = repo.pin_anew()?;
        self.keep_pin(pin, by)?;
        Ok(Some(counting))
    }

    /// Everything in this repository that only counts as trusted, counts from now on as it is now.
    pub(super) fn trust(&mut self, command: &Command) -> Result<Answer, WorkspaceError> {
        let refused = |text: String| Ok(Answer { accepted: false, text });
        let own = match self.own_settings() {
            Ok(own) => own,
            Err(text) => return refused(text),
        };
        let mut said = Vec::new();
        match self.pin_git(&command.by) {
            Ok(Some(counting)) => {
                let what = if counting == 1 {
                    "setting or file counts"
                } else {
                    "settings and files count"
                };
                said.push(format!("git: {counting} {what} as it is now"));
            }
            Ok(None) => {}
            Err(WorkspaceError::Git(error)) => return refused(chain(&error)),
            Err(error) => return Err(error),
        }
        if let Err(error) = self.runner.trust_programs() {
            return refused(format!("the programs of gates cannot be trusted: {error}"));
        }
        if let Some((bytes, config)) = own {
            match self.keep_settings(command, &bytes, config)? {
                Ok(text) => said.push(text),
                Err(text) => return refused(text),
            }
        }
        if said.is_empty() {
            return refused(format!("there is neither git nor an `{OWN_CONFIG}` to trust"));
        }
        let text = said.join("; ");
        match self.announce_trust(command, &text) {
            Ok(()) => Ok(Answer { accepted: true, text }),
            Err(error) => refused(chain(&error)),
        }
    }

    /// DESIGN §6: who begins a protocol here trusts the `agency.yaml` that is committed (DM-12). One that is not committed as it
    /// is counts only after `agency trust`; one that is wrong is refused, so that nothing begins without its gates.
    pub(super) async fn trust_committed_settings(
        &mut self,
        command: &Command,
    ) -> Result<Result<(), String>, WorkspaceError> {
        let wrong =
            |text: String| format!("`{OWN_CONFIG}` in the repository cannot be used: {text}");
        let (bytes, config) = match self.own_settings() {
            Ok(Some(own)) => own,
            Ok(None) => return Ok(Ok(())),
            Err(text) => return Ok(Err(wrong(text))),
        };
        let trusted = std::fs::read(self.runner.places.trusted().join(OWN_CONFIG)).ok();
        if trusted.as_deref() == Some(&*bytes)
            || !is_committed(self.runner.git.clone(), &bytes).await
        {
            return Ok(Ok(()));
        }
        match self.keep_settings(command, &bytes, config)? {
            Ok(text) => match self.announce_trust(command, &text) {
                Ok(()) => Ok(Ok(())),
                Err(error) => Ok(Err(chain(&error))),
            },
            Err(text) => Ok(Err(wrong(text))),
        }
    }

    /// SE-04. What is trusted is the shell's matter, so it is told from here, whatever protocols there are.
    fn announce_trust(&self, command: &Command, text: &str) -> Result<(), EscalateError> {
        let escalation = Escalation::announcement("agency", &command.id, "trust", text);
        let key = Key::new(format!("trust-{}", command.id));
        self.announce(&escalation, &key)
    }

    /// An announcement goes to the channels only where an agent may have given the command.
    pub(super) fn announce(&self, escalation: &Escalation, key: &Key) -> Result<(), EscalateError> {
        let now = clock::now().wall;
        if self.is_owner_alone() {
            return self.runner.outbox.note(escalation, key, now);
        }
        self.runner.outbox.raise(escalation, key, now)?;
        self.runner.notifier.nudge();
        Ok(())
    }

    /// `None` if there are none.
    fn own_settings(&self) -> Result<Option<OwnSettings>, String> {
        let path = RelPath::fixed(OWN_CONFIG);
        let now = clock::now();
        let reading = crate::read::read(&self.runner.places.root, &path, OWN_CONFIG_MAX, now);
        let bytes = match reading.map(|reading| reading.state) {
            Ok(FileState::Whole(file)) => file.bytes,
            Ok(FileState::Absent) => return Ok(None),
            Ok(FileState::Unreadable(odd)) => {
                return Err(format!("`{OWN_CONFIG}` is {}", odd.found));
            }
            Err(error) => return Err(format!("`{OWN_CONFIG}`: {error}")),
        };
        let config =
            Config::overlay(&self.settings.config, &bytes).map_err(|error| chain(&error))?;
        Ok(Some((bytes, config)))
    }

    /// The repository's own settings count from now on as they are now.
    fn keep_settings(
        &mut self,
        command: &Command,
        bytes: &[u8],
        config: Config,
    ) -> Result<Result<String, String>, WorkspaceError> {
        let digest = Digest::of(bytes);
        let trusted = self.runner.places.trusted();
        let kept = crate::store::private_dir(&trusted).map_err(|error| error.to_string());
        let kept = kept.and_then(|()| {
            write_atomic(&trusted.join(OWN_CONFIG), bytes).map_err(|error| chain(&error))
        });
        if let Err(text) = kept {
            return Ok(Err(text));
        }
        let by = command.by.clone();
        self.note(&Entry::Trusted { digest: Some(digest.to_string()), by }, Durability::Synced)?;
        self.runner.launcher.config = config.into();
        self.notes.retain(|note| !note.contains(OWN_CONFIG));
        Ok(Ok(format!(
            "`{OWN_CONFIG}` {} counts from now on; limits of a protocol from its next start",
            digest.short()
        )))
    }
}

/// Without git there is nothing to compare with, and the owner's file counts.
async fn is_committed(git: Option<Repo>, bytes: &[u8]) -> bool {
    let Some(git) = git else { return true };
    let Ok(Some(head)) = git.checkout().await.map(|checkout| checkout.head) else {
        return false;
    };
    let committed = git.file_at(&head, &RelPath::fixed(OWN_CONFIG), OWN_CONFIG_MAX).await;
    committed.is_ok_and(|committed| committed.as_deref() == Some(bytes))
}

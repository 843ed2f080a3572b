//! The owner's configuration as it was last accepted, and the mark of a newer one that waits for `agency trust --settings` (SE-11).
//! Both outlive the daemon, so that a restart accepts nothing. It judges no configuration.

use crate::config::{Config, Env};
use crate::model::Digest;
use crate::repository::StateDir;
use crate::store::{StoreError, write_atomic};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// What the owner sees in every view while a newer configuration waits.
pub(super) const WAITS: &str = "agency.yaml was changed while a run was alive; the one before it stays in force. Look at it, then: agency trust --settings";

#[derive(Clone, Debug)]
pub struct SettingsFile {
    accepted: PathBuf,
    waiting: PathBuf,
}

impl SettingsFile {
    pub fn of(state_dir: &StateDir, config: &Path) -> io::Result<Self> {
        let folder = state_dir.path().join("daemon");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let digest = Digest::of(config.as_os_str().as_encoded_bytes());
        let name = |end: &str| folder.join(format!("settings-{}.{end}", &digest.as_str()[..8]));
        Ok(Self { accepted: name("yaml"), waiting: name("waiting") })
    }

    pub(super) fn accepted(&self) -> Option<String> {
        fs::read_to_string(&self.accepted).ok()
    }

    pub fn is_waiting(&self) -> bool {
        self.waiting.exists()
    }

    pub(super) fn accept(&self, text: &str) -> Result<(), StoreError> {
        write_atomic(&self.accepted, text.as_bytes())?;
        self.clear();
        Ok(())
    }

    pub(super) fn wait(&self, text: &str) -> Result<(), StoreError> {
        write_atomic(&self.waiting, Digest::of(text.as_bytes()).as_str().as_bytes())
    }

    /// Nothing waits any more.
    pub fn clear(&self) {
        if let Err(error) = fs::remove_file(&self.waiting)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "the mark of a waiting configuration stays");
        }
    }

    /// At the start of a daemon: the accepted configuration while a newer one waits, else the one that was read.
    pub fn in_force(&self, text: &str, read: Config, env: &Env) -> (Config, Option<String>) {
        let accepted = self.accepted().filter(|accepted| self.is_waiting() && accepted != text);
        let config = accepted.and_then(|accepted| Config::parse(accepted.as_bytes(), env).ok());
        if let Some(config) = config {
            return (config, Some(WAITS.to_owned()));
        }
        if let Err(error) = self.accept(text) {
            tracing::warn!(%error, "the accepted configuration cannot be kept");
        }
        (read, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: SE-11
    #[test]
    fn a_restart_accepts_no_configuration_that_waits() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::at(&dir.path().join("state")).unwrap();
        let file = SettingsFile::of(&state, Path::new("/etc/agency/agency.yaml")).unwrap();
        let env = Env::default();
        let (old, new) = ("limits: { parallel: 1 }\n", "limits: { parallel: 9 }\n");
        let read = |text: &str| Config::parse(text.as_bytes(), &env).unwrap();
        let parallel = |text: &str| file.in_force(text, read(text), &env).0.limits.parallel;
        assert_eq!(parallel(old), 1);
        file.wait(new).unwrap();
        assert_eq!(parallel(new), 1, "it waits");
        assert!(file.in_force(new, read(new), &env).1.unwrap().contains("trust --settings"));
        assert_eq!(parallel(old), 1);
        assert!(!file.is_waiting(), "it was put back");
        file.wait(new).unwrap();
        file.clear();
        assert_eq!(parallel(new), 9);
    }
}

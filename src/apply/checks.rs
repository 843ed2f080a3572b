//! The checkout that gates run in (LP-34): brought to the judged tree before each gate, and prepared by setup commands where its
//! lock files changed. What a gate means, only its protocol knows.

use super::{ApplyError, EffectRunner, tree_identity};
use crate::git::{Repo, SETUP_MARK};
use crate::model::{CleanState, CleanTree, Digest, Spawn, TreeRef};
use crate::read::open_plain;
use crate::store::write_atomic;
use std::io::Read as _;
use std::path::Path;

/// Which tree was checked out last, so that a second gate finds what the first one built, also after a restart.
const STATE: &str = "checks-tree";
const LOCK_FILE_MAX: u64 = 64 << 20;
const MARK_MAX: u64 = 256;

/// Lock files at the top of a tree, and the command that makes what they name. The first of a line's kind counts.
const LOCK_FILES: [(&str, &str); 8] = [
    ("package-lock.json", "npm ci"),
    ("npm-shrinkwrap.json", "npm ci"),
    ("pnpm-lock.yaml", "pnpm install --frozen-lockfile"),
    ("yarn.lock", "yarn install --frozen-lockfile"),
    ("uv.lock", "uv sync --frozen"),
    ("poetry.lock", "poetry install --no-interaction"),
    ("Gemfile.lock", "bundle install"),
    ("composer.lock", "composer install --no-interaction"),
];

impl EffectRunner {
    /// The spawn as it is to be started: with the setup before its own line where the checkout needs one.
    pub(super) async fn prepared(&self, spawn: &Spawn) -> Result<Spawn, ApplyError> {
        let mut spawn = spawn.clone();
        let (TreeRef::Worktree(name), Some(command)) = (&spawn.tree, &mut spawn.command) else {
            return Ok(spawn);
        };
        let (Some(clean), Some(git)) = (&command.clean, &self.git) else { return Ok(spawn) };
        if self.executor.folder(&spawn.run)?.was_started() {
            // It runs, or has run: the daemon was restarted, and nothing may move below it.
            return Ok(spawn);
        }
        tree_identity::check(&self.places, name)?;
        let dir = self.places.worktrees().join(name);
        self.bring(git, &dir, clean).await?;
        tree_identity::remember(&self.places, name)?;
        if let Some(setup) = setup_of(&dir, clean.setup.as_deref()) {
            command.line = setup.before(&command.line);
        }
        Ok(spawn)
    }

    async fn bring(&self, git: &Repo, dir: &Path, clean: &CleanTree) -> Result<(), ApplyError> {
        let state = self.places.folder.join(STATE);
        let wanted = match &clean.tree {
            Some(tree) => tree.to_string(),
            None => git.checkout().await?.head.ok_or(ApplyError::NoCommit)?.to_string(),
        };
        let last = std::fs::read_to_string(&state).unwrap_or_default();
        if clean.state == CleanState::Continued && last == wanted && dir.join(".git").exists() {
            return Ok(git.restore_clean(dir).await?);
        }
        if !git.check_out_clean(dir, clean.tree.as_ref()).await? {
            return Err(ApplyError::NoCommit);
        }
        Ok(write_atomic(&state, wanted.as_bytes())?)
    }
}

/// What must run before a gate, and the digest of what it is made from.
struct Setup {
    lines: Vec<String>,
    digest: String,
}

impl Setup {
    /// One script: a setup that fails ends it, and its mark is written only after all of it.
    fn before(&self, gate: &str) -> String {
        let steps = self.lines.iter().map(|line| {
            format!(
                "( {line}\n) || {{ echo 'agency: a setup command failed before the gate: '{} >&2; exit 1; }}\n",
                quoted(line)
            )
        });
        let mark = format!("echo {} > {SETUP_MARK}\n", self.digest);
        steps.chain([mark]).collect::<String>() + gate
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// `None`: there is nothing to set up, or it was done for the same lock files.
fn setup_of(dir: &Path, configured: Option<&[String]>) -> Option<Setup> {
    let mut lines: Vec<String> = configured.map(<[String]>::to_vec).unwrap_or_default();
    let mut parts = Vec::new();
    for (name, line) in LOCK_FILES {
        let Some(bytes) = read(&dir.join(name), LOCK_FILE_MAX) else { continue };
        parts.extend([name.to_owned(), Digest::of(&bytes).to_string()]);
        if configured.is_none() && !lines.iter().any(|known| known == line) {
            lines.push(line.to_owned());
        }
    }
    parts.extend(lines.iter().cloned());
    let digest = Digest::of(parts.join("\n").as_bytes()).to_string();
    let mark = read(&dir.join(SETUP_MARK), MARK_MAX).unwrap_or_default();
    let is_done = String::from_utf8_lossy(&mark).trim() == digest;
    (!lines.is_empty() && !is_done).then_some(Setup { lines, digest })
}

fn read(path: &Path, limit: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    open_plain(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    // covers: LP-34
    #[test]
    fn setup_comes_from_lock_files_and_runs_once_for_each_of_their_contents() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        assert!(setup_of(dir.path(), None).is_none());
        fs::write(at("package-lock.json"), "{}").unwrap();
        let found = setup_of(dir.path(), None).unwrap();
        assert_eq!(found.lines, ["npm ci"]);
        fs::write(at(SETUP_MARK), format!("{}\n", found.digest)).unwrap();
        assert!(setup_of(dir.path(), None).is_none(), "it was done");
        fs::write(at("package-lock.json"), "{ }").unwrap();
        assert!(setup_of(dir.path(), None).is_some(), "the lock file changed");
        assert!(setup_of(dir.path(), Some(&[])).is_none(), "the owner wants none");
        let own = setup_of(dir.path(), Some(&["make 'deps'".to_owned()])).unwrap();
        let script = own.before("npm test");
        assert!(script.starts_with("( make 'deps'\n)") && script.ends_with("npm test"), "{script}");
    }
}

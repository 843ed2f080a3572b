//! Moves a branch by git's own rules without git: its lock, its logs, one rename. Where that is not plain, nothing is done and
//! git is asked.

use super::command::IDENTITY;
use super::objects::Kind;
use super::refs::{LOOSE_MAX, read_text};
use super::{Repo, names};
use agency_host::clock;
use agency_host::read::open_plain;
use agency_protocols::model::PlannedCommit;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// A line that a crash left is among the last ones.
const LOG_TAIL: u64 = 4096;

impl Repo {
    /// True when the branch went from the plan's parent to the plan. Else nothing was done.
    pub(super) fn swap_branch(&self, planned: &PlannedCommit) -> bool {
        let Some(swap) = self.swap(planned) else { return false };
        let private = self.private_file("branch");
        let swapped = swap.lock(&private).and_then(|locked| {
            // Whoever moved it before we had the lock has moved it.
            let done = if locked && swap.stands() { swap.go().map(|()| true) } else { Ok(false) };
            if locked && !matches!(done, Ok(true)) {
                fs::remove_file(&swap.lock)?;
            }
            done
        });
        fs::remove_file(&private).ok();
        swapped.unwrap_or_else(|error| {
            tracing::debug!(%error, branch = planned.branch, "the branch is left to git");
            false
        })
    }

    /// `None`: only git can do it, or nobody.
    fn swap(&self, planned: &PlannedCommit) -> Option<Swap> {
        let name = names::branch_ref(&planned.branch).ok()?;
        let (from, to) = (planned.parent.as_ref()?.to_string(), planned.id.to_string());
        if self.has_reftable() || self.store().read(Kind::Commit, &to).is_none() {
            return None;
        }
        let file = self.0.common_dir.join(&name);
        let mut logs = vec![self.0.common_dir.join("logs").join(&name)];
        let head = read_text(&self.0.git_dir.join("HEAD"), LOOSE_MAX).ok()??;
        if head.trim_end().strip_prefix("ref: ") == Some(name.as_str()) {
            logs.push(self.0.git_dir.join("logs/HEAD"));
        }
        // One that is not there may be wanted all the same: git knows.
        let plain = |file: &Path| file.symlink_metadata().is_ok_and(|meta| meta.is_file());
        if !plain(&file) || !logs.iter().all(|log| plain(log)) {
            return None;
        }
        let lock = self.0.common_dir.join(format!("{name}.lock"));
        Some(Swap { file, lock, logs, from, to })
    }
}

struct Swap {
    file: PathBuf,
    lock: PathBuf,
    logs: Vec<PathBuf>,
    from: String,
    to: String,
}

impl Swap {
    /// The lock comes into being with its content, so that one that a killed daemon left is known again: nobody else would
    /// move a branch to this very commit.
    fn lock(&self, private: &Path) -> io::Result<bool> {
        let text = format!("{}\n", self.to);
        fs::write(private, &text)?;
        match fs::hard_link(private, &self.lock) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Ok(read_text(&self.lock, LOOSE_MAX)?.is_some_and(|found| found == text))
            }
            made => made.map(|()| true),
        }
    }

    fn stands(&self) -> bool {
        let found = read_text(&self.file, LOOSE_MAX);
        found.is_ok_and(|found| found.is_some_and(|found| found.trim_end() == self.from))
    }

    fn go(&self) -> io::Result<()> {
        let time = clock::wall().timestamp();
        let (Self { from, to, .. }, (name, email)) = (self, IDENTITY);
        let line = format!("{from} {to} {name} <{email}> {time} +0000\tagency: commit\n");
        for log in &self.logs {
            if !tail(log)?.contains(&format!("{from} {to} ")) {
                OpenOptions::new().append(true).open(log)?.write_all(line.as_bytes())?;
            }
        }
        fs::rename(&self.lock, &self.file)
    }
}

fn tail(log: &Path) -> io::Result<String> {
    let mut file = open_plain(log)?;
    let start = file.metadata()?.len().saturating_sub(LOG_TAIL);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

//! Refs, read from git's own files where these are plain, since a process per look would cost more than the look.
//! Outside `refs/agency/` it moves only the ref that it is told to move.

use super::{Call, GitError, Repo, error::clipped, names};
use agency_protocols::model::{BranchTip, CommitId, Digest, TreeId};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

/// A loose ref is one line; a longer file is none.
pub(super) const LOOSE_MAX: u64 = 4096;
const PACKED_MAX: u64 = 64 * 1024 * 1024;

/// What became of a ref that was to be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefMoved {
    Done,
    Elsewhere { found: Option<CommitId> },
}

/// What a file says about a ref.
pub(super) enum Found {
    Commit(CommitId),
    Absent,
    /// Only git can tell: a symbolic ref, another backend, something unreadable.
    Odd,
}

impl Repo {
    /// Refs lie in tables instead of files.
    pub(super) fn has_reftable(&self) -> bool {
        self.0.common_dir.join("reftable").exists()
    }

    /// The commit that a branch points to.
    pub(super) async fn tip(&self, branch: &str) -> Result<Option<CommitId>, GitError> {
        let name = names::branch_ref(branch)?;
        match self.find_ref(&name) {
            Found::Commit(id) => Ok(Some(id)),
            Found::Absent => Ok(None),
            Found::Odd => self.ask_commit(&name).await,
        }
    }

    /// The commit that a full ref name points to.
    pub async fn ref_tip(&self, name: &str) -> Result<Option<CommitId>, GitError> {
        let name = names::any_ref(name)?;
        match self.find_ref(name) {
            Found::Commit(id) => Ok(Some(id)),
            Found::Absent => Ok(None),
            Found::Odd => self.ask_commit(name).await,
        }
    }

    /// The local branch of this name, then the branches of that name as the remotes had them when they were fetched last.
    pub async fn branches(&self, name: &str) -> Result<Vec<BranchTip>, GitError> {
        let local = names::branch_ref(name)?;
        let call =
            Call::local("for-each-ref").arg("--format=%(objecttype) %(objectname) %(refname)");
        let call = call.arg(&local).arg(format!("refs/remotes/*/{name}"));
        let output = self.git(call).await?;
        let text = String::from_utf8_lossy(&output.stdout);
        let tip = |line: &str| {
            let (id, found) = line.strip_prefix("commit ")?.split_once(' ')?;
            let remote = found
                .strip_prefix("refs/remotes/")
                .filter(|short| short.split_once('/').is_some_and(|(_, rest)| rest == name));
            let branch = if found == local { Some(name) } else { remote }?;
            Some(BranchTip { branch: branch.to_owned(), tip: CommitId::new(id) })
        };
        Ok(text.lines().filter_map(tip).collect())
    }

    /// Creates, moves or deletes a ref that is where the caller thinks it is. Doing it again changes nothing more.
    pub async fn move_ref(
        &self,
        name: &str,
        was: Option<&CommitId>,
        to: Option<&CommitId>,
    ) -> Result<RefMoved, GitError> {
        let found = self.ref_tip(name).await?;
        if found.as_ref() == to {
            return Ok(RefMoved::Done);
        }
        if found.as_ref() != was {
            return Ok(RefMoved::Elsewhere { found });
        }
        let zeros = self.0.format.zeros();
        let id = |id: Option<&CommitId>| {
            names::object(id.map_or(&zeros, CommitId::as_str)).map(str::to_owned)
        };
        // Zeros as the new side delete it, as the old side they demand that it is new.
        let lines = format!("update {name} {} {}\n", id(to)?, id(was)?);
        let call = Call::local("update-ref").args(["-m", "agency: move", "--stdin"]);
        self.git(call.stdin(lines.into_bytes())).await?;
        Ok(RefMoved::Done)
    }

    /// Asks git what a name stands for.
    pub(super) async fn ask_commit(&self, name: &str) -> Result<Option<CommitId>, GitError> {
        let call = Call::local("rev-parse").args(["--quiet", "--verify", "--end-of-options"]);
        let output = self.git(call.arg(format!("{name}^{{commit}}")).fine(&[0, 1])).await?;
        let line = output.line("rev-parse")?;
        Ok(if output.code == 0 { Some(CommitId::new(names::object(line)?)) } else { None })
    }

    pub(super) fn find_ref(&self, name: &str) -> Found {
        if self.has_reftable() {
            return Found::Odd;
        }
        match read_text(&self.0.common_dir.join(name), LOOSE_MAX) {
            Ok(Some(text)) if names::is_object(text.trim_end()) => {
                Found::Commit(CommitId::new(text.trim_end()))
            }
            Ok(Some(_)) | Err(_) => Found::Odd,
            Ok(None) => self.find_packed(name),
        }
    }

    fn find_packed(&self, name: &str) -> Found {
        match read_text(&self.0.common_dir.join("packed-refs"), PACKED_MAX) {
            Ok(Some(text)) => packed(&text)
                .find(|(_, packed)| *packed == name)
                .map_or(Found::Absent, |(id, _)| Found::Commit(CommitId::new(id))),
            Ok(None) => Found::Absent,
            Err(_) => Found::Odd,
        }
    }

    /// Digest over every ref but ours and the remotes': the same before and after git packs them.
    /// A fetch or a push moves `refs/remotes/` at any time and changes nobody's history.
    pub(super) async fn refs_digest(&self) -> Result<Digest, GitError> {
        let refs = if self.has_reftable() {
            self.list_refs().await?
        } else {
            let repo = self.clone();
            let read = tokio::task::spawn_blocking(move || repo.read_refs());
            read.await.map_err(GitError::BrokenOff)??
        };
        let lines = refs.iter().map(|(name, value)| format!("{name} {value}\n"));
        Ok(Digest::of(lines.collect::<String>().as_bytes()))
    }

    async fn list_refs(&self) -> Result<BTreeMap<String, String>, GitError> {
        let format =
            "--format=%(refname) %(if)%(symref)%(then)ref: %(symref)%(else)%(objectname)%(end)";
        let output = self.git(Call::local("for-each-ref").arg(format)).await?;
        let text = String::from_utf8_lossy(&output.stdout);
        let refs = text.lines().filter_map(|line| line.split_once(' '));
        let theirs = refs.filter(|(name, _)| counts(name));
        Ok(theirs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// Loose refs before packed ones: git packs in the other order, so that none is missed in between.
    fn read_refs(&self) -> Result<BTreeMap<String, String>, GitError> {
        let mut loose = BTreeMap::new();
        walk(&self.0.common_dir.join("refs"), "refs", &mut loose)?;
        if self.0.git_dir != self.0.common_dir {
            walk(&self.0.git_dir.join("refs"), "refs", &mut loose)?;
        }
        let file = self.0.common_dir.join("packed-refs");
        let text =
            read_text(&file, PACKED_MAX).map_err(|source| GitError::io("read", &file, source))?;
        for (id, name) in packed(text.as_deref().unwrap_or_default()) {
            if counts(name) && !loose.contains_key(name) {
                loose.insert(name.to_owned(), id.to_owned());
            }
        }
        Ok(loose)
    }

    /// Points one of our own refs at a tree, so that git keeps it.
    pub(super) async fn keep(&self, name: &str, tree: &TreeId) -> Result<(), GitError> {
        if !self.has_reftable() && self.write_loose(name, tree).is_ok() {
            return Ok(());
        }
        self.git(Call::local("update-ref").arg(name).arg(tree.as_str())).await.map(drop)
    }

    /// A file that becomes the ref. No lock as git takes it: ours would outlive a killed daemon and hold the ref for good,
    /// and nobody else writes it.
    fn write_loose(&self, name: &str, tree: &TreeId) -> io::Result<()> {
        let file = self.0.common_dir.join(name);
        if let Some(dir) = file.parent() {
            fs::create_dir_all(dir)?;
        }
        let whole = self.private_file("ref");
        fs::write(&whole, format!("{tree}\n"))?;
        fs::rename(&whole, &file)
    }
}

fn counts(name: &str) -> bool {
    !name.starts_with("refs/agency/") && !name.starts_with("refs/remotes/")
}

/// `id name` pairs of a `packed-refs` file.
pub(super) fn packed(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines()
        .filter(|line| !line.starts_with(['#', '^']))
        .filter_map(|line| line.split_once(' '))
}

fn walk(dir: &Path, prefix: &str, into: &mut BTreeMap<String, String>) -> Result<(), GitError> {
    let broken = |source| GitError::io("read", dir, source);
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(broken(error)),
    };
    for entry in entries {
        let entry = entry.map_err(broken)?;
        let name = format!("{prefix}/{}", clipped(entry.file_name().as_encoded_bytes()));
        if !counts(&format!("{name}/")) || name.ends_with(".lock") {
            continue;
        }
        // A link to a folder is not followed: it may lead in circles.
        if entry.file_type().map_err(broken)?.is_dir() {
            walk(&entry.path(), &name, into)?;
        } else if let Some(value) = loose_value(&entry.path())? {
            into.insert(name, value);
        }
    }
    Ok(())
}

fn loose_value(file: &Path) -> Result<Option<String>, GitError> {
    match read_text(file, LOOSE_MAX) {
        Ok(text) => Ok(text.map(|text| text.trim_end().to_owned())),
        // No ref, but its coming and going is a change all the same.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Some("odd".to_owned())),
        Err(error) => Err(GitError::io("read", file, error)),
    }
}

/// A small text file, `None` if there is none. Too large, not a file or not text is `InvalidData`.
pub(super) fn read_text(file: &Path, max: u64) -> io::Result<Option<String>> {
    let gone = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    };
    let size = match fs::metadata(file) {
        // Opening a pipe would wait for its writer.
        Ok(meta) if !meta.is_file() => return Err(io::ErrorKind::InvalidData.into()),
        Ok(meta) => meta.len().min(max),
        Err(error) if gone(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let opened = match File::open(file) {
        Err(error) if gone(&error) => return Ok(None),
        opened => opened?,
    };
    let mut text = String::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    let read = opened.take(max + 1).read_to_string(&mut text)?;
    if read as u64 > max { Err(io::ErrorKind::InvalidData.into()) } else { Ok(Some(text)) }
}

//! Where a ledger file lies, and how it is read and changed. It knows no verb.

use super::Trouble;
use crate::clock;
use crate::git::{Peeked, peek};
use crate::model::{FileState, RelPath};
use crate::protocol::ledger::{Document, FILE_MAX, Features, Progress, Reviews};
use crate::{read, store};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a writer waits for the others.
const WAIT: Duration = Duration::from_secs(60);

/// So many files that `--force` replaced are kept.
const COPIES_MAX: u32 = 999;

#[derive(clap::Args)]
pub(in crate::cli) struct Place {
    /// The file itself (default: its usual name in the state directory)
    #[arg(long, short = 'f', global = true, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The directory of the ledger's files (default: $AGENT_STATE_DIR, else the current directory)
    #[arg(long, short = 'd', global = true, value_name = "DIR")]
    agent_state_dir: Option<PathBuf>,
    /// Print as JSON, where the output is not JSON already
    #[arg(long, global = true)]
    pub(super) json: bool,
}

/// Is a file there, or must it be made?
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    Nothing,
    Anything,
}

impl Place {
    /// `--file` > `-d` > `$AGENT_STATE_DIR` > here.
    fn path<D: Document>(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| self.dir().join(D::FILE))
    }

    /// Where the other two files of the ledger lie.
    pub(super) fn dir(&self) -> PathBuf {
        let beside = self.file.as_ref().and_then(|file| file.parent()).map(Path::to_owned);
        let state = || std::env::var_os("AGENT_STATE_DIR").filter(|dir| !dir.is_empty());
        let dir =
            beside.or_else(|| self.agent_state_dir.clone()).or_else(|| state().map(PathBuf::from));
        dir.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or_else(|| PathBuf::from("."))
    }

    /// The checkout around the files, if they are in one.
    pub(super) fn git(&self) -> Option<Peeked> {
        peek(&self.dir())
    }

    pub(super) fn read<D: Document>(&self) -> Result<D, Trouble> {
        let path = self.path::<D>();
        let (dir, name) = split(&path)?;
        match load::<D>(&dir, &name)? {
            Some(document) => Ok(document),
            None => Err(Trouble::new(format!("{name} does not exist."))),
        }
    }

    /// What lies beside; a file of another shape is as good as none.
    pub(super) fn beside<D: Document>(&self) -> Option<D> {
        load::<D>(&self.dir(), &RelPath::fixed(D::FILE)).ok().flatten()
    }

    /// Reads the file under the folder's lock, lets `change` work on it, and publishes the result.
    pub(super) fn change<D: Document, T>(
        &self,
        change: impl FnOnce(&mut D) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        let path = self.path::<D>();
        let (dir, name) = split(&path)?;
        let mut answer = None;
        store::edit(&dir, &name, FILE_MAX, WAIT, |old| {
            let missing = || Trouble::new(format!("{name} does not exist. Run 'init' first."));
            let mut document = D::read(old.ok_or_else(missing)?)?;
            answer = Some(change(&mut document)?);
            Ok::<_, Trouble>(Some(document.to_bytes()))
        })?;
        Ok(answer.expect("BUG: an edit that succeeds has called its change"))
    }

    /// Makes a new file. One that is not ours is never overwritten, also not by force (LG-02).
    pub(super) fn create<D: Document>(&self, document: &D, over: Over) -> Result<RelPath, Trouble> {
        let path = self.path::<D>();
        let (dir, name) = split(&path)?;
        store::edit(&dir, &name, FILE_MAX, WAIT, |old| {
            if let Some(old) = old {
                D::read(old)?;
                if over == Over::Nothing {
                    let said = format!("{name} already exists. Use --force to overwrite.");
                    return Err(Trouble::new(said));
                }
                keep_copy(&dir, &name, old)?;
            }
            Ok(Some(document.to_bytes()))
        })?;
        Ok(name)
    }

    /// LG-13, LG-16: after the features or the reviews changed, counts and time in `progress.json` follow, where there is one.
    pub(super) fn recount(&self) -> Result<(), Trouble> {
        let beside = Self { file: None, agent_state_dir: Some(self.dir()), json: false };
        if beside.beside::<Progress>().is_none() {
            return Ok(());
        }
        beside.change(|progress: &mut Progress| {
            if let Some(features) = beside.beside::<Features>() {
                progress.count(&features, beside.beside::<Reviews>().as_ref());
            }
            progress.touch(clock::now().wall);
            Ok(())
        })
    }
}

/// The file that `--force` replaces stays beside the new one, under the first free name.
pub(super) fn keep_copy(dir: &Path, name: &RelPath, bytes: &[u8]) -> Result<(), Trouble> {
    let trouble = |copy: &Path, error: std::io::Error| {
        Trouble::ours(format!("cannot keep a copy of {name} as `{}`: {error}", copy.display()))
    };
    for number in 1..=COPIES_MAX {
        let copy = dir.join(format!("{name}.old-{number}"));
        match std::fs::File::create_new(&copy) {
            Ok(mut file) => {
                let written = file.write_all(bytes).and_then(|()| file.sync_all());
                written.map_err(|error| trouble(&copy, error))?;
                anstream::eprintln!("NOTE: the previous file is kept as {name}.old-{number}");
                return Ok(());
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(trouble(&copy, error)),
        }
    }
    Err(Trouble::new(format!("there are {COPIES_MAX} old copies of {name}; remove some of them")))
}

fn split(path: &Path) -> Result<(PathBuf, RelPath), Trouble> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.and_then(|name| RelPath::new(name).ok());
    let name = name.ok_or_else(|| Trouble::new(format!("`{}` is no file name", path.display())))?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !dir.is_dir() {
        return Err(Trouble::new(format!(
            "{name} does not exist: there is no directory `{}`",
            dir.display()
        )));
    }
    Ok((dir.to_owned(), name))
}

fn load<D: Document>(dir: &Path, name: &RelPath) -> Result<Option<D>, Trouble> {
    let reading = read::read(dir, name, FILE_MAX, clock::now())
        .map_err(|error| Trouble::ours(format!("cannot read {name}: {error}")))?;
    match reading.state {
        FileState::Absent => Ok(None),
        FileState::Whole(file) => Ok(Some(D::read(&file.bytes)?)),
        FileState::Unreadable(odd) => {
            Err(Trouble::new(format!("{name} is {}; wanted {} (DM-04)", odd.found, odd.wanted)))
        }
    }
}

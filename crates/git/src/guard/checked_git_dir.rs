//! A common git directory of our own: links to the owner's objects and refs, but only such configuration as was checked,
//! and no hooks. Git reads this one, so what an agent writes between our check and git's start is never seen.

use super::stamp::Stamp;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// What git finds in the owner's own directory. Neither `config`, `hooks` nor `info/attributes` may ever be among them.
const LINKS: &[&str] = &[
    "objects",
    "refs",
    "logs",
    "packed-refs",
    "shallow",
    "reftable",
    "worktrees",
    "modules",
    "lfs",
    "annex",
    "git-crypt",
    "info/exclude",
];
/// What is in it; everything else that lies there is somebody else's.
const FOLDERS: [&str; 4] = ["", "info", "bin", "exec"];
/// What git makes itself where it is missing, which it cannot do behind a link.
const MADE: &[&str] = &["logs"];

pub(super) struct Vault {
    dir: PathBuf,
    common: PathBuf,
    laid: Option<Laid>,
}

/// What lies there by our own hand, and the stamps that show it.
struct Laid {
    contents: Contents,
    links: Vec<(String, PathBuf)>,
    stamps: Vec<(PathBuf, Stamp)>,
}

#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// Names and texts; `config` is the first that git reads.
    pub(super) files: BTreeMap<String, String>,
    pub(super) programs: BTreeMap<String, PathBuf>,
    /// git-lfs keeps its objects in the common directory. Where it is not known, its link leads nowhere and it fails aloud
    /// rather than keep them here.
    pub(super) lfs: bool,
}

impl Vault {
    pub(super) fn new(dir: PathBuf, common: PathBuf) -> Self {
        Self { dir, common, laid: None }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Programs that are found before any other of their name.
    pub(super) fn bin(&self) -> PathBuf {
        self.dir.join("bin")
    }

    /// Where git looks for itself.
    pub(super) fn exec(&self) -> PathBuf {
        self.dir.join("exec")
    }

    /// Cheap when everything lies there already.
    pub(super) fn furnish(&mut self, wanted: &Contents) -> io::Result<()> {
        let links = self.links(wanted)?;
        if let Some(laid) = &self.laid
            && (&laid.contents, &laid.links) == (wanted, &links)
            && laid.stamps.iter().all(|(path, stamp)| Stamp::of(path) == *stamp)
        {
            return Ok(());
        }
        self.clear(wanted, &links)?;
        for (name, target) in &links {
            link(&self.dir.join(name), target)?;
        }
        for (name, text) in &wanted.files {
            put(&self.dir, name, text)?;
        }
        let folders = FOLDERS.map(|name| self.dir.join(name));
        let files = wanted.files.keys().map(|name| self.dir.join(name));
        let stamps = folders.into_iter().chain(files).map(|path| (path.clone(), Stamp::of(&path)));
        let stamps = stamps.collect();
        self.laid = Some(Laid { contents: wanted.clone(), links, stamps });
        Ok(())
    }

    fn links(&self, wanted: &Contents) -> io::Result<Vec<(String, PathBuf)>> {
        let lfs = wanted.lfs.then_some("lfs");
        for name in MADE.iter().copied().chain(lfs) {
            let dir = self.common.join(name);
            if !dir.exists() {
                fs::create_dir_all(dir)?;
            }
        }
        // A reftable folder that is not there means another backend; a dangling link would only confuse.
        let always = ["packed-refs", "shallow", "lfs"];
        let there = |name: &&&str| always.contains(*name) || self.common.join(name).exists();
        let links = LINKS.iter().filter(there);
        let links = links.map(|name| ((*name).to_owned(), self.common.join(name)));
        let programs = wanted.programs.iter();
        let programs = programs.map(|(name, path)| (format!("bin/{name}"), path.clone()));
        Ok(links.chain(programs).collect())
    }

    /// Makes the folders, and removes what is not ours: a `hooks` that somebody put there, files of an older view.
    fn clear(&self, wanted: &Contents, links: &[(String, PathBuf)]) -> io::Result<()> {
        for folder in FOLDERS {
            let dir = self.dir.join(folder);
            if dir.symlink_metadata().is_ok_and(|meta| !meta.is_dir()) {
                fs::remove_file(&dir)?;
            }
            DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
            for entry in fs::read_dir(&dir)? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                let ours = FOLDERS.contains(&name.as_str())
                    || wanted.files.contains_key(&name)
                    || links.iter().any(|(link, _)| *link == name);
                if !ours {
                    remove(&entry.path())?;
                }
            }
        }
        Ok(())
    }
}

/// What git may read at this moment stays whole: the new link takes the place of the old one.
fn link(at: &Path, target: &Path) -> io::Result<()> {
    if fs::read_link(at).is_ok_and(|found| found == target) {
        return Ok(());
    }
    if at.symlink_metadata().is_ok() {
        remove(at)?;
    }
    symlink(target, at)
}

fn put(dir: &Path, name: &str, text: &str) -> io::Result<()> {
    let (file, whole) = (dir.join(name), dir.join(format!("{name}.new")));
    if whole.symlink_metadata().is_ok() {
        remove(&whole)?;
    }
    let mode = if name.starts_with("exec/") { 0o700 } else { 0o600 };
    let mut fresh = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&whole)?;
    fresh.write_all(text.as_bytes())?;
    if file.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        fs::remove_dir_all(&file)?;
    }
    fs::rename(whole, file)
}

fn remove(path: &Path) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

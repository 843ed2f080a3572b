//! What `git add --all` would make of a work tree, found out without git: each file is compared with an index, and only those
//! whose stamps differ are read. Wherever git might do more than take in bytes, it says so and leaves the tree to git.

mod dir;
mod stamps;

use super::index::{Edits, Id, Index, IndexEntry, Stat};
use super::ingest_settings::{Conversion, conversion};
use super::names;
use super::objects::{Kind, Objects};
use super::patterns::Patterns;
use super::verdicts::Verdicts;
use agency_protocols::model::Timestamp;
use dir::{Name, enter, is_leaf, list, look_at, open_file, read, read_list};
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::readlinkat;
use nix::sys::stat::{FileStat, Mode};
use stamps::{is_old, kind_of, mode_of, stat_of};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Each level holds a folder open.
const DEPTH_MAX: usize = 200;

const RULES: &str = ".gitignore";
const ATTRIBUTES: &str = ".gitattributes";
/// What git takes for more than a file where it finds it.
const NO_LINKS: [&str; 3] = [RULES, ATTRIBUTES, ".gitmodules"];

/// Why the tree is left to git.
pub(super) struct NotPlain(pub(super) &'static str);

type Step<T = ()> = Result<T, NotPlain>;

impl From<Errno> for NotPlain {
    /// Git says what is wrong there, and goes on with the rest.
    fn from(_: Errno) -> Self {
        Self("something cannot be read")
    }
}

/// A name of which only git knows whether it is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unknown {
    pub(super) path: String,
    folder: bool,
}

impl Unknown {
    /// Under which its verdict is kept.
    fn key(&self) -> String {
        key(&self.path, self.folder)
    }
}

struct About {
    conversion: Conversion,
    /// When the index was written: files that were young then are read, whatever their stamps say.
    taken: Timestamp,
}

pub(super) struct Scan {
    root: Dir,
    index: Index,
    store: Objects,
    verdicts: Verdicts,
    about: About,
    /// Entries whose files stand as they stood.
    unchanged: Vec<bool>,
    seen: Vec<bool>,
    edits: Edits,
    unknown: Vec<Unknown>,
}

/// What a scan was made of, for the next one.
pub(super) struct Scanned {
    pub(super) index: Index,
    /// What differs from the index that it began with, stamps included.
    pub(super) edits: Edits,
    pub(super) verdicts: Verdicts,
}

impl Scan {
    pub(super) fn new(
        root: &Path,
        index: Index,
        taken: Timestamp,
        store: Objects,
        verdicts: Verdicts,
        conversion: Conversion,
    ) -> Step<Self> {
        let root = Dir::open(root, dir::FLAGS, Mode::empty())?;
        if index.entries().iter().any(|(_, entry)| !is_file(entry.mode)) {
            return Err(NotPlain("a repository lies inside"));
        }
        plain(conversion)?;
        // The list that is most likely there, before anything that takes long.
        if let Some(found) = look_at(&root, ATTRIBUTES)? {
            plain(attributes(&root, &found)?)?;
        }
        let unchanged = stamps::unchanged(&root, &index, taken);
        let seen = vec![false; unchanged.len()];
        let (edits, unknown) = (Edits::new(), Vec::new());
        let about = About { conversion, taken };
        Ok(Self { root, index, store, verdicts, about, unchanged, seen, edits, unknown })
    }

    /// Goes through the whole tree. Says which names only git can judge.
    pub(super) fn look(&mut self) -> Step<Vec<Unknown>> {
        let root = enter(&self.root, ".")?;
        let all = 0..self.index.entries().len();
        self.folder(root, "", all)?;
        Ok(std::mem::take(&mut self.unknown))
    }

    /// Goes on where git said that these are not ignored. Says again which names are not known.
    pub(super) fn judged(
        &mut self,
        unknown: Vec<Unknown>,
        ignored: impl Fn(&str) -> bool,
    ) -> Step<Vec<Unknown>> {
        for name in unknown {
            let is_ignored = ignored(&name.path);
            self.verdicts.learn(name.key(), is_ignored);
            if !is_ignored {
                self.named(&name)?;
            }
        }
        Ok(std::mem::take(&mut self.unknown))
    }

    /// What was not seen is gone.
    pub(super) fn finish(mut self) -> Step<Scanned> {
        for ((path, _), _) in
            self.index.entries().iter().zip(&self.seen).filter(|(_, seen)| !**seen)
        {
            // Without the file, what the index says of it counts.
            if file_name(path) == ATTRIBUTES {
                return Err(NotPlain("attributes are gone"));
            }
            self.edits.insert(path.clone(), None);
        }
        Ok(Scanned { index: self.index, edits: self.edits, verdicts: self.verdicts })
    }

    fn named(&mut self, name: &Unknown) -> Step {
        let (folders, last) = name.path.rsplit_once('/').unwrap_or(("", &name.path));
        let mut at = enter(&self.root, ".")?;
        for folder in folders.split('/').filter(|folder| !folder.is_empty()) {
            at = enter(&at, folder)?;
        }
        if name.folder {
            let dir = enter(&at, last)?;
            return self.folder(dir, &format!("{}/", name.path), 0..0);
        }
        self.file(&at, last, &name.path, None)
    }

    /// `path` of the folder ends with a slash, but for the top. `known`: what the index has below it.
    fn folder(&mut self, mut dir: Dir, path: &str, known: Range<usize>) -> Step {
        if path.matches('/').count() > DEPTH_MAX {
            return Err(NotPlain("a folder lies too deep"));
        }
        let names = list(&mut dir)?;
        let has = |wanted: &str| names.iter().any(|(name, _)| name == wanted);
        if has(".git") && !path.is_empty() {
            return Err(NotPlain("a repository lies inside"));
        }
        let rules = if has(RULES) { look_at(&dir, RULES)? } else { None };
        if self.verdicts.enter(path, rules.map(|rules| stat_of(&rules))) {
            self.rules(&dir, path, rules)?;
        }
        if let Some(found) = if has(ATTRIBUTES) { look_at(&dir, ATTRIBUTES)? } else { None } {
            self.about.conversion = self.about.conversion.max(attributes(&dir, &found)?);
            plain(self.about.conversion)?;
        }
        let whole = self.is_whole(path, &names, &known);
        let left = |name: &str, kind: &Option<Type>| name != ".git" && !(whole && is_leaf(kind));
        for (name, kind) in names.iter().filter(|(name, kind)| left(name, kind)) {
            self.entry(&dir, name, &format!("{path}{name}"), *kind, &known)?;
        }
        Ok(())
    }

    /// As many files as the index has here, and all of those unchanged: then these are the ones, and each is seen.
    fn is_whole(&mut self, path: &str, names: &[Name], known: &Range<usize>) -> bool {
        let entries = &self.index.entries()[known.clone()];
        let here = |at: &usize| !entries[*at].0[path.len()..].contains('/');
        let here: Vec<usize> = (0..entries.len()).filter(here).map(|at| known.start + at).collect();
        let files = names.iter().filter(|(_, kind)| is_leaf(kind)).count();
        let whole = files == here.len() && here.iter().all(|at| self.unchanged[*at]);
        here.into_iter().filter(|_| whole).for_each(|at| self.seen[at] = true);
        whole
    }

    fn entry(
        &mut self,
        dir: &Dir,
        name: &str,
        path: &str,
        kind: Option<Type>,
        known: &Range<usize>,
    ) -> Step {
        let kind = match kind {
            Some(kind) => kind,
            None => match look_at(dir, name)? {
                Some(stat) => kind_of(&stat),
                None => return Ok(()),
            },
        };
        match kind {
            Type::Directory => {
                let below = format!("{path}/");
                let within = self.index.below(&below, known);
                if !within.is_empty() || self.is_wanted(path, true) {
                    let dir = match enter(dir, name) {
                        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return Ok(()),
                        dir => dir?,
                    };
                    return self.folder(dir, &below, within);
                }
                Ok(())
            }
            Type::File | Type::Symlink => {
                let at = self.index.position(path, known);
                if at.is_some() || self.is_wanted(path, false) {
                    return self.file(dir, name, path, at);
                }
                Ok(())
            }
            _ if self.index.position(path, known).is_some() => {
                Err(NotPlain("a file became a device"))
            }
            _ => Ok(()),
        }
    }

    /// Not in the index: is it to be taken in? What is not known is asked for later.
    fn is_wanted(&mut self, path: &str, folder: bool) -> bool {
        match self.verdicts.is_ignored(&key(path, folder)) {
            Some(ignored) => !ignored,
            None => {
                self.unknown.push(Unknown { path: path.to_owned(), folder });
                false
            }
        }
    }

    /// `at`: where it stands in the index.
    fn file(&mut self, dir: &Dir, name: &str, path: &str, at: Option<usize>) -> Step {
        if let Some(at) = at.filter(|at| self.unchanged[*at]) {
            self.seen[at] = true;
            return Ok(());
        }
        let Some(stat) = look_at(dir, name)? else { return Ok(()) };
        let kind = kind_of(&stat);
        let Some(mode) = mode_of(&stat) else { return Err(NotPlain("a file was exchanged")) };
        let bytes = match kind {
            Type::Symlink => self.link(dir, name)?,
            _ => self.bytes(dir, name, &stat)?,
        };
        let known = at.map(|at| &self.index.entries()[at].1);
        let entry = self.keep(path, mode, stat_of(&stat), &bytes, known)?;
        if known != Some(&entry) {
            self.edits.insert(path.to_owned(), Some(entry));
        }
        if let Some(at) = at {
            self.seen[at] = true;
        }
        Ok(())
    }

    /// Stores what is new, and nothing twice: what the index names, git has.
    fn keep(
        &self,
        path: &str,
        mode: u32,
        stat: Stat,
        bytes: &[u8],
        known: Option<&IndexEntry>,
    ) -> Step<IndexEntry> {
        let id = self.store.id(Kind::Blob, bytes);
        let entry = IndexEntry::new(stat, mode, Id::parse(&id).expect("BUG: a hash is an id"));
        match known {
            Some(known) if known.id == entry.id => {}
            known => {
                if known.is_none() && !is_plain(path) {
                    return Err(NotPlain("a name that git might refuse"));
                }
                self.store
                    .write(Kind::Blob, bytes)
                    .map_err(|_| NotPlain("no object can be written"))?;
            }
        }
        Ok(entry)
    }

    fn link(&self, dir: &Dir, name: &str) -> Step<Vec<u8>> {
        if NO_LINKS.contains(&name) {
            return Err(NotPlain("a link in the place of a list"));
        }
        Ok(readlinkat(dir, name)?.as_bytes().to_vec())
    }

    /// `stat`: as it was listed. What is opened must be that.
    fn bytes(&self, dir: &Dir, name: &str, stat: &FileStat) -> Step<Vec<u8>> {
        let (file, found) = open_file(dir, name)?;
        if found.st_ino != stat.st_ino || found.st_dev != stat.st_dev {
            return Err(NotPlain("a file was exchanged"));
        }
        let bytes = read(&file, &found)?;
        let converted = bytes.contains(&b'\r') || bytes.windows(3).any(|part| part == b"$Id");
        if self.about.conversion == Conversion::Text && converted {
            return Err(NotPlain("line ends may be converted"));
        }
        Ok(bytes)
    }

    fn rules(&mut self, dir: &Dir, path: &str, found: Option<FileStat>) -> Step {
        let known =
            found.filter(|found| is_old(found, self.about.taken)).map(|found| stat_of(&found));
        let patterns = match found.map(|found| kind_of(&found)) {
            Some(Type::File) => Patterns::parse(&read_list(dir, RULES)?),
            _ => Patterns::anything(),
        };
        self.verdicts.put(path, known, patterns);
        Ok(())
    }
}

fn attributes(dir: &Dir, found: &FileStat) -> Step<Conversion> {
    // A link is not followed here, by git neither.
    match kind_of(found) {
        Type::File => Ok(conversion(&read_list(dir, ATTRIBUTES)?)),
        _ => Err(NotPlain("attributes that are no file")),
    }
}

fn plain(conversion: Conversion) -> Step {
    match conversion {
        Conversion::None | Conversion::Text => Ok(()),
        Conversion::Any => Err(NotPlain("files are converted")),
    }
}

fn key(path: &str, folder: bool) -> String {
    if folder { format!("{path}/") } else { path.to_owned() }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_file(mode: u32) -> bool {
    matches!(mode, 0o100_644 | 0o100_755 | 0o120_000)
}

/// Names that no setting of git's and no other system takes for something else.
fn is_plain(path: &str) -> bool {
    let odd = |part: &str| {
        let part = part.to_ascii_lowercase();
        let beside = part.strip_prefix(".git").is_some_and(|rest| !rest.starts_with(is_letter));
        beside || part.starts_with("git~") || part.contains(['\\', ':'])
    };
    names::rel_path(path.as_bytes()).is_ok() && !path.split('/').any(odd)
}

fn is_letter(c: char) -> bool {
    c.is_ascii_lowercase()
}

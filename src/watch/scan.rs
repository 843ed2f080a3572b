//! Lists the wanted files of a root, or of one folder in it, with their stamps. It reads no file and follows no link.

use super::known::is_proven;
use super::plan::{Plan, join};
use crate::model::{RelPath, Timestamp};
use crate::read::Stamp;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{DirEntry, Metadata, symlink_metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// More than the largest board we promise to carry; beyond it somebody fills the folder on purpose.
const MOST_ENTRIES: usize = 500_000;

/// Which folder it is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FolderId {
    dev: u64,
    ino: u64,
}

impl FolderId {
    pub(super) fn of(meta: &Metadata) -> Self {
        Self { dev: meta.dev(), ino: meta.ino() }
    }
}

#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) files: BTreeMap<RelPath, Stamp>,
    pub(super) folders: BTreeSet<String>,
    /// There was more than we look at.
    pub(super) cut: bool,
}

/// May a folder be passed over because its own stamp stands? Not where events fail: there stamps may fail as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    Stamps,
    Nothing,
}

/// What to list, and how.
pub(super) struct Scan<'a> {
    pub(super) root: &'a Path,
    pub(super) plan: &'a Plan,
    pub(super) trust: Trust,
    pub(super) now: Timestamp,
}

/// The names last found in each folder, with the stamp that the folder had just before.
#[derive(Default)]
pub(super) struct Names {
    folders: HashMap<String, (Stamp, Packed)>,
}

/// Names of one folder in a single piece of memory: a folder has many, and the list is made anew with each of them.
#[derive(Default)]
struct Packed(String);

impl Packed {
    fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split_terminator('/')
    }
}

impl FromIterator<String> for Packed {
    fn from_iter<I: IntoIterator<Item = String>>(names: I) -> Self {
        // A name holds no slash.
        Self(names.into_iter().fold(String::new(), |packed, name| packed + &name + "/"))
    }
}

impl Names {
    pub(super) fn keep_only(&mut self, folders: &BTreeSet<String>) {
        self.folders.retain(|folder, _| folders.contains(folder));
    }
}

impl Scan<'_> {
    /// Calls `enter` for each folder before it is listed, so that a watch can be set first: what is made in between is
    /// then seen twice rather than never.
    pub(super) fn list(
        &self,
        from: &str,
        names: &mut Names,
        enter: &mut dyn FnMut(&str, FolderId),
    ) -> Listing {
        let mut listing = Listing::default();
        let mut open = vec![from.to_owned()];
        while let Some(folder) = open.pop() {
            let Some(meta) = folder_meta(self.root, &folder) else { continue };
            if listing.files.len() + listing.folders.len() >= MOST_ENTRIES {
                listing.cut = true;
                break;
            }
            if !listing.folders.insert(folder.clone()) {
                continue;
            }
            enter(&folder, FolderId::of(&meta));
            if self.plan.is_in_tree(&folder) {
                for name in self.plan.names_in(&folder) {
                    look(self.root, self.plan, join(&folder, name), &mut listing, &mut open);
                }
            }
            for name in self.names(&folder, Stamp::of(&meta), names) {
                look(self.root, self.plan, join(&folder, name), &mut listing, &mut open);
            }
        }
        listing
    }

    /// `stamp` was taken before the list is made: what comes in between is in the list and changes the stamp, so the folder
    /// is only listed once too often.
    fn names<'n>(
        &self,
        folder: &str,
        stamp: Stamp,
        names: &'n mut Names,
    ) -> impl Iterator<Item = &'n str> + use<'n> {
        let known = names.folders.get(folder).is_some_and(|(known, _)| *known == stamp);
        if self.trust == Trust::Nothing || !known {
            let at = self.root.join(folder);
            let found = if self.plan.is_in_tree(folder) {
                list_names(&at, self.plan, folder)
            } else {
                find_names(&at, self.plan, folder)
            };
            // A young stamp may stand although more names came.
            let stamp = if is_proven(stamp, self.now) { stamp } else { NO_STAMP };
            names.folders.insert(folder.to_owned(), (stamp, found));
        }
        names.folders.get(folder).into_iter().flat_map(|(_, found)| found.iter())
    }
}

/// No folder has this one, so the next look lists again.
const NO_STAMP: Stamp = Stamp { dev: 0, ino: 0, size: u64::MAX, mtime_ns: 0, ctime_ns: 0 };

/// `None` for what is not a folder. The root itself may be reached by a link: the owner named it.
fn folder_meta(root: &Path, folder: &str) -> Option<Metadata> {
    let meta =
        if folder.is_empty() { root.metadata() } else { symlink_metadata(root.join(folder)) };
    meta.ok().filter(Metadata::is_dir)
}

fn look(root: &Path, plan: &Plan, path: String, listing: &mut Listing, open: &mut Vec<String>) {
    let Ok(meta) = symlink_metadata(root.join(&path)) else { return };
    let Ok(file) = RelPath::new(path) else { return };
    if plan.wanted(&file).is_some() {
        listing.files.insert(file.clone(), Stamp::of(&meta));
    }
    if meta.is_dir() && plan.leads_on(file.as_str()) {
        open.push(file.into());
    }
}

/// The names asked for that are there: of most folders we want a few, and of these most are missing.
fn find_names(at: &Path, plan: &Plan, folder: &str) -> Packed {
    let names = plan.names_in(folder).filter(|name| symlink_metadata(at.join(name)).is_ok());
    names.map(str::to_owned).collect()
}

/// The names in a folder that may matter: folders, and wanted files. The entry's own kind saves a look at the others.
fn list_names(at: &Path, plan: &Plan, folder: &str) -> Packed {
    let Ok(entries) = std::fs::read_dir(at) else { return Packed::default() };
    let may_matter = |entry: &DirEntry, name: &str| {
        entry.file_type().is_ok_and(|kind| kind.is_dir())
            || RelPath::new(join(folder, name)).is_ok_and(|path| plan.wanted(&path).is_some())
    };
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().into_string().ok().map(|name| (entry, name)))
        .filter(|(entry, name)| may_matter(entry, name))
        .map(|(_, name)| name)
        .take(MOST_ENTRIES)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Interest, Shape, WatchedFile, WatchedTree};
    use std::fs;
    use std::os::unix::fs::symlink;

    fn plan() -> Plan {
        let file = |path| WatchedFile { path: RelPath::fixed(path), shape: Shape::Json, limit: 9 };
        let tree = WatchedTree {
            root: RelPath::fixed("in/box"),
            endings: vec![".md".to_owned()],
            shape: Shape::Text,
            limit: 9,
        };
        Plan::new(Interest { files: vec![file("flag.json"), file("in/x.json")], trees: vec![tree] })
    }

    fn list(root: &Path, from: &str, enter: &mut dyn FnMut(&str, FolderId)) -> Listing {
        let now = Timestamp::UNIX_EPOCH;
        let scan = Scan { root, plan: &plan(), trust: Trust::Nothing, now };
        scan.list(from, &mut Names::default(), enter)
    }

    // covers: DM-02
    #[test]
    fn a_named_file_that_comes_later_is_found_although_stamps_are_trusted() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("in")).unwrap();
        let mut names = Names::default();
        let mut files = || {
            let now = chrono::Utc::now() + chrono::TimeDelta::seconds(9);
            let scan = Scan { root: root.path(), plan: &plan(), trust: Trust::Stamps, now };
            let listing = scan.list("", &mut names, &mut |_, _| {});
            listing.files.into_keys().map(String::from).collect::<Vec<_>>()
        };
        assert!(files().is_empty());
        assert!(files().is_empty());
        fs::write(root.path().join("flag.json"), "{}").unwrap();
        assert_eq!(files(), ["flag.json"]);
        fs::write(root.path().join("in/x.json"), "{}").unwrap();
        assert_eq!(files(), ["flag.json", "in/x.json"]);
        fs::remove_file(root.path().join("flag.json")).unwrap();
        assert_eq!(files(), ["in/x.json"]);
    }

    #[test]
    fn wanted_files_are_listed_and_links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("in/box/deep/er")).unwrap();
        fs::create_dir_all(at("in/box/dir.md")).unwrap();
        fs::create_dir_all(at("src/box")).unwrap();
        for path in
            ["flag.json", "other.json", "in/box/a.md", "in/box/deep/er/b.md", "src/box/c.md"]
        {
            fs::write(at(path), path).unwrap();
        }
        fs::write(at("in/box/a.txt"), "").unwrap();
        symlink(at("src/box"), at("in/box/linked")).unwrap();
        symlink(at("src/box/c.md"), at("in/box/linked.md")).unwrap();

        let mut entered = Vec::new();
        let listing = list(root.path(), "", &mut |folder, _| entered.push(folder.to_owned()));
        let files: Vec<_> = listing.files.keys().map(RelPath::as_str).collect();
        let wanted = [
            "flag.json",
            "in/box/a.md",
            "in/box/deep/er/b.md",
            "in/box/dir.md",
            "in/box/linked.md",
        ];
        assert_eq!(files, wanted);
        entered.sort();
        assert_eq!(entered, ["", "in", "in/box", "in/box/deep", "in/box/deep/er", "in/box/dir.md"]);
        assert!(!listing.cut);

        let part = list(root.path(), "in/box/deep", &mut |_, _| {});
        assert_eq!(part.files.len(), 1);
        assert!(list(root.path(), "in/none", &mut |_, _| {}).folders.is_empty());
    }

    #[test]
    fn a_file_made_while_a_folder_is_entered_is_listed() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("in/box")).unwrap();
        let listing = list(root.path(), "", &mut |folder, _| {
            if folder == "in/box" {
                fs::write(root.path().join("in/box/late.md"), "").unwrap();
            }
        });
        assert_eq!(listing.files.len(), 1);
    }

    #[test]
    fn a_folder_whose_old_stamp_stands_is_not_listed_again_and_any_other_is() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("in/box")).unwrap();
        fs::write(root.path().join("in/box/a.md"), "").unwrap();
        let mut names = Names::default();
        let mut files = |trust, age| {
            let now = chrono::Utc::now() + chrono::TimeDelta::seconds(age);
            let scan = Scan { root: root.path(), plan: &plan(), trust, now };
            let names = &mut names;
            let count = scan.list("", names, &mut |_, _| {}).files.len();
            // As if nothing but this list had ever told of the second file.
            let known = &mut names.folders.get_mut("in/box").unwrap().1;
            let mut left: Vec<_> = known.iter().map(str::to_owned).collect();
            let last = left.pop();
            *known = left.into_iter().collect();
            (count, last.is_some())
        };
        assert_eq!(files(Trust::Stamps, 0), (1, true), "young");
        assert_eq!(files(Trust::Stamps, 9), (1, true), "listed again, now old");
        assert_eq!(files(Trust::Stamps, 9), (0, false), "the stamp stands: the list is not made");
        assert_eq!(files(Trust::Nothing, 9), (1, true), "unless stamps are not trusted");
        fs::write(root.path().join("in/box/b.md"), "").unwrap();
        assert_eq!(files(Trust::Stamps, 9), (2, true), "the stamp changed");
    }
}

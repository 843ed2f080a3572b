//! Trees of git's as bytes and entries, and what edits make of them. It reads and writes nothing.

use super::objects::{hex, unhex};
use agency_protocols::model::RelPath;
use std::collections::BTreeMap;

/// The mode of a folder, as it stands in a tree.
const FOLDER: &str = "40000";

/// Mode and object of a file.
pub(super) type File = (String, String);
/// What paths are to hold; `None`: nothing.
pub(super) type Edits = BTreeMap<RelPath, Option<File>>;

/// What stands behind a name: mode and object, of a file or a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TreeEntry {
    mode: String,
    /// In hex.
    id: String,
}

impl TreeEntry {
    fn is_folder(&self) -> bool {
        self.mode == FOLDER
    }
}

/// The names of one folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree(BTreeMap<Vec<u8>, TreeEntry>);

impl Tree {
    /// `None`: this is no tree. `id_len`: of an id in bytes.
    pub(super) fn parse(mut bytes: &[u8], id_len: usize) -> Option<Self> {
        let mut entries = BTreeMap::new();
        while !bytes.is_empty() {
            let space = bytes.iter().position(|&byte| byte == b' ')?;
            let end = space + bytes[space..].iter().position(|&byte| byte == 0)?;
            let id = hex(bytes.get(end + 1..end + 1 + id_len)?);
            let mode = std::str::from_utf8(&bytes[..space]).ok()?.to_owned();
            entries.insert(bytes[space + 1..end].to_vec(), TreeEntry { mode, id });
            bytes = &bytes[end + 1 + id_len..];
        }
        Some(Self(entries))
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut entries: Vec<_> = self.0.iter().collect();
        // Git sorts a folder as if its name ended with a slash.
        let sorts_as = |(name, entry): &(&Vec<u8>, &TreeEntry)| {
            [name.as_slice(), if entry.is_folder() { b"/" } else { b"" }].concat()
        };
        entries.sort_by_cached_key(sorts_as);
        let mut bytes = Vec::new();
        for (name, TreeEntry { mode, id }) in entries {
            bytes.extend(mode.bytes());
            bytes.push(b' ');
            bytes.extend(name);
            bytes.push(0);
            bytes.extend(unhex(id));
        }
        bytes
    }

    /// The id of the folder of this name.
    fn folder(&self, name: &str) -> Option<&str> {
        let entry = self.0.get(name.as_bytes()).filter(|entry| entry.is_folder())?;
        Some(&entry.id)
    }

    fn file(&self, name: &str) -> Option<File> {
        let entry = self.0.get(name.as_bytes()).filter(|entry| !entry.is_folder())?;
        Some((entry.mode.clone(), entry.id.clone()))
    }

    fn put(&mut self, name: &str, mode: &str, id: &str) {
        let entry = TreeEntry { mode: mode.to_owned(), id: id.to_owned() };
        self.0.insert(name.as_bytes().to_vec(), entry);
    }
}

/// Whether what a folder held before counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Stays,
    /// A file took the folder's place.
    Gone,
}

/// The edits below one folder.
#[derive(Debug, Default)]
pub(super) struct Folder<'a> {
    files: BTreeMap<&'a str, Option<&'a File>>,
    folders: BTreeMap<&'a str, Folder<'a>>,
    before: Tree,
}

impl<'a> Folder<'a> {
    /// The top folder of a tree.
    pub(super) fn new(edits: &'a Edits) -> Self {
        let mut top = Self::default();
        for (path, file) in edits {
            let (folders, name) = path.as_str().rsplit_once('/').unwrap_or(("", path.as_str()));
            let mut folder = &mut top;
            for part in folders.split('/').filter(|part| !part.is_empty()) {
                folder = folder.folders.entry(part).or_default();
            }
            folder.files.insert(name, file.as_ref());
        }
        top
    }

    /// Takes in what the folder holds before the edits. Says which folders below must be known next.
    pub(super) fn meet(&mut self, before: Tree) -> Vec<(String, &mut Self)> {
        let folders = self.folders.iter_mut();
        let known = |(name, folder)| Some((before.folder(name)?.to_owned(), folder));
        let next = folders.filter_map(|(name, folder)| known((*name, folder))).collect();
        self.before = before;
        next
    }

    /// The file that a path held before the edits.
    pub(super) fn held(&self, path: &str) -> Option<File> {
        match path.split_once('/') {
            Some((folder, rest)) => self.folders.get(folder)?.held(rest),
            None => self.before.file(path),
        }
    }

    /// The folder after the edits; `write` stores a tree and says its id. `None`: nothing is left.
    pub(super) fn tree_edit<E>(
        &self,
        write: &mut impl FnMut(&[u8]) -> Result<String, E>,
    ) -> Result<Option<String>, E> {
        self.grow_on(Before::Stays, write)
    }

    fn grow_on<E>(
        &self,
        before: Before,
        write: &mut impl FnMut(&[u8]) -> Result<String, E>,
    ) -> Result<Option<String>, E> {
        let mut tree = if before == Before::Stays { self.before.clone() } else { Tree::default() };
        for (name, file) in &self.files {
            match file {
                Some((mode, id)) => tree.put(name, mode, id),
                // The folder of that name is not the file.
                None if tree.folder(name).is_some() => {}
                None => drop(tree.0.remove(name.as_bytes())),
            }
        }
        for (name, folder) in &self.folders {
            let filed = self.files.get(name).is_some_and(Option::is_some);
            let below = if filed { Before::Gone } else { before };
            match folder.grow_on(below, write)? {
                Some(id) => tree.put(name, FOLDER, &id),
                None if tree.folder(name).is_some() => drop(tree.0.remove(name.as_bytes())),
                None => {}
            }
        }
        if tree.0.is_empty() { Ok(None) } else { write(&tree.to_bytes()).map(Some) }
    }
}

//! The trees that git remembers for the folders of an index. A folder below which something changed has none.

use crate::objects::{hex, unhex};

/// No folder lies deeper: a path has at most 4096 bytes.
const DEPTH_MAX: usize = 2048;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Folders {
    name: Vec<u8>,
    /// How many entries it covers, and the tree's id in hex.
    tree: Option<(u32, String)>,
    below: Vec<Folders>,
}

impl Folders {
    /// `None`: this is nothing that git would write.
    pub(super) fn parse(mut text: &[u8], id_len: usize) -> Option<Self> {
        let top = Self::take(&mut text, id_len, 0)?;
        text.is_empty().then_some(top)
    }

    /// `name NUL entries SP folders LF`, the id unless the entries are -1, then the folders below.
    fn take(text: &mut &[u8], id_len: usize, depth: usize) -> Option<Self> {
        let name = until(text, 0)?.to_vec();
        let entries = std::str::from_utf8(until(text, b' ')?).ok()?;
        let count: usize = std::str::from_utf8(until(text, b'\n')?).ok()?.parse().ok()?;
        let tree = match entries {
            "-1" => None,
            entries => {
                let (id, rest) = text.split_at_checked(id_len)?;
                *text = rest;
                Some((entries.parse().ok()?, hex(id)))
            }
        };
        if depth == DEPTH_MAX {
            return None;
        }
        let mut below = Vec::new();
        for _ in 0..count {
            below.push(Self::take(text, id_len, depth + 1)?);
        }
        Some(Self { name, tree, below })
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.put(&mut bytes);
        bytes
    }

    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend(&self.name);
        bytes.push(0);
        let entries = self.tree.as_ref().map_or("-1".to_owned(), |(count, _)| count.to_string());
        bytes.extend(format!("{entries} {}\n", self.below.len()).bytes());
        bytes.extend(self.tree.iter().flat_map(|(_, id)| unhex(id)));
        self.below.iter().for_each(|folder| folder.put(bytes));
    }

    /// The file at this path has changed, come or gone.
    pub(super) fn forget(&mut self, path: &str) {
        self.tree = None;
        let Some((name, rest)) = path.split_once('/') else {
            // A file in the place of a folder leaves nothing of it.
            self.below.retain(|folder| folder.name != path.as_bytes());
            return;
        };
        if let Some(folder) = self.below.iter_mut().find(|below| below.name == name.as_bytes()) {
            folder.forget(rest);
        }
    }
}

fn until<'a>(text: &mut &'a [u8], end: u8) -> Option<&'a [u8]> {
    let at = text.iter().position(|&byte| byte == end)?;
    let (taken, rest) = text.split_at(at);
    *text = &rest[1..];
    Some(taken)
}

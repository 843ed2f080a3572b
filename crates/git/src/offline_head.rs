//! Where a checkout stands, read from git's own files alone: for commands that must not cost a process. It trusts nothing
//! that it finds to run or to be written to, and says nothing where the files do not say it plainly.

use super::names;
use super::objects::hex;
use super::refs::{packed, read_text};
use agency_protocols::model::CommitId;
use std::path::{Path, PathBuf};

const LINE_MAX: u64 = 4096;
const PACKED_MAX: u64 = 64 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peeked {
    /// The top of the work tree.
    pub root: PathBuf,
    /// `None` while HEAD is detached.
    pub branch: Option<String>,
    /// `None` before the first commit.
    pub head: Option<CommitId>,
    common: PathBuf,
}

impl Peeked {
    /// Is there an object whose id begins like this? `None`: only git itself could tell.
    pub fn has_object(&self, id: &str) -> Option<bool> {
        let plain = (4..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !plain {
            return Some(false);
        }
        let (id, objects) = (id.to_ascii_lowercase(), self.common.join("objects"));
        if objects.join("info/alternates").exists() {
            return None;
        }
        let loose = names_in(&objects.join(&id[..2])).any(|name| name.starts_with(&id[2..]));
        Some(
            loose || {
                let packs = objects.join("pack");
                names_in(&packs)
                    .filter(|name| name.ends_with(".idx"))
                    .any(|name| index_has(&packs.join(name), &id))
            },
        )
    }
}

fn names_in(dir: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// A pack's index, version 2: eight bytes, how many ids begin with up to each byte, then the ids in order.
fn index_has(file: &Path, id: &str) -> bool {
    const HEAD: usize = 8 + 256 * 4;
    let small =
        std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.len() <= PACKED_MAX);
    let Some(bytes) = small.then(|| std::fs::read(file).ok()).flatten() else { return false };
    let count = |at: usize| {
        let four = bytes.get(8 + at * 4..12 + at * 4)?;
        usize::try_from(u32::from_be_bytes(four.try_into().ok()?)).ok()
    };
    let Ok(first) = usize::from_str_radix(&id[..2], 16) else { return false };
    let (Some(all), Some(to)) = (count(255), count(first)) else { return false };
    let from = if first == 0 { 0 } else { count(first - 1).unwrap_or(to) };
    // Twenty bytes each, or thirty-two where the repository uses SHA-256.
    let width = if bytes.len() >= HEAD + all * (32 + 4 + 4) + 2 * 32 { 32 } else { 20 };
    let ids = bytes.get(HEAD + from * width..HEAD + to * width).unwrap_or_default();
    ids.chunks_exact(width).any(|found| hex(found).starts_with(id))
}

/// The work tree around a folder; `None`: there is none, or only git itself could tell.
pub fn peek(dir: &Path) -> Option<Peeked> {
    let start = dir.canonicalize().ok()?;
    let root = start.ancestors().find(|dir| dir.join(".git").exists())?.to_owned();
    let git_dir = git_dir(&root)?;
    let head = line(&git_dir.join("HEAD"))?;
    let Some(name) = head.strip_prefix("ref: ") else {
        let head = names::is_object(&head).then(|| CommitId::new(&head))?;
        let common = common_dir(&git_dir);
        return Some(Peeked { root, branch: None, head: Some(head), common });
    };
    let branch = name.strip_prefix("refs/heads/").filter(|branch| names::is_ref_tail(branch))?;
    let common = common_dir(&git_dir);
    if common.join("reftable").exists() {
        return None;
    }
    let head = find(&common, name);
    Some(Peeked { root, branch: Some(branch.to_owned()), head, common })
}

/// What all work trees share.
fn common_dir(git_dir: &Path) -> PathBuf {
    line(&git_dir.join("commondir")).map_or(git_dir.to_owned(), |dir| git_dir.join(dir))
}

/// A worktree's `.git` is a file that names the folder.
fn git_dir(root: &Path) -> Option<PathBuf> {
    let dot_git = root.join(".git");
    if dot_git.is_dir() {
        return Some(dot_git);
    }
    Some(root.join(line(&dot_git)?.strip_prefix("gitdir: ")?))
}

fn find(common: &Path, name: &str) -> Option<CommitId> {
    if let Some(id) = line(&common.join(name)) {
        return names::is_object(&id).then(|| CommitId::new(id));
    }
    let text = read_text(&common.join("packed-refs"), PACKED_MAX).ok()??;
    packed(&text).find(|(_, packed)| *packed == name).map(|(id, _)| CommitId::new(id))
}

fn line(file: &Path) -> Option<String> {
    read_text(file, LINE_MAX).ok()?.map(|text| text.trim_end().to_owned())
}

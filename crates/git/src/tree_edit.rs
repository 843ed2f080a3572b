//! A tree that differs from another in some files, and the tree of a commit: from git's objects, mostly without a process.

use super::objects::{Kind, Objects};
use super::tree::{Edits, File, Folder, Tree};
use super::{Call, GitError, Repo, names};
use agency_protocols::model::{Change, CommitId, RelPath, TreeId};

/// All the trees of one look together.
const TREES_MAX: u64 = 256 * 1024 * 1024;

/// A tree that was made, and for each edit the file that stood there before.
pub(super) struct Grown {
    pub(super) tree: TreeId,
    pub(super) held: Vec<Option<File>>,
}

impl Repo {
    pub(super) fn store(&self) -> Objects {
        Objects::new(self.0.common_dir.join("objects"), self.0.format)
    }

    /// Stores an object of ours. Nothing refers to it yet.
    pub(super) fn write_object(&self, kind: Kind, bytes: &[u8]) -> Result<String, GitError> {
        let failed = |source| GitError::io("write to", &self.0.common_dir.join("objects"), source);
        self.store().write(kind, bytes).map_err(failed)
    }

    /// `base` with the edits made. Objects that they name must be there.
    pub(super) async fn tree_edit(
        &self,
        base: Option<&TreeId>,
        edits: &Edits,
    ) -> Result<Grown, GitError> {
        // What an agent planted holds git as a whole, also where no process of it is started.
        self.guarded()?.check()?;
        let mut top = Folder::new(edits);
        let mut next: Vec<_> = base.map(|base| (base.to_string(), &mut top)).into_iter().collect();
        while !next.is_empty() {
            let (ids, folders): (Vec<_>, Vec<_>) = next.into_iter().unzip();
            let trees = self.trees(&ids).await?;
            next = folders.into_iter().zip(trees).flat_map(|(at, tree)| at.meet(tree)).collect();
        }
        let held = edits.keys().map(|path| top.held(path.as_str())).collect();
        let id = top.tree_edit(&mut |bytes| self.write_object(Kind::Tree, bytes))?;
        let id = match id {
            Some(id) => id,
            None => self.write_object(Kind::Tree, b"")?,
        };
        Ok(Grown { tree: TreeId::new(id), held })
    }

    async fn trees(&self, ids: &[String]) -> Result<Vec<Tree>, GitError> {
        let store = self.store();
        let mut found: Vec<_> = ids.iter().map(|id| store.read(Kind::Tree, id)).collect();
        let packed = ids.iter().zip(&found).filter(|(_, bytes)| bytes.is_none());
        let packed: Vec<String> = packed.map(|(id, _)| id.clone()).collect();
        if !packed.is_empty() {
            let missing = found.iter_mut().filter(|bytes| bytes.is_none());
            let asked = self.objects(&packed, TREES_MAX).await?;
            missing.zip(asked).for_each(|(missing, bytes)| *missing = Some(bytes));
        }
        let id_len = self.0.format.id_len();
        let parse = |bytes: Vec<u8>| {
            Tree::parse(&bytes, id_len).ok_or_else(|| GitError::odd_output("cat-file", &bytes))
        };
        found.into_iter().map(|bytes| parse(bytes.unwrap_or_default())).collect()
    }

    pub(super) async fn tree_of(&self, commit: &CommitId) -> Result<TreeId, GitError> {
        let id = names::object(commit.as_str())?;
        let bytes = self.store().read(Kind::Commit, id);
        let tree = bytes.as_deref().and_then(|bytes| {
            let line = bytes.strip_prefix(b"tree ")?.split(|&byte| byte == b'\n').next()?;
            std::str::from_utf8(line).ok().filter(|line| names::is_object(line))
        });
        if let Some(tree) = tree {
            return Ok(TreeId::new(tree));
        }
        let call = Call::local("rev-parse").args(["--verify", "--end-of-options"]);
        let output = self.git(call.arg(format!("{id}^{{tree}}"))).await?;
        names::object(output.line("rev-parse")?).map(TreeId::new)
    }
}

/// What a path is to hold, checked.
pub(super) fn edit(change: &Change) -> Result<(RelPath, Option<File>), GitError> {
    let file = |(mode, object): &(String, String)| {
        Ok((names::file_mode(mode)?.to_owned(), names::object(object)?.to_owned()))
    };
    let path = names::tree_path(&change.path)?.clone();
    Ok((path, change.to.as_ref().map(file).transpose()?))
}

//! Brings one branch into another: planned in memory, then published. A checked-out target only moves together with its
//! files, and never over somebody's unfinished work.

use super::commit::commit_object;
use super::error::clipped;
use super::objects::Kind;
use super::{Call, GitError, Repo, make_dir, names};
use agency_protocols::model::{CommitId, MergeStyle, PlannedCommit, RelPath, Timestamp, TreeId};
use std::path::Path;

/// What a merge would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merging {
    Planned(PlannedCommit),
    Conflict(Vec<RelPath>),
    /// The target has commits that the other branch lacks.
    NoFastForward,
}

/// What became of a planned merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    Done,
    /// The target contained it before.
    Already,
    Moved {
        found: Option<CommitId>,
    },
    /// Files in the target's checkout are in the way; nothing was changed.
    Busy {
        said: String,
    },
}

/// Everything about a merge that is to be planned.
#[derive(Clone, Debug)]
pub struct MergeWish<'a> {
    pub target: &'a str,
    pub onto: &'a CommitId,
    pub theirs: &'a CommitId,
    pub style: MergeStyle,
    pub message: &'a str,
    pub date: Timestamp,
    /// A folder at the top that stays as the target has it.
    pub keep: Option<&'a RelPath>,
}

impl Repo {
    /// The same wish gives the same id.
    pub async fn plan_merge(&self, wish: &MergeWish<'_>) -> Result<Merging, GitError> {
        let onto = names::object(wish.onto.as_str())?;
        let theirs = names::object(wish.theirs.as_str())?;
        if wish.style == MergeStyle::FastForward {
            let tree = self.tree_of(wish.theirs).await?;
            let same = self.keeping(wish, tree.clone()).await? == tree;
            if !same || !self.is_ancestor(onto, theirs).await? {
                return Ok(Merging::NoFastForward);
            }
            return self.planned(wish, tree, wish.theirs.clone(), None).await;
        }
        let (tree, mut conflicts) = self.merge_trees(onto, theirs).await?;
        if let Some(folder) = wish.keep {
            conflicts.retain(|path| !is_below(path, folder));
        }
        if !conflicts.is_empty() {
            return Ok(Merging::Conflict(conflicts));
        }
        let tree = self.keeping(wish, tree).await?;
        let merged = (wish.style == MergeStyle::Merge).then(|| wish.theirs.clone());
        let draft = self.draft(wish, tree.clone(), merged.clone());
        let id = self.write_object(Kind::Commit, commit_object(&draft).as_bytes())?;
        let id = CommitId::new(id);
        self.keep(&names::planned_ref(wish.target)?, &TreeId::new(id.as_str())).await?;
        self.planned(wish, tree, id, merged).await
    }

    fn draft(&self, wish: &MergeWish<'_>, tree: TreeId, merged: Option<CommitId>) -> PlannedCommit {
        PlannedCommit {
            id: CommitId::new(self.0.format.zeros()),
            tree,
            branch: wish.target.to_owned(),
            parent: Some(wish.onto.clone()),
            merged,
            author: None,
            message: wish.message.to_owned(),
            date: wish.date,
            changes: Vec::new(),
        }
    }

    async fn planned(
        &self,
        wish: &MergeWish<'_>,
        tree: TreeId,
        id: CommitId,
        merged: Option<CommitId>,
    ) -> Result<Merging, GitError> {
        let changes = self.diff(&self.tree_of(wish.onto).await?, &tree).await?;
        let draft = self.draft(wish, tree, merged);
        Ok(Merging::Planned(PlannedCommit { id, changes, ..draft }))
    }

    /// The same tree, with the one folder as the target has it.
    async fn keeping(&self, wish: &MergeWish<'_>, tree: TreeId) -> Result<TreeId, GitError> {
        let Some(folder) = wish.keep else { return Ok(tree) };
        let wanted = self.entries(wish.onto.as_str()).await?;
        let mut entries = self.entries(tree.as_str()).await?;
        let name = folder.as_str().as_bytes();
        let is_it = |entry: &Vec<u8>| {
            let tab = entry.iter().position(|&byte| byte == b'\t');
            tab.is_some_and(|tab| entry[tab + 1..] == *name)
        };
        let (now, wanted) = (entries.iter().position(is_it), wanted.into_iter().find(is_it));
        if now.map(|at| &entries[at]) == wanted.as_ref() {
            return Ok(tree);
        }
        now.into_iter().for_each(|at| drop(entries.remove(at)));
        entries.extend(wanted);
        let mut lines = Vec::new();
        for entry in entries {
            lines.extend(entry);
            lines.push(0);
        }
        let output = self.git(Call::local("mktree").arg("-z").stdin(lines)).await?;
        names::object(output.line("mktree")?).map(TreeId::new)
    }

    /// What lies at the top of a tree, as git lists it.
    async fn entries(&self, tree: &str) -> Result<Vec<Vec<u8>>, GitError> {
        let call = Call::local("ls-tree").args(["-z", "--full-tree", names::object(tree)?]);
        let output = self.git(call).await?;
        let entries = output.stdout.split(|&byte| byte == 0).filter(|entry| !entry.is_empty());
        Ok(entries.map(<[u8]>::to_vec).collect())
    }

    /// The merged tree, and the files in conflict.
    async fn merge_trees(
        &self,
        onto: &str,
        theirs: &str,
    ) -> Result<(TreeId, Vec<RelPath>), GitError> {
        let call = Call::local("merge-tree")
            .args(["--write-tree", "-z", "--name-only", "--no-messages", onto, theirs])
            .fine(&[0, 1]);
        let output = self.git(call).await?;
        let mut fields = output.stdout.split(|&byte| byte == 0).filter(|field| !field.is_empty());
        let odd = || GitError::odd_output("merge-tree", &output.stdout);
        let tree = fields.next().and_then(|tree| std::str::from_utf8(tree).ok());
        let tree = TreeId::new(names::object(tree.ok_or_else(odd)?.trim_end())?);
        if output.code == 0 {
            return Ok((tree, Vec::new()));
        }
        let mut paths: Vec<RelPath> = fields.map(names::rel_path).collect::<Result<_, _>>()?;
        paths.dedup();
        // A conflict without a file is one all the same.
        if paths.is_empty() { Err(odd()) } else { Ok((tree, paths)) }
    }

    /// Doing it again changes nothing more, and finishes what a crash cut short.
    pub async fn merge(&self, planned: &PlannedCommit) -> Result<Merged, GitError> {
        let found = self.tip(&planned.branch).await?;
        let here = self.checkout().await?.branch.as_deref() == Some(planned.branch.as_str());
        if found != planned.parent {
            if !self.contains(&planned.branch, &planned.id).await? {
                return Ok(Merged::Moved { found });
            }
            if here && found.as_ref() == Some(&planned.id) {
                self.catch_up(planned).await?;
            }
            return Ok(Merged::Already);
        }
        if let Some(elsewhere) = self.checked_out_elsewhere(&planned.branch) {
            let said = format!("`{}` is checked out in `{}`", planned.branch, elsewhere.display());
            return Ok(Merged::Busy { said });
        }
        if here && let Some(said) = self.in_the_way(planned).await? {
            return Ok(Merged::Busy { said });
        }
        if let Err(error) = self.move_branch(planned).await {
            let found = self.tip(&planned.branch).await?;
            return if found == planned.parent { Err(error) } else { Ok(Merged::Moved { found }) };
        }
        if here {
            self.bring_files(planned).await?;
        }
        Ok(Merged::Done)
    }

    /// What would be lost or is locked, in git's own words.
    async fn in_the_way(&self, planned: &PlannedCommit) -> Result<Option<String>, GitError> {
        if self.index_lock().symlink_metadata().is_ok() {
            return Ok(Some("`index.lock` lies in the git directory".to_owned()));
        }
        if let Some(path) = self.ignored_in_the_way(planned).await? {
            let said = format!(
                "`{path}` in your work tree is ignored by git and would be replaced by the file of that name on `{}`; move it away",
                planned.branch
            );
            return Ok(Some(said));
        }
        // On a copy: this is asked again and again while the owner works, and each would lock their index.
        make_dir(self.0.git_dir.join("agency"))?;
        let index = self.private_file("merge.index");
        if self.0.git_dir.join("index").exists() {
            self.copy_index(&index).await?;
        }
        self.git(refresh().env("GIT_INDEX_FILE", &index)).await?;
        let call = self.read_trees(planned)?.arg("-n").env("GIT_INDEX_FILE", &index);
        let call = call.fine(&[0, 1, 128]);
        let output = self.git(call).await?;
        Ok((output.code != 0).then(|| obstacle(&output.stderr)))
    }

    /// git overwrites an ignored file without asking, and no copy of it exists anywhere else.
    async fn ignored_in_the_way(
        &self,
        planned: &PlannedCommit,
    ) -> Result<Option<RelPath>, GitError> {
        let new = planned.changes.iter().filter(|change| change.new && change.to.is_some());
        let there: Vec<RelPath> =
            new.filter_map(|change| occupied(&self.0.root, &change.path)).collect();
        Ok(self.ignored(&there).await?.into_iter().next())
    }

    /// Files and index from the old side to the new one; what the owner changed apart from it stays.
    async fn bring_files(&self, planned: &PlannedCommit) -> Result<(), GitError> {
        // Somebody who locks it at this very moment is heard of by what follows.
        self.git(refresh().fine(&[0, 1, 128])).await?;
        let call = self.read_trees(planned)?.fine(&[0, 1, 128]);
        let output = self.git(call).await?;
        if output.code != 0 {
            // Somebody wrote into one of the files since we looked. Theirs stays; `git status` shows the difference.
            let said = clipped(&output.stderr);
            tracing::warn!(root = %self.0.root.display(), said, "the checkout could not follow its branch");
        }
        Ok(())
    }

    /// After a crash between ref and files: the index still has the old side.
    async fn catch_up(&self, planned: &PlannedCommit) -> Result<(), GitError> {
        if self.missed_in_index(planned).await?.is_empty() {
            return Ok(());
        }
        self.bring_files(planned).await
    }

    fn read_trees(&self, planned: &PlannedCommit) -> Result<Call, GitError> {
        let old = planned.parent.as_ref().map_or(self.0.format.empty_tree(), CommitId::as_str);
        let (old, new) = (names::object(old)?, names::object(planned.id.as_str())?);
        Ok(Call::local("read-tree").args(["-m", "-u", old, new]))
    }
}

/// Why `read-tree` would not go on, in words about the owner's files.
fn obstacle(stderr: &[u8]) -> String {
    let said = clipped(stderr);
    let quoted = |line: &str| line.split('\'').nth(1).map(str::to_owned);
    let named = |sign: &str| -> Vec<String> {
        said.lines().filter(|line| line.contains(sign)).filter_map(quoted).collect()
    };
    let changed = named("not uptodate");
    let in_the_way = named("would be overwritten");
    match (changed.is_empty(), in_the_way.is_empty()) {
        (false, _) if changed.len() == 1 => format!("{} has uncommitted changes", changed[0]),
        (false, _) => format!("{} have uncommitted changes", changed.join(", ")),
        (true, false) => format!("{} would be overwritten", in_the_way.join(", ")),
        (true, true) => said,
    }
}

/// Entries whose files only look changed must not count as changed.
fn refresh() -> Call {
    Call::local("update-index").args(["-q", "--refresh"]).fine(&[0, 1])
}

/// What is on disk where a new file would be written: the path itself, or a file in place of one of its folders.
fn occupied(root: &Path, path: &RelPath) -> Option<RelPath> {
    let ends = path.as_str().match_indices('/').map(|(at, _)| at).chain([path.as_str().len()]);
    for end in ends {
        let prefix = &path.as_str()[..end];
        let found = root.join(prefix).symlink_metadata().ok()?;
        if !found.is_dir() || end == path.as_str().len() {
            return RelPath::new(prefix).ok();
        }
    }
    None
}

fn is_below(path: &RelPath, folder: &RelPath) -> bool {
    let rest = path.as_str().strip_prefix(folder.as_str());
    rest.is_some_and(|rest| rest.starts_with('/'))
}

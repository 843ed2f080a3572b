//! How a change of the state files comes into the world (CD-08, CD-23): judged on what is true now, one commit, pushed, and
//! judged anew if somebody was faster. A lost race leaves nothing behind.

use super::super::context::Context;
use super::super::exit::Refused;
use super::ground::Ground;
use super::who::author;
use crate::clock;
use crate::git::{Author, Fetched, MergeWish, Merged, Merging, Pushed, Repo};
use crate::model::{CommitId, MergeStyle, PlannedCommit, RelPath};
use crate::protocol::codifica::{Actor, Board, Stamp};
use crate::store::{self, FolderLock};
use std::path::PathBuf;
use std::time::Duration;

/// How long a command waits for others on this machine.
const WAIT: Duration = Duration::from_secs(120);
/// Each lost race means that somebody else's change arrived.
const TRIES: usize = 200;

/// What a verb wants to change, found on one version of the board.
pub(super) struct Wish {
    /// What is told afterwards.
    pub(super) said: String,
    pub(super) message: String,
    pub(super) files: Vec<(RelPath, Vec<u8>)>,
}

/// The one who changes something.
pub(super) struct Hand<'a> {
    pub(super) context: &'a Context,
    pub(super) actor: Actor,
    pub(super) session: Option<String>,
}

/// Makes the wish come true, or says why not. `wish` may be asked several times, each time on a newer board.
pub(super) fn bring(
    ground: &Ground,
    hand: &Hand<'_>,
    wish: impl Fn(&Board, &Stamp) -> anyhow::Result<Wish>,
) -> anyhow::Result<String> {
    let Some(repo) = &ground.git else { return plainly(ground, hand, &wish) };
    let lock = FolderLock::acquire(&repo.work_dir()?, WAIT)?;
    let Some(_lock) = lock else {
        return Err(Refused("somebody else changes the state files; try again".to_owned()).into());
    };
    ground.runtime.block_on(async {
        let checkout = repo.checkout().await?;
        let Some(branch) = checkout.branch else {
            return Err(Refused(
                "HEAD is on no branch; switch to the one that holds the state files".to_owned(),
            )
            .into());
        };
        let by = author(&hand.actor, repo.owner().await?, &hand.context.asker());
        let shared = Shared { ground, repo, branch: &branch, by, hand };
        shared.mend().await?;
        let brought = shared.bring(&wish).await;
        repo.forget_publishing(&branch).await?;
        brought
    })
}

/// Without git: the folder's lock arbitrates.
fn plainly(
    ground: &Ground,
    hand: &Hand<'_>,
    wish: &impl Fn(&Board, &Stamp) -> anyhow::Result<Wish>,
) -> anyhow::Result<String> {
    let Some(_lock) = FolderLock::acquire(&ground.root, WAIT)? else {
        return Err(Refused("somebody else changes the state files; try again".to_owned()).into());
    };
    let stamp = Stamp { at: clock::now().wall, session: hand.session.clone(), commit: None };
    let wish = wish(&ground.board()?, &stamp)?;
    for (path, bytes) in &wish.files {
        store::write_atomic(&ground.root.join(path.as_str()), bytes)?;
    }
    Ok(wish.said)
}

struct Shared<'a> {
    ground: &'a Ground,
    repo: &'a Repo,
    branch: &'a str,
    by: Author,
    hand: &'a Hand<'a>,
}

impl Shared<'_> {
    async fn bring(
        &self,
        wish: &impl Fn(&Board, &Stamp) -> anyhow::Result<Wish>,
    ) -> anyhow::Result<String> {
        for _ in 0..TRIES {
            let local = self.repo.ref_tip(&format!("refs/heads/{}", self.branch)).await?;
            let base = match self.repo.fetch(self.branch).await? {
                Fetched::NoRemote => return self.locally(local, wish).await,
                Fetched::At(tip) => Some(tip),
                Fetched::Absent => local,
                Fetched::Failed { said } => {
                    return Err(Refused(format!(
                        "the remote cannot be reached, and nothing was changed: {said}"
                    ))
                    .into());
                }
            };
            let (planned, said) = self.plan(base.clone(), wish).await?;
            match self.repo.push(self.branch, &planned.id).await? {
                Pushed::Done => return Ok(format!("{said}{}", self.follow(&planned).await?)),
                Pushed::NoRemote => return self.locally(base, wish).await,
                Pushed::NotFastForward { .. } => {}
                Pushed::Failed { said } => {
                    // A remote that somebody else writes to at this moment fails in many words.
                    let moved = self.repo.fetch(self.branch).await?
                        != base.map_or(Fetched::Absent, Fetched::At);
                    if !moved {
                        return Err(Refused(format!(
                            "the push was refused, and nothing was changed: {said}"
                        ))
                        .into());
                    }
                }
            }
        }
        Err(Refused(format!("lost the race for the remote {TRIES} times; nothing was changed"))
            .into())
    }

    async fn plan(
        &self,
        base: Option<CommitId>,
        wish: &impl Fn(&Board, &Stamp) -> anyhow::Result<Wish>,
    ) -> anyhow::Result<(PlannedCommit, String)> {
        let Some(base) = base else {
            return Err(Refused(
                "this branch has no commit yet; commit the state files first".to_owned(),
            )
            .into());
        };
        let board = self.ground.board_at(self.repo, &base).await?;
        let at = clock::now().wall;
        let stamp =
            Stamp { at, session: self.hand.session.clone(), commit: Some(base.to_string()) };
        let Wish { said, message, files } = wish(&board, &stamp)?;
        let planned = self
            .repo
            .plan_by(Some(&self.by), self.branch, Some(&base), &[], &files, &message, at)
            .await?;
        Ok((planned, said))
    }

    /// No remote: the lock that we hold arbitrates, and the branch moves with its files.
    async fn locally(
        &self,
        local: Option<CommitId>,
        wish: &impl Fn(&Board, &Stamp) -> anyhow::Result<Wish>,
    ) -> anyhow::Result<String> {
        let (planned, said) = self.plan(local, wish).await?;
        match self.merge(&planned).await? {
            Merged::Done | Merged::Already => Ok(said),
            Merged::Moved { .. } => Err(Refused(
                "the branch moved meanwhile; nothing was changed, try again".to_owned(),
            )
            .into()),
            Merged::Busy { said } => Err(Refused(format!(
                "nothing was changed: {said}. Commit or stash your changes, then try again (CD-23)"
            ))
            .into()),
        }
    }

    /// Branch, index and files move one after the other. What a kill in between leaves is found by this note.
    async fn merge(&self, planned: &PlannedCommit) -> anyhow::Result<Merged> {
        let note = self.note()?;
        store::write_atomic(&note, &serde_json::to_vec(planned)?)?;
        let merged = self.repo.merge(planned).await?;
        std::fs::remove_file(&note)?;
        Ok(merged)
    }

    fn note(&self) -> anyhow::Result<PathBuf> {
        Ok(self.repo.work_dir()?.join("work-in-flight.json"))
    }

    /// A command that was killed after the branch had moved: index and files follow now. A branch that had not moved stays.
    async fn mend(&self) -> anyhow::Result<()> {
        let note = self.note()?;
        let Ok(bytes) = std::fs::read(&note) else { return Ok(()) };
        if let Ok(planned) = serde_json::from_slice::<PlannedCommit>(&bytes) {
            let tip = self.repo.ref_tip(&format!("refs/heads/{}", planned.branch)).await?;
            if tip.as_ref() == Some(&planned.id) {
                self.repo.merge(&planned).await?;
            }
        }
        std::fs::remove_file(&note)?;
        Ok(())
    }

    /// The remote has it. The checkout follows where that is safe; otherwise it is left as it is, and we say so.
    async fn follow(&self, planned: &PlannedCommit) -> anyhow::Result<String> {
        let Some(local) = self.repo.ref_tip(&format!("refs/heads/{}", self.branch)).await? else {
            return Ok(String::new());
        };
        let wish = MergeWish {
            target: self.branch,
            onto: &local,
            theirs: &planned.id,
            style: MergeStyle::FastForward,
            message: &planned.message,
            date: planned.date,
            keep: None,
        };
        let left = match self.repo.plan_merge(&wish).await? {
            Merging::Planned(step) => match self.merge(&step).await? {
                Merged::Done | Merged::Already => return Ok(String::new()),
                Merged::Moved { .. } => "it moved meanwhile".to_owned(),
                Merged::Busy { said } => said,
            },
            Merging::Conflict(_) | Merging::NoFastForward => {
                return Ok(format!(
                    "\nyour {} was not moved: it has commits that the remote lacks. Then: git pull --rebase",
                    self.branch
                ));
            }
        };
        Ok(format!(
            "\nyour {} was not moved: {left}. Commit them, then: git pull --rebase",
            self.branch
        ))
    }
}

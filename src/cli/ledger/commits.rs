//! The commits of a session that is recorded by hand, as git shows them. It records nothing.

use crate::cli::audit::Vault;
use crate::cli::context::runtime;
use crate::git::{Peeked, Repo};
use crate::model::{CommitId, clip};
use crate::protocol::ledger::progress::short;
use std::collections::BTreeSet;

/// Hash and subject of what lies between the two commits, the oldest first. `to`: HEAD where nothing is given.
pub(super) fn between(
    git: &Peeked,
    from: &str,
    to: Option<&str>,
) -> anyhow::Result<Vec<(String, String)>> {
    let Some(head) = &git.head else { return Ok(Vec::new()) };
    runtime()?.block_on(async {
        let Some(repo) = Repo::open(&git.root).await? else { return Ok(Vec::new()) };
        let vault = Vault::new();
        repo.guard(vault.0.clone(), None)?;
        let after = since(&repo, from).await?;
        let later = match to {
            Some(to) => since(&repo, to).await?,
            None => BTreeSet::new(),
        };
        let commits = repo.range(None, head).await?.into_iter();
        let wanted = commits.filter(|seen| after.contains(&seen.id) && !later.contains(&seen.id));
        Ok(wanted
            .map(|seen| (short(seen.id.as_str()).to_owned(), clip(&seen.subject, 200)))
            .collect())
    })
}

async fn since(repo: &Repo, commit: &str) -> anyhow::Result<BTreeSet<CommitId>> {
    let after = repo.since(commit).await?;
    after
        .ok_or_else(|| anyhow::anyhow!("`{}` is not a commit of this repository", clip(commit, 60)))
}

//! `agency audit`: what in a repository's history the rules forbid. It starts nothing and writes nothing.

use super::context::{Context, runtime};
use super::exit::{Exit, Misused};
use super::show;
use crate::git::Repo;
use crate::model::{CommitId, Timestamp, counted};
use crate::protocol::review_loop::{Limits, audit};
use std::collections::BTreeSet;
use std::path::PathBuf;

#[derive(clap::Subcommand)]
pub(super) enum Verb {
    /// The history of a review loop, whoever ran it
    Loop(LoopArgs),
    /// Every violation that was ever committed to Codifica's state files
    Codifica(super::work::AuditArgs),
}

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency audit loop\n  agency audit loop --since 2026-01-31 ~/src/shop\n  agency audit loop --since 1a2b3c4 --json"
)]
pub(super) struct LoopArgs {
    /// The repository
    #[arg(value_name = "REPO")]
    at: Option<PathBuf>,
    /// Only what happened from this day, or after this commit
    #[arg(long, value_name = "DATE|COMMIT")]
    since: Option<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(context: &Context, verb: Verb) -> anyhow::Result<Exit> {
    match verb {
        Verb::Loop(args) => review_loop(context, &args),
        Verb::Codifica(args) => super::work::audit(context, &args),
    }
}

/// Where git finds the settings that it may obey, for as long as we look.
pub(super) struct Vault(pub(super) PathBuf);

impl Vault {
    pub(super) fn new() -> Self {
        Self(std::env::temp_dir().join(format!("agency-audit-{}", uuid::Uuid::new_v4())))
    }
}

impl Drop for Vault {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::debug!(%error, "our folder stays behind");
        }
    }
}

/// From when on findings are told; what came before still counts as what was known.
enum Since {
    Beginning,
    Day(Timestamp),
    Commits(BTreeSet<CommitId>),
}

impl Since {
    async fn find(repo: &Repo, text: Option<&str>) -> anyhow::Result<Self> {
        let Some(text) = text else { return Ok(Self::Beginning) };
        if let Some(day) = day(text) {
            return Ok(Self::Day(day));
        }
        let after = repo.since(text).await?;
        let wanted = "a date such as 2026-01-31 or a commit of this repository";
        let why = || Misused(format!("`{}` is not {wanted}", crate::model::clip(text, 60)));
        Ok(Self::Commits(after.ok_or_else(why)?))
    }

    fn counts(&self, found: &audit::Violation) -> bool {
        match self {
            Self::Beginning => true,
            Self::Day(day) => found.at >= *day,
            Self::Commits(commits) => commits.contains(&found.commit),
        }
    }
}

fn day(text: &str) -> Option<Timestamp> {
    let date = text.parse::<chrono::NaiveDate>().ok();
    let midnight = date.and_then(|date| date.and_hms_opt(0, 0, 0)).map(|time| time.and_utc());
    midnight.or_else(|| text.parse().ok())
}

fn review_loop(context: &Context, args: &LoopArgs) -> anyhow::Result<Exit> {
    let at = args.at.clone().map(|at| context.at(at));
    let context = at.as_ref().unwrap_or(context);
    let root = context.root()?;
    let (commits, found) = runtime()?.block_on(async {
        let repo = Repo::open(&root).await?;
        let repo = repo.ok_or_else(|| Misused(format!("`{}` is not under git", root.display())))?;
        let vault = Vault::new();
        repo.guard(vault.0.clone(), None)?;
        let since = Since::find(&repo, args.since.as_deref()).await?;
        let touches = repo.touches(&audit::PATHS).await?;
        let wanted = touches.iter().flat_map(|touch| &touch.changes);
        let wanted = wanted.filter(|change| audit::wants_bytes(&change.path));
        let sides = wanted.flat_map(|change| change.before.iter().chain(&change.after)).cloned();
        let blobs = repo.blobs(&sides.collect()).await?;
        let mut found = audit::audit(&touches, &blobs, Limits::default().max_rounds);
        found.retain(|one| since.counts(one));
        anyhow::Ok((touches.len(), found))
    })?;
    if args.json {
        show::json(&found)?;
    } else {
        print(commits, &found);
    }
    Ok(if found.is_empty() { Exit::Fine } else { Exit::Finding })
}

fn print(commits: usize, found: &[audit::Violation]) {
    for one in found {
        let line = one.line.map(|line| format!(":{line}")).unwrap_or_default();
        let (day, id) = (one.at.format("%Y-%m-%d %H:%M"), &one.commit.as_str()[..12]);
        anstream::println!("{day}  {id}  {}  {}{line}: {}", one.rule, one.file, one.problem);
    }
    match (commits, found.len()) {
        (0, _) => anstream::eprintln!("no commit touches the files of a review loop"),
        (_, 0) => {
            anstream::eprintln!("{}, nothing that a rule forbids", counted(commits, "commit"))
        }
        (_, count) => {
            let (count, commits) = (counted(count, "violation"), counted(commits, "commit"));
            anstream::eprintln!("{count} in {commits}");
            anstream::eprintln!("hint: `agency explain RULE` says what a rule wants");
        }
    }
}

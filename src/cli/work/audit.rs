//! `agency audit codifica`, also `agency work audit`: every violation that was ever committed, by walking the branch's history (CD-19).

use super::super::context::Context;
use super::super::exit::{Exit, Refused};
use super::super::show as paper;
use super::ground::Ground;
use super::look::as_json;
use crate::git::{Repo, Touching};
use crate::model::{Change, RelPath};
use crate::protocol::codifica::{
    Board, Config, FILE, Finding, STATE_MAX, actor_of, is_image, judge, judge_commit,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// List every violation in the history of the state files
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  agency work audit\n  agency audit codifica --json")]
pub(in crate::cli) struct Args {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// What one commit did wrong.
struct Entry {
    commit: Touching,
    finding: Finding,
}

pub(in crate::cli) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    let ground = Ground::new(context)?;
    let config = Arc::new(ground.config()?);
    let Some(repo) = &ground.git else {
        return Err(Refused("there is no git history here to audit".to_owned()).into());
    };
    let entries = ground.runtime.block_on(walk(repo, &config))?;
    if args.json {
        let row = |entry: &Entry| {
            let mut row = as_json(&entry.finding);
            row["commit"] = entry.commit.id.as_str().into();
            row["author"] = entry.commit.author.clone().into();
            row["subject"] = entry.commit.subject.clone().into();
            row
        };
        paper::json(&entries.iter().map(row).collect::<Vec<_>>())?;
    } else {
        for Entry { commit, finding } in &entries {
            anstream::println!("{} {}  {finding}", &commit.id.as_str()[..12], commit.author);
        }
        if entries.is_empty() {
            anstream::println!("no violation was ever committed");
        }
    }
    Ok(if entries.is_empty() { Exit::Fine } else { Exit::Finding })
}

async fn walk(repo: &Repo, config: &Arc<Config>) -> anyhow::Result<Vec<Entry>> {
    let Some(head) = repo.checkout().await?.head else { return Ok(Vec::new()) };
    let mut walk = Walk {
        repo,
        config: config.clone(),
        files: BTreeMap::new(),
        board: Board::read(config, Vec::new()),
        begun: false,
    };
    let mut entries = Vec::new();
    for commit in repo.touching(&head, &below(config)).await? {
        let findings = walk.step(&commit).await?;
        entries
            .extend(findings.into_iter().map(|finding| Entry { commit: commit.clone(), finding }));
    }
    Ok(entries)
}

/// Only what can hold state, evidence or the contract is looked at.
fn below(config: &Config) -> Vec<String> {
    let mut below = vec![FILE.to_owned(), config.assets.to_string()];
    for pattern in &config.state {
        match pattern.plain().or_else(|| pattern.folder()) {
            Some(path) => below.push(path.to_string()),
            None => return Vec::new(),
        }
    }
    below
}

struct Walk<'a> {
    repo: &'a Repo,
    config: Arc<Config>,
    files: BTreeMap<RelPath, Vec<u8>>,
    board: Board,
    /// The first version of the state files is everybody's baseline.
    begun: bool,
}

impl Walk<'_> {
    async fn step(&mut self, commit: &Touching) -> anyhow::Result<Vec<Finding>> {
        let actor = actor_of(&commit.author, &self.config.rules.allowed_agents);
        let mut findings = Vec::new();
        let judged = |path: &RelPath| is_image(path) || path.as_str() == FILE;
        let changed = commit.files.iter().filter(|(path, _)| judged(path));
        let changes: Vec<_> =
            changed.map(|(path, object)| self.change(path, object.as_deref())).collect();
        if !self.take(commit).await? {
            if self.begun {
                findings.extend(judge_commit(&self.board, &actor, &changes));
            }
            return Ok(findings);
        }
        let mut paths: Vec<RelPath> =
            self.files.keys().filter(|path| self.config.is_state(path)).cloned().collect();
        self.config.order(&mut paths);
        let files =
            paths.into_iter().map(|path| (path.clone(), self.files[&path].clone())).collect();
        let board = Board::read(&self.config, files);
        if self.begun {
            findings.extend(judge_commit(&board, &actor, &changes));
            findings.extend(judge(&self.board, &board, &actor));
        }
        findings.retain(Finding::is_violation);
        self.begun |= !board.is_empty();
        self.board = board;
        Ok(findings)
    }

    fn change(&self, path: &RelPath, object: Option<&str>) -> Change {
        let new = !self.files.contains_key(path) && object.is_some();
        Change {
            path: path.clone(),
            to: object.map(|object| ("100644".to_owned(), object.to_owned())),
            new,
        }
    }

    /// True if a state file changed. Images are remembered by name only.
    async fn take(&mut self, commit: &Touching) -> anyhow::Result<bool> {
        let mut changed = false;
        for (path, object) in &commit.files {
            let is_state = self.config.is_state(path);
            match object {
                None => drop(self.files.remove(path)),
                Some(object) if is_state => {
                    let bytes =
                        self.repo.objects(std::slice::from_ref(object), STATE_MAX).await?.pop();
                    self.files.insert(path.clone(), bytes.unwrap_or_default());
                }
                Some(_) => drop(self.files.insert(path.clone(), Vec::new())),
            }
            changed |= is_state;
        }
        Ok(changed)
    }
}

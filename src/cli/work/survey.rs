//! Everything that is wrong with codifica.json and the state files at once (CD-29): for `agency work validate` and for
//! `agency check` (CD-27). It reads the files as they lie there and changes nothing.

use super::super::context::Context;
use super::ground::{CONFIG_MAX, Ground, missing};
use crate::model::{CommitId, RelPath};
use crate::protocol::codifica::{
    self, Board, Config, FILE, Finding, STATE_MAX, State, Task, branch, validate,
};
use std::sync::Arc;

pub(in crate::cli) struct Survey {
    /// `None`: the contract cannot be read.
    pub(in crate::cli) board: Option<Board>,
    pub(in crate::cli) findings: Vec<Finding>,
}

/// `None` where this repository does not use Codifica.
pub(in crate::cli) fn survey(context: &Context) -> anyhow::Result<Option<Survey>> {
    if !context.root()?.join(FILE).exists() {
        return Ok(None);
    }
    look(&Ground::new(context)?)
}

pub(super) fn look(ground: &Ground) -> anyhow::Result<Option<Survey>> {
    let Some(bytes) = ground.bytes(&RelPath::fixed(FILE), CONFIG_MAX)? else { return Ok(None) };
    let config = match Config::read(&bytes) {
        Ok(config) => Arc::new(config),
        Err(findings) => return Ok(Some(Survey { board: None, findings })),
    };
    let mut findings = Vec::new();
    let lacks = |found: String| Finding::violation("CD-26", &RelPath::fixed(FILE), found, WANTED);
    if ground.spec_is_there(&config).is_err() {
        findings.push(lacks(missing(&config.spec, "spec").to_string()));
    }
    let (paths, gone) = ground.state_files_and_gaps(&config)?;
    findings.extend(gone.into_iter().map(lacks));
    let mut files = Vec::new();
    for path in paths {
        match ground.bytes(&path, STATE_MAX) {
            Ok(bytes) => files.push((path, bytes.unwrap_or_default())),
            Err(error) => {
                let found = error.to_string();
                findings.push(Finding::violation("CD-02", &path, found, "a state file"));
            }
        }
    }
    let board = Board::read(&config, files);
    findings.extend(validate(&board));
    findings.extend(lost_artifacts(ground, &board)?);
    Ok(Some(Survey { board: Some(board), findings }))
}

const WANTED: &str = "every file that it names; bring it back or correct the name";

/// spec 3 §8.2: the next agent looks for these files, in the tree or on the task's branch.
fn lost_artifacts(ground: &Ground, board: &Board) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for glance in board.glances() {
        if !matches!(glance.state, State::ToBeTested | State::Done) {
            continue;
        }
        let Some(Ok(task)) = board.task(&glance.id) else { continue };
        for artifact in &task.artifacts {
            let here = ground.root.join(&artifact.path).symlink_metadata().is_ok();
            if here || is_on_branch(ground, board, &task, &artifact.path)? {
                continue;
            }
            let found = format!(
                "the artifact `{}`, which is neither in the tree nor on the task's branch",
                crate::model::clip(&artifact.path, 80)
            );
            let wanted = "artifacts that exist: correct the path, or bring the file back";
            findings.extend(codifica::at_task(board, &task.id, "CD-29", found, wanted));
        }
    }
    Ok(findings)
}

fn is_on_branch(ground: &Ground, board: &Board, task: &Task, path: &str) -> anyhow::Result<bool> {
    let Some(repo) = &ground.git else { return Ok(false) };
    let name = branch(board.config.rules.branch_pattern.as_deref(), task);
    ground.runtime.block_on(async {
        let tip: Option<CommitId> = repo.ref_tip(&format!("refs/heads/{name}")).await?;
        let Some(tip) = tip else { return Ok(false) };
        Ok(!repo.files_in(&tip, &[path.to_owned()]).await?.is_empty())
    })
}

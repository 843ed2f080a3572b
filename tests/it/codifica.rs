//! Codifica by the real program, on real git: claims over a bare remote, verbs, audits. The daemon's part is in `e2e`.

pub(crate) mod daemon;
mod demo;
mod races;
mod sim;
mod verbs;
mod whole;

use crate::e2e::stage::Stage;
use std::path::{Path, PathBuf};

pub(crate) const CONFIG: &str = r#"{"protocol":"codifica","version":"0.2","spec":"spec.md","state":"work/*.md","rules":{"branch_pattern":"{type}/{id}-{slug}"}}"#;

pub(crate) fn task(id: &str, more: &str) -> String {
    format!(
        "- id: {id}\n  type: build\n  state: todo\n  owner: unassigned\n  title: Task {id}\n  acceptance:\n    - works\n{more}"
    )
}

pub(crate) fn state_file(tasks: &[String]) -> String {
    format!("# Work\n\nProse – stays.\n\n```yaml\n{}```\n", tasks.join("\n"))
}

/// A repository that uses Codifica, committed.
pub(crate) fn stage(tasks: &[String]) -> Stage {
    stage_with("exit 1\n", CONFIG, tasks)
}

/// The same with another contract, and this script for its agents.
pub(crate) fn stage_with(agent: &str, config: &str, tasks: &[String]) -> Stage {
    let stage = Stage::new(agent);
    stage.write("codifica.json", config);
    stage.write("spec.md", "the protocol\n");
    stage.write("work/active.md", state_file(tasks));
    stage.write("work/done.md", "# Done\n");
    stage.git(&["config", "user.name", "Owner"]);
    stage.git(&["config", "user.email", "owner@example.com"]);
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "the owner's tasks"]);
    stage
}

/// The same behind a bare remote, with so many clones beside it.
pub(crate) fn shared(tasks: &[String], clones: usize) -> (Stage, Vec<PathBuf>) {
    let stage = stage(tasks);
    stage.git(&["clone", "--quiet", "--bare", ".", "../hub.git"]);
    stage.git(&["remote", "add", "origin", "../hub.git"]);
    let clone = |number: usize| {
        let name = format!("../clone-{number}");
        stage.git(&["clone", "--quiet", "../hub.git", &name]);
        stage.at(&format!("clone-{number}"))
    };
    let dirs = (0..clones).map(clone).collect();
    (stage, dirs)
}

/// Nothing but what a clone has anyway.
pub(crate) fn is_untouched(stage: &Stage, dir: &Path) -> bool {
    let refs = stage.git_in(dir, &["for-each-ref", "--format=%(refname)"]);
    stage.git_in(dir, &["status", "--porcelain"]).is_empty() && !refs.contains("refs/agency/")
}

//! What a run changed: from the snapshot before it to the first one after it, as the journal names them. These are the trees that
//! were judged; the work tree itself is not looked at.

use crate::cli::context::runtime;
use crate::git::Repo;
use crate::model::{Decision, Effect, Fact, Key, Query, TreeId, TreeRef};
use crate::repository::Known;
use crate::store::{self, Record};
use crate::workspace::pinned;
use agency_dashboard::view::DiffView;
use serde::Deserialize as _;
use std::collections::HashMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;

const DIFF_MAX: u64 = 192 * 1024;

/// `None`: the run has not been judged, there is no git, or the owner has not trusted its settings yet.
pub(super) fn of(known: &Known, records: &[Record], run: &str) -> Option<DiffView> {
    let (from, to) = judged(records, run)?;
    let short = |tree: &TreeId| tree.as_str().chars().take(12).collect::<String>();
    let title = format!("judged tree {} against {}", short(&to), short(&from));
    match patch(known, &from, &to)? {
        Some(text) => Some(DiffView { title, text, cut: false }),
        None => {
            let text = format!("more than {} KiB: git diff {from} {to}", DIFF_MAX / 1024);
            Some(DiffView { title, text, cut: true })
        }
    }
}

fn patch(known: &Known, from: &TreeId, to: &TreeId) -> Option<Option<String>> {
    // SE-01: git runs only as the owner trusted it.
    let pin = pinned(&store::latest(&known.folder.join("journal")))?;
    let vault = std::env::temp_dir().join(format!("agency-diff-{}", uuid::Uuid::new_v4().simple()));
    std::fs::DirBuilder::new().mode(0o700).create(&vault).ok()?;
    let found = runtime().ok()?.block_on(async {
        let repo = Repo::open(&known.path).await.ok()??;
        repo.guard(vault.clone(), Some(Arc::new(pin))).ok()?;
        repo.patch(from, to, DIFF_MAX).await.ok()
    });
    std::fs::remove_dir_all(&vault).ok();
    found
}

/// Only one run at a time has a tree, so the first snapshot of that tree after its start is its end.
fn judged(records: &[Record], run: &str) -> Option<(TreeId, TreeId)> {
    let mut asked: HashMap<Key, TreeRef> = HashMap::new();
    let mut last: HashMap<TreeRef, TreeId> = HashMap::new();
    let mut started: Option<(TreeRef, Option<TreeId>)> = None;
    for record in records.iter().filter(|record| record.kind == "decided") {
        let Ok(decision) = Decision::deserialize(&record.body["decision"]) else { continue };
        for (key, fact) in &decision.used {
            let (Fact::Snapshot(snapshot), Some(tree)) = (fact, asked.get(key)) else { continue };
            if let Some((of, before)) = &started
                && of == tree
            {
                return Some((before.clone()?, snapshot.tree.clone()));
            }
            last.insert(tree.clone(), snapshot.tree.clone());
        }
        for keyed in decision.effects {
            match keyed.effect {
                Effect::Ask { query: Query::Snapshot { tree, .. } } => {
                    drop(asked.insert(keyed.key, tree))
                }
                Effect::Spawn(spawn) if spawn.run.as_str() == run => {
                    started = Some((spawn.tree.clone(), last.get(&spawn.tree).cloned()));
                }
                _ => {}
            }
        }
    }
    None
}

//! The evidence in the main tree (CD-16): images that are on record and are changed or deleted there, or that lie where no task
//! has its evidence. What a commit did to them is judged with the commit; here is what is in none.

use super::finding::Finding;
use super::keeper::Codifica;
use super::scope::{is_image, misplaced};
use crate::model::{Builder, Change, Decision, RelPath};
use std::collections::BTreeMap;

/// Images that are new and where they belong are put on record as they are.
pub(super) fn record(codifica: &Codifica) -> Option<Decision> {
    let mut decision = codifica.builder();
    let mut any = false;
    for (path, mark) in &codifica.index.images {
        let known = codifica.index.memory.images.contains_key(path.as_str());
        if !known && astray(codifica, path).is_none() {
            decision.remember(&format!("image/{path}"), mark);
            any = true;
        }
    }
    any.then(|| decision.finish())
}

/// Images that are not as they are on record, and those astray: their marks, or `None` where they are gone.
pub(super) fn differing(codifica: &Codifica) -> BTreeMap<RelPath, Option<String>> {
    let recorded = codifica.index.memory.images.iter().filter_map(|(path, mark)| {
        let path = RelPath::new(path.as_str()).ok()?;
        let now = codifica.index.images.get(&path);
        (now != Some(mark)).then(|| (path.clone(), now.cloned()))
    });
    let unknown = |path: &RelPath| !codifica.index.memory.images.contains_key(path.as_str());
    let astray = codifica.index.images.iter().filter(|(path, _)| unknown(path));
    recorded.chain(astray.map(|(path, mark)| (path.clone(), Some(mark.clone())))).collect()
}

/// What is wrong with such an image, whoever did it.
pub(super) fn finding(codifica: &Codifica, path: &RelPath, gone: bool) -> Option<Finding> {
    if !codifica.index.memory.images.contains_key(path.as_str()) {
        return astray(codifica, path);
    }
    let what = if gone { "an image that was deleted" } else { "an image that was changed" };
    Some(Finding::violation("CD-16", path, what, "images as they are: they are evidence"))
}

/// A task that is in no commit yet may have evidence already.
fn astray(codifica: &Codifica, path: &RelPath) -> Option<Finding> {
    let accepted = codifica.index.known_baseline().map(|baseline| &baseline.board);
    let found = misplaced(accepted?, path)?;
    codifica.index.board().is_none_or(|board| misplaced(board, path).is_some()).then_some(found)
}

/// What a judged commit did to images is dealt with: they are put on record anew.
pub(super) fn forget_changed(codifica: &Codifica, decision: &mut Builder, changes: &[Change]) {
    for change in changes.iter().filter(|change| is_image(&change.path)) {
        if codifica.index.memory.images.contains_key(change.path.as_str()) {
            decision.forget(&format!("image/{}", change.path));
        }
    }
}

/// Nobody can say any more what was on record.
pub(super) fn forget_all(codifica: &Codifica, decision: &mut Builder) {
    for path in codifica.index.memory.images.keys() {
        decision.forget(&format!("image/{path}"));
    }
}

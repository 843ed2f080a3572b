//! The three documents of the ledger. Files of these names that are something else are nobody's fault (LG-02).

use super::{Finding, Look};
use crate::model::RelPath;
use crate::protocol::ledger::{Document, FILE_MAX, Features, Progress, Reviews};

pub(super) fn check(look: &Look) -> Vec<Finding> {
    let all = [one::<Progress>(look), one::<Reviews>(look), one::<Features>(look)];
    all.into_iter().flatten().collect()
}

fn one<D: Document>(look: &Look) -> Vec<Finding> {
    let Ok(Some(bytes)) = look.bytes(&RelPath::fixed(D::FILE), FILE_MAX) else { return Vec::new() };
    let document = D::read(&bytes);
    document.map_or_else(
        |_| Vec::new(),
        |document| document.problems().into_iter().map(Finding::from).collect(),
    )
}

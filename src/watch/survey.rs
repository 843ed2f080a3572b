//! What changed in the watched trees since the last survey, for a look that cannot wait for the watcher. It reads no file.

use super::known::is_proven;
use super::plan::Plan;
use super::scan::{Listing, Names, Scan, Trust};
use crate::model::{Interest, Now, RelPath, Shape, WatchedTree};
use crate::read::Stamp;
use std::collections::BTreeMap;
use std::path::Path;

/// One wanted file of a tree, and how to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Surveyed {
    pub(crate) path: RelPath,
    pub(crate) shape: Shape,
    pub(crate) limit: u64,
}

#[derive(Default)]
pub(crate) struct Survey {
    /// What the names were looked for by.
    trees: Vec<WatchedTree>,
    names: Names,
    /// The stamps of the last survey; `None` where the stamp proves nothing yet.
    stamps: BTreeMap<RelPath, Option<Stamp>>,
}

impl Survey {
    /// Files of the trees that are new, changed or gone since the last time. Files asked for by name are not among them.
    pub(crate) fn changed(&mut self, root: &Path, interest: &Interest, now: Now) -> Vec<Surveyed> {
        if interest.trees.is_empty() {
            return Vec::new();
        }
        if self.trees != interest.trees {
            // What nobody asked for before was passed over.
            (self.trees, self.names) = (interest.trees.clone(), Names::default());
        }
        let trees = interest.trees.clone();
        let plan = Plan::new(Interest { files: Vec::new(), trees });
        let scan = Scan { root, plan: &plan, trust: Trust::Stamps, now: now.wall };
        let Listing { files, folders, .. } = scan.list("", &mut self.names, &mut |_, _| {});
        self.names.keep_only(&folders);
        let news = |(path, stamp): &(&RelPath, &Stamp)| {
            self.stamps.get(*path).is_none_or(|known| known.as_ref() != Some(*stamp))
        };
        let mut paths: Vec<RelPath> =
            files.iter().filter(news).map(|(path, _)| path.clone()).collect();
        paths.extend(self.stamps.keys().filter(|path| !files.contains_key(*path)).cloned());
        self.stamps.retain(|path, _| files.contains_key(path));
        for (path, stamp) in files {
            self.stamps.insert(path, Some(stamp).filter(|stamp| is_proven(*stamp, now.wall)));
        }
        let wanted = |path: RelPath| {
            let wanted = plan.wanted(&path)?;
            Some(Surveyed { path, shape: wanted.shape, limit: wanted.limit })
        };
        let named = |path: &RelPath| interest.files.iter().any(|file| file.path == *path);
        paths.into_iter().filter(|path| !named(path)).filter_map(wanted).collect()
    }

    /// The next survey tells of it again: this look could not.
    pub(crate) fn forget(&mut self, path: &RelPath) {
        self.stamps.insert(path.clone(), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Ticks;
    use std::fs;

    #[test]
    fn a_tree_that_is_asked_for_later_is_surveyed_although_it_was_there_before() {
        let root = tempfile::tempdir().unwrap();
        let tree = |name: &'static str| WatchedTree {
            root: RelPath::fixed(name),
            endings: vec![".json".to_owned()],
            shape: Shape::Json,
            limit: 9,
        };
        for name in ["one", "two"] {
            fs::create_dir(root.path().join(name)).unwrap();
            fs::write(root.path().join(name).join("a.json"), "{}").unwrap();
        }
        let wall = chrono::Utc::now() + chrono::TimeDelta::seconds(9);
        let mut survey = Survey::default();
        let mut changed = |trees: Vec<WatchedTree>| {
            let interest = Interest { files: Vec::new(), trees };
            let found = survey.changed(root.path(), &interest, Now { wall, ticks: Ticks(0) });
            found.into_iter().map(|found| found.path.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(changed(vec![tree("one")]), ["one/a.json"]);
        assert_eq!(changed(vec![tree("one"), tree("two")]), ["two/a.json"]);
    }

    #[test]
    fn a_survey_tells_what_is_new_changed_or_gone() {
        let root = tempfile::tempdir().unwrap();
        let tree = WatchedTree {
            root: RelPath::fixed("box"),
            endings: vec![".json".to_owned()],
            shape: Shape::Json,
            limit: 9,
        };
        let interest = Interest { files: Vec::new(), trees: vec![tree] };
        let mut survey = Survey::default();
        let mut changed = |age: i64| {
            let wall = chrono::Utc::now() + chrono::TimeDelta::seconds(age);
            let found = survey.changed(root.path(), &interest, Now { wall, ticks: Ticks(0) });
            found.into_iter().map(|found| found.path.to_string()).collect::<Vec<_>>()
        };
        assert!(changed(9).is_empty());
        fs::create_dir_all(root.path().join("box/in")).unwrap();
        fs::write(root.path().join("box/in/a.json"), "{}").unwrap();
        fs::write(root.path().join("box/in/a.txt"), "").unwrap();
        assert_eq!(changed(0), ["box/in/a.json"]);
        assert_eq!(changed(0), ["box/in/a.json"], "too young to be believed");
        assert_eq!(changed(9), ["box/in/a.json"]);
        assert!(changed(9).is_empty(), "its stamp stands");
        fs::rename(root.path().join("box/in/a.json"), root.path().join("box/b.json")).unwrap();
        assert_eq!(changed(9), ["box/b.json", "box/in/a.json"]);
        assert!(changed(9).is_empty());
    }
}

//! A protocol's interest, arranged for fast questions: is this path wanted, and which folders lead to wanted ones?
//! It does not look at the disk. Folders are `/`-separated texts below the root; the root itself is the empty text.

use crate::model::{Interest, RelPath, Shape, WatchedFile, WatchedTree};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The plans that are in use: repositories under the same protocols share one.
#[derive(Default)]
pub(super) struct Plans(Mutex<Vec<(Interest, Weak<Plan>)>>);

impl Plans {
    pub(super) fn plan(&self, interest: Interest) -> Arc<Plan> {
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        plans.retain(|(_, plan)| plan.strong_count() > 0);
        let known = plans.iter().find(|(known, _)| *known == interest);
        if let Some(plan) = known.and_then(|(_, plan)| plan.upgrade()) {
            return plan;
        }
        let plan = Arc::new(Plan::new(interest.clone()));
        plans.push((interest, Arc::downgrade(&plan)));
        plan
    }
}

pub(super) struct Plan {
    files: HashMap<RelPath, Wanted>,
    trees: Vec<WatchedTree>,
    /// Folder to the names in it that are wanted or lead to something wanted.
    named: HashMap<String, BTreeSet<String>>,
}

/// How to read a wanted file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) shape: Shape,
    pub(super) limit: u64,
}

impl Plan {
    pub(super) fn new(interest: Interest) -> Self {
        let mut named: HashMap<String, BTreeSet<String>> = HashMap::new();
        let files = interest.files.iter().map(|file| &file.path);
        for path in files.chain(interest.trees.iter().map(|tree| &tree.root)) {
            let mut folder = String::new();
            for name in path.as_str().split('/') {
                named.entry(folder.clone()).or_default().insert(name.to_owned());
                folder = join(&folder, name);
            }
        }
        let files = interest.files.into_iter();
        let wanted = |WatchedFile { path, shape, limit }| (path, Wanted { shape, limit });
        let files = files.map(wanted).collect();
        Self { files, trees: interest.trees, named }
    }

    /// A named file is found even where a tree would read it otherwise.
    pub(super) fn wanted(&self, path: &RelPath) -> Option<Wanted> {
        if let Some(wanted) = self.files.get(path) {
            return Some(*wanted);
        }
        let (folder, name) = path.as_str().rsplit_once('/')?;
        let tree = self.trees.iter().find(|tree| {
            is_within(folder, tree.root.as_str())
                && tree.endings.iter().any(|ending| name.ends_with(ending.as_str()))
        })?;
        Some(Wanted { shape: tree.shape, limit: tree.limit })
    }

    /// Asked for by name: then that it is not there is news as well.
    pub(super) fn is_named(&self, path: &RelPath) -> bool {
        self.files.contains_key(path)
    }

    pub(super) fn named_files(&self) -> impl Iterator<Item = &RelPath> {
        self.files.keys()
    }

    /// The names to look for in a folder of which we do not want everything.
    pub(super) fn names_in(&self, folder: &str) -> impl Iterator<Item = &str> {
        self.named.get(folder).into_iter().flatten().map(String::as_str)
    }

    pub(super) fn is_in_tree(&self, folder: &str) -> bool {
        self.trees.iter().any(|tree| is_within(folder, tree.root.as_str()))
    }

    /// Worth a watch if it is a folder.
    pub(super) fn leads_on(&self, folder: &str) -> bool {
        folder.is_empty() || self.named.contains_key(folder) || self.is_in_tree(folder)
    }
}

pub(super) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// Is `path` the folder `top` or something below it?
pub(super) fn is_within(path: &str, top: &str) -> bool {
    top.is_empty()
        || path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let file =
            |path, limit| WatchedFile { path: RelPath::fixed(path), shape: Shape::Json, limit };
        let tree = WatchedTree {
            root: RelPath::fixed("a/inbox"),
            endings: vec![".md".to_owned(), ".json".to_owned()],
            shape: Shape::Frontmatter,
            limit: 5,
        };
        let files =
            vec![file("flag.json", 1), file("a/state.json", 2), file("a/inbox/x/s.json", 3)];
        Plan::new(Interest { files, trees: vec![tree] })
    }

    #[test]
    fn a_path_is_wanted_by_name_or_by_its_ending_in_a_tree() {
        let limit = |path| plan().wanted(&RelPath::fixed(path)).map(|wanted| wanted.limit);
        assert_eq!(limit("flag.json"), Some(1));
        assert_eq!(limit("a/state.json"), Some(2));
        assert_eq!(limit("a/inbox/m.md"), Some(5));
        assert_eq!(limit("a/inbox/deep/er/m.json"), Some(5));
        assert_eq!(limit("a/inbox/x/s.json"), Some(3), "a name goes before a tree");
        for other in ["a/inbox/m.txt", "a/inbox2/m.md", "m.md", "a/m.md", "a/inbox"] {
            assert_eq!(limit(other), None, "{other}");
        }
    }

    #[test]
    fn the_same_interest_has_one_plan_while_anybody_uses_it() {
        let interest = |path| Interest {
            files: vec![WatchedFile { path: RelPath::fixed(path), shape: Shape::Json, limit: 1 }],
            trees: Vec::new(),
        };
        let plans = Plans::default();
        let one = plans.plan(interest("a"));
        assert!(Arc::ptr_eq(&one, &plans.plan(interest("a"))));
        assert!(!Arc::ptr_eq(&one, &plans.plan(interest("b"))));
        drop(one);
        plans.plan(interest("b"));
        assert_eq!(plans.0.lock().unwrap().len(), 1, "what nobody uses is forgotten");
    }

    #[test]
    fn folders_lead_on_when_something_below_is_wanted() {
        for folder in ["", "a", "a/inbox", "a/inbox/any/thing"] {
            assert!(plan().leads_on(folder), "{folder:?}");
        }
        for folder in ["b", "a/b", "a/inbox2", "flag.json"] {
            assert!(!plan().leads_on(folder), "{folder:?}");
        }
        assert_eq!(plan().names_in("").collect::<Vec<_>>(), ["a", "flag.json"]);
        assert_eq!(plan().names_in("a").collect::<Vec<_>>(), ["inbox", "state.json"]);
    }
}

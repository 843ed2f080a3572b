//! Which names are ignored, as far as it is known: no list can mean them, or git said so and no list has changed since. It asks
//! nobody itself.

use super::index::Stat;
use super::patterns::Patterns;
use std::collections::BTreeMap;

/// More are not worth the room: they are asked for again.
const KNOWN_MAX: usize = 20_000;

pub(super) struct Verdicts {
    /// What counts everywhere.
    outside: Vec<Patterns>,
    /// Folders that have a list of their own, by their path with a slash at its end.
    lists: BTreeMap<String, List>,
    /// What git said, by path, a folder's with a slash at its end.
    ignored: BTreeMap<String, bool>,
}

struct List {
    /// `None`: it is too young to be known by its stamps.
    stat: Option<Stat>,
    patterns: Patterns,
}

impl Verdicts {
    pub(super) fn new(outside: Vec<Patterns>) -> Self {
        Self { outside, lists: BTreeMap::new(), ignored: BTreeMap::new() }
    }

    /// Called for each folder before anything in it is asked for. True: its list must be read.
    pub(super) fn enter(&mut self, folder: &str, list: Option<Stat>) -> bool {
        let stands = match (self.lists.get(folder), list) {
            (None, None) => true,
            (Some(List { stat: Some(was), .. }), Some(is)) => *was == is,
            (Some(_), _) | (None, Some(_)) => false,
        };
        if !stands {
            self.ignored.retain(|path, _| !path.starts_with(folder));
            self.lists.remove(folder);
        }
        !stands && list.is_some()
    }

    pub(super) fn put(&mut self, folder: &str, stat: Option<Stat>, patterns: Patterns) {
        self.lists.insert(folder.to_owned(), List { stat, patterns });
    }

    /// `None`: only git can tell.
    pub(super) fn is_ignored(&self, path: &str) -> Option<bool> {
        let known = self.ignored.get(path).copied();
        known.or_else(|| (!self.may_be_ignored(path)).then_some(false))
    }

    fn may_be_ignored(&self, path: &str) -> bool {
        let name = path.strip_suffix('/').unwrap_or(path);
        let above = name.match_indices('/').map(|(at, _)| &name[..=at]);
        let lists = [""].into_iter().chain(above).filter_map(|folder| self.lists.get(folder));
        let own = lists.map(|list| &list.patterns);
        self.outside.iter().chain(own).any(|patterns| patterns.may_match(name))
    }

    pub(super) fn learn(&mut self, path: String, ignored: bool) {
        if self.ignored.len() >= KNOWN_MAX {
            self.ignored.clear();
        }
        self.ignored.insert(path, ignored);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(ino: u32) -> Option<Stat> {
        Some(Stat { ino, ..Stat::default() })
    }

    fn patterns() -> Patterns {
        Patterns::parse(b"x\nb\n")
    }

    #[test]
    fn a_verdict_stands_until_a_list_above_it_changes() {
        let mut verdicts = Verdicts::new(Vec::new());
        assert!(verdicts.enter("", stat(1)));
        verdicts.put("", stat(1), patterns());
        assert!(!verdicts.enter("a/", None));
        assert_eq!(verdicts.is_ignored("a/x"), None, "only git knows");
        assert_eq!(verdicts.is_ignored("a/y"), Some(false), "no list can mean it");
        for path in ["x", "a/x", "b/"] {
            verdicts.learn(path.to_owned(), true);
        }
        assert!(!verdicts.enter("", stat(1)));
        assert_eq!(verdicts.is_ignored("a/x"), Some(true));
        assert!(verdicts.enter("a/", stat(2)));
        assert_eq!((verdicts.is_ignored("a/x"), verdicts.is_ignored("x")), (None, Some(true)));
        assert!(!verdicts.enter("", None), "a list that is gone is not read");
        assert_eq!(
            (verdicts.is_ignored("x"), verdicts.is_ignored("b/")),
            (Some(false), Some(false))
        );
    }

    #[test]
    fn under_a_young_list_nothing_is_kept() {
        let mut verdicts = Verdicts::new(Vec::new());
        assert!(verdicts.enter("", stat(1)));
        verdicts.put("", None, patterns());
        verdicts.learn("x".to_owned(), true);
        assert_eq!(verdicts.is_ignored("x"), Some(true), "for the look that asked");
        assert!(verdicts.enter("", stat(1)), "it is read again");
        verdicts.put("", stat(1), patterns());
        assert_eq!(verdicts.is_ignored("x"), None);
    }

    #[test]
    fn what_counts_everywhere_counts() {
        let verdicts = Verdicts::new(vec![patterns()]);
        assert_eq!((verdicts.is_ignored("a/b/"), verdicts.is_ignored("y")), (None, Some(false)));
    }
}

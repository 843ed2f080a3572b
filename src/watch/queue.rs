//! The paths of one root that wait to be looked at, in the order in which they are due. It looks at none of them.

use super::pending::Pending;
use crate::model::{RelPath, Ticks};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(super) struct Queue {
    /// Not a hash map: that keeps its room, and for most of its life a queue is empty.
    pending: BTreeMap<RelPath, Pending>,
    order: BTreeSet<(Ticks, RelPath)>,
}

impl Queue {
    pub(super) fn put(&mut self, path: RelPath, pending: Pending) {
        let due = pending.due();
        if let Some(old) = self.pending.insert(path.clone(), pending) {
            self.order.remove(&(old.due(), path.clone()));
        }
        self.order.insert((due, path));
    }

    pub(super) fn take(&mut self, path: &RelPath) -> Option<Pending> {
        let pending = self.pending.remove(path)?;
        self.order.remove(&(pending.due(), path.clone()));
        if self.pending.is_empty() {
            // A tree that was emptied keeps its last node.
            *self = Self::default();
        }
        Some(pending)
    }

    /// The path that is due longest, taken out.
    pub(super) fn take_due(&mut self, now: Ticks) -> Option<(RelPath, Pending)> {
        let (due, path) = self.order.first()?;
        if *due > now {
            return None;
        }
        let path = path.clone();
        self.take(&path).map(|pending| (path, pending))
    }

    pub(super) fn next_due(&self) -> Option<Ticks> {
        self.order.first().map(|(due, _)| *due)
    }

    pub(super) fn contains(&self, path: &RelPath) -> bool {
        self.pending.contains_key(path)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &RelPath> {
        self.pending.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Times;
    use super::*;
    use std::time::Duration;

    #[test]
    fn paths_come_out_when_they_are_due_and_only_once() {
        let times = Times { settle: Duration::from_millis(10), unfinished: Duration::from_secs(1) };
        let at = |now| Pending::found(None, Duration::ZERO, Ticks(now), &times);
        let mut queue = Queue::default();
        queue.put(RelPath::fixed("late"), at(50));
        queue.put(RelPath::fixed("early"), at(60));
        queue.put(RelPath::fixed("early"), at(20));
        assert_eq!(queue.next_due(), Some(Ticks(30)));
        assert!(queue.take_due(Ticks(29)).is_none());
        let order: Vec<_> =
            std::iter::from_fn(|| queue.take_due(Ticks(100))).map(|(path, _)| path).collect();
        assert_eq!(order, [RelPath::fixed("early"), RelPath::fixed("late")]);
        assert_eq!(queue.next_due(), None);
    }
}

//! What was last delivered of each path, and the stamp it had: the reason why an unchanged file is not read again.
//! It looks at no file.

use super::plan::is_within;
use crate::model::{Digest, FileSeen, FileState, Now, RelPath, Timestamp};
use crate::read::{Reading, Stamp};
use std::collections::HashMap;

/// The coarsest clock of a file system that we meet. A file younger than this when it was read may be written again
/// without a new stamp, so its stamp proves nothing yet.
const COARSEST: chrono::TimeDelta = chrono::TimeDelta::seconds(2);

#[derive(Default)]
pub(super) struct Known {
    entries: HashMap<RelPath, KnownFile>,
}

/// Most files that are asked for by name are absent, so the other kind is boxed.
enum KnownFile {
    /// Delivered as absent.
    Absent,
    Met(Box<Met>),
}

struct Met {
    stamp: Option<Stamp>,
    /// The stamp is old enough to be believed.
    proven: bool,
    /// `None` when it shall be delivered again.
    delivered: Option<Delivered>,
}

/// Enough of a delivered state to see whether the next one says anything new.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Delivered {
    Absent,
    Whole(Whole),
    /// With its stamp: another link in the place of one that was taken away looks the same.
    Unreadable(String, Option<Stamp>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Whole {
    digest: Digest,
    written: Timestamp,
    seen: Now,
}

impl Known {
    /// Must this path be looked at, now that it has this stamp? A path never met is news when it exists or is named.
    pub(super) fn is_news(&self, path: &RelPath, stamp: Option<Stamp>) -> bool {
        match self.entries.get(path) {
            None => true,
            Some(KnownFile::Absent) => stamp.is_some(),
            Some(KnownFile::Met(met)) => {
                met.stamp != stamp || !met.proven || met.delivered.is_none()
            }
        }
    }

    pub(super) fn has(&self, path: &RelPath) -> bool {
        self.entries.contains_key(path)
    }

    pub(super) fn below(&self, folder: &str) -> Vec<RelPath> {
        self.entries.keys().filter(|path| is_within(path.as_str(), folder)).cloned().collect()
    }

    /// The next look delivers it even if nothing changed.
    pub(super) fn forget(&mut self, path: &RelPath) {
        match self.entries.get_mut(path) {
            None => {}
            Some(KnownFile::Met(met)) => met.delivered = None,
            Some(absent) => {
                *absent =
                    KnownFile::Met(Box::new(Met { stamp: None, proven: true, delivered: None }));
            }
        }
    }

    /// Notes what a look found at `now`; `Some` when that is news. `named` paths are remembered even when they are absent.
    pub(super) fn deliver(
        &mut self,
        path: RelPath,
        reading: Reading,
        named: bool,
        now: Timestamp,
    ) -> Option<FileSeen> {
        let old = self.entries.remove(&path);
        let absent = reading.state == FileState::Absent;
        if absent && old.is_none() && !named {
            return None;
        }
        let before = old.and_then(KnownFile::delivered);
        let state = keep_first_seen(reading.state, before.as_ref());
        let delivered = Delivered::of(&state, reading.stamp);
        let news = before.as_ref() != Some(&delivered);
        if named || !absent {
            let proven = reading.stamp.is_none_or(|stamp| is_proven(stamp, now));
            self.entries.insert(path.clone(), KnownFile::of(reading.stamp, proven, delivered));
        }
        news.then_some(FileSeen { path, state })
    }
}

impl KnownFile {
    fn of(stamp: Option<Stamp>, proven: bool, delivered: Delivered) -> Self {
        match delivered {
            Delivered::Absent if stamp.is_none() && proven => Self::Absent,
            delivered => Self::Met(Box::new(Met { stamp, proven, delivered: Some(delivered) })),
        }
    }

    fn delivered(self) -> Option<Delivered> {
        match self {
            Self::Absent => Some(Delivered::Absent),
            Self::Met(met) => met.delivered,
        }
    }
}

impl Delivered {
    fn of(state: &FileState, stamp: Option<Stamp>) -> Self {
        match state {
            FileState::Absent => Self::Absent,
            FileState::Whole(file) => {
                let (digest, written, seen) = (file.digest.clone(), file.written, file.seen);
                Self::Whole(Whole { digest, written, seen })
            }
            FileState::Unreadable(unreadable) => Self::Unreadable(unreadable.found.clone(), stamp),
        }
    }
}

/// The same bytes again were first seen when they were first seen.
fn keep_first_seen(mut state: FileState, before: Option<&Delivered>) -> FileState {
    if let (FileState::Whole(file), Some(Delivered::Whole(whole))) = (&mut state, before)
        && file.digest == whole.digest
    {
        file.seen = whole.seen;
    }
    state
}

/// Was it already old when we looked, so that it will change with the next change?
pub(super) fn is_proven(stamp: Stamp, now: Timestamp) -> bool {
    age(stamp, now).abs() >= COARSEST
}

/// How long a file is unchanged by its own dates. Below zero when its dates lie in the future.
pub(super) fn age(stamp: Stamp, now: Timestamp) -> chrono::TimeDelta {
    let date = Timestamp::from_timestamp_nanos(stamp.mtime_ns.max(stamp.ctime_ns));
    now.signed_duration_since(date)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::WholeFile;
    use chrono::TimeDelta;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    fn stamp(written: i64) -> Stamp {
        let nanoseconds = written * 1_000_000_000;
        Stamp { dev: 1, ino: 1, size: 1, mtime_ns: nanoseconds, ctime_ns: nanoseconds }
    }

    fn whole(text: &str, written: i64, seen: i64) -> Reading {
        let state = FileState::Whole(Box::new(WholeFile {
            bytes: text.as_bytes().into(),
            digest: Digest::of(text.as_bytes()),
            written: at(written),
            seen: Now { wall: at(seen), ticks: crate::model::Ticks(0) },
        }));
        Reading { state, stamp: Some(stamp(written)), linked: false }
    }

    fn absent() -> Reading {
        Reading { state: FileState::Absent, stamp: None, linked: false }
    }

    fn seen(file: Option<FileSeen>) -> Option<i64> {
        match file?.state {
            FileState::Whole(file) => Some(file.seen.wall.timestamp()),
            FileState::Absent | FileState::Unreadable(_) => None,
        }
    }

    #[test]
    fn the_same_bytes_written_again_are_news_but_were_first_seen_before() {
        let (mut known, path) = (Known::default(), RelPath::fixed("x"));
        let mut deliver = |reading| seen(known.deliver(path.clone(), reading, false, at(50)));
        assert_eq!(deliver(whole("a", 1, 10)), Some(10));
        assert_eq!(deliver(whole("a", 1, 20)), None, "nothing is new");
        assert_eq!(deliver(whole("a", 2, 30)), Some(10));
        assert_eq!(deliver(whole("b", 3, 40)), Some(40));
    }

    #[test]
    fn a_stamp_is_believed_only_when_it_is_older_than_the_coarsest_clock() {
        let (mut known, path) = (Known::default(), RelPath::fixed("x"));
        known.deliver(path.clone(), whole("a", 10, 11), false, at(11));
        assert!(known.is_news(&path, Some(stamp(10))));
        known.deliver(path.clone(), whole("a", 10, 11), false, at(13));
        assert!(!known.is_news(&path, Some(stamp(10))));
        assert!(known.is_news(&path, Some(stamp(12))));
        known.forget(&path);
        assert!(known.is_news(&path, Some(stamp(10))));
    }

    #[test]
    fn absence_is_told_once_and_only_of_what_was_told_or_named() {
        let (mut known, path) = (Known::default(), RelPath::fixed("x"));
        assert!(known.deliver(path.clone(), absent(), false, at(1)).is_none());
        assert!(known.deliver(path.clone(), absent(), true, at(1)).is_some());
        assert!(known.deliver(path.clone(), absent(), true, at(1)).is_none());
        assert!(known.deliver(path.clone(), whole("a", 1, 1), false, at(9)).is_some());
        assert!(known.deliver(path.clone(), absent(), false, at(9)).is_some());
        assert!(known.below("").is_empty(), "an absent file that nobody named leaves no trace");
    }

    // covers: DM-04
    #[test]
    fn another_link_in_the_place_of_one_that_was_taken_away_is_news() {
        let path = RelPath::fixed("flag.json");
        let link = |written| Reading {
            state: crate::read::refused("a symbolic link", 1),
            stamp: Some(stamp(written)),
            linked: false,
        };
        let mut known = Known::default();
        assert!(known.deliver(path.clone(), link(10), true, at(20)).is_some());
        assert!(known.deliver(path.clone(), link(10), true, at(20)).is_none());
        assert!(known.deliver(path, link(11), true, at(20)).is_some());
    }
}

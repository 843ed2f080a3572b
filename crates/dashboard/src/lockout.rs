//! Sources that present wrong tokens are refused for a while. It does not know what a token opens.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Wrong tokens within the window, before the lock-out.
const TRIES: u32 = 10;
const WINDOW: Duration = Duration::from_secs(600);
const LOCKED: Duration = Duration::from_secs(900);
/// More sources than this at once are one source.
const SOURCES: usize = 1_000;
const REST: &str = "any other";

#[derive(Default)]
pub(crate) struct Lockout(Mutex<HashMap<String, Count>>);

struct Count {
    wrong: u32,
    since: Instant,
}

impl Lockout {
    /// How long it stays locked.
    pub(crate) fn locked(&self, source: &str, now: Instant) -> Option<Duration> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts
            .get(source)
            .or_else(|| if counts.len() >= SOURCES { counts.get(REST) } else { None })?;
        let passed = now.duration_since(count.since);
        (count.wrong >= TRIES && passed < LOCKED).then(|| LOCKED.saturating_sub(passed))
    }

    pub(crate) fn note_wrong(&self, source: &str, now: Instant) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= SOURCES {
            counts.retain(|_, count| now.duration_since(count.since) < LOCKED);
        }
        let is_full = counts.len() >= SOURCES && !counts.contains_key(source);
        let source = if is_full { REST } else { source };
        let count = counts.entry(source.to_owned()).or_insert(Count { wrong: 0, since: now });
        if now.duration_since(count.since) >= WINDOW {
            *count = Count { wrong: 0, since: now };
        }
        count.wrong += 1;
        if count.wrong == TRIES {
            count.since = now;
            tracing::warn!(source, "too many wrong dashboard tokens; this source is locked out");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: WB-03
    #[test]
    fn a_source_that_guesses_is_locked_out_for_a_while() {
        let (lockout, now) = (Lockout::default(), Instant::now());
        for _ in 1..TRIES {
            lockout.note_wrong("10.0.0.9", now);
        }
        assert_eq!(lockout.locked("10.0.0.9", now), None);
        lockout.note_wrong("10.0.0.9", now);
        assert_eq!(lockout.locked("10.0.0.9", now), Some(LOCKED));
        assert_eq!(lockout.locked("10.0.0.8", now), None, "others are not");
        assert_eq!(lockout.locked("10.0.0.9", now + LOCKED), None);
        for source in 0..2 * SOURCES {
            lockout.note_wrong(&source.to_string(), now);
        }
        assert!(lockout.0.lock().unwrap().len() <= SOURCES + 1);
    }
}

//! How long a root rests between rescans. It reads no clock.

use super::WatchOptions;
use crate::model::Ticks;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::time::Duration;

/// A rescan may take this part of the time, however large the root is.
const REST: u32 = 20;

/// `cost` is what the last rescan took.
pub(super) fn pause(options: &WatchOptions, polling: bool, cost: Duration) -> Duration {
    let every = if polling { options.poll } else { options.rescan };
    every.max(cost * REST)
}

/// A pause that is long beside this ends with a beat of the clock that all roots share, so that they go together.
const BEAT: u64 = 1000;

/// When a pause from `now` on ends; never later than it says.
pub(super) fn on_the_beat(now: Ticks, pause: Duration) -> Ticks {
    let Ticks(end) = now.after(pause);
    Ticks(if pause.as_millis() >= u128::from(8 * BEAT) { end - end % BEAT } else { end })
}

/// The first pause is shorter, for each root another part, so that a thousand roots do not rescan in the same second.
pub(super) fn first_pause(pause: Duration, root: &Path) -> Duration {
    let mut hasher = DefaultHasher::new();
    root.hash(&mut hasher);
    let part = f64::from(u16::try_from(hasher.finish() % 1000).unwrap_or(0)) / 1000.0;
    pause.mul_f64(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_root_rests_longer() {
        let options = WatchOptions::default();
        let pause = |polling, cost| pause(&options, polling, Duration::from_millis(cost)).as_secs();
        assert_eq!(pause(false, 1), 30);
        assert_eq!(pause(true, 1), 1);
        assert_eq!(pause(true, 120), 2);
        assert_eq!(pause(false, 3000), 60);
    }

    #[test]
    fn long_pauses_end_together_and_never_late() {
        let end = |now, pause| on_the_beat(Ticks(now), Duration::from_millis(pause)).0;
        assert_eq!((end(12_345, 30_000), end(12_999, 30_000)), (42_000, 42_000));
        assert_eq!(end(12_345, 1_000), 13_345, "a short one ends when it ends");
    }

    #[test]
    fn the_first_rescans_of_many_roots_are_spread() {
        let pauses: Vec<_> = (0..1000)
            .map(|root| first_pause(Duration::from_secs(30), Path::new(&format!("/r{root}"))))
            .collect();
        for second in (0..30).map(Duration::from_secs) {
            let next = second + Duration::from_secs(1);
            let together = pauses.iter().filter(|pause| (second..next).contains(*pause)).count();
            assert!(together < 80, "{together} roots rescan in second {second:?}");
        }
    }
}

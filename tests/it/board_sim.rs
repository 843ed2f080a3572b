//! The board in random worlds, every day. The worlds are in `tests/sim`.

use agency_sim::board::play;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// `AGENCY_SIM_SEEDS=5000` for longer, `AGENCY_SIM_FIRST` for others.
const EVERYDAY: u64 = 100;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

// covers: AG-08, AG-09, AG-10, AG-11, AG-12, AG-13, AG-14, AG-15, AG-27, AG-34, DM-05, DM-06
#[test]
fn no_seed_breaks_the_board() {
    let first = number("AGENCY_SIM_FIRST").unwrap_or(1);
    let end = first + number("AGENCY_SIM_SEEDS").unwrap_or(EVERYDAY);
    let next = AtomicU64::new(first);
    let [decisions, kills, done] = [const { AtomicU64::new(0) }; 3];
    let work = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= end {
                return;
            }
            let played = play(seed);
            decisions.fetch_add(played.decisions().len() as u64, Relaxed);
            kills.fetch_add(played.kills().into(), Relaxed);
            done.fetch_add(played.done() as u64, Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    eprintln!(
        "seeds {first} to {}: {decisions:?} decisions, {kills:?} kills, {done:?} tasks DONE, none broke a rule",
        end - 1
    );
    let seeds = end - first;
    assert!(kills.into_inner() >= seeds, "the daemon was hardly ever killed");
    assert!(done.into_inner() >= seeds, "hardly anything was ever done");
}

// The seed is all there is to a run: the same one replays exactly.
#[test]
fn a_boards_seed_replays_exactly() {
    let (one, other) = (play(7), play(7));
    assert!(one.decisions().len() > 50, "there is something to compare");
    assert_eq!(one.decisions(), other.decisions());
    assert_eq!(one.kills(), other.kills());
}

//! Hundreds of thousands of decisions of the review loop in random worlds, every day. The worlds are in `tests/sim`.

use agency_sim::review_loop::play;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Journalled decisions; questions that are answered with "nothing to do now" do not count.
const EVERYDAY: u64 = 400_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// What the threads share.
#[derive(Default)]
struct Tally {
    next: AtomicU64,
    decisions: AtomicU64,
    asked: AtomicU64,
    kills: AtomicU64,
}

impl Tally {
    /// Plays seed after seed until there are decisions enough, or until the last seed that was asked for.
    fn play(&self, end: Option<u64>) {
        while self.decisions.load(Relaxed) < EVERYDAY || end.is_some() {
            let seed = self.next.fetch_add(1, Relaxed);
            if end.is_some_and(|end| seed >= end) {
                return;
            }
            let played = play(seed);
            self.decisions.fetch_add(played.decisions().len() as u64, Relaxed);
            self.asked.fetch_add(played.asked(), Relaxed);
            self.kills.fetch_add(played.kills().into(), Relaxed);
        }
    }
}

// covers: LP-01, LP-02, LP-09, LP-10, LP-19, LP-27, LP-28, DM-05, DM-06
#[test]
fn no_seed_breaks_the_loop() {
    let first = number("AGENCY_SIM_FIRST").unwrap_or(1);
    let end = number("AGENCY_SIM_SEEDS").map(|seeds| first + seeds);
    let tally = Tally { next: AtomicU64::new(first), ..Tally::default() };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| tally.play(end));
        }
    });
    let Tally { next, decisions, asked, kills } = tally;
    let last = end.unwrap_or(next.into_inner()) - 1;
    eprintln!(
        "seeds {first} to {last}: {decisions:?} decisions ({asked:?} asked for, {kills:?} kills), none broke a rule"
    );
    assert!(end.is_some() || decisions.into_inner() >= EVERYDAY);
}

// The seed is all there is to a run: the same one replays exactly.
#[test]
fn a_seed_replays_exactly() {
    let (one, other) = (play(7), play(7));
    assert!(one.decisions().len() > 50, "there is something to compare");
    assert_eq!(one.decisions(), other.decisions());
    assert_eq!((one.asked(), one.kills()), (other.asked(), other.kills()));
}

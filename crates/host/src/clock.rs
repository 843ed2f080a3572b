//! The only reader of clocks. It decides nothing about the time it reads.

use agency_protocols::model::{Now, Ticks, Timestamp};
use nix::time::{ClockId, clock_gettime};

/// Counts on while the machine sleeps: a claim does not stay fresh because a lid was closed.
#[cfg(any(target_os = "linux", target_os = "android"))]
const STEADY: ClockId = ClockId::CLOCK_BOOTTIME;
/// The nearest elsewhere; on macOS it counts sleep too.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const STEADY: ClockId = ClockId::CLOCK_MONOTONIC;

pub fn now() -> Now {
    Now { wall: chrono::Utc::now(), ticks: ticks() }
}

/// For stamps in files.
pub fn wall() -> Timestamp {
    now().wall
}

/// For limits and waits.
pub fn boottime() -> Ticks {
    ticks()
}

/// Changes with every boot, so that ticks of two boots are never compared.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_| "unknown".to_owned(), |id| id.trim().to_owned())
}

fn ticks() -> Ticks {
    let spec =
        clock_gettime(STEADY).expect("the kernel has this clock on every system we build for");
    let whole = u64::try_from(spec.tv_sec()).unwrap_or(0).saturating_mul(1000);
    let part = u64::try_from(spec.tv_nsec()).unwrap_or(0) / 1_000_000;
    Ticks(whole.saturating_add(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn ticks_count_milliseconds_and_never_go_back() {
        let outer = Instant::now();
        let start = now().ticks;
        let (inner, mut last) = (Instant::now(), start);
        while inner.elapsed() < Duration::from_millis(30) {
            let next = now().ticks;
            assert!(next >= last);
            last = next;
        }
        let (least, counted) = (inner.elapsed(), now().ticks.since(start));
        let (most, rounding) = (outer.elapsed(), Duration::from_millis(1));
        assert!(counted + rounding >= least, "{counted:?} in {least:?}");
        assert!(counted <= most + rounding, "{counted:?} in {most:?}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_boot_has_a_name_on_one_line() {
        assert_eq!(boot_id().len(), 36);
        assert_eq!(boot_id(), boot_id());
    }
}

//! The two clocks of a run: wall time for stamps, boot time for limits. Nothing else in `run` reads a clock.

use crate::model::{Ticks, Timestamp};
use nix::time::{ClockId, clock_gettime};

#[cfg(target_os = "linux")]
const SINCE_BOOT: ClockId = ClockId::CLOCK_BOOTTIME;
/// Elsewhere (macOS) the monotonic clock already counts suspend.
#[cfg(not(target_os = "linux"))]
const SINCE_BOOT: ClockId = ClockId::CLOCK_MONOTONIC;

pub(super) fn boottime() -> Ticks {
    let now = clock_gettime(SINCE_BOOT).expect("the kernel has this clock since 2.6.39");
    let millis = i128::from(now.tv_sec()) * 1000 + i128::from(now.tv_nsec()) / 1_000_000;
    Ticks(u64::try_from(millis).unwrap_or(0))
}

pub(super) fn wall() -> Timestamp {
    chrono::Utc::now()
}

//! The touch of `alive` that tells the daemon that a shim is not stuck. Judging its absence is `observe`'s work.

use agency_host::clock::{boottime, wall};
use agency_protocols::model::Ticks;
use std::fs::File;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Beat {
    file: File,
    every: Duration,
    last: Ticks,
}

impl Beat {
    pub(crate) fn new(file: File, every: Duration) -> Self {
        let beat = Self { file, every, last: boottime() };
        beat.touch();
        beat
    }

    pub(crate) fn every(&self) -> Duration {
        self.every
    }

    pub(crate) fn if_due(&mut self) {
        if boottime().since(self.last) >= self.every {
            self.last = boottime();
            self.touch();
        }
    }

    fn touch(&self) {
        // A beat that cannot be written is a missing beat: the daemon will notice.
        self.file.set_modified(wall().into()).ok();
    }
}

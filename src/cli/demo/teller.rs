//! Tells on the terminal what happens, from the files that anyone may read: the event log and the status.

use super::super::narrate;
use crate::clock;
use crate::model::{Event, Timestamp};
use crate::workspace::RepoStatus;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

pub(super) struct Teller {
    folder: PathBuf,
    told: usize,
    begun: Timestamp,
    terminal: bool,
}

impl Teller {
    pub(super) fn new(folder: PathBuf) -> Self {
        let terminal = std::io::stdout().is_terminal();
        Self { folder, told: 0, begun: clock::now().wall, terminal }
    }

    /// Until it is stopped; what has happened until then is told too.
    pub(super) async fn tell(mut self, stop: CancellationToken) -> Self {
        loop {
            let over = stop.is_cancelled();
            self.tell_events();
            if over {
                self.wipe();
                return self;
            }
            self.show_live(&self.summary());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(super) fn say_waiting(&self) {
        anstream::println!("\nThe rest waits for the owner: {}\n", self.summary());
    }

    /// True when this is the end that was wanted.
    pub(super) fn say_end(&self, wanted: &str) -> bool {
        let summary = self.summary();
        anstream::println!("{} after {}", summary, super::super::show::age(self.begun));
        summary.starts_with(wanted)
    }

    fn tell_events(&mut self) {
        let text = std::fs::read_to_string(self.folder.join("events.ndjson")).unwrap_or_default();
        for line in text.lines().skip(self.told) {
            let Ok(event) = serde_json::from_str::<Event>(line) else { return };
            self.told += 1;
            self.wipe();
            self.tell_event(&event);
        }
    }

    fn tell_event(&self, event: &Event) {
        if let Some(line) = narrate::logged(event) {
            let seconds = (clock::now().wall - self.begun).as_seconds_f32();
            anstream::println!("{seconds:>5.1}s  {line}");
        }
    }

    fn summary(&self) -> String {
        let status = RepoStatus::read(&self.folder).unwrap_or_default();
        status.protocols.first().map_or_else(String::new, |protocol| protocol.summary.clone())
    }

    /// One line that changes in place, on a terminal only.
    fn show_live(&self, summary: &str) {
        if self.terminal {
            anstream::print!("\r\x1b[K       {summary}");
            drop(std::io::stdout().flush());
        }
    }

    fn wipe(&self) {
        if self.terminal {
            anstream::print!("\r\x1b[K");
        }
    }
}

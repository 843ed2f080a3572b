//! Prints what happens while `agency run` has a terminal (OP-07). In a log the same things are events of `tracing`.

use super::super::narrate;
use crate::live::{LiveEvent, LiveFeed};
use std::io::IsTerminal as _;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

/// Prints until it is stopped.
pub(super) struct Narrator(Option<JoinHandle<()>>);

impl Narrator {
    /// Only on a terminal; elsewhere the feed drops everything.
    pub(super) fn start() -> (Self, LiveFeed) {
        if !std::io::stdout().is_terminal() {
            return (Self(None), LiveFeed::default());
        }
        anstream::println!(
            "agency runs here. Ctrl-C stops it; agents that work go on and are found again."
        );
        let (feed, events) = LiveFeed::open();
        (Self(Some(tokio::spawn(print(events)))), feed)
    }

    /// What happened until now is printed first; the senders are gone by then.
    pub(super) async fn stop(self) {
        if let Some(task) = self.0
            && let Err(error) = task.await
        {
            tracing::debug!(%error, "the terminal was not told everything");
        }
    }
}

async fn print(mut events: UnboundedReceiver<LiveEvent>) {
    while let Some(event) = events.recv().await {
        let name = event.repo.file_name().unwrap_or(event.repo.as_os_str()).to_string_lossy();
        let name = crate::cli::show::plain(&name);
        let at = chrono::Local::now().format("%H:%M:%S");
        for line in narrate::lines(&event).into_iter().flatten() {
            anstream::println!("{at}  {name}  {line}");
        }
    }
}

//! How things look on a terminal: tables, ages, lists of JSON. No command's meaning is here.

use crate::clock;
use crate::model::Timestamp;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use std::time::Duration;

/// A plain table that fits the terminal.
pub(super) fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(head.iter().map(|word| word.to_uppercase()));
    table
}

pub(super) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    anstream::println!("{}", serde_json::to_string_pretty(value)?);
    Ok(())
}

/// Somebody's text as it may go to a terminal: no sequence in it moves, colours or answers anything.
pub(super) fn plain(text: &str) -> String {
    let turns = |c| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let safe = |c: char| {
        if (c.is_control() && !matches!(c, '\n' | '\t')) || turns(c) { '\u{fffd}' } else { c }
    };
    text.replace("\r\n", "\n").chars().map(safe).collect()
}

pub(super) fn age(since: Timestamp) -> String {
    between(since, clock::now().wall)
}

pub(super) fn between(start: Timestamp, end: Timestamp) -> String {
    span((end - start).to_std().unwrap_or_default())
}

fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

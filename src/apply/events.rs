//! The event log, one JSON per line. A line that a crash left behind is not written twice.

use crate::model::{Event, Key};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// How far back a repeated line can lie: effects that are done again are the last ones.
const LOOK_BACK: u64 = 64 * 1024;

pub(super) fn append(path: &Path, event: &Event, key: &Key) -> io::Result<()> {
    let mut file =
        OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(path)?;
    if tail(&mut file)?.contains(&format!("\"key\":\"{key}\"")) {
        return Ok(());
    }
    let line = json!({
        "event": event.event,
        "timestamp": crate::clock::now().wall,
        "agent": event.agent,
        "context": event.context,
        "key": key,
    });
    file.write_all(format!("{line}\n").as_bytes())
}

fn tail(file: &mut File) -> io::Result<String> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOOK_BACK)))?;
    let mut bytes = Vec::with_capacity(usize::try_from(length.min(LOOK_BACK)).unwrap_or(0) + 1);
    file.take(LOOK_BACK).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_effect_writes_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.ndjson");
        let event = Event { event: "x".to_owned(), agent: None, context: Default::default() };
        for key in ["loop-1.0", "loop-1.0", "loop-1.1"] {
            append(&path, &event, &Key::new(key)).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 2);
        for line in text.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(line["timestamp"].is_string() && line["context"].is_object());
        }
    }
}

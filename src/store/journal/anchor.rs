//! The journal's head, kept apart in `pins.json`. The other keys of that file belong to others and stay as they are.

use super::line::Record;
use crate::{
    model::Digest,
    store::{StoreError, write_atomic},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{fs, io, path::Path};

const KEY: &str = "journal_head";

/// The place that a chain has reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub n: u64,
    pub hash: Digest,
}

impl Head {
    /// Before the first record: its `prev` is 64 zeros.
    pub(super) fn start() -> Self {
        let hash = serde_json::from_value(Value::from("0".repeat(64)))
            .expect("a digest is a string in JSON");
        Self { n: 0, hash }
    }

    pub(super) fn of(record: &Record) -> Self {
        Self { n: record.n, hash: record.hash.clone() }
    }

    /// The error says how `record` fails to follow.
    pub(super) fn check_next(&self, record: &Record) -> Result<(), String> {
        if record.n != self.n + 1 {
            return Err(format!("it is record {}, record {} must come here", record.n, self.n + 1));
        }
        if record.prev != self.hash {
            return Err(format!("it does not follow record {} as that stands here", self.n));
        }
        Ok(())
    }
}

pub(super) fn read(pins: &Path) -> Result<Option<Head>, StoreError> {
    match load(pins)?.remove(KEY) {
        None => Ok(None),
        Some(head) => serde_json::from_value(head).map(Some).map_err(unreadable(pins)),
    }
}

pub(super) fn write(pins: &Path, head: &Head) -> Result<(), StoreError> {
    let mut all = load(pins)?;
    let head = serde_json::to_value(head).expect("a head is a number and a string");
    all.insert(KEY.to_owned(), head);
    let text = serde_json::to_vec_pretty(&all).expect("a JSON object can be written");
    write_atomic(pins, &text)
}

fn load(pins: &Path) -> Result<Map<String, Value>, StoreError> {
    match fs::read(pins) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(unreadable(pins)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Map::new()),
        Err(error) => Err(StoreError::io("read", pins)(error)),
    }
}

fn unreadable(pins: &Path) -> impl FnOnce(serde_json::Error) -> StoreError {
    move |source| StoreError::Pins { path: pins.to_owned(), source }
}

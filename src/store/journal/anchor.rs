//! The journal's head, kept apart in `pins.json`, and the place where the kept part of the journal begins. The other keys of
//! that file belong to others and stay as they are.

use super::line::Record;
use crate::{
    model::Digest,
    store::{StoreError, write_atomic},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use std::{fs, io, path::Path};

const HEAD: &str = "journal_head";
const BASE: &str = "journal_base";

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

/// Where the kept part of a journal begins: older segments were deleted because of their age.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Base {
    /// The oldest segment that is kept.
    pub(super) segment: u64,
    /// The last record before it.
    pub(super) head: Head,
}

pub(super) fn read(pins: &Path) -> Result<Option<Head>, StoreError> {
    read_key(pins, HEAD)
}

/// The very beginning where nothing was deleted.
pub(super) fn read_base(pins: &Path) -> Result<Base, StoreError> {
    Ok(read_key(pins, BASE)?.unwrap_or_else(|| Base { segment: 1, head: Head::start() }))
}

fn read_key<T: DeserializeOwned>(pins: &Path, key: &str) -> Result<Option<T>, StoreError> {
    match load(pins)?.remove(key) {
        None => Ok(None),
        Some(value) => serde_json::from_value(value).map(Some).map_err(unreadable(pins)),
    }
}

pub(super) fn write(pins: &Path, head: &Head) -> Result<(), StoreError> {
    write_key(pins, HEAD, head)
}

pub(super) fn write_base(pins: &Path, base: &Base) -> Result<(), StoreError> {
    write_key(pins, BASE, base)
}

fn write_key(pins: &Path, key: &str, value: &impl Serialize) -> Result<(), StoreError> {
    let mut all = load(pins)?;
    let value = serde_json::to_value(value).expect("numbers and strings become JSON");
    all.insert(key.to_owned(), value);
    let text = serde_json::to_vec_pretty(&all).expect("a JSON object can be written");
    write_atomic(pins, &text)
}

/// For a journal that begins anew: the old head and base belong to the journal that was set aside.
pub(super) fn forget(pins: &Path) -> Result<(), StoreError> {
    let mut all = load(pins)?;
    if all.remove(HEAD).is_none() & all.remove(BASE).is_none() {
        return Ok(());
    }
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

//! One line of the journal, to bytes and back. It does not know the lines around it.
//!
//! The hash is the SHA-256 of the line's bytes from `{` up to, not including, `,"hash":"`. That ending has a fixed length,
//! so the bytes are hashed as they lie on disk and never written out a second time to be compared.

use super::Head;
use crate::{
    model::{Digest, Timestamp},
    store::StoreError,
};
use serde::Deserialize;
use serde_json::Value;

/// A longer line is damage: nothing we append is.
pub const LINE_MAX: usize = 16 << 20;
/// What the reader bears: it stops at 128, and the record around a body is the first.
const DEPTH_MAX: usize = 126;
const HASH_OPENS: &str = ",\"hash\":\"";
const HASH_CLOSES: &str = "\"}";
const HASH_LEN: usize = 64;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Counts from 1 over all segments.
    pub n: u64,
    pub at: Timestamp,
    pub prev: Digest,
    pub kind: String,
    pub body: Value,
    pub hash: Digest,
}

/// The line that follows `head`, its end included, and the head that it makes.
pub(super) fn encode(
    head: &Head,
    kind: &str,
    body: &Value,
    at: Timestamp,
) -> Result<(Vec<u8>, Head), StoreError> {
    // A body nested too deeply can be written but not read; then it must not be written.
    if !is_within(body, DEPTH_MAX) {
        let why = format!("it is nested more than {DEPTH_MAX} deep");
        return Err(StoreError::RecordUnreadable { kind: kind.to_owned(), why });
    }
    let (n, prev) = (head.n + 1, &head.hash);
    let at = at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    let quoted = Value::from(kind);
    let opens = format!(r#"{{"n":{n},"at":"{at}","prev":"{prev}","kind":{quoted},"body":"#);
    let mut text = opens.into_bytes();
    serde_json::to_writer(&mut text, body).expect("BUG: a value can be written to memory");
    let hash = Digest::of(&text);
    text.extend_from_slice(format!("{HASH_OPENS}{hash}{HASH_CLOSES}").as_bytes());
    if text.len() > LINE_MAX {
        return Err(StoreError::RecordTooLong { size: text.len(), limit: LINE_MAX });
    }
    text.push(b'\n');
    Ok((text, Head { n, hash }))
}

fn is_within(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(values) => depth > 0 && values.iter().all(|value| is_within(value, depth - 1)),
        Value::Object(fields) => {
            depth > 0 && fields.values().all(|value| is_within(value, depth - 1))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// A line without its end. The error says what is wrong with it.
pub(super) fn decode(line: &[u8]) -> Result<Record, String> {
    let tail = HASH_OPENS.len() + HASH_LEN + HASH_CLOSES.len();
    let (hashed, tail) = line.split_at(line.len().saturating_sub(tail));
    let hash = Digest::of(hashed);
    if tail != format!("{HASH_OPENS}{hash}{HASH_CLOSES}").as_bytes() {
        return Err("its hash does not fit its bytes".to_owned());
    }
    serde_json::from_slice(line).map_err(|error| format!("it is not a record: {error}"))
}

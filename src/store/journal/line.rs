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
use std::fmt::{Display, Write as _};

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
    body: &impl Display,
    at: Timestamp,
) -> Result<(Vec<u8>, Head), StoreError> {
    let (n, prev) = (head.n + 1, &head.hash);
    let at = at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    let quoted = Value::from(kind);
    let mut text = format!(r#"{{"n":{n},"at":"{at}","prev":"{prev}","kind":{quoted},"body":"#);
    let begin = text.len();
    write!(text, "{body}").expect("BUG: a text can be written to memory");
    // A body nested too deeply can be written but not read; then it must not be written.
    if depth(&text.as_bytes()[begin..]) > DEPTH_MAX {
        let why = format!("it is nested more than {DEPTH_MAX} deep");
        return Err(StoreError::RecordUnreadable { kind: kind.to_owned(), why });
    }
    let hash = Digest::of(text.as_bytes());
    write!(text, "{HASH_OPENS}{hash}{HASH_CLOSES}").expect("BUG: a text can be written to memory");
    if text.len() > LINE_MAX {
        return Err(StoreError::RecordTooLong { size: text.len(), limit: LINE_MAX });
    }
    text.push('\n');
    Ok((text.into_bytes(), Head { n, hash }))
}

/// Of the deepest place in a text of JSON.
fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn skip_string<'a>(bytes: &mut impl Iterator<Item = &'a u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
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

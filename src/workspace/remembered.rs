//! What a journal says that a protocol remembers, for those who only look. It opens no workspace.

use super::record::Entry;
use crate::git::Pin;
use crate::store::Record;
use serde_json::Value;
use std::collections::BTreeMap;

/// What the owner last trusted git with here (SE-01); `None`: nobody was asked yet.
pub fn pinned(records: &[Record]) -> Option<Pin> {
    records.iter().rev().find_map(|record| match Entry::join(&record.kind, &record.body) {
        Ok(Entry::Pinned { pin, .. }) => Some(pin),
        Ok(Entry::Snapshot(snapshot)) => snapshot.pin,
        _ => None,
    })
}

/// The protocol's memory at the end of these records. What this version cannot read is passed over.
pub fn remembered(records: &[Record], protocol: &str) -> BTreeMap<String, Value> {
    let mut memory = BTreeMap::new();
    for record in records {
        match Entry::join(&record.kind, &record.body) {
            Ok(Entry::Decided { protocol: of, decision }) if of == protocol => {
                for memo in decision.memo {
                    match memo.value {
                        Some(value) => memory.insert(memo.name, value),
                        None => memory.remove(&memo.name),
                    };
                }
            }
            Ok(Entry::Snapshot(mut snapshot)) => {
                memory = snapshot.protocols.remove(protocol).unwrap_or_default().memory;
            }
            _ => {}
        }
    }
    memory
}

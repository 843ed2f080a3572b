//! What a journal adds to the numbers since the last look: judgements, and how long a finished run waited for its transition.

use crate::model::Timestamp;
use crate::store::{self, Record};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Records that one look reads at most; a daemon that runs is looked at more often than it writes so many.
const RECORDS: usize = 20_000;

/// How far a journal was read.
#[derive(Default)]
pub(super) struct Reading {
    stamp: Option<(u64, i64, i64)>,
    last: u64,
    ended: Option<Timestamp>,
}

/// One thing that was counted.
pub(super) enum Judged {
    /// The protocol, its row, or the rule that refused, and which of both.
    Verdict { protocol: String, row: String, accepted: bool },
    /// From the end of a run to the transition that followed it.
    Waited { protocol: String, seconds: f64 },
}

impl Reading {
    /// A journal that did not grow is not read.
    pub(super) fn look(&mut self, journal: &Path) -> Vec<Judged> {
        let stamp = stamp(journal);
        if stamp.is_none() || stamp == self.stamp {
            return Vec::new();
        }
        self.stamp = stamp;
        let records =
            if self.last == 0 { store::latest(journal) } else { store::tail(journal, RECORDS) };
        let last = self.last;
        let mut found = Vec::new();
        for record in records.iter().filter(|record| record.n > last) {
            self.take(record, &mut found);
            self.last = record.n;
        }
        found
    }

    fn take(&mut self, record: &Record, found: &mut Vec<Judged>) {
        match record.kind.as_str() {
            "ran" => self.ended = Some(record.at),
            "decided" => {
                let protocol = record.body["protocol"].as_str().unwrap_or_default().to_owned();
                let decision = &record.body["decision"];
                let verdict = |row: &str, accepted| Judged::Verdict {
                    protocol: protocol.clone(),
                    row: row.to_owned(),
                    accepted,
                };
                let rejections = decision["rejections"].as_array().into_iter().flatten();
                let rules = rejections.filter_map(|one: &Value| one["rule"].as_str());
                found.extend(rules.map(|rule| verdict(rule, false)));
                let Some(row) = decision["row"].as_str() else { return };
                found.push(verdict(row, true));
                if let Some(ended) = self.ended.take() {
                    let seconds = (record.at - ended).as_seconds_f64().max(0.0);
                    found.push(Judged::Waited { protocol, seconds });
                }
            }
            _ => {}
        }
    }
}

/// Of the newest segment.
fn stamp(journal: &Path) -> Option<(u64, i64, i64)> {
    let names = fs::read_dir(journal).ok()?.flatten().map(|entry| entry.path());
    let newest =
        names.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl")).max()?;
    let meta = newest.symlink_metadata().ok()?;
    Some((meta.ino(), meta.mtime(), meta.mtime_nsec()))
}

//! Reads a journal: its tip for the daemon, all of it for an audit, its last lines for people. It changes nothing on disk.

use super::{
    Head, SNAPSHOT,
    anchor::Base,
    line::{LINE_MAX, Record, decode},
    segment::{self, Scan, damaged, next_line, scan},
};
use crate::store::StoreError;
use std::{collections::VecDeque, path::Path};

/// Where the journal ends, as far as it is whole.
pub(super) struct Tip {
    pub(super) segment: u64,
    lines: u64,
    /// Of the line that the segment begins with.
    pub(super) first: u64,
    pub(super) size: u64,
    pub(super) head: Head,
    pub(super) records: Vec<Record>,
    /// What follows the last whole line.
    pub(super) torn: Vec<u8>,
    /// A segment after this one that a crash cut off in its first line, with its bytes.
    pub(super) unborn: Option<(u64, Vec<u8>)>,
}

/// A journal that was read from end to end and is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    pub segments: u64,
    pub head: Head,
    /// What `pins.json` holds; `None` means that a cut at the end would not have been noticed.
    pub anchor: Option<Head>,
}

pub(super) fn tip(dir: &Path, anchor: Option<Head>) -> Result<Tip, StoreError> {
    let mut tip = Tip {
        segment: segment::list(dir)?.last().copied().unwrap_or(1),
        lines: 0,
        first: 0,
        size: 0,
        head: Head::start(),
        records: Vec::new(),
        torn: Vec::new(),
        unborn: None,
    };
    if tip.segment > 1 {
        drop_unborn(dir, &mut tip)?;
    }
    if tip.segment > 1 {
        tip.head = end_of(dir, tip.segment - 1, anchor.as_ref())?;
    }
    read_last(dir, &mut tip, anchor.as_ref())?;
    check_reached(dir, (tip.segment, tip.lines), &tip.head, anchor.as_ref())?;
    Ok(tip)
}

/// The step back over a segment whose first line was never finished.
fn drop_unborn(dir: &Path, tip: &mut Tip) -> Result<(), StoreError> {
    let path = segment::path(dir, tip.segment);
    let mut reader = segment::open(dir, tip.segment)?;
    let mut bytes = Vec::new();
    next_line(&mut reader, &mut bytes).map_err(StoreError::io("read", &path))?;
    // A first line that is too long is damage, which the scan will say.
    if !bytes.ends_with(b"\n") && bytes.len() <= LINE_MAX {
        tip.unborn = Some((tip.segment, bytes));
        tip.segment -= 1;
    }
    Ok(())
}

fn end_of(dir: &Path, number: u64, anchor: Option<&Head>) -> Result<Head, StoreError> {
    let path = segment::path(dir, number);
    let scan = scan(dir, number, None, |record| check_anchored(&record, anchor))?;
    check_whole(&path, &scan)?;
    scan.head.ok_or_else(|| damaged(&path, 1, "the segment is empty, yet another follows"))
}

fn read_last(dir: &Path, tip: &mut Tip, anchor: Option<&Head>) -> Result<(), StoreError> {
    let path = segment::path(dir, tip.segment);
    if !path.exists() {
        // A new journal has no file yet; one that goes on elsewhere must have it.
        let gone = tip.segment > 1 || tip.unborn.is_some();
        return if gone { Err(damaged(&path, 1, "the segment is missing")) } else { Ok(()) };
    }
    let follows = follows_segment(tip.segment, &tip.head);
    let scan = scan(dir, tip.segment, Some(tip.head.clone()), |record| {
        check_anchored(&record, anchor)?;
        follows(&record)?;
        if record.kind == SNAPSHOT {
            tip.records.clear();
        }
        tip.records.push(record);
        Ok(())
    })?;
    if tip.unborn.is_some() {
        check_whole(&path, &scan)?;
    }
    tip.head = scan.head.unwrap_or_else(Head::start);
    tip.lines = scan.lines;
    tip.first = scan.first;
    tip.size = scan.size;
    tip.torn = scan.torn;
    Ok(())
}

/// Reads everything that is kept and changes nothing. Finds a changed byte, a cut, missing, added or moved line or segment,
/// and a last line without an end, which may also be a line that a running daemon is just writing.
pub fn verify(dir: &Path, pins: &Path) -> Result<Verified, StoreError> {
    // The anchor first: a journal that grows meanwhile only moves further past it.
    let anchor = super::anchor::read(pins)?;
    let base = super::anchor::read_base(pins)?;
    let mut head = base.head.clone();
    let mut last = (base.segment, 0);
    let numbers = kept(dir, &base)?;
    for (number, wanted) in numbers.iter().zip(base.segment..) {
        let path = segment::path(dir, wanted);
        if *number != wanted {
            return Err(damaged(&path, 1, "the segment is missing"));
        }
        let follows = follows_segment(wanted, &head);
        let scan = scan(dir, wanted, Some(head), |record| {
            check_anchored(&record, anchor.as_ref()).and_then(|()| follows(&record))
        })?;
        check_whole(&path, &scan)?;
        if scan.lines == 0 && numbers.len() > 1 {
            return Err(damaged(&path, 1, "the segment is empty"));
        }
        head = scan.head.unwrap_or_else(Head::start);
        last = (wanted, scan.lines);
    }
    check_reached(dir, last, &head, anchor.as_ref())?;
    Ok(Verified { segments: numbers.len() as u64, head, anchor })
}

/// Segments before the base are gone, or are about to be.
fn kept(dir: &Path, base: &Base) -> Result<Vec<u64>, StoreError> {
    let mut numbers = segment::list(dir)?;
    numbers.retain(|number| *number >= base.segment);
    Ok(numbers)
}

/// Each segment but the first begins with a snapshot.
fn follows_segment(number: u64, before: &Head) -> impl Fn(&Record) -> Result<(), String> + use<> {
    let first = before.n + 1;
    move |record| {
        if number > 1 && record.n == first && record.kind != SNAPSHOT {
            return Err("a segment must begin with a snapshot".to_owned());
        }
        Ok(())
    }
}

fn check_whole(path: &Path, scan: &Scan) -> Result<(), StoreError> {
    if scan.torn.is_empty() {
        return Ok(());
    }
    Err(damaged(path, scan.lines + 1, "it has no end: it was cut off, or is just being written"))
}

fn check_anchored(record: &Record, anchor: Option<&Head>) -> Result<(), String> {
    match anchor {
        Some(anchor) if anchor.n == record.n && anchor.hash != record.hash => {
            Err(format!("record {} is not the one that was anchored", record.n))
        }
        _ => Ok(()),
    }
}

fn check_reached(
    dir: &Path,
    (number, lines): (u64, u64),
    head: &Head,
    anchor: Option<&Head>,
) -> Result<(), StoreError> {
    match anchor {
        Some(anchor) if anchor.n > head.n => {
            let why = format!("the journal ends at record {}, {} was anchored", head.n, anchor.n);
            Err(damaged(&segment::path(dir, number), lines + 1, why))
        }
        _ => Ok(()),
    }
}

/// The last `lines` records that can be read. Damaged lines are left out: for people who look, not for judging.
pub fn tail(dir: &Path, lines: usize) -> Vec<Record> {
    let mut all: Vec<Record> = Vec::new();
    for number in segment::list(dir).unwrap_or_default().into_iter().rev() {
        if all.len() >= lines {
            break;
        }
        let mut older = tail_of(dir, number, lines - all.len());
        older.append(&mut all);
        all = older;
    }
    all
}

/// Everything that still counts, as far as it can be read: each segment but the first begins with a snapshot of what came
/// before it. For those who only look.
pub fn latest(dir: &Path) -> Vec<Record> {
    let numbers = segment::list(dir).unwrap_or_default();
    let newest = numbers.into_iter().rev().map(|n| tail_of(dir, n, usize::MAX));
    newest.into_iter().find(|records| !records.is_empty()).unwrap_or_default()
}

fn tail_of(dir: &Path, number: u64, lines: usize) -> Vec<Record> {
    let Ok(mut reader) = segment::open(dir, number) else { return Vec::new() };
    let mut last = VecDeque::new();
    let mut bytes = Vec::new();
    while next_line(&mut reader, &mut bytes).unwrap_or(false) {
        let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let Ok(record) = decode(line) else { continue };
        if last.len() == lines {
            last.pop_front();
        }
        last.push_back(record);
    }
    last.into()
}

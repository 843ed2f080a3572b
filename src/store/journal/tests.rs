//! The journal against torn ends, changed bytes, cuts and crashes, on real files.

use super::*;
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

struct Place {
    root: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("journal")
    }

    fn pins(&self) -> PathBuf {
        self.root.path().join("pins.json")
    }

    fn segment(&self, number: u64) -> PathBuf {
        segment::path(&self.dir(), number)
    }

    fn open(&self) -> (Journal, Opened) {
        Journal::open(&self.dir(), &self.pins()).unwrap()
    }

    fn verify(&self) -> Result<Verified, StoreError> {
        verify(&self.dir(), &self.pins())
    }

    /// Two segments: two records, then a snapshot and two more. The head is anchored.
    fn filled() -> Self {
        let place = Self::new();
        let (mut journal, _) = place.open();
        add(&mut journal, 2);
        journal.rotate(&json!({"sum": 2}), at()).unwrap();
        add(&mut journal, 2);
        journal.close().unwrap();
        place
    }
}

fn at() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn add(journal: &mut Journal, count: u64) {
    for _ in 0..count {
        let body = json!({"text": "line\nend \"é\"", "n": journal.head().n});
        journal.append("decision", &body, at(), Durability::Synced).unwrap();
    }
}

fn numbers(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.n).collect()
}

/// File name, line and reason of the damage.
fn damage<T: std::fmt::Debug>(result: Result<T, StoreError>) -> (String, u64, String) {
    match result {
        Err(StoreError::JournalDamaged { file, line, why }) => {
            (file.file_name().unwrap().to_str().unwrap().to_owned(), line, why)
        }
        other => panic!("no damage reported: {other:?}"),
    }
}

#[test]
fn what_was_appended_is_read_back_in_order() {
    let place = Place::new();
    let (mut journal, opened) = place.open();
    assert!(opened.records.is_empty() && opened.notes.is_empty());
    assert_eq!(journal.append("a", &json!({"x": 1}), at(), Durability::Lazy).unwrap(), 1);
    assert_eq!(journal.append("b", &json!([]), at(), Durability::Synced).unwrap(), 2);
    drop(journal);
    let (journal, opened) = place.open();
    assert_eq!(numbers(&opened.records), [1, 2]);
    assert_eq!(opened.records[0].body, json!({"x": 1}));
    assert_eq!(opened.records[0].at, at());
    assert_eq!(opened.records[0].prev.as_str(), "0".repeat(64));
    assert_eq!(opened.records[1].prev, opened.records[0].hash);
    assert_eq!(journal.head().hash, opened.records[1].hash);
}

#[test]
fn the_line_format_is_pinned() {
    let place = Place::new();
    let (mut journal, _) = place.open();
    journal.append("k", &json!({"b": 1}), at(), Durability::Synced).unwrap();
    let zeros = "0".repeat(64);
    let hashed = format!(
        r#"{{"n":1,"at":"2026-01-01T00:00:00.000Z","prev":"{zeros}","kind":"k","body":{{"b":1}}"#
    );
    let hash = crate::model::Digest::of(hashed.as_bytes());
    let text = fs::read_to_string(place.segment(1)).unwrap();
    assert_eq!(text, format!("{hashed},\"hash\":\"{hash}\"}}\n"));
}

// covers: DM-08
#[test]
fn rotation_then_reopen_reads_from_the_last_snapshot() {
    let place = Place::filled();
    let (mut journal, opened) = place.open();
    assert_eq!(numbers(&opened.records), [3, 4, 5]);
    assert_eq!(
        (opened.records[0].kind.as_str(), &opened.records[0].body),
        ("snapshot", &json!({"sum": 2}))
    );
    journal.rotate(&json!({"sum": 5}), at()).unwrap();
    drop(journal);
    assert_eq!(numbers(&place.open().1.records), [6]);
    let verified = place.verify().unwrap();
    assert_eq!((verified.segments, verified.head.n), (3, 6));
    assert_eq!(verified.anchor, Some(verified.head));
}

#[test]
fn a_segment_over_the_limit_asks_for_the_next() {
    let place = Place::new();
    let (mut journal, _) = place.open();
    let body = json!("x".repeat(1 << 20));
    for wanted in [false, false, false, true] {
        journal.append("big", &body, at(), Durability::Lazy).unwrap();
        assert_eq!(journal.should_rotate(), wanted);
    }
    assert!(place.open().0.should_rotate(), "the size is known after a reopen too");
    journal.rotate(&json!({}), at()).unwrap();
    assert!(!journal.should_rotate());
}

#[test]
fn a_snapshot_that_no_line_holds_leaves_the_segment_as_it_is() {
    let place = Place::new();
    let (mut journal, _) = place.open();
    let body = json!("x".repeat(3 << 20));
    for _ in 0..2 {
        journal.append("big", &body, at(), Durability::Lazy).unwrap();
    }
    assert!(journal.should_rotate());
    let too_long = journal.rotate(&json!("x".repeat(LINE_MAX)), at());
    assert!(matches!(too_long, Err(StoreError::RecordTooLong { .. })));
    for wanted in [false, false, true] {
        assert!(!journal.should_rotate(), "it is not asked for with every record");
        journal.append("big", &body, at(), Durability::Lazy).unwrap();
        assert_eq!(journal.should_rotate(), wanted);
    }
    drop(journal);
    assert_eq!(place.open().1.records.len(), 5);
}

#[test]
fn a_snapshot_over_the_limit_is_not_written_again_at_once() {
    let place = Place::new();
    let (mut journal, _) = place.open();
    journal.append("small", &json!({}), at(), Durability::Lazy).unwrap();
    journal.rotate(&json!("x".repeat(5 << 20)), at()).unwrap();
    let body = json!("x".repeat(2 << 20));
    for wanted in [false, false, true] {
        assert!(!journal.should_rotate());
        journal.append("big", &body, at(), Durability::Lazy).unwrap();
        assert_eq!(place.open().0.should_rotate(), wanted);
    }
    assert!(journal.should_rotate());
}

// covers: DM-08, DM-06
#[test]
fn a_last_line_torn_at_any_byte_is_dropped_and_noted() {
    let place = Place::new();
    let (mut journal, _) = place.open();
    add(&mut journal, 3);
    drop(journal);
    let whole = fs::read(place.segment(1)).unwrap();
    let start = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for end in start + 1..whole.len() {
        let place = Place::new();
        fs::create_dir(place.dir()).unwrap();
        fs::write(place.segment(1), &whole[..end]).unwrap();
        assert_eq!(damage(place.verify()).1, 3, "cut at {end}");
        assert_eq!(fs::read(place.segment(1)).unwrap(), &whole[..end], "verify only reads");
        let (mut journal, opened) = place.open();
        assert_eq!(numbers(&opened.records), [1, 2], "cut at {end}");
        assert_eq!(opened.notes.len(), 1);
        assert_eq!(fs::read(place.dir().join("torn-3")).unwrap(), &whole[start..end]);
        assert_eq!(fs::read(place.segment(1)).unwrap(), &whole[..start]);
        add(&mut journal, 1);
        assert_eq!(place.verify().unwrap().head.n, 3);
        assert!(place.open().1.notes.is_empty());
    }
}

/// A journal with room after its last line, and the bytes of its only segment.
fn roomy() -> (Place, Vec<u8>) {
    let place = Place::new();
    let (mut journal, _) = place.open();
    add(&mut journal, 3);
    journal.make_room();
    let bytes = fs::read(place.segment(1)).unwrap();
    (place, bytes)
}

fn end_of_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').unwrap() + 1
}

// covers: DM-08
#[test]
fn lines_are_written_into_room_that_was_made_ahead() {
    let (place, bytes) = roomy();
    let end = end_of_lines(&bytes);
    assert!(bytes.len() > end + 1000 && bytes[end..].iter().all(|byte| *byte == 0));
    assert_eq!(place.verify().unwrap().head.n, 3);
    assert_eq!(numbers(&tail(&place.dir(), 2)), [2, 3]);
    let (mut journal, opened) = place.open();
    assert_eq!((numbers(&opened.records), opened.notes), (vec![1, 2, 3], Vec::new()));
    add(&mut journal, 1);
    assert_eq!(fs::metadata(place.segment(1)).unwrap().len(), bytes.len() as u64);
    assert_eq!(place.verify().unwrap().head.n, 4);
    journal.close().unwrap();
    assert!(!fs::read(place.segment(1)).unwrap().contains(&0), "whoever leaves clears up");
    assert_eq!(place.verify().unwrap().head.n, 4);
    journal.rotate(&json!({}), at()).unwrap();
    assert!(!fs::read(place.segment(1)).unwrap().contains(&0), "nothing is left of it");
    add(&mut journal, 1);
    journal.make_room();
    assert!(fs::read(place.segment(2)).unwrap().contains(&0));
    journal.close().unwrap();
    assert!(!fs::read(place.segment(2)).unwrap().contains(&0));
    assert_eq!(place.verify().unwrap().head.n, 6);
}

#[test]
fn a_disk_without_room_for_more_takes_nothing_away() {
    let place = Place::new();
    let (mut journal, _) = place.open();
    add(&mut journal, 1);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let file = std::mem::replace(&mut journal.file, full);
    journal.make_room();
    journal.file = file;
    add(&mut journal, 1);
    assert_eq!(place.verify().unwrap().head.n, 2);
}

#[test]
fn a_line_larger_than_the_room_is_whole() {
    let (place, bytes) = roomy();
    let (mut journal, _) = place.open();
    journal.append("big", &json!("x".repeat(bytes.len())), at(), Durability::Synced).unwrap();
    journal.make_room();
    add(&mut journal, 1);
    drop(journal);
    assert_eq!(numbers(&place.open().1.records), [1, 2, 3, 4, 5]);
    assert_eq!(place.verify().unwrap().head.n, 5);
}

// covers: DM-08, DM-06
#[test]
fn a_line_torn_in_its_room_is_dropped_wherever_it_has_holes() {
    let (place, whole) = roomy();
    let end = end_of_lines(&whole);
    let start = end_of_lines(&whole[..end - 1]);
    for from in start..end {
        for hole in [start..from, from..end] {
            let mut torn = whole.clone();
            torn[hole].fill(0);
            fs::write(place.segment(1), &torn).unwrap();
            let left = &torn[start..];
            let last = left.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            if left[..last] == whole[start..end] {
                continue;
            }
            assert_eq!(place.verify().is_err(), last > 0, "{from}");
            let (journal, opened) = place.open();
            assert_eq!((journal.head().n, opened.notes.len()), (2, usize::from(last > 0)));
            if last > 0 {
                let kept = fs::read(place.dir().join("torn-3")).unwrap();
                assert_eq!(kept, &left[..last], "{from}");
                fs::remove_file(place.dir().join("torn-3")).unwrap();
            }
        }
    }
}

// covers: DM-08
#[test]
fn zeros_before_a_whole_line_are_damage() {
    let (place, mut bytes) = roomy();
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    bytes[second + 10..second + 20].fill(0);
    fs::write(place.segment(1), &bytes).unwrap();
    refuses(&place, ("000001.jsonl", 2));
}

#[test]
fn torn_bytes_of_two_crashes_at_one_record_are_both_kept() {
    let place = Place::new();
    for torn in ["{\"n\":", "{\"n\":1,", "{\"n\":"] {
        fs::create_dir_all(place.dir()).unwrap();
        fs::write(place.segment(1), torn).unwrap();
        assert_eq!(place.open().1.notes.len(), 1);
    }
    assert_eq!(fs::read_to_string(place.dir().join("torn-1")).unwrap(), "{\"n\":");
    assert_eq!(fs::read_to_string(place.dir().join("torn-1-2")).unwrap(), "{\"n\":1,");
    assert!(!place.dir().join("torn-1-3").exists());
}

// covers: DM-08
#[test]
fn a_flip_of_any_byte_is_found_with_file_and_line() {
    let place = Place::filled();
    for number in [1, 2] {
        let path = place.segment(number);
        let whole = fs::read(&path).unwrap();
        let mut line = 1;
        for (position, byte) in whole.iter().enumerate() {
            for mask in [0x01, 0x20, 0x80] {
                let mut flipped = whole.clone();
                flipped[position] ^= mask;
                fs::write(&path, &flipped).unwrap();
                let (file, found, _) = damage(place.verify());
                assert_eq!(file, path.file_name().unwrap().to_str().unwrap());
                assert_eq!(found, line, "byte {position} mask {mask}");
            }
            line += u64::from(*byte == b'\n');
        }
        fs::write(&path, &whole).unwrap();
    }
    place.verify().unwrap();
}

/// What `open` refuses must also be left as it was.
fn refuses(place: &Place, wanted: (&str, u64)) {
    let (file, line, _) = damage(place.verify());
    assert_eq!((file.as_str(), line), wanted);
    let before = fs::read(place.segment(1)).unwrap();
    damage(Journal::open(&place.dir(), &place.pins()));
    assert_eq!(fs::read(place.segment(1)).unwrap(), before);
}

fn single(count: u64) -> (Place, Vec<String>) {
    let place = Place::new();
    let (mut journal, _) = place.open();
    add(&mut journal, count);
    journal.close().unwrap();
    let text = fs::read_to_string(place.segment(1)).unwrap();
    let lines = text.split_inclusive('\n').map(str::to_owned).collect();
    (place, lines)
}

// covers: DM-08
#[test]
fn lines_cut_from_the_end_are_found_by_the_anchor() {
    let (place, lines) = single(4);
    for left in 0..4 {
        fs::write(place.segment(1), lines[..left].concat()).unwrap();
        refuses(&place, ("000001.jsonl", left as u64 + 1));
        // The last line lost and the one before torn: still a cut, not a torn end.
        let torn = lines[..left].concat() + &lines[left][..10];
        fs::write(place.segment(1), torn).unwrap();
        refuses(&place, ("000001.jsonl", left as u64 + 1));
    }
    fs::remove_dir_all(place.dir()).unwrap();
    assert_eq!(damage(place.verify()).1, 1);
}

// covers: DM-08
#[test]
fn missing_and_reordered_and_repeated_lines_are_found() {
    let (place, lines) = single(4);
    let l = |order: &[usize]| order.iter().map(|i| lines[*i].as_str()).collect::<String>();
    for (order, line) in
        [(&[0, 2, 1, 3][..], 2), (&[1, 2, 3], 1), (&[0, 1, 3], 3), (&[0, 0, 1, 2, 3], 2)]
    {
        fs::write(place.segment(1), l(order)).unwrap();
        refuses(&place, ("000001.jsonl", line));
    }
}

#[test]
fn a_chain_written_anew_is_not_the_anchored_one() {
    let (place, _) = single(3);
    fs::remove_dir_all(place.dir()).unwrap();
    let (mut forger, _) =
        Journal::open(&place.dir(), &place.root.path().join("other.json")).unwrap();
    for _ in 0..4 {
        forger.append("forged", &json!({}), at(), Durability::Synced).unwrap();
    }
    refuses(&place, ("000001.jsonl", 3));
}

// covers: DM-08
#[test]
fn missing_and_swapped_segments_are_found() {
    let place = Place::filled();
    let (one, two, aside) = (place.segment(1), place.segment(2), place.dir().join("aside"));
    fs::rename(&one, &aside).unwrap();
    assert_eq!(damage(place.verify()).0, "000001.jsonl");
    assert_eq!(damage(Journal::open(&place.dir(), &place.pins())).2, "the segment is missing");
    fs::rename(&two, &one).unwrap();
    fs::rename(&aside, &two).unwrap();
    refuses(&place, ("000001.jsonl", 1));
    fs::remove_file(&two).unwrap();
    fs::remove_file(&one).unwrap();
    damage(place.verify());
}

#[test]
fn a_lost_last_segment_is_found_by_the_anchor() {
    let place = Place::filled();
    fs::remove_file(place.segment(2)).unwrap();
    refuses(&place, ("000001.jsonl", 3));
}

// covers: DM-06
#[test]
fn a_segment_without_a_whole_first_line_is_removed() {
    let place = Place::new();
    let (mut journal, _) = place.open();
    add(&mut journal, 2);
    let (first, _) = line::encode(journal.head(), SNAPSHOT, &json!({}), at()).unwrap();
    drop(journal);
    for end in 0..first.len() {
        fs::write(place.segment(2), &first[..end]).unwrap();
        damage(place.verify());
        let (_, opened) = place.open();
        assert_eq!(numbers(&opened.records), [1, 2]);
        assert_eq!(opened.notes.len(), 1, "cut at {end}");
        assert!(!place.segment(2).exists());
        place.verify().unwrap();
    }
    fs::write(place.segment(2), &first).unwrap();
    assert_eq!(numbers(&place.open().1.records), [3]);
}

#[test]
fn a_snapshot_that_was_anchored_is_never_taken_for_unfinished() {
    let place = Place::new();
    let (mut journal, _) = place.open();
    add(&mut journal, 1);
    journal.rotate(&json!({}), at()).unwrap();
    drop(journal);
    let text = fs::read(place.segment(2)).unwrap();
    fs::write(place.segment(2), &text[..text.len() - 1]).unwrap();
    damage(Journal::open(&place.dir(), &place.pins()));
    assert_eq!(fs::read(place.segment(2)).unwrap(), &text[..text.len() - 1]);
}

#[test]
fn damage_before_the_end_is_never_repaired() {
    let (place, lines) = single(3);
    let bad = lines[1].replace("decision", "decisioN");
    fs::write(place.segment(1), [&lines[0], &bad, &lines[2]].map(String::as_str).concat()).unwrap();
    refuses(&place, ("000001.jsonl", 2));
    // The last line too, as long as it has its end.
    let bad = lines[2].replace("decision", "decisioN");
    fs::write(place.segment(1), [&lines[0], &lines[1], &bad].map(String::as_str).concat()).unwrap();
    refuses(&place, ("000001.jsonl", 3));
}

#[test]
fn a_line_that_is_too_long_is_damage_and_never_written() {
    let place = Place::new();
    let (mut journal, _) = place.open();
    add(&mut journal, 1);
    let body = json!("x".repeat(LINE_MAX));
    let error = journal.append("big", &body, at(), Durability::Synced).unwrap_err();
    assert!(matches!(error, StoreError::RecordTooLong { .. }), "{error}");
    add(&mut journal, 1);
    drop(journal);
    let mut file = File::options().append(true).open(place.segment(1)).unwrap();
    file.write_all(&vec![b'x'; LINE_MAX + 1]).unwrap();
    refuses(&place, ("000001.jsonl", 3));
}

#[test]
fn a_body_that_could_not_be_read_back_is_refused() {
    let place = Place::new();
    let (mut journal, _) = place.open();
    let deep = |levels: usize| {
        (0..levels).fold(json!(1), |inner, at| match at % 2 {
            0 => json!([inner]),
            _ => json!({ "in": inner }),
        })
    };
    for levels in [127, 200] {
        let error = journal.append("deep", &deep(levels), at(), Durability::Synced).unwrap_err();
        assert!(matches!(error, StoreError::RecordUnreadable { .. }), "{error}");
    }
    journal.append("deep", &deep(126), at(), Durability::Synced).unwrap();
    add(&mut journal, 1);
    drop(journal);
    assert_eq!(place.verify().unwrap().head.n, 2);
    let (_, opened) = place.open();
    assert_eq!(opened.records[0].body, deep(126), "the deepest that is taken can be read");
}

#[test]
fn a_failed_write_poisons_the_journal() {
    let place = Place::new();
    let (mut journal, _) = place.open();
    add(&mut journal, 1);
    let file = std::mem::replace(
        &mut journal.file,
        File::options().append(true).open("/dev/full").unwrap(),
    );
    let error = journal.append("k", &json!({}), at(), Durability::Lazy).unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    journal.file = file;
    for result in [
        journal.append("k", &json!({}), at(), Durability::Lazy).map(drop),
        journal.rotate(&json!({}), at()),
        journal.close(),
    ] {
        assert!(matches!(result, Err(StoreError::Poisoned)), "{result:?}");
    }
    assert_eq!(place.verify().unwrap().head.n, 1);
}

#[test]
fn a_failed_rotation_poisons_the_journal() {
    let place = Place::new();
    let (mut journal, _) = place.open();
    add(&mut journal, 1);
    fs::write(place.segment(2), "in the way").unwrap();
    assert!(matches!(journal.rotate(&json!({}), at()), Err(StoreError::Io { .. })));
    let error = journal.append("k", &json!({}), at(), Durability::Lazy).unwrap_err();
    assert!(matches!(error, StoreError::Poisoned), "{error}");
}

#[test]
fn the_anchor_is_written_now_and_then_and_leaves_other_pins_alone() {
    let place = Place::new();
    fs::write(place.pins(), r#"{"gates":{"sha":"abc"}}"#).unwrap();
    let (mut journal, _) = place.open();
    let anchored = || anchor::read(&place.pins()).unwrap().map(|head| head.n);
    add(&mut journal, 1);
    assert_eq!(anchored(), Some(1), "a new journal is known from its first record on");
    add(&mut journal, 63);
    assert_eq!(anchored(), Some(1));
    add(&mut journal, 1);
    assert_eq!(anchored(), Some(65));
    let later = at() + ANCHOR_AFTER;
    journal.append("k", &json!({}), later, Durability::Synced).unwrap();
    assert_eq!(anchored(), Some(66), "a minute later the next record is anchored");
    journal.append("lazy", &json!({}), at(), Durability::Lazy).unwrap();
    journal.close().unwrap();
    assert_eq!(anchored(), Some(67));
    let pins: Value = serde_json::from_slice(&fs::read(place.pins()).unwrap()).unwrap();
    assert_eq!(pins["gates"]["sha"], "abc");
}

#[test]
fn unreadable_pins_are_an_error_and_not_overwritten() {
    let place = Place::filled();
    fs::write(place.pins(), "{").unwrap();
    assert!(matches!(place.verify(), Err(StoreError::Pins { .. })));
    assert!(matches!(Journal::open(&place.dir(), &place.pins()), Err(StoreError::Pins { .. })));
    assert_eq!(fs::read(place.pins()).unwrap(), b"{");
}

#[test]
fn the_tail_goes_over_segments_and_skips_damage() {
    let place = Place::filled();
    assert_eq!(numbers(&tail(&place.dir(), 2)), [4, 5]);
    assert_eq!(numbers(&tail(&place.dir(), 4)), [2, 3, 4, 5]);
    assert_eq!(numbers(&tail(&place.dir(), 99)), [1, 2, 3, 4, 5]);
    assert!(tail(&place.dir(), 0).is_empty());
    let text =
        fs::read_to_string(place.segment(2)).unwrap().replace("{\"n\":4,\"at\"", "{\"n\":7,\"at\"");
    fs::write(place.segment(2), text + "{\"torn").unwrap();
    assert_eq!(numbers(&tail(&place.dir(), 3)), [2, 3, 5]);
    assert!(tail(&place.root.path().join("none"), 3).is_empty());
}

// covers: DM-08
#[test]
fn a_line_forged_with_a_right_hash_breaks_the_chain() {
    let (place, lines) = single(3);
    let head = Head::of(&line::decode(lines[0].trim_end().as_bytes()).unwrap());
    let forge = |head: &Head| {
        let (text, _) = line::encode(head, "forged", &json!({}), at()).unwrap();
        String::from_utf8(text).unwrap()
    };
    fs::write(place.segment(1), [&lines[0], &forge(&head), &lines[2]].map(String::as_str).concat())
        .unwrap();
    refuses(&place, ("000001.jsonl", 3));
    let skipping = forge(&Head { n: head.n + 5, ..head });
    fs::write(place.segment(1), [&lines[0], &skipping].map(String::as_str).concat()).unwrap();
    refuses(&place, ("000001.jsonl", 2));
}

#[test]
fn a_segment_that_does_not_begin_with_a_snapshot_is_refused() {
    let place = Place::new();
    let (mut journal, _) = place.open();
    add(&mut journal, 1);
    let (text, _) = line::encode(journal.head(), "decision", &json!({}), at()).unwrap();
    fs::write(place.segment(2), text).unwrap();
    let (file, line, why) = damage(Journal::open(&place.dir(), &place.pins()));
    assert_eq!((file.as_str(), line), ("000002.jsonl", 1));
    assert!(why.contains("snapshot"), "{why}");
    assert_eq!(damage(place.verify()), (file, line, why));
}

#[test]
fn a_snapshot_inside_a_segment_counts_too() {
    let place = Place::new();
    let (mut journal, _) = place.open();
    add(&mut journal, 2);
    journal.append(SNAPSHOT, &json!({}), at(), Durability::Synced).unwrap();
    add(&mut journal, 1);
    assert_eq!(numbers(&place.open().1.records), [3, 4]);
}

/// Six segments of two records and a snapshot each.
fn long() -> Place {
    let place = Place::new();
    let (mut journal, _) = place.open();
    for _ in 0..5 {
        add(&mut journal, 2);
        journal.rotate(&json!({}), at()).unwrap();
    }
    add(&mut journal, 2);
    journal.close().unwrap();
    place
}

fn written_at(place: &Place, number: u64, at: Timestamp) {
    let paths = [place.segment(number), segment::packed_path(&place.dir(), number)];
    let file = paths.iter().find_map(|path| File::options().append(true).open(path).ok()).unwrap();
    file.set_modified(at.into()).unwrap();
}

// covers: DM-08
#[test]
fn packed_segments_are_verified_and_read_like_plain_ones() {
    let place = long();
    let whole = place.verify().unwrap();
    let all = numbers(&tail(&place.dir(), 99));
    written_at(&place, 2, at());
    assert_eq!(pack(&place.dir()).unwrap(), 4);
    assert_eq!(pack(&place.dir()).unwrap(), 0, "nothing is packed twice");
    let packed = segment::packed_path(&place.dir(), 2);
    assert_eq!(Timestamp::from(packed.metadata().unwrap().modified().unwrap()), at());
    assert!(!place.segment(4).exists() && place.segment(5).exists());
    assert_eq!(place.verify().unwrap(), whole);
    assert_eq!(numbers(&tail(&place.dir(), 99)), all);
    let (mut journal, opened) = place.open();
    assert_eq!(numbers(&opened.records), [15, 16, 17]);
    add(&mut journal, 1);
    // A segment that was packed and not yet removed counts once.
    fs::write(place.segment(1), "").unwrap();
    damage(place.verify());
    fs::remove_file(place.segment(1)).unwrap();
    let bytes = fs::read(&packed).unwrap();
    fs::write(&packed, &bytes[..bytes.len() / 2]).unwrap();
    assert!(place.verify().is_err(), "a packed segment that was cut");
    fs::remove_file(&packed).unwrap();
    assert_eq!(damage(place.verify()).2, "the segment is missing");
}

// covers: DM-08
#[test]
fn old_segments_go_and_what_is_left_is_still_verified() {
    let place = long();
    pack(&place.dir()).unwrap();
    let (mut journal, _) = place.open();
    let keep_from = at();
    (1..=6).for_each(|number| written_at(&place, number, at()));
    assert_eq!(journal.prune(keep_from).unwrap(), 0, "none is older than that");
    let old = at() - TimeDelta::days(100);
    [1, 2, 4].iter().for_each(|number| written_at(&place, *number, old));
    assert_eq!(journal.prune(keep_from).unwrap(), 2, "only from the beginning on");
    assert_eq!(segment::list(&place.dir()).unwrap(), [3, 4, 5, 6]);
    assert_eq!(place.verify().unwrap().segments, 4);
    add(&mut journal, 1);
    journal.close().unwrap();
    place.verify().unwrap();
    // After a crash between the base and the deletion, the rest goes the next time.
    fs::write(place.segment(2), "left over").unwrap();
    place.verify().unwrap();
    written_at(&place, 2, old);
    assert_eq!(journal.prune(keep_from).unwrap(), 1);
    // The two newest stay whatever their age, because opening reads both.
    (3..=6).for_each(|number| written_at(&place, number, old));
    journal.prune(keep_from).unwrap();
    assert_eq!(segment::list(&place.dir()).unwrap(), [5, 6]);
    place.verify().unwrap();
    place.open();
    fs::remove_file(place.segment(5)).unwrap();
    damage(place.verify());
}

// covers: DM-08
#[test]
fn a_damaged_journal_is_kept_beside_the_new_one() {
    let place = Place::filled();
    let bytes = fs::read(place.segment(1)).unwrap();
    fs::remove_file(place.segment(2)).unwrap();
    damage(place.verify());
    let aside = Journal::set_aside(&place.dir(), &place.pins(), at()).unwrap();
    assert_eq!(fs::read(segment::path(&aside, 1)).unwrap(), bytes);
    let (mut journal, opened) = place.open();
    assert!(opened.records.is_empty());
    add(&mut journal, 1);
    place.verify().unwrap();
    fs::write(place.pins(), "{").unwrap();
    let later = at() + TimeDelta::seconds(1);
    Journal::set_aside(&place.dir(), &place.pins(), later).unwrap();
    place.open();
}

// covers: DM-08, DM-21
#[test]
fn after_a_failed_sync_the_last_segment_is_a_new_file() {
    use std::os::unix::fs::MetadataExt as _;
    let place = Place::new();
    let (mut journal, _) = place.open();
    add(&mut journal, 3);
    let inode = |place: &Place| place.segment(1).metadata().unwrap().ino();
    let before = inode(&place);
    drop(journal);
    let (mut journal, opened) = place.open();
    assert!(!opened.was_rewritten && inode(&place) == before, "nothing failed yet");
    add(&mut journal, 1);
    journal.distrust();
    let refused = journal.append("decision", &json!({}), at(), Durability::Synced);
    assert!(matches!(refused, Err(StoreError::Poisoned)));
    drop(journal);
    let (mut journal, opened) = place.open();
    assert!(opened.was_rewritten && inode(&place) != before, "the old pages are not trusted");
    assert_eq!(numbers(&opened.records), [1, 2, 3, 4]);
    assert!(opened.notes[0].contains("anew"), "{:?}", opened.notes);
    add(&mut journal, 1);
    journal.close().unwrap();
    assert!(place.verify().is_ok());
    let again = inode(&place);
    let (_, opened) = place.open();
    assert!(!opened.was_rewritten && inode(&place) == again, "once is enough");
}

// covers: DM-08, DM-21
#[test]
fn a_write_that_fails_is_distrusted_by_the_next_process_too() {
    let place = Place::new();
    let (mut journal, _) = place.open();
    add(&mut journal, 2);
    // A file that cannot be written: the append fails as on a broken disk.
    journal.file = File::open(place.segment(1)).unwrap();
    let failed = journal.append("decision", &json!({}), at(), Durability::Synced);
    assert!(matches!(failed, Err(StoreError::Io { .. })), "{failed:?}");
    drop(journal);
    assert!(place.dir().join("sync-failed").exists());
    let (_, opened) = place.open();
    assert!(opened.was_rewritten);
    assert_eq!(numbers(&opened.records), [1, 2]);
    assert!(!place.dir().join("sync-failed").exists());
}

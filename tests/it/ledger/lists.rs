//! LG-17: feature lists as people have them, each read, marked and written back in its own shape.

use super::Desk;
use serde_json::Value;

/// A list, and what must be read from it.
struct Shape {
    what: &'static str,
    text: &'static str,
    /// Passing and total.
    count: (usize, usize),
    /// Id and label of the next one; the id is marked as passing, and then must say this in its field.
    next: (&'static str, &'static str),
    marked: (&'static str, &'static str),
}

const SHAPES: &[Shape] = &[
    Shape {
        what: "the protocol's own",
        text: "{\n  \"project_name\": \"Inn\",\n  \"features\": [\n    {\n      \"id\": \"F001\",\n      \"name\": \"Rooms\",\n      \"passes\": true\n    },\n    {\n      \"id\": \"F002\",\n      \"name\": \"Beds\",\n      \"passes\": false\n    }\n  ]\n}\n",
        count: (1, 2),
        next: ("F002", "Beds"),
        marked: ("passes", "true"),
    },
    Shape {
        what: "a bare list with one entry on each line",
        text: "[\n  {\"id\": \"a\", \"name\": \"Rooms\", \"passes\": true},\n  {\"id\": \"b\", \"name\": \"Beds\", \"passes\": false}\n]\n",
        count: (1, 2),
        next: ("b", "Beds"),
        marked: ("passes", "true"),
    },
    Shape {
        what: "one line without spaces",
        text: "[{\"id\":\"a\",\"passes\":true,\"description\":\"Rooms\"},{\"id\":\"b\",\"passes\":false,\"description\":\"Beds\"}]",
        count: (1, 2),
        next: ("b", "Beds"),
        marked: ("passes", "true"),
    },
    Shape {
        what: "status done and pending",
        text: "{\n    \"features\": [\n        {\"id\": \"auth-1\", \"title\": \"Rooms\", \"status\": \"done\"},\n        {\"id\": \"auth-2\", \"title\": \"Beds\", \"status\": \"pending\"}\n    ]\n}\n",
        count: (1, 2),
        next: ("auth-2", "Beds"),
        marked: ("status", "done"),
    },
    Shape {
        what: "status completed and in_progress",
        text: "{\"features\": [{\"id\": \"A\", \"name\": \"Rooms\", \"status\": \"completed\"}, {\"id\": \"B\", \"name\": \"Beds\", \"status\": \"in_progress\"}]}\n",
        count: (1, 2),
        next: ("B", "Beds"),
        marked: ("status", "completed"),
    },
    Shape {
        what: "state words",
        text: "[\n\t{\n\t\t\"id\": \"A\",\n\t\t\"title\": \"Beds\",\n\t\t\"state\": \"not-started\"\n\t}\n]\n",
        count: (0, 1),
        next: ("A", "Beds"),
        marked: ("state", "done"),
    },
    Shape {
        what: "integer ids",
        text: "{\"features\": [\n  {\"id\": 1, \"name\": \"Rooms\", \"passes\": true},\n  {\"id\": 2, \"name\": \"Beds\", \"passes\": false}\n]}\n",
        count: (1, 2),
        next: ("2", "Beds"),
        marked: ("passes", "true"),
    },
    Shape {
        what: "integer ids and words",
        text: "{\"features\": [{\"id\": 7, \"description\": \"Beds\", \"status\": \"todo\"}]}",
        count: (0, 1),
        next: ("7", "Beds"),
        marked: ("status", "done"),
    },
    Shape {
        what: "a byte-order mark and CRLF",
        text: "\u{feff}{\r\n  \"features\": [\r\n    {\r\n      \"id\": \"F001\",\r\n      \"name\": \"Beds\",\r\n      \"passes\": false\r\n    }\r\n  ]\r\n}\r\n",
        count: (0, 1),
        next: ("F001", "Beds"),
        marked: ("passes", "true"),
    },
    Shape {
        what: "steps and categories, as long-running harnesses write them",
        text: "[\n  {\n    \"id\": \"F001\",\n    \"category\": \"functional\",\n    \"description\": \"Beds\",\n    \"steps\": [\"Open\", \"Lie down\"],\n    \"passes\": false\n  }\n]\n",
        count: (0, 1),
        next: ("F001", "Beds"),
        marked: ("passes", "true"),
    },
    Shape {
        what: "numbers and escapes that a printer would write otherwise",
        text: "{\"v\": 1.50, \"features\": [{\"id\": \"F001\", \"name\": \"B\\u0065ds\", \"cost\": 1e3, \"passes\": false}], \"t\": \"\\/\"}",
        count: (0, 1),
        next: ("F001", "Beds"),
        marked: ("passes", "true"),
    },
    Shape {
        what: "passing and incomplete",
        text: "{\"meta\": {\"n\": 2}, \"features\": [\n  { \"id\": \"A\", \"name\": \"Rooms\", \"status\": \"passing\" },\n  { \"id\": \"B\", \"name\": \"Beds\", \"status\": \"incomplete\" }\n]}\n",
        count: (1, 2),
        next: ("B", "Beds"),
        marked: ("status", "passing"),
    },
    Shape {
        what: "a status of its own beside passes",
        text: "[{\"id\": \"A\", \"name\": \"Beds\", \"status\": \"beta\", \"passes\": false}]",
        count: (0, 1),
        next: ("A", "Beds"),
        marked: ("passes", "true"),
    },
    Shape {
        what: "neither passes nor status",
        text: "{\"features\": [{\"id\": \"A\", \"name\": \"Beds\", \"priority\": 1}]}",
        count: (0, 1),
        next: ("A", "Beds"),
        marked: ("passes", "true"),
    },
    Shape {
        what: "words in capitals",
        text: "[{\"id\": \"A\", \"name\": \"Beds\", \"status\": \"TODO\"}]",
        count: (0, 1),
        next: ("A", "Beds"),
        marked: ("status", "DONE"),
    },
];

fn entries(text: &str) -> Vec<Value> {
    let whole: Value = serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap();
    let list = whole.as_array().or_else(|| whole["features"].as_array());
    list.unwrap().clone()
}

// covers: LG-17
#[test]
fn every_shape_is_read_and_marked_in_its_own_field() {
    for Shape { what, text, count: (passing, total), next: (id, label), marked: (field, word) } in
        SHAPES
    {
        let desk = Desk::new();
        desk.write("feature_list.json", text);
        let stats = desk.ok(&["features", "stats"]);
        assert!(stats.contains(&format!("Total: {passing}/{total} (")), "{what}: {stats}");
        assert!(stats.contains(&format!("Next: {id}\n")), "{what}: {stats}");
        let listed = desk.ok(&["features", "list"]);
        assert!(listed.contains(&format!("{id}: {label} [pending]")), "{what}: {listed}");
        assert_eq!(desk.read("feature_list.json"), *text, "{what}: reading changes nothing");

        desk.ok(&["features", "pass", id]);
        let after = desk.read("feature_list.json");
        let said = |entry: &Value| match &entry[*field] {
            Value::String(word) => word.clone(),
            other => other.to_string(),
        };
        let (old, new) = (entries(text), entries(&after));
        let at =
            new.iter().position(|entry| said(entry) == *word && entry["passed_at"].is_string());
        let at = at.unwrap_or_else(|| panic!("{what}: {after}"));
        assert!(
            old[at].get("passes").is_some()
                || new[at].get("passes").is_none()
                || *field == "passes"
        );
        only_one_entry_changed(what, text, &after);
        assert!(
            desk.ok(&["features", "stats"]).contains(&format!("Total: {}/{total}", passing + 1))
        );

        desk.ok(&["features", "fail", id, "--reason", "it creaks"]);
        let failed = desk.read("feature_list.json");
        only_one_entry_changed(what, &after, &failed);
        assert!(desk.ok(&["features", "stats"]).contains(&format!("Total: {passing}/{total}")));
    }
    assert!(SHAPES.len() >= 12);
}

/// Bytes in front of the first difference and behind the last one hold every other entry whole.
fn only_one_entry_changed(what: &str, before: &str, after: &str) {
    let (old, new) = (entries(before), entries(after));
    assert_eq!(old.len(), new.len());
    let changed = old.iter().zip(&new).filter(|(old, new)| old != new).count();
    assert_eq!(changed, 1, "{what}: {after}");
    let front = before.bytes().zip(after.bytes()).take_while(|(a, b)| a == b).count();
    let back = before.bytes().rev().zip(after.bytes().rev()).take_while(|(a, b)| a == b).count();
    let touched = &before[front..before.len().saturating_sub(back).max(front)];
    assert!(!touched.contains('}') && !touched.contains('{'), "{what}: {touched}");
}

// covers: LG-17
#[test]
fn entries_without_ids_are_read_by_place_and_get_ids_from_adopt() {
    let desk = Desk::new();
    let text = "{\n  \"features\": [\n    {\"name\": \"Rooms\", \"passes\": true},\n    {\"name\": \"Beds\", \"passes\": false},\n    {\"name\": \"Crash\", \"type\": \"bug\", \"passes\": false}\n  ]\n}\n";
    desk.write("feature_list.json", text);
    assert!(desk.ok(&["features", "stats"]).contains("Next: #3 (bug - priority)"));
    assert!(desk.ok(&["features", "get", "#2"]).contains("Beds"));
    let refused = desk.fails(1, &["features", "pass", "#2"]);
    assert!(refused.contains("agency ledger adopt"), "{refused}");
    assert!(desk.fails(1, &["features", "pass-batch", "#2"]).contains("agency ledger adopt"));
    assert_eq!(desk.read("feature_list.json"), text);
    let said = desk.ok(&["ledger", "adopt"]);
    assert!(said.contains("Wrote 3 ids: FEAT-001, FEAT-002, BUG-001"), "{said}");
    let wanted = text
        .replace("{\"name\": \"Rooms\"", "{\"id\": \"FEAT-001\", \"name\": \"Rooms\"")
        .replace("{\"name\": \"Beds\"", "{\"id\": \"FEAT-002\", \"name\": \"Beds\"")
        .replace("{\"name\": \"Crash\"", "{\"id\": \"BUG-001\", \"name\": \"Crash\"");
    assert_eq!(desk.read("feature_list.json"), wanted);
    assert!(desk.ok(&["ledger", "adopt"]).contains("nothing was changed"));
    assert_eq!(desk.read("feature_list.json"), wanted);
    desk.ok(&["features", "pass", "FEAT-002"]);
    desk.write("feature_list.json", r#"[{"id": 4, "name": "a"}, {"name": "b"}]"#);
    desk.ok(&["ledger", "adopt"]);
    assert_eq!(
        desk.read("feature_list.json"),
        r#"[{"id": 4, "name": "a"}, {"id": 5, "name": "b"}]"#
    );
    desk.write("feature_list.json", r#"[{"id": 4, "name": "a"}, {"id": "4", "name": "b"}]"#);
    assert!(desk.fails(1, &["ledger", "adopt"]).contains("the id `4` twice"));
}

// covers: LG-17
#[test]
fn an_unknown_word_is_refused_by_name_and_place() {
    let desk = Desk::new();
    let text = r#"[{"id": "A", "status": "done"}, {"id": "B", "status": "shipped"}]"#;
    desk.write("feature_list.json", text);
    let said = desk.fails(1, &["features", "next"]);
    for words in ["LG-17", "`status` `\"shipped\"`", "features[1]", "not-started", "in_progress"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(desk.read("feature_list.json"), text);
}

// covers: LG-17
#[test]
fn new_entries_follow_the_shape_of_the_list() {
    let desk = Desk::new();
    desk.write("feature_list.json", "[\n  {\"id\": 1, \"name\": \"a\", \"status\": \"done\"}\n]\n");
    desk.ok(&["features", "append", "--entries", r#"[{"name": "b"}]"#]);
    assert_eq!(
        desk.read("feature_list.json"),
        "[\n  {\"id\": 1, \"name\": \"a\", \"status\": \"done\"},\n  {\"id\": 2, \"name\": \"b\", \"status\": \"todo\"}\n]\n"
    );
}

// covers: LG-01, LG-17
#[test]
fn a_byte_order_mark_is_read_in_every_file_and_utf_16_is_named() {
    let desk = Desk::new();
    for (name, text, words) in [
        ("progress.json", include_str!("spec/progress.json"), ["progress", "next-session-id"]),
        ("reviews.json", include_str!("spec/reviews.json"), ["reviews", "next-review-id"]),
        ("feature_list.json", super::FEATURES, ["features", "stats"]),
    ] {
        desk.write(name, &format!("\u{feff}{text}"));
        desk.ok(&words);
        std::fs::write(desk.at(name), [&[0xff, 0xfe][..], b"{\0}\0"].concat()).unwrap();
        assert!(desk.fails(1, &words).contains("UTF-16"), "{name}");
        std::fs::remove_file(desk.at(name)).unwrap();
    }
}

//! Layouts by example, and a property over random documents: an edit changes only the bytes of its entry.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn edited(text: &str, edit: impl FnOnce(&mut Value)) -> String {
    let mut document =
        Sourced::read(&RelPath::fixed("feature_list.json"), text.as_bytes()).unwrap();
    edit(&mut document);
    String::from_utf8(document.to_bytes()).unwrap()
}

// covers: LG-17
#[test]
fn an_edit_keeps_the_layout_around_it() {
    type Row = (&'static str, fn(&mut Value), &'static str);
    let rows: &[Row] = &[
        ("[{\"a\":1},{\"b\": 2}]", |v| v[1]["b"] = json!(3), "[{\"a\":1},{\"b\": 3}]"),
        ("{\"a\":1}", |v| v["c"] = json!([1, {"d": null}]), "{\"a\":1, \"c\":[1, {\"d\": null}]}"),
        (
            "{\r\n\t\"a\": 1\r\n}\r\n",
            |v| v["b"] = json!({"c": [1]}),
            "{\r\n\t\"a\": 1,\r\n\t\"b\": {\r\n\t\t\"c\": [\r\n\t\t\t1\r\n\t\t]\r\n\t}\r\n}\r\n",
        ),
        ("[]", |v| *v = json!([{"a": 1}]), "[\n  {\n    \"a\": 1\n  }\n]"),
        (
            "[\n  {\"a\": 1},\n  {\"a\": 2}\n]",
            |v| v.as_array_mut().unwrap().push(json!({"a": 3, "b": []})),
            "[\n  {\"a\": 1},\n  {\"a\": 2},\n  {\"a\": 3, \"b\": []}\n]",
        ),
        (
            "{\"n\": 1e2, \"s\": \"\\u00e4\", \"t\": 0}",
            |v| v["t"] = json!(1),
            "{\"n\": 1e2, \"s\": \"\\u00e4\", \"t\": 1}",
        ),
    ];
    for (text, edit, wanted) in rows {
        assert_eq!(edited(text, edit), *wanted, "{text}");
    }
}

// covers: LG-17
#[test]
fn a_key_that_is_put_first_is_written_first() {
    let first = |v: &mut Value| {
        let Value::Object(old) = v.take() else { panic!() };
        let mut new = Map::from_iter([("id".to_owned(), json!(7))]);
        new.extend(old);
        *v = Value::Object(new);
    };
    assert_eq!(edited("{\"n\": 1}", first), "{\"id\": 7, \"n\": 1}");
    assert_eq!(edited("{\n \"n\":1,\n \"m\":2\n}", first), "{\n \"id\":7,\n \"n\":1,\n \"m\":2\n}");
}

// covers: LG-17, LG-10
#[test]
fn a_byte_order_mark_is_read_and_kept() {
    assert_eq!(edited("\u{feff}{\"a\": 1}", |v| v["a"] = json!(2)), "\u{feff}{\"a\": 2}");
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z\"\\\\{}\\[\\],:é \n]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec(("[a-z\"\\\\]{1,4}", inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_entry() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec(("[a-f]{1,2}", any_value()), 0..5)
        .prop_map(|members| members.into_iter().collect())
}

/// The same value in one of the layouts that people's tools write.
fn laid_out(value: &Value, layout: u8) -> String {
    let pretty = |indent: &str| printed(value, PrettyFormatter::with_indent(indent.as_bytes()));
    match layout {
        0 => value.to_string(),
        1 => printed(value, Inline),
        2 => pretty("    ").replace('\n', "\r\n") + "\r\n",
        3 => pretty("\t"),
        _ => pretty("  ") + "\n",
    }
}

proptest! {
    // covers: LG-17
    #[test]
    fn an_edit_changes_only_the_bytes_of_its_entry(
        entries in prop::collection::vec(any_entry(), 1..5),
        wrapped in any::<bool>(),
        layout in 0u8..5,
        pick in any::<prop::sample::Index>(),
        changed in any_entry(),
        replace in any::<bool>(),
    ) {
        let list = Value::Array(entries.iter().cloned().map(Value::Object).collect());
        let whole = if wrapped { json!({"p": "x", "features": list, "z": 1}) } else { list };
        let text = laid_out(&whole, layout);
        let at = pick.index(entries.len());
        let mut new = whole.clone();
        let entry = if wrapped { &mut new["features"][at] } else { &mut new[at] };
        if replace {
            *entry = Value::Object(changed);
        } else {
            entry.as_object_mut().unwrap().extend(changed);
        }
        let out = rewrite(&text, &new);
        prop_assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), new);
        let root = Scan { text: &text, at: 0 }.value();
        let items = match root.parts {
            Parts::List(items) => items,
            Parts::Object(mut members) => match members.remove(1).value.parts {
                Parts::List(items) => items,
                Parts::Scalar | Parts::Object(_) => unreachable!(),
            },
            Parts::Scalar => unreachable!(),
        };
        let (start, end) = (items[at].start, items[at].end);
        prop_assert_eq!(&out[..start], &text[..start]);
        let tail = &text[end..];
        prop_assert!(out.len() >= start + tail.len() && out.ends_with(tail), "{} became {}", text, out);
        prop_assert_eq!(rewrite(&text, &whole), text, "no edit, no change");
    }
}

//! Does this text look as if its writer is not done yet? It does not judge whether the text is right.

use crate::model::Shape;
use serde::de::IgnoredAny;
use std::io::Read as _;

pub(crate) fn looks_unfinished(shape: Shape, bytes: &[u8]) -> bool {
    match shape {
        Shape::Json => cut_json(bytes),
        Shape::Frontmatter => cut_frontmatter(bytes),
        Shape::Text => false,
    }
}

/// Nothing yet, or JSON that stops in the middle. Wrong JSON is whole: waiting does not mend it.
fn cut_json(bytes: &[u8]) -> bool {
    let bytes = without_mark(bytes);
    match serde_json::from_slice::<IgnoredAny>(bytes) {
        Ok(IgnoredAny) => false,
        Err(error) => error.is_eof() || is_cut_number(bytes),
    }
}

/// A number that stops after its sign, point or exponent counts as wrong for the parser; one more digit tells.
fn is_cut_number(bytes: &[u8]) -> bool {
    let open = matches!(bytes.last(), Some(b'-' | b'+' | b'.' | b'e' | b'E'));
    open && serde_json::from_reader::<_, IgnoredAny>(bytes.chain(&b"0"[..]))
        .map_or_else(|error| error.is_eof(), |IgnoredAny| true)
}

/// Some editors put a byte order mark first.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// Nothing yet, an opening line that is cut, or an opening line without a closing one.
fn cut_frontmatter(bytes: &[u8]) -> bool {
    let bytes = without_mark(bytes);
    let mut lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    let first = lines.next().unwrap_or_default();
    let opened = first == b"---" && !lines.any(|line| line == b"---");
    opened || bytes.trim_ascii().is_empty() || matches!(bytes, b"-" | b"--")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cut_of_a_json_object_looks_unfinished_and_the_whole_does_not() {
        let whole = r#"{"a": [1, "é\n", true, null], "b": {"c": -1.5e3}}"#.as_bytes();
        for cut in 0..whole.len() {
            assert!(looks_unfinished(Shape::Json, &whole[..cut]), "cut at {cut}");
        }
        assert!(!looks_unfinished(Shape::Json, whole));
        assert!(looks_unfinished(Shape::Json, "\u{feff}{\"a\": -".as_bytes()));
    }

    #[test]
    fn wrong_json_is_not_waited_for() {
        for wrong in [&b"{]"[..], b"not json", b"{\"a\": 1} x", b"\xff\xfe{\0}\0", b"[1,]", b"{]-"]
        {
            assert!(!looks_unfinished(Shape::Json, wrong), "{}", String::from_utf8_lossy(wrong));
        }
        assert!(looks_unfinished(Shape::Json, b" \n"));
    }

    #[test]
    fn frontmatter_is_whole_once_it_is_closed() {
        for cut in
            ["", "\n", "-", "--", "---", "---\n", "---\r\nid: 1\r\n", "\u{feff}---\na: b\n--"]
        {
            assert!(looks_unfinished(Shape::Frontmatter, cut.as_bytes()), "{cut:?}");
        }
        for whole in ["---\nid: 1\n---", "---\r\nid: 1\r\n---\r\nbody", "no frontmatter", "----\n"]
        {
            assert!(!looks_unfinished(Shape::Frontmatter, whole.as_bytes()), "{whole:?}");
        }
        assert!(!looks_unfinished(Shape::Text, b""));
    }
}

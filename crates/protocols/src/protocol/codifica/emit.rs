//! A meaning → YAML text that reads back as exactly that meaning. It knows no field and no file.

use super::yaml::Meaning;

/// How lines end and where they begin.
#[derive(Clone, Copy)]
pub(super) struct Layout<'a> {
    pub(super) eol: &'a str,
    pub(super) indent: usize,
    pub(super) long: Long,
}

/// How text of several lines is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Long {
    /// As its own lines, which must end the line they begin on.
    Lines,
    /// On one line, where something may follow.
    Quoted,
}

impl Layout<'_> {
    fn deeper(self) -> Self {
        Self { indent: self.indent + 2, ..self }
    }

    /// A new line at this indent.
    fn line(self) -> String {
        format!("{}{}", self.eol, " ".repeat(self.indent))
    }
}

/// What follows `key:` of a mapping at this indent.
pub(super) fn after_colon(value: &Meaning, at: Layout<'_>) -> String {
    match value {
        Meaning::Null => " null".to_owned(),
        Meaning::Text(text) => format!(" {}", scalar(text, at.deeper())),
        Meaning::List(items) if items.is_empty() => " []".to_owned(),
        Meaning::Map(entries) if entries.is_empty() => " {}".to_owned(),
        Meaning::List(items) => {
            let at = at.deeper();
            items.iter().map(|value| format!("{}{}", at.line(), item(value, at))).collect()
        }
        Meaning::Map(entries) => {
            let at = at.deeper();
            entries
                .iter()
                .map(|(key, value)| format!("{}{}", at.line(), entry(key, value, at)))
                .collect()
        }
    }
}

pub(super) fn entry(key: &str, value: &Meaning, at: Layout<'_>) -> String {
    format!("{}:{}", scalar(key, at), after_colon(value, at))
}

/// One item of a list whose dashes stand at this indent.
pub(super) fn item(value: &Meaning, at: Layout<'_>) -> String {
    match value {
        Meaning::Map(entries) if !entries.is_empty() => {
            let at = at.deeper();
            let lines: Vec<_> = entries.iter().map(|(key, value)| entry(key, value, at)).collect();
            format!("- {}", lines.join(&at.line()))
        }
        Meaning::Text(text) => format!("- {}", scalar(text, at.deeper())),
        Meaning::Null | Meaning::List(_) | Meaning::Map(_) => format!("- {}", flow(value)),
    }
}

/// On one line, for use inside brackets or braces.
pub(super) fn flow(value: &Meaning) -> String {
    match value {
        Meaning::Null => "null".to_owned(),
        Meaning::Text(text) => quoted(text),
        Meaning::List(items) => {
            format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        Meaning::Map(entries) => {
            let entry =
                |(key, value): &(String, Meaning)| format!("{}: {}", flow_key(key), flow(value));
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    }
}

pub(super) fn flow_key(key: &str) -> String {
    if is_plain(key) { key.to_owned() } else { quoted(key) }
}

fn scalar(text: &str, at: Layout<'_>) -> String {
    if is_plain(text) {
        text.to_owned()
    } else if is_literal(text, at) {
        let lines: Vec<_> = text
            .split('\n')
            .map(|line| {
                if line.is_empty() {
                    String::new()
                } else {
                    format!("{}{line}", " ".repeat(at.indent))
                }
            })
            .collect();
        format!("|-{}{}", at.eol, lines.join(at.eol))
    } else {
        quoted(text)
    }
}

/// Words that mean themselves without quotes, in this YAML and in older ones.
fn is_plain(text: &str) -> bool {
    const TAKEN: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let is_time = chrono::DateTime::parse_from_rfc3339(text).is_ok();
    let fine = |c: char| c.is_ascii_alphanumeric() || " _-./:,()'".contains(c);
    (begins || is_time)
        && text.chars().all(fine)
        && !text.contains(": ")
        && !text.ends_with([' ', ':'])
        && !TAKEN.contains(&text.to_ascii_lowercase().as_str())
}

/// Several lines, written as they are. Only where nothing about them can be read in another way.
fn is_literal(text: &str, at: Layout<'_>) -> bool {
    let fine = |line: &str| {
        !line.ends_with([' ', '\t']) && !line.chars().any(|c| c == '\r' || needs_escape(c))
    };
    at.long == Long::Lines
        && at.eol == "\n"
        && text.contains('\n')
        && !text.starts_with([' ', '\t', '\n'])
        && !text.ends_with('\n')
        && text.split('\n').all(fine)
}

fn needs_escape(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            c if needs_escape(c) => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

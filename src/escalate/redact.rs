//! Takes secrets out of text: values that we know, and shapes that tokens have. It cannot know every secret.

use std::fmt;

const GONE: &str = "[redacted]";
/// A shorter value is more likely a word than a secret.
const VALUE_MIN: usize = 6;
/// Of a value with several lines, such as a private key, each long line is a secret of its own.
const LINE_MIN: usize = 16;

/// Where a token starts, whether it must start a word, and how much must follow.
#[rustfmt::skip]
const TOKENS: &[(&str, Edge, usize)] = &[
    ("sk-ant-",      Edge::Anywhere,  8),
    ("sk-proj-",     Edge::Anywhere,  8),
    ("sk-",          Edge::Word,     16),
    ("sk_live_",     Edge::Anywhere,  8),
    ("ghp_",         Edge::Anywhere, 16),
    ("gho_",         Edge::Anywhere, 16),
    ("ghu_",         Edge::Anywhere, 16),
    ("ghs_",         Edge::Anywhere, 16),
    ("ghr_",         Edge::Anywhere, 16),
    ("github_pat_",  Edge::Anywhere, 16),
    ("glpat-",       Edge::Anywhere, 16),
    ("AKIA",         Edge::Anywhere, 16),
    ("ASIA",         Edge::Anywhere, 16),
    ("AIza",         Edge::Anywhere, 30),
    ("xoxb-",        Edge::Anywhere,  8),
    ("xoxa-",        Edge::Anywhere,  8),
    ("xoxp-",        Edge::Anywhere,  8),
    ("xoxr-",        Edge::Anywhere,  8),
    ("xoxs-",        Edge::Anywhere,  8),
    ("xapp-",        Edge::Anywhere,  8),
    ("whsec_",       Edge::Anywhere,  8),
    ("npm_",         Edge::Word,     30),
    ("hf_",          Edge::Word,     30),
    ("eyJ",          Edge::Word,     30),
    ("hooks.slack.com/services/",  Edge::Anywhere, 8),
    ("/api/webhooks/",             Edge::Anywhere, 8),
];

/// What secrets start with beside capital letters.
const FIRSTS: &[u8] = b"sgxwnheb/-:0123456789_";

/// Words before which a value stands that is nobody's business.
const SCHEMES: &[&str] = &["bearer ", "basic "];
const NAME_ENDS: &[&str] = &["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD"];
const BLOCK_START: &str = "-----BEGIN ";
const BLOCK_END: &str = "-----END ";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    Word,
    Anywhere,
}

/// Knows the values that must never be said. Two of them are the same when they know the same.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Redactor {
    /// Longest first, so that one value inside another leaves nothing over.
    values: Vec<String>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} values)", self.values.len())
    }
}

impl Redactor {
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut known = Vec::new();
        for value in values {
            known.extend(value.lines().filter(|line| line.len() >= LINE_MIN).map(str::to_owned));
            known.extend(value.split_whitespace().map(str::to_owned));
            known.push(value.trim().to_owned());
        }
        known.retain(|value| value.len() >= VALUE_MIN);
        known.sort_by(|a, b| (b.len(), b).cmp(&(a.len(), a)));
        known.dedup();
        Self { values: known }
    }

    /// The text without secrets. Doing it twice changes nothing.
    pub fn clean(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        for value in &self.values {
            if clean.contains(value.as_str()) {
                clean = clean.replace(value.as_str(), GONE);
            }
        }
        without_shapes(&clean)
    }
}

fn without_shapes(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        if let Some((kept, end)) = secret_at(text, at) {
            clean.push_str(&text[at..at + kept]);
            clean.push_str(GONE);
            at = end;
        } else {
            let c = text[at..].chars().next().expect("`at` is before the end, on a character");
            clean.push(c);
            at += c.len_utf8();
        }
    }
    clean
}

/// If a secret starts here: how many bytes of it may stay, and where it ends.
fn secret_at(text: &str, at: usize) -> Option<(usize, usize)> {
    let rest = &text[at..];
    let first = rest.as_bytes()[0];
    // Almost every place of almost every text ends here: no secret starts with this.
    if !(first.is_ascii_uppercase() || FIRSTS.contains(&first)) {
        return None;
    }
    let word_start = !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    private_key(rest)
        .or_else(|| token(rest, word_start))
        .or_else(|| word_start.then(|| scheme(rest).or_else(|| assignment(rest))).flatten())
        .or_else(|| user_info(rest))
        .map(|(kept, length)| (kept, at + length))
}

fn token(rest: &str, word_start: bool) -> Option<(usize, usize)> {
    TOKENS.iter().find_map(|&(start, edge, least)| {
        let body = rest.strip_prefix(start)?;
        let length = run(body, |c| c.is_ascii_alphanumeric() || "_-.~+/=".contains(c));
        let whole = length >= least && (edge == Edge::Anywhere || word_start);
        whole.then_some((0, start.len() + length))
    })
}

fn scheme(rest: &str) -> Option<(usize, usize)> {
    SCHEMES.iter().find_map(|scheme| {
        let start = rest.get(..scheme.len())?;
        let length =
            run(&rest[scheme.len()..], |c| c.is_ascii_graphic() && !"\"'`,;<>".contains(c));
        // "bearer of news" is no secret; what follows one word of this length mostly is.
        let whole = start.eq_ignore_ascii_case(scheme) && length >= 12;
        whole.then_some((scheme.len(), scheme.len() + length))
    })
}

/// `SOME_API_KEY=value`
fn assignment(rest: &str) -> Option<(usize, usize)> {
    let name = run(rest, |c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    if !NAME_ENDS.iter().any(|end| rest[..name].ends_with(end)) {
        return None;
    }
    let value = rest[name..].strip_prefix('=')?;
    let quoted = usize::from(value.starts_with(['"', '\'']));
    let kept = name + 1 + quoted;
    let length = run(&rest[kept..], |c| c.is_ascii_graphic() && !"\"'`,;<>[]".contains(c));
    (length >= VALUE_MIN).then_some((kept, kept + length))
}

/// `://user:password@`
fn user_info(rest: &str) -> Option<(usize, usize)> {
    let body = rest.strip_prefix("://")?;
    let length = run(body, |c| c.is_ascii_graphic() && !"/?#\"'`<>@".contains(c));
    let colon = body[..length].find(':')? + 1;
    let whole = body[length..].starts_with('@') && length > colon && &body[colon..length] != GONE;
    whole.then_some((3 + colon, 3 + length))
}

/// A block that never ends is cut to its end all the same.
fn private_key(rest: &str) -> Option<(usize, usize)> {
    let label = rest.strip_prefix(BLOCK_START)?;
    let line = label.lines().next().unwrap_or_default();
    if !line.get(..line.len().min(80)).unwrap_or(line).contains("PRIVATE KEY") {
        return None;
    }
    let Some(end) = rest.find(BLOCK_END) else { return Some((0, rest.len())) };
    let tail = end + BLOCK_END.len();
    let label = run(&rest[tail..], |c| c.is_ascii_uppercase() || c == ' ');
    let dashes = run(&rest[tail + label..], |c| c == '-');
    Some((0, tail + label + dashes))
}

fn run(text: &str, fits: impl Fn(char) -> bool) -> usize {
    text.find(|c| !fits(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: ES-05 SE-03
    #[test]
    fn tokens_of_known_shapes_are_taken_out() {
        let body = "A1b2C3d4E5f6G7h8J9k0";
        for secret in [
            format!("sk-{body}"),
            format!("sk-ant-api03-{body}"),
            format!("ghp_{body}"),
            format!("github_pat_{body}"),
            "AKIAIOSFODNN7EXAMPLE".to_owned(),
            format!("xoxb-12345678-{body}"),
            format!("whsec_{body}=="),
            format!("Bearer {body}"),
            format!("OPENAI_API_KEY={body}"),
            format!("https://ann:{body}@git.example/x"),
            format!("https://hooks.slack.com/services/T0/B0/{body}"),
            format!(
                "-----BEGIN RSA PRIVATE KEY-----\n{body}\n{body}\n-----END RSA PRIVATE KEY-----"
            ),
            format!("-----BEGIN PRIVATE KEY-----\n{body}"),
        ] {
            for text in [format!("{secret} end"), format!("é({secret})"), format!("x={secret}")] {
                let clean = Redactor::default().clean(&text);
                assert!(!clean.contains(&body[..8]) && !clean.contains("IOSFOD"), "{clean}");
                assert_eq!(Redactor::default().clean(&clean), clean, "twice is once");
            }
        }
    }

    #[test]
    fn every_shape_is_looked_for() {
        for (start, ..) in TOKENS {
            let first = start.as_bytes()[0];
            assert!(first.is_ascii_uppercase() || FIRSTS.contains(&first), "{start}");
        }
    }

    #[test]
    fn words_are_left_alone() {
        for text in [
            "task-1234567890123456789",
            "the risk-assessment-of-everything",
            "bearer of bad news",
            "sk-8 boots",
            "KEY=1",
            "see https://example.com:8080/a@b",
            "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
        ] {
            assert_eq!(Redactor::default().clean(text), text);
        }
    }

    // covers: SE-03
    #[test]
    fn known_values_go_wherever_they_stand() {
        let redactor = Redactor::new(["hunter2!x", "short", "hunter2!xyz", "one-half two-half"]);
        let clean = redactor.clean("ahunter2!xb hunter2!xyzshort two-half");
        assert_eq!(clean, "a[redacted]b [redacted]short [redacted]");
        assert_eq!(format!("{redactor:?}"), "Redactor(5 values)");
    }
}

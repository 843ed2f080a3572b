//! Readers of single values: text, numbers, durations, sizes, lists. Each notes what it wanted; none knows a key.

use super::problem::any_of;
use super::walk::Spot;
use super::yaml::Kind;
use std::ops::RangeInclusive;
use std::time::Duration;

const DURATION_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Any text that is not empty. Numbers and yes/no count as they are written.
pub(super) fn text(spot: &mut Spot<'_>) -> Option<String> {
    match &spot.node.kind {
        Kind::Scalar { text, .. } if !text.is_empty() => Some(text.clone()),
        _ => refuse(spot, "text that is not empty"),
    }
}

/// Text without control characters that `fits`; `wanted` says what fits.
pub(super) fn text_that(
    wanted: &'static str,
    fits: impl Fn(&str) -> bool,
) -> impl Fn(&mut Spot<'_>) -> Option<String> {
    move |spot| match &spot.node.kind {
        Kind::Scalar { text, .. } if !text.contains(char::is_control) && fits(text) => {
            Some(text.clone())
        }
        _ => refuse(spot, wanted),
    }
}

/// The name of an environment variable.
pub(super) fn env_name(spot: &mut Spot<'_>) -> Option<String> {
    text_that("the name of an environment variable, such as `OPENAI_API_KEY`", |name| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })(spot)
}

/// Names that may stand in file names, logs and messages.
pub(super) fn is_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

pub(super) const NAME: &str = "a name of at most 64 letters, digits, `.`, `_` and `-`";

/// A name of the owner's choice.
pub(super) fn name(spot: &mut Spot<'_>) -> Option<String> {
    text_that(NAME, is_name)(spot)
}

/// One of the names in `known`; `what` says what they are.
pub(super) fn known_name<'k>(
    what: &'static str,
    known: &'k [&'k str],
) -> impl Fn(&mut Spot<'_>) -> Option<String> + 'k {
    move |spot| match &spot.node.kind {
        Kind::Scalar { text, .. } if known.contains(&text.as_str()) => Some(text.clone()),
        _ => {
            spot.refuse_word(known, format!("{what}: {}", any_of(known)));
            None
        }
    }
}

/// One of a few words.
pub(super) fn one_of<T: Copy>(
    words: &'static [(&'static str, T)],
) -> impl Fn(&mut Spot<'_>) -> Option<T> {
    move |spot| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let found = match &spot.node.kind {
            Kind::Scalar { text, .. } => words.iter().find(|(word, _)| word == text),
            Kind::Null | Kind::List(_) | Kind::Map(_) => None,
        };
        if found.is_none() {
            spot.refuse_word(&known, any_of(&known));
        }
        found.map(|(_, value)| *value)
    }
}

pub(super) fn yes_or_no(spot: &mut Spot<'_>) -> Option<bool> {
    match plain(spot) {
        Some("true") => Some(true),
        Some("false") => Some(false),
        _ => refuse(spot, "`true` or `false`"),
    }
}

pub(super) fn number(range: RangeInclusive<u32>) -> impl Fn(&mut Spot<'_>) -> Option<u32> {
    move |spot| {
        let read = plain(spot).filter(|text| is_digits(text)).and_then(|text| text.parse().ok());
        read.filter(|number| range.contains(number)).or_else(|| {
            refuse(spot, format!("a whole number from {} to {}", range.start(), range.end()))
        })
    }
}

/// US dollars.
pub(super) fn dollars(spot: &mut Spot<'_>) -> Option<f64> {
    let written = |text: &&str| text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let read = plain(spot).filter(written).and_then(|text| text.parse::<f64>().ok());
    read.filter(|dollars| *dollars > 0.0 && *dollars <= 1e6)
        .or_else(|| refuse(spot, "dollars above 0 and up to 1000000, such as `20` or `1.50`"))
}

/// A number and its unit, at least `least`.
pub(super) fn duration(least: Duration) -> impl Fn(&mut Spot<'_>) -> Option<Duration> {
    move |spot| {
        let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
        let read = measure(spot, &units).map(Duration::from_millis);
        read.filter(|duration| (least..=DURATION_MAX).contains(duration)).or_else(|| {
            let bounds = format!("from {least:?} to 365 days");
            refuse(spot, format!("a duration such as `30s`, `45m`, `4h` or `3d`, {bounds}"))
        })
    }
}

/// Bytes.
pub(super) fn size(spot: &mut Spot<'_>) -> Option<u64> {
    let units = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];
    measure(spot, &units).or_else(|| refuse(spot, "a size such as `512KiB`, `1MiB` or `2GiB`"))
}

/// All items of a list; nothing is an empty list. One wrong item does not hide the next.
pub(super) fn list<T>(
    read: impl Fn(&mut Spot<'_>) -> Option<T>,
) -> impl Fn(&mut Spot<'_>) -> Option<Vec<T>> {
    move |spot| {
        let items = match &spot.node.kind {
            Kind::List(items) => items,
            Kind::Null => return Some(Vec::new()),
            Kind::Scalar { .. } | Kind::Map(_) => return refuse(spot, "a list (`[a, b]`)"),
        };
        let path = spot.path.clone();
        let read_item = |(at, item)| read(&mut spot.inner(item, format!("{path}[{at}]")));
        Some(items.iter().enumerate().filter_map(read_item).collect())
    }
}

/// A list that must hold something.
pub(super) fn some_list<T>(
    read: impl Fn(&mut Spot<'_>) -> Option<T>,
) -> impl Fn(&mut Spot<'_>) -> Option<Vec<T>> {
    let read = list(read);
    move |spot| match &spot.node.kind {
        Kind::Null => refuse(spot, "a list with at least one item"),
        Kind::List(items) if items.is_empty() => refuse(spot, "a list with at least one item"),
        Kind::List(_) | Kind::Scalar { .. } | Kind::Map(_) => read(spot),
    }
}

/// A value that may be written as nothing, which means that it is not set.
pub(super) fn optional<T>(
    read: impl Fn(&mut Spot<'_>) -> Option<T>,
) -> impl Fn(&mut Spot<'_>) -> Option<Option<T>> {
    move |spot| if spot.node.kind == Kind::Null { Some(None) } else { read(spot).map(Some) }
}

fn refuse<T>(spot: &mut Spot<'_>, wanted: impl Into<String>) -> Option<T> {
    spot.refuse(wanted);
    None
}

/// Text without quotes.
fn plain<'a>(spot: &Spot<'a>) -> Option<&'a str> {
    match &spot.node.kind {
        Kind::Scalar { text, plain: true } => Some(text),
        _ => None,
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn measure(spot: &Spot<'_>, units: &[(&str, u64)]) -> Option<u64> {
    let Kind::Scalar { text, .. } = &spot.node.kind else { return None };
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (_, each) = units.iter().find(|(word, _)| *word == unit)?;
    digits.parse::<u64>().ok()?.checked_mul(*each)
}

#[cfg(test)]
mod tests {
    use super::super::problem::Problems;
    use super::super::yaml::Node;
    use super::*;

    fn read<T>(text: &str, read: impl Fn(&mut Spot<'_>) -> Option<T>) -> Result<T, String> {
        let node = Node { line: 3, kind: Kind::Scalar { text: text.to_owned(), plain: true } };
        let mut problems = Problems::default();
        let value = read(&mut Spot::new(&node, "a.b".to_owned(), &mut problems));
        value.ok_or_else(|| problems.iter().next().unwrap().to_string())
    }

    #[test]
    fn durations_have_a_unit() {
        let long = |text: &str| read(text, duration(Duration::ZERO));
        for (text, millis) in
            [("250ms", 250), ("30s", 30_000), ("45m", 2_700_000), ("4h", 14_400_000), ("0s", 0)]
        {
            assert_eq!(long(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(long("3d"), Ok(Duration::from_secs(3 * 86_400)));
        for bad in [
            "",
            "5",
            "m",
            "5 m",
            "-5m",
            "5M",
            "1.5h",
            "366d",
            "99999999999999999999d",
            "5m5s",
            "５s",
        ] {
            assert!(long(bad).is_err(), "{bad}");
        }
        let problem = read("1s", duration(Duration::from_secs(5))).unwrap_err();
        assert_eq!(
            problem,
            "line 3: a.b: found `1s`; wanted a duration such as `30s`, `45m`, `4h` or `3d`, from 5s to 365 days"
        );
    }

    #[test]
    fn sizes_have_a_unit() {
        assert_eq!(read("1MiB", size), Ok(1_048_576));
        assert_eq!(read("512KiB", size), Ok(524_288));
        assert_eq!(read("0B", size), Ok(0));
        for bad in ["1", "1MB", "1 MiB", "99999999999TiB", "MiB"] {
            assert!(read(bad, size).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_stay_in_their_range() {
        assert_eq!(read("3", number(1..=3)), Ok(3));
        for bad in ["0", "4", "+2", "1.0", "0x2", "two", "4294967297"] {
            assert!(read(bad, number(1..=3)).is_err(), "{bad}");
        }
        assert_eq!(read("1.50", dollars), Ok(1.5));
        for bad in ["0", "-1", "inf", "nan", "1e2", "1000001", "."] {
            assert!(read(bad, dollars).is_err(), "{bad}");
        }
        for bad in ["yes", "True", "1"] {
            assert!(read(bad, yes_or_no).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_plain() {
        for bad in ["1A", "A-B", "", "A=B", "Ä"] {
            assert!(read(bad, env_name).is_err(), "{bad}");
        }
        assert!(read("OPENAI_API_KEY", env_name).is_ok());
        for bad in ["../x", "-x", "", "a b", &"x".repeat(65)] {
            assert!(read(bad, name).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_wrong_word_names_all_words() {
        let words: &[(&str, u8)] = &[("claude", 1), ("codex", 2), ("gemini", 3)];
        let problem = read("cluade", one_of(words)).unwrap_err();
        assert_eq!(
            problem,
            "line 3: a.b: found `cluade`; wanted `claude`, `codex` or `gemini` (did you mean `claude`?)"
        );
    }
}

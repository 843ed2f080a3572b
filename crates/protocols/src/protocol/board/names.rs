//! Names that the board makes files of: task ids, agents, slugs, dates. None of them ever leaves `.kodingx/` (SE-02).

use crate::model::{RelPath, Timestamp};
use chrono::{DateTime, FixedOffset, NaiveDateTime, TimeZone as _};
use chrono_tz::Tz;
use std::fmt;

/// `T0001`, or `T` and a ULID.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TaskId(String);

const ULID_LEN: usize = 26;
const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const SLUG_MAX: usize = 48;
/// The highest number that an id can have: eighteen digits.
pub const NUMBER_MAX: u64 = 999_999_999_999_999_999;

impl TaskId {
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix('T')?;
        let digits = (4..=18).contains(&rest.len()) && rest.bytes().all(|b| b.is_ascii_digit());
        // `T00012` would be a second name of `T0012`.
        let canonical = rest.len() == 4 || !rest.starts_with('0');
        let ulid = rest.len() == ULID_LEN && rest.bytes().all(|b| CROCKFORD.contains(&b));
        ((digits && canonical) || ulid).then(|| Self(text.to_owned()))
    }

    pub fn sequential(number: u64) -> Self {
        Self(format!("T{number:04}"))
    }

    /// `None` for a ULID.
    pub fn number(&self) -> Option<u64> {
        if self.0.len() > ULID_LEN { None } else { self.0[1..].parse().ok() }
    }

    /// 48 bits of milliseconds, 80 bits of chance.
    pub fn ulid(at: Timestamp, chance: u128) -> Self {
        let time = u128::try_from(at.timestamp_millis()).unwrap_or(0) << 80;
        let value = time | (chance & ((1 << 80) - 1));
        let digit = |at: usize| CROCKFORD[usize::try_from((value >> (5 * at)) & 31).unwrap_or(0)];
        Self((0..ULID_LEN).rev().fold("T".to_owned(), |mut text, at| {
            text.push(char::from(digit(at)));
            text
        }))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `T0009` before `T10000`: shorter first.
impl Ord for TaskId {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0.len(), &self.0).cmp(&(other.0.len(), &other.0))
    }
}

impl PartialOrd for TaskId {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl serde::Serialize for TaskId {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for TaskId {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <String as serde::Deserialize>::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not a task id"))
    }
}

/// Lower case, `a-z 0-9 . _ -`, at most 64, beginning with a letter or digit.
pub fn is_agent(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    (1..=64).contains(&name.len())
        && name.bytes().next().is_some_and(plain)
        && name.bytes().all(|b| plain(b) || matches!(b, b'.' | b'_' | b'-'))
}

/// AG-29: not an agent's CLI but a command of ours, run as if it were one.
pub const PLAYWRIGHT: &str = "playwright";

/// AG-32: `claude_code` and `claude-code` are the same agent.
pub fn same_agent(a: &str, b: &str) -> bool {
    seat(a) == seat(b)
}

/// The name by which the configuration knows an agent.
pub fn seat(agent: &str) -> String {
    agent.replace('_', "-")
}

/// A title as a part of a file name.
pub fn slug(title: &str) -> String {
    let mut slug = String::new();
    for c in title.chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
        if slug.len() >= SLUG_MAX {
            break;
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "task".to_owned() } else { slug.to_owned() }
}

/// What a path below `inbox/` or `outbox/` says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentPath {
    pub kind: DocumentKind,
    /// The agent's folder.
    pub agent: String,
    pub date: String,
    pub id: TaskId,
    /// The task's file name without its ending: `T0001-1610-fix-vat`.
    pub stem: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentKind {
    Task,
    Report,
    Audit,
}

impl DocumentPath {
    /// `None`: not a path of §4.
    pub fn parse(path: &str) -> Option<Self> {
        let (folder, rest) = path.strip_prefix(".kodingx/")?.split_once('/')?;
        let (agent, rest) = rest.split_once('/')?;
        let (date, name) = rest.split_once('/')?;
        let name = name.strip_suffix(".md")?;
        let (kind, stem) = match folder {
            "inbox" => (DocumentKind::Task, name),
            "outbox" => match (name.strip_suffix("-report"), name.strip_suffix("-audit")) {
                (Some(stem), _) => (DocumentKind::Report, stem),
                (None, Some(stem)) => (DocumentKind::Audit, stem),
                (None, None) => return None,
            },
            _ => return None,
        };
        let id = id_of(stem)?;
        let fits = is_agent(agent) && is_date(date);
        let (agent, date, stem) = (agent.to_owned(), date.to_owned(), stem.to_owned());
        fits.then_some(Self { kind, agent, date, id, stem })
    }

    /// Where the report or audit of a task goes.
    pub fn answer(&self, kind: DocumentKind, agent: &str, date: &str) -> String {
        let ending = match kind {
            DocumentKind::Task => "",
            DocumentKind::Report => "-report",
            DocumentKind::Audit => "-audit",
        };
        format!(".kodingx/outbox/{agent}/{date}/{}{ending}.md", self.stem)
    }
}

/// The id at the head of `T0001-1610-slug`, if the whole is such a name.
pub fn id_of(stem: &str) -> Option<TaskId> {
    let (id, rest) = stem.split_once('-')?;
    let (time, slug) = rest.split_once('-')?;
    let slug_fits = !slug.is_empty()
        && slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    (is_time(time) && slug_fits).then(|| TaskId::parse(id)).flatten()
}

/// The number of any file that looks like a task's, whatever else is wrong with its name: such a number is taken.
pub fn number_of(file: &str) -> Option<u64> {
    let digits = file.strip_prefix('T')?.split_once('-')?.0;
    let fits = (4..=18).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    fits.then(|| digits.parse().ok()).flatten()
}

fn is_time(text: &str) -> bool {
    text.len() == 4 && chrono::NaiveTime::parse_from_str(&format!("{text}00"), "%H%M%S").is_ok()
}

pub fn is_date(text: &str) -> bool {
    text.len() == 10 && chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok()
}

/// One zone for all stamps of a board (AG-04).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone(Tz);

impl Zone {
    pub const UTC: Self = Self(Tz::UTC);

    pub fn parse(name: &str) -> Option<Self> {
        name.parse().ok().map(Self)
    }

    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// `2026-01-31T16:10:00+01:00`.
    pub fn stamp(self, at: Timestamp) -> String {
        at.with_timezone(&self.0).to_rfc3339_opts(chrono::SecondsFormat::Secs, false)
    }

    /// An ISO time; one that names no zone is in this one.
    pub fn read(self, text: &str) -> Option<DateTime<FixedOffset>> {
        if let Ok(time) = DateTime::parse_from_rfc3339(text) {
            return Some(time);
        }
        let forms =
            ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"];
        let local = forms.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok())?;
        // An hour that the zone skips is read as UTC.
        let time = self.0.from_local_datetime(&local).earliest();
        Some(time.map_or_else(|| local.and_utc().fixed_offset(), |time| time.fixed_offset()))
    }

    pub fn date(self, at: Timestamp) -> String {
        at.with_timezone(&self.0).format("%Y-%m-%d").to_string()
    }

    pub fn time(self, at: Timestamp) -> String {
        at.with_timezone(&self.0).format("%H%M").to_string()
    }
}

/// Where a new task goes: `.kodingx/inbox/{agent}/{date}/{id}-{HHMM}-{slug}.md`.
pub fn task_path(agent: &str, id: &TaskId, title: &str, zone: Zone, at: Timestamp) -> RelPath {
    let (date, time, slug) = (zone.date(at), zone.time(at), slug(title));
    let path = format!(".kodingx/inbox/{agent}/{date}/{id}-{time}-{slug}.md");
    RelPath::new(path).expect("BUG: an agent's name is checked before a path is made of it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_have_one_spelling_and_an_order() {
        for good in ["T0001", "T9999", "T10000", "T01ARZ3NDEKTSV4RRFFQ69G5FAV"] {
            assert!(TaskId::parse(good).is_some(), "{good}");
        }
        for bad in ["T1", "T00012", "0001", "T", "T00a1", "T0001/", "T01ARZ3NDEKTSV4RRFFQ69G5FAU1"]
        {
            assert!(TaskId::parse(bad).is_none(), "{bad}");
        }
        assert!(TaskId::sequential(9999) < TaskId::sequential(10_000));
        let at = "2026-01-31T15:10:00Z".parse().unwrap();
        let ulid = TaskId::ulid(at, u128::MAX);
        assert_eq!(TaskId::parse(ulid.as_str()), Some(ulid.clone()));
        assert!(ulid > TaskId::ulid(at - chrono::TimeDelta::milliseconds(1), u128::MAX));
    }

    // covers: AG-04
    #[test]
    fn a_path_has_the_date_and_time_of_one_zone() {
        let at = "2026-01-31T23:10:00Z".parse().unwrap();
        let zone = Zone::parse("Europe/Zurich").unwrap();
        let id = TaskId::sequential(7);
        let path = task_path("claude-code", &id, "Fix VAT rounding!", zone, at);
        assert_eq!(
            path.as_str(),
            ".kodingx/inbox/claude-code/2026-02-01/T0007-0010-fix-vat-rounding.md"
        );
        assert_eq!(zone.stamp(at), "2026-02-01T00:10:00+01:00");
        let place = DocumentPath::parse(path.as_str()).unwrap();
        assert_eq!(
            (place.kind, place.id, place.agent.as_str()),
            (DocumentKind::Task, id, "claude-code")
        );
    }

    // covers: AG-06, AG-07
    #[test]
    fn a_time_without_a_zone_is_in_the_boards() {
        let zone = Zone::parse("Europe/Zurich").unwrap();
        let read = |text: &str| zone.read(text).map(|time| time.to_rfc3339());
        let local = Some("2026-07-01T16:10:00+02:00".to_owned());
        for text in ["2026-07-01T16:10:00", "2026-07-01 16:10:00", "2026-07-01T16:10"] {
            assert_eq!(read(text), local, "{text}");
        }
        assert_eq!(read("2026-07-01T16:10:00Z").unwrap(), "2026-07-01T16:10:00+00:00");
        assert!(read("2026-03-29T02:30:00").is_some(), "an hour that the zone skips");
        assert_eq!(read("yesterday").or_else(|| read("2026-07-01")), None);
    }

    #[test]
    fn other_paths_are_not_ours() {
        for bad in [
            ".kodingx/inbox/x/2026-01-31/T0007-2510-a.md",
            ".kodingx/inbox/X/2026-01-31/T0007-1010-a.md",
            ".kodingx/inbox/x/2026-02-31/T0007-1010-a.md",
            ".kodingx/outbox/x/2026-01-31/T0007-1010-a.md",
            "inbox/x/2026-01-31/T0007-1010-a.md",
        ] {
            assert_eq!(DocumentPath::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_title_makes_a_safe_name(title in any::<String>()) {
            let slug = slug(&title);
            prop_assert!(slug.len() <= SLUG_MAX + 1);
            let id = TaskId::sequential(1);
            let stem = format!("{id}-1010-{slug}");
            prop_assert_eq!(id_of(&stem), Some(id));
        }
    }
}

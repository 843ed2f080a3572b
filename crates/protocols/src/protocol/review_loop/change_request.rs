//! Change requests: the reviewer's comments, bytes → typed requests or the first line that is wrong (spec 1 §4, LP-14).
//! It knows nothing of turns.

use crate::model::{Rejection, RelPath, clip};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChangeRequest {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) round: u32,
    pub(super) severity: Severity,
    pub(super) category: String,
    pub(super) status: Status,
    pub(super) line: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    Low,
    Medium,
    High,
    Critical,
}

/// SPEC GAP: §4 knows only `open`; the others are how upstream agents close a request (LP-14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Open,
    Resolved,
    Deferred,
    Closed,
    Superseded,
}

const SEVERITIES: &[(&str, Severity)] = &[
    ("critical", Severity::Critical),
    ("high", Severity::High),
    ("medium", Severity::Medium),
    ("low", Severity::Low),
];
const STATUSES: &[(&str, Status)] = &[
    ("open", Status::Open),
    ("resolved", Status::Resolved),
    ("deferred", Status::Deferred),
    ("closed", Status::Closed),
    ("superseded", Status::Superseded),
];
const CATEGORIES: &[&str] = &["correctness", "reliability", "security", "quality", "test-coverage"];
/// Categories that a mandated step may not be given (spec 1 §3). A title that begins with one of them and a colon counts too.
const SCOPE_WORDS: &[&str] = &["scope", "plan-alignment", "plan alignment"];

impl ChangeRequest {
    pub(super) fn is_open(&self) -> bool {
        self.status == Status::Open
    }

    /// It argues about what was to be done, not about how it was done. "OAuth scope is not checked" is about security.
    pub(super) fn is_about_scope(&self) -> bool {
        let (category, title) = (self.category.to_lowercase(), self.title.to_lowercase());
        let label = title.split_once(':').map(|(label, _)| label.trim());
        SCOPE_WORDS.iter().any(|word| category == *word || label == Some(*word))
    }

    pub(super) fn has_known_category(&self) -> bool {
        CATEGORIES.contains(&self.category.as_str())
    }
}

/// All requests of the file, in order, or the first thing that is wrong. Prose between them is ignored.
pub(super) fn parse(file: &RelPath, text: &str) -> Result<Vec<ChangeRequest>, Rejection> {
    let (requests, problems) = parse_all(file, text);
    problems.into_iter().next().map_or(Ok(requests), Err)
}

/// The requests that can be read, and everything that is wrong.
pub(super) fn parse_all(file: &RelPath, text: &str) -> (Vec<ChangeRequest>, Vec<Rejection>) {
    let lines: Vec<&str> = text.lines().collect();
    let heads: Vec<usize> =
        (0..lines.len()).filter(|&at| lines[at].starts_with("### CR-")).collect();
    let (mut requests, mut problems) = (Vec::<ChangeRequest>::new(), Vec::new());
    for (number, &head) in heads.iter().enumerate() {
        let end = heads.get(number + 1).copied().unwrap_or(lines.len());
        let block = Block { file, lines: &lines[head..end], first: head as u64 + 1 };
        match block.parse() {
            Ok(request) if requests.iter().any(|known| known.id == request.id) => {
                let found = format!("{} twice", request.id);
                problems.push(wrong(file, request.line, found, "each id once"));
            }
            Ok(request) => requests.push(request),
            Err(found) => problems.extend(found),
        }
    }
    (requests, problems)
}

/// One request: its heading and what follows until the next one.
struct Block<'a> {
    file: &'a RelPath,
    lines: &'a [&'a str],
    first: u64,
}

impl Block<'_> {
    /// Every field is looked at, so that all that is wrong can be said at once.
    fn parse(&self) -> Result<ChangeRequest, Vec<Rejection>> {
        let mut problems = Vec::new();
        let heading = note(self.heading(), &mut problems);
        let id = heading.as_ref().map(|(id, _)| id.as_str());
        note(self.check_id(id), &mut problems);
        let round = note(self.round(), &mut problems);
        let severity = note(self.one_of("Severity", SEVERITIES), &mut problems);
        let category = note(self.field("Category"), &mut problems);
        note(self.field("File(s)"), &mut problems);
        let status = note(self.one_of("Status", STATUSES), &mut problems);
        let read = (heading, round, severity, category, status);
        let (Some((id, title)), Some(round), Some(severity), Some((_, category)), Some(status)) =
            read
        else {
            return Err(problems);
        };
        let request =
            ChangeRequest { id, title, round, severity, category, status, line: self.first };
        if problems.is_empty() { Ok(request) } else { Err(problems) }
    }

    fn heading(&self) -> Result<(String, String), Rejection> {
        let heading = self.lines[0].trim_start_matches("### ");
        let parts = heading.split_once(':').filter(|(id, _)| is_id(id));
        let (id, title) = parts.ok_or_else(|| {
            let found = format!("heading `{}`", clip(heading, 60));
            wrong(self.file, self.first, found, "a number, as in ### CR-001: <title>")
        })?;
        Ok((id.to_owned(), title.trim().to_owned()))
    }

    /// The same as the heading's, where that can be read.
    fn check_id(&self, id: Option<&str>) -> Result<(), Rejection> {
        let (line, named) = self.field("ID")?;
        let Some(id) = id.filter(|id| *id != named) else { return Ok(()) };
        let found = format!("ID `{}`", clip(&named, 40));
        Err(wrong(self.file, line, found, &format!("the heading's {id}")))
    }

    fn round(&self) -> Result<u32, Rejection> {
        let (line, round) = self.field("Round")?;
        let found = || format!("Round `{}`", clip(&round, 40));
        round.parse().map_err(|_| wrong(self.file, line, found(), "a number"))
    }

    /// `- **Name**: value`, with the line that it stands on.
    fn field(&self, name: &str) -> Result<(u64, String), Rejection> {
        let mark = format!("- **{name}**:");
        let found = self.lines.iter().enumerate().find_map(|(at, line)| {
            Some((self.first + at as u64, line.trim().strip_prefix(&mark)?.trim().to_owned()))
        });
        match found {
            Some((line, value)) if !value.is_empty() => Ok((line, value)),
            Some((line, _)) => Err(wrong(self.file, line, format!("{name} empty"), "a value")),
            None => {
                let found = format!("a request without `{name}`");
                Err(wrong(self.file, self.first, found, &format!("- **{name}**: <value>")))
            }
        }
    }

    fn one_of<T: Copy>(&self, name: &str, known: &[(&str, T)]) -> Result<T, Rejection> {
        let (line, value) = self.field(name)?;
        known.iter().find(|(word, _)| *word == value).map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<_> = known.iter().map(|(word, _)| *word).collect();
            let found = format!("{name} `{}`", clip(&value, 40));
            wrong(self.file, line, found, &format!("one of {}", words.join(", ")))
        })
    }
}

/// What was read; what was wrong is kept.
fn note<T>(read: Result<T, Rejection>, problems: &mut Vec<Rejection>) -> Option<T> {
    read.map_err(|problem| problems.push(problem)).ok()
}

fn is_id(id: &str) -> bool {
    id.strip_prefix("CR-").is_some_and(|digits| {
        !digits.is_empty() && digits.len() <= 9 && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn wrong(file: &RelPath, line: u64, found: String, wanted: &str) -> Rejection {
    Rejection::new("LP-14", file, found, wanted).at_line(line)
}

/// The category of a request that is open must be one of the five; a scope request on a mandated step has its own rule.
pub(super) fn wrong_category(file: &RelPath, request: &ChangeRequest) -> Rejection {
    let found = format!("{} with category `{}`", request.id, clip(&request.category, 40));
    wrong(file, request.line, found, &format!("one of {}", CATEGORIES.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comments(fields: &str) -> String {
        format!("# Review\n\nSome prose.\n\n### CR-001: a title\n{fields}\nWhat is wrong.\n")
    }

    fn whole() -> String {
        comments(
            "- **ID**: CR-001\n- **Round**: 2\n- **Severity**: high\n- **Category**: security\n\
             - **File(s)**: src/a.rs:7\n- **Status**: open\n",
        )
    }

    fn parsed(text: &str) -> Result<Vec<ChangeRequest>, Rejection> {
        parse(&RelPath::fixed("ENG_REVIEW_COMMENTS.md"), text)
    }

    // covers: LP-14
    #[test]
    fn a_request_is_read_with_all_its_fields() {
        let requests = parsed(&whole()).unwrap();
        let request = &requests[0];
        assert_eq!(
            (request.id.as_str(), request.title.as_str(), request.round),
            ("CR-001", "a title", 2)
        );
        assert_eq!(
            (request.severity, request.status, request.line),
            (Severity::High, Status::Open, 5)
        );
        assert!(request.has_known_category() && !request.is_about_scope());
        assert_eq!(parsed("no request at all\n").unwrap(), []);
    }

    // covers: LP-12
    #[test]
    fn category_or_the_title_before_its_colon_makes_a_request_about_scope() {
        let with = |title: &str, category: &str| {
            let text = whole().replace("a title", title).replace(": security", category);
            parsed(&text).unwrap()[0].is_about_scope()
        };
        for category in [": scope", ": Scope", ": plan-alignment", ": plan alignment"] {
            assert!(with("a title", category), "{category}");
        }
        for title in ["Scope: drop it", "scope : drop it", "Plan alignment: drop it"] {
            assert!(with(title, ": security"), "{title}");
            assert!(with(title, ": quality"), "{title}");
        }
        for title in ["OAuth scope is not checked", "Scopes: none is checked", "Wrong scope: x"] {
            assert!(!with(title, ": security"), "{title}");
        }
    }

    // covers: LP-14
    #[test]
    fn every_wrong_line_is_named() {
        for (from, to, line) in [
            ("### CR-001: a", "### CR-1a: a", 5),
            ("### CR-001: a title", "### CR-001 a title", 5),
            ("**ID**: CR-001", "**ID**: CR-002", 6),
            ("**Round**: 2", "**Round**: two", 7),
            ("**Severity**: high", "**Severity**: High", 8),
            ("- **File(s)**: src/a.rs:7\n", "", 5),
            ("**Status**: open", "**Status**: done", 11),
            ("**Status**: open", "**Status**:", 11),
        ] {
            let rejection = parsed(&whole().replace(from, to)).unwrap_err();
            assert_eq!(
                (rejection.rule.as_str(), rejection.line),
                ("LP-14", Some(line)),
                "{to}: {rejection}"
            );
        }
        let many = whole().replace("high", "High").replace(": open", ": done");
        let (_, problems) = parse_all(&RelPath::fixed("ENG_REVIEW_COMMENTS.md"), &many);
        assert_eq!(problems.iter().map(|one| one.line).collect::<Vec<_>>(), [Some(8), Some(11)]);
        let twice = format!("{}{}", whole(), whole());
        assert!(parsed(&twice).unwrap_err().found.contains("twice"));
    }
}

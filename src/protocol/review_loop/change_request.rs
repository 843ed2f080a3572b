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
/// What a mandated step may not be asked about (spec 1 §3).
const SCOPE_WORDS: &[&str] = &["scope", "plan-alignment", "plan alignment"];

impl ChangeRequest {
    pub(super) fn is_open(&self) -> bool {
        self.status == Status::Open
    }

    /// It argues about what was to be done, not about how it was done.
    pub(super) fn is_about_scope(&self) -> bool {
        let (category, title) = (self.category.to_lowercase(), self.title.to_lowercase());
        SCOPE_WORDS.iter().any(|word| category == *word || title.contains(word))
    }

    pub(super) fn has_known_category(&self) -> bool {
        CATEGORIES.contains(&self.category.as_str())
    }
}

/// All requests of the file, in order. Prose between them is ignored.
pub(super) fn parse(file: &RelPath, text: &str) -> Result<Vec<ChangeRequest>, Rejection> {
    let lines: Vec<&str> = text.lines().collect();
    let heads: Vec<usize> =
        (0..lines.len()).filter(|&at| lines[at].starts_with("### CR-")).collect();
    let mut requests: Vec<ChangeRequest> = Vec::new();
    for (number, &head) in heads.iter().enumerate() {
        let end = heads.get(number + 1).copied().unwrap_or(lines.len());
        let request = Block { file, lines: &lines[head..end], first: head as u64 + 1 }.parse()?;
        if requests.iter().any(|known| known.id == request.id) {
            let found = format!("{} twice", request.id);
            return Err(wrong(file, request.line, found, "each id once"));
        }
        requests.push(request);
    }
    Ok(requests)
}

/// One request: its heading and what follows until the next one.
struct Block<'a> {
    file: &'a RelPath,
    lines: &'a [&'a str],
    first: u64,
}

impl Block<'_> {
    fn parse(&self) -> Result<ChangeRequest, Rejection> {
        let heading = self.lines[0].trim_start_matches("### ");
        let Some((id, title)) = heading.split_once(':').filter(|(id, _)| is_id(id)) else {
            let found = format!("heading `{}`", clip(heading, 60));
            return Err(wrong(self.file, self.first, found, "### CR-NNN: <title>"));
        };
        let (line, named) = self.field("ID")?;
        if named != id {
            let found = format!("ID `{}`", clip(&named, 40));
            return Err(wrong(self.file, line, found, &format!("the heading's {id}")));
        }
        let (line, round) = self.field("Round")?;
        let round = round.parse().map_err(|_| {
            wrong(self.file, line, format!("Round `{}`", clip(&round, 40)), "a number")
        })?;
        let severity = self.one_of("Severity", SEVERITIES)?;
        let (_, category) = self.field("Category")?;
        self.field("File(s)")?;
        let status = self.one_of("Status", STATUSES)?;
        let (id, title) = (id.to_owned(), title.trim().to_owned());
        Ok(ChangeRequest { id, title, round, severity, category, status, line: self.first })
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
        let twice = format!("{}{}", whole(), whole());
        assert!(parsed(&twice).unwrap_err().found.contains("twice"));
    }
}

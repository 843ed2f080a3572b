//! The mistakes in YAML that people make most often, in their words instead of the parser's. It parses nothing.

use std::fmt;

/// How many lines before or after the mistake a parser may give up.
const REACH: u64 = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    pub line: u64,
    pub found: String,
    pub wanted: &'static str,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: found {}; wanted {}", self.line, self.found, self.wanted)
    }
}

/// What is wrong near the line where the parser gave up, if it is one of the usual mistakes.
pub fn usual_mistake(text: &str, line: u64) -> Option<Mistake> {
    tab(text, line).or_else(|| unclosed(text, line))
}

/// What would be right, where the parser says `said` and it is none of the usual mistakes.
pub fn wanted_of(said: &str) -> &'static str {
    if said.contains("limit") { "YAML of at most 64 levels" } else { "valid YAML" }
}

fn tab(text: &str, line: u64) -> Option<Mistake> {
    let indent = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let mut near = text.lines().zip(1_u64..).filter(|(_, at)| at.abs_diff(line) <= REACH);
    let (_, line) = near.find(|(line, _)| line[..indent(line)].contains('\t'))?;
    let found = "a line that is indented with a tab".to_owned();
    Some(Mistake { line, found, wanted: "spaces: YAML allows only spaces there" })
}

/// A bracket or quote that is opened just before the place where the parser gave up, and closed neither on its line nor on the
/// next one.
fn unclosed(text: &str, line: u64) -> Option<Mistake> {
    const PAIRS: [(char, char, &str); 4] = [
        ('[', ']', "`]` at its end"),
        ('{', '}', "`}` at its end"),
        ('"', '"', "`\"` at its end"),
        ('\'', '\'', "`'` at its end"),
    ];
    let lines: Vec<&str> = text.lines().take(usize::try_from(line.max(1)).ok()? + 1).collect();
    let until = lines.len().min(usize::try_from(line.max(1)).ok()?);
    (until.saturating_sub(2)..until).rev().find_map(|at| {
        let value = lines[at].split_once(": ").map_or(lines[at], |(_, value)| value);
        let value = value.trim().trim_start_matches("- ");
        let next = lines.get(at + 1).copied().unwrap_or("");
        let (open, _, wanted) = PAIRS.into_iter().find(|(open, close, _)| {
            let rest = value.strip_prefix(*open);
            rest.is_some_and(|rest| !rest.contains(*close) && !next.contains(*close))
        })?;
        let found = format!("`{open}`, which is never closed");
        Some(Mistake { line: at as u64 + 1, found, wanted })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tabs_and_open_brackets_are_named_where_they_are() {
        let said = |text: &str, line| usual_mistake(text, line).map(|one| one.to_string());
        let tab = "line 2: found a line that is indented with a tab; wanted spaces: YAML allows only spaces there";
        assert_eq!(said("a:\n\tb: 1\n", 2).as_deref(), Some(tab));
        let open = "line 1: found `[`, which is never closed; wanted `]` at its end";
        for at in [1, 2] {
            assert_eq!(said("a: [x, y\nb: 1\n", at).as_deref(), Some(open));
        }
        assert_eq!(said("a: [x,\n  y]\nb: : 1\n", 3), None, "closed on the next line");
        assert_eq!(said("a: |\n  \tcode\n\n\n\nb: : 1\n", 6), None, "a tab far away is none of it");
        assert_eq!(said("", 1), None);
    }
}

//! What is wrong with a configuration, for people. It finds nothing itself.

use crate::model::clip;
use std::fmt;

/// One thing to put right. Every field is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Such as `agents.codex.timeout` or `repos[0].path`; empty for the file as a whole.
    pub path: String,
    pub line: Option<u64>,
    pub found: String,
    pub wanted: String,
    pub hint: Option<String>,
}

impl Problem {
    pub(super) fn new(
        path: impl Into<String>,
        line: Option<u64>,
        found: impl Into<String>,
        wanted: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), line, found: found.into(), wanted: wanted.into(), hint: None }
    }

    pub(super) fn with_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "found {}; wanted {}", self.found, self.wanted)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, " ({hint})"))
    }
}

/// All problems of one file. More than a person would read are only counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    kept: Vec<Problem>,
    left_out: usize,
}

const KEPT_MAX: usize = 200;

impl Problems {
    pub(super) fn push(&mut self, problem: Problem) {
        self.push_with(|| problem);
    }

    /// As [`Problems::push`]; a problem that is only counted is not worded.
    pub(super) fn push_with(&mut self, problem: impl FnOnce() -> Problem) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push(problem());
        } else {
            self.left_out += 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// How many there are, the ones that were only counted included.
    pub fn len(&self) -> usize {
        self.kept.len() + self.left_out
    }

    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.kept.iter()
    }

    /// In the order of the file.
    pub(super) fn sorted(mut self) -> Self {
        self.kept.sort_by_key(|problem| problem.line);
        self
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.len() == 1 { "problem" } else { "problems" };
        write!(f, "{} {noun}", self.len())?;
        for problem in &self.kept {
            write!(f, "\n  {problem}")?;
        }
        if self.left_out > 0 {
            write!(f, "\n  and {} more", self.left_out)?;
        }
        Ok(())
    }
}

/// A value of the file inside backticks, on one line.
pub(super) fn quote(text: &str) -> String {
    format!("`{}`", clip(text, 80))
}

/// `a`, `b` or `c`
pub(super) fn any_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        None => "nothing".to_owned(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

/// The known word that was probably meant.
pub(super) fn suggest(found: &str, known: &[&str]) -> Option<String> {
    let close = |word: &&&str| word.len().abs_diff(found.len()) <= 3;
    let (steps, word) = known.iter().filter(close).map(|word| (edits(found, word), word)).min()?;
    (steps <= 1 + word.chars().count() / 4).then(|| format!("did you mean `{word}`?"))
}

/// How many letters must be put in, taken out, changed or swapped with their neighbour to make `a` into `b`.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = change.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_single_slips() {
        for (a, b, steps) in [
            ("", "", 0),
            ("timeout", "timeout", 0),
            ("tiemout", "timeout", 1),
            ("time_out", "timeout", 1),
            ("timeou", "timeout", 1),
            ("kitten", "sitting", 3),
            ("", "abc", 3),
        ] {
            assert_eq!(edits(a, b), steps, "{a} → {b}");
            assert_eq!(edits(b, a), steps, "{b} → {a}");
        }
    }

    #[test]
    fn only_a_close_word_is_suggested() {
        let known = ["timeout", "silence", "env"];
        assert_eq!(suggest("tiemout", &known).unwrap(), "did you mean `timeout`?");
        assert_eq!(suggest("envs", &known).unwrap(), "did you mean `env`?");
        assert_eq!(suggest("colour", &known), None);
        assert_eq!(suggest(&"x".repeat(1 << 20), &known), None);
    }

    #[test]
    fn too_many_problems_are_counted_not_kept() {
        let mut problems = Problems::default();
        for line in 0..500 {
            problems.push(Problem::new("a", Some(line), "x", "y"));
        }
        assert_eq!((problems.iter().count(), problems.len()), (200, 500));
        assert!(problems.to_string().ends_with("and 300 more"));
    }
}

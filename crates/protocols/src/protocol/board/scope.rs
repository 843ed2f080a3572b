//! Scope (spec 2 §6.3): which files a task may change, judged by the files that really changed. It looks at no diff itself.

use super::front::Fields;
use crate::model::RelPath;
use crate::model::yaml::{Kind, Node};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};

/// Everything of ours lies here; it is outside every scope (AG-14).
pub const OURS: &str = ".kodingx/";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    #[serde(default)]
    pub must_touch: Vec<String>,
    #[serde(default)]
    pub may_touch: Vec<String>,
    #[serde(default)]
    pub must_not_touch: Vec<String>,
}

/// What the changed files say about a scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Each file with the reason.
    pub breaches: Vec<(RelPath, String)>,
    /// Patterns of `must_touch` that no file matches: a warning.
    pub untouched: Vec<String>,
}

const KEYS: [&str; 3] = ["must_touch", "may_touch", "must_not_touch"];

impl Scope {
    pub(super) fn read(fields: &mut Fields<'_>, root: &Node) -> Option<Self> {
        let wanted = "an object with must_touch, may_touch and must_not_touch";
        let Some(node) = root.get("scope") else {
            fields.refuse(1, "no `scope`", wanted);
            return None;
        };
        let Kind::Map(entries) = &node.kind else {
            fields.refuse(node.line, format!("scope: {}", node.words()), wanted);
            return None;
        };
        for entry in entries.iter().filter(|entry| !KEYS.contains(&entry.key.as_str())) {
            fields.refuse(entry.line, format!("scope: the key `{}`", entry.key), wanted);
        }
        let mut list = |key: &str| {
            let patterns = node.get(key).map(|list| fields.list_of(list, key)).unwrap_or_default();
            for pattern in patterns.iter().filter(|pattern| !is_pattern(pattern)) {
                fields.refuse_at(
                    "scope",
                    format!("{key}: `{pattern}`"),
                    "a glob inside the repository",
                );
            }
            patterns
        };
        Some(Self {
            must_touch: list("must_touch"),
            may_touch: list("may_touch"),
            must_not_touch: list("must_not_touch"),
        })
    }

    pub fn judge<'a>(&self, changed: impl IntoIterator<Item = &'a RelPath>) -> Verdict {
        let (must, may, never) =
            (set(&self.must_touch), set(&self.may_touch), set(&self.must_not_touch));
        let mut touched = vec![false; self.must_touch.len()];
        let mut verdict = Verdict::default();
        for path in changed.into_iter().filter(|path| !path.as_str().starts_with(OURS)) {
            for hit in must.matches(path.as_str()) {
                touched[hit / 2] = true;
            }
            if let Some(hit) = never.matches(path.as_str()).first() {
                let why = format!("must_not_touch has `{}`", self.must_not_touch[hit / 2]);
                verdict.breaches.push((path.clone(), why));
            } else if !must.is_match(path.as_str()) && !may.is_match(path.as_str()) {
                let why = "no pattern of must_touch or may_touch matches it".to_owned();
                verdict.breaches.push((path.clone(), why));
            }
        }
        let missed = self.must_touch.iter().zip(touched).filter(|(_, touched)| !touched);
        verdict.untouched = missed.map(|(pattern, _)| pattern.clone()).collect();
        verdict
    }
}

/// A glob that compiles, relative, and inside the repository.
pub fn is_pattern(pattern: &str) -> bool {
    let inside = !pattern.is_empty()
        && !pattern.starts_with('/')
        && !pattern.contains(char::is_control)
        && pattern.split('/').all(|part| part != "..");
    inside && glob(pattern).is_some()
}

fn glob(pattern: &str) -> Option<globset::Glob> {
    GlobBuilder::new(pattern).literal_separator(true).build().ok()
}

/// Two globs for each pattern: itself, and everything below it where it names a folder.
fn set(patterns: &[String]) -> GlobSet {
    let mut builder = GlobSetBuilder::new();
    for pattern in patterns {
        let plain = pattern.trim_end_matches('/');
        for text in [plain.to_owned(), format!("{plain}/**")] {
            builder.add(
                glob(&text)
                    .unwrap_or_else(|| glob("[!/]/[!/]").expect("BUG: a fixed pattern compiles")),
            );
        }
    }
    builder.build().unwrap_or_else(|_| GlobSet::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: AG-13
    #[test]
    fn files_are_judged_by_what_really_changed() {
        let list = |patterns: &[&str]| patterns.iter().map(|&p| p.to_owned()).collect::<Vec<_>>();
        let scope = Scope {
            must_touch: list(&["src/accounting/**", "docs/*.md"]),
            may_touch: list(&["tests"]),
            must_not_touch: list(&["db/migrations/**", "src/accounting/secret.ts"]),
        };
        let paths = [
            "src/accounting/a/b.ts",
            "tests/x/y.ts",
            "db/migrations/1.sql",
            "src/accounting/secret.ts",
            "README.md",
            "docs/deep/a.md",
            ".kodingx/outbox/x/report.md",
        ]
        .map(RelPath::fixed);
        let verdict = scope.judge(&paths);
        let breaches: Vec<_> =
            verdict.breaches.iter().map(|(path, why)| format!("{path}: {why}")).collect();
        assert_eq!(
            breaches,
            [
                "db/migrations/1.sql: must_not_touch has `db/migrations/**`",
                "src/accounting/secret.ts: must_not_touch has `src/accounting/secret.ts`",
                "README.md: no pattern of must_touch or may_touch matches it",
                "docs/deep/a.md: no pattern of must_touch or may_touch matches it",
            ]
        );
        assert_eq!(verdict.untouched, ["docs/*.md"]);
    }

    #[test]
    fn an_empty_scope_allows_nothing() {
        let verdict = Scope::default().judge(&[RelPath::fixed("a")]);
        assert_eq!(verdict.breaches.len(), 1);
        assert!(
            !is_pattern("/etc/*") && !is_pattern("../x") && !is_pattern("a[") && is_pattern("**")
        );
    }
}

//! Somebody wrote something that a rule does not allow. A value, not an error: normal, counted, journalled, shown.

use super::{Digest, RelPath, RuleId};
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    pub rule: RuleId,
    pub file: RelPath,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    pub found: String,
    pub wanted: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

impl Rejection {
    pub fn new(rule: &str, file: &RelPath, found: impl Into<String>, wanted: &str) -> Self {
        Self {
            rule: RuleId::new(rule),
            file: file.clone(),
            line: None,
            found: found.into(),
            wanted: wanted.to_owned(),
            digest: None,
        }
    }

    pub fn at_line(mut self, line: u64) -> Self {
        self.line = Some(line);
        self
    }

    pub fn with_digest(mut self, digest: &Digest) -> Self {
        self.digest = Some(digest.clone());
        self
    }
}

impl Rejection {
    /// What is wrong and what would be right, without the file: for a line that may be cut.
    pub fn gist(&self) -> String {
        let Self { rule, found, wanted, .. } = self;
        let line = self.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        format!("{line}found {found}; wanted {wanted} ({rule})")
    }

    /// What would be right first, the file last: for a summary that may be cut.
    pub fn fix_first(&self) -> String {
        let Self { rule, file, found, wanted, .. } = self;
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        format!("wanted {wanted}; found {found} ({rule}, {file}{line})")
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        let Self { rule, file, found, wanted, .. } = self;
        write!(f, "{rule}  {file}{line}  found {found}; wanted {wanted}")
    }
}

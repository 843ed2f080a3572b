//! What the owner must hear. How it reaches them is not known here.

use super::{Digest, RuleId};
use serde::{Deserialize, Serialize};

/// What makes two messages the same one. Resolving a cause ends its epoch; the repository is added by the shell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cause {
    pub protocol: String,
    pub rule: RuleId,
    pub subject: String,
    pub epoch: u64,
}

impl Cause {
    /// The stable id of the escalation: the same cause in the same repository gives the same id.
    pub fn id(&self, repo: &str) -> String {
        let Self { protocol, rule, subject, epoch } = self;
        let text = format!("{repo}\n{protocol}\n{rule}\n{epoch}\n{subject}");
        Digest::of(text.as_bytes()).short().to_owned()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know, nothing to do.
    Notice,
    Warning,
    /// Work has stopped, or a rule was broken.
    Critical,
}

/// Every field is a sentence or two that the owner can act on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escalation {
    pub cause: Cause,
    pub severity: Severity,
    /// The repository waits for its owner until the cause is resolved.
    pub holds: bool,
    pub summary: String,
    pub what: String,
    pub did: String,
    pub wont: String,
    pub resolve: String,
    /// What the owner may answer, each a verb of the command line.
    #[serde(default)]
    pub options: Vec<String>,
    pub evidence: Vec<String>,
}

//! What the owner must hear. How it reaches them is not known here.

use super::{Digest, RuleId, clip};
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
    /// To every channel, wherever the owner routes its severity.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub everywhere: bool,
}

impl Escalation {
    /// SE-04: a verb that loosens something was used. Each use is a cause of its own, by its `key`.
    pub fn announcement(protocol: &str, key: &str, verb: &str, text: &str) -> Self {
        let summary = format!("`agency {verb}` was used: {}", clip(text, 160));
        Self {
            cause: Cause {
                protocol: protocol.to_owned(),
                rule: RuleId::new("SE-04"),
                subject: format!("{verb} {key}"),
                epoch: 0,
            },
            severity: Severity::Notice,
            holds: false,
            what: summary.clone(),
            summary,
            did: "It was done as asked.".to_owned(),
            wont: "If it was not you, stop the daemon and look at `agency journal`.".to_owned(),
            resolve: "nothing to do".to_owned(),
            options: Vec::new(),
            evidence: Vec::new(),
            everywhere: true,
        }
    }
}

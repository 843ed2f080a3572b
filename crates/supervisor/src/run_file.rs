//! `run.json`: the intent of a run, as the daemon writes it and the shim reads it. It starts nothing.

use crate::sandbox::Plan;
use agency_protocols::model::{Access, RunId, Seat, Timestamp, Usage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The version of the folder's format that this program writes, and the newest that it reads. Since version 2 a run may have
/// a sandbox: a shim that does not know it must not start the run.
pub const VERSION: u32 = 2;

/// `run.json`: the intent, written before the shim is started. It holds the names of the environment, never a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunFile {
    pub version: u32,
    pub run: RunId,
    pub argv: Vec<String>,
    pub dir: PathBuf,
    pub env: Vec<String>,
    pub limits: Limits,
    /// How often the shim touches `alive`.
    pub beat_ms: u64,
    pub repo: PathBuf,
    pub protocol: String,
    pub seat: Seat,
    pub role: String,
    pub task: String,
    pub phase: String,
    pub why: String,
    pub prompt_file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Stdin::is_nothing")]
    pub stdin: Stdin,
    pub intended_at: Timestamp,
    /// A command line of the owner's, and no agent.
    #[serde(default, skip_serializing_if = "is_false")]
    pub command: bool,
    /// The word of its profile. One that is not known means that its output is not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// Its own control group, where we may have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<PathBuf>,
    /// What the resumed session had used before, by the agent's own count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Usage>,
    #[serde(default, skip_serializing_if = "Access::is_write")]
    pub access: Access,
    /// The agent's name in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// As the owner configured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Dollars per million tokens, input and output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<(f64, f64)>,
    /// The same by model, where the owner configured none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, (f64, f64)>,
    /// What keeps the run in; `None`: nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Plan>,
}

/// What a run reads from its standard input, which is never an open pipe: some CLIs wait for its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    #[default]
    Nothing,
    /// The prompt, so that no list of processes shows it.
    Prompt,
}

impl Stdin {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_nothing(&self) -> bool {
        *self == Self::Nothing
    }
}

/// Bounds of one run. Seconds count on the boot clock, suspend included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Until the first byte of output.
    pub first_output_s: Option<u64>,
    /// Between two outputs.
    pub silence_s: Option<u64>,
    /// In all.
    pub wall_s: Option<u64>,
    /// Between the request to end and the kill.
    pub grace_s: u64,
    /// For all logs of the run together; at least 256 KiB.
    pub log_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            first_output_s: None,
            silence_s: Some(10 * 60),
            wall_s: Some(45 * 60),
            grace_s: 5,
            log_bytes: 16 * 1024 * 1024,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_file_from_before_profiles_still_loads() {
        let text = r#"{"version":1,"run":"r","argv":["x"],"dir":"/d","env":[],"beat_ms":1,"repo":"/r",
            "limits":{"first_output_s":null,"silence_s":1,"wall_s":1,"grace_s":1,"log_bytes":1},
            "protocol":"loop","seat":"s","role":"r","task":"t","phase":"p","why":"w",
            "prompt_file":null,"intended_at":"2026-01-01T00:00:00Z"}"#;
        let run: RunFile = serde_json::from_str(text).unwrap();
        assert_eq!((run.profile, run.resume, run.before), (None, None, None));
        assert_eq!(run.sandbox, None);
    }
}

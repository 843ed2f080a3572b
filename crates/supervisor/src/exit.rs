//! `exit.json`: how a run ended, as its shim or the daemon saw it. What the agent says of itself is not in here.

use crate::run_file::VERSION;
use agency_protocols::model::{Outcome, Timestamp};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    Exited(i32),
    Signal(i32),
    /// The limit that it passed: `first-output`, `silence`, `wall-clock`.
    Timeout(String),
    Stopped(String),
    Lost(String),
    FailedToStart(String),
    /// The program that is not there.
    NotFound(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    pub version: u32,
    pub ended_at: Timestamp,
    pub how: How,
    /// The child's own exit code, where it had one; after a stop too, when it proves nothing.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub wall_ms: u64,
    pub cpu_ms: u64,
    pub peak_rss_kb: u64,
    /// Processes that not even the kill ended in time.
    pub survivors: usize,
    /// What went wrong beside the run, such as output that could not be kept.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl ExitRecord {
    pub fn new(how: How, ended_at: Timestamp) -> Self {
        let (code, signal) = match how {
            How::Exited(code) => (Some(code), None),
            How::Signal(signal) => (None, Some(signal)),
            How::Timeout(_)
            | How::Stopped(_)
            | How::Lost(_)
            | How::FailedToStart(_)
            | How::NotFound(_) => (None, None),
        };
        Self {
            version: VERSION,
            ended_at,
            how,
            code,
            signal,
            wall_ms: 0,
            cpu_ms: 0,
            peak_rss_kb: 0,
            survivors: 0,
            notes: Vec::new(),
        }
    }
}

impl How {
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Exited(0) => Outcome::Ok,
            Self::Exited(code) => Outcome::Crash { how: format!("exited with {code}") },
            Self::Signal(signal) => Outcome::Crash { how: format!("killed by {}", name(*signal)) },
            Self::Timeout(limit) => Outcome::Timeout { limit: limit.clone() },
            Self::Stopped(why) => Outcome::Stopped { why: why.clone() },
            Self::Lost(_) => Outcome::Lost,
            Self::NotFound(program) => Outcome::NotFound {
                program: program.clone(),
                ask: format!("`{program}` is not there. Install it, then: agency resume"),
            },
            Self::FailedToStart(why) => Outcome::Crash { how: format!("failed to start: {why}") },
        }
    }
}

fn name(signal: i32) -> String {
    Signal::try_from(signal)
        .map_or_else(|_| format!("signal {signal}"), |signal| signal.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_is_written_in_plain_words() {
        let write = |how: How| serde_json::to_string(&how).unwrap();
        assert_eq!(write(How::Exited(3)), r#"{"exited":3}"#);
        assert_eq!(write(How::FailedToStart("x".to_owned())), r#"{"failed_to_start":"x"}"#);
        assert_eq!(write(How::Timeout("silence".to_owned())), r#"{"timeout":"silence"}"#);
    }

    // covers: SU-02
    #[test]
    fn only_exit_zero_is_a_success() {
        assert_eq!(How::Exited(0).outcome(), Outcome::Ok);
        assert_eq!(How::Lost("x".to_owned()).outcome(), Outcome::Lost);
        assert_eq!(How::Signal(9).outcome(), Outcome::Crash { how: "killed by SIGKILL".into() });
        assert_eq!(How::Exited(1).outcome(), Outcome::Crash { how: "exited with 1".into() });
    }
}

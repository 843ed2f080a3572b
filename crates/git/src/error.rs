//! What can go wrong with git. What a healthy repository may answer, such as "the branch moved", is not an error.

use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("`git` is in no folder of PATH")]
    Missing,
    #[error("cannot {what} `{path}`")]
    Io {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot talk to `git {verb}`")]
    Pipe {
        verb: &'static str,
        #[source]
        source: std::io::Error,
    },
    #[error("`git {verb}` was stopped after {after:?}")]
    TimedOut { verb: &'static str, after: Duration },
    #[error("`git {verb}` wrote more than {limit} bytes")]
    TooMuch { verb: &'static str, limit: u64 },
    /// `code` is `None` when a signal ended it.
    #[error("`git {verb}` failed ({code:?}): `{said}`")]
    Refused { verb: &'static str, code: Option<i32>, said: String },
    #[error("`git {verb}` answered `{found}`, which makes no sense")]
    OddOutput { verb: &'static str, found: String },
    /// A name with a line break, not in UTF-8, or reaching into `.git`.
    #[error("the file name `{path}` cannot be worked with")]
    OddPath { path: String },
    #[error("`{found}` is not {wanted}")]
    BadName { found: String, wanted: &'static str },
    #[error("the planned commit `{planned}` came out as `{found}`")]
    OtherId { planned: String, found: String },
    /// SE-01: one sentence for each thing that is not as the owner trusted it. No git process was started.
    #[error("git is held: {}", sentences(changes))]
    Held { changes: Vec<String> },
    #[error("reading the git directory was broken off")]
    BrokenOff(#[source] tokio::task::JoinError),
}

impl GitError {
    pub(super) fn io(what: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io { what, path: path.to_owned(), source }
    }

    pub(super) fn odd_output(verb: &'static str, found: &[u8]) -> Self {
        Self::OddOutput { verb, found: clipped(found) }
    }
}

fn sentences(changes: &[String]) -> String {
    match changes {
        [] => "something changed".to_owned(),
        [only] => only.clone(),
        [first, rest @ ..] => format!("{first}; and {} more", rest.len()),
    }
}

/// Text from git or the repository, short enough for a log line. git's hints are advice, never the reason.
pub(super) fn clipped(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("hint:")).collect();
    lines.join("\n").trim().chars().take(600).collect()
}

#[cfg(test)]
mod tests {
    use super::clipped;

    // covers: CD-23
    #[test]
    fn the_reason_is_gits_error_and_never_its_hint() {
        let said = b"hint: Support for <GIT_DIR>/info/grafts is deprecated\nhint: and will be removed\n\
            ! [rejected] main -> main (fetch first)\nhint: Updates were rejected\nerror: failed to push some refs\n";
        let reason = "! [rejected] main -> main (fetch first)\nerror: failed to push some refs";
        assert_eq!(clipped(said), reason);
        assert_eq!(clipped(b"hint: only a hint\n"), "");
    }
}

//! Exit codes, and how an error is told: what, where, why, and what to do next.

use crate::config::ConfigError;
use crate::daemon::KeepError;
use crate::repository::RepositoryError;
use crate::workspace::OpenError;
use std::process::ExitCode;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    Fine,
    /// A finding, or a refusal by a rule.
    Finding,
    Usage,
    Failure,
    Busy,
    /// What a command that we ran for somebody ended with.
    Of(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Fine => 0,
            Exit::Finding => 1,
            Exit::Usage => 2,
            Exit::Failure => 3,
            Exit::Busy => 75,
            Exit::Of(code) => code,
        })
    }
}

/// Something that we may not or cannot do, as a person wants to read it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Refused(pub(super) String);

/// Wrong words on the command line that clap cannot know.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Misused(pub(super) String);

/// Prints the error and its causes, and finds its exit code.
pub(super) fn report(error: &anyhow::Error) -> Exit {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        // A transparent layer says the same as the one below it.
        if !text.ends_with(&cause) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&cause);
        }
    }
    anstream::eprintln!("error: {text}");
    let exit = exit_of(error);
    if let Some(hint) = hint(exit) {
        anstream::eprintln!("hint: {hint}");
    }
    exit
}

/// Somebody else works in the repository that was meant.
pub(super) fn is_busy(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(RepositoryError::Busy { .. }))
            || cause.downcast_ref::<OpenError>().is_some_and(OpenError::is_busy)
            || cause.downcast_ref::<KeepError>().is_some_and(KeepError::is_busy)
    })
}

fn exit_of(error: &anyhow::Error) -> Exit {
    if is_busy(error) {
        Exit::Busy
    } else if error.is::<Refused>() {
        Exit::Finding
    } else if error.is::<ConfigError>() || error.is::<Misused>() {
        Exit::Usage
    } else {
        Exit::Failure
    }
}

fn hint(exit: Exit) -> Option<&'static str> {
    match exit {
        Exit::Busy => Some("`agency status` shows what that process does here"),
        Exit::Usage => {
            Some("`agency --help` shows the commands; config/agency.yaml shows every setting")
        }
        Exit::Fine | Exit::Finding | Exit::Failure | Exit::Of(_) => None,
    }
}

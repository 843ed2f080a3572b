//! The service manager's own commands. What a unit says is not known here.

use super::super::exit::Refused;
use super::Kind;
use std::path::Path;
use std::process::{Command, Stdio};

pub(super) enum Manager {
    Systemd { user: bool },
    Launchd,
}

const UNIT: &str = "agency.service";

impl Manager {
    pub(super) fn of(kind: Kind) -> Self {
        match kind {
            Kind::System => Self::Systemd { user: false },
            Kind::User => Self::Systemd { user: true },
            Kind::Launchd => Self::Launchd,
        }
    }

    pub(super) fn start(&self, path: &Path) -> Result<(), Refused> {
        match self {
            Self::Systemd { .. } => {
                self.systemctl(&["daemon-reload"])?;
                self.systemctl(&["enable", UNIT])?;
                // A daemon that runs already takes the new unit by a restart; its runs live on.
                self.systemctl(&["restart", UNIT])
            }
            Self::Launchd => run("launchctl", &["load", "-w", &path.display().to_string()]),
        }
    }

    pub(super) fn stop(&self, path: &Path) -> Result<(), Refused> {
        match self {
            Self::Systemd { .. } => self.systemctl(&["disable", "--now", UNIT]),
            Self::Launchd => run("launchctl", &["unload", "-w", &path.display().to_string()]),
        }
    }

    /// Shows what the manager says; true: it is at work.
    pub(super) fn show(&self) -> Result<bool, Refused> {
        let (program, words): (_, &[&str]) = match self {
            Self::Systemd { user: true } => {
                ("systemctl", &["--user", "--no-pager", "status", UNIT])
            }
            Self::Systemd { user: false } => ("systemctl", &["--no-pager", "status", UNIT]),
            Self::Launchd => ("launchctl", &["list", "dev.agency.daemon"]),
        };
        let status = Command::new(program).args(words).stdin(Stdio::null()).status();
        status.map(|status| status.success()).map_err(|error| cannot(program, &error.to_string()))
    }

    fn systemctl(&self, words: &[&str]) -> Result<(), Refused> {
        let user = matches!(self, Self::Systemd { user: true });
        let words: Vec<&str> =
            user.then_some("--user").into_iter().chain(words.iter().copied()).collect();
        run("systemctl", &words)
    }
}

fn run(program: &str, words: &[&str]) -> Result<(), Refused> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| cannot(program, &error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(cannot(&format!("{program} {}", words.join(" ")), said.trim()))
}

/// What failed, and the command to try.
fn cannot(what: &str, said: &str) -> Refused {
    let is_user = what.contains("--user");
    let hint = if said.contains("Failed to connect to bus") && is_user {
        "this session has no service manager of its own. Log in as the user (not with su or sudo), or: loginctl enable-linger; then try again"
    } else if what.starts_with("launchctl") {
        "try it by hand, or run the daemon in this terminal: agency run"
    } else if is_user {
        "see what it says: systemctl --user status agency.service; or run the daemon in this terminal: agency run"
    } else {
        "see what it says: systemctl status agency.service; or run the daemon in this terminal: agency run"
    };
    Refused(format!("`{what}` failed: {said}\nhint: {hint}"))
}

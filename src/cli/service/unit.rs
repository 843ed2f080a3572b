//! The units that we ship, with this machine's paths in them.

use super::super::exit::Refused;
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// systemd, for the machine.
    System,
    /// systemd, for one user.
    User,
    Launchd,
}

const SYSTEM: &str = include_str!("../../../systemd/agency.service");
const USER: &str = include_str!("../../../systemd/agency-user.service");
const LAUNCHD: &str = include_str!("../../../systemd/dev.agency.daemon.plist");

/// The program and the user that the shipped units name.
const PROGRAM: &str = "/usr/bin/agency";
const OWNER: &str = "User=agency";

pub(super) fn text(kind: Kind, program: &Path, user: Option<&str>) -> Result<String, Refused> {
    let program = program.to_str().filter(|path| is_plain(path)).ok_or_else(|| {
        let found = program.display();
        Refused(format!("`{found}` cannot stand in a unit; put agency at a plain path first"))
    })?;
    if let Some(user) = user.filter(|user| !is_plain(user) || user.contains('/')) {
        return Err(Refused(format!("`{user}` is not a user name")));
    }
    let template = match kind {
        Kind::System => SYSTEM,
        Kind::User => USER,
        Kind::Launchd => LAUNCHD,
    };
    let owner = format!("User={}", user.unwrap_or("agency"));
    Ok(template.replace(PROGRAM, program).replace(OWNER, &owner))
}

/// Nothing that a unit or a plist would read as something else.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "/._-+".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: OP-03
    #[test]
    fn a_unit_names_this_program_and_this_user() {
        let program = Path::new("/opt/agency/bin/agency");
        let system = text(Kind::System, program, Some("builder")).unwrap();
        assert!(system.contains("ExecStart=/opt/agency/bin/agency run\n"), "{system}");
        assert!(system.contains("\nUser=builder\n") && system.contains("\nKillMode=process\n"));
        let user = text(Kind::User, program, None).unwrap();
        assert!(!user.contains("User=") && user.contains("Type=notify\n"));
        let launchd = text(Kind::Launchd, program, None).unwrap();
        assert!(launchd.contains("<string>/opt/agency/bin/agency</string>"));
    }

    #[test]
    fn no_path_or_name_writes_a_line_of_its_own() {
        assert!(text(Kind::System, Path::new("/a b/agency"), None).is_err());
        assert!(text(Kind::System, Path::new("/a\nExecStart=x"), None).is_err());
        assert!(text(Kind::System, Path::new("/a"), Some("root\nUser=x")).is_err());
    }
}

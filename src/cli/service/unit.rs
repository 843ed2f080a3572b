//! The units that we ship, with this machine's paths in them.

use super::super::exit::Refused;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// systemd, for the machine.
    System,
    /// systemd, for one user.
    User,
    Launchd,
}

/// What a unit says of this machine and its owner.
pub(super) struct Installed<'a> {
    pub(super) program: &'a Path,
    /// `None`: the user that the shipped unit names.
    pub(super) user: Option<&'a str>,
    /// As the owner's shell has it.
    pub(super) path: &'a str,
    /// Set beside `PATH`; where the unit for the machine has its own, none.
    pub(super) variables: Vec<(&'static str, PathBuf)>,
    /// The file with the keys.
    pub(super) keys: &'a Path,
}

const SYSTEM: &str = include_str!("../../../systemd/agency.service");
const USER: &str = include_str!("../../../systemd/agency-user.service");
const LAUNCHD: &str = include_str!("../../../systemd/dev.agency.daemon.plist");

/// What the shipped units name and an installed one replaces.
const PROGRAM: &str = "/usr/bin/agency";
const OWNER: &str = "User=agency";
const USUAL_PATH: &str =
    "Environment=\"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"";
const SYSTEM_KEYS: &str = "EnvironmentFile=-/etc/agency/agency.env";
const USER_KEYS: &str = "EnvironmentFile=-%h/.config/agency/agency.env";
const LAUNCHD_PATH: &str = "    <key>PATH</key>
    <string>/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin:/usr/sbin:/sbin</string>
";
const LAUNCHD_START: &str = "    <string>/usr/bin/agency</string>
    <string>run</string>
";

pub(super) fn text(kind: Kind, installed: &Installed<'_>) -> Result<String, Refused> {
    let Installed { program, user, .. } = installed;
    let program = program.to_str().filter(|path| is_plain(path)).ok_or_else(|| {
        let found = program.display();
        Refused(format!("`{found}` cannot stand in a unit; put agency at a plain path first"))
    })?;
    if let Some(user) = user.filter(|user| !is_plain(user) || user.contains('/')) {
        return Err(Refused(format!("`{user}` is not a user name")));
    }
    Ok(match kind {
        Kind::System | Kind::User => systemd(kind, program, installed)?,
        Kind::Launchd => launchd(program, installed)?,
    })
}

fn systemd(kind: Kind, program: &str, installed: &Installed<'_>) -> Result<String, Refused> {
    let (template, keys) = match kind {
        Kind::System => (SYSTEM, SYSTEM_KEYS),
        Kind::User | Kind::Launchd => (USER, USER_KEYS),
    };
    let mut lines = vec![variable("PATH", installed.path)?];
    for (name, value) in &installed.variables {
        lines.push(variable(name, &value.to_string_lossy())?);
    }
    let file = quoted(&installed.keys.to_string_lossy())?;
    let owner = format!("User={}", installed.user.unwrap_or("agency"));
    Ok(template
        .replace(USUAL_PATH, &lines.join("\n"))
        .replace(keys, &format!("EnvironmentFile=-{file}"))
        .replace(PROGRAM, program)
        .replace(OWNER, &owner))
}

/// `Environment="NAME=value"`, in systemd's own quoting.
fn variable(name: &str, value: &str) -> Result<String, Refused> {
    let value = quoted(value)?.replace('\\', "\\\\").replace('"', "\\\"");
    Ok(format!("Environment=\"{name}={value}\""))
}

/// `%` names a specifier of systemd; a line break would begin a line of its own.
fn quoted(value: &str) -> Result<String, Refused> {
    if value.chars().any(char::is_control) {
        return Err(Refused("a path with a control character cannot stand in a unit".to_owned()));
    }
    Ok(value.replace('%', "%%"))
}

/// launchd reads no file of variables, so a shell does it and becomes the daemon.
fn launchd(program: &str, installed: &Installed<'_>) -> Result<String, Refused> {
    let keys = installed.keys.to_string_lossy().replace('\'', "'\\''");
    let script = format!("set -a; [ -r '{keys}' ] && . '{keys}'; exec '{program}' run");
    let words =
        ["/bin/sh", "-c", &script].map(|word| format!("    <string>{}</string>\n", xml(word)));
    let entry = |name: &str, value: &str| {
        format!("    <key>{name}</key>\n    <string>{}</string>\n", xml(value))
    };
    let mut variables = entry("PATH", &quoted(installed.path)?.replace("%%", "%"));
    for (name, value) in &installed.variables {
        variables.push_str(&entry(name, &value.to_string_lossy()));
    }
    Ok(LAUNCHD.replace(LAUNCHD_START, &words.concat()).replace(LAUNCHD_PATH, &variables))
}

fn xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Nothing that a unit or a plist would read as something else.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "/._-+".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed<'a>(program: &'a Path, user: Option<&'a str>) -> Installed<'a> {
        let variables = vec![("AGENCY_STATE_DIR", PathBuf::from("/home/me/100%/state"))];
        let (path, keys) = ("/home/me/.npm/bin:/usr/bin", Path::new("/home/me/agency.env"));
        Installed { program, user, path, variables, keys }
    }

    // covers: OP-03
    #[test]
    fn a_unit_names_this_program_this_user_the_path_and_the_keys() {
        let program = Path::new("/opt/agency/bin/agency");
        let system = text(Kind::System, &installed(program, Some("builder"))).unwrap();
        assert!(system.contains("ExecStart=/opt/agency/bin/agency run\n"), "{system}");
        assert!(system.contains("\nUser=builder\n") && system.contains("\nKillMode=process\n"));
        let user = text(Kind::User, &installed(program, None)).unwrap();
        assert!(!user.contains("User=") && user.contains("Type=notify\n"));
        for unit in [&system, &user] {
            for line in [
                "Environment=\"PATH=/home/me/.npm/bin:/usr/bin\"",
                "Environment=\"AGENCY_STATE_DIR=/home/me/100%%/state\"",
                "EnvironmentFile=-/home/me/agency.env",
            ] {
                assert!(unit.lines().any(|found| found == line), "{line}: {unit}");
            }
        }
        let launchd = text(Kind::Launchd, &installed(program, None)).unwrap();
        for words in [
            ". '/home/me/agency.env'; exec '/opt/agency/bin/agency' run</string>",
            "<string>/home/me/.npm/bin:/usr/bin</string>",
            "<string>/home/me/100%/state</string>",
        ] {
            assert!(launchd.contains(words), "{words}: {launchd}");
        }
    }

    #[test]
    fn no_path_or_name_writes_a_line_of_its_own() {
        let refused =
            |program: &str, user| text(Kind::System, &installed(Path::new(program), user)).is_err();
        assert!(refused("/a b/agency", None) && refused("/a\nExecStart=x", None));
        assert!(refused("/a", Some("root\nUser=x")));
        let mut odd = installed(Path::new("/a"), None);
        odd.path = "/bin\nExecStart=x";
        assert!(text(Kind::User, &odd).is_err() && text(Kind::Launchd, &odd).is_err());
    }
}

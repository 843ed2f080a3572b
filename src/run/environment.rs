//! Which variables a run sees. A pure list over names: it reads no environment itself.

use crate::model::Spawn;
use std::collections::BTreeMap;
use std::path::Path;

/// Passed on to every run. A final `*` stands for any ending.
const ALWAYS: &[&str] = &[
    "HOME",
    "PATH",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_*",
    "TZ",
    "TMPDIR",
    "XDG_*",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_*",
    "NODE_EXTRA_CA_CERTS",
];

/// What a run's configuration says about names.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'a> {
    /// What its profile needs and what `env:` names; a final `*` stands for any ending.
    pub extra: &'a [String],
    /// Variables that hold a channel's secret: never passed on, whatever `extra` says (SE-03).
    pub never: &'a [String],
}

/// The whole environment of a run: the allowed part of `from`, and the `AGENCY_*` names that tell it what it is.
pub fn of_run(
    from: impl IntoIterator<Item = (String, String)>,
    names: Names<'_>,
    spawn: &Spawn,
    repo: &Path,
    protocol: &str,
) -> Vec<(String, String)> {
    let mut env: BTreeMap<String, String> =
        from.into_iter().filter(|(name, _)| allowed(name, names)).collect();
    env.extend(identity(spawn, repo, protocol));
    env.into_iter().collect()
}

/// Our own variables never pass: one may hold a secret, and another run's would be a lie.
fn allowed(name: &str, names: Names<'_>) -> bool {
    let listed = ALWAYS.iter().any(|pattern| fits(pattern, name))
        || names.extra.iter().any(|pattern| fits(pattern, name));
    listed && !name.starts_with("AGENCY_") && !names.never.iter().any(|never| never == name)
}

/// A lone `*` fits nothing: nobody means the daemon's whole environment.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => !start.is_empty() && name.starts_with(start),
        None => pattern == name,
    }
}

fn identity(spawn: &Spawn, repo: &Path, protocol: &str) -> [(String, String); 7] {
    [
        ("AGENCY_RUN", spawn.run.to_string()),
        ("AGENCY_REPO", repo.display().to_string()),
        ("AGENCY_PROTOCOL", protocol.to_owned()),
        ("AGENCY_AGENT", spawn.seat.to_string()),
        ("AGENCY_ROLE", spawn.role.clone()),
        ("AGENCY_TASK", spawn.task.clone()),
        ("AGENCY_PHASE", spawn.phase.clone()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Access, RunId, Seat, TreeRef};

    fn names_of(from: &[&str], extra: &[&str], never: &[&str]) -> Vec<String> {
        let owned = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect::<Vec<String>>();
        let (extra, never) = (owned(extra), owned(never));
        let spawn = Spawn {
            run: RunId::new("r1"),
            seat: Seat::new("codex"),
            role: "builder".to_owned(),
            tree: TreeRef::Main,
            task: "6".to_owned(),
            phase: "review".to_owned(),
            prompt: String::new(),
            why: String::new(),
            resume: None,
            command: None,
            access: Access::Write,
        };
        let from = from.iter().map(|&name| (name.to_owned(), "v".to_owned()));
        let names = Names { extra: &extra, never: &never };
        let env = of_run(from, names, &spawn, Path::new("/r"), "loop");
        env.into_iter().filter(|(_, value)| value == "v").map(|(name, _)| name).collect()
    }

    // covers: SE-03
    #[test]
    fn only_listed_names_pass() {
        let from = ["PATH", "LC_ALL", "https_proxy", "SSL_CERT_DIR", "AWS_SECRET_KEY", "PATHX"];
        assert_eq!(names_of(&from, &[], &[]), ["LC_ALL", "PATH", "SSL_CERT_DIR", "https_proxy"]);
    }

    // covers: SE-03
    #[test]
    fn a_profile_adds_names_but_no_secret_and_none_of_ours() {
        let from = ["OPENAI_API_KEY", "OPENAI_HOOK", "AGENCY_WEBHOOK_SECRET", "AGENCY_RUN", "X"];
        let extra = ["OPENAI_*", "AGENCY_WEBHOOK_SECRET", "AGENCY_*", "*"];
        assert_eq!(names_of(&from, &extra, &["OPENAI_HOOK"]), ["OPENAI_API_KEY"]);
    }
}

//! The sandbox of a run as a plan for its shim (SE-06): what the owner's configuration, the run's CLI and common tools need, and
//! nothing of ours. It applies nothing.

use super::profile::{self, Profile};
use crate::config::{Agent, Config, Env, Network, SandboxMode};
use crate::git::GitWrites;
use crate::model::Access;
pub use agency_supervisor::sandbox::{Kernel, Plan, probe};
use std::path::{Path, PathBuf};

/// Caches that package managers and compilers share between projects, below the home folder. `~/.cargo` and `~/.rustup`
/// themselves hold programs and are only read.
const CACHES: &[&str] = &[
    ".npm",
    ".cargo/registry",
    ".cargo/git",
    ".cargo/.package-cache",
    ".cargo/.package-cache-mutate",
    ".cargo/.global-cache",
    "go/pkg",
    ".local/share/pnpm/store",
];
/// The variable that names the folder for temporary files.
const TEMP: &str = "TMPDIR";

/// Where our own things lie that no run may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ours {
    pub state_dir: PathBuf,
    /// Our folder of the repository.
    pub folder: PathBuf,
}

/// What a run is, as far as its sandbox depends on it.
#[derive(Debug)]
pub struct Subject<'a> {
    pub dir: &'a Path,
    /// `None`: a command line of the owner's.
    pub agent: Option<&'a Agent>,
    pub profile: Option<Profile>,
    pub access: Access,
    /// The run's own folder.
    pub folder: &'a Path,
    /// The run's environment.
    pub env: &'a Env,
}

/// Whether runs of this agent have a sandbox here. `Strict` always has one: without Landlock such a run fails to start.
pub fn is_confined(config: &Config, agent: Option<&Agent>, kernel: Kernel) -> bool {
    match mode_of(config, agent) {
        SandboxMode::Auto => kernel.abi().is_some(),
        SandboxMode::Strict => true,
        SandboxMode::Off => false,
    }
}

pub fn mode_of(config: &Config, agent: Option<&Agent>) -> SandboxMode {
    agent.and_then(|agent| agent.sandbox).unwrap_or(config.sandbox.mode)
}

/// `None`: this run has no sandbox.
pub fn plan(config: &Config, ours: &Ours, subject: &Subject<'_>) -> Option<Plan> {
    if !is_confined(config, subject.agent, Kernel::here()) {
        return None;
    }
    let env = subject.env;
    let expand = |paths: &[String]| -> Vec<PathBuf> {
        paths.iter().filter_map(|path| env.expand(path)).collect()
    };
    let mut plan = Plan {
        write: expand(&config.sandbox.write),
        hide: expand(&config.sandbox.hide),
        read: vec![subject.folder.to_owned(), ours.folder.join("repo.json")],
        ports: match &config.sandbox.network {
            Network::Any => None,
            Network::Ports(ports) => Some(ports.clone()),
        },
        temp: env.absolute(TEMP).unwrap_or_else(|| PathBuf::from("/tmp")),
        temp_env: vec![TEMP.to_owned()],
        ..Plan::default()
    };
    plan.hide.extend(hidden_of_ours(config, ours, env));
    match subject.access {
        // Worktrees lie in our state directory, which is hidden.
        Access::ReadOnly => plan.read.push(subject.dir.to_owned()),
        Access::Write | Access::Commit => plan.write_exact.push(subject.dir.to_owned()),
    }
    add_caches(&mut plan, env);
    if let Some(profile) = subject.profile {
        add_own_state(&mut plan, profile, env);
    }
    Some(plan)
}

/// Below the home folder: with what git signs in to remotes.
const GIT_SIGN_INS: &[&str] = &[".ssh", ".netrc", ".config/gh", ".git-credentials"];

/// For agents whose own verbs push: git's sign-ins stay readable to them.
pub fn show_git_sign_ins(plan: &mut Plan) {
    plan.hide.retain(|path| !GIT_SIGN_INS.iter().any(|name| path.ends_with(name)));
}

/// What an agent that commits in a worktree writes of the git directory.
pub fn add_git(plan: &mut Plan, git: GitWrites) {
    plan.write_exact.extend(git.folders);
    plan.make.extend(git.make);
}

fn hidden_of_ours(config: &Config, ours: &Ours, env: &Env) -> Vec<PathBuf> {
    let usual = env.base("XDG_CONFIG_HOME", ".config").map(|base| base.join("agency"));
    let machine = PathBuf::from("/etc/agency");
    let all = [Some(ours.state_dir.clone()), config.file.clone(), usual, Some(machine)];
    all.into_iter().flatten().filter(|path| path.is_absolute()).collect()
}

fn add_caches(plan: &mut Plan, env: &Env) {
    let home = env.home();
    if let Some(cache) = env.base("XDG_CACHE_HOME", ".cache") {
        plan.make.push(cache.clone());
        plan.write.push(cache);
    }
    if let Some(home) = &home {
        plan.make.push(home.join(".npm"));
        plan.write.extend(CACHES.iter().map(|name| home.join(name)));
    }
}

/// The CLI's sessions, settings and sign-in.
fn add_own_state(plan: &mut Plan, profile: Profile, env: &Env) {
    let state = profile::own_state(profile);
    let named = state.variable.and_then(|name| env.absolute(name));
    let folder = named.or_else(|| Some(env.home()?.join(state.folder)));
    plan.make.extend(folder.clone());
    plan.write.extend(folder);
    let files = state.files.iter().filter_map(|name| Some(env.home()?.join(name)));
    plan.write.extend(files);
    plan.temp_env.extend(state.temp.map(str::to_owned));
}

/// Paths of `sandbox.write` that grant nothing because they do not exist, for `agency doctor`.
pub fn missing(config: &Config, env: &Env) -> Vec<String> {
    let is_missing = |path: &&String| env.expand(path).is_none_or(|path| !path.exists());
    config.sandbox.write.iter().filter(is_missing).cloned().collect()
}

/// Paths of `sandbox.write` that open what would be hidden: granting a folder grants everything in it.
pub fn opened(config: &Config, ours: &Ours, env: &Env) -> Vec<String> {
    let mut hidden: Vec<PathBuf> =
        config.sandbox.hide.iter().filter_map(|path| env.expand(path)).collect();
    hidden.extend(hidden_of_ours(config, ours, env));
    let opens = |path: &&String| {
        let path = env.expand(path);
        path.is_some_and(|path| hidden.iter().any(|hidden| hidden.starts_with(&path)))
    };
    config.sandbox.write.iter().filter(opens).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(yaml: &str) -> Config {
        Config::parse(yaml.as_bytes(), &env()).unwrap()
    }

    fn env() -> Env {
        Env::from_iter([("HOME", "/h"), ("CODEX_HOME", "/h/my-codex")])
    }

    fn planned(yaml: &str, profile: Option<Profile>, access: Access) -> Option<Plan> {
        let ours = Ours { state_dir: "/h/.local/state/agency".into(), folder: "/s/shop".into() };
        let (env, dir, folder) = (env(), Path::new("/h/src/shop"), Path::new("/s/shop/runs/r1"));
        let subject = Subject { dir, agent: None, profile, access, folder, env: &env };
        plan(&config(yaml), &ours, &subject)
    }

    // covers: SE-06
    #[test]
    fn the_mode_decides_and_strict_never_gives_way() {
        let (with, without) = (Kernel::Landlock { abi: 1 }, Kernel::Nothing { why: "x" });
        let confined = |mode: &str, kernel| {
            is_confined(&config(&format!("sandbox: {{ mode: {mode} }}")), None, kernel)
        };
        assert!(confined("auto", with) && !confined("auto", without));
        assert!(confined("strict", with) && confined("strict", without));
        assert!(!confined("off", with) && !confined("off", without));
        let config = config("agents: { codex: { sandbox: strict } }\nsandbox: { mode: off }");
        assert!(is_confined(&config, Some(&config.agents["codex"]), without));
        assert!(!is_confined(&config, Some(&config.agents["gemini"]), with));
    }

    // covers: SE-06
    #[test]
    fn ours_is_hidden_and_only_the_own_cli_keeps_its_state() {
        let strict = "sandbox: { mode: strict, write: [~/.gradle], network: [443] }";
        let plan = planned(strict, Some(Profile::Codex), Access::Write).unwrap();
        for hidden in ["/h/.ssh", "/h/.local/state/agency", "/h/.config/agency", "/etc/agency"] {
            assert!(plan.hide.contains(&PathBuf::from(hidden)), "{hidden}");
        }
        for written in ["/h/my-codex", "/h/.cache", "/h/.cargo/registry", "/h/.gradle"] {
            assert!(plan.write.contains(&PathBuf::from(written)), "{written}");
        }
        let all: Vec<&PathBuf> = plan.write.iter().chain(&plan.write_exact).collect();
        for closed in ["/h", "/h/.claude", "/h/.codex", "/h/.cargo", "/h/.config", "/s/shop"] {
            assert!(!all.contains(&&PathBuf::from(closed)), "{closed}");
        }
        assert_eq!(plan.write_exact, [PathBuf::from("/h/src/shop")]);
        assert_eq!(plan.ports, Some(vec![443]));
        let looks = planned(strict, Some(Profile::Codex), Access::ReadOnly).unwrap();
        assert!(looks.write_exact.is_empty(), "an agent that may only look writes no tree");
        assert!(looks.read.contains(&PathBuf::from("/h/src/shop")), "but it reads its tree");
        assert_eq!(planned("sandbox: { mode: off }", None, Access::Write), None);
    }

    #[test]
    fn a_path_that_opens_what_is_hidden_is_named() {
        let ours = Ours { state_dir: "/h/.local/state/agency".into(), folder: PathBuf::new() };
        let config = config("sandbox: { write: [~/.gradle, ~/.local, /h] }");
        assert_eq!(opened(&config, &ours, &env()), ["~/.local", "/h"]);
        assert_eq!(missing(&config, &env()).len(), 3);
    }
}

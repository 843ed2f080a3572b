//! From a spawn to a run: whose command line, which environment, which limits. It starts nothing.

use super::Limits;
use super::environment::{self, Names};
use super::profile::{self, Launch, Options, Permissions, Profile};
use super::sandbox::{self, Kernel, Ours, Subject};
use super::spec::{RunSpec, Values, expand};
use crate::config::{Agent, Config, Env, Start};
use crate::model::{Access, CommandLine, Seat, Spawn, WrittenBy};
use agency_supervisor::run_file::Stdin;
use agency_supervisor::run_name;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

/// What every run of one repository has in common.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The repository, as the agent is told.
    pub repo: PathBuf,
    pub config: Arc<Config>,
    /// The daemon's own environment; only what the list allows is passed on.
    pub env: Arc<Vec<(String, String)>>,
    /// What no run may reach.
    pub ours: Ours,
}

#[derive(Debug, thiserror::Error)]
#[error("nobody is configured for the seat `{seat}` (role `{role}`)")]
pub struct NoAgent {
    seat: String,
    role: String,
}

impl Launcher {
    /// `dir` is the tree that the run works in, `prompt_file` where its prompt will lie, `allow` the command lines that an agent
    /// may run to check its work, `git_dirs` the git folders that it may write to.
    pub fn spec(
        &self,
        spawn: &Spawn,
        protocol: &str,
        dir: &Path,
        prompt_file: &Path,
        allow: &[String],
        git_dirs: &[PathBuf],
    ) -> Result<RunSpec, NoAgent> {
        if let Some(command) = &spawn.command {
            let mut spec = self.command(command, spawn, protocol, dir);
            match command.by {
                WrittenBy::Owner => self.confine(&mut spec, None, prompt_file),
                WrittenBy::Agency => {}
            }
            return Ok(spec);
        }
        let no_agent = || NoAgent { seat: spawn.seat.to_string(), role: spawn.role.clone() };
        let (name, agent) = self.config.agent_for(&spawn.seat, &spawn.role).ok_or_else(no_agent)?;
        let (launch, profile) = self.launch(agent, spawn, allow, git_dirs);
        let extra: Vec<String> = agent.env.iter().cloned().chain(launch.env_names).collect();
        let values = Values {
            prompt: &spawn.prompt,
            prompt_file,
            repo: dir,
            run: &spawn.run,
            task: &spawn.task,
        };
        let mut spec = RunSpec {
            argv: expand(&launch.argv_template, &values),
            spawn: spawn.clone(),
            repo: self.repo.clone(),
            protocol: protocol.to_owned(),
            dir: dir.to_owned(),
            stdin: launch.stdin,
            env: self.environment(&extra, &launch.env_set, spawn, protocol),
            limits: limits(agent),
            profile,
            agent: Some(name.to_owned()),
            price: agent.model.as_ref().and_then(|model| self.config.prices.get(model)).copied(),
            prices: match agent.model {
                Some(_) => BTreeMap::new(),
                None => self.config.prices.clone(),
            },
            model: agent.model.clone(),
            sandbox: None,
        };
        self.confine(&mut spec, Some(agent), prompt_file);
        Ok(spec)
    }

    /// Gives the run its sandbox, and tells it where its own folder is, which it can see only by this.
    fn confine(&self, spec: &mut RunSpec, agent: Option<&Agent>, prompt_file: &Path) {
        let env: Env = spec.env.iter().cloned().collect();
        let folder = prompt_file.parent().unwrap_or(prompt_file);
        let subject = Subject {
            dir: &spec.dir,
            agent,
            profile: spec.profile,
            access: agent.map_or(Access::Write, |agent| access(agent, spec.spawn.access)),
            folder,
            env: &env,
        };
        spec.sandbox = sandbox::plan(&self.config, &self.ours, &subject);
        if spec.sandbox.is_some() {
            spec.env.push((run_name::FOLDER.to_owned(), folder.display().to_string()));
        }
    }

    /// SU-11: what keeps the agent of a seat from being started, as far as its program tells. It has a sentence for the owner.
    pub fn missing(&self, seat: &Seat, role: &str) -> Option<String> {
        let (name, agent) = self.config.agent_for(seat, role)?;
        let (program, profile) = match &agent.start {
            Start::Profile(profile) => (profile::word(*profile), Some(*profile)),
            Start::Command(command) => (command.first()?.as_str(), profile::by_program(command)),
        };
        let path = OsStr::new(self.path().unwrap_or_default());
        (!profile::is_in(path, program)).then(|| profile::missing(program, profile, name))
    }

    /// The owner's command line is theirs to write, so a shell reads it. It gets no agent's keys.
    fn command(&self, command: &CommandLine, spawn: &Spawn, protocol: &str, dir: &Path) -> RunSpec {
        let env_set = vec![("CI".to_owned(), "true".to_owned())];
        RunSpec {
            argv: ["sh", "-c", &command.line].map(str::to_owned).to_vec(),
            spawn: spawn.clone(),
            repo: self.repo.clone(),
            protocol: protocol.to_owned(),
            dir: dir.to_owned(),
            stdin: Stdin::Nothing,
            env: self.environment(&[], &env_set, spawn, protocol),
            limits: Limits {
                first_output_s: None,
                silence_s: None,
                wall_s: Some(command.timeout_s),
                ..Limits::default()
            },
            profile: None,
            agent: None,
            model: None,
            price: None,
            prices: BTreeMap::new(),
            sandbox: None,
        }
    }

    /// By a built-in profile, or as the owner wrote it; whose output it will be is known in both cases.
    fn launch(
        &self,
        agent: &Agent,
        spawn: &Spawn,
        allow: &[String],
        git_dirs: &[PathBuf],
    ) -> (Launch, Option<Profile>) {
        match &agent.start {
            Start::Profile(profile) => {
                let options = Options {
                    program: self.path().and_then(|path| profile::find(*profile, OsStr::new(path))),
                    session: Some(Uuid::new_v4()),
                    resume: spawn.resume.clone(),
                    access: spawn.access,
                    budget_usd: agent.cost_per_run_usd,
                    model: agent.model.clone(),
                    args: agent.args.clone(),
                    permissions: agent.permissions,
                    allow: allow.to_vec(),
                    git_dirs: git_dirs.to_vec(),
                    sandboxed: sandbox::is_confined(&self.config, Some(agent), Kernel::here()),
                };
                (profile::launch(*profile, &options), Some(*profile))
            }
            Start::Command(command) => {
                let (env_names, env_set) = (Vec::new(), Vec::new());
                let launch = Launch {
                    argv_template: command.clone(),
                    env_names,
                    env_set,
                    stdin: Stdin::Nothing,
                };
                (launch, profile::by_program(command))
            }
        }
    }

    fn path(&self) -> Option<&str> {
        let found = self.env.iter().find(|(name, _)| name == "PATH");
        found.map(|(_, value)| value.as_str())
    }

    fn environment(
        &self,
        extra: &[String],
        env_set: &[(String, String)],
        spawn: &Spawn,
        protocol: &str,
    ) -> Vec<(String, String)> {
        let never: Vec<String> =
            self.config.escalation.secret_names().into_iter().map(str::to_owned).collect();
        let names = Names { extra, never: &never };
        let from = self.env.iter().cloned();
        let mut env = environment::of_run(from, names, spawn, &self.repo, protocol);
        env.retain(|(name, _)| env_set.iter().all(|(set, _)| set != name));
        env.extend(env_set.iter().cloned());
        env
    }
}

/// An agent with a profile that may only look is kept from writing by us where its CLI's own sandbox is off. What the owner's
/// own command line does is theirs.
fn access(agent: &Agent, run: Access) -> Access {
    match &agent.start {
        Start::Profile(_) if agent.permissions == Permissions::ReadOnly => Access::ReadOnly,
        Start::Profile(_) => run,
        Start::Command(_) => Access::Write,
    }
}

fn limits(agent: &Agent) -> Limits {
    Limits {
        first_output_s: Some(agent.first_output.as_secs()),
        silence_s: Some(agent.silence.as_secs()),
        wall_s: Some(agent.timeout.as_secs()),
        ..Limits::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Env;
    use crate::model::{Access, RunId, TreeRef};

    fn spawn(prompt: &str) -> Spawn {
        Spawn {
            run: RunId::new("r1"),
            seat: Seat::new("codex"),
            role: "reviewer".to_owned(),
            tree: TreeRef::Main,
            task: "6".to_owned(),
            phase: "review".to_owned(),
            prompt: prompt.to_owned(),
            why: String::new(),
            resume: None,
            command: None,
            access: Access::Write,
        }
    }

    fn launcher(yaml: &str) -> Launcher {
        let config = Config::parse(yaml.as_bytes(), &Env::default()).unwrap();
        let env = [("OPENAI_API_KEY", "k"), ("HOOK", "secret"), ("OTHER", "x"), ("HOME", "/h")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let ours = Ours { state_dir: "/s".into(), folder: "/s/r".into() };
        Launcher { repo: "/r".into(), config: Arc::new(config), env: Arc::new(env), ours }
    }

    // covers: SU-01, SE-02
    #[test]
    fn a_prompt_is_one_word_whatever_is_in_it() {
        let launcher =
            launcher("agents: { codex: { command: [run-it, --ask, \"{prompt}\", \"{repo}\"] } }\n");
        let hostile = "--help; rm -rf / $(id) `id` {repo}\n'\"";
        let spec = launcher
            .spec(&spawn(hostile), "loop", Path::new("/r"), Path::new("/p"), &[], &[])
            .unwrap();
        assert_eq!(spec.argv, ["run-it", "--ask", hostile, "/r"]);
        assert_eq!(spec.profile, None);
    }

    // covers: SE-03
    #[test]
    fn a_profile_gets_its_key_and_no_channels_secret() {
        let launcher = launcher(
            "agents: { codex: { profile: codex, env: [OTHER] } }\n\
             escalation: { webhooks: [ { url: \"https://example.com/x\", secret_env: HOOK } ] }\n",
        );
        let spec =
            launcher.spec(&spawn("p"), "loop", Path::new("/r"), Path::new("/p"), &[], &[]).unwrap();
        let names: Vec<_> = spec.env.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.contains(&"OPENAI_API_KEY") && names.contains(&"OTHER"), "{names:?}");
        assert!(!names.contains(&"HOOK"), "{names:?}");
        assert_eq!(spec.profile, Some(Profile::Codex));
    }

    // covers: AG-34
    #[test]
    fn who_may_only_look_is_started_so_where_its_cli_can_be() {
        let argv = |yaml: &str, access: Access| {
            let spawn = Spawn { access, ..spawn("p") };
            let spec =
                launcher(yaml).spec(&spawn, "board", Path::new("/r"), Path::new("/p"), &[], &[]);
            spec.unwrap().argv.join(" ")
        };
        let profile = "agents: { codex: { profile: codex } }\nsandbox: { mode: off }\n";
        assert!(argv(profile, Access::ReadOnly).contains("-s read-only"));
        assert!(argv(profile, Access::Write).contains("-s workspace-write"));
        let command = "agents: { codex: { command: [codex, exec, \"{prompt}\"] } }\n";
        assert_eq!(argv(command, Access::ReadOnly), "codex exec p", "the owner's line is theirs");
    }

    // covers: SE-06, SU-12
    #[test]
    fn inside_our_sandbox_who_may_only_look_writes_no_tree() {
        let spec = |yaml: &str, access: Access| {
            let spawn = Spawn { access, ..spawn("p") };
            let yaml = format!("{yaml}\nsandbox: {{ mode: strict }}\n");
            launcher(&yaml)
                .spec(&spawn, "board", Path::new("/r"), Path::new("/s/p"), &[], &[])
                .unwrap()
        };
        let tree = |yaml: &str, access: Access| spec(yaml, access).sandbox.unwrap().write_exact;
        let profile = "agents: { codex: { profile: codex } }";
        assert_eq!(tree(profile, Access::Write), [Path::new("/r")]);
        assert!(tree(profile, Access::ReadOnly).is_empty());
        let permitted = "agents: { codex: { profile: codex, permissions: read-only } }";
        assert!(tree(permitted, Access::Write).is_empty());
        let command = "agents: { codex: { command: [codex, exec, \"{prompt}\"] } }";
        assert_eq!(tree(command, Access::ReadOnly), [Path::new("/r")], "the owner's line");
        let own = "agents: { codex: { profile: codex, sandbox: off } }";
        assert_eq!(spec(own, Access::Write).sandbox, None);
        assert!(spec(profile, Access::Write).argv.join(" ").contains("dangerously-bypass"));
        assert!(spec(own, Access::Write).argv.join(" ").contains("-s workspace-write"));
    }

    // covers: LP-22
    #[test]
    fn an_owners_command_line_gets_a_shell_and_no_agents_keys() {
        let launcher = launcher("agents: { codex: { profile: codex, env: [OTHER] } }\n");
        let line = "npm test && echo $HOME".into();
        let command = Some(CommandLine { line, timeout_s: 60, by: WrittenBy::Owner, clean: None });
        let gate = Spawn { command, seat: Seat::new("gate"), ..spawn("") };
        let spec =
            launcher.spec(&gate, "loop", Path::new("/r"), Path::new("/p"), &[], &[]).unwrap();
        assert_eq!(spec.argv, ["sh", "-c", "npm test && echo $HOME"]);
        assert_eq!((spec.limits.wall_s, spec.limits.silence_s), (Some(60), None));
        let value = |name: &str| spec.env.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        assert_eq!((value("OPENAI_API_KEY"), value("OTHER")), (None, None));
        assert_eq!((value("CI"), value("HOME")), (Some("true"), Some("/h")));
    }
}

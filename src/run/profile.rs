//! What we know of today's agent CLIs: how each is started headless, and what its output means. It starts nothing.
//!
//! Every CLI has one file: its command line, the variables it needs, and a reader of its output. Only events that the
//! CLI itself writes are read, never a model's prose. aider has no events: its fixed lines are all there is.
//!
//! One word of the model's is kept, unread: its last message, which is how an agent answers that was started read-only. For
//! that, a CLI is given the narrowest mode that still lets it look around and answer. claude's and gemini's own `plan` modes
//! are no such thing: they tell the model to write a plan for later and how to ask for leave to begin.

mod aider;
mod claude;
mod codex;
mod gemini;
mod native;
mod outcome;
mod reader;
mod report;

pub use crate::config::{Permissions, Profile};
pub use crate::model::Access;
pub use native::{find, is_in, native_codex};
pub use outcome::{Situation, missing, outcome, refusal};
pub use reader::{LINE_MAX, Reader, Stream};
pub use report::{Class, Counting, Finish, Report, Reset};

use agency_supervisor::run_file::Stdin;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// What a run asks of its CLI beyond the prompt. What a CLI has no flag for is left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Where the program was found; else it is looked up by the name in the run's `PATH`.
    pub program: Option<PathBuf>,
    /// The name that a new session shall have, where the CLI lets us choose.
    pub session: Option<Uuid>,
    /// The session to go on with; then `session` does not count.
    pub resume: Option<String>,
    pub access: Access,
    pub budget_usd: Option<f64>,
    pub model: Option<String>,
    /// The owner's own arguments, before the prompt.
    pub args: Vec<String>,
    pub permissions: Permissions,
    /// Command lines that an agent with `Permissions::Test` may run.
    pub allow: Vec<String>,
    /// The git folders that a commit in the run's tree writes to, for an agent that makes commits.
    pub git_dirs: Vec<PathBuf>,
    /// Our own sandbox holds the run, so the CLI's own is switched off: theirs cannot start inside ours.
    pub sandboxed: bool,
}

/// What a CLI writes outside the tree that it works in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnState {
    /// The variable that names another folder.
    pub variable: Option<&'static str>,
    /// Below the home folder.
    pub folder: &'static str,
    pub files: &'static [&'static str],
    /// A variable of its own for the folder of temporary files.
    pub temp: Option<&'static str>,
}

pub fn own_state(profile: Profile) -> OwnState {
    match profile {
        Profile::Claude => claude::OWN_STATE,
        Profile::Codex => codex::OWN_STATE,
        Profile::Gemini => gemini::OWN_STATE,
        Profile::Aider => aider::OWN_STATE,
    }
}

impl Options {
    /// The narrower of what its run and what the owner allows.
    fn may(&self) -> Permissions {
        match self.access {
            Access::ReadOnly => Permissions::ReadOnly,
            Access::Write | Access::Commit => self.permissions,
        }
    }

    /// The model by the CLI's own flag, then the owner's own arguments.
    fn more(&self, flag: &str) -> Vec<String> {
        let model = self.model.iter().flat_map(|model| [flag.to_owned(), model.clone()]);
        model.chain(self.args.iter().cloned()).collect()
    }
}

/// How to start a CLI: a template for `expand`, and the environment that it needs on top of every run's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    pub argv_template: Vec<String>,
    /// Names that are passed through; a final `*` stands for any ending.
    pub env_names: Vec<String>,
    pub env_set: Vec<(String, String)>,
    /// The prompt goes this way where the CLI reads it there.
    pub stdin: Stdin,
}

pub fn launch(profile: Profile, options: &Options) -> Launch {
    let (args, names) = match profile {
        Profile::Claude => (claude::args(options), claude::ENV),
        Profile::Codex => (codex::args(options), codex::ENV),
        Profile::Gemini => (gemini::args(options), gemini::ENV),
        Profile::Aider => (aider::args(options), aider::ENV),
    };
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let set = match (profile, options.sandboxed) {
        (Profile::Gemini, false) => gemini::ENV_SET,
        (Profile::Gemini, true) => gemini::ENV_SANDBOXED,
        (Profile::Claude, true) => claude::ENV_SANDBOXED,
        (Profile::Aider, true) if options.access != Access::Commit => aider::ENV_SANDBOXED,
        (Profile::Claude | Profile::Codex | Profile::Aider, _) => &[],
    };
    Launch {
        argv_template: std::iter::once(program(profile, options)).chain(args).collect(),
        env_names: names.iter().map(|&name| name.to_owned()).collect(),
        env_set: set.iter().map(owned).collect(),
        stdin: match profile {
            Profile::Claude | Profile::Codex | Profile::Gemini => Stdin::Prompt,
            Profile::Aider => Stdin::Nothing,
        },
    }
}

fn program(profile: Profile, options: &Options) -> String {
    match (&options.program, profile) {
        (None, _) => word(profile).to_owned(),
        (Some(found), Profile::Codex) => native_codex(found).display().to_string(),
        (Some(found), _) => found.display().to_string(),
    }
}

/// The profile's name, which is also the name of its program.
pub fn word(profile: Profile) -> &'static str {
    match profile {
        Profile::Claude => "claude",
        Profile::Codex => "codex",
        Profile::Gemini => "gemini",
        Profile::Aider => "aider",
    }
}

pub fn by_word(text: &str) -> Option<Profile> {
    [Profile::Claude, Profile::Codex, Profile::Gemini, Profile::Aider]
        .into_iter()
        .find(|profile| word(*profile) == text)
}

/// Whose output an owner's own command line will write, by the name of its program.
pub fn by_program(argv: &[String]) -> Option<Profile> {
    by_word(Path::new(argv.first()?).file_name()?.to_str()?)
}

/// The newest version of its CLI that this profile was tried with.
pub fn proven(profile: Profile) -> &'static str {
    match profile {
        Profile::Claude => "2.1.327",
        Profile::Codex => "0.169.0",
        Profile::Gemini => "0.61.0",
        Profile::Aider => "0.86.2",
    }
}

/// How its program is installed.
fn install(profile: Profile) -> &'static str {
    match profile {
        Profile::Claude => "Install it: npm install -g @anthropic-ai/claude-code",
        Profile::Codex => "Install it: npm install -g @openai/codex",
        Profile::Gemini => "Install it: npm install -g @google/gemini-cli",
        Profile::Aider => "Install it: pipx install aider-chat",
    }
}

/// What puts a failed sign-in right.
fn sign_in(profile: Option<Profile>) -> &'static str {
    match profile {
        Some(Profile::Claude) => "Check ANTHROPIC_API_KEY or run \"claude\" once",
        Some(Profile::Codex) => "Check CODEX_API_KEY or run \"codex login\" once",
        // Its sign-in with a consumer account has ended, so a key is the only way for most.
        Some(Profile::Gemini) => {
            "Check GEMINI_API_KEY (personal accounts cannot sign in since June 2026, see \"agency doctor\")"
        }
        Some(Profile::Aider) => "Check the API key of its model (such as OPENAI_API_KEY)",
        None => "Sign in once",
    }
}

/// Texts as the argv that they are.
fn argv<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Profile; 4] = [Profile::Claude, Profile::Codex, Profile::Gemini, Profile::Aider];

    fn line(profile: Profile, options: &Options) -> String {
        launch(profile, options).argv_template.join(" ")
    }

    // covers: SU-01
    #[test]
    fn the_command_lines_are_todays() {
        let lines = ALL.map(|profile| line(profile, &Options::default()));
        assert_eq!(
            lines,
            [
                "claude -p --output-format stream-json --verbose --permission-mode acceptEdits",
                "codex exec --json -s workspace-write -",
                "gemini -o stream-json --approval-mode yolo --skip-trust",
                "aider --yes-always --no-stream --no-pretty --no-check-update --analytics-disable \
                 --no-auto-commits --no-dirty-commits --no-gitignore --chat-history-file=/dev/null \
                 --input-history-file=/dev/null --map-tokens=0 --message-file={prompt_file}",
            ]
        );
    }

    #[test]
    fn a_session_is_named_or_resumed_where_the_cli_can() {
        let id = Uuid::from_u128(7);
        let named = Options { session: Some(id), ..Options::default() };
        let flag = format!("--session-id {id}");
        assert!(line(Profile::Claude, &named).contains(&flag));
        assert!(line(Profile::Gemini, &named).contains(&flag));
        let resumed = Options { resume: Some("s-1".to_owned()), ..named };
        let lines = ALL.map(|profile| line(profile, &resumed));
        assert!(lines.iter().all(|line| !line.contains("--session-id")), "{lines:?}");
        assert!(lines[0].contains("--resume s-1"), "{}", lines[0]);
        assert!(lines[1].ends_with("-s workspace-write resume s-1 -"), "{}", lines[1]);
        assert!(lines[2].contains("-r s-1"), "{}", lines[2]);
        assert!(lines[3].contains("--restore-chat-history"), "{}", lines[3]);
    }

    #[test]
    fn read_only_and_budget_have_their_flags() {
        let access = Access::ReadOnly;
        let asked = Options { access, budget_usd: Some(0.25), ..Options::default() };
        let lines = ALL.map(|profile| line(profile, &asked));
        let claude = "--permission-mode dontAsk --disallowedTools=Edit,Write,NotebookEdit \
                      --setting-sources=user --max-budget-usd 0.25";
        assert!(lines[0].contains(claude), "{}", lines[0]);
        assert!(lines[1].contains("-s read-only"), "{}", lines[1]);
        assert!(lines[2].contains("--approval-mode default"), "{}", lines[2]);
        let aider = "--dry-run --no-gitignore --chat-history-file=/dev/null \
                     --input-history-file=/dev/null --map-tokens=0";
        assert!(lines[3].contains(aider), "{}", lines[3]);
    }

    // covers: SU-12
    #[test]
    fn model_arguments_and_permissions_have_their_flags() {
        let with = |permissions| Options {
            permissions,
            model: Some("m-1".to_owned()),
            args: vec!["--search".to_owned()],
            allow: vec!["npm test && npm run lint".to_owned(), "sh -c '(x)'".to_owned()],
            ..Options::default()
        };
        let test = ALL.map(|profile| line(profile, &with(Permissions::Test)));
        assert!(test[0].contains("acceptEdits --allowedTools=Bash(npm test:*),Bash(npm run lint:*) --model m-1 --search"), "{}", test[0]);
        assert!(test[1].contains("workspace-write -m m-1 --search -"), "{}", test[1]);
        assert!(test[2].contains("yolo") && test[2].contains("-m m-1 --search"), "{}", test[2]);
        assert!(test[3].contains("--model m-1 --search --message"), "{}", test[3]);
        let edit = ALL.map(|profile| line(profile, &with(Permissions::Edit)));
        assert!(!edit[0].contains("--allowedTools") && edit[2].contains("auto_edit"), "{edit:?}");
        let full = ALL.map(|profile| line(profile, &with(Permissions::Full)));
        assert!(full[0].contains("bypassPermissions") && full[1].contains("danger-full-access"));
        let look = Options { access: Access::ReadOnly, ..with(Permissions::Full) };
        assert!(line(Profile::Codex, &look).contains("-s read-only"), "a run's own limit counts");
    }

    // covers: SU-01, HO-06
    #[test]
    fn codex_may_write_to_the_git_folders_of_a_run_that_makes_commits() {
        let git_dirs = vec![PathBuf::from("/r/.git"), PathBuf::from("/r/.git/worktrees/t")];
        let commits = Options { access: Access::Commit, git_dirs, ..Options::default() };
        let wanted = "-s workspace-write --add-dir /r/.git --add-dir /r/.git/worktrees/t -";
        assert!(line(Profile::Codex, &commits).contains(wanted));
        let looks = Options { permissions: Permissions::ReadOnly, ..commits };
        assert!(!line(Profile::Codex, &looks).contains("--add-dir"));
    }

    // covers: SE-06
    #[test]
    fn inside_our_sandbox_no_cli_starts_its_own() {
        let inside = |permissions| Options { sandboxed: true, permissions, ..Options::default() };
        for permissions in [Permissions::ReadOnly, Permissions::Test, Permissions::Full] {
            let lines = ALL.map(|profile| line(profile, &inside(permissions)));
            assert!(
                lines[0].contains("--settings={\"sandbox\":{\"enabled\":false}}"),
                "{}",
                lines[0]
            );
            assert!(
                lines[1]
                    .starts_with("codex exec --json --dangerously-bypass-approvals-and-sandbox -"),
                "{}",
                lines[1]
            );
            assert!(!lines[1].contains(" -s "), "{}", lines[1]);
        }
        let set = ALL.map(|profile| launch(profile, &inside(Permissions::Full)).env_set);
        let has = |at: usize, name: &str| set[at].iter().any(|(set, _)| set == name);
        assert!(has(0, "IS_SANDBOX"), "else claude refuses `full` as root");
        assert!(has(3, "GIT_CONFIG_VALUE_1"), "else aider writes its own to the repository");
        assert!(has(2, "GEMINI_SANDBOX") && has(2, "GEMINI_CLI_NO_RELAUNCH"));
    }

    #[test]
    fn a_resume_that_looks_like_a_flag_is_dropped() {
        let hostile = Options { resume: Some("--yolo".to_owned()), ..Options::default() };
        for profile in ALL {
            assert_eq!(line(profile, &hostile), line(profile, &Options::default()));
        }
    }

    // covers: SE-03
    #[test]
    fn each_profile_passes_only_its_own_names() {
        let names = ALL.map(|profile| launch(profile, &Options::default()).env_names);
        assert!(names[0].contains(&"ANTHROPIC_*".to_owned()));
        assert!(!names[0].contains(&"OPENAI_*".to_owned()));
        assert!(names[1].contains(&"CODEX_*".to_owned()));
        assert!(names.iter().flatten().all(|name| name.len() > 5 && name != "AGENCY_*"));
        let set = launch(Profile::Gemini, &Options::default()).env_set;
        assert_eq!(set, [("GEMINI_CLI_NO_RELAUNCH".to_owned(), "true".to_owned())]);
    }

    #[test]
    fn an_owners_command_is_read_by_the_name_of_its_program() {
        let of = |program: &str| by_program(&argv([program, "-x"]));
        assert_eq!(of("/opt/bin/claude"), Some(Profile::Claude));
        assert_eq!(of("codex"), Some(Profile::Codex));
        assert_eq!(of("claude-wrapper"), None);
        assert_eq!(of("sh"), None);
        assert_eq!(by_program(&[]), None);
    }
}

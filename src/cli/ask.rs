//! Verbs that change something: to the daemon if there is one, else judged by ourselves under the repository's lock.

use super::context::{Context, runtime};
use super::escalations::refuse_agents;
use super::exit::{Exit, Refused, is_busy};
use super::review_loop::read_plan;
use super::site::{self, Wish};
use crate::control;
use crate::daemon::SettingsFile;
use crate::model::{Answer, Command, Verb};
use crate::verbs::{OwnerVerb, RequestId, next_step};
use crate::workspace::{UnknownRepoPolicy, Workspace};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// A daemon that starts holds the repository before it answers, and another command holds it for a moment.
const BUSY_MAX: Duration = Duration::from_secs(30);
const BUSY_PAUSE: Duration = Duration::from_millis(50);
/// From then on, whoever waits is told for whom.
const BUSY_TOLD: Duration = Duration::from_secs(1);

/// End a run; its repository then waits for you
#[derive(clap::Args)]
#[command(after_help = "Example:\n  agency stop 1a2b3c4d-loop-12")]
pub(super) struct StopArgs {
    /// The run's id, as `agency runs` shows it
    run: String,
}

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency resume --repo ~/src/shop\n  agency resume --accept-gate 'npm test'   (it failed before any agent worked)"
)]
pub(super) struct ResumeArgs {
    /// Go on although this gate fails; as it failed before any agent worked (repeatable)
    #[arg(long, value_name = "COMMAND")]
    accept_gate: Vec<String>,
    /// Why, for the journal
    #[arg(long)]
    reason: Option<String>,
}

/// Start no new run in a repository until `agency unpause`; runs that are alive end and are judged
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency pause --reason 'I work here by hand today'\n  agency pause ~/src/shop\nIt lasts over restarts. `agency status` shows it, and `agency status --check` counts it as fine. To end a run at once: agency stop RUN"
)]
pub(super) struct PauseArgs {
    /// The repository (default: the one around the current directory)
    #[arg(value_name = "REPO")]
    at: Option<PathBuf>,
    /// Why, for `agency status` and the journal
    #[arg(long)]
    reason: Option<String>,
}

/// Let runs start again after `agency pause`
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  agency unpause\n  agency unpause ~/src/shop")]
pub(super) struct UnpauseArgs {
    /// The repository (default: the one around the current directory)
    #[arg(value_name = "REPO")]
    at: Option<PathBuf>,
}

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency trust --repo ~/src/shop\n  agency trust --settings   (your agency.yaml was changed while a run was alive)"
)]
pub(super) struct TrustArgs {
    /// Accept your own agency.yaml as it is now, which was changed while a run was alive
    #[arg(long)]
    settings: bool,
}

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency adopt --repo ~/src/shop\n  agency adopt --steps 1,2,6.5   (a review loop whose state file names no steps)"
)]
pub(super) struct AdoptArgs {
    /// The review loop's steps, where its state file names none
    #[arg(long, value_name = "LIST")]
    steps: Option<String>,
    /// The review loop's plan: its `## Step <id>` sections reach the prompts
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
}

pub(super) fn stop(context: &Context, args: &StopArgs) -> anyhow::Result<Exit> {
    give(context, OwnerVerb::stop(&args.run))
}

pub(super) fn resume(context: &Context, args: &ResumeArgs) -> anyhow::Result<Exit> {
    give(context, OwnerVerb::resume(args.reason.as_deref(), &args.accept_gate))
}

pub(super) fn pause(context: &Context, args: &PauseArgs) -> anyhow::Result<Exit> {
    give(&context.or_at(args.at.as_ref()), OwnerVerb::pause(args.reason.as_deref()))
}

pub(super) fn unpause(context: &Context, args: &UnpauseArgs) -> anyhow::Result<Exit> {
    give(&context.or_at(args.at.as_ref()), OwnerVerb::unpause())
}

pub(super) fn trust(context: &Context, args: &TrustArgs) -> anyhow::Result<Exit> {
    if !args.settings {
        return tell(context, Verb::Trust, None, &[]);
    }
    refuse_agents()?;
    let verb = OwnerVerb::new(Verb::Trust, None, &[("settings", Some("yes"))]);
    let command = verb.command(RequestId::fresh(), context.caller());
    if let Some(places) = context.places()?
        && let Some(answer) =
            runtime()?.block_on(control::send(&places.control_sock(), &places.lock, &command))?
    {
        if !answer.accepted {
            return Err(Refused(answer.text).into());
        }
        anstream::println!("{}", answer.text);
        return Ok(Exit::Fine);
    }
    let Some(path) = context.config_path()? else {
        return Err(Refused("there is no configuration file to trust".to_owned()).into());
    };
    SettingsFile::of(&context.state_dir()?, &path)?.clear();
    anstream::println!(
        "`{}` counts as it is now, from the next start of the daemon",
        path.display()
    );
    Ok(Exit::Fine)
}

pub(super) fn adopt(context: &Context, args: &AdoptArgs) -> anyhow::Result<Exit> {
    let plan = args.plan.as_deref().map(read_plan).transpose()?;
    let args = [("steps", args.steps.as_deref()), ("plan", plan.as_deref())];
    tell(context, Verb::Adopt, None, &args)
}

/// Gives a command and prints the answer.
pub(super) fn tell(
    context: &Context,
    verb: Verb,
    protocol: Option<&str>,
    args: &[(&str, Option<&str>)],
) -> anyhow::Result<Exit> {
    give(context, OwnerVerb::new(verb, protocol, args))
}

/// The same for a verb that has its words already.
pub(super) fn give(context: &Context, verb: OwnerVerb) -> anyhow::Result<Exit> {
    anstream::println!("{}", accepted(context, verb)?);
    Ok(Exit::Fine)
}

/// Gives a command; what was answered, where it was accepted.
pub(super) fn answer(
    context: &Context,
    verb: Verb,
    protocol: Option<&str>,
    args: &[(&str, Option<&str>)],
) -> anyhow::Result<String> {
    accepted(context, OwnerVerb::new(verb, protocol, args))
}

fn accepted(context: &Context, verb: OwnerVerb) -> anyhow::Result<String> {
    refuse_agents()?;
    let command = verb.command(RequestId::fresh(), context.caller());
    let next = next_step(&command);
    let answer = ask(context, command)?;
    if answer.accepted {
        return Ok(answer.text);
    }
    // OP-10: every refusal says what to do instead.
    let hint =
        if answer.text.contains("agency ") { String::new() } else { format!("\nhint: {next}") };
    Err(Refused(answer.text + &hint).into())
}

fn ask(context: &Context, command: Command) -> anyhow::Result<Answer> {
    let began = Instant::now();
    let mut told = false;
    loop {
        let error = match ask_once(context, command.clone()) {
            Err(error) if is_busy(&error) && began.elapsed() < BUSY_MAX => error,
            answered => return answered,
        };
        if !told && began.elapsed() >= BUSY_TOLD {
            anstream::eprintln!("waiting: {error}");
            told = true;
        }
        thread::sleep(BUSY_PAUSE);
    }
}

/// Where a command without a daemon is judged.
fn working_root(context: &Context) -> anyhow::Result<PathBuf> {
    let root = context.root()?;
    if let Some(main) = site::main_of(&root, &context.state_dir()?) {
        let (root, main_path) = (root.display(), main.display());
        anstream::eprintln!("note: `{root}` is a worktree of `{main_path}`; agency works there");
        return Ok(main);
    }
    site::check(context, &root, Wish::Verb)?;
    Ok(root)
}

fn ask_once(context: &Context, command: Command) -> anyhow::Result<Answer> {
    if let Some(places) = context.places()?
        && let Some(answer) =
            runtime()?.block_on(control::send(&places.control_sock(), &places.lock, &command))?
    {
        return Ok(answer);
    }
    let (root, settings) = (working_root(context)?, context.settings()?);
    let stranger = if command.verb == Verb::Adopt {
        UnknownRepoPolicy::Adopt
    } else {
        UnknownRepoPolicy::Wait
    };
    runtime()?.block_on(async {
        let mut workspace = Workspace::open(&root, &settings, stranger).await?;
        Ok(workspace.command(command).await?)
    })
}

//! Verbs that change something: to the daemon if there is one, else judged by ourselves under the repository's lock.

use super::context::{Context, runtime};
use super::exit::{Exit, Refused, is_busy};
use super::review_loop::read_plan;
use crate::control;
use crate::model::{Answer, Command, Verb};
use crate::run::run_around;
use crate::workspace::{Stranger, Workspace};
use std::collections::BTreeMap;
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
#[command(after_help = "Example:\n  agency resume --repo ~/src/shop")]
pub(super) struct ResumeArgs {
    /// Why, for the journal
    #[arg(long)]
    reason: Option<String>,
}

#[derive(clap::Args)]
pub(super) struct PlainArgs {}

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
    tell(context, Verb::Stop, None, &[("run", Some(&args.run))])
}

pub(super) fn resume(context: &Context, args: &ResumeArgs) -> anyhow::Result<Exit> {
    tell(context, Verb::Resume, None, &[("reason", args.reason.as_deref())])
}

pub(super) fn trust(context: &Context) -> anyhow::Result<Exit> {
    tell(context, Verb::Trust, None, &[])
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
    anstream::println!("{}", answer(context, verb, protocol, args)?);
    Ok(Exit::Fine)
}

/// Gives a command; what was answered, where it was accepted.
pub(super) fn answer(
    context: &Context,
    verb: Verb,
    protocol: Option<&str>,
    args: &[(&str, Option<&str>)],
) -> anyhow::Result<String> {
    if let Some(run) = run_around(std::process::id()) {
        return Err(Refused(format!(
            "agents may not do this: we are inside the run `{run}` (SE-04)"
        ))
        .into());
    }
    let args: BTreeMap<_, _> = args
        .iter()
        .filter_map(|(name, value)| Some(((*name).to_owned(), (*value)?.to_owned())))
        .collect();
    let command = Command {
        id: uuid::Uuid::new_v4().to_string(),
        protocol: protocol.map(str::to_owned),
        verb,
        args,
        by: context.asker(),
    };
    let answer = ask(context, command)?;
    if answer.accepted { Ok(answer.text) } else { Err(Refused(answer.text).into()) }
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

fn ask_once(context: &Context, command: Command) -> anyhow::Result<Answer> {
    if let Some(places) = context.places()?
        && let Some(answer) =
            runtime()?.block_on(control::send(&places.control_sock(), &command))?
    {
        return Ok(answer);
    }
    let (root, settings) = (context.root()?, context.settings()?);
    let stranger = if command.verb == Verb::Adopt { Stranger::Adopt } else { Stranger::Wait };
    runtime()?.block_on(async {
        let mut workspace = Workspace::open(&root, &settings, stranger).await?;
        Ok(workspace.command(command).await?)
    })
}

//! The command line for people and agents. The only place that prints; it decides nothing that a table decides.

mod arena;
mod ask;
mod audit;
pub(crate) mod board;
mod check;
mod completions;
pub(crate) mod context;
mod cost;
mod dashboard;
mod demo;
mod digest;
pub(crate) mod doctor;
mod escalations;
mod exit;
mod explain;
mod forget;
mod handoff;
mod isolation;
mod journal;
mod ledger;
mod lock;
pub(crate) mod logs;
pub(crate) mod metrics;
pub(crate) mod narrate;
pub(crate) mod protocol;
mod review_loop;
mod run;
mod runs;
mod service;
mod show;
mod site;
pub(crate) mod status;
mod work;

use clap::{Parser, Subcommand};
use context::Context;
use exit::Exit;
use std::path::PathBuf;
use std::process::ExitCode;

/// The same sources give the same words: `build.rs` names the commit of a release, or the packager does; no clock does.
fn version() -> String {
    let commit = option_env!("AGENCY_COMMIT").filter(|commit| !commit.is_empty());
    let commit = commit.map(|commit| format!(" ({commit})"));
    env!("CARGO_PKG_VERSION").to_owned() + &commit.unwrap_or_default()
}

const AFTER_HELP: &str = "\
Examples:
  agency demo                         watch a whole review loop on a throw-away repository
  agency loop init --steps 1,2,3      begin a loop in this repository
  agency run                          work on this repository until told to stop
  agency status --watch               what happens where
  agency explain LP-06                what a rule wants and why

Exit codes: 0 fine, 1 a finding or a refusal, 2 usage or configuration, 3 our failure, 75 busy.";

/// Runs AI coding CLIs on your repositories, judges what they write, and calls you when a rule is broken.
#[derive(Parser)]
#[command(name = "agency", version = version(), after_help = AFTER_HELP)]
struct Cli {
    /// The configuration (default: $AGENCY_CONFIG, ~/.config/agency/agency.yaml, /etc/agency/agency.yaml)
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The repository (default: the one around the current directory)
    #[arg(long, global = true, value_name = "DIR")]
    repo: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Run(run::Args),
    Demo(demo::Args),
    Status(status::Args),
    Check(check::Args),
    Doctor(doctor::Args),
    Explain(explain::Args),
    Runs(runs::Args),
    Logs(logs::Args),
    Cost(cost::Args),
    Digest(digest::Args),
    Dashboard(dashboard::Args),
    Stop(ask::StopArgs),
    Escalations(escalations::Args),
    Escalate(escalations::TestArgs),
    Ack(escalations::AckArgs),
    Answer(escalations::AnswerArgs),
    /// Let a held repository go on; resolves the causes it waited for
    Resume(ask::ResumeArgs),
    Pause(ask::PauseArgs),
    Unpause(ask::UnpauseArgs),
    Forget(forget::Args),
    /// Let the repository's own `agency.yaml`, and what git runs and obeys in it, count as they are now
    #[command(after_help = "Example:\n  agency trust --repo ~/src/shop")]
    Trust(ask::TrustArgs),
    /// Take over a repository that this machine does not know: a clone, a copy, another box's
    Adopt(ask::AdoptArgs),
    /// The daemon under the machine's service manager (systemd, launchd)
    #[command(subcommand)]
    Service(service::Verb),
    Completions(completions::CompletionArgs),
    Man(completions::ManArgs),
    Init(board::setup::InitArgs),
    Install(board::setup::InstallArgs),
    Upgrade(board::setup::UpgradeArgs),
    Migrate(board::setup::MigrateArgs),
    /// The tasks of the Agency board: make, look at, move
    #[command(subcommand)]
    Task(board::task::Verb),
    /// Make a task for somebody at once
    Assign(Box<board::new::AssignArgs>),
    Report(board::report::Args),
    Verify(board::verify::Args),
    Archive(board::archive::Args),
    Import(board::import::Args),
    Journal(journal::Args),
    /// What in a repository's history the rules forbid, also from before this daemon
    #[command(subcommand)]
    Audit(audit::Verb),
    Protocol(protocol::Args),
    /// The review loop: begin it, look at it, put it right
    #[command(subcommand)]
    Loop(review_loop::Verb),
    /// Handoffs: begin a workflow, hand on, look at messages
    #[command(subcommand)]
    Handoff(handoff::Verb),
    /// Locks on shared files, for agents and people
    #[command(subcommand)]
    Lock(lock::Verb),
    Metrics(metrics::Args),
    Progress(ledger::progress::Args),
    Reviews(ledger::reviews::Args),
    Features(ledger::features::Args),
    /// The ledger: begin its loop, and scripts for prompts that call them
    #[command(subcommand)]
    Ledger(ledger::scripts::Verb),
    /// Codifica: the tasks that people and agents share in state files
    #[command(subcommand)]
    Work(work::Verb),
}

pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; clap knows where to print which.
            drop(error.print());
            return if error.use_stderr() { Exit::Usage } else { Exit::Fine }.into();
        }
    };
    let result =
        Context::new(cli.config, cli.repo).and_then(|context| dispatch(&context, cli.verb));
    result.unwrap_or_else(|error| exit::report(&error)).into()
}

fn dispatch(context: &Context, verb: Verb) -> anyhow::Result<Exit> {
    match verb {
        Verb::Run(args) => run::run(context, args),
        Verb::Demo(args) => demo::run(args),
        Verb::Status(args) => status::run(context, &args),
        Verb::Check(args) => check::run(context, &args),
        Verb::Doctor(args) => doctor::run(context, &args),
        Verb::Explain(args) => explain::run(&args),
        Verb::Runs(args) => runs::run(context, &args),
        Verb::Logs(args) => logs::run(context, &args),
        Verb::Cost(args) => cost::run(context, &args),
        Verb::Digest(args) => digest::run(context, &args),
        Verb::Dashboard(args) => dashboard::run(context, &args),
        Verb::Stop(args) => ask::stop(context, &args),
        Verb::Escalations(args) => escalations::run(context, &args),
        Verb::Escalate(args) => escalations::test(context, &args),
        Verb::Ack(args) => escalations::ack(context, &args),
        Verb::Answer(args) => escalations::answer(context, &args),
        Verb::Resume(args) => ask::resume(context, &args),
        Verb::Pause(args) => ask::pause(context, &args),
        Verb::Unpause(args) => ask::unpause(context, &args),
        Verb::Forget(args) => forget::run(context, &args),
        Verb::Trust(args) => ask::trust(context, &args),
        Verb::Adopt(args) => ask::adopt(context, &args),
        Verb::Service(verb) => service::run(context, verb),
        Verb::Completions(args) => completions::complete(&args),
        Verb::Man(args) => completions::man(&args),
        Verb::Audit(verb) => audit::run(context, verb),
        Verb::Init(args) => board::setup::init(context, &args),
        Verb::Install(args) => board::setup::install(context, &args),
        Verb::Upgrade(args) => board::setup::upgrade(context, &args),
        Verb::Migrate(args) => board::setup::migrate(context, &args),
        Verb::Task(verb) => board::task::run(context, verb),
        Verb::Assign(args) => board::new::assign(context, *args),
        Verb::Report(args) => board::report::run(context, &args),
        Verb::Verify(args) => board::verify::run(context, &args),
        Verb::Archive(args) => board::archive::run(context, &args),
        Verb::Import(args) => board::import::run(context, &args),
        Verb::Journal(args) => journal::run(context, &args),
        Verb::Protocol(args) => protocol::run(&args),
        Verb::Loop(verb) => review_loop::run(context, verb),
        Verb::Handoff(verb) => handoff::run(context, verb),
        Verb::Lock(verb) => lock::run(context, verb),
        Verb::Metrics(args) => metrics::run(context, &args),
        Verb::Progress(args) => Ok(ledger::progress::run(&args)),
        Verb::Reviews(args) => Ok(ledger::reviews::run(&args)),
        Verb::Features(args) => Ok(ledger::features::run(&args)),
        Verb::Ledger(verb) => ledger::scripts::run(context, &verb),
        Verb::Work(verb) => work::run(context, verb),
    }
}

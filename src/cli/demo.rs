//! `agency demo`: a whole run on a throw-away repository with scripted agents. No network, no key.

mod stage;
mod teller;

use super::context::runtime;
use super::exit::{Exit, Misused};
use crate::daemon::Daemon;
use crate::model::{Command, Verb};
use crate::watch::{WatchOptions, Watcher};
use crate::workspace::{Stranger, Until, Workspace};
use stage::Stage;
use teller::Teller;
use tokio_util::sync::CancellationToken;

/// Watch a whole protocol on a throw-away repository: scripted agents, no network, no key
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency demo\n  agency demo handoff\n  agency demo ledger\n  agency demo codifica"
)]
pub(super) struct Args {
    /// loop, handoff, ledger or codifica
    #[arg(default_value = "loop")]
    protocol: String,
}

/// One play: what is shown, how it begins, what comes next on one's own repository.
pub(in crate::cli) struct Play {
    protocol: &'static str,
    about: &'static str,
    script: &'static str,
    seats: &'static [&'static str],
    /// What the owner wrote before.
    files: &'static [(&'static str, &'static str)],
    verb: Verb,
    begin: &'static [(&'static str, &'static str)],
    yours: &'static str,
}

const PLAYS: &[Play] = &[
    Play {
        protocol: crate::protocol::review_loop::NAME,
        about: "Two scripted agents, three steps, one change request in review and one in verify.",
        script: include_str!("demo/agent.sh"),
        seats: &["claude-code", "codex"],
        files: &[],
        verb: Verb::Init,
        begin: &[("steps", "1,2,3")],
        yours: "agency loop init --steps 1,2,3 && agency run",
    },
    Play {
        protocol: crate::protocol::handoff::NAME,
        about: "Four scripted agents: a plan, the work, a review that finds two issues, fixes, two more looks.",
        script: include_str!("demo/handoff.sh"),
        seats: &["planner", "builder", "reviewer", "fixer"],
        files: &[],
        verb: Verb::Init,
        begin: &[("type", "feature"), ("text", "Add user auth")],
        yours: "agency handoff start --type feature 'Add user auth' && agency run",
    },
    Play {
        protocol: crate::protocol::ledger::NAME,
        about: "Five features: one is fixed twice, one is rejected and built anew; then one architecture review.",
        script: include_str!("demo/ledger.sh"),
        seats: &["builder", "reviewer", "fixer"],
        files: &[],
        verb: Verb::Init,
        begin: &[],
        yours: "agency ledger init && agency run",
    },
    Play {
        protocol: crate::protocol::codifica::NAME,
        about: "Two scripted agents and five tasks that depend on each other, shared in work.md.",
        script: include_str!("demo/codifica.sh"),
        seats: &["cook", "waiter"],
        files: &[
            ("codifica.json", include_str!("demo/codifica.json")),
            ("codifica-spec.md", "# Codifica v0.2\n"),
            ("work.md", include_str!("demo/work.md")),
        ],
        verb: Verb::Adopt,
        begin: &[],
        yours: "write codifica.json and work.md, then agency adopt && agency run",
    },
];

pub(super) fn run(args: Args) -> anyhow::Result<Exit> {
    let Some(play) = PLAYS.iter().find(|play| play.protocol == args.protocol) else {
        let names: Vec<_> = PLAYS.iter().map(|play| play.protocol).collect();
        let wanted = names.join(", ");
        return Err(
            Misused(format!("there is no demo `{}` yet; wanted: {wanted}", args.protocol)).into()
        );
    };
    let stage = Stage::build(play)?;
    anstream::println!("A throw-away repository: {}", stage.repo().display());
    anstream::println!("{}\n", play.about);
    let complete = runtime()?.block_on(perform(play, &stage))?;
    anstream::println!("\nLook around:");
    let at = format!("AGENCY_STATE_DIR={} agency", stage.state().display());
    anstream::println!("  git -C {} log --stat", stage.repo().display());
    anstream::println!("  {at} status");
    anstream::println!("  {at} runs");
    anstream::println!("  {at} --repo {} journal", stage.repo().display());
    anstream::println!("\nOn your own repository: {}", play.yours);
    Ok(if complete { Exit::Fine } else { Exit::Failure })
}

/// True when it came to its end.
async fn perform(play: &Play, stage: &Stage) -> anyhow::Result<bool> {
    let settings = stage.settings(play)?;
    let mut workspace = Workspace::open(&stage.repo(), &settings, Stranger::Wait).await?;
    let folder = workspace.places().folder.clone();
    let words = play.begin.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let command = Command {
        id: uuid::Uuid::new_v4().to_string(),
        protocol: Some(play.protocol.to_owned()),
        verb: play.verb,
        args: words.collect(),
        by: "demo".to_owned(),
    };
    let answer = workspace.command(command).await?;
    anyhow::ensure!(answer.accepted, "it does not begin: {}", answer.text);
    drop(workspace);
    let watcher = Watcher::start(WatchOptions::default());
    let (_sender, settings) = tokio::sync::watch::channel(settings);
    let daemon = Daemon { settings, watcher, until: Until::Quiet, drain: false };
    let repo = stage.repo();
    let stop = CancellationToken::new();
    let telling = tokio::spawn(Teller::new(folder).tell(stop.clone()));
    let outcomes = daemon.run(Box::new(move |_| vec![repo.clone()]), stop.clone()).await;
    stop.cancel();
    let complete = telling.await?;
    let failed = outcomes.into_iter().find_map(|outcome| outcome.error);
    failed.map_or(Ok(complete), |error| Err(error.into()))
}

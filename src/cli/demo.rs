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

/// Watch a whole review loop on a throw-away repository: three steps, scripted agents, no network, no key
#[derive(clap::Args)]
#[command(after_help = "Example:\n  agency demo")]
pub(super) struct Args {
    /// The protocol to play
    #[arg(default_value = "loop")]
    protocol: String,
}

pub(super) fn run(args: Args) -> anyhow::Result<Exit> {
    if args.protocol != "loop" {
        return Err(
            Misused(format!("there is no demo `{}` yet; wanted: loop", args.protocol)).into()
        );
    }
    let stage = Stage::build()?;
    anstream::println!("A throw-away repository: {}", stage.repo().display());
    anstream::println!(
        "Two scripted agents, three steps, one change request in review and one in verify.\n"
    );
    let complete = runtime()?.block_on(play(&stage))?;
    anstream::println!("\nLook around:");
    let at = format!("AGENCY_STATE_DIR={} agency", stage.state().display());
    anstream::println!("  git -C {} log --stat", stage.repo().display());
    anstream::println!("  {at} status");
    anstream::println!("  {at} runs");
    anstream::println!("  {at} --repo {} journal", stage.repo().display());
    anstream::println!("\nOn your own repository: agency loop init --steps 1,2,3 && agency run");
    Ok(if complete { Exit::Fine } else { Exit::Failure })
}

/// True when the loop came to its end.
async fn play(stage: &Stage) -> anyhow::Result<bool> {
    let settings = stage.settings()?;
    let mut workspace = Workspace::open(&stage.repo(), &settings, Stranger::Wait).await?;
    let folder = workspace.places().folder.clone();
    let command = Command {
        id: "demo".to_owned(),
        protocol: Some(crate::protocol::review_loop::NAME.to_owned()),
        verb: Verb::Init,
        args: [("steps".to_owned(), "1,2,3".to_owned())].into(),
        by: "demo".to_owned(),
    };
    let answer = workspace.command(command).await?;
    anyhow::ensure!(answer.accepted, "the loop does not begin: {}", answer.text);
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

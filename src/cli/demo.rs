//! `agency demo`: a whole run on a throw-away repository with scripted agents. No network, no key.

mod stage;
mod teller;

use super::context::runtime;
use super::exit::{Exit, Misused};
use crate::config::Config;
use crate::daemon::{Daemon, Home, LookNow};
use crate::model::{Command, Verb};
use crate::watch::{WatchOptions, Watcher};
use crate::web;
use crate::workspace::{Settings, UnknownRepoPolicy, Until, Workspace};
use agency_dashboard::Right;
use stage::Stage;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use teller::Teller;
use tokio_util::sync::CancellationToken;

/// Watch a whole protocol on a throw-away repository: scripted agents, no network, no key
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency demo\n  agency demo handoff\n  agency demo ledger\n  agency demo codifica\n  agency demo board\n  agency demo --stay       and look at it in a browser"
)]
pub(super) struct Args {
    /// loop, handoff, ledger, codifica or board
    #[arg(default_value = "loop")]
    protocol: String,
    /// Keep the daemon and its dashboard until you press Ctrl-C
    #[arg(long)]
    stay: bool,
}

/// One play: what is shown, how it begins, what comes next on one's own repository.
pub(in crate::cli) struct Play {
    protocol: &'static str,
    about: &'static str,
    script: &'static str,
    seats: &'static [&'static str],
    /// What the owner wrote before.
    files: &'static [(&'static str, &'static str)],
    /// What the owner types before.
    typed: &'static [&'static str],
    verb: Verb,
    begin: &'static [(&'static str, &'static str)],
    /// What the owner types when everything waits for them.
    answers: &'static [&'static str],
    /// How the status begins when the play has come to its end.
    end: &'static str,
    /// What shows the outcome.
    shown_by: Option<&'static str>,
    yours: &'static str,
}

/// The end of every play that ends by itself.
const COMPLETE: &str = "complete";

const PLAYS: &[Play] = &[
    Play {
        protocol: crate::protocol::review_loop::NAME,
        about: "Two scripted agents, three steps, one change request in review and one in verify.",
        script: include_str!("demo/agent.sh"),
        seats: &["claude-code", "codex"],
        files: &[],
        typed: &[],
        verb: Verb::Init,
        begin: &[("steps", "1,2,3")],
        answers: &[],
        end: COMPLETE,
        shown_by: None,
        yours: "agency loop init --steps 1,2,3 && agency run",
    },
    Play {
        protocol: crate::protocol::handoff::NAME,
        about: "Four scripted agents: a plan, the work, a review that finds two issues, fixes, two more looks.",
        script: include_str!("demo/handoff.sh"),
        seats: &["planner", "builder", "reviewer", "fixer"],
        files: &[],
        typed: &[],
        verb: Verb::Init,
        begin: &[("type", "feature"), ("text", "Add user auth")],
        answers: &[],
        end: COMPLETE,
        shown_by: None,
        yours: "agency handoff start --type feature 'Add user auth' && agency run",
    },
    Play {
        protocol: crate::protocol::ledger::NAME,
        about: "Five features: one is fixed twice, one is rejected and built anew; then one architecture review.",
        script: include_str!("demo/ledger.sh"),
        seats: &["builder", "reviewer", "fixer"],
        files: &[],
        typed: &[],
        verb: Verb::Init,
        begin: &[],
        answers: &[],
        end: COMPLETE,
        shown_by: None,
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
        typed: &[],
        verb: Verb::Adopt,
        begin: &[],
        answers: &[],
        end: COMPLETE,
        shown_by: None,
        yours: "write codifica.json and work.md, then agency adopt && agency run",
    },
    Play {
        protocol: crate::protocol::board::NAME,
        about: "Two builders and an auditor, four tasks: one leaves its scope, one does not pass its audit, one has an open risk.",
        script: include_str!("demo/board.sh"),
        seats: &["claude-code", "codex", "gemini"],
        files: &[
            (".kodingx/dod/profiles/shop.yml", include_str!("demo/shop.yml")),
            (".kodingx/RISKS.md", include_str!("demo/risks.md")),
        ],
        typed: &[
            "init --orchestrator other --builders claude-code,codex --timezone UTC",
            "task new --title=Till --assignee claude-code --may-touch src/** --dod-profile shop",
            "task new --title=Receipt --assignee codex --may-touch src/** --dod-profile shop",
            "task new --title=Refund --assignee claude-code --may-touch src/** --dod-profile shop --depends-on T0001",
            "task new --title=Discount --assignee codex --may-touch src/** --dod-profile shop --risk R-001",
            "task new --title=Close-R-001 --assignee you --force-assignee --may-touch src/**",
        ],
        verb: Verb::Init,
        begin: &[],
        answers: &[
            "verify --task T0004 --override --reason=Launch --followup T0005 --approver owner@example.com",
        ],
        end: "1 ASSIGNED · 6 DONE",
        shown_by: Some("task list"),
        yours: "agency init && agency task new --title … --assignee claude-code && agency run",
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
    stage.prepare(play)?;
    let complete = runtime()?.block_on(perform(play, &stage))?;
    if let Some(line) = play.shown_by {
        anstream::println!();
        stage.type_in(line)?;
    }
    anstream::println!("\nLook around:");
    let at = format!("AGENCY_STATE_DIR={} agency", stage.state().display());
    anstream::println!("  git -C {} log --stat", stage.repo().display());
    anstream::println!("  {at} status");
    anstream::println!("  {at} runs");
    anstream::println!("  {at} --repo {} journal", stage.repo().display());
    anstream::println!("\nOn your own repository: {}", play.yours);
    if args.stay {
        daemon_runtime()?.block_on(stay(&stage))?;
    }
    Ok(if complete { Exit::Fine } else { Exit::Failure })
}

/// True when it came to its end.
async fn perform(play: &Play, stage: &Stage) -> anyhow::Result<bool> {
    let settings = stage.settings()?;
    let mut workspace = Workspace::open(&stage.repo(), &settings, UnknownRepoPolicy::Wait).await?;
    let folder = workspace.places().folder.clone();
    let words = play.begin.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let command = Command {
        id: uuid::Uuid::new_v4().to_string(),
        protocol: Some(play.protocol.to_owned()),
        verb: play.verb,
        args: words.collect(),
        by: "demo".to_owned(),
        from: "demo".to_owned(),
    };
    let answer = workspace.command(command).await?;
    anyhow::ensure!(answer.accepted, "it does not begin: {}", answer.text);
    drop(workspace);
    let mut teller = run_until_quiet(&settings, stage, Teller::new(folder)).await?;
    for line in play.answers {
        teller.say_waiting();
        stage.type_in(line)?;
        anstream::println!();
        teller = run_until_quiet(&settings, stage, teller).await?;
    }
    Ok(teller.say_end(play.end))
}

/// The pages read files on other threads while the daemon works.
fn daemon_runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

/// The daemon on the stage, with its pages on a free port, until the owner has seen enough.
async fn stay(stage: &Stage) -> anyhow::Result<()> {
    let mut settings = stage.settings()?;
    let mut config = Config::clone(&settings.config);
    config.dashboard.listen = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    settings.config = Arc::new(config);
    let home = Home::open(&settings.state_dir, &settings.notifier)?;
    let served = web::start(&stage.context(), &settings.config, &home).await;
    if let Some(dashboard) = &served.dashboard {
        anstream::println!(
            "\nLook at it in a browser (this link works once): {}",
            dashboard.link(Right::Act)?
        );
        anstream::println!("Ctrl-C ends it.");
    }
    let stop = CancellationToken::new();
    let asked = stop.clone();
    tokio::spawn(async move {
        // Without a way to hear of Ctrl-C the process simply ends by it.
        if tokio::signal::ctrl_c().await.is_ok() {
            asked.cancel();
        }
    });
    let watcher = Watcher::start(WatchOptions::default());
    let (_sender, settings) = tokio::sync::watch::channel(settings);
    let (look_now, _) = LookNow::new();
    let daemon =
        Daemon { settings, look_now, watcher, until: Until::Cancelled, drain: false, home };
    let repo = stage.repo();
    let outcomes = daemon.run(Box::new(move |_| vec![repo.clone()]), stop).await;
    let failed = outcomes.into_iter().find_map(|outcome| outcome.error);
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// The daemon, until there is nothing to do but by the owner.
async fn run_until_quiet(
    settings: &Settings,
    stage: &Stage,
    teller: Teller,
) -> anyhow::Result<Teller> {
    let watcher = Watcher::start(WatchOptions::default());
    let home = Home::open(&settings.state_dir, &settings.notifier)?;
    let (_sender, settings) = tokio::sync::watch::channel(settings.clone());
    let (look_now, _) = LookNow::new();
    let daemon = Daemon { settings, look_now, watcher, until: Until::Quiet, drain: false, home };
    let repo = stage.repo();
    let stop = CancellationToken::new();
    let telling = tokio::spawn(teller.tell(stop.clone()));
    let outcomes = daemon.run(Box::new(move |_| vec![repo.clone()]), stop.clone()).await;
    stop.cancel();
    let teller = telling.await?;
    let failed = outcomes.into_iter().find_map(|outcome| outcome.error);
    failed.map_or(Ok(teller), |error| Err(error.into()))
}

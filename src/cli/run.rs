//! `agency run`: the daemon in the foreground.

mod narrator;

use super::arena;
use super::context::{Context, root_of};
use super::exit::{Exit, Refused, report};
use super::site::{self, Wish};
use crate::config::{Config, Env};
use crate::daemon::{Daemon, Home, LookNow, Outcome, Roots, SettingsFile, Source, limits};
use crate::digest::send_daily;
use crate::escalate::{self, Courier, Heartbeat, Notifier, Proofs, SystemdNotifier};
use crate::live::LiveFeed;
use crate::repository::{StateDir, repositories};
use crate::watch::{Mode, WatchOptions, Watcher};
use crate::web;
use crate::workspace::{RepoStatus, Settings, Until};
use narrator::Narrator;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A thread that blocks on the disk is kept this long for the next one. Any longer, and the rescans of many repositories keep
/// every thread that was ever needed at once, with its stack.
const KEEP_ALIVE: Duration = Duration::from_millis(250);

/// How long a daemon that stops waits for messages that are under way.
const STOP_LIMIT: Duration = Duration::from_secs(3);
/// How long `--once` waits until its messages are delivered; a message that fails is sent by the next daemon.
const DELIVERY_LIMIT: Duration = Duration::from_secs(30);
/// For tasks that do not end when they are told to.
const LEAVING_MAX: Duration = Duration::from_millis(500);

/// Watch repositories, judge what agents write, start the next one
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency run                    the repository around the current directory\n  agency run ~/src/shop ~/src/api\n  agency run --once             work until nothing is left to do, then exit"
)]
pub(super) struct Args {
    /// Repositories (default: `repos` of the configuration, else the one here)
    repos: Vec<PathBuf>,
    /// Work until nothing is left to do, then exit
    #[arg(long)]
    once: bool,
    /// On a stop, wait for the runs that are alive; without it they go on by themselves and are found again
    #[arg(long)]
    drain: bool,
    /// Also take a home folder, a plain folder or the like as a repository
    #[arg(long)]
    force: bool,
    /// Look by the clock instead of waiting for file events (network and container mounts)
    #[arg(long)]
    poll: bool,
}

pub(super) fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    start_log();
    if !args.once {
        arena::use_one();
    }
    let mut settings = context.settings()?;
    let path = context.config_path()?;
    let file = settings_in_force(context, path.as_deref(), &mut settings)?;
    let roots = roots(context, &args, &settings)?;
    raise_file_limit();
    hide_memory();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).thread_keep_alive(KEEP_ALIVE).enable_all();
    let runtime = runtime.build()?;
    let exit = runtime.block_on(async {
        let mode = if args.poll { Mode::Polling } else { Mode::Events };
        let watcher = Watcher::start(WatchOptions { mode, ..WatchOptions::default() });
        let until = if args.once { Until::Quiet } else { Until::Cancelled };
        let stop = CancellationToken::new();
        listen_for_signals(stop.clone())?;
        let (narrator, live) = Narrator::start();
        let voices = Voices::start(&mut settings, &context.env, live);
        let state_dir = settings.state_dir.clone();
        let home = Home::open(&state_dir, &settings.notifier)?;
        let source = Source { path, env: context.env.clone(), home: home.clone(), file };
        let (sender, settings) = watch::channel(settings);
        let (look_now, asked) = LookNow::new();
        let config = Arc::clone(&settings.borrow().config);
        let _served = match args.once {
            true => None,
            false => Some(web::start(context, &config, &home).await),
        };
        let reporting = tokio::spawn(send_daily(home.clone(), settings.clone()));
        let following = tokio::spawn(source.follow(sender, asked));
        tracing::info!("agency is at work");
        let outcomes = Daemon { watcher, until, drain: args.drain, settings, look_now, home }
            .run(roots, stop)
            .await;
        following.abort();
        reporting.abort();
        let worked_on: Vec<_> = outcomes.iter().map(|outcome| outcome.root.clone()).collect();
        if args.once {
            voices.deliver().await;
        }
        voices.stop().await;
        narrator.stop().await;
        let exit = exit_of(outcomes);
        let held = args.once && exit == Exit::Fine && is_held(&state_dir, &worked_on);
        Ok(if held { Exit::Finding } else { exit })
    });
    // A task that is busy with a long list, or with a disk that hangs, must not keep us from leaving (DM-09).
    runtime.shutdown_timeout(LEAVING_MAX);
    exit
}

/// SE-11: a configuration that waits for its owner is not taken over by a restart.
fn settings_in_force(
    context: &Context,
    path: Option<&Path>,
    settings: &mut Settings,
) -> anyhow::Result<Option<SettingsFile>> {
    let Some(path) = path else { return Ok(None) };
    let file = SettingsFile::of(&settings.state_dir, path)?;
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let read = Config::clone(&settings.config);
    let (config, problem) = file.in_force(&text, read, &context.env);
    if let Some(problem) = problem {
        anstream::eprintln!("note: {problem}");
        settings.capacity.set_limits(limits(&config));
        (settings.config, settings.problem) = (config.into(), Some(problem));
    }
    Ok(Some(file))
}

/// What speaks for the daemon while it works.
struct Voices {
    courier: escalate::Running,
    supervisor: Arc<SystemdNotifier>,
    tasks: JoinSet<()>,
}

impl Voices {
    /// Gives the settings their voice, and begins to speak.
    fn start(settings: &mut Settings, env: &Env, live: LiveFeed) -> Self {
        let channels = escalate::channels(&settings.config, env);
        if channels.names().is_empty() {
            tracing::warn!(
                "no channel is configured: what is wrong is only shown by `agency status` (see `escalation`)"
            );
        }
        for (channel, problem) in channels.problems() {
            tracing::error!(channel, problem, "this channel cannot be used");
        }
        let redactor = channels.redactor().clone();
        let courier = Courier::start(channels);
        let (proofs, supervisor) = (Proofs::default(), Arc::new(SystemdNotifier::of(env)));
        let mut tasks = JoinSet::new();
        if let Some(config) = &settings.config.heartbeat {
            match Heartbeat::new(config) {
                Ok(heartbeat) => drop(tasks.spawn(heartbeat.run(proofs.clone()))),
                Err(error) => tracing::error!(%error, "there is no heartbeat"),
            }
        }
        let (watched, watchdog) = (proofs.clone(), Arc::clone(&supervisor));
        tasks.spawn(async move { watchdog.watch(watched).await });
        let wanted = settings.config.heartbeat.is_some() || env.get("WATCHDOG_USEC").is_some();
        let proofs = wanted.then_some(proofs);
        settings.notifier = Notifier { courier: Some(courier.handle()), redactor, proofs, live };
        supervisor.ready();
        Self { courier, supervisor, tasks }
    }

    /// Waits until every message was sent, or tried and put off.
    async fn deliver(&self) {
        if tokio::time::timeout(DELIVERY_LIMIT, self.courier.drain()).await.is_err() {
            tracing::warn!("some messages are not delivered yet; the next daemon sends them");
        }
    }

    /// What is not sent within the limit is sent by the next daemon.
    async fn stop(mut self) {
        self.supervisor.stopping();
        self.tasks.abort_all();
        drop(tokio::time::timeout(STOP_LIMIT, self.courier.stop()).await);
    }
}

/// Named on the command line: these and no others. Else as the configuration says, also later; else the one here.
fn roots(context: &Context, args: &Args, settings: &Settings) -> anyhow::Result<Roots> {
    if args.repos.is_empty() && !settings.config.repos.is_empty() {
        return Ok(Box::new(|settings| {
            configured(settings).iter().map(|path| found(path)).collect()
        }));
    }
    let named = if args.repos.is_empty() { vec![context.root()?] } else { args.repos.clone() };
    let mut roots = named.iter().map(|path| root_of(path)).collect::<anyhow::Result<Vec<_>>>()?;
    for root in &roots {
        refuse_odd(context, root, args.force)?;
    }
    roots.sort();
    roots.dedup();
    Ok(Box::new(move |_| roots.clone()))
}

fn refuse_odd(context: &Context, root: &Path, force: bool) -> anyhow::Result<()> {
    if let Some(main) = site::main_of(root, &context.state_dir()?) {
        let (root, main) = (root.display(), main.display());
        let why = format!("`{root}` is a worktree of `{main}`; agency works in `{main}`");
        return Err(Refused(format!("{why}. Start it there: agency run {main}")).into());
    }
    if force { Ok(()) } else { site::check(context, root, Wish::Watch) }
}

/// DM-19: an entry that is not there is frozen by its keeper; the others start.
fn found(path: &Path) -> PathBuf {
    root_of(path).unwrap_or_else(|_| path.to_owned())
}

fn configured(settings: &Settings) -> Vec<PathBuf> {
    settings.config.repos.iter().map(|repo| repo.path.clone()).collect()
}

/// One of these repositories waits for its owner.
fn is_held(state_dir: &StateDir, roots: &[PathBuf]) -> bool {
    let known = repositories(state_dir).unwrap_or_default();
    let ours = known.iter().filter(|known| roots.contains(&known.path));
    ours.filter_map(|known| RepoStatus::read(&known.folder)).any(|status| status.held)
}

/// The worst of what happened.
fn exit_of(outcomes: Vec<Outcome>) -> Exit {
    let mut exit = Exit::Fine;
    for outcome in outcomes {
        if let Some(error) = outcome.error {
            let busy = error.is_busy();
            let told = report(
                &anyhow::Error::from(error).context(format!("`{}`", outcome.root.display())),
            );
            exit = if busy && exit == Exit::Fine { Exit::Busy } else { told };
        }
    }
    exit
}

fn listen_for_signals(stop: CancellationToken) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping; runs go on and are found again at the next start");
        stop.cancel();
    });
    Ok(())
}

/// Each repository needs a few descriptors; a thousand of them pass the usual soft limit.
fn raise_file_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard.min(65_536), hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// DESIGN §4: agents of the same user must not read our environment, which holds the channels' secrets.
fn hide_memory() {
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_dumpable(false) {
        tracing::warn!(%error, "our memory stays readable for processes of this user");
    }
}

fn start_log() {
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    // What happens is printed in words there; the log adds only what is wrong.
    let usual = if std::io::IsTerminal::is_terminal(&std::io::stdout()) { "warn" } else { "info" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("AGENCY_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(usual));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    log.with_ansi(terminal).with_writer(std::io::stderr).init();
}

//! `agency status`: whether the daemon runs, every repository that this machine remembers, what happens there, and what waits for
//! the owner. What happens is each protocol's condition (DM-16).

mod daemon;
mod gather;
mod screen;
mod text;

use super::board::count::Unkept;
use super::context::Context;
use super::exit::Exit;
use super::isolation::{Sandbox, SandboxView};
use super::show;
use crate::clock;
use crate::escalate::Record;
use crate::run::history::{RunRecord, Today};
use crate::workspace::{Kind, Pause, ProtocolStatus};
use daemon::DaemonView;
pub(super) use daemon::outboxes;
pub(crate) use gather::gather;
use screen::Screen;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;
use text::{report, text};

/// What happens where, and what waits for you
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency status\n  agency status --watch\n  agency status --json | jq '.repos[] | select(.held)'\n  agency status --check         exit 0: all is well, or you paused it; 1: something is held or frozen; 3: no daemon runs"
)]
pub(super) struct Args {
    /// A full-screen view that is kept current; without a terminal, each change
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// Print only what is wrong, and exit with 1 if something is held or frozen, with 3 if no daemon runs
    #[arg(long, conflicts_with = "watch")]
    check: bool,
}

#[derive(Serialize)]
pub(crate) struct Status {
    pub(crate) daemon: DaemonView,
    pub(crate) repos: Vec<Repo>,
    /// How the owner hears of what is wrong.
    pub(crate) channels: Vec<String>,
    /// What keeps agents apart from us (SE-05).
    isolation: &'static str,
    sandbox: SandboxView,
    #[serde(skip)]
    pub(crate) kept_in: Sandbox,
    /// What is wrong with the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct Repo {
    pub(crate) path: PathBuf,
    pub(crate) held: bool,
    /// The daemon cannot work here; `closed` says why.
    pub(crate) frozen: bool,
    /// A running daemon works here, or says that it cannot.
    pub(crate) attended: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) closed: Option<String>,
    /// The owner lets no run start here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) paused: Option<Pause>,
    pub(crate) notes: Vec<String>,
    pub(crate) protocols: Vec<ProtocolStatus>,
    pub(crate) runs: Vec<RunRecord>,
    /// What runs that ended today (UTC) cost, as far as they say so.
    pub(crate) cost_today_usd: f64,
    pub(crate) escalations: Vec<Record>,
    #[serde(skip)]
    unkept: Option<Unkept>,
}

/// What need not be read again for the next look, by the repository's folder.
pub(crate) type Memory = BTreeMap<PathBuf, Today>;

impl Status {
    pub(crate) fn keep(self) {
        self.repos.into_iter().filter_map(|repo| repo.unkept).for_each(Unkept::keep);
    }
}

pub(super) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    if args.watch {
        return watch(context);
    }
    let status = gather(context, &mut Memory::new())?;
    let health = Health::of(&status, context.names_a_repository());
    match (args.json, args.check) {
        (true, _) => show::json(&status)?,
        (false, true) => anstream::print!("{}", report(&status)),
        (false, false) => anstream::print!("{}", text(&status)),
    }
    // Nobody waits for what is only remembered for the next time.
    status.keep();
    Ok(if args.check { health.exit() } else { Exit::Fine })
}

/// What `--check` says (OP-06).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Well,
    NeedsOwner,
    NoDaemon,
}

impl Health {
    /// What nobody looks after any more does not make a machine ill, unless it is asked for by name.
    fn of(status: &Status, named: bool) -> Self {
        let abandoned = named && !status.repos.iter().any(|repo| repo.attended);
        if !status.daemon.running || abandoned {
            return Self::NoDaemon;
        }
        let needs = |repo: &Repo| repo.attended && (repo.held || repo.frozen);
        if status.repos.iter().any(needs) { Self::NeedsOwner } else { Self::Well }
    }

    fn exit(self) -> Exit {
        match self {
            Self::Well => Exit::Fine,
            Self::NeedsOwner => Exit::Finding,
            Self::NoDaemon => Exit::Failure,
        }
    }
}

/// What `agency metrics` needs of it.
pub(super) struct Seen {
    pub(super) daemon_runs: bool,
    pub(super) repos: Vec<SeenRepo>,
}

pub(super) struct SeenRepo {
    pub(super) path: PathBuf,
    pub(super) frozen: bool,
    /// By protocol.
    pub(super) conditions: Vec<(String, Kind)>,
}

pub(super) fn seen(context: &Context) -> anyhow::Result<Seen> {
    let status = gather(context, &mut Memory::new())?;
    let conditions = |protocols: Vec<ProtocolStatus>| {
        protocols.into_iter().map(|one| (one.name, one.condition.kind)).collect()
    };
    let repos = status.repos.into_iter().map(|repo| SeenRepo {
        path: repo.path,
        frozen: repo.frozen,
        conditions: conditions(repo.protocols),
    });
    Ok(Seen { daemon_runs: status.daemon.running, repos: repos.collect() })
}

fn watch(context: &Context) -> anyhow::Result<Exit> {
    let mut memory = Memory::new();
    if std::io::stdout().is_terminal() {
        let mut screen = Screen::open()?;
        while {
            let status = gather(context, &mut memory)?;
            let (first, rest) = (status.daemon.line(), text::below(&status));
            screen.draw(&format!("{first}\n{}\n\n{rest}", headline(&status)))?;
            status.keep();
            screen.wait()?
        } {}
        return Ok(Exit::Fine);
    }
    let mut last = String::new();
    loop {
        let status = gather(context, &mut memory)?;
        let now = text(&status);
        if now != last {
            anstream::println!("{now}");
        }
        std::io::Write::flush(&mut std::io::stdout())?;
        status.keep();
        last = now;
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Everything in one line: what an owner wants to know from across the room.
fn headline(status: &Status) -> String {
    let runs: usize = status.repos.iter().map(|repo| repo.runs.len()).sum();
    let held = status.repos.iter().filter(|repo| repo.held).count();
    let cost = 0.0 + status.repos.iter().map(|repo| repo.cost_today_usd).sum::<f64>();
    let waits = match held {
        0 => "nothing waits".to_owned(),
        1 => "1 waits for you".to_owned(),
        held => format!("{held} wait for you"),
    };
    let time = clock::now().wall.format("%H:%M:%SZ");
    let repos = counted(status.repos.len(), "repo");
    let runs = counted(runs, "run");
    // With the way out, it fits into 80 columns.
    format!("agency {time} · {repos} · {runs} · ${cost:.2} today · {waits} · ^C leaves")
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

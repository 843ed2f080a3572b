//! `agency status`: every repository that this machine remembers, what happens there, and what waits for the owner.

mod screen;

use super::board;
use super::board::count::Unkept;
use super::context::Context;
use super::exit::Exit;
use super::isolation::Level;
use super::show;
use crate::clock;
use crate::config::Config;
use crate::escalate::{self, DeliveryState, Outbox, Record, State};
use crate::protocol::board::NAME as BOARD;
use crate::repository::Known;
use crate::run::history::{RunRecord, Today};
use crate::workspace::{ProtocolStatus, RepoStatus};
use screen::Screen;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

/// What happens where, and what waits for you
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency status\n  agency status --watch\n  agency status --json | jq '.repos[] | select(.held)'"
)]
pub(super) struct Args {
    /// A full-screen view that is kept current; without a terminal, each change
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Status {
    repos: Vec<Repo>,
    /// How the owner hears of what is wrong.
    channels: Vec<String>,
    /// What keeps agents apart from us (SE-05).
    isolation: &'static str,
    #[serde(skip)]
    level: Level,
    /// What is wrong with the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Serialize)]
struct Repo {
    path: PathBuf,
    held: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<String>,
    notes: Vec<String>,
    protocols: Vec<ProtocolStatus>,
    runs: Vec<RunRecord>,
    /// What runs that ended today (UTC) cost, as far as they say so.
    cost_today_usd: f64,
    escalations: Vec<Record>,
    #[serde(skip)]
    unkept: Option<Unkept>,
}

/// What need not be read again for the next look, by the repository's folder.
type Memory = BTreeMap<PathBuf, Today>;

impl Status {
    fn keep(self) {
        self.repos.into_iter().filter_map(|repo| repo.unkept).for_each(Unkept::keep);
    }
}

pub(super) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    if args.watch {
        return watch(context);
    }
    let status = gather(context, &mut Memory::new())?;
    if args.json {
        show::json(&status)?;
    } else {
        anstream::print!("{}", text(&status));
    }
    // Nobody waits for what is only remembered for the next time.
    status.keep();
    Ok(Exit::Fine)
}

fn watch(context: &Context) -> anyhow::Result<Exit> {
    let mut memory = Memory::new();
    if std::io::stdout().is_terminal() {
        let mut screen = Screen::open()?;
        while {
            let status = gather(context, &mut memory)?;
            screen.draw(&format!("{}\n\n{}", headline(&status), text(&status)))?;
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

fn gather(context: &Context, memory: &mut Memory) -> anyhow::Result<Status> {
    // A configuration that is wrong must not hide what a daemon with the last good one does.
    let (channels, problem) = match context.config() {
        Ok(config) => (escalate::channels(&config, &context.env), None),
        Err(error) => {
            (escalate::channels(&Config::default(), &context.env), Some(format!("{error:#}")))
        }
    };
    let channels = channels.names().into_iter().map(str::to_owned).collect();
    let known = context.known()?;
    let today = |known: &Known| repo(known, memory.entry(known.folder.clone()).or_default());
    let mut repos: Vec<Repo> = known.iter().map(today).collect();
    repos.extend(unknown_board(context, &repos));
    let level = Level::live(&context.env);
    Ok(Status { repos, channels, isolation: level.word(), level, problem })
}

fn repo(known: &Known, today: &mut Today) -> Repo {
    let mut status = RepoStatus::read(&known.folder).unwrap_or_default();
    let unkept = count_tasks(known, &mut status.protocols);
    let look = today.look(&known.folder.join("runs"), clock::now().wall);
    let mut escalations = Outbox::list(&known.folder.join("outbox"));
    escalations.retain(|record| record.state != State::Resolved);
    Repo {
        path: known.path.clone(),
        held: status.held,
        closed: status.closed,
        notes: status.notes,
        protocols: status.protocols,
        runs: look.running,
        cost_today_usd: look.cost_usd,
        escalations,
        unkept,
    }
}

/// A board lives in its files: they say how many tasks there are, also when no daemon has looked.
fn count_tasks(known: &Known, protocols: &mut [ProtocolStatus]) -> Option<Unkept> {
    let shown = protocols.iter_mut().find(|protocol| protocol.name == BOARD)?;
    let mut counts = board::count::counts(&known.path, Some(&known.folder))?;
    counts.believe(shown.detail["counts"]["DONE"].as_u64());
    shown.summary = match &shown.held {
        Some(held) => format!("{} · held: {held}", counts.words()),
        None => counts.words(),
    };
    shown.detail["counts"] = serde_json::json!(counts.tasks);
    shown.detail["reports"] = serde_json::json!(counts.reports);
    counts.unkept
}

/// The board around us, where this machine does not know its repository yet.
fn unknown_board(context: &Context, known: &[Repo]) -> Option<Repo> {
    let path = context.root().ok()?;
    if known.iter().any(|repo| repo.path == path) {
        return None;
    }
    let counts = board::count::counts(&path, None)?;
    let detail = serde_json::json!({ "counts": counts.tasks, "reports": counts.reports });
    let (name, summary) = (BOARD.to_owned(), counts.words());
    Some(Repo {
        path,
        held: false,
        closed: Some("this machine does not know it; `agency adopt` takes it over".to_owned()),
        notes: Vec::new(),
        protocols: vec![ProtocolStatus { name, summary, held: None, detail }],
        runs: Vec::new(),
        escalations: Vec::new(),
        cost_today_usd: 0.0,
        unkept: None,
    })
}

fn text(status: &Status) -> String {
    if status.repos.is_empty() {
        return "no repository is known yet; `agency run` in one begins\n".to_owned();
    }
    let mut text = String::new();
    if let Some(problem) = &status.problem {
        text.push_str(&format!("{problem}\n"));
    } else if status.channels.is_empty() {
        text.push_str("no channel is configured: what is wrong is shown only here\n");
    }
    for repo in &status.repos {
        write_repo(&mut text, repo).expect("writing to a String cannot fail");
    }
    text.push_str(status.level.sentence());
    text.push('\n');
    text
}

fn write_repo(text: &mut String, repo: &Repo) -> std::fmt::Result {
    let held = if repo.held { "  HELD" } else { "" };
    writeln!(text, "{}{held}", repo.path.display())?;
    if let Some(why) = &repo.closed {
        writeln!(text, "  {why}")?;
    }
    for protocol in &repo.protocols {
        writeln!(text, "  {:<9} {}", protocol.name, protocol.summary)?;
        for line in protocol.detail["lines"].as_array().into_iter().flatten() {
            writeln!(text, "            {}", show::plain(line.as_str().unwrap_or_default()))?;
        }
    }
    for run in &repo.runs {
        let silent = run
            .last_output_at
            .map_or("no output yet".to_owned(), |at| format!("last output {} ago", show::age(at)));
        let (id, agent, age) = (&run.id, &run.agent, show::age(run.started_at));
        writeln!(
            text,
            "  run       {id}  {agent} as {} on {}/{}  {age}  {silent}",
            run.role, run.task, run.phase
        )?;
    }
    for record in &repo.escalations {
        let severity = format!("{:?}", record.severity).to_lowercase();
        writeln!(text, "  {severity:<9} {}  {}  {}", record.id, record.rule, record.summary)?;
        if record.holds {
            writeln!(text, "            resolve: {}", record.resolve)?;
        }
        for dead in record.deliveries.iter().filter(|one| one.state == DeliveryState::Dead) {
            writeln!(text, "            could not be delivered by {}", dead.channel)?;
        }
    }
    for note in &repo.notes {
        writeln!(text, "  note      {note}")?;
    }
    Ok(())
}

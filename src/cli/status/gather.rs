//! Collects what `agency status` shows from the files of the daemon and of each repository. It changes nothing.

use super::daemon::DaemonView;
use super::{Memory, Repo, Status};
use crate::cli::board;
use crate::cli::board::count::Unkept;
use crate::cli::context::Context;
use crate::cli::isolation::{Level, Sandbox};
use crate::clock;
use crate::config::Config;
use crate::daemon::{Frozen, FrozenBy};
use crate::escalate::{self, Outbox, Record, in_repo};
use crate::model::Condition;
use crate::protocol::board::NAME as BOARD;
use crate::repository::Known;
use crate::run::history::{RunRecord, Today};
use crate::workspace::{ConditionStatus, Kind, ProtocolStatus, RepoStatus};
use std::path::Path;

pub(crate) fn gather(context: &Context, memory: &mut Memory) -> anyhow::Result<Status> {
    // A configuration that is wrong must not hide what a daemon with the last good one does.
    let (config, problem) = match context.config() {
        Ok(config) => (config, None),
        Err(error) => (Config::default(), Some(format!("{error:#}"))),
    };
    let channels = escalate::channels(&config, &context.env);
    let channels = channels.names().into_iter().map(str::to_owned).collect();
    let daemon = DaemonView::look(&context.state_dir()?);
    let wanted = context.named_root();
    let is_wanted = |path: &Path| wanted.as_deref().is_none_or(|wanted| wanted == path);
    let mut frozen = daemon.frozen();
    frozen.retain(|frozen| is_wanted(&frozen.path));
    let known = match context.known() {
        Ok(known) => known,
        // A repository that is not there can be frozen, and is listed then.
        Err(_) if !frozen.is_empty() => Vec::new(),
        Err(error) => return Err(error),
    };
    let today =
        |known: &Known| repo(known, memory.entry(known.folder.clone()).or_default(), &daemon);
    let mut repos: Vec<Repo> = known.iter().map(today).collect();
    for frozen in frozen {
        match repos.iter_mut().find(|repo| repo.path == frozen.path) {
            // The other daemon is one of this state directory: what it does there is the truth.
            Some(repo) if repo.attended && frozen.by == FrozenBy::AnotherDaemon => {
                repo.notes.push(format!("{}; {}", frozen.cause, frozen.resolve));
            }
            Some(repo) => repo.freeze(&frozen),
            None => repos.push(Repo::frozen(&frozen)),
        }
    }
    for record in daemon.escalations() {
        if let Some(repo) = repos.iter_mut().find(|repo| repo.path == record.repo) {
            repo.escalations.push(record);
        }
    }
    repos.extend(unknown_board(context, &repos));
    let isolation = Level::live(&context.env).word();
    let kept_in = Sandbox::live(&config);
    let sandbox = kept_in.view();
    Ok(Status { daemon, repos, channels, isolation, sandbox, kept_in, problem })
}

fn repo(known: &Known, today: &mut Today, daemon: &DaemonView) -> Repo {
    let mut status = RepoStatus::read(&known.folder).unwrap_or_default();
    let unkept = count_tasks(known, &mut status.protocols);
    let look = today.look(&known.folder.join("runs"), clock::now().wall);
    let attended = daemon.has(status.pid);
    for protocol in &mut status.protocols {
        let condition = &mut protocol.condition;
        if !attended {
            condition.leave(daemon.running);
        }
        condition.add_run(&look.running);
        condition.resolve = condition.resolve.take().map(|verb| in_repo(&verb, &known.path));
    }
    let mut escalations = Outbox::list(&known.folder.join("outbox"));
    escalations.retain(Record::is_for_owner);
    Repo {
        path: known.path.clone(),
        held: status.held,
        frozen: false,
        attended,
        closed: status.closed,
        paused: status.paused,
        notes: status.notes.into_iter().chain(status.missing).collect(),
        protocols: status.protocols,
        runs: look.running,
        cost_today_usd: look.cost_usd,
        escalations,
        unkept,
    }
}

impl ConditionStatus {
    /// Nobody works here: what was under way goes on when a daemon comes.
    fn leave(&mut self, elsewhere: bool) {
        if !matches!(self.kind, Kind::Working | Kind::Waiting) {
            return;
        }
        let why = match elsewhere {
            true => "the running daemon does not work in this repository",
            false => "no daemon runs",
        };
        let reason = format!("{why}; before: {}", self.reason);
        *self = Self { run: self.run.take(), ..Self::from(&Condition::waits_for(reason)) };
    }

    /// What the files of its run say and the protocol does not know.
    fn add_run(&mut self, runs: &[RunRecord]) {
        let Some(run) = runs.iter().find(|run| self.run.as_ref() == Some(&run.id)) else { return };
        self.agent.get_or_insert_with(|| run.agent.clone());
        self.task.get_or_insert_with(|| run.task.clone());
        self.since.get_or_insert(run.started_at);
        self.last_output = run.last_output_at;
        if self.trouble.is_none() {
            self.trouble.clone_from(&run.trouble);
        }
    }
}

impl Repo {
    fn freeze(&mut self, frozen: &Frozen) {
        let Frozen { path, cause, resolve, .. } = frozen;
        let condition = Condition::frozen(cause, in_repo(resolve, path));
        for protocol in &mut self.protocols {
            protocol.condition = ConditionStatus::from(&condition);
        }
        (self.held, self.frozen, self.attended) = (true, true, true);
        self.closed = Some(format!("frozen: {cause}"));
    }

    /// One of which nothing else is known.
    fn frozen(frozen: &Frozen) -> Self {
        let mut repo = Self::unknown(frozen.path.clone());
        repo.freeze(frozen);
        repo
    }

    fn unknown(path: std::path::PathBuf) -> Self {
        Self {
            path,
            held: false,
            frozen: false,
            attended: false,
            closed: None,
            paused: None,
            notes: Vec::new(),
            protocols: Vec::new(),
            runs: Vec::new(),
            escalations: Vec::new(),
            cost_today_usd: 0.0,
            unkept: None,
        }
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
    let why = "agency has not managed this repository here; `agency adopt` takes it over";
    let condition = Condition::held(why, in_repo("agency adopt", &path));
    let condition = ConditionStatus::from(&condition);
    let mut repo = Repo::unknown(path);
    repo.closed = Some(why.to_owned());
    repo.protocols = vec![ProtocolStatus { name, condition, summary, held: None, detail }];
    Some(repo)
}

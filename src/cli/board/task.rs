//! `agency task`: make, look at and move tasks. Moves are judged by the board's table, with or without a daemon.

use super::super::ask::give;
use super::super::context::Context;
use super::super::exit::{Exit, Refused};
use super::super::show;
use super::inspect::Stands;
use super::{Place, inspect, new, task_id};
use crate::model::RelPath;
use crate::protocol::board::names::{TaskId, same_agent};
use crate::protocol::board::table::Status;
use crate::protocol::board::task::Task;
use crate::verbs::TaskVerb;
use serde_json::{Value, json};

#[derive(clap::Subcommand)]
pub(crate) enum Verb {
    /// Make a task
    New(Box<new::Args>),
    /// The tasks of this board
    #[command(
        after_help = "Examples:\n  agency task list\n  agency task list --status BLOCKED --json"
    )]
    List {
        /// Only those that are NEW, ASSIGNED, IN_PROGRESS, BLOCKED, READY_FOR_REVIEW, DONE or CANCELED
        #[arg(long, value_parser = status)]
        status: Option<Status>,
        /// Only those of this agent
        #[arg(long)]
        assignee: Option<String>,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// One task, with its reports
    #[command(after_help = "Example:\n  agency task show T0007")]
    Show {
        #[arg(value_parser = task_id)]
        id: TaskId,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Begin the work yourself: ASSIGNED → IN_PROGRESS
    #[command(after_help = "Example:\n  agency task start T0007")]
    Start(Move),
    /// Send it back: READY_FOR_REVIEW → IN_PROGRESS
    #[command(
        after_help = "Example:\n  agency task request-changes T0007 --reason 'the totals of case 4 are wrong'"
    )]
    RequestChanges(Move),
    /// Ask for a new audit of the work as it is now
    #[command(after_help = "Example:\n  agency task audit T0007 --reason 'the risk is closed now'")]
    Audit(Move),
    /// READY_FOR_REVIEW → DONE, with a report and our own passing verify
    #[command(after_help = "Example:\n  agency verify --task T0007 && agency task done T0007")]
    Done(Move),
    /// Give it back to its builder: BLOCKED → ASSIGNED
    #[command(
        after_help = "Example:\n  agency task unblock T0007 --reason 'the account exists now'"
    )]
    Unblock(Move),
    /// Anything → CANCELED
    #[command(after_help = "Example:\n  agency task cancel T0007 --reason 'no longer wanted'")]
    Cancel(Move),
}

#[derive(clap::Args)]
pub(crate) struct Move {
    #[arg(value_parser = task_id)]
    id: TaskId,
    /// Why, for the journal and the board
    #[arg(long)]
    reason: Option<String>,
}

fn status(text: &str) -> Result<Status, String> {
    Status::parse(text).ok_or_else(|| format!("wanted {}", Status::WORDS))
}

pub(crate) fn run(context: &Context, verb: Verb) -> anyhow::Result<Exit> {
    match verb {
        Verb::New(args) => new::run(context, *args),
        Verb::List { status, assignee, json } => list(context, status, assignee.as_deref(), json),
        Verb::Show { id, json } => show_one(context, &id, json),
        Verb::Start(task) => act(context, TaskVerb::Start, &task),
        Verb::RequestChanges(task) => act(context, TaskVerb::RequestChanges, &task),
        Verb::Audit(task) => act(context, TaskVerb::Audit, &task),
        Verb::Done(task) => act(context, TaskVerb::Done, &task),
        Verb::Unblock(task) => act(context, TaskVerb::Unblock, &task),
        Verb::Cancel(task) => act(context, TaskVerb::Cancel, &task),
    }
}

fn act(context: &Context, verb: TaskVerb, task: &Move) -> anyhow::Result<Exit> {
    let place = Place::of(context)?;
    place.find(&task.id)?;
    give(context, verb.on(task.id.as_str(), task.reason.as_deref()))
}

fn list(
    context: &Context,
    status: Option<Status>,
    assignee: Option<&str>,
    json: bool,
) -> anyhow::Result<Exit> {
    let place = Place::of(context)?;
    let stands = Stands::read(context)?;
    let wanted = |found| status.is_none_or(|status| found == status);
    let may_be = |found| wanted(found) || stands.may_differ(found);
    let (mut tasks, problems) = inspect::tasks_that(&place.root, may_be);
    tasks.retain(|(_, task)| wanted(stands.status(task)));
    tasks.retain(|(_, task)| assignee.is_none_or(|assignee| same_agent(&task.assignee, assignee)));
    tasks.sort_by(|(_, a), (_, b)| a.id.cmp(&b.id));
    if json {
        show::json(
            &tasks
                .iter()
                .map(|(path, task)| inspect::to_json(path, task, stands.status(task)))
                .collect::<Vec<Value>>(),
        )?;
    } else {
        let mut table = show::table(&["id", "status", "prio", "assignee", "title"]);
        for (_, task) in &tasks {
            let title = show::plain(&task.title);
            let row = [
                task.id.as_str(),
                stands.status(task).word(),
                task.priority.word(),
                &task.assignee,
                &title,
            ];
            table.add_row(row);
        }
        anstream::println!("{table}");
    }
    tasks.iter().for_each(|(path, task)| tell_claim(&stands, path, task));
    for problem in &problems {
        anstream::eprintln!("refused: {problem}");
    }
    Ok(if problems.is_empty() { Exit::Fine } else { Exit::Finding })
}

/// A file that says another status than the task has.
fn tell_claim(stands: &Stands, path: &RelPath, task: &Task) {
    let (said, is) = (task.status, stands.status(task));
    if said != is {
        let (said, is) = (said.word(), is.word());
        anstream::eprintln!("{}: `{path}` says {said}; the task is {is} (AG-11)", task.id);
    }
}

fn show_one(context: &Context, id: &TaskId, json: bool) -> anyhow::Result<Exit> {
    let place = Place::of(context)?;
    let (path, task) = place.task(id)?;
    let reports = inspect::reports(&place.root, id);
    if json {
        let status = Stands::read(context)?.status(&task);
        let mut value = inspect::to_json(&path, &task, status);
        value["reports"] = json!(reports);
        value["body"] = json!(task.body);
        show::json(&value)?;
        return Ok(Exit::Fine);
    }
    let bytes = super::bytes(&place.root, path.as_str())?;
    let Some(bytes) = bytes else { return Err(Refused(format!("`{path}` is gone")).into()) };
    anstream::println!("{path}\n\n{}", show::plain(String::from_utf8_lossy(&bytes).trim_end()));
    tell_claim(&Stands::read(context)?, &path, &task);
    for (name, value) in &task.refs {
        anstream::println!("ref        {name}: {value}");
    }
    for report in reports {
        anstream::println!("report     {report}");
    }
    Ok(Exit::Fine)
}

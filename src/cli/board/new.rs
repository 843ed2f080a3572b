//! `agency task new` and `agency assign`: one more task file, with an id that nobody else gets.

use super::super::context::Context;
use super::super::exit::{Exit, Misused, Refused};
use super::super::show;
use super::{Place, each_task, refused, task_id};
use crate::clock;
use crate::model::RelPath;
use crate::protocol::board::manifest::IdStrategy;
use crate::protocol::board::names::{TaskId, is_agent, task_path};
use crate::protocol::board::scope::{Scope, is_pattern};
use crate::protocol::board::table::Status;
use crate::protocol::board::task::{self, NewTask, Priority};
use crate::protocol::board::{FILE_MAX, profile};
use crate::store::{self, FolderLock};
use std::convert::Infallible;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Duration;

/// How long a command waits for the others that make tasks.
const WAIT: Duration = Duration::from_secs(120);

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency task new --title 'Fix VAT rounding' --assignee claude-code --priority P1 \\\n      --must-touch 'src/accounting/**' --may-touch 'tests/**' --acceptance 'Totals match the fixtures'\n  agency task new        (asks, at a terminal)"
)]
pub(crate) struct Args {
    /// One line
    #[arg(long, allow_hyphen_values = true)]
    title: Option<String>,
    /// Whose task it is: an agent's name, or a person's
    #[arg(long, value_name = "AGENT")]
    assignee: Option<String>,
    #[command(flatten)]
    fields: Fields,
}

#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  agency assign codex --title 'Write the changelog' --may-touch CHANGELOG.md"
)]
pub(crate) struct AssignArgs {
    /// Whose task it is
    #[arg(value_name = "AGENT")]
    assignee: String,
    /// One line
    #[arg(long, allow_hyphen_values = true)]
    title: String,
    #[command(flatten)]
    fields: Fields,
}

#[derive(clap::Args, Default)]
pub(crate) struct Fields {
    /// P0 (first) to P3
    #[arg(long, default_value = "P2", value_parser = priority)]
    priority: Option<Priority>,
    /// The DoD profile that must pass (default: the board's)
    #[arg(long, value_name = "NAME")]
    dod_profile: Option<String>,
    /// Files that the task is about (globs)
    #[arg(long, value_name = "GLOB")]
    must_touch: Vec<String>,
    /// Files that it may change besides (default: everything, where no scope is given)
    #[arg(long, value_name = "GLOB")]
    may_touch: Vec<String>,
    /// Files that it must leave alone
    #[arg(long, value_name = "GLOB")]
    must_not_touch: Vec<String>,
    /// What holds when it is done
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    acceptance: Vec<String>,
    #[arg(long = "constraint", value_name = "TEXT", allow_hyphen_values = true)]
    constraints: Vec<String>,
    /// Files to read first
    #[arg(long = "context-file", value_name = "PATH")]
    context_files: Vec<String>,
    #[arg(long = "label", value_name = "WORD")]
    labels: Vec<String>,
    /// Tasks that must be DONE before
    #[arg(long, value_name = "ID", value_parser = task_id)]
    depends_on: Vec<TaskId>,
    /// Risks of RISKS.md, such as R-001
    #[arg(long = "risk", value_name = "ID")]
    risks: Vec<String>,
    /// Where it is tracked elsewhere: github_issue=#123, jira=PROJ-456, linear=ENG-789, pr=#125
    #[arg(long = "ref", value_name = "NAME=VALUE", value_parser = reference)]
    refs: Vec<(String, String)>,
    /// The text under `## Problem`
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    problem: Option<String>,
    /// The text under `## Notes`
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    notes: Option<String>,
    /// For machines
    #[arg(long)]
    json: bool,
}

fn priority(text: &str) -> Result<Priority, String> {
    Priority::parse(text).ok_or_else(|| "wanted P0, P1, P2 or P3".to_owned())
}

fn reference(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("wanted NAME=VALUE")?;
    let fits = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    if !fits || value.is_empty() || value.contains(char::is_control) {
        return Err("wanted NAME=VALUE, such as jira=PROJ-456".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

pub(crate) fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let place = Place::of(context)?;
    let title = asked("Title", args.title, None)?;
    let usual = place.manifest.builders.first().map(String::as_str);
    let assignee = asked("Assignee", args.assignee, usual)?;
    create(&place, title, assignee, Status::New, args.fields)
}

pub(crate) fn assign(context: &Context, args: AssignArgs) -> anyhow::Result<Exit> {
    let place = Place::of(context)?;
    create(&place, args.title, args.assignee, Status::Assigned, args.fields)
}

/// A value from its flag; at a terminal it is asked for.
pub(super) fn asked(
    what: &str,
    given: Option<String>,
    usual: Option<&str>,
) -> anyhow::Result<String> {
    if let Some(given) = given {
        return Ok(given);
    }
    if !std::io::stdin().is_terminal() {
        return usual
            .map(str::to_owned)
            .ok_or_else(|| Misused(format!("no {0}: give --{0}", what.to_lowercase())).into());
    }
    let hint = usual.map(|usual| format!(" [{usual}]")).unwrap_or_default();
    anstream::eprint!("{what}{hint}: ");
    std::io::stderr().flush()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let line = line.trim();
    match (line.is_empty(), usual) {
        (false, _) => Ok(line.to_owned()),
        (true, Some(usual)) => Ok(usual.to_owned()),
        (true, None) => Err(Misused(format!("no {}", what.to_lowercase())).into()),
    }
}

fn create(
    place: &Place,
    title: String,
    assignee: String,
    status: Status,
    fields: Fields,
) -> anyhow::Result<Exit> {
    let json = fields.json;
    let task = new_task(place, title, assignee, status, fields)?;
    let (id, path) = write(place, &task)?;
    if json {
        show::json(&serde_json::json!({ "id": id, "path": path.as_str() }))?;
    } else {
        anstream::println!("{id}  {path}");
    }
    Ok(Exit::Fine)
}

fn new_task(
    place: &Place,
    title: String,
    assignee: String,
    status: Status,
    fields: Fields,
) -> anyhow::Result<NewTask> {
    let mut problems = Vec::new();
    if title.trim().is_empty() || title.contains(char::is_control) {
        problems.push("the title must be one line of text".to_owned());
    }
    if !is_agent(&assignee) {
        problems.push(format!(
            "`{assignee}` is not a name: wanted at most 64 of a-z, 0-9, `.`, `_` and `-`"
        ));
    }
    let dod_profile = fields.dod_profile.unwrap_or_else(|| place.manifest.dod_profile.clone());
    if !profile::is_name(&dod_profile) {
        problems.push(format!("`{dod_profile}` is not the name of a profile"));
    }
    let mut scope = Scope {
        must_touch: fields.must_touch,
        may_touch: fields.may_touch,
        must_not_touch: fields.must_not_touch,
    };
    let globs = [&scope.must_touch, &scope.may_touch, &scope.must_not_touch];
    for pattern in globs.into_iter().flatten().filter(|pattern| !is_pattern(pattern)) {
        problems.push(format!("`{pattern}` is not a glob inside the repository"));
    }
    if scope.must_touch.is_empty() && scope.may_touch.is_empty() {
        scope.may_touch.push("**".to_owned());
    }
    if !problems.is_empty() {
        return Err(Misused(problems.join("; ")).into());
    }
    Ok(NewTask {
        title: title.trim().to_owned(),
        priority: fields.priority.unwrap_or(Priority::P2),
        assignee,
        status,
        dod_profile,
        scope,
        labels: fields.labels,
        depends_on: fields.depends_on,
        context_files: fields.context_files,
        acceptance: fields.acceptance,
        constraints: fields.constraints,
        risks: fields.risks,
        refs: fields.refs,
        parent: None,
        problem: fields.problem.unwrap_or_default(),
        notes: fields.notes.unwrap_or_default(),
    })
}

/// Gives it an id under the lock of the inbox and puts the whole file there at once (AG-05).
pub(super) fn write(place: &Place, task: &NewTask) -> anyhow::Result<(TaskId, RelPath)> {
    let inbox = place.root.join(".kodingx/inbox");
    std::fs::create_dir_all(&inbox)?;
    let Some(_lock) = FolderLock::acquire(&inbox, WAIT)? else {
        return Err(Refused(
            "somebody else has been making tasks here for two minutes; try again".to_owned(),
        )
        .into());
    };
    let highest = Highest::look(&place.root);
    if let Some(dep) = task.depends_on.iter().find(|dep| !highest.known.contains(*dep)) {
        return Err(Refused(format!("depends on {dep}, which does not exist (AG-27)")).into());
    }
    let now = clock::now().wall;
    let id = match place.manifest.ids {
        IdStrategy::Sequential => TaskId::sequential(highest.number + 1),
        IdStrategy::Ulid => TaskId::ulid(now, uuid::Uuid::new_v4().as_u128()),
    };
    let zone = place.manifest.zone;
    let path = task_path(&task.assignee, &id, &task.title, zone, now);
    let text = task.render(&id, &zone.stamp(now));
    // What would be refused when it is read is not written.
    task::parse(text.as_bytes(), &path).map_err(|problems| refused(&problems))?;
    store::edit(&place.root, &path, FILE_MAX, WAIT, |_| {
        Ok::<_, Infallible>(Some(text.into_bytes()))
    })?;
    Ok((id, path))
}

/// What is taken already, here or in the archive.
struct Highest {
    number: u64,
    known: std::collections::HashSet<TaskId>,
}

impl Highest {
    fn look(root: &Path) -> Self {
        let mut highest = Self { number: super::archive::last_id(root), known: Default::default() };
        each_task(root, |_, id| {
            highest.number = highest.number.max(id.number().unwrap_or(0));
            highest.known.insert(id);
        });
        highest
    }
}

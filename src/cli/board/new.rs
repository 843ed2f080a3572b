//! `agency task new` and `agency assign`: one more task file, with an id that nobody else gets.

use super::super::context::Context;
use super::super::exit::{Exit, Misused, Refused};
use super::super::show;
use super::maker::Maker;
use super::prompt::{Question, is_terminal};
use super::{Place, task_id};
use crate::protocol::board::names::{PLAYWRIGHT, TaskId, is_agent, same_agent};
use crate::protocol::board::profile;
use crate::protocol::board::scope::{Scope, is_pattern};
use crate::protocol::board::table::Status;
use crate::protocol::board::task::{NewTask, Priority};
use std::collections::BTreeSet;

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
    /// P0 (first) to P3 (default: P2)
    #[arg(long, value_parser = priority)]
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
    /// The assignee is a person whom neither the configuration nor agency.json names
    #[arg(long)]
    force_assignee: bool,
    /// Print as JSON
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

const ASSIGNEE: &str = "at most 64 of a-z, 0-9, `.`, `_` and `-`";

pub(crate) fn run(context: &Context, mut args: Args) -> anyhow::Result<Exit> {
    let place = Place::of(context)?;
    let by_questions = args.title.is_none() && is_terminal();
    let title = Question { what: "Title", flag: "title", wanted: "one line of text", usual: None };
    let title = title.ask(args.title, |text| is_line(text).then(|| text.to_owned()))?;
    let usual = place.manifest.builders.first().map(String::as_str);
    let assignee = Question { what: "Assignee", flag: "assignee", wanted: ASSIGNEE, usual };
    let assignee = assignee.ask(args.assignee, |text| is_agent(text).then(|| text.to_owned()))?;
    if by_questions {
        ask_more(&mut args.fields)?;
    }
    create(context, &place, title, assignee, Status::New, args.fields)
}

/// Whoever is asked for the title is asked for what else a task should not be without.
fn ask_more(fields: &mut Fields) -> anyhow::Result<()> {
    if fields.priority.is_none() {
        let question = Question {
            what: "Priority",
            flag: "priority",
            wanted: "P0, P1, P2 or P3",
            usual: Some(USUAL_PRIORITY.word()),
        };
        fields.priority = Some(question.ask(None, Priority::parse)?);
    }
    if fields.must_touch.is_empty() && fields.may_touch.is_empty() {
        let question = Question {
            what: "Files that it may change",
            flag: "may-touch",
            wanted: "globs inside the repository, separated by commas",
            usual: Some("**"),
        };
        fields.may_touch = question.ask(None, |line| {
            let globs: Vec<String> = line.split(',').map(|glob| glob.trim().to_owned()).collect();
            globs.iter().all(|glob| is_pattern(glob)).then_some(globs)
        })?;
    }
    if fields.acceptance.is_empty() {
        let question = Question {
            what: "What holds when it is done",
            flag: "acceptance",
            wanted: "one line of text",
            usual: Some(""),
        };
        let line = question
            .ask(None, |text| (text.is_empty() || is_line(text)).then(|| text.to_owned()))?;
        fields.acceptance.extend(Some(line).filter(|line| !line.is_empty()));
    }
    Ok(())
}

const USUAL_PRIORITY: Priority = Priority::P2;

fn is_line(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains(char::is_control)
}

pub(crate) fn assign(context: &Context, args: AssignArgs) -> anyhow::Result<Exit> {
    let place = Place::of(context)?;
    create(context, &place, args.title, args.assignee, Status::Assigned, args.fields)
}

fn create(
    context: &Context,
    place: &Place,
    title: String,
    assignee: String,
    status: Status,
    fields: Fields,
) -> anyhow::Result<Exit> {
    let json = fields.json;
    let who = Assignee::of(context, place, &assignee)?;
    if who == Assignee::Unknown && is_agent(&assignee) && !fields.force_assignee {
        return Err(unknown(context, place, &assignee)?.into());
    }
    let person = matches!(who, Assignee::Person | Assignee::Unknown);
    let task = NewTask { person, ..new_task(place, title, assignee, status, fields)? };
    let (id, path) = Maker::open(context, place)?.make(&task)?;
    super::list_anew(context);
    if json {
        show::json(&serde_json::json!({ "id": id, "path": path.as_str() }))?;
    } else {
        anstream::println!("{id}  {path}");
    }
    Ok(Exit::Fine)
}

/// Who an assignee is here (AG-37).
#[derive(PartialEq)]
enum Assignee {
    /// An agent, or a name of the manifest's.
    Known,
    /// A person who has had tasks on this board.
    Person,
    Unknown,
}

impl Assignee {
    fn of(context: &Context, place: &Place, name: &str) -> anyhow::Result<Self> {
        let known = known_names(context, place)?;
        let inbox = place.root.join(".kodingx/inbox");
        Ok(if known.iter().any(|known| same_agent(known, name)) {
            Self::Known
        } else if is_agent(name) && inbox.join(name).is_dir() {
            Self::Person
        } else {
            Self::Unknown
        })
    }
}

/// The agents of the configuration, its roles, and the names of agency.json.
fn known_names(context: &Context, place: &Place) -> anyhow::Result<BTreeSet<String>> {
    let config = context.config()?;
    let roles = config.roles.keys().map(|seat| seat.as_str().to_owned());
    let manifest = place.manifest.builders.iter().chain([&place.manifest.orchestrator]);
    let names = config.agents.keys().chain(manifest).cloned();
    Ok(names.chain(roles).chain([PLAYWRIGHT.to_owned()]).collect())
}

fn unknown(context: &Context, place: &Place, name: &str) -> anyhow::Result<Refused> {
    let names: Vec<String> = known_names(context, place)?.into_iter().collect();
    Ok(Refused(format!(
        "`{name}` is neither an agent nor a person of this board. Known: {}. For a person: --force-assignee (AG-37)",
        names.join(", ")
    )))
}

fn new_task(
    place: &Place,
    title: String,
    assignee: String,
    status: Status,
    fields: Fields,
) -> anyhow::Result<NewTask> {
    let mut problems = Vec::new();
    if !is_line(&title) {
        problems.push("the title must be one line of text".to_owned());
    }
    if !is_agent(&assignee) {
        problems.push(format!(
            "`{}` is not a name: wanted {ASSIGNEE}",
            crate::model::clip(&assignee, 80)
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
        priority: fields.priority.unwrap_or(USUAL_PRIORITY),
        assignee,
        person: false,
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

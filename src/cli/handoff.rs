//! `agency handoff`: the relay's own verbs. Owner verbs go to the daemon; what recipients may do is done on the files.

mod draft;
mod files;

use super::ask::{answer, tell};
use super::context::Context;
use super::exit::{Exit, Misused, Refused};
use super::show;
use crate::clock;
use crate::model::{FileState, RelPath, Verb as Asked, clip, counted};
use crate::protocol::handoff::table::{self, Flow, Folder, Who};
use crate::protocol::handoff::{HANDOFFS, NAME, message, state};
use crate::read;
use crate::run::run_around;
use draft::SendArgs;
use files::Found;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;

#[derive(clap::Subcommand)]
pub(super) enum Verb {
    /// Begin a workflow: the planner is started with these words
    #[command(after_help = "Example:\n  agency handoff start --type feature 'Add user auth'")]
    Start {
        /// feature, bugfix or refactor
        #[arg(long = "type", default_value = "feature", value_name = "TYPE")]
        flow: String,
        /// What is to be done
        #[arg(required = true)]
        text: Vec<String>,
    },
    /// Hand something on; inside a run, as the agent that runs
    Send(SendArgs),
    /// Every message, the most urgent first
    #[command(
        after_help = "Examples:\n  agency handoff list\n  agency handoff list --folder pending --json"
    )]
    List {
        /// pending, accepted, completed or rejected
        #[arg(long)]
        folder: Option<String>,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// One message with everything in it
    #[command(after_help = "Example:\n  agency handoff show 3f2a9c1e --json")]
    Show {
        /// Its id, or the beginning of it
        id: String,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Take a pending handoff yourself
    #[command(after_help = "Example:\n  agency handoff accept 3f2a9c1e")]
    Accept { id: String },
    /// Say that a handoff which you accepted is done
    #[command(after_help = "Example:\n  agency handoff complete 3f2a9c1e")]
    Complete { id: String },
    /// Refuse a handoff
    #[command(after_help = "Example:\n  agency handoff reject 3f2a9c1e")]
    Reject { id: String },
    /// Take over a `.claude/state.json` of another format: a copy is kept, its other keys stay
    #[command(after_help = "Example:\n  agency handoff adopt")]
    Adopt,
    /// End the workflow as it is
    #[command(after_help = "Example:\n  agency handoff cancel --reason 'no longer wanted'")]
    Cancel {
        #[arg(long)]
        reason: Option<String>,
    },
}

pub(super) fn run(context: &Context, verb: Verb) -> anyhow::Result<Exit> {
    match verb {
        Verb::Start { flow, text } => {
            let text = text.join(" ");
            tell(context, Asked::Init, Some(NAME), &[("type", Some(&flow)), ("text", Some(&text))])
        }
        Verb::Send(args) => send(context, &args),
        Verb::List { folder, json } => list(context, folder.as_deref(), json),
        Verb::Show { id, json } => print_one(context, &id, json),
        Verb::Accept { id } => pass_on(context, &id, Folder::Accepted),
        Verb::Complete { id } => pass_on(context, &id, Folder::Completed),
        Verb::Reject { id } => pass_on(context, &id, Folder::Rejected),
        Verb::Adopt => tell(context, Asked::Adopt, Some(NAME), &[("state", Some("replace"))]),
        Verb::Cancel { reason } => {
            let args = [("do", Some("cancel")), ("reason", reason.as_deref())];
            tell(context, Asked::Do, Some(NAME), &args)
        }
    }
}

fn send(context: &Context, args: &SendArgs) -> anyhow::Result<Exit> {
    let root = context.root()?;
    let runner = run_around(std::process::id()).and_then(|_| draft::agent_of_run());
    let document = draft::document(&root, args, runner)?;
    let id = document.get("message_id").and_then(|id| id.as_str()).unwrap_or("message");
    let path = crate::protocol::handoff::path_in(
        Folder::Pending,
        &format!("{}.json", clip(id, 60).replace('/', "_")),
    );
    let bytes = message::render(&document, Folder::Pending);
    let read = message::parse(&path, &bytes, clock::now().wall);
    let message = read.map_err(|problems| {
        let words: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Refused(words.join("\n       "))
    })?;
    match runner {
        None => {
            let text = serde_json::to_string(&document)?;
            tell(
                context,
                Asked::Init,
                Some(NAME),
                &[("do", Some("send")), ("message", Some(&text))],
            )
        }
        Some(who) if message.from != who => Err(Refused(format!(
            "inside a run only its own agent sends: `from` is {}, the run is {}'s (HO-01)",
            message.from.word(),
            who.word()
        ))
        .into()),
        Some(_) => {
            files::write_new(&root, &path, &bytes)?;
            anstream::println!("{}", message.id);
            Ok(Exit::Fine)
        }
    }
}

fn list(context: &Context, folder: Option<&str>, json: bool) -> anyhow::Result<Exit> {
    let only = folder.map(|word| {
        Folder::parse(word)
            .ok_or_else(|| Misused(format!("`{word}` is no folder; wanted: {}", Folder::list())))
    });
    let only = only.transpose()?;
    let mut found = files::all(&context.root()?)?;
    found.retain(|found| only.is_none_or(|only| found.folder == only));
    let exit =
        if found.iter().any(|found| found.message.is_err()) { Exit::Finding } else { Exit::Fine };
    if json {
        show::json(&found.iter().map(as_json).collect::<Vec<_>>())?;
        return Ok(exit);
    }
    let mut table =
        show::table(&["id", "folder", "type", "from", "to", "priority", "iteration", "age"]);
    for found in &found {
        match &found.message {
            Ok(it) => table.add_row([
                it.id.get(..8).unwrap_or(&it.id).to_owned(),
                found.folder.word().to_owned(),
                it.kind.word().to_owned(),
                it.from.word().to_owned(),
                it.to.word().to_owned(),
                it.priority.word().to_owned(),
                it.iteration.to_string(),
                show::age(it.timestamp),
            ]),
            Err(problems) => table.add_row([
                clip(found.path.file_name(), 40),
                found.folder.word().to_owned(),
                format!(
                    "not a message, {}; `agency check` lists them",
                    counted(problems.len(), "problem")
                ),
            ]),
        };
    }
    anstream::println!("{table}");
    Ok(exit)
}

fn as_json(found: &Found) -> serde_json::Value {
    match &found.message {
        Ok(message) => {
            json!({"path": found.path, "folder": found.folder.word(), "message": message.document})
        }
        Err(problems) => {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            json!({"path": found.path, "folder": found.folder.word(), "problems": problems})
        }
    }
}

fn print_one(context: &Context, id: &str, json: bool) -> anyhow::Result<Exit> {
    let found = files::find(&context.root()?, id)?;
    let Ok(message) = &found.message else { return Ok(Exit::Finding) };
    if json {
        show::json(&message.document)?;
        return Ok(Exit::Fine);
    }
    anstream::println!(
        "{}  {} → {}  {}",
        message.kind.word(),
        message.from.word(),
        message.to.word(),
        message.priority.word()
    );
    anstream::println!("id         {}", message.id);
    anstream::println!("lies in    {}", found.path);
    anstream::println!("written    {} ago", show::age(message.timestamp));
    anstream::println!(
        "workflow   {}, iteration {}, spec {}",
        message.workflow.map_or("not named", Flow::word),
        message.iteration,
        clip(&message.spec, 100)
    );
    let payload = serde_json::to_string_pretty(&message.document["payload"])?;
    for line in payload.lines() {
        anstream::println!("  {}", clip(line, 200));
    }
    Ok(Exit::Fine)
}

/// Moves a message on, as its recipient: the table allows it, and inside a run only that run's agent may.
fn pass_on(context: &Context, id: &str, to: Folder) -> anyhow::Result<Exit> {
    let root = context.root()?;
    let found = files::find(&root, id)?;
    let Ok(message) = &found.message else {
        return Err(Refused("that is not a message".to_owned()).into());
    };
    if found.folder == to {
        anstream::println!("`{}` is {} already", message.id, to.word());
        return Ok(Exit::Fine);
    }
    let row = table::find_move(Some(found.folder), to, message.to)
        .filter(|_| message.to != Who::Orchestrator);
    if row.is_none() {
        return Err(Refused(format!(
            "no row leads from {}/ to {}/ for {} (HO-02); `agency protocol show handoff` prints them",
            found.folder.word(),
            to.word(),
            message.to.word()
        ))
        .into());
    }
    if let Some(run) = run_around(std::process::id())
        && draft::agent_of_run() != Some(message.to)
    {
        return Err(Refused(format!(
            "the run `{run}` is not {}'s: a handoff is its recipient's to move (HO-02)",
            message.to.word()
        ))
        .into());
    }
    files::pass_on(&root, &found, message, to)?;
    if run_around(std::process::id()).is_none() {
        // Makes the protocol update its counts now. Without a journal there are no counts, so a refusal is ignored.
        answer(context, Asked::Do, Some(NAME), &[("do", Some("look"))]).ok();
    }
    anstream::println!("`{}` is {}", message.id, to.word());
    Ok(Exit::Fine)
}

/// What `agency check` finds: messages that are none, lie twice or say another status than their folder; another state.
pub(super) fn findings(root: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for found in files::all(root)? {
        match &found.message {
            Ok(message) => {
                let words = |problem: String| (found.path.to_string(), problem);
                if message.status != found.folder {
                    let (status, folder) = (message.status.word(), found.folder.word());
                    findings.push(words(format!("HO-02: says `{status}` and lies in {folder}/")));
                }
                if !seen.insert(message.id.clone()) {
                    findings.push(words("HO-02: lies in a second place too".to_owned()));
                }
            }
            Err(problems) => findings.extend(
                problems.iter().map(|problem| (found.path.to_string(), problem.to_string())),
            ),
        }
    }
    let read = read::read(root, &RelPath::fixed(state::PATH), state::LIMIT, clock::now());
    if root.join(HANDOFFS).is_dir()
        && let Ok(FileState::Whole(file)) = read.map(|reading| reading.state)
        && let Err(problems) = state::parse(&file.bytes)
    {
        let file = state::PATH.to_owned();
        findings.extend(problems.iter().map(|problem| (file.clone(), problem.to_string())));
    }
    Ok(findings)
}

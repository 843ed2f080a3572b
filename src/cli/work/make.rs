//! New tasks, and finished ones into the archive.

use super::super::context::Context;
use super::super::exit::{Exit, Misused, Refused};
use super::bring::{Hand, Wish, bring};
use super::ground::{Ground, lines};
use super::who::Who;
use crate::model::RelPath;
use crate::protocol::codifica::{
    self, Board, Config, FILE, Finding, Kind, NewTask, Owner, Priority, is_name, judge,
};

/// Add a task to a state file
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  agency work new FEAT-102 --title \"Search\" --accept \"Finds a word\" --as-human"
)]
pub(in crate::cli) struct NewArgs {
    id: String,
    #[command(flatten)]
    who: Who,
    #[arg(long)]
    title: String,
    #[arg(long = "type", value_name = "TYPE", default_value = "build")]
    kind: String,
    #[arg(long, default_value = "unassigned")]
    owner: String,
    #[arg(long)]
    description: Option<String>,
    /// critical, high, normal or low
    #[arg(long)]
    priority: Option<String>,
    /// A task that must be done before; may be given several times
    #[arg(long, value_name = "ID")]
    depends_on: Vec<String>,
    #[arg(long)]
    label: Vec<String>,
    /// An acceptance criterion; `build` needs one to be started
    #[arg(long, value_name = "TEXT")]
    accept: Vec<String>,
    #[arg(long, value_name = "TEXT")]
    check: Vec<String>,
    #[arg(long, value_name = "ID")]
    derived_from: Option<String>,
    /// The state file (default: the first)
    #[arg(long)]
    file: Option<String>,
}

/// Move done and rejected tasks to the archive file, byte for byte
#[derive(clap::Args)]
#[command(after_help = "Example:\n  agency work archive --to work/done.md --as-human")]
pub(in crate::cli) struct ArchiveArgs {
    /// Tasks (default: all that are done or rejected and not there yet)
    ids: Vec<String>,
    #[command(flatten)]
    who: Who,
    /// The archive: a file that `state` matches (default: `codifica.archive` of agency.yaml)
    #[arg(long, value_name = "FILE")]
    to: Option<String>,
}

pub(super) fn new(context: &Context, args: NewArgs) -> anyhow::Result<Exit> {
    let ground = Ground::new(context)?;
    let hand =
        Hand { context, actor: args.who.actor(context)?, session: args.who.session(context) };
    let file = args.file.as_deref().map(relative).transpose()?;
    let task = task(args)?;
    let said = bring(&ground, &hand, |board, _| {
        let path = file.clone().or_else(|| board.files.first().map(|file| file.path.clone()));
        let path =
            path.ok_or_else(|| Refused("there is no state file to put it in (CD-26)".to_owned()))?;
        let bytes = codifica::add(board, &path, &task)
            .map_err(|fault| Refused(format!("{fault} (CD-24)")))?;
        allowed(board, &board.with(&path, bytes.clone()), &hand)?;
        Ok(Wish {
            said: format!("{} is in {path}", task.id),
            message: format!("codifica: {} new by {}", task.id, hand.actor),
            files: vec![(path, bytes)],
        })
    })?;
    anstream::println!("{said}");
    Ok(Exit::Fine)
}

fn task(args: NewArgs) -> anyhow::Result<NewTask> {
    let bad = |what: &str, found: &str, wanted: &str| {
        Misused(format!("{what} is `{found}`; wanted {wanted}"))
    };
    if !is_name(&args.id) {
        return Err(
            bad("the id", &args.id, "letters, digits, `-`, `_` and `.`, such as FEAT-101").into()
        );
    }
    if Owner::read(&args.owner).is_none() {
        return Err(bad("`--owner`", &args.owner, "human, agent:<name> or unassigned").into());
    }
    if let Some(priority) = args.priority.as_deref().filter(|word| Priority::read(word).is_none()) {
        return Err(bad("`--priority`", priority, "critical, high, normal or low").into());
    }
    Ok(NewTask {
        id: args.id,
        kind: Kind::read(&args.kind).word().to_owned(),
        title: args.title,
        owner: args.owner,
        description: args.description,
        priority: args.priority,
        depends_on: args.depends_on,
        labels: args.label,
        acceptance: args.accept,
        checklist: args.check,
        derived_from: args.derived_from,
    })
}

pub(super) fn archive(context: &Context, args: &ArchiveArgs) -> anyhow::Result<Exit> {
    let ground = Ground::new(context)?;
    let hand =
        Hand { context, actor: args.who.actor(context)?, session: args.who.session(context) };
    let configured = context.config()?.codifica.archive;
    let config = ground.config()?;
    let named = args.to.as_deref().map(relative).transpose()?.or(configured);
    let to = named.or_else(|| beside(&config)).ok_or_else(|| {
        Misused("where to? `--to FILE`, or `codifica: { archive: FILE }` in agency.yaml".to_owned())
    })?;
    if !config.is_state(&to) && config.state.iter().all(|pattern| pattern.plain().is_some()) {
        name_archive(&ground, &hand, &to)?;
    }
    let said = bring(&ground, &hand, |board, _| {
        let (now, moved) = moved(board, &args.ids, &to)?;
        if moved.is_empty() {
            return Err(
                Refused("no task is done or rejected outside the archive".to_owned()).into()
            );
        }
        allowed(board, &now, &hand)?;
        let changed = now.files.iter().filter(|file| {
            board.files.iter().all(|old| old.path != file.path || old.text != file.text)
        });
        let mut files: Vec<_> =
            changed.map(|file| (file.path.clone(), file.text.as_bytes().to_vec())).collect();
        // The archive first: without git a crash between the two shows a task twice, never not at all.
        files.sort_by_key(|(path, _)| *path != to);
        Ok(Wish {
            said: format!("archived {} in {to}", moved.join(", ")),
            message: format!("codifica: {} archived by {}", moved.join(", "), hand.actor),
            files,
        })
    })?;
    anstream::println!("{said}");
    Ok(Exit::Fine)
}

/// The archive beside the only state file: `work.md` has `work-archive.md`.
fn beside(config: &Config) -> Option<RelPath> {
    let [only] = config.state.as_slice() else { return None };
    let path = only.plain()?;
    let (stem, ending) = path.as_str().rsplit_once('.')?;
    RelPath::new(format!("{stem}-archive.{ending}")).ok()
}

/// SPEC GAP: §3.2 wants an archive file, and §4.1 wants its ids to count. With `state` as a list of paths, the archive is one
/// path more. In a commit of its own: the tasks move under a contract that names both files.
fn name_archive(ground: &Ground, hand: &Hand<'_>, to: &RelPath) -> anyhow::Result<()> {
    if hand.actor.is_agent() {
        return Err(Refused(format!(
            "`state` in {FILE} does not name `{to}`, and only a human changes the contract (CD-17)\nhint: `agency work archive --to {to} --as-human` adds it"
        ))
        .into());
    }
    let there = ground.root.join(to.as_str()).exists();
    let said = bring(ground, hand, |board, _| {
        let text = board.config.with_state(to);
        let text = text.ok_or_else(|| {
            Refused(format!("add `{to}` to `state` in {FILE}, commit it, and try again (CD-17)"))
        })?;
        let mut files = vec![(RelPath::fixed(FILE), text.into_bytes())];
        let empty = if to.as_str().ends_with(".md") { "# Archive\n" } else { "" };
        files.extend((!there).then(|| (to.clone(), empty.as_bytes().to_vec())));
        Ok(Wish {
            said: format!("added {to} to `state` in {FILE}"),
            message: format!("codifica: {to} is the archive, by {}", hand.actor),
            files,
        })
    })?;
    anstream::println!("{said}");
    Ok(())
}

fn moved(board: &Board, ids: &[String], to: &RelPath) -> anyhow::Result<(Board, Vec<String>)> {
    let elsewhere =
        |id: &str| board.spot(id).is_some_and(|spot| !spot.starts_with(&format!("{to}:")));
    let ids: Vec<String> = if ids.is_empty() {
        let finished =
            board.glances().filter(|task| task.state.is_terminal() && elsewhere(&task.id));
        finished.map(|task| task.id.clone()).collect()
    } else {
        ids.to_vec()
    };
    let mut now = board.clone();
    for id in &ids {
        let files =
            codifica::archive(&now, id, to).map_err(|fault| Refused(format!("{fault} (CD-17)")))?;
        now = files.into_iter().fold(now, |now, (path, bytes)| now.with(&path, bytes));
    }
    Ok((now, ids))
}

fn allowed(old: &Board, new: &Board, hand: &Hand<'_>) -> anyhow::Result<()> {
    let mut findings = judge(old, new, &hand.actor);
    findings.retain(Finding::is_violation);
    if findings.is_empty() { Ok(()) } else { Err(Refused(lines(&findings)).into()) }
}

fn relative(text: &str) -> anyhow::Result<RelPath> {
    RelPath::new(text).map_err(|error| Misused(error.to_string()).into())
}

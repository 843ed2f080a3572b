//! The verbs that move a task from one state to another.

use super::super::context::Context;
use super::super::exit::{Exit, Misused, Refused};
use super::super::show;
use super::bring::{Hand, Wish, bring};
use super::ground::Ground;
use super::who::Who;
use crate::clock;
use crate::model::counted;
use crate::protocol::codifica::{
    Action, Actor, Board, Refusal, Stamp, State, act, branch, claim_next,
};

/// Take a task: state, owner and claimed_at in one commit, pushed
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency work claim --agent builder\n  agency work claim FEAT-101 --agent builder\n  agency work claim TEST-012 --as-human"
)]
pub(in crate::cli) struct ClaimArgs {
    /// The task (default: the next one for this agent)
    id: Option<String>,
    #[command(flatten)]
    who: Who,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Finish work on a task with a closing note
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  agency work done FEAT-101 --agent builder --summary \"Search works, tests pass\""
)]
pub(in crate::cli) struct CloseArgs {
    id: String,
    #[command(flatten)]
    who: Who,
    /// One line of at most 120 characters
    #[arg(long)]
    summary: Option<String>,
    /// The whole note (default: the summary)
    #[arg(long)]
    text: Option<String>,
}

/// Send a tested task back to todo
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  agency work return FEAT-101 --as-human --reason \"Fails on small screens\""
)]
pub(in crate::cli) struct ReturnArgs {
    id: String,
    #[command(flatten)]
    who: Who,
    #[arg(long)]
    reason: Option<String>,
}

/// Block a task (humans only)
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  agency work block FEAT-101 --as-human --reason \"No API key\" --by OPS-3"
)]
pub(in crate::cli) struct BlockArgs {
    id: String,
    #[command(flatten)]
    who: Who,
    #[arg(long)]
    reason: String,
    /// The task that is in the way
    #[arg(long, value_name = "ID")]
    by: Option<String>,
}

/// Let a blocked task go on (humans only)
#[derive(clap::Args)]
#[command(after_help = "Example:\n  agency work unblock FEAT-101 --as-human --to in_progress")]
pub(in crate::cli) struct UnblockArgs {
    id: String,
    #[command(flatten)]
    who: Who,
    /// todo or in_progress
    #[arg(long, default_value = "todo")]
    to: String,
    #[arg(long)]
    reason: Option<String>,
}

#[derive(clap::Args)]
pub(in crate::cli) struct ReasonArgs {
    id: String,
    #[command(flatten)]
    who: Who,
    #[arg(long)]
    reason: String,
}

/// Take a stale task back from its agent to todo (humans only)
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  agency work reclaim FEAT-101 --as-human --reason \"Agent does not answer\""
)]
pub(in crate::cli) struct ReclaimArgs {
    #[command(flatten)]
    args: ReasonArgs,
    /// Also a task that is not stale yet (`stale_claim_hours`)
    #[arg(long)]
    force: bool,
}

pub(super) fn claim(context: &Context, args: &ClaimArgs) -> anyhow::Result<Exit> {
    let ground = Ground::new(context)?;
    let hand =
        Hand { context, actor: args.who.actor(context)?, session: args.who.session(context) };
    let chosen = std::cell::RefCell::new(serde_json::Value::Null);
    let said = bring(&ground, &hand, |board, stamp| {
        let (id, acted) = match (&args.id, &hand.actor) {
            (Some(id), actor) => {
                (id.clone(), act(board, id, actor, &Action::Claim, stamp).map_err(refused)?)
            }
            (None, Actor::Agent(name)) => {
                claim_next(board, name, stamp).map_err(|nothing| Refused(nothing.to_string()))?
            }
            (None, _) => return Err(Misused("which task? name its id".to_owned()).into()),
        };
        chosen.replace(summary(&acted.board, &id));
        Ok(Wish {
            said: format!("claimed {id} for {}", hand.actor),
            message: format!("codifica: {id} claimed by {}", hand.actor),
            files: vec![(acted.path, acted.bytes)],
        })
    })?;
    if args.json {
        show::json(&chosen.into_inner())?
    } else {
        anstream::println!("{said}")
    }
    Ok(Exit::Fine)
}

/// What an agent needs to begin.
pub(super) fn summary(board: &Board, id: &str) -> serde_json::Value {
    let task = board.task(id).and_then(Result::ok);
    let pattern = board.config.rules.branch_pattern.as_deref();
    serde_json::json!({
        "id": id,
        "title": task.as_ref().map(|task| task.title.clone()),
        "branch": task.as_ref().map(|task| branch(pattern, task)),
        "at": board.spot(id),
        "task": board.json(id),
    })
}

pub(super) fn close(
    context: &Context,
    args: CloseArgs,
    action: fn(Option<String>, Option<String>) -> Action,
) -> anyhow::Result<Exit> {
    apply(context, &args.id, &args.who, &action(args.text, args.summary))
}

pub(super) fn give_back(context: &Context, args: ReturnArgs) -> anyhow::Result<Exit> {
    apply(context, &args.id, &args.who, &Action::Return { reason: args.reason })
}

pub(super) fn block(context: &Context, args: BlockArgs) -> anyhow::Result<Exit> {
    apply(context, &args.id, &args.who, &Action::Block { reason: args.reason, by: args.by })
}

pub(super) fn unblock(context: &Context, args: UnblockArgs) -> anyhow::Result<Exit> {
    let to = State::read(&args.to).filter(|to| matches!(to, State::Todo | State::InProgress));
    let to =
        to.ok_or_else(|| Misused(format!("`--to` is `{}`; wanted todo or in_progress", args.to)))?;
    apply(context, &args.id, &args.who, &Action::Unblock { to, reason: args.reason })
}

pub(super) fn reasoned(
    context: &Context,
    args: ReasonArgs,
    action: fn(String) -> Action,
) -> anyhow::Result<Exit> {
    apply(context, &args.id, &args.who, &action(args.reason))
}

pub(super) fn reclaim(context: &Context, args: ReclaimArgs) -> anyhow::Result<Exit> {
    let ReclaimArgs { args: ReasonArgs { id, who, reason }, force } = args;
    let action = Action::Reclaim { reason };
    apply_if(context, &id, &who, &action, |board| if force { Ok(()) } else { is_stale(board, &id) })
}

/// spec 3 §8.1.1: a human may take back what is stale. Somebody works on the others.
fn is_stale(board: &Board, id: &str) -> anyhow::Result<()> {
    let Some(Ok(task)) = board.task(id) else { return Ok(()) };
    let idle = task.last_activity().map(|at| (clock::now().wall - at).to_std().unwrap_or_default());
    let Some(idle) = idle.filter(|idle| *idle < board.config.rules.stale_claim) else {
        return Ok(());
    };
    let hours = board.config.rules.stale_claim.as_secs() / 3600;
    let idle = match idle.as_secs() {
        seconds @ 0..60 => counted(seconds, "second"),
        seconds => counted(seconds / 60, "minute"),
    };
    Err(Refused(format!(
        "{id} is not stale: {} was active {idle} ago, and a claim is stale after {} (CD-11)\nhint: `--force` takes it back all the same",
        task.owner,
        counted(hours, "hour")
    ))
    .into())
}

/// Any action on one task, told on the terminal.
pub(super) fn apply(
    context: &Context,
    id: &str,
    who: &Who,
    action: &Action,
) -> anyhow::Result<Exit> {
    apply_if(context, id, who, action, |_| Ok(()))
}

/// The same, where the rules allow it and one condition more holds.
fn apply_if(
    context: &Context,
    id: &str,
    who: &Who,
    action: &Action,
    holds: impl Fn(&Board) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    let ground = Ground::new(context)?;
    let hand = Hand { context, actor: who.actor(context)?, session: who.session(context) };
    let said = bring(&ground, &hand, |board, stamp| {
        let wish = wish(board, id, &hand.actor, action, stamp)?;
        holds(board)?;
        Ok(wish)
    })?;
    anstream::println!("{said}");
    Ok(Exit::Fine)
}

fn wish(
    board: &Board,
    id: &str,
    actor: &Actor,
    action: &Action,
    stamp: &Stamp,
) -> anyhow::Result<Wish> {
    let before = board.glance(id).map(|task| task.state);
    let acted = act(board, id, actor, action, stamp).map_err(refused)?;
    for warning in &acted.warnings {
        anstream::eprintln!("warning: {warning}");
    }
    let after = acted.board.glance(id).map(|task| task.state);
    let (said, what) = match (before, after) {
        (Some(before), Some(after)) if before != after => {
            (format!("{id}: {before} → {after}"), format!("{before} → {after}"))
        }
        _ => recorded(id, action),
    };
    let mut files = vec![(acted.path, acted.bytes)];
    files.extend(acted.others);
    Ok(Wish { said, message: format!("codifica: {id} {what} by {actor}"), files })
}

/// What a verb that moves no task has done: for the terminal, and for the commit.
fn recorded(id: &str, action: &Action) -> (String, String) {
    match action {
        Action::Artifact { path, .. } => {
            (format!("recorded artifact {path} for {id}"), format!("artifact {path}"))
        }
        Action::Review { status, .. } => {
            (format!("recorded the review of {id}: {status}"), format!("review {status}"))
        }
        Action::RequestBlock { .. } => {
            (format!("recommended a block of {id}; a human decides"), "block requested".to_owned())
        }
        _ => (format!("added a note to {id}"), "noted".to_owned()),
    }
}

pub(super) fn refused(refusal: Refusal) -> anyhow::Error {
    let hint = match &refusal {
        Refusal::Rules(findings) => findings
            .first()
            .map(|finding| format!("\nhint: `agency explain {}`", finding.rejection.rule))
            .unwrap_or_default(),
        Refusal::Unknown(_) => "\nhint: `agency work list` shows all tasks".to_owned(),
        Refusal::Edit(_) | Refusal::Claimed(_) => String::new(),
    };
    Refused(format!("{refusal}{hint}")).into()
}

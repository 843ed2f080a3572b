//! The verbs that write something down without moving a task: notes, artifacts, reviews.

use super::super::context::Context;
use super::super::exit::{Exit, Misused};
use super::moves::apply;
use super::who::Who;
use crate::model::RelPath;
use crate::protocol::codifica::{Action, Verdict};

/// Add a note to a task of one's own (agents only)
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  agency work note FEAT-101 --agent builder --text \"The parser is done\""
)]
pub(in crate::cli) struct NoteArgs {
    id: String,
    #[command(flatten)]
    who: Who,
    #[arg(long)]
    text: String,
    /// One line of at most 120 characters
    #[arg(long)]
    summary: Option<String>,
}

/// Record what a human found (humans only)
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  agency work review FEAT-101 --as-human --status needs_work --note \"Too slow\""
)]
pub(in crate::cli) struct ReviewArgs {
    id: String,
    #[command(flatten)]
    who: Who,
    /// pass, needs_work or blocked
    #[arg(long)]
    status: String,
    /// Who looked (default: you)
    #[arg(long)]
    reviewer: Option<String>,
    /// May be given several times
    #[arg(long, value_name = "TEXT")]
    note: Vec<String>,
}

/// Record a file that a task produced
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  agency work artifact FEAT-101 --agent builder --path src/search.rs --type code"
)]
pub(in crate::cli) struct ArtifactArgs {
    id: String,
    #[command(flatten)]
    who: Who,
    /// Inside the repository
    #[arg(long)]
    path: String,
    #[arg(long = "type", value_name = "WORD", default_value = "file")]
    kind: String,
}

pub(super) fn note(context: &Context, args: NoteArgs) -> anyhow::Result<Exit> {
    apply(context, &args.id, &args.who, &Action::Note { text: args.text, summary: args.summary })
}

pub(super) fn review(context: &Context, args: ReviewArgs) -> anyhow::Result<Exit> {
    let status = Verdict::read(&args.status).ok_or_else(|| {
        Misused(format!("`--status` is `{}`; wanted pass, needs_work or blocked", args.status))
    })?;
    let reviewer = args.reviewer.unwrap_or_else(|| context.asker());
    apply(context, &args.id, &args.who, &Action::Review { status, reviewer, notes: args.note })
}

pub(super) fn artifact(context: &Context, args: ArtifactArgs) -> anyhow::Result<Exit> {
    let path = RelPath::new(args.path).map_err(|error| Misused(error.to_string()))?;
    apply(context, &args.id, &args.who, &Action::Artifact { path, kind: args.kind })
}

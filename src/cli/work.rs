//! `agency work`: Codifica's state files by commands. Each verb is judged like anybody's edit; here it is only spelled.

mod audit;
mod bring;
mod ground;
mod log;
mod look;
mod make;
mod moves;
mod survey;
mod who;

pub(super) use audit::{Args as AuditArgs, run as audit};
pub(super) use survey::survey;

use super::context::Context;
use super::exit::{Exit, Refused};
use crate::git::GitError;

#[derive(clap::Subcommand)]
pub(super) enum Verb {
    List(look::ListArgs),
    Show(look::ShowArgs),
    Next(look::NextArgs),
    Claim(moves::ClaimArgs),
    Note(log::NoteArgs),
    Submit(moves::CloseArgs),
    Done(moves::CloseArgs),
    Return(moves::ReturnArgs),
    Block(moves::BlockArgs),
    Unblock(moves::UnblockArgs),
    /// Give up a task for good, with the reason (humans only)
    #[command(
        after_help = "Example:\n  agency work reject FEAT-101 --as-human --reason \"No longer needed\""
    )]
    Reject(moves::ReasonArgs),
    /// Put a done or rejected task back to todo, with the reason (humans only)
    #[command(
        after_help = "Example:\n  agency work reopen FEAT-101 --as-human --reason \"Fails on Windows\""
    )]
    Reopen(moves::ReasonArgs),
    Reclaim(moves::ReclaimArgs),
    /// Recommend that a human blocks your task, with the reason (agents only)
    #[command(
        after_help = "Example:\n  agency work request-block FEAT-101 --agent builder --reason \"No API key\""
    )]
    RequestBlock(moves::ReasonArgs),
    Review(log::ReviewArgs),
    Artifact(log::ArtifactArgs),
    New(make::NewArgs),
    Validate(look::ValidateArgs),
    Archive(make::ArchiveArgs),
    Contract(look::ContractArgs),
    Audit(audit::Args),
}

pub(super) fn run(context: &Context, verb: Verb) -> anyhow::Result<Exit> {
    give(context, verb).map_err(|error| match error.downcast_ref() {
        Some(GitError::Held { changes }) => Refused(format!(
            "git is held, and nothing was changed: {} (SE-01)\nhint: the owner looks at it and says `agency trust`",
            changes.join("; ")
        ))
        .into(),
        _ => error,
    })
}

fn give(context: &Context, verb: Verb) -> anyhow::Result<Exit> {
    use crate::protocol::codifica::Action;
    match verb {
        Verb::List(args) => look::list(context, &args),
        Verb::Show(args) => look::show(context, &args),
        Verb::Next(args) => look::next(context, &args),
        Verb::Claim(args) => moves::claim(context, &args),
        Verb::Note(args) => log::note(context, args),
        Verb::Submit(args) => {
            moves::close(context, args, |note, summary| Action::Submit { note, summary })
        }
        Verb::Done(args) => {
            moves::close(context, args, |note, summary| Action::Done { note, summary })
        }
        Verb::Return(args) => moves::give_back(context, args),
        Verb::Block(args) => moves::block(context, args),
        Verb::Unblock(args) => moves::unblock(context, args),
        Verb::Reject(args) => moves::reasoned(context, args, |reason| Action::Reject { reason }),
        Verb::Reopen(args) => moves::reasoned(context, args, |reason| Action::Reopen { reason }),
        Verb::Reclaim(args) => moves::reclaim(context, args),
        Verb::RequestBlock(args) => {
            moves::reasoned(context, args, |reason| Action::RequestBlock { reason })
        }
        Verb::Review(args) => log::review(context, args),
        Verb::Artifact(args) => log::artifact(context, args),
        Verb::New(args) => make::new(context, args),
        Verb::Validate(args) => look::validate(context, &args),
        Verb::Archive(args) => make::archive(context, &args),
        Verb::Contract(args) => look::contract(context, &args),
        Verb::Audit(args) => audit(context, &args),
    }
}

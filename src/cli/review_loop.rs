//! `agency loop`: the review loop's own verbs.

use super::ask::tell;
use super::context::Context;
use super::exit::{Exit, Misused};
use crate::model::Verb as Asked;
use crate::protocol::review_loop::NAME;
use crate::workspace::RepoStatus;
use std::path::PathBuf;

#[derive(clap::Subcommand)]
pub(super) enum Verb {
    /// Begin a loop with these steps
    #[command(
        after_help = "Examples:\n  agency loop init --steps 1,2,6.5\n  agency loop init --plan PLAN.md   (its `## Step <id>` headings)\n  agency loop init --steps 2,3 --plan PLAN.md"
    )]
    Init {
        /// Steps in their order
        #[arg(long, value_name = "LIST")]
        steps: Option<String>,
        /// A plan whose `## Step <id>` sections reach the prompts; without --steps its headings are the steps
        #[arg(long, value_name = "FILE", required_unless_present = "steps")]
        plan: Option<PathBuf>,
        /// The repository
        #[arg(value_name = "REPO")]
        at: Option<PathBuf>,
    },
    /// Where the loop stands
    #[command(after_help = "Example:\n  agency loop status --json")]
    Status {
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Set step, phase or turn by hand, past the table; committed and announced
    #[command(
        after_help = "Example:\n  agency loop inject --step 6.5 --phase execute --turn claude-code --reason 'agreed by phone'"
    )]
    Inject {
        #[arg(long)]
        step: Option<String>,
        /// propose, review, execute or verify
        #[arg(long)]
        phase: Option<String>,
        /// claude-code or codex
        #[arg(long)]
        turn: Option<String>,
        #[arg(long)]
        reason: String,
    },
    /// End the loop before its last step; committed and announced
    #[command(after_help = "Example:\n  agency loop end --reason 'the rest is dropped'")]
    End {
        #[arg(long)]
        reason: String,
    },
    /// Add steps to a loop, or remove those that have not begun
    #[command(subcommand)]
    Steps(StepsVerb),
    /// Put back the state that our journal knows, on the branch as it is now
    #[command(after_help = "Example:\n  agency loop restore --repo ~/src/shop")]
    Restore {},
}

#[derive(clap::Subcommand)]
pub(super) enum StepsVerb {
    /// Add steps at the end, or after a step
    #[command(
        after_help = "Examples:\n  agency loop steps add 7,8\n  agency loop steps add 6.5 --after 6 --plan PLAN.md"
    )]
    Add {
        /// Steps in their order
        #[arg(value_name = "LIST")]
        steps: String,
        #[arg(long, value_name = "STEP")]
        after: Option<String>,
        /// The plan again: the text of every step counts as it is now
        #[arg(long, value_name = "FILE")]
        plan: Option<PathBuf>,
    },
    /// Remove steps that have not begun
    #[command(after_help = "Example:\n  agency loop steps remove 8")]
    Remove {
        #[arg(value_name = "LIST")]
        steps: String,
    },
}

pub(super) fn run(context: &Context, verb: Verb) -> anyhow::Result<Exit> {
    match verb {
        Verb::Init { steps, plan, at } => init(context, steps.as_deref(), plan, at),
        Verb::Status { json } => status(context, json),
        Verb::Inject { step, phase, turn, reason } => {
            let args = [
                ("step", step.as_deref()),
                ("phase", phase.as_deref()),
                ("turn", turn.as_deref()),
                ("reason", Some(reason.as_str())),
            ];
            tell(context, Asked::Inject, Some(NAME), &args)
        }
        Verb::End { reason } => {
            let args = [("do", Some("end")), ("reason", Some(reason.as_str()))];
            tell(context, Asked::Do, Some(NAME), &args)
        }
        Verb::Steps(StepsVerb::Add { steps, after, plan }) => {
            let plan = plan.map(|path| read_plan(&path)).transpose()?;
            let args = [
                ("do", Some("steps-add")),
                ("steps", Some(steps.as_str())),
                ("after", after.as_deref()),
                ("plan", plan.as_deref()),
            ];
            tell(context, Asked::Do, Some(NAME), &args)
        }
        Verb::Steps(StepsVerb::Remove { steps }) => {
            let args = [("do", Some("steps-remove")), ("steps", Some(steps.as_str()))];
            tell(context, Asked::Do, Some(NAME), &args)
        }
        Verb::Restore {} => tell(context, Asked::Restore, Some(NAME), &[]),
    }
}

fn init(
    context: &Context,
    steps: Option<&str>,
    plan: Option<PathBuf>,
    at: Option<PathBuf>,
) -> anyhow::Result<Exit> {
    let plan = plan.map(|path| read_plan(&path)).transpose()?;
    let args = [("steps", steps), ("plan", plan.as_deref())];
    match at {
        Some(at) => tell(&context.at(at), Asked::Init, Some(NAME), &args),
        None => tell(context, Asked::Init, Some(NAME), &args),
    }
}

pub(super) fn read_plan(path: &std::path::Path) -> anyhow::Result<String> {
    const PLAN_MAX: u64 = 1 << 20;
    let failed = |error: std::io::Error| {
        Misused(format!("cannot read the plan `{}`: {error}", path.display()))
    };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > PLAN_MAX {
        return Err(Misused(format!(
            "the plan `{}` has {size} bytes, at most {PLAN_MAX} are read",
            path.display()
        ))
        .into());
    }
    Ok(std::fs::read_to_string(path).map_err(failed)?)
}

fn status(context: &Context, json: bool) -> anyhow::Result<Exit> {
    let places = context.places()?;
    let status = places.and_then(|places| RepoStatus::read(&places.folder)).unwrap_or_default();
    let Some(found) = status.protocols.iter().find(|protocol| protocol.name == NAME) else {
        return Err(Misused(
            "no loop is known here; `agency loop init --steps 1,2,3` begins one".to_owned(),
        )
        .into());
    };
    if json {
        anstream::println!("{}", serde_json::to_string_pretty(found)?);
        return Ok(Exit::Fine);
    }
    anstream::println!("{}", found.summary);
    let list = |name: &str| {
        let words =
            found.detail[name].as_array().into_iter().flatten().filter_map(|word| word.as_str());
        words.collect::<Vec<_>>().join(", ")
    };
    anstream::println!("steps      {}", list("steps"));
    anstream::println!("complete   {}", list("steps_complete"));
    if let Some(refusal) = found.detail["last_rejection"].as_str() {
        anstream::println!("refused    {refusal}");
    }
    if let Some(held) = &found.held {
        anstream::println!("held       {held}");
    }
    Ok(Exit::Fine)
}

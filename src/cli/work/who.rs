//! Who gives a command: an agent by its name, or a human. Agents inside a run speak for themselves only (SE-04).

use super::super::context::Context;
use super::super::exit::{Misused, Refused};
use crate::git::Author;
use crate::protocol::codifica::{Actor, agent_name, is_name};
use crate::run::{Caller, folder_around, own_caller};

#[derive(clap::Args, Clone)]
pub(super) struct Who {
    /// The agent that does this, with or without `agent:`
    #[arg(long, value_name = "NAME", conflicts_with = "as_human")]
    agent: Option<String>,
    /// You do this yourself; never inside a run
    #[arg(long)]
    as_human: bool,
    /// The session that notes and transitions name (default: the run's id)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

impl Who {
    pub(super) fn actor(&self, context: &Context) -> anyhow::Result<Actor> {
        let around = own_caller();
        if self.as_human {
            return match around {
                Caller::Outside => Ok(Actor::Human),
                Caller::Run(run) => Err(Refused(format!(
                    "agents are not human: we are inside the run `{run}` (SE-04)"
                ))
                .into()),
                Caller::Unclear(unclear) => Err(Refused(unclear.sentence()).into()),
            };
        }
        let own = own_name(context);
        let name = match (&self.agent, &own) {
            (Some(name), _) => name,
            (None, Some(own)) => own,
            (None, None) => {
                return Err(Misused(
                    "say who does this: `--agent NAME` or `--as-human`".to_owned(),
                )
                .into());
            }
        };
        let name = read_agent(name)?;
        match around {
            Caller::Outside => Ok(Actor::Agent(name)),
            Caller::Run(_) if own.as_ref() == Some(&name) => Ok(Actor::Agent(name)),
            Caller::Unclear(unclear) => Err(Refused(unclear.sentence()).into()),
            Caller::Run(run) => {
                let own = own.unwrap_or_else(|| "nobody that we know".to_owned());
                Err(Refused(format!(
                    "`agent:{own}` may not speak for `agent:{name}`: we are inside the run `{run}` (CD-10)"
                ))
                .into())
            }
        }
    }

    pub(super) fn session(&self, context: &Context) -> Option<String> {
        let run = context.env.get("AGENCY_RUN").and_then(|run| run.to_str());
        self.session.clone().or_else(|| run.map(str::to_owned))
    }
}

/// Whose run we are in: as its own record says, which the run's environment cannot change; without a shim, as that says.
fn own_name(context: &Context) -> Option<String> {
    match folder_around(std::process::id()) {
        Some(folder) => folder.intent().ok().map(|run| run.seat.to_string()),
        None => context.env.get("AGENCY_AGENT").and_then(|name| name.to_str()).map(str::to_owned),
    }
}

/// `builder` and `agent:builder` are the same.
pub(super) fn read_agent(name: &str) -> anyhow::Result<String> {
    let bare = agent_name(name).or_else(|| is_name(name).then(|| name.to_owned()));
    bare.ok_or_else(|| {
        let wanted = "a name of letters, digits, `-`, `_` and `.`";
        Misused(format!("`{}` is no agent's name; wanted {wanted}", crate::model::clip(name, 60)))
            .into()
    })
}

/// Who a commit is by. The author is what tells agents from humans later (CD-10).
pub(super) fn author(actor: &Actor, owner: Option<Author>, user: &str) -> Author {
    match actor {
        Actor::Agent(name) => {
            Author::new(&format!("agent:{name}"), &format!("{name}@agent.localhost"))
        }
        Actor::Human | Actor::Someone => {
            owner.unwrap_or_else(|| Author::new(user, &format!("{user}@localhost")))
        }
    }
}

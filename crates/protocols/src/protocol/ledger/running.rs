//! What the ledger adds to the run of a session: its worktree and prompt, and its work into commits. It judges nothing.

use super::docs::{Docs, is_ledger};
use super::memory::{Base, Ended, Found, Memo, Sessions, Turn};
use super::opening::{docs_of, files_at};
use super::table::{Action, may};
use super::words::AgentType;
use super::{Ledger, PROGRESS, changes::forbidden, hold::notice, prompt};
use crate::engine::{
    self, Assignment, Common, Draft, Holds, Host, InFlight, Notice, Retries, Step, Weight,
};
use crate::model::{
    Access, Change, Decision, Effect, Fact, NewWorktree, Query, RunId, Seat, Severity, TreeRef,
};

/// Bytes that must stay free when a worktree is made.
const DISK_FLOOR: u64 = 256 << 20;

impl Host for Ledger {
    type Work = Sessions;
    type Memo = Memo;

    fn protocol(&self) -> &'static str {
        super::NAME
    }

    fn called(&self) -> &'static str {
        "this ledger"
    }

    fn repo(&self) -> &str {
        &self.place.repo
    }

    fn in_flight(&self) -> &InFlight {
        &self.index.in_flight
    }

    fn holds(&self) -> &Holds {
        &self.index.memory.holds
    }

    fn draft(&self) -> Draft<Memo> {
        Self::draft(self)
    }

    fn memo(common: Common<Sessions>) -> Memo {
        match common {
            Common::Session(turn) => Memo::Turn(Some(turn)),
            Common::Holds(open) => Memo::Holds(Some(open)),
            Common::Epoch(epoch) => Memo::Epoch(Some(epoch)),
        }
    }

    fn notice(&self, rule: &'static str, subject: &str, summary: String) -> Notice {
        notice(rule, subject, summary)
    }

    fn seat(&self, turn: &Turn) -> Seat {
        Seat::new(turn.task.agent.role())
    }

    fn task(&self, turn: &Turn) -> String {
        turn.subject().to_owned()
    }

    fn tree(&self, turn: &Turn) -> TreeRef {
        TreeRef::Worktree(turn.tree())
    }

    fn worktree(&self, turn: &Turn, base: &Base) -> Option<NewWorktree> {
        Some(NewWorktree {
            name: turn.tree(),
            branch: turn.task.branch.clone(),
            base: base.commit.clone(),
            copy: Vec::new(),
            disk_floor: DISK_FLOOR,
        })
    }

    fn retries(&self, turn: &Turn) -> Retries {
        let tries = self.limits.tries.get(&Host::seat(self, turn));
        tries.map_or_else(Retries::default, |(max, backoff)| Retries {
            max: *max,
            backoff: *backoff,
        })
    }

    fn questions(&self, turn: &Turn) -> Vec<Query> {
        docs_of(&turn.task.main_at)
    }

    fn assignment(&self, turn: &Turn, run: &RunId) -> Option<Assignment> {
        let docs = Docs::read(files_at(self, &turn.task.main_at)?).0;
        let phase = turn.task.agent.word();
        let why = match turn.tries.failures() {
            0 => format!("`current_phase` is {phase}"),
            failures => format!("`current_phase` is {phase}; try {}", failures + 1),
        };
        let prompt = prompt::prompt(self, turn, &docs, run);
        let access = match turn.task.agent {
            AgentType::Initializer | AgentType::Implement | AgentType::Fix => Access::Commit,
            AgentType::Review | AgentType::Architecture => Access::Write,
        };
        Some(Assignment { phase: phase.to_owned(), prompt, why, access })
    }
}

/// What is left uncommitted is committed, where the agent may write code; else it is only looked at.
pub(super) fn gather(ledger: &Ledger, turn: &Turn, ended: &Ended) -> Option<Decision> {
    if let Some(Fact::Planned(planned)) =
        ledger.index.fact(|query| matches!(query, Query::Plan { .. }))
    {
        let mut decision = ledger.draft();
        decision.effect(Effect::Commit(planned.clone()));
        let found = Found { tip: planned.id.clone(), strayed: false };
        decision.remember(Memo::turn(turn.step(Step::Looked(found))));
        return Some(decision.finish());
    }
    let end = match engine::look_after(ledger, turn, ended) {
        Ok(end) => end,
        Err(asks) => return Some(asks),
    };
    let Some(head) = end.checkout.head.clone() else {
        return Some(bring_back(ledger, turn, ended));
    };
    let at_home = end.checkout.branch.as_ref() == Some(&turn.task.branch);
    let code: Vec<&Change> = end.changed.iter().filter(|change| !is_ledger(&change.path)).collect();
    let loose: Vec<Change> = code
        .iter()
        .filter(|change| end.dirty.contains(&change.path))
        .map(|change| (*change).clone())
        .collect();
    // Files that are new and in no commit are what tests leave behind; they go with the worktree. Commits that touch only the
    // ledger's files are the agent's record, not code (LG-14).
    let left_behind = |change: &Change| change.new && end.dirty.contains(&change.path);
    let touched = code.iter().any(|change| !left_behind(change));
    let strayed = !may(turn.task.agent, Action::WriteCode) && touched;
    if !may(turn.task.agent, Action::WriteCode) || loose.is_empty() || !at_home {
        let found = Found { tip: head, strayed: strayed || !at_home };
        return Some(ledger.step(turn, Step::Looked(found)));
    }
    let mut decision = ledger.draft();
    let what = turn.subject();
    let query = Query::Plan {
        branch: turn.task.branch.clone(),
        parent: Some(head),
        take: loose,
        write: Vec::new(),
        message: format!("{what}: what {} left uncommitted\n", turn.task.agent.word()),
        date: ended.at,
    };
    decision.effect(Effect::Ask { query });
    Some(decision.finish())
}

/// The branch was deleted under its own worktree: it begins again where the session began. What was in commits only is still in
/// the worktree's files, and is committed from there.
fn bring_back(ledger: &Ledger, turn: &Turn, ended: &Ended) -> Decision {
    let mut decision = ledger.draft();
    let (name, was) = (format!("refs/heads/{}", turn.task.branch), None);
    decision.effect(Effect::Ref { name, was, to: Some(ended.base.commit.clone()) });
    if !may(turn.task.agent, Action::DeleteBranch) {
        let rejection =
            forbidden(turn.task.agent, Action::DeleteBranch, PROGRESS, &turn.task.branch);
        let summary =
            format!("{} deleted its branch `{}`", turn.task.agent.word(), turn.task.branch);
        let mut reason = notice("LG-06", ended.run.as_str(), summary);
        reason.did = "The branch is back; its work is committed from the worktree.".to_owned();
        reason.evidence = vec![rejection.to_string()];
        decision.reject(rejection);
        engine::tell(ledger, &mut decision, Weight::Tell(Severity::Warning), reason);
    }
    decision.finish()
}

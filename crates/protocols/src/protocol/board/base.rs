//! AG-40: the DoD profile runs once on the base commit, in the tree of the first task, before its builder. A command that fails
//! there says nothing about a builder, so the owner mends it, changes the profile or accepts the failure by name.

use super::artifact::{NOT_RUN, Ran, TIMED_OUT};
use super::memory::{Base, Red, Stage, WayOut, Work};
use super::profile::Profile;
use super::tell::{self, Reason};
use super::work::{Job, Step};
use super::{Board, shared, verifying};
use crate::model::{Builder, Command, CommitId, Decision, Effect, Outcome, RunEnd, Seat, clip};
use std::collections::BTreeSet;

/// The next command on the base; after the last one the builder begins, or the owner is asked.
pub(super) fn check(step: &Step<'_>) -> Option<Decision> {
    let who = step.seat();
    if step.work.shared
        && let Some(wait) = step.lease(&who, "builder")
    {
        return Some(wait).filter(|decision| !decision.is_quiet());
    }
    let tip = Some(&step.work.base).filter(|base| base.as_str() != shared::NO_COMMIT);
    let profile = match verifying::profile(step, tip) {
        Err(ask) => return Some(*ask),
        Ok(Ok(profile)) if profile.platform.fits(step.board.limits.os) => profile,
        // A profile that cannot be read, or is for another system, is the verify's matter.
        Ok(_) => return Some(step.to(Stage::Build)),
    };
    // One task at a time looks: the others go by what it found.
    let memory = &step.board.index.memory;
    let works = memory.working.iter().filter_map(|id| memory.tasks.get(id)?.work.as_ref());
    if works.into_iter().any(|work| work.checking.is_some()) {
        return None;
    }
    Some(next(step, profile))
}

fn next(step: &Step<'_>, profile: Profile) -> Decision {
    let base = &step.board.index.memory.base;
    let unknown = |line: &&String| !base.is_known(line, &step.work.base);
    let mut decision = step.board.builder();
    if let Some(line) = profile.commands.iter().find(unknown) {
        let (job, who) = (Job::Command(verifying::command(step, line)), Seat::new("verify"));
        let run = step.spawn(&mut decision, step.tree(), (who, "base", step.id.as_str()), job);
        let checking = Some(line.clone());
        step.keep(&mut decision, Work { run: Some(run), checking, ..step.work.clone() });
        return decision.finish();
    }
    let red: Vec<&Red> = base.red_on(&step.work.base, &profile.commands).collect();
    if red.is_empty() {
        let (stage, dod) = (Stage::Build, profile.commands);
        step.keep(&mut decision, Work { stage, dod, tries: 0, ..step.work.clone() });
    } else {
        tell::hold(step.board, &mut decision, failing(step, &profile.name, &red), WayOut::Resume);
    }
    decision.finish()
}

fn failing(step: &Step<'_>, profile: &str, red: &[&Red]) -> Reason {
    let list: Vec<String> = red.iter().map(|red| red.ran.words()).collect();
    let (list, at) = (list.join("; "), short(&step.work.base));
    let summary = format!("before the first builder on {at}: {list}");
    let mut reason = Reason::new("AG-40", format!("{at}: {list}"), summary);
    reason.what = format!(
        "The DoD profile `{profile}` ran once on {at} before the first builder, and this failed: {list}."
    );
    reason.did = "No builder was started; nothing was changed.".to_owned();
    let first = red.first().map_or("", |red| red.ran.cmd.as_str());
    reason.wont = format!(
        "A builder would be blamed for a failure that was there before it. Mend it, or change the profile, commit that and run \
         `agency resume` (the commands run again), or accept the failure: agency resume --accept-gate '{}'",
        first.replace('\'', r"'\''")
    );
    reason.evidence = red.iter().map(|red| format!("$ {}\n{}", red.ran.cmd, red.output)).collect();
    reason
}

fn short(commit: &CommitId) -> String {
    if commit.as_str() == shared::NO_COMMIT {
        "the files".to_owned()
    } else {
        clip(commit.as_str(), 8)
    }
}

/// A command on the base has ended. One that was stopped, or whose end nobody saw, is run again.
pub(super) fn note(step: &Step<'_>, decision: &mut Builder, end: &RunEnd) {
    let Some(cmd) = step.work.checking.clone() else { return };
    let mut base = step.board.index.memory.base.clone();
    match &end.outcome {
        Outcome::Lost | Outcome::Stopped { .. } => return,
        Outcome::Ok => drop(base.passed.insert(cmd)),
        Outcome::Timeout { .. } => base.red.push(red(step, cmd, TIMED_OUT, end)),
        Outcome::Crash { .. }
        | Outcome::UsageLimit { .. }
        | Outcome::Provider { .. }
        | Outcome::Auth { .. }
        | Outcome::Denied { .. }
        | Outcome::NotFound { .. } => {
            let code = end.exit_code.filter(|code| *code != 0).unwrap_or(NOT_RUN);
            base.red.push(red(step, cmd, code, end));
        }
    }
    decision.remember("base", base);
}

fn red(step: &Step<'_>, cmd: String, exit_code: i32, end: &RunEnd) -> Red {
    let ran = Ran { cmd, exit_code, duration_ms: 0 };
    Red { commit: step.work.base.clone(), ran, output: verifying::tail(&end.tail) }
}

/// `agency resume`: the commands run again on the commit as it is now, except those that the owner accepts as they failed.
pub(super) fn resumed(
    board: &Board,
    decision: &mut Builder,
    command: &Command,
) -> Result<Option<String>, String> {
    let wanted: BTreeSet<&str> = command.arg("accept-gate").unwrap_or_default().lines().collect();
    let base = &board.index.memory.base;
    if base.red.is_empty() {
        return match wanted.first() {
            Some(cmd) => Err(format!(
                "no command failed before the first builder, so `{cmd}` cannot be accepted"
            )),
            None => Ok(None),
        };
    }
    if let Some(other) = wanted.iter().find(|cmd| !base.red.iter().any(|red| red.ran.cmd == **cmd))
    {
        let names: Vec<_> = base.red.iter().map(|red| format!("'{}'", red.ran.cmd)).collect();
        return Err(format!(
            "`{other}` is not a command that failed; these did: {}",
            names.join(", ")
        ));
    }
    let mut next = Base { red: Vec::new(), ..base.clone() };
    for red in base.red.iter().filter(|red| wanted.contains(red.ran.cmd.as_str())) {
        next.accepted.insert(red.ran.cmd.clone(), red.ran.exit_code);
    }
    if wanted.is_empty() {
        next.passed.clear();
    }
    decision.remember("base", next);
    begin_anew(board, decision);
    let names: Vec<_> = wanted.iter().map(|cmd| format!("`{cmd}`")).collect();
    Ok((!names.is_empty()).then(|| format!("the failing command {} is accepted", names.join(", "))))
}

/// Tasks that have not begun yet begin from the commit as it is now: the owner may have mended it there.
fn begin_anew(board: &Board, decision: &mut Builder) {
    let memory = &board.index.memory;
    let head = board.index.checkout.as_ref().and_then(|checkout| checkout.head.clone());
    for id in &memory.working {
        let Some(known) = memory.tasks.get(id) else { continue };
        let Some(work) = known.work.as_ref().filter(|work| work.stage == Stage::Base) else {
            continue;
        };
        let base = head.clone().unwrap_or_else(|| work.base.clone());
        let fresh = if work.shared { Work::in_main(id, base) } else { Work::new(id, base) };
        if !work.shared {
            let branch = Some((work.branch.clone(), work.base.clone()));
            decision.effect(Effect::DropWorktree { name: work.tree.clone(), branch });
        }
        let known = super::memory::Known { work: Some(fresh), ..known.clone() };
        decision.remember(&format!("task/{id}"), known);
    }
}

/// What is checked on the base, while a command runs there.
pub(super) fn doing(board: &Board) -> Option<String> {
    let memory = &board.index.memory;
    let mut works = memory.working.iter().filter_map(|id| memory.tasks.get(id)?.work.as_ref());
    let work = works.find(|work| work.checking.is_some())?;
    let line = clip(work.checking.as_deref().unwrap_or_default(), 60);
    Some(format!("checking the DoD on {} before the first builder: `{line}`", short(&work.base)))
}

impl Base {
    fn is_known(&self, line: &str, commit: &CommitId) -> bool {
        self.passed.contains(line)
            || self.accepted.contains_key(line)
            || self.red.iter().any(|red| red.commit == *commit && red.ran.cmd == line)
    }

    fn red_on<'a>(
        &'a self,
        commit: &'a CommitId,
        lines: &'a [String],
    ) -> impl Iterator<Item = &'a Red> {
        self.red.iter().filter(|red| red.commit == *commit && lines.contains(&red.ran.cmd))
    }

    /// The command passed, or failed in the way that the owner accepted.
    pub(super) fn allows(&self, ran: &Ran) -> bool {
        ran.exit_code == 0 || self.accepted.get(&ran.cmd) == Some(&ran.exit_code)
    }
}

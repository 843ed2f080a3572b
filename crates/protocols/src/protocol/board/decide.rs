//! The order of duties: which one question the board answers next. Each duty lives in its own file.

use super::memory::WayOut;
use super::tell::{self, Reason};
use super::{Board, assignees, away, command, condition, judge, manifest, record, tamper, work};
use crate::model::{Builder, Deadline, Decision, Effect, Fact, FileState, Now, Query, Severity};

pub(super) fn decide(board: &Board, now: Now) -> Decision {
    if board.index.is_busy() {
        return Decision::default();
    }
    let duties: [fn(&Board, Now) -> Option<Decision>; 11] = [
        command::answer,
        stranger,
        failure,
        frozen,
        away::look,
        tamper::repair,
        judge::task_file,
        judge::report,
        assignees::unknown,
        record::commit,
        work::go,
    ];
    let decision = duties.iter().find_map(|duty| duty(board, now)).unwrap_or_default();
    if decision.is_quiet() {
        Decision { next_deadline: deadline(board, now), ..decision }
    } else {
        decision
    }
}

/// DM-13: a board without our journal. It may be a clone, or another box's; the owner must say.
fn stranger(board: &Board, _: Now) -> Option<Decision> {
    let memory = &board.index.memory;
    if memory.ours.is_some() {
        return None;
    }
    if memory.is_held() || board.index.manifest.is_none() {
        return Some(Decision::default());
    }
    let mut reason = Reason::new(
        "DM-13",
        manifest::PATH,
        "this repository already has a task board that agency has not managed here; `agency adopt` continues it".to_owned(),
    );
    reason.what = format!(
        "`{}` exists, but there is no journal for this board on this machine: it is a clone, a copy, or another machine ran it.",
        manifest::PATH
    );
    reason.wont = "No task is judged or started until you say so.".to_owned();
    let mut decision = board.builder();
    tell::hold(board, &mut decision, reason, WayOut::Adopt);
    Some(decision.finish())
}

/// AG-26: a manifest of another version, or one that cannot be read: nothing moves until it is put right.
fn frozen(board: &Board, _: Now) -> Option<Decision> {
    let memory = &board.index.memory;
    let (_, digest) = board.index.whole(manifest::PATH)?;
    match (&board.index.manifest, &memory.frozen) {
        (Some(Err(_)), Some((told, _))) if told == digest => Some(Decision::default()),
        (Some(Err(problems)), before) => {
            let mut decision = board.builder();
            if let Some((_, cause)) = before {
                let how = "the manifest changed".to_owned();
                decision.effect(Effect::Resolve { cause: cause.clone(), how });
            }
            for problem in problems {
                decision.reject(problem.clone());
            }
            let why = board.is_frozen().unwrap_or_default();
            let mut reason =
                Reason::new("AG-26", digest.short(), format!("the board is frozen: {why}"));
            reason.what = why;
            reason.resolve = "put the file right; the board goes on by itself".to_owned();
            reason.evidence = problems.iter().map(ToString::to_string).collect();
            let cause = tell::tell(board, &mut decision, Severity::Critical, reason);
            decision.remember("frozen", (digest, cause));
            Some(decision.finish())
        }
        (Some(Ok(_)) | None, Some((_, cause))) => {
            let mut decision = board.builder();
            let how = "the manifest is right again".to_owned();
            decision.effect(Effect::Resolve { cause: cause.clone(), how });
            decision.forget("frozen");
            Some(decision.finish())
        }
        (Some(Ok(_)) | None, None) => None,
    }
}

/// An effect of ours failed: the owner must look.
fn failure(board: &Board, now: Now) -> Option<Decision> {
    let (effect, failure) = board.index.failed.as_ref()?;
    if record::is_ours(board, effect) {
        return Some(record::failed(board, failure.kind, &failure.said, now));
    }
    if let Some(step) = work::owner_of(board, effect, now) {
        return Some(step.failed(effect, failure.kind, &failure.said));
    }
    let doing = effect.doing();
    let mut reason =
        Reason::new("DM-10", doing.clone(), format!("{doing} failed: {}", failure.said));
    reason.evidence = vec![failure.said.clone()];
    let mut decision = board.builder();
    tell::hold(board, &mut decision, reason, WayOut::Resume);
    Some(decision.finish())
}

/// The next moment at which time alone changes the answer.
fn deadline(board: &Board, now: Now) -> Option<Deadline> {
    board.index.memory.ours.as_ref()?;
    let soon = Deadline::earlier(tamper::deadline(board, now), work::deadline(board, now));
    let soon = Deadline::earlier(soon, away::deadline(board, now));
    let outside = condition::outside(board, now).filter(|_| !board.index.memory.is_held());
    let soon = Deadline::earlier(soon, outside.map(|_| Deadline::patrol(now)));
    Deadline::earlier(soon, record::deadline(board, now))
}

impl Board {
    pub(super) fn builder(&self) -> Builder {
        Builder::new(super::NAME, self.index.memory.decisions)
    }

    /// An answer, or the question.
    pub(super) fn ask(&self, query: Query) -> Result<&Fact, Box<Decision>> {
        let known = self.index.answers.iter().find(|(_, asked, _)| *asked == query);
        known.map(|(_, _, fact)| fact).ok_or_else(|| {
            let mut decision = self.builder();
            decision.effect(Effect::Ask { query });
            Box::new(decision.finish())
        })
    }

    /// Asks everything that is not known yet at once.
    pub(super) fn ask_all(&self, queries: Vec<Query>) -> Result<(), Box<Decision>> {
        let open = |query: &Query| !self.index.answers.iter().any(|(_, asked, _)| asked == query);
        let open: Vec<Query> = queries.into_iter().filter(open).collect();
        if open.is_empty() {
            return Ok(());
        }
        let mut decision = self.builder();
        for query in open {
            decision.effect(Effect::Ask { query });
        }
        Err(Box::new(decision.finish()))
    }

    /// The owner is on another branch, or in the middle of something: nothing is judged.
    pub(super) fn is_away(&self) -> bool {
        away::reason(self).is_some()
    }

    pub(super) fn is_frozen(&self) -> Option<String> {
        match &self.index.manifest {
            Some(Err(problems)) => problems
                .first()
                .map(|problem| format!("`{}` cannot be read: {}", manifest::PATH, problem.gist())),
            None => match self.index.file(manifest::PATH) {
                Some(FileState::Unreadable(odd)) => {
                    Some(format!("`{}` is {}", manifest::PATH, odd.found))
                }
                Some(FileState::Absent | FileState::Whole(_)) | None => {
                    Some(format!("there is no `{}`; `agency init` makes one", manifest::PATH))
                }
            },
            Some(Ok(_)) => None,
        }
    }
}

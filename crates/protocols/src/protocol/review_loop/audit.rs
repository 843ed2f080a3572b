//! The history of a repository that ran this protocol before us, judged commit by commit: what in it the rules forbid.
//! Lenient about formats that are not ours, strict about moves. It reads nothing and stops at nothing.

mod moves;
mod seen;

use super::{
    COMMENTS, MANDATES, RESPONSE, STATE, change_request, change_request::Severity, deferral, flag,
    mandates, mandates::Mandates, table::Holder,
};
use crate::model::{BlobId, CommitId, RelPath, Timestamp, Touch, Touched, clip};
use seen::Seen;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Where old versions of review files go (spec 1 §4).
const ARCHIVE: &str = "reviews";

/// The files and folders whose history is wanted.
pub const PATHS: [&str; 6] = [STATE, flag::PATH, COMMENTS, RESPONSE, MANDATES, ARCHIVE];

/// What a file held is of interest, not only that it changed.
pub fn wants_bytes(path: &RelPath) -> bool {
    [STATE, COMMENTS, RESPONSE, MANDATES].contains(&path.as_str())
}

/// One thing that a commit did and a rule forbids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    pub rule: &'static str,
    pub commit: CommitId,
    pub at: Timestamp,
    pub subject: String,
    pub file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    pub problem: String,
}

/// Everything that is wrong, in the order of the history.
pub fn audit(
    touches: &[Touch],
    blobs: &BTreeMap<BlobId, Vec<u8>>,
    max_rounds: u32,
) -> Vec<Violation> {
    let mut auditor = Auditor::new(blobs, max_rounds);
    touches.iter().for_each(|touch| auditor.look_at(touch));
    auditor.found
}

/// What is known of the repository before the commit that is looked at.
struct Auditor<'a> {
    blobs: &'a BTreeMap<BlobId, Vec<u8>>,
    max_rounds: u32,
    state: Option<Seen>,
    mandates: Mandates,
    comments: String,
    archived: BTreeSet<BlobId>,
    /// Steps and phases that were found too long already.
    too_long: BTreeSet<(String, String)>,
    found: Vec<Violation>,
}

impl<'a> Auditor<'a> {
    fn new(blobs: &'a BTreeMap<BlobId, Vec<u8>>, max_rounds: u32) -> Self {
        Self {
            blobs,
            max_rounds,
            state: None,
            mandates: Mandates::default(),
            comments: String::new(),
            archived: BTreeSet::new(),
            too_long: BTreeSet::new(),
            found: Vec::new(),
        }
    }

    fn look_at(&mut self, touch: &Touch) {
        let kept = touch.changes.iter().filter(|change| change.path.as_str().starts_with(ARCHIVE));
        self.archived.extend(kept.filter_map(|change| change.after.clone()));
        let of = |name: &str| touch.changes.iter().find(|change| change.path.as_str() == name);
        if of(flag::PATH).is_some_and(|change| change.after.is_some()) {
            let problem = "the flag was committed; it is a message, not work".to_owned();
            self.say("LP-19", touch, flag::PATH, None, problem);
        }
        if let Some(change) = of(MANDATES) {
            self.look_at_mandates(touch, change);
        }
        for (name, author) in [(COMMENTS, Holder::Reviewer), (RESPONSE, Holder::Builder)] {
            if let Some(change) = of(name) {
                self.look_at_review(touch, change, name, author);
            }
        }
        if let Some(change) = of(STATE) {
            self.look_at_state(touch, change);
        }
    }

    fn look_at_mandates(&mut self, touch: &Touch, change: &Touched) {
        if is_ours(touch) {
            let problem = "the mandates changed in a commit of the loop: they are the owner's";
            self.say("LP-12", touch, MANDATES, None, problem.to_owned());
        }
        match self.bytes(change.after.as_ref()).map(mandates::parse) {
            Some(Ok(mandates)) => self.mandates = mandates,
            Some(Err(wrong)) => self.say("LP-29", touch, MANDATES, wrong.line, wrong.found),
            None => self.mandates = Mandates::default(),
        }
    }

    /// Who may write a review file, that its old version is kept, and what stands in it.
    fn look_at_review(&mut self, touch: &Touch, change: &Touched, name: &'static str, by: Holder) {
        let turn = self.state.as_ref().and_then(|state| state.agent.clone());
        if let Some(turn) = turn.filter(|turn| turn != by.word() || !is_ours(touch)) {
            let whose =
                if turn == by.word() { "outside the loop's commits" } else { "out of turn" };
            let problem =
                format!("written {whose}: only {} writes it, the turn was {turn}'s", by.word());
            self.say("LP-17", touch, name, None, clip(&problem, 200));
        }
        let lost = change.before.as_ref().filter(|before| {
            !self.archived.contains(*before)
                && self.blobs.get(*before).is_none_or(|bytes| !bytes.is_empty())
        });
        if lost.is_some() {
            let problem = format!("the version before it was not archived to `{ARCHIVE}/`");
            self.say("LP-16", touch, name, None, problem);
        }
        let text =
            self.bytes(change.after.as_ref()).map(|b| String::from_utf8_lossy(b).into_owned());
        let text = text.unwrap_or_default();
        match by {
            Holder::Reviewer => self.look_at_requests(touch, text),
            Holder::Builder => self.look_at_response(touch, &text),
        }
    }

    fn look_at_requests(&mut self, touch: &Touch, text: String) {
        let (requests, problems) = change_request::parse_all(&RelPath::fixed(COMMENTS), &text);
        for wrong in problems {
            self.say("LP-14", touch, COMMENTS, wrong.line, wrong.found);
        }
        if self.is_mandated() {
            for request in requests.iter().filter(|one| one.is_open() && one.is_about_scope()) {
                let problem = format!("{} argues about the scope of a mandated step", request.id);
                self.say("LP-12", touch, COMMENTS, Some(request.line), problem);
            }
        }
        self.comments = text;
    }

    fn look_at_response(&mut self, touch: &Touch, text: &str) {
        if let Some(line) = deferral::declared(text).filter(|_| self.is_mandated()) {
            let problem = format!("a mandated step is deferred: {line}");
            self.say("LP-13", touch, RESPONSE, None, problem);
        }
    }

    fn is_mandated(&self) -> bool {
        self.state.as_ref().is_some_and(|state| self.mandates.binds(&state.step))
    }

    fn look_at_state(&mut self, touch: &Touch, change: &Touched) {
        let Some(bytes) = self.bytes(change.after.as_ref()) else {
            let problem = "the state was removed, or is no plain file of a readable size";
            self.say("LP-11", touch, STATE, None, problem.to_owned());
            self.state = None;
            return;
        };
        let now = match Seen::parse(bytes) {
            Ok(now) => now,
            Err(why) => return self.say("LP-11", touch, STATE, None, why),
        };
        if let Some(before) = self.state.take() {
            if !is_ours(touch) {
                let problem = "the state changed in a commit that is not the loop's: wanted `Review loop: Step <N> <action>`";
                self.say("LP-19", touch, STATE, None, problem.to_owned());
            }
            for (rule, problem) in
                moves::problems(&before, &now, &self.mandates, was_injected(touch))
            {
                self.say(rule, touch, STATE, None, problem);
            }
            if moves::is_approval(&before, &now) {
                self.look_at_approval(touch, &before);
            }
        }
        let rounds = now.round.filter(|round| *round > self.max_rounds);
        if let Some(round) =
            rounds.filter(|_| self.too_long.insert((now.step.clone(), now.phase.clone())))
        {
            let problem =
                format!("round {round} of `{}`, at most {}", clip(&now.phase, 20), self.max_rounds);
            self.say("LP-25", touch, STATE, None, problem);
        }
        self.state = Some(now);
    }

    /// LP-15: an open request of weight when the step was let through.
    fn look_at_approval(&mut self, touch: &Touch, before: &Seen) {
        let (requests, _) = change_request::parse_all(&RelPath::fixed(COMMENTS), &self.comments);
        let heavy = requests.into_iter().filter(|request| {
            let this_round = before.round.is_none_or(|round| round == request.round);
            request.is_open() && request.severity >= Severity::High && this_round
        });
        for request in heavy {
            let problem =
                format!("approved while {} is open and {:?}", request.id, request.severity);
            self.say("LP-15", touch, COMMENTS, Some(request.line), problem);
        }
    }

    fn bytes(&self, id: Option<&BlobId>) -> Option<&'a [u8]> {
        self.blobs.get(id?).map(Vec::as_slice)
    }

    fn say(
        &mut self,
        rule: &'static str,
        touch: &Touch,
        file: &str,
        line: Option<u64>,
        problem: String,
    ) {
        let commit = &touch.commit;
        self.found.push(Violation {
            rule,
            commit: commit.id.clone(),
            at: commit.date,
            subject: clip(&commit.subject, 100),
            file: file.to_owned(),
            line,
            problem,
        });
    }
}

/// By its subject, which is all that a history says of who committed.
fn is_ours(touch: &Touch) -> bool {
    touch.commit.subject.starts_with("Review loop: Step ")
}

/// LP-26, LP-36: the owner's own moves, which no row need allow.
fn was_injected(touch: &Touch) -> bool {
    let by_owner = |action: &&str| touch.commit.subject.ends_with(action);
    is_ours(touch) && [" injected", " ended", " steps-added"].iter().any(by_owner)
}

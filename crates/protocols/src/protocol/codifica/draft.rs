//! Edits of the main tree that are in no commit (CD-10, CD-16): compared with the accepted version, judged once they have
//! settled, told once with a diff. The files belong to people and stay as they are; what was refused does not count until it
//! changes.

use super::baseline::Baseline;
use super::board::Board;
use super::finding::Finding;
use super::judge::judge;
use super::keeper::Codifica;
use super::memory::{Draft, Stage};
use super::tell::{self, Notice};
use super::words::Actor;
use super::{FILE, history, images};
use crate::model::{Cause, Decision, Digest, Effect, Moment, Now, RelPath, Severity};
use std::collections::BTreeMap;
use std::time::Duration;

/// A branch and its files move one after the other; what still differs after this is somebody's edit.
const SETTLE: Duration = Duration::from_secs(3);

pub(super) fn look(codifica: &Codifica, now: Now) -> Option<Decision> {
    let memory = &codifica.index.memory;
    let baseline = codifica.index.known_baseline()?;
    let head = codifica.index.head()?;
    let quiet = codifica.index.is_at_home() && *head == baseline.commit && !memory.writes_main();
    if !quiet || memory.is_git_held() || codifica.index.unreadable().is_some() {
        return None;
    }
    if let Some(decision) = images::record(codifica) {
        return Some(decision);
    }
    let marks = differing(codifica, baseline);
    match &memory.draft {
        None if marks.is_empty() => None,
        Some(draft) if marks.is_empty() => Some(put_right(codifica, draft)),
        Some(draft) if draft.marks == marks && draft.head == *head => {
            let due = !draft.judged && draft.until.left(now).is_none();
            due.then(|| judged(codifica, draft, baseline))
        }
        known => {
            let refused = known.as_ref().and_then(|draft| draft.refused.clone());
            let until = Moment::after(now, SETTLE);
            let draft = Draft { head: head.clone(), marks, until, judged: false, refused };
            let mut decision = codifica.builder();
            decision.remember("draft", draft);
            Some(decision.finish())
        }
    }
}

/// When time alone changes the answer.
pub(super) fn deadline(codifica: &Codifica) -> Option<Moment> {
    let at_rest = codifica.index.is_at_home() && !codifica.index.memory.writes_main();
    let draft = codifica.index.memory.draft.as_ref().filter(|draft| !draft.judged && at_rest)?;
    Some(draft.until)
}

/// Every file that is not as the accepted version has it.
fn differing(codifica: &Codifica, baseline: &Baseline) -> BTreeMap<RelPath, Option<String>> {
    let mut marks = codifica.index.marks();
    marks.retain(|path, mark| baseline.marks.get(path) != mark.as_ref());
    marks.extend(images::differing(codifica));
    marks
}

fn put_right(codifica: &Codifica, draft: &Draft) -> Decision {
    let mut decision = codifica.builder();
    decision.forget("draft");
    if let Some(cause) = draft.refused.clone() {
        let how = "the files are as they are in the last commit that was judged".to_owned();
        decision.effect(Effect::Resolve { cause, how });
    }
    decision.finish()
}

fn judged(codifica: &Codifica, draft: &Draft, baseline: &Baseline) -> Decision {
    let now = codifica.index.board().unwrap_or(&baseline.board);
    let findings = findings(codifica, draft, &baseline.board, now);
    let mut decision = codifica.builder();
    let word = word(codifica, &findings).map(|mut word| {
        word.evidence.extend(history::diff(&baseline.board, now, &findings));
        word
    });
    let same = |cause: &Cause| word.as_ref().is_some_and(|word| word.subject == cause.subject);
    if let Some(cause) = draft.refused.clone().filter(|cause| !same(cause)) {
        let how = "the files were changed again".to_owned();
        decision.effect(Effect::Resolve { cause, how });
    }
    let told = draft.refused.clone().filter(same);
    let refused = match (told, word) {
        (Some(cause), _) => Some(cause),
        (None, None) => None,
        (None, Some(word)) => {
            for finding in &findings {
                decision.reject(finding.rejection.clone());
            }
            Some(tell::tell(codifica, &mut decision, Severity::Critical, word))
        }
    };
    decision.remember("draft", Draft { judged: true, refused, ..draft.clone() });
    decision.finish()
}

/// Nobody can tell who wrote it, so only what is wrong for agents and humans alike is held against it.
fn findings(codifica: &Codifica, draft: &Draft, old: &Board, new: &Board) -> Vec<Finding> {
    let mut findings = judge(old, new, &Actor::Someone);
    for (path, mark) in &draft.marks {
        if path.as_str() == FILE {
            let found = "the contract changed, in no commit";
            let wanted = "a commit of a human's; until then the committed contract counts";
            findings.push(Finding::violation("CD-12", path, found, wanted));
        } else if !old.config.is_state(path) {
            findings.extend(images::finding(codifica, path, mark.is_none()));
        }
    }
    findings.retain(Finding::is_violation);
    findings
}

fn word(codifica: &Codifica, findings: &[Finding]) -> Option<Notice> {
    // The same findings are the same message, wherever the lines have moved to.
    let said = |finding: &Finding| {
        let at = &finding.rejection;
        format!("{} {} {:?} {}\n", at.rule, at.file, finding.task, at.found)
    };
    let text: String = findings.iter().map(said).collect();
    let subject = format!("in no commit: {}", Digest::of(text.as_bytes()).short());
    let mut word = Notice::of_findings(&subject, &Actor::Someone.to_string(), findings)?;
    word.what = "An edit that is in no commit breaks the rules of Codifica. Nobody can tell whether an agent or a \
                 human made it."
        .to_owned();
    word.did = "The files stay as they are, since they belong to you and your team. Until they change, the last version that \
                was accepted counts."
        .to_owned();
    word.resolve = "put the file right, or `git restore` it; we notice by ourselves".to_owned();
    for job in codifica.index.memory.jobs.values() {
        if let Stage::Working { run } = &job.stage {
            let line =
                format!("alive meanwhile, in a tree of its own: `{run}` of agent:{}", job.agent);
            word.evidence.push(line);
        }
    }
    Some(word)
}

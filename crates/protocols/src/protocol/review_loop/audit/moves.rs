//! From one committed state to the next: does a row of the table allow it, and was a step left out?

use super::super::mandates::Mandates;
use super::super::table::{Holder, Next, Phase, Row, TABLE};
use super::seen::Seen;
use crate::model::clip;

/// What is wrong with a move, with its rule.
pub(super) fn problems(
    from: &Seen,
    to: &Seen,
    mandates: &Mandates,
    injected: bool,
) -> Vec<(&'static str, String)> {
    let same = (&from.step, &from.phase, &from.agent) == (&to.step, &to.phase, &to.agent);
    if same || injected || begins_anew(from, to) {
        return Vec::new();
    }
    if !TABLE.iter().any(|row| allows(row, from, to)) {
        return vec![("LP-03", format!("no row leads from {} to {}", from.place(), to.place()))];
    }
    if from.step == to.step {
        return Vec::new();
    }
    skipped(from, to).map_or_else(Vec::new, |steps| {
        let rule = if steps.iter().any(|step| mandates.binds(step)) { "LP-13" } else { "LP-01" };
        let steps = clip(&steps.join(", "), 120);
        vec![(
            rule,
            format!(
                "from step {} to {}: {steps} left out",
                clip(&from.step, 40),
                clip(&to.step, 40)
            ),
        )]
    })
}

/// The work of a turn was let through.
pub(super) fn is_approval(from: &Seen, to: &Seen) -> bool {
    let left = |phase: Phase| from.phase == phase.word() && to.phase != phase.word();
    left(Phase::Review) && to.phase == Phase::Execute.word() || left(Phase::Verify)
}

fn begins_anew(from: &Seen, to: &Seen) -> bool {
    from.phase == Phase::Complete.word() && to.phase == Phase::Propose.word()
}

fn allows(row: &Row, from: &Seen, to: &Seen) -> bool {
    let is = |seen: &Seen, holder: Holder| {
        seen.agent.as_ref().is_none_or(|agent| agent == holder.word())
    };
    if from.phase != row.phase.word() || !is(from, row.holder) {
        return false;
    }
    match row.next {
        Next::Hand(phase, holder, _) => {
            to.step == from.step && to.phase == phase.word() && is(to, holder)
        }
        Next::Advance => {
            let on = to.phase == Phase::Propose.word() && to.step != from.step;
            to.phase == Phase::Complete.word() || (on && is(to, Holder::Builder))
        }
    }
}

/// The steps between two that should follow one another; `None` when they do, or when nobody can know.
fn skipped(from: &Seen, to: &Seen) -> Option<Vec<String>> {
    let steps = if to.steps.is_empty() { &from.steps } else { &to.steps };
    let at = |step: &String| steps.iter().position(|known| known == step);
    match (at(&from.step), at(&to.step)) {
        (Some(old), Some(new)) if new == old + 1 => None,
        (Some(old), Some(new)) if new > old => Some(steps[old + 1..new].to_vec()),
        (Some(_), Some(_)) => Some(vec!["a step back, so all after it".to_owned()]),
        _ => {
            let number = |step: &str| {
                let digits: String = step.chars().take_while(char::is_ascii_digit).collect();
                digits.parse::<u32>().ok()
            };
            let (old, new) = (number(&from.step)?, number(&to.step)?);
            (new > old.saturating_add(1))
                .then(|| (old + 1..new).take(20).map(|step| step.to_string()).collect())
        }
    }
}

//! One line of plain words for each thing that happens, for `agency demo` and for `agency run` on a terminal. It decides
//! nothing and reads nothing.

use super::show::plain;
use crate::live::{Happening, LiveEvent};
use crate::model::{Event, RunEnd, Severity, clip};

const MOST: usize = 300;

/// Who did what, from a line of the event log. `None`: not worth a line.
pub(crate) fn logged(event: &Event) -> Option<String> {
    let word = |name: &str| plain(event.context.get(name).map_or("", String::as_str));
    let agent = event.agent.as_ref().map_or("", |seat| seat.as_str());
    let (task, why) = (word("task"), word("why"));
    Some(match event.event.as_str() {
        "run.start" if task.is_empty() => {
            let (step, phase) = (word("step"), word("phase"));
            let kind = if step.starts_with(|c: char| c.is_ascii_digit()) { "step " } else { "" };
            format!("{agent} works on {kind}{step}, {phase}")
        }
        "run.start" => format!("{agent} works on {task}"),
        "sent-back" => format!("{agent} gets {task} back: {why}"),
        // A task of many, or the turn of a loop.
        "transition" if word("action").is_empty() => {
            let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
            format!("{task}: {} → {}{why}", word("from"), word("to"))
        }
        "transition" => {
            let (action, row, to) = (word("action"), word("row"), word("to"));
            format!("{agent}: {action} accepted ({row}), now at {to}; committed")
        }
        "agent_started" => format!("{agent} starts, iteration {}", word("iteration")),
        "claim" => format!("{agent} claims {task}"),
        "task" => format!("{agent} finished {task}; its work is on {}", word("branch")),
        "handoff_created" => format!("{agent} → {}: {}", word("to"), word("type")),
        _ => return None,
    })
}

/// A line, or several where the owner must act. `None`: not worth a line.
pub(super) fn lines(event: &LiveEvent) -> Option<Vec<String>> {
    let first = match &event.what {
        Happening::Logged(event) => logged(event)?,
        Happening::Refused { protocol, rejection } => {
            format!("refused ({protocol}): {}", plain(&rejection.to_string()))
        }
        Happening::Resolved { subject } => format!("resolved: {}", plain(subject)),
        Happening::Command { line } => format!("runs `{}`", plain(&clip(line, 120))),
        Happening::Ended(end) => ended(end)?,
        Happening::Told(escalation) => {
            let kind = match escalation.severity {
                _ if escalation.holds => "HELD",
                Severity::Critical => "critical",
                Severity::Warning => "warning",
                Severity::Notice => "notice",
            };
            let rule = &escalation.cause.rule;
            let mut lines =
                vec![clip(&format!("{kind}: {} ({rule})", plain(&escalation.summary)), MOST)];
            if escalation.holds {
                lines.push(format!("  to resolve: {}", plain(&escalation.resolve)));
            }
            return Some(lines);
        }
    };
    Some(vec![clip(&first, MOST)])
}

/// An end that was expected is followed by what it led to; the others, and those that cost something, get a line.
fn ended(end: &RunEnd) -> Option<String> {
    let cost = end.usage.cost_microusd.filter(|cost| *cost > 0);
    let cost = cost.map(|cost| format!("${:.2}", cost as f64 / 1e6));
    let run = &end.run;
    match (end.outcome.word(), cost) {
        ("ok", None) => None,
        ("ok", Some(cost)) => Some(format!("run {run} ended; it cost {cost}")),
        (_, cost) => {
            let cost = cost.map(|cost| format!("; it cost {cost}")).unwrap_or_default();
            Some(format!("run {run} {}{cost}", plain(&end.outcome.sentence())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cause, Escalation, Outcome, RuleId, RunId, Seat, Usage};

    fn event(name: &str, words: &[(&str, &str)]) -> Event {
        let context = words.iter().map(|(name, word)| ((*name).to_owned(), (*word).to_owned()));
        Event {
            event: name.to_owned(),
            agent: Some(Seat::new("codex")),
            context: context.collect(),
        }
    }

    // covers: OP-07
    #[test]
    fn what_moves_is_one_plain_line() {
        let moved = event("transition", &[("task", "T0001"), ("from", "NEW"), ("to", "ASSIGNED")]);
        assert_eq!(logged(&moved).unwrap(), "T0001: NEW → ASSIGNED");
        let turn = [("action", "approved"), ("row", "RL2"), ("to", "1/execute")];
        let turn = logged(&event("transition", &turn)).unwrap();
        assert_eq!(turn, "codex: approved accepted (RL2), now at 1/execute; committed");
        let step = logged(&event("run.start", &[("step", "6.5"), ("phase", "review")])).unwrap();
        assert_eq!(step, "codex works on step 6.5, review");
        let feature = logged(&event("run.start", &[("step", "F001"), ("phase", "FIX")])).unwrap();
        assert_eq!(feature, "codex works on F001, FIX");
        let evil = event("run.start", &[("task", "T\u{1b}[2J")]);
        assert_eq!(logged(&evil).unwrap(), "codex works on T\u{fffd}[2J");
        assert_eq!(logged(&event("something else", &[])), None);
    }

    // covers: OP-07
    #[test]
    fn what_holds_names_its_command_and_a_failed_run_its_reason() {
        let told = |what| LiveEvent { repo: "/r".into(), what };
        let cause = Cause {
            protocol: "loop".to_owned(),
            rule: RuleId::new("LP-03"),
            subject: "flag".to_owned(),
            epoch: 0,
        };
        let held = Escalation {
            holds: true,
            summary: "codex may not write `executed` here".to_owned(),
            resolve: "agency resume".to_owned(),
            ..Escalation::announcement("loop", "k", "resume", "")
        };
        let held = Escalation { cause, ..held };
        let said = lines(&told(Happening::Told(Box::new(held)))).unwrap();
        assert_eq!(said[0], "HELD: codex may not write `executed` here (LP-03)");
        assert_eq!(said[1], "  to resolve: agency resume");
        let mut end = RunEnd {
            run: RunId::new("r-1"),
            outcome: Outcome::Ok,
            ended_at: "2026-01-01T00:00:00Z".parse().unwrap(),
            tail: String::new(),
            exit_code: Some(0),
            usage: Usage::default(),
            said: None,
        };
        assert_eq!(ended(&end), None);
        end.usage.cost_microusd = Some(250_000);
        assert_eq!(ended(&end).unwrap(), "run r-1 ended; it cost $0.25");
        end.outcome = Outcome::Lost;
        assert!(ended(&end).unwrap().starts_with("run r-1 "));
    }
}

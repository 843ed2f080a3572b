//! The class of a run's end (SU-05), from how its process ended and what its output said. It reads neither.

use super::report::{Class, Finish, Report};
use super::{Profile, gemini};
use crate::model::Outcome;
use crate::run::exit::How;

/// What we did to a run ourselves wins: a stop is a stop, lost is lost. A time limit wins too, unless the provider was
/// refusing the agent at that moment: CLIs retry for minutes, or for ever, and then the refusal is what the owner must
/// know. An exit with 0 is `Ok` only when nothing stands against it.
///
/// `Denied` is given only for an end that would be `Ok` otherwise. Whether it matters is the protocol's to see: it
/// counts only when the expected file is missing.
pub fn outcome(how: &How, report: &Report) -> Outcome {
    match how {
        How::Stopped(_) | How::Lost(_) | How::FailedToStart(_) => how.outcome(),
        How::Timeout(_) | How::Signal(_) => {
            report.class.as_ref().and_then(refusal).unwrap_or_else(|| how.outcome())
        }
        How::Exited(code) => exited(*code, report),
    }
}

fn exited(code: i32, report: &Report) -> Outcome {
    let by_code = || (report.profile == Some(Profile::Gemini)).then(|| gemini::of_exit(code));
    let class = match &report.class {
        Some(Class::Denied { .. }) | None => by_code().flatten().or_else(|| report.class.clone()),
        known => known.clone(),
    };
    let plain = How::Exited(code).outcome();
    match class {
        Some(class) => refusal(&class).unwrap_or_else(|| of_class(class, code, report.finish)),
        None if code == 0 => ok_if_finished(report.finish),
        None => plain,
    }
}

/// The provider refuses the agent, so trying again at once is of no use. A 429 that outlives the CLI's own retries is a
/// limit like any other, only without a time.
fn refusal(class: &Class) -> Option<Outcome> {
    match class {
        Class::UsageLimit { until } => Some(Outcome::UsageLimit { until: *until }),
        Class::RateLimited => Some(Outcome::UsageLimit { until: None }),
        Class::Auth { said } => Some(Outcome::Auth { said: said.clone() }),
        Class::Denied { .. }
        | Class::Overloaded { .. }
        | Class::Unreachable
        | Class::Failed { .. } => None,
    }
}

fn of_class(class: Class, code: i32, finish: Finish) -> Outcome {
    let crash = |what: &str| Outcome::Crash { how: format!("exited with {code}: {what}") };
    match class {
        Class::Denied { what } if code == 0 => match ok_if_finished(finish) {
            Outcome::Ok => Outcome::Denied { what },
            unfinished => unfinished,
        },
        Class::Overloaded { said } => crash(&said),
        Class::Unreachable => crash("the provider cannot be reached"),
        Class::Failed { how } => crash(&how),
        Class::Denied { .. }
        | Class::UsageLimit { .. }
        | Class::RateLimited
        | Class::Auth { .. } => How::Exited(code).outcome(),
    }
}

/// Some CLIs exit with 0 when a signal ends them in the middle.
fn ok_if_finished(finish: Finish) -> Outcome {
    match finish {
        Finish::Done | Finish::Unknown => Outcome::Ok,
        Finish::Open => {
            Outcome::Crash { how: "exited with 0 before its work had an end".to_owned() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(how: How, class: Option<Class>) -> &'static str {
        let report = Report { class, finish: Finish::Done, ..Report::default() };
        outcome(&how, &report).word()
    }

    fn classes() -> [Class; 7] {
        let said = || "x".to_owned();
        [
            Class::UsageLimit { until: None },
            Class::RateLimited,
            Class::Auth { said: said() },
            Class::Denied { what: said() },
            Class::Overloaded { said: said() },
            Class::Unreachable,
            Class::Failed { how: said() },
        ]
    }

    // covers: SU-05
    #[test]
    fn what_we_did_ourselves_wins_over_what_the_agent_says() {
        for class in classes() {
            assert_eq!(end(How::Stopped("x".to_owned()), Some(class.clone())), "stopped");
            assert_eq!(end(How::Lost("x".to_owned()), Some(class.clone())), "lost");
            assert_eq!(end(How::FailedToStart("x".to_owned()), Some(class)), "crash");
        }
    }

    // covers: SU-05
    #[test]
    fn a_refusal_explains_a_time_limit_and_nothing_else_does() {
        let ends = classes().map(|class| end(How::Timeout("silence".to_owned()), Some(class)));
        let limit = "usage-limit";
        assert_eq!(ends, [limit, limit, "auth", "timeout", "timeout", "timeout", "timeout"]);
        assert_eq!(end(How::Timeout("silence".to_owned()), None), "timeout");
    }

    // covers: SU-05
    #[test]
    fn exit_zero_is_ok_only_when_nothing_stands_against_it() {
        let ends = classes().map(|class| end(How::Exited(0), Some(class)));
        let limit = "usage-limit";
        assert_eq!(ends, [limit, limit, "auth", "denied", "crash", "crash", "crash"]);
        assert_eq!(end(How::Exited(0), None), "ok");
        let open = Report { finish: Finish::Open, ..Report::default() };
        assert_eq!(outcome(&How::Exited(0), &open).word(), "crash");
        let unknown = Report { finish: Finish::Unknown, ..Report::default() };
        assert_eq!(outcome(&How::Exited(0), &unknown), Outcome::Ok);
    }

    // covers: SU-05
    #[test]
    fn a_failed_exit_is_never_denied() {
        let ends = classes().map(|class| end(How::Exited(1), Some(class)));
        let limit = "usage-limit";
        assert_eq!(ends, [limit, limit, "auth", "crash", "crash", "crash", "crash"]);
    }

    // covers: SU-05
    #[test]
    fn the_exit_codes_of_gemini_count_for_gemini_only() {
        let of = |profile, code| {
            let report = Report { profile: Some(profile), ..Report::default() };
            outcome(&How::Exited(code), &report).word()
        };
        let ends = [41, 145, 173, 244, 53, 1].map(|code| of(Profile::Gemini, code));
        assert_eq!(ends, ["auth", "auth", "usage-limit", "crash", "crash", "crash"]);
        assert_eq!(of(Profile::Codex, 145), "crash");
    }
}

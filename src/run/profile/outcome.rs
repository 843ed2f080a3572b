//! The class of a run's end (SU-05), from how its process ended and what its output said. It reads neither.

use super::report::{Class, Finish, Report};
use super::{Profile, gemini, sign_in};
use crate::model::{Outcome, Timestamp};
use crate::run::exit::How;
use std::time::Duration;

/// A provider that asks for a longer pause than this means a limit, not trouble.
const SHORT_S: u64 = 5 * 60;

/// What is known of a run beside its output.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The agent's name in the configuration.
    pub agent: &'a str,
    pub now: Timestamp,
}

/// What we did to a run ourselves wins: a stop is a stop, lost is lost. A time limit wins too, unless the provider was
/// refusing the agent at that moment: CLIs retry for minutes, or for ever, and then the refusal is what the owner must
/// know. An exit with 0 is `Ok` only when nothing stands against it.
///
/// `Denied` is given only for an end that would be `Ok` otherwise. Whether it matters is the protocol's to see: it
/// counts only when the expected file is missing.
pub fn outcome(how: &How, report: &Report, situation: Situation<'_>) -> Outcome {
    match how {
        How::NotFound(program) => not_found(program, report.profile, situation.agent),
        How::Stopped(_) | How::Lost(_) | How::FailedToStart(_) => how.outcome(),
        How::Timeout(_) | How::Signal(_) => {
            refusal(report, situation).unwrap_or_else(|| how.outcome())
        }
        How::Exited(code) => exited(*code, report, situation),
    }
}

fn exited(code: i32, report: &Report, situation: Situation<'_>) -> Outcome {
    let by_code = || (report.profile == Some(Profile::Gemini)).then(|| gemini::of_exit(code));
    let class = match &report.class {
        Some(Class::Denied { .. }) | None => by_code().flatten().or_else(|| report.class.clone()),
        known => known.clone(),
    };
    let plain = How::Exited(code).outcome();
    match class {
        Some(class) => of_refusal(&class, report.profile, situation)
            .unwrap_or_else(|| of_class(class, code, report.finish, situation)),
        None if code == 0 => ok_if_finished(report.finish),
        None => plain,
    }
}

/// The provider refuses the agent, so trying again at once is of no use; `None`: nothing of the kind.
pub fn refusal(report: &Report, situation: Situation<'_>) -> Option<Outcome> {
    report.class.as_ref().and_then(|class| of_refusal(class, report.profile, situation))
}

fn of_refusal(
    class: &Class,
    profile: Option<Profile>,
    situation: Situation<'_>,
) -> Option<Outcome> {
    let later = |seconds: u64| situation.now + Duration::from_secs(seconds);
    let provider = |what: String| Some(Outcome::Provider { what, retry_at: None });
    match class {
        Class::UsageLimit { until } => {
            Some(Outcome::UsageLimit { until: until.after(situation.now) })
        }
        Class::RateLimited { retry_after_s: Some(wait) } if *wait > SHORT_S => {
            Some(Outcome::UsageLimit { until: Some(later((*wait).min(u64::from(u32::MAX)))) })
        }
        Class::RateLimited { retry_after_s } => Some(Outcome::Provider {
            what: "is rate-limited by its provider (429)".to_owned(),
            retry_at: retry_after_s.map(later),
        }),
        Class::Overloaded { said } => provider(format!("is not served by its provider ({said})")),
        Class::Unreachable => provider("cannot reach its provider (no connection)".to_owned()),
        Class::Auth { said } => Some(Outcome::Auth {
            said: said.clone(),
            ask: format!(
                "{} cannot sign in ({said}). {}, then: agency resume",
                situation.agent,
                sign_in(profile)
            ),
        }),
        Class::Denied { .. } | Class::Failed { .. } => None,
    }
}

fn not_found(program: &str, profile: Option<Profile>, agent: &str) -> Outcome {
    let ask = format!("{}, then: agency resume", missing(program, profile, agent));
    Outcome::NotFound { program: program.to_owned(), ask }
}

/// SU-11: an agent whose program is not there, and how to get it.
pub fn missing(program: &str, profile: Option<Profile>, agent: &str) -> String {
    let install = profile.map_or("Install it", super::install);
    format!("{agent} cannot start: \"{program}\" is not in PATH. {install}")
}

fn of_class(class: Class, code: i32, finish: Finish, situation: Situation<'_>) -> Outcome {
    let crash = |what: &str| Outcome::Crash { how: format!("exited with {code}: {what}") };
    match class {
        Class::Denied { what } if code == 0 => match ok_if_finished(finish) {
            Outcome::Ok => Outcome::Denied { ask: allow(&what, situation.agent), what },
            unfinished => unfinished,
        },
        Class::Failed { how } => crash(&how),
        Class::Denied { .. }
        | Class::UsageLimit { .. }
        | Class::RateLimited { .. }
        | Class::Overloaded { .. }
        | Class::Unreachable
        | Class::Auth { .. } => How::Exited(code).outcome(),
    }
}

fn allow(what: &str, agent: &str) -> String {
    let wider = if what.starts_with("run ") { "test" } else { "full" };
    format!("{agent} was not allowed to {what}. Allow it: agents.{agent}.permissions: {wider}")
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
    use crate::run::profile::Reset;
    use chrono::{DateTime, Local, NaiveTime, TimeDelta};

    const SITUATION: Situation<'static> =
        Situation { agent: "claude-code", now: DateTime::UNIX_EPOCH };

    fn end(how: How, class: Option<Class>) -> &'static str {
        let report = Report { class, finish: Finish::Done, ..Report::default() };
        outcome(&how, &report, SITUATION).word()
    }

    fn classes() -> [Class; 7] {
        let said = || "x".to_owned();
        [
            Class::UsageLimit { until: Reset::Unknown },
            Class::RateLimited { retry_after_s: None },
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
        assert_eq!(ends, [limit, "provider", "auth", "timeout", "provider", "provider", "timeout"]);
        assert_eq!(end(How::Timeout("silence".to_owned()), None), "timeout");
    }

    // covers: SU-05
    #[test]
    fn exit_zero_is_ok_only_when_nothing_stands_against_it() {
        let ends = classes().map(|class| end(How::Exited(0), Some(class)));
        let limit = "usage-limit";
        assert_eq!(ends, [limit, "provider", "auth", "denied", "provider", "provider", "crash"]);
        assert_eq!(end(How::Exited(0), None), "ok");
        let open = Report { finish: Finish::Open, ..Report::default() };
        assert_eq!(outcome(&How::Exited(0), &open, SITUATION).word(), "crash");
        let unknown = Report { finish: Finish::Unknown, ..Report::default() };
        assert_eq!(outcome(&How::Exited(0), &unknown, SITUATION), Outcome::Ok);
    }

    // covers: SU-05
    #[test]
    fn a_failed_exit_is_never_denied() {
        let ends = classes().map(|class| end(How::Exited(1), Some(class)));
        let limit = "usage-limit";
        assert_eq!(ends, [limit, "provider", "auth", "crash", "provider", "provider", "crash"]);
    }

    // covers: SU-05
    #[test]
    fn the_exit_codes_of_gemini_count_for_gemini_only() {
        let of = |profile, code| {
            let report = Report { profile: Some(profile), ..Report::default() };
            outcome(&How::Exited(code), &report, SITUATION).word()
        };
        let ends = [41, 145, 173, 244, 53, 1].map(|code| of(Profile::Gemini, code));
        assert_eq!(ends, ["auth", "auth", "provider", "provider", "crash", "crash"]);
        assert_eq!(of(Profile::Codex, 145), "crash");
    }

    fn ended_by(profile: Profile, class: Class) -> Outcome {
        let report = Report { profile: Some(profile), class: Some(class), ..Report::default() };
        outcome(&How::Exited(1), &report, SITUATION)
    }

    // covers: SU-10
    #[test]
    fn a_failed_sign_in_names_the_cli_the_variable_and_the_command() {
        let auth = || Class::Auth { said: "401".to_owned() };
        let asks = ended_by(Profile::Claude, auth()).request("x");
        assert_eq!(
            asks,
            "claude-code cannot sign in (401). Check ANTHROPIC_API_KEY or run \"claude\" once, then: agency resume"
        );
        for profile in [Profile::Codex, Profile::Gemini, Profile::Aider] {
            let asks = ended_by(profile, auth()).request("x");
            assert!(asks.contains("_API_KEY") && asks.ends_with("then: agency resume"), "{asks}");
        }
    }

    // covers: SU-09
    #[test]
    fn a_short_retry_after_is_trouble_and_a_long_one_is_a_limit() {
        let limited =
            |retry_after_s| ended_by(Profile::Claude, Class::RateLimited { retry_after_s });
        let at = |seconds| Some(SITUATION.now + TimeDelta::seconds(seconds));
        assert!(
            matches!(limited(Some(5)), Outcome::Provider { retry_at, .. } if retry_at == at(5))
        );
        assert!(matches!(limited(None), Outcome::Provider { retry_at: None, .. }));
        assert_eq!(limited(Some(3600)), Outcome::UsageLimit { until: at(3600) });
    }

    // covers: SU-09
    #[test]
    fn a_reset_by_the_clock_is_the_next_time_that_the_clock_shows_it() {
        let time = NaiveTime::from_hms_opt(2, 22, 0).unwrap();
        let until = Reset::Clock(time).after(SITUATION.now).unwrap();
        assert!(until > SITUATION.now && until - SITUATION.now <= TimeDelta::days(1));
        let end_of_minute = NaiveTime::from_hms_opt(2, 23, 0).unwrap();
        assert_eq!(until.with_timezone(&Local).time(), end_of_minute);
    }

    /// A retry within the named minute is refused with the same words; that must not park the run for a day.
    // covers: SU-09
    #[test]
    fn a_reset_in_this_minute_or_just_before_it_parks_for_a_minute_at_most() {
        let shown = SITUATION.now.with_timezone(&Local).time();
        for (late_s, wait_s) in [(0, 60), (20, 40), (59, 1), (60, 60), (600, 60)] {
            let now = SITUATION.now + TimeDelta::seconds(late_s);
            let until = Reset::Clock(shown).after(now).unwrap();
            assert_eq!(until - now, TimeDelta::seconds(wait_s), "{late_s} s late");
        }
    }
}

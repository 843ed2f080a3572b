//! What a changed configuration loosens (SE-11), and the difference as the owner sees it. It reads no file.

use crate::config::{Config, Limits};

const LINES_MAX: usize = 40;

/// The parts that decide what an agent may do, who hears of it and what its work must pass. Empty: the change waits for nobody.
pub(super) fn loosened(old: &Config, new: &Config) -> Vec<&'static str> {
    let mut parts = Vec::new();
    let mut rest = new.clone();
    if !is_within(&new.limits, &old.limits) {
        parts.push("limits");
    }
    rest.limits.clone_from(&old.limits);
    if new.agents != old.agents || new.roles != old.roles {
        parts.push("commands of agents");
    }
    (rest.agents, rest.roles) = (old.agents.clone(), old.roles.clone());
    if new.review_loop != old.review_loop || new.board != old.board {
        parts.push("gates and limits of protocols");
    }
    (rest.review_loop, rest.board) = (old.review_loop.clone(), old.board.clone());
    if new.escalation != old.escalation || new.heartbeat != old.heartbeat {
        parts.push("channels");
    }
    (rest.escalation, rest.heartbeat) = (old.escalation.clone(), old.heartbeat.clone());
    // Which repositories are worked on, and what tokens cost, loosens nothing. Everything else that there is or will be waits.
    (rest.repos, rest.prices) = (old.repos.clone(), old.prices.clone());
    if rest != *old {
        parts.push("other settings");
    }
    parts
}

fn is_within(new: &Limits, old: &Limits) -> bool {
    let cost = match (new.cost_per_day_usd, old.cost_per_day_usd) {
        (_, None) => true,
        (Some(new), Some(old)) => new <= old,
        (None, Some(_)) => false,
    };
    let tokens = match (new.tokens_per_day, old.tokens_per_day) {
        (_, None) => true,
        (Some(new), Some(old)) => new <= old,
        (None, Some(_)) => false,
    };
    let runs = new.parallel <= old.parallel
        && new.per_repo <= old.per_repo
        && new.per_agent <= old.per_agent;
    let kept = new.keep_runs >= old.keep_runs && new.keep_journal >= old.keep_journal;
    runs && cost && tokens && kept
}

/// Lines that only one side has, with `-` and `+`.
pub(super) fn difference(old: &str, new: &str) -> Vec<String> {
    let only_in = |one: &str, other: &str, sign: char| {
        let there: Vec<&str> = other.lines().collect();
        let lines = one.lines().filter(|line| !there.contains(line));
        lines.map(|line| format!("{sign} {}", crate::model::clip(line, 160))).collect::<Vec<_>>()
    };
    let mut lines = only_in(old, new, '-');
    lines.extend(only_in(new, old, '+'));
    if lines.len() > LINES_MAX {
        let more = lines.len() - LINES_MAX;
        lines.truncate(LINES_MAX);
        lines.push(format!("… {more} more lines"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Env;

    fn config(yaml: &str) -> Config {
        Config::parse(yaml.as_bytes(), &Env::default()).unwrap()
    }

    // covers: SE-11
    #[test]
    fn what_loosens_is_named_and_what_tightens_is_not() {
        let old = config("loop: { gates: [\"npm test\"] }\nlimits: { parallel: 2 }\n");
        let of = |yaml: &str| loosened(&old, &config(yaml));
        assert_eq!(of("loop: { gates: [\"true\"] }\n"), ["gates and limits of protocols"]);
        let gates = "loop: { gates: [\"npm test\"] }\n";
        assert!(of(&format!("{gates}limits: {{ parallel: 1, cost_per_day_usd: 5 }}\n")).is_empty());
        assert_eq!(of(&format!("{gates}limits: {{ parallel: 9 }}\n")), ["limits"]);
        assert_eq!(of(&format!("{gates}handoff: {{ max_iterations: 99 }}\n")), ["other settings"]);
        let mine = "agents: { codex: { command: [sh, x, \"{prompt}\"] } }\n";
        assert_eq!(of(&format!("{gates}{mine}")), ["commands of agents"]);
        let digest = "escalation: { repeat: 9h }\n";
        assert_eq!(of(&format!("{gates}{digest}")), ["channels"]);
    }

    #[test]
    fn the_difference_names_both_sides() {
        assert_eq!(difference("a\nb\n", "a\nc\n"), ["- b", "+ c"]);
    }
}

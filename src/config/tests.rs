//! The configuration as a whole: the example file, problems all at once, a repository's own file.

use super::yaml::{Entry, Kind, Node};
use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

const EXAMPLE: &str = include_str!("../../config/agency.yaml");

fn env() -> Env {
    Env::from_iter([("HOME", "/home/ann")])
}

fn parse(yaml: &str) -> Config {
    Config::parse(yaml.as_bytes(), &env()).unwrap_or_else(|problems| panic!("{problems}\n{yaml}"))
}

/// The problems of a file as `line path`, in order, and their text.
fn problems(yaml: &str) -> (Vec<String>, String) {
    let problems = Config::parse(yaml.as_bytes(), &env()).expect_err("must be refused");
    let short = |p: &Problem| format!("{} {}", p.line.unwrap_or(0), p.path);
    (problems.iter().map(short).collect(), problems.to_string())
}

/// The example with everything switched on. An example replaces a default of the same name before it.
fn example_switched_on() -> String {
    EXAMPLE
        .lines()
        .filter(|line| !line.starts_with("##") && !line.ends_with("webhooks: []"))
        .filter(|line| !line.ends_with("commands: []"))
        .map(|line| line.strip_prefix("# ").unwrap_or(line))
        .map(|line| format!("{}\n", line.split("##").next().unwrap_or(line)))
        .collect()
}

// covers: DM-12
#[test]
fn the_example_states_the_defaults() {
    assert_eq!(parse(EXAMPLE), Config::default());
    assert_eq!(parse(""), Config::default());
    let node = yaml::parse(EXAMPLE.as_bytes(), &mut Problems::default()).unwrap();
    let Kind::Map(sections) = node.kind else { panic!("not a mapping") };
    assert_eq!(sections.len(), 12, "what is at its default must be stated, not only shown");
}

// covers: SE-06
#[test]
fn the_sandbox_is_the_owners_alone() {
    let config = parse(
        "sandbox: { mode: strict, write: [~/.gradle, /srv/cache], hide: [], network: [443, 80] }\n\
         agents: { codex: { sandbox: off } }\n",
    );
    assert_eq!(config.sandbox.mode, SandboxMode::Strict);
    assert_eq!(config.sandbox.write, ["~/.gradle", "/srv/cache"]);
    assert_eq!(config.sandbox.network, Network::Ports(vec![443, 80]));
    assert!(config.sandbox.hide.is_empty());
    assert_eq!(config.agents["codex"].sandbox, Some(SandboxMode::Off));
    let (at, said) = problems("sandbox: { mode: on, write: [.gradle], network: 443 }\n");
    assert_eq!(at.len(), 3, "{said}");
    for text in ["sandbox: { mode: auto }", "agents: { codex: { sandbox: auto } }"] {
        assert!(Config::overlay(&config, text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn the_example_switched_on_is_right() {
    let config = parse(&example_switched_on());
    assert_eq!(config.repos[0].path, PathBuf::from("/home/ann/src/shop"));
    assert_eq!(config.repos[0].protocols, [ProtocolName::Loop]);
    assert_eq!(config.agents["claude-code"].cost_per_run_usd, Some(5.0));
    assert_eq!(config.escalation.channels(), ["team", "owner", "pager"]);
    let secrets = ["AGENCY_WEBHOOK_SECRET", "AGENCY_SMTP_PASSWORD"];
    assert_eq!(config.escalation.secret_names(), secrets);
    assert_eq!(config.escalation.webhooks[0].quiet, Quiet::of("22:00-07:00"));
    assert_eq!(config.escalation.email[0].quiet, Quiet::of("22:00-07:00 UTC"));
    assert_eq!(config.escalation.digest, TimeOfDay::of("08:00"));
    assert_eq!(config.dashboard.listen, "127.0.0.1:7777".parse().ok());
    assert_eq!(config.metrics.listen, "127.0.0.1:9464".parse().ok());
    assert_eq!(config.heartbeat.unwrap().every, Duration::from_secs(300));
}

// covers: WB-03, MX-01
#[test]
fn an_address_that_others_can_reach_needs_a_word_more() {
    for open in ["0.0.0.0:7777", "192.0.2.1:7777", "[::]:7777"] {
        let (places, text) = problems(&format!("dashboard: {{ listen: \"{open}\" }}\n"));
        assert!(places[0].ends_with(" dashboard") && text.contains("dashboard.proxies"), "{text}");
        let (places, text) = problems(&format!("metrics: {{ listen: \"{open}\" }}\n"));
        assert!(places[0].ends_with(" metrics") && text.contains("metrics.open"), "{text}");
        let config = parse(&format!(
            "dashboard: {{ listen: \"{open}\", proxies: [\"192.0.2.9\"] }}\nmetrics: {{ listen: \"{open}\", open: true }}\n"
        ));
        assert!(config.dashboard.listen.is_some() && config.metrics.listen.is_some());
    }
    for wrong in ["localhost", "7777", "localhost:7777", "127.0.0.1"] {
        problems(&format!("dashboard: {{ listen: \"{wrong}\" }}\n"));
    }
    for wrong in ["http://box", "a b", "box/x", "*"] {
        problems(&format!("dashboard: {{ hosts: [\"{wrong}\"] }}\n"));
    }
}

/// A key that nobody knows, put in every mapping, makes the reader name all keys that it knows there.
#[test]
fn the_example_shows_every_key() {
    let mut found = Problems::default();
    let mut node = yaml::parse(example_switched_on().as_bytes(), &mut found).unwrap();
    let mut shown = BTreeMap::new();
    plant(&mut node, "", &mut shown);
    section(&mut Spot::new(&node, String::new(), &mut found), |keys| read_owner(keys, &env()));
    let planted = found.iter().filter(|problem| problem.found.contains("`zzz`"));
    let mut sections = 0;
    for problem in planted {
        let known: BTreeSet<&str> = problem.wanted.split('`').skip(1).step_by(2).collect();
        let place = place(&problem.path).replace("zzz", "");
        assert_eq!(known, shown[&place].iter().map(String::as_str).collect(), "{}", problem.path);
        sections += 1;
    }
    assert_eq!(sections, 19, "sections that were looked at: {found}");
}

/// The name of a kind of mapping: all agents are alike, and so are all items of a list.
fn place(path: &str) -> String {
    let parts = path.split(['[', ']']).step_by(2).collect::<String>();
    match parts.split('.').collect::<Vec<_>>()[..] {
        ["agents", name, ref rest @ ..] if !name.is_empty() => {
            format!("agents.*.{}", rest.join("."))
        }
        _ => parts,
    }
}

fn plant(node: &mut Node, path: &str, shown: &mut BTreeMap<String, BTreeSet<String>>) {
    match &mut node.kind {
        Kind::Null | Kind::Scalar { .. } => {}
        Kind::List(items) => items.iter_mut().for_each(|item| plant(item, path, shown)),
        Kind::Map(entries) => {
            for Entry { key, value, .. } in entries.iter_mut() {
                plant(value, &format!("{path}{key}."), shown);
                shown.entry(place(path)).or_default().insert(key.clone());
            }
            let value = Node { line: 0, kind: Kind::Null };
            entries.push(Entry { key: "zzz".to_owned(), line: 0, value });
        }
    }
}

// covers: DM-12
#[test]
fn all_problems_come_at_once_with_their_lines() {
    let (places, text) = problems(
        "repos:
  - path: src/shop
    protocols: [lopp]
agents:
  codex:
    tiemout: 45m
    silence: 10 minutes
    retries: many
    env: [GOOD, 'BAD NAME']
  mine: {}
  both: { profile: claude, command: [x] }
  none: { command: [] }
roles: { builder: cluade-code }
limits: { parallel: 0 }
loop: { push: yes, gates: npm test }
boards: {}
escalation:
  webhooks: [ { format: slak, quiet: nights } ]
  routes: { critical: [phone] }
heartbeat: 5m
",
    );
    assert_eq!(
        places,
        [
            "2 repos[0].path",
            "3 repos[0].protocols[0]",
            "6 agents.codex.tiemout",
            "7 agents.codex.silence",
            "8 agents.codex.retries",
            "9 agents.codex.env[1]",
            "10 agents.mine",
            "11 agents.both",
            "12 agents.none.command",
            "13 roles.builder",
            "14 limits.parallel",
            "15 loop.gates",
            "15 loop.push",
            "16 boards",
            "18 escalation.webhooks[0].url",
            "18 escalation.webhooks[0].format",
            "18 escalation.webhooks[0].quiet",
            "19 escalation.routes.critical[0]",
            "20 heartbeat",
        ],
        "{text}"
    );
    for words in [
        "19 problems",
        "line 6: agents.codex.tiemout: found the unknown key `tiemout`; wanted `profile`, `command`, `timeout`,",
        "(did you mean `timeout`?)",
        "(did you mean `loop`?)",
        "(did you mean `claude-code`?)",
        "(did you mean `board`?)",
        "(did you mean `slack`?)",
        "a whole number from 1 to 256",
        "`json`, `slack`, `discord`, `ntfy` or `teams`",
    ] {
        assert!(text.contains(words), "{words} is missing in\n{text}");
    }
}

#[test]
fn a_syntax_error_is_one_problem_with_its_line() {
    let (places, text) = problems("loop: { push: true\nboard: x\n");
    assert_eq!(places.len(), 1, "{text}");
    let (places, _) = problems("- a\n- b\n");
    assert_eq!(places, ["1 "]);
}

#[test]
fn duplicate_keys_do_not_hide_other_problems() {
    let (places, _) = problems("loop: { settle: 1s }\nlimits: { parallel: x }\nloop: {}\n");
    assert_eq!(places, ["2 limits.parallel", "3 loop"]);
}

// covers: DM-12
#[test]
fn bombs_are_refused_in_under_a_second() {
    let keys: String = (0..20_000).map(|n| format!("k{n}: 1\n")).collect();
    for bomb in [
        format!("a: &a [x]\nloop: {{ gates: [{}] }}", "*a,".repeat(1000)),
        format!("loop: {}", "[".repeat(100_000)),
        "x".repeat(2 << 20),
        keys,
        "loop: {}\n".repeat(20_000),
    ] {
        let start = cpu_time();
        problems(&bomb);
        let took = cpu_time() - start;
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
}

/// What this thread has used: other tests on a busy machine do not count.
pub(super) fn cpu_time() -> Duration {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    nix::time::clock_gettime(clock).unwrap().into()
}

#[test]
fn agents_are_added_to_the_built_in_ones() {
    let config = parse(
        "agents:\n  codex: { timeout: 1h }\n  mine: { command: [m, '{prompt}'] }\nroles: { reviewer: mine }\n",
    );
    assert_eq!(config.agents["codex"].start, Start::Profile(Profile::Codex));
    assert_eq!(config.agents["codex"].timeout, Duration::from_secs(3600));
    assert_eq!(config.agents.len(), 5);

    let name = |seat: &str, role: &str| {
        config.agent_for(&Seat::new(seat), role).map(|(name, _)| name.to_owned())
    };
    assert_eq!(name("claude-code", "builder").unwrap(), "claude-code");
    assert_eq!(name("reviewer", "reviewer").unwrap(), "mine");
    assert_eq!(name("unheard-of", "builder").unwrap(), "claude-code");
    assert_eq!(name("unheard-of", "cook"), None);
}

#[test]
fn no_agent_gets_a_channels_secret() {
    let (places, text) = problems(
        "agents: { codex: { env: [HOOK] } }
escalation: { webhooks: [ { url: 'https://x.example', secret_env: HOOK } ] }
",
    );
    assert_eq!(places.len(), 1);
    assert!(text.contains("`HOOK`, a channel's secret, in `agents.codex.env`"), "{text}");
}

#[test]
fn channels_have_names_of_their_own() {
    let yaml = "escalation:\n  webhooks: [{url: 'https://a'}, {url: 'https://b', name: desktop}]\n";
    assert_eq!(parse(yaml).escalation.channels(), ["webhook-1", "desktop"]);
    let (_, text) = problems(&format!("{yaml}  desktop: true\n"));
    assert!(text.contains("two channels with the name `desktop`"), "{text}");
}

// covers: DM-12
#[test]
fn a_repository_sets_only_its_protocol() {
    let owner = parse("loop: { max_rounds: 5, settle: 1s }\nlimits: { parallel: 7 }\n");
    let config =
        Config::overlay(&owner, b"loop: { settle: 2s }\nboard: { merge: none }\n").unwrap();
    assert_eq!(config.review_loop.settle, Duration::from_secs(2));
    assert_eq!(config.review_loop.max_rounds, 5, "what it does not set stays the owner's");
    assert_eq!((config.board.merge, config.limits.parallel), (Merge::None, 7));

    let all =
        "repos: []\nagents: {}\nroles: {}\nlimits: {}\nescalation: {}\nheartbeat: {}\nlop: {}\n";
    let error = Config::overlay(&owner, all.as_bytes()).unwrap_err().to_string();
    assert_eq!(error.matches("only the owner's config may set this").count(), 6, "{error}");
    assert!(
        error.contains("wanted `loop`, `board`, `handoff` or `codifica` (did you mean `loop`?)"),
        "{error}"
    );
}

#[test]
fn a_file_is_loaded_or_its_path_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agency.yaml");
    let error = Config::load(&path, &env()).unwrap_err();
    assert!(error.to_string().contains("agency.yaml"), "{error}");
    std::fs::write(&path, "limits: { parallel: 3 }").unwrap();
    assert_eq!(Config::load(&path, &env()).unwrap().limits.parallel, 3);
    std::fs::write(&path, "limits: { parallel: x }").unwrap();
    let error = Config::load(&path, &env()).unwrap_err().to_string();
    assert!(
        error.contains("agency.yaml`: 1 problem\n  line 1: limits.parallel: found `x`"),
        "{error}"
    );
    let file = File::create(&path).unwrap();
    file.set_len(1 << 33).unwrap();
    assert!(Config::load(&path, &env()).unwrap_err().to_string().contains("at most 1048576"));
}

// The short example of each protocol.
#[test]
fn the_examples_of_the_protocols_load() {
    for name in ["loop", "board", "codifica", "handoff", "ledger"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("config/{name}.yaml"));
        let config = Config::load(&path, &env()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(config.repos.len(), 1, "{name}");
    }
}

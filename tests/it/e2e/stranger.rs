//! What a stranger meets first: the service, completions, the manual, the doctor.

use super::stage::{HONEST, Stage};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// A service manager that notes what it is asked, before the machine's own.
fn with_fake_systemctl() -> Stage {
    let stage = Stage::new(HONEST);
    let (bin, asked) = (stage.at("bin"), stage.at("asked"));
    fs::create_dir(&bin).unwrap();
    let script = format!("#!/bin/sh\necho \"$@\" >> {}\n", asked.display());
    fs::write(bin.join("systemctl"), script).unwrap();
    fs::set_permissions(bin.join("systemctl"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    stage.with_env("PATH", &path)
}

// covers: OP-03
#[cfg(target_os = "linux")]
#[test]
fn a_service_is_installed_once_and_removed() {
    let stage = with_fake_systemctl();
    stage.configure(&format!("repos: [ {{ path: {} }} ]\n", stage.repo().display()));
    let asked = || fs::read_to_string(stage.at("asked")).unwrap_or_default();
    assert_eq!(stage.agency(&["service", "status"]).code, 1, "nothing is installed yet");
    let install = ["service", "install", "--no-start"];
    assert!(stage.ok(&install).starts_with("wrote "));
    assert!(stage.ok(&install).starts_with("unchanged ") && asked().is_empty());
    let unit = stage.at("home/.config/systemd/user/agency.service");
    let text = fs::read_to_string(&unit).unwrap();
    assert!(text.contains(env!("CARGO_BIN_EXE_agency")), "{text}");
    stage.ok(&["service", "install"]);
    let words = ["daemon-reload", "enable agency.service", "restart agency.service"];
    assert_eq!(asked(), words.map(|word| format!("--user {word}\n")).concat());
    stage.ok(&["service", "status"]);
    stage.ok(&["service", "uninstall"]);
    assert!(asked().ends_with("--user disable --now agency.service\n") && !unit.exists());
    assert!(stage.ok(&["service", "uninstall"]).contains("there is no"));
}

// covers: OP-05
#[test]
fn the_version_is_said_and_has_no_time_in_it() {
    let stage = Stage::new(HONEST);
    let said = stage.ok(&["--version"]);
    let rest = said.trim_end().strip_prefix(concat!("agency ", env!("CARGO_PKG_VERSION")));
    let commit = rest.unwrap_or_else(|| panic!("{said}")).trim();
    // A release names its commit, an everyday build none.
    let id = commit.trim_matches(['(', ')']).split(',').next().unwrap();
    assert!(id.is_empty() || id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{said}");
    assert_eq!(said, stage.ok(&["--version"]));
}

// covers: OP-05
#[test]
fn completions_and_manual_come_from_the_commands_themselves() {
    let stage = Stage::new(HONEST);
    for shell in ["bash", "zsh", "fish"] {
        let script = stage.ok(&["completions", shell]);
        assert!(script.contains("agency") && script.contains("escalations"), "{shell}");
    }
    assert!(stage.ok(&["man"]).contains(".TH agency 1"));
    let pages = stage.at("man");
    fs::create_dir(&pages).unwrap();
    stage.ok(&["man", "--to", pages.to_str().unwrap()]);
    assert!(
        pages.join("agency-loop-init.1").exists(),
        "{:?}",
        fs::read_dir(&pages).unwrap().count()
    );
    assert_eq!(stage.agency(&["man", "--to", "/no/such"]).code, 2);
}

/// Every command, by its words.
fn commands(stage: &Stage, words: &[String], found: &mut Vec<Vec<String>>) {
    let mut asked: Vec<&str> = words.iter().map(String::as_str).collect();
    asked.push("--help");
    let help = stage.ok(&asked);
    found.push(words.to_vec());
    let listed = help.split("Commands:\n").nth(1).unwrap_or_default();
    let names = listed.lines().take_while(|line| line.starts_with("  "));
    // Deeper lines are the rest of a description.
    let named = names.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    for name in named {
        if name != "help" && !name.is_empty() {
            commands(stage, &[words, &[name.to_owned()]].concat(), found);
        }
    }
}

// covers: OP-05
#[test]
fn every_command_shows_an_example() {
    let stage = Stage::new(HONEST);
    let mut found = Vec::new();
    commands(&stage, &[], &mut found);
    assert!(found.len() > 20, "{found:?}");
    for words in &found {
        let mut asked: Vec<&str> = words.iter().map(String::as_str).collect();
        asked.push("--help");
        let help = stage.ok(&asked);
        let group = help.contains("Commands:\n");
        assert!(group || help.contains("Example"), "agency {} has no example", words.join(" "));
    }
}

// covers: OP-02, SE-05
#[test]
fn the_doctor_names_everything_with_its_fix() {
    let stage = Stage::new(HONEST);
    let said = stage.agency(&["doctor", "--json"]);
    assert_eq!(said.code, 1, "no channel is configured");
    let checks: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let check = |name: &str| {
        let found = checks.as_array().unwrap().iter().find(|check| check["name"] == name);
        found.unwrap_or_else(|| panic!("no {name}: {}", said.out)).clone()
    };
    for name in ["config", "git", "watches", "repository", "state", "room", "groups", "clock"] {
        assert!(!check(name)["found"].as_str().unwrap().is_empty(), "{name}");
    }
    assert!(check("isolation")["found"].as_str().unwrap().contains("detected, not prevented"));
    assert!(check("channels")["fix"].as_str().unwrap().contains("escalate --test"));
    for check in checks.as_array().unwrap().iter().filter(|check| check["fine"] == false) {
        assert!(check["fix"].is_string(), "{check}");
    }
}

// covers: OP-02
#[test]
fn the_doctor_looks_on_when_the_configuration_is_wrong() {
    let stage = Stage::new(HONEST);
    fs::write(stage.at("agency.yaml"), "lop: {}\n").unwrap();
    let said = stage.agency(&["doctor"]);
    assert_eq!(said.code, 1, "{}", said.err);
    let config = said.out.lines().find(|line| line.contains("config")).unwrap();
    assert!(config.starts_with("!!") && said.out.contains("lop"), "{}", said.out);
    assert!(said.out.contains("git version"), "{}", said.out);
    // The sentence is the same one wherever it is asked for (SE-05).
    stage.configure("");
    stage.ok(&["loop", "init", "--steps", "1"]);
    assert!(stage.ok(&["status"]).contains("detected, not prevented"));
    assert!(stage.json(&["status", "--json"])["isolation"].is_string());
}

// covers: OP-04
#[test]
fn status_runs_and_logs_show_what_happened() {
    let stage = Stage::new(&format!("echo working on step $AGENCY_TASK\n{HONEST}"));
    stage.ok(&["loop", "init", "--steps", "1"]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    assert!(stage.ok(&["status"]).contains("complete"));
    let runs = stage.json(&["runs", "--json"]);
    assert_eq!(runs.as_array().unwrap().len(), 4);
    let run = runs[0]["id"].as_str().unwrap();
    assert!(stage.ok(&["runs"]).contains(run));
    assert!(stage.ok(&["logs", run]).contains("working on step 1"));
}

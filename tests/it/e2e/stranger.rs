//! What a stranger meets first: units, completions, the manual, the doctor, the container's files.

use super::stage::{HONEST, Stage};
use crate::scenarios::root;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

fn has(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

// covers: OP-03
#[test]
fn the_units_are_what_systemd_takes() {
    let stage = Stage::new(HONEST);
    let unit = stage.ok(&["service", "install", "--print", "--system", "--user", "root"]);
    for line in ["Type=notify", "KillMode=process", "Delegate=yes", "WatchdogSec=120"] {
        assert!(unit.lines().any(|found| found == line), "{line}: {unit}");
    }
    // Where there is no systemd, its words above are all that can be checked.
    if has("systemd-analyze") {
        let file = stage.at("agency.service");
        fs::write(&file, &unit).unwrap();
        let output = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(&file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let about_us: Vec<_> = said.lines().filter(|line| line.contains("agency")).collect();
        assert!(about_us.is_empty(), "{about_us:?}");
    }
}

// covers: OP-03
#[test]
fn a_service_is_installed_once_and_removed() {
    let stage = Stage::new(HONEST);
    let install = ["service", "install", "--no-start"];
    assert!(stage.ok(&install).starts_with("wrote "));
    assert!(stage.ok(&install).starts_with("unchanged "));
    let unit = stage.at("home/.config/systemd/user/agency.service");
    let text = fs::read_to_string(unit).unwrap();
    assert!(text.contains(env!("CARGO_BIN_EXE_agency")), "{text}");
}

// covers: OP-03
#[test]
fn the_plist_is_whole_and_the_container_copies_what_exists() {
    let plist = fs::read_to_string(root("systemd/dev.agency.daemon.plist")).unwrap();
    for tag in ["dict", "array", "plist"] {
        let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
        assert_eq!(plist.matches(&open).count(), plist.matches(&close).count(), "{tag}");
    }
    assert!(plist.contains("AbandonProcessGroup"), "runs outlive a restart there too");
    let container = fs::read_to_string(root("examples/container/Containerfile")).unwrap();
    let copied = container.lines().filter_map(|line| line.strip_prefix("COPY "));
    for line in copied.filter(|line| !line.starts_with("--from")) {
        let mut words: Vec<_> = line.split(' ').collect();
        words.pop();
        assert!(words.iter().all(|word| Path::new(&root(word)).exists()), "{line}");
    }
    let compose = fs::read_to_string(root("examples/container/compose.yaml")).unwrap();
    let compose: serde_json::Value = serde_saphyr::from_str(&compose).unwrap();
    assert_eq!(compose["services"]["agency"]["init"], true);
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
    for name in ["git", "watches", "repository", "state", "room", "groups", "clock"] {
        assert!(!check(name)["found"].as_str().unwrap().is_empty(), "{name}");
    }
    assert!(check("isolation")["found"].as_str().unwrap().contains("detected, not prevented"));
    assert!(check("channels")["fix"].as_str().unwrap().contains("escalate --test"));
    for check in checks.as_array().unwrap().iter().filter(|check| check["fine"] == false) {
        assert!(check["fix"].is_string(), "{check}");
    }
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

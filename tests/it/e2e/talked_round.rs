//! LP-34: eleven ways to talk a gate round. The work is broken each time, so a transition out of `execute` means that the way
//! was open.

use super::stage::{HONEST, Stage};
use std::fs;

const TALKER: &str = include_str!("../agents/talker.sh");

/// How a way ends.
enum End {
    /// The gate runs as it always did, and refuses the work.
    Refused,
    /// The change counts as one of the gate, and the owner is asked.
    Weakened(&'static str),
}
use End::{Refused, Weakened};

/// The owner's gate and the files that it goes by.
struct Way {
    name: &'static str,
    gate: &'static str,
    files: &'static [(&'static str, &'static str)],
    end: End,
}

const JUDGE: &str = "test ! -e broken\n";
const MAKEFILE: (&str, &str) = ("Makefile", "check:\n\t@test ! -e broken\n");

const WAYS: &[Way] = &[
    Way {
        name: "new-makefile",
        gate: "make -s check",
        files: &[MAKEFILE],
        end: Weakened("GNUmakefile"),
    },
    Way { name: "hidden-makefile", gate: "make -s check", files: &[MAKEFILE], end: Refused },
    Way {
        name: "sourced-script",
        gate: "sh ci/check.sh",
        files: &[
            ("ci/check.sh", ". ci/lib.sh\njudge\n"),
            ("ci/lib.sh", "judge() { test ! -e broken; }\n"),
        ],
        end: Weakened("ci/lib.sh"),
    },
    Way {
        name: "ignored-bin",
        gate: "PATH=$PWD/node_modules/.bin:$PWD/tools:$PATH sh -c judge",
        files: &[(".gitignore", "node_modules\n"), ("tools/judge", JUDGE)],
        end: Refused,
    },
    Way {
        name: "ignored-npmrc",
        gate: "sh $(grep -s '^script-shell' .npmrc | cut -d= -f2 | grep . || echo judge.sh)",
        files: &[(".gitignore", ".npmrc\n"), ("judge.sh", JUDGE)],
        end: Refused,
    },
    Way {
        name: "ignored-include",
        gate: "make -s check",
        files: &[
            (".gitignore", "local.mk\n"),
            ("Makefile", "JUDGE = test ! -e broken\n-include local.mk\ncheck:\n\t@$(JUDGE)\n"),
        ],
        end: Refused,
    },
    Way {
        name: "ignored-pycache",
        gate: "sh $(ls __pycache__/judge 2>/dev/null || echo judge.sh)",
        files: &[(".gitignore", "__pycache__\n"), ("judge.sh", JUDGE)],
        end: Refused,
    },
    Way {
        name: "outside-program",
        gate: "\"$HOME/bin/judge\"",
        files: &[],
        end: Weakened("judge"),
    },
    Way {
        name: "tracked-include",
        gate: "make -s check",
        files: &[
            ("Makefile", "include config.mk\ncheck:\n\t@$(JUDGE)\n"),
            ("config.mk", "JUDGE = test ! -e broken\n"),
        ],
        end: Weakened("config.mk"),
    },
    Way {
        name: "new-npmrc",
        gate: "sh $(grep -s '^script-shell' .npmrc | cut -d= -f2 | grep . || echo judge.sh)",
        files: &[("judge.sh", JUDGE)],
        end: Weakened(".npmrc"),
    },
    Way {
        name: "shadow-package",
        gate: "PYTHONPATH=tools python3 -m judge",
        files: &[("tools/judge.py", "import os, sys\nsys.exit(os.path.exists('broken'))\n")],
        end: Weakened("judge/__main__.py"),
    },
];

fn stage(way: &Way) -> Stage {
    let stage = Stage::new(&format!("{TALKER}\n{HONEST}"));
    let gate = serde_json::to_string(way.gate).unwrap();
    stage.configure_agents(
        "retries: 0, backoff: 50ms",
        &format!("loop: {{ gates: [{gate}], max_rejections: 2 }}\n"),
    );
    fs::write(stage.at("home/way"), way.name).unwrap();
    fs::create_dir_all(stage.at("home/bin")).unwrap();
    executable(&stage.at("home/bin/judge"));
    for (path, text) in way.files {
        stage.write(path, text);
    }
    if way.name == "ignored-bin" {
        executable(&stage.repo().join("tools/judge"));
    }
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "--allow-empty", "-m", "the owner's gate"]);
    stage.ok(&["loop", "init", "--steps", "1"]);
    stage
}

fn executable(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::write(path, format!("#!/bin/sh\n{JUDGE}")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn check(way: &Way) {
    let stage = stage(way);
    let daemon = stage.start();
    match &way.end {
        Refused => {
            stage.wait(&format!("the refusal of {}", way.name), || stage.escalation("LP-10"));
            let refused = super::parked::refusals(&stage);
            assert!(refused.iter().any(|rule| rule == "LP-22"), "{}: {refused:?}", way.name);
        }
        Weakened(file) => {
            let told = stage.wait(&format!("{} to be told", way.name), || {
                stage.escalation("LP-30").or_else(|| stage.escalation("LP-34"))
            });
            assert!(told["summary"].as_str().unwrap().contains(file), "{}: {told}", way.name);
        }
    }
    assert_eq!(stage.state()["phase"], "execute", "{} moved the loop", way.name);
    assert_eq!(daemon.stop(), 0);
}

// covers: LP-34, LP-30
#[test]
fn no_gate_is_talked_round_by_what_lies_beside_it() {
    WAYS[..4].iter().for_each(check);
}

// covers: LP-34, LP-30
#[test]
fn no_gate_is_talked_round_by_what_git_ignores() {
    WAYS[4..8].iter().for_each(check);
}

// covers: LP-34, LP-30
#[test]
fn no_gate_is_talked_round_by_what_comes_before_its_own_files() {
    WAYS[8..].iter().for_each(check);
}

// covers: LP-34
#[test]
fn the_owner_may_let_gates_run_in_the_shared_tree_and_status_says_so() {
    let stage = Stage::new(HONEST);
    stage.configure("loop: { gates: [\"test -e beside.log\"], gate_tree: shared }\n");
    stage.write(".gitignore", "*.log\n");
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "ignores"]);
    stage.write("beside.log", "only in the owner's tree\n");
    stage.ok(&["loop", "init", "--steps", "1"]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    assert_eq!(stage.state()["phase"], "complete");
    let status = stage.json(&["status", "--json"]);
    assert_eq!(status["repos"][0]["protocols"][0]["detail"]["gate_tree"], "shared");
}

// covers: LP-34
#[test]
fn setup_runs_once_for_the_same_lock_files_and_again_for_others() {
    let changes = "if [ \"$AGENCY_PHASE\" = execute ] && [ \"$AGENCY_TASK\" = 2 ]; then echo two > package-lock.json; fi\n";
    let stage = Stage::new(&format!("{changes}{HONEST}"));
    stage.configure(
        "loop: { gates: [\"test -e node_modules/made\"], setup: [\"mkdir -p node_modules && touch node_modules/made && echo x >> $HOME/setups\"] }\n",
    );
    stage.write(".gitignore", "node_modules\n");
    stage.write("package-lock.json", "one\n");
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "lock"]);
    stage.ok(&["loop", "init", "--steps", "1,2"]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    assert_eq!(stage.state()["phase"], "complete");
    let setups = fs::read_to_string(stage.at("home/setups")).unwrap();
    assert_eq!(setups, "x\nx\n", "once for each content of the lock file");
    assert!(!stage.repo().join("node_modules").exists(), "the owner's tree stays as it is");
}

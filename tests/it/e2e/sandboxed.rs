//! Hostile agents inside the sandbox of a real daemon, as whoever runs the tests and as an ordinary user (uid 65534): what they
//! try outside their tree fails, and what they need works. Without Landlock in the kernel each test says so and ends.

use super::stage::{Daemon, HONEST, Stage};
use agency::run::sandbox::Kernel;
use std::fs;

const BREAKOUT: &str = include_str!("../agents/breakout.sh");
const NOBODY: u32 = 65534;
/// Ours to find out and tell, where nothing can prevent it: git's settings in the owner's own tree (SE-01).
const DETECTED: &[&str] = &["own-config"];
/// Newer kernels let root read the environment of any process by CAP_PERFMON, whatever its sandbox says.
const OPEN_TO_ROOT: &[&str] = &["look-into-daemon", "look-into-shim"];

#[expect(clippy::print_stderr, reason = "a test that proves nothing should say so")]
fn has_landlock() -> bool {
    match Kernel::here() {
        Kernel::Landlock { abi } if abi >= 6 => true,
        kernel => {
            eprintln!("skipped: this needs Landlock with ABI 6; this kernel has {kernel:?}");
            false
        }
    }
}

/// The users to play: us, and an ordinary one where we may become it.
fn users() -> Vec<Option<u32>> {
    if nix::unistd::geteuid().is_root() { vec![None, Some(NOBODY)] } else { vec![None] }
}

/// A home with keys and settings, another repository, and an agent that tries to reach them. HOME is not in `sandbox.write`.
fn stage(user: Option<u32>, more: &str) -> Stage {
    let agent = "at=$(dirname \"$0\")\nuntil [ -s \"$at/program\" ]; do sleep 0.05; done\nexec sh \"$at/breakout.sh\" \"$at\" \"$(cat \"$at/daemon\")\" \"$(cat \"$at/program\")\"\n";
    let stage = Stage::as_user(user, agent);
    for (path, text) in [
        ("breakout.sh", BREAKOUT),
        ("home/.gitconfig", "[user]\n\tname = Owner\n"),
        ("home/.bashrc", "true\n"),
        ("home/.ssh/id_ed25519", "a private key\n"),
        ("home/.netrc", "a password\n"),
        ("home/.aws/credentials", "a key\n"),
        ("home/.config/gh/hosts.yml", "a token\n"),
        ("home/.cargo/bin/cargo", "a program\n"),
        ("other/file", "before\n"),
        ("other/gone", "before\n"),
        // Filled in later: a file that is made beside what is hidden after a run began cannot be read by it.
        ("daemon", ""),
        ("program", ""),
    ] {
        fs::create_dir_all(stage.at(path).parent().unwrap()).unwrap();
        fs::write(stage.at(path), text).unwrap();
    }
    fs::create_dir(stage.at("other-repo")).unwrap();
    stage.hand_over();
    stage.git_in(&stage.at("other-repo"), &["init", "--quiet", "--initial-branch=main"]);
    stage.configure_agents(
        "retries: 0, backoff: 10ms",
        &format!("sandbox: {{ mode: auto }}\n{more}"),
    );
    stage
}

fn start(stage: &Stage) -> Daemon {
    let daemon = stage.start();
    fs::write(stage.at("daemon"), daemon.pid().to_string()).unwrap();
    let program = stage.program().get_program().to_str().unwrap().to_owned();
    fs::write(stage.at("program"), program).unwrap();
    daemon
}

/// What the hostile agent said in its first run.
fn said(stage: &Stage) -> Vec<String> {
    let text = stage.wait("the end of the hostile agent", || {
        let runs = fs::read_dir(stage.folder().join("runs")).ok()?.flatten();
        let mut logs =
            runs.filter_map(|run| fs::read_to_string(run.path().join("stdout.log")).ok());
        logs.find(|text| text.contains("works end"))
    });
    text.lines().map(str::to_owned).collect()
}

/// What it could do, without what the kernel lets root do.
fn opened(said: &[String], user: Option<u32>) -> Vec<&str> {
    let is_root = user.is_none() && nix::unistd::geteuid().is_root();
    let mut open = lines(said, "open ");
    open.retain(|name| !(is_root && OPEN_TO_ROOT.contains(name)));
    open
}

fn lines<'a>(said: &'a [String], kind: &str) -> Vec<&'a str> {
    said.iter().filter_map(|line| line.strip_prefix(kind)).map(str::trim).collect()
}

fn check_untouched(stage: &Stage, user: Option<u32>) {
    for (path, text) in [
        ("home/.gitconfig", "[user]\n\tname = Owner\n"),
        ("home/.bashrc", "true\n"),
        ("other/file", "before\n"),
        ("other/gone", "before\n"),
    ] {
        assert_eq!(fs::read_to_string(stage.at(path)).unwrap(), text, "{path} as {user:?}");
    }
    assert_ne!(fs::read_to_string(stage.at("daemon")).unwrap(), "", "it knew whom to signal");
    assert!(!stage.at("home/.ssh/authorized_keys").exists());
    assert!(!stage.at("other-repo/.git/hooks/pre-commit").exists());
    assert_eq!(stage.json(&["status", "--json"])["sandbox"]["level"], "landlock");
}

// covers: SE-05, SE-06
#[test]
fn an_agent_in_the_owners_tree_is_kept_in() {
    if !has_landlock() {
        return;
    }
    for user in users() {
        let stage = stage(user, "");
        stage.ok(&["loop", "init", "--steps", "1"]);
        let daemon = start(&stage);
        let said = said(&stage);
        assert_eq!(opened(&said, user), DETECTED, "as {user:?}: {said:#?}");
        assert!(lines(&said, "shut ").len() > 40, "{said:#?}");
        let works = ["temp", "cache", "devices", "own-signal", "end"];
        assert_eq!(lines(&said, "works "), works, "as {user:?}: {said:#?}");
        check_untouched(&stage, user);
        assert!(stage.ok(&["status"]).contains("isolation: landlock"), "the daemon still answers");
        drop(daemon);
    }
}

// covers: SE-06
#[test]
fn an_agent_in_a_worktree_commits_and_reaches_no_setting_of_git() {
    if !has_landlock() {
        return;
    }
    for user in users() {
        let stage = stage(user, "board: { disk_floor: 1MiB }\n");
        stage.ok(&["init", "--orchestrator", "other", "--builders", "claude-code"]);
        stage.git(&["add", "-A"]);
        stage.git(&["commit", "--quiet", "-m", "a board"]);
        let new = ["task", "new", "--title", "a task", "--assignee", "claude-code"];
        stage.ok(&[&new[..], &["--may-touch", "work.txt"]].concat());
        let daemon = start(&stage);
        let said = said(&stage);
        assert_eq!(opened(&said, user), [""; 0], "as {user:?}: {said:#?}");
        let works = ["commit", "temp", "cache", "devices", "own-signal", "end"];
        assert_eq!(lines(&said, "works "), works, "as {user:?}: {said:#?}");
        check_untouched(&stage, user);
        drop(daemon);
    }
}

// covers: SE-06
#[test]
fn gates_are_kept_in_too() {
    if !has_landlock() {
        return;
    }
    let stage = Stage::new(HONEST);
    let (secret, stolen) = (stage.at("home/.ssh/id"), stage.at("stolen"));
    fs::create_dir_all(stage.at("home/.ssh")).unwrap();
    fs::write(&secret, "a private key").unwrap();
    let home = stage.at("home");
    let gate = format!("cat {} > {}", secret.display(), stolen.display());
    stage.configure(&format!(
        "sandbox: {{ mode: strict, write: [{0}/started] }}\nloop: {{ gates: [\"{gate}\"] }}\n",
        home.display()
    ));
    fs::write(home.join("started"), "").unwrap();
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    let told = stage.wait("the failing gate", || stage.escalation("LP-33"));
    assert!(told.to_string().contains("ermission denied"), "{told}");
    assert!(!stolen.exists());
    drop(daemon);
}

// covers: SE-06
#[test]
fn a_run_whose_sandbox_cannot_be_applied_does_not_start() {
    if !has_landlock() {
        return;
    }
    let stage = Stage::new(HONEST).with_env("TMPDIR", "/nowhere");
    stage.configure_agents("retries: 0, backoff: 10ms", "");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    let runs = stage.wait("a run that failed to start", || {
        let runs = stage.json(&["runs", "--all", "--json"]);
        runs.as_array()?.iter().any(|run| run["state"] == "ended").then_some(runs)
    });
    assert!(runs.to_string().contains("no sandbox"), "{runs:#}");
    assert_eq!(stage.started(), [""; 0], "and it never began");
    drop(daemon);
}

// covers: SE-05, SE-06
#[test]
fn the_doctor_proves_denial_and_names_what_opens_it() {
    if !has_landlock() {
        return;
    }
    for user in users() {
        let stage = Stage::as_user(user, HONEST);
        let check = |name: &str| {
            let said = stage.agency(&["doctor", "--json"]);
            let checks: serde_json::Value = serde_json::from_str(&said.out).unwrap();
            let found = checks.as_array().unwrap().iter().filter(|check| check["name"] == name);
            found.cloned().collect::<Vec<_>>()
        };
        let denial = &check("denial")[0];
        assert_eq!(denial["fine"], true, "as {user:?}: {denial}");
        stage.configure(&format!("sandbox: {{ write: [\"{}\"] }}\n", stage.at("").display()));
        let opened = check("isolation");
        assert!(opened.iter().any(|check| check["fine"] == false), "{opened:?}");
        stage.configure("sandbox: { mode: off }\n");
        assert_eq!(check("denial").len(), 0, "nothing to prove");
        assert!(check("isolation")[0]["found"].to_string().contains("mode off"));
    }
}

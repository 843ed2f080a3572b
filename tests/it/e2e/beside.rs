//! The owner works in the same repository: nothing of theirs is committed, lost, overwritten or taken for an attack.

use super::parked::{
    all_of, detail, flag, gated, let_it_look, mark, parked_in, put_flag, quarantined, unmark,
    wait_for_a_run, wait_until_parked,
};
use super::stage::{FLAG, HONEST, STATE, Stage};
use serde_json::Value;

const ALL_FOUR: [&str; 4] = [
    "Review loop: Step 1 proposed",
    "Review loop: Step 1 approved",
    "Review loop: Step 1 executed",
    "Review loop: Step 1 advanced",
];

/// Every path that a commit of ours touched.
fn our_paths(stage: &Stage) -> Vec<String> {
    let log = stage.git(&["log", "--author=agency", "--name-only", "--format=", "main"]);
    log.lines().map(str::to_owned).collect()
}

fn commit(stage: &Stage, path: &str, text: &str) {
    stage.write(path, text);
    stage.git(&["add", path]);
    stage.git(&["commit", "--quiet", "-m", &format!("the owner's {path}"), "--", path]);
}

/// The one notice, which must have this end.
fn notice(stage: &Stage, state: &str) -> Value {
    stage.wait(&format!("one notice that is {state}"), || {
        let all = all_of(stage, "LP-20");
        let last = all.last()?;
        (last["state"] == state).then(|| last.clone())
    })
}

fn wait_until_held(stage: &Stage) {
    stage.wait("the hold", || {
        (stage.json(&["status", "--json"])["repos"][0]["held"] == true).then_some(())
    });
}

/// All four commits are there, and `git status` says this.
fn wait_for_the_end(stage: &Stage, status: &str) {
    stage.wait("the last commit", || (stage.transitions() == ALL_FOUR).then_some(()));
    wait_for_status(stage, status);
}

/// The owner's index is told of a commit right after it was made.
pub(super) fn wait_for_status(stage: &Stage, status: &str) {
    let mut found = String::new();
    let same = super::stage::wait_until(std::time::Duration::from_secs(10), || {
        found = stage.git(&["--no-optional-locks", "status", "--porcelain"]);
        (found == status).then_some(())
    });
    assert!(same.is_some(), "git status says:\n{found}\nand not:\n{status}");
}

// covers: LP-19
#[test]
fn unfinished_work_of_the_owner_stays_as_it_is() {
    let stage = parked_in("review");
    commit(&stage, "notes.txt", "one\n");
    commit(&stage, "later.txt", "one\n");
    stage.write("notes.txt", "one\nhalf a thought\n");
    stage.write("later.txt", "another half thought\n");
    stage.write(".env", "TOKEN=before\n");
    stage.write(".env.local", "TOKEN=too\n");
    stage.write("draft.txt", "staged\n");
    stage.git(&["add", "draft.txt"]);
    let daemon = stage.start();
    wait_until_parked(&stage, "review");
    stage.write("draft.txt", "staged\nand then edited\n");
    unmark(&stage, "fail-review");
    put_flag(&stage, &flag("codex", "approved"));
    wait_for_the_end(&stage, "AM draft.txt\n M later.txt\n M notes.txt\n?? .env\n?? .env.local");
    assert_eq!(daemon.stop(), 0);
    assert_eq!(stage.git(&["show", ":draft.txt"]), "staged", "the owner's index is the owner's");
    for (path, text) in [
        ("notes.txt", "one\nhalf a thought\n"),
        ("later.txt", "another half thought\n"),
        (".env", "TOKEN=before\n"),
        (".env.local", "TOKEN=too\n"),
        ("draft.txt", "staged\nand then edited\n"),
    ] {
        assert_eq!(stage.read(path).unwrap(), text, "{path}");
        assert!(!our_paths(&stage).contains(&path.to_owned()), "{path} is in a commit of ours");
    }
}

// covers: LP-19
#[test]
fn a_run_that_changed_the_owners_dirty_file_waits_for_the_owner() {
    let meddler = r#"[ "$AGENCY_PHASE" = execute ] && echo "the agent's line" >> notes.txt"#;
    let stage = Stage::new(&format!("{meddler}\n{HONEST}"));
    commit(&stage, "notes.txt", "one\n");
    stage.write("notes.txt", "one\nmine\n");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    let told = stage.wait("the hold", || stage.escalation("LP-19"));
    assert!(told["summary"].as_str().unwrap().contains("`notes.txt`"), "{told}");
    wait_until_held(&stage);
    assert_eq!(stage.transitions(), ALL_FOUR[..2], "nothing is committed meanwhile");
    assert_eq!(stage.read("notes.txt").unwrap(), "one\nmine\nthe agent's line\n");
    stage.git(&["commit", "--quiet", "-m", "mine and the agent's", "--", "notes.txt"]);
    stage.ok(&["resume"]);
    wait_for_the_end(&stage, "");
    assert!(!our_paths(&stage).contains(&"notes.txt".to_owned()));
    assert_eq!(stage.git(&["show", "main:notes.txt"]), "one\nmine\nthe agent's line");
    drop(daemon);
}

// covers: LP-19
#[test]
fn what_the_owner_edits_between_two_tries_is_no_reason_to_wait() {
    let stage = Stage::new(&gated());
    commit(&stage, "notes.txt", "one\n");
    mark(&stage, "fail-execute");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    stage.wait("the hold", || stage.escalation("SU-06"));
    stage.write("notes.txt", "one\nmine\n");
    unmark(&stage, "fail-execute");
    stage.ok(&["resume"]);
    wait_for_the_end(&stage, " M notes.txt");
    assert!(stage.escalation("LP-19").is_none(), "no run touched the owner's file");
    assert_eq!(stage.read("notes.txt").unwrap(), "one\nmine\n");
    drop(daemon);
}

// covers: LP-19
#[test]
fn what_the_owner_made_of_a_failed_tries_leavings_is_not_undone() {
    let leaver = r#"[ -e "$HOME/fail-execute" ] && [ "$AGENCY_PHASE" = execute ] && echo draft > result.txt"#;
    let stage = Stage::new(&format!("{leaver}\n{}", gated()));
    super::parked::park_for_long(&stage);
    mark(&stage, "fail-execute");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    wait_until_parked(&stage, "execute");
    commit(&stage, "result.txt", "draft, put right by the owner\n");
    unmark(&stage, "fail-execute");
    put_flag(&stage, &flag("claude-code", "executed"));
    wait_for_the_end(&stage, "");
    assert_eq!(stage.git(&["show", "main:result.txt"]), "draft, put right by the owner");
    drop(daemon);
}

// covers: LP-19, LP-20
#[test]
fn what_the_owner_does_after_a_run_that_ended_while_held_is_the_owners() {
    let wrong = r#"
if [ -e "$HOME/wrong" ] && [ "$AGENCY_PHASE" = execute ]; then
  printf '{"agent":"claude-code","step":"1","status":"approved","nextAgent":"codex","timestamp":"%s"}' \
    "$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)" > .agent-status.json
fi
"#;
    let stage = Stage::new(&format!("{wrong}{}", gated()));
    commit(&stage, "notes.txt", "one\n");
    for name in ["wrong", "wait-execute", "fail-execute"] {
        mark(&stage, name);
    }
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    stage.wait("the hold", || stage.escalation("LP-03"));
    unmark(&stage, "wait-execute");
    stage.wait("the end of the run, and our look at it", || {
        let journal = stage.json(&["journal", "--json", "-n", "100"]);
        let ran = |line: &Value| {
            line["kind"] == "ran"
                && line["body"]["outcome"].as_str().is_some_and(|how| how.starts_with("crashed"))
        };
        journal.as_array()?.iter().any(ran).then_some(())
    });
    commit(&stage, "mine.txt", "while it is held\n");
    stage.write("notes.txt", "one\nmine\n");
    unmark(&stage, "wrong");
    unmark(&stage, "fail-execute");
    stage.ok(&["resume"]);
    wait_for_the_end(&stage, " M notes.txt");
    for rule in ["LP-19", "LP-20"] {
        assert!(stage.escalation(rule).is_none(), "{:?}", stage.escalation(rule));
    }
    drop(daemon);
}

// covers: LP-20, LP-11
#[test]
fn another_branch_during_a_run_holds_and_is_judged_by_nobody() {
    let stage = Stage::new(&gated());
    stage.git(&["branch", "other"]);
    let other = stage.git(&["rev-parse", "other"]);
    mark(&stage, "wait-execute");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    wait_for_a_run(&stage, "execute");
    stage.git(&["switch", "--quiet", "other"]);
    unmark(&stage, "wait-execute");
    stage.wait("the end of the run", || {
        let runs = stage.json(&["runs", "--json"]);
        runs.as_array()?.iter().all(|run| run["state"] == "ended").then_some(())
    });
    wait_until_held(&stage);
    let told = notice(&stage, "open");
    assert_eq!((&told["severity"], &told["holds"]), (&"critical".into(), &true.into()), "{told}");
    assert!(stage.read(FLAG).is_some(), "its flag is not judged on the other branch");
    assert!(stage.read(STATE).is_none(), "nothing is written there");
    assert_eq!((stage.started().len(), stage.transitions().len()), (3, 2));
    stage.git(&["switch", "--quiet", "main"]);
    stage.ok(&["resume"]);
    stage.wait("the last commit", || (stage.transitions() == ALL_FOUR).then_some(()));
    assert_eq!(notice(&stage, "resolved")["count"], 1);
    assert_eq!(all_of(&stage, "LP-20").len(), 1, "one cause");
    assert!(stage.escalation("LP-11").is_none(), "nobody touched our state");
    assert_eq!(stage.git(&["rev-parse", "other"]), other);
    drop(daemon);
}

// covers: LP-20, LP-11
#[test]
fn another_branch_between_runs_is_waited_for() {
    let stage = parked_in("execute");
    stage.git(&["branch", "other"]);
    let daemon = stage.start();
    wait_until_parked(&stage, "execute");
    let started = stage.started().len();
    for round in 1..=5 {
        stage.git(&["switch", "--quiet", "other"]);
        stage.wait("a notice", || (all_of(&stage, "LP-20").len() == round).then_some(()));
        assert!(stage.read(STATE).is_none(), "nothing is written on the other branch");
        stage.git(&["switch", "--quiet", "main"]);
        notice(&stage, "resolved");
    }
    stage.git(&["switch", "--quiet", "other"]);
    notice(&stage, "open");
    unmark(&stage, "fail-execute");
    put_flag(&stage, &flag("claude-code", "executed"));
    let_it_look(&stage);
    assert!(stage.read(FLAG).is_some() && stage.started().len() == started);
    stage.git(&["switch", "--quiet", "main"]);
    stage.wait("the last commit", || (stage.transitions() == ALL_FOUR).then_some(()));
    assert!(stage.escalation("LP-11").is_none(), "{:?}", all_of(&stage, "LP-11"));
    drop(daemon);
}

// covers: LP-20
#[test]
fn a_stash_comes_and_goes_between_turns() {
    let stage = parked_in("execute");
    commit(&stage, "notes.txt", "one\n");
    stage.write("notes.txt", "one\nmine\n");
    let daemon = stage.start();
    wait_until_parked(&stage, "execute");
    stage.git(&["stash", "--quiet"]);
    let_it_look(&stage);
    unmark(&stage, "fail-execute");
    mark(&stage, "fail-verify");
    put_flag(&stage, &flag("claude-code", "executed"));
    wait_until_parked(&stage, "verify");
    stage.git(&["stash", "pop", "--quiet"]);
    let_it_look(&stage);
    put_flag(&stage, &flag("codex", "verified-clean"));
    // What came back while the turn was worked by hand is part of that work (LP-19).
    wait_for_the_end(&stage, "");
    assert_eq!(stage.read("notes.txt").unwrap(), "one\nmine\n");
    assert!(stage.escalation("LP-11").is_none() && stage.escalation("LP-19").is_none());
    drop(daemon);
}

/// A branch `other` whose `notes.txt` does not fit main's.
fn with_a_conflict(stage: &Stage) {
    stage.git(&["switch", "--quiet", "-c", "other"]);
    commit(stage, "notes.txt", "theirs\n");
    stage.git(&["switch", "--quiet", "main"]);
    commit(stage, "notes.txt", "ours\n");
}

/// Git stops in the middle and says so.
fn git_stops(stage: &Stage, words: &[&str]) {
    let all = ["-c", "user.name=Owner", "-c", "user.email=owner@example.com"];
    let mut command = std::process::Command::new("git");
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_EDITOR", "true");
    let output = command.args(all).args(words).current_dir(stage.repo()).output().unwrap();
    assert!(!output.status.success(), "git {words:?} must stop at the conflict");
}

// covers: LP-20, LP-11
#[test]
fn a_rebase_a_merge_and_a_left_lock_are_waited_for() {
    let stage = parked_in("execute");
    with_a_conflict(&stage);
    let daemon = stage.start();
    wait_until_parked(&stage, "execute");
    let tip = stage.git(&["rev-parse", "main"]);
    for (at, stop, go_on) in [
        (1, ["rebase", "other"], ["rebase", "--abort"]),
        (2, ["merge", "other"], ["merge", "--abort"]),
    ] {
        git_stops(&stage, &stop);
        stage.wait("a notice", || (all_of(&stage, "LP-20").len() == at).then_some(()));
        let_it_look(&stage);
        stage.git(&go_on);
        notice(&stage, "resolved");
        assert_eq!(stage.git(&["rev-parse", "main"]), tip);
    }
    let lock = stage.repo().join(".git/index.lock");
    let file = std::fs::File::create(&lock).unwrap();
    file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(9)).unwrap();
    stage.wait("a notice", || (all_of(&stage, "LP-20").len() == 3).then_some(()));
    unmark(&stage, "fail-execute");
    put_flag(&stage, &flag("claude-code", "executed"));
    let_it_look(&stage);
    assert!(stage.read(FLAG).is_some(), "not judged while git is busy");
    std::fs::remove_file(&lock).unwrap();
    wait_for_the_end(&stage, "");
    assert!(stage.escalation("LP-11").is_none(), "{:?}", all_of(&stage, "LP-11"));
    assert_eq!(stage.git(&["log", "--format=%s", "-1", "main~2"]), ALL_FOUR[1]);
    drop(daemon);
}

// covers: LP-20
#[test]
fn the_owner_may_finish_a_merge_between_two_transitions() {
    let stage = parked_in("execute");
    with_a_conflict(&stage);
    let daemon = stage.start();
    wait_until_parked(&stage, "execute");
    git_stops(&stage, &["merge", "other"]);
    notice(&stage, "open");
    stage.write("notes.txt", "both\n");
    stage.git(&["commit", "--quiet", "-a", "-m", "the owner's merge"]);
    notice(&stage, "resolved");
    unmark(&stage, "fail-execute");
    put_flag(&stage, &flag("claude-code", "executed"));
    stage.wait("the last commit", || (stage.transitions() == ALL_FOUR).then_some(()));
    assert_eq!(stage.git(&["show", "main:notes.txt"]), "both");
    drop(daemon);
}

/// The owner rewrites our last commit, then says which of the two is right; the loop must come to its end.
fn rewrite(words: &[&str], way_out: &[&str], transitions: &[&str]) {
    let stage = parked_in("execute");
    let daemon = stage.start();
    wait_until_parked(&stage, "execute");
    stage.git(words);
    let told = stage.wait("the hold", || stage.escalation("LP-20"));
    assert!(told["resolve"].as_str().unwrap().contains("agency adopt"), "{told}");
    wait_until_held(&stage);
    let refused = stage.agency(&["resume"]);
    assert!(refused.code == 1 && refused.err.contains("agency loop restore"), "{}", refused.err);
    unmark(&stage, "fail-execute");
    stage.ok(way_out);
    stage.wait("the last commit", || (stage.transitions() == transitions).then_some(()));
    assert_eq!(stage.escalation("LP-20").unwrap()["state"], "resolved");
    assert!(stage.escalation("LP-11").is_none(), "a reset is no forgery: {words:?}");
    stage.wait("a clean index", || {
        let words = ["--no-optional-locks", "status", "--porcelain", "--untracked-files=no"];
        stage.git(&words).is_empty().then_some(())
    });
    drop(daemon);
}

const RESET: [&str; 4] = ["reset", "--quiet", "--hard", "HEAD~1"];
const AMEND: [&str; 5] = ["commit", "--quiet", "--amend", "-m", "in the owner's words"];

// covers: LP-20
#[test]
fn a_rewritten_branch_is_adopted() {
    rewrite(&RESET, &["adopt"], &ALL_FOUR);
    let amended = [ALL_FOUR[0], "in the owner's words", ALL_FOUR[2], ALL_FOUR[3]];
    rewrite(&AMEND, &["adopt"], &amended);
}

// covers: LP-20
#[test]
fn a_rewritten_branch_gets_our_state_back() {
    rewrite(&RESET, &["loop", "restore"], &[ALL_FOUR[0], ALL_FOUR[2], ALL_FOUR[3]]);
    let amended = [ALL_FOUR[0], "in the owner's words", ALL_FOUR[2], ALL_FOUR[3]];
    rewrite(&AMEND, &["loop", "restore"], &amended);
}

// covers: LP-20
#[test]
fn the_owners_own_commits_between_transitions_are_fine() {
    let stage = parked_in("execute");
    let daemon = stage.start();
    wait_until_parked(&stage, "execute");
    commit(&stage, "mine.txt", "while it is parked\n");
    let_it_look(&stage);
    assert_eq!(daemon.stop(), 0);
    commit(&stage, "too.txt", "while it is down\n");
    unmark(&stage, "fail-execute");
    let daemon = stage.start();
    put_flag(&stage, &flag("claude-code", "executed"));
    wait_for_the_end(&stage, "");
    assert!(stage.escalation("LP-20").is_none());
    assert_eq!(
        stage.git(&["log", "--format=%s", "-2", "main~2"]),
        "the owner's too.txt\nthe owner's mine.txt"
    );
    drop(daemon);
}

// covers: LP-20
#[test]
fn an_agent_that_writes_history_is_held() {
    let names = "-c user.name=a -c user.email=a@example.com";
    for (deed, done) in [
        (format!("git {names} commit --quiet --allow-empty -m sneaky"), "log -1 --format=%s"),
        ("git branch sneaky".to_owned(), "branch --list sneaky --format=%(refname:short)"),
        ("git tag sneaky".to_owned(), "tag --list sneaky"),
    ] {
        let once = format!(r#"[ "$AGENCY_PHASE" = review ] && {deed}"#);
        let stage = Stage::new(&format!("{once}\n{HONEST}"));
        stage.ok(&["loop", "init", "--steps", "1"]);
        let daemon = stage.start();
        let told = stage.wait("the hold", || stage.escalation("LP-20"));
        assert_eq!((&told["severity"], &told["holds"]), (&"critical".into(), &true.into()));
        wait_until_held(&stage);
        assert_eq!(stage.git(&done.split(' ').collect::<Vec<_>>()), "sneaky", "left as evidence");
        assert_eq!(stage.transitions().len(), 1, "nothing is built on it");
        stage.ok(&["resume"]);
        stage.wait_for_phase("complete");
        drop(daemon);
    }
}

// covers: LP-11
#[test]
fn a_forged_state_file_is_put_right_and_told_once() {
    let stage = parked_in("execute");
    let daemon = stage.start();
    wait_until_parked(&stage, "execute");
    let ours = stage.read(STATE).unwrap();
    let repaired = |count: u64| {
        stage.wait("the repair", || {
            let told = stage.escalation("LP-11")?;
            (told["count"] == count && stage.read(STATE)? == ours).then_some(())
        });
    };
    stage.write(STATE, ours.replace("\"execute\"", "\"verify\""));
    repaired(1);
    let_it_look(&stage);
    assert_eq!(daemon.stop(), 0);
    stage.write(STATE, "{\"phase\": \"complete\"}");
    let daemon = stage.start();
    repaired(2);
    std::fs::remove_file(stage.repo().join(STATE)).unwrap();
    repaired(3);
    let_it_look(&stage);
    assert_eq!(all_of(&stage, "LP-11").len(), 1, "one cause");
    assert_eq!(stage.escalation("LP-11").unwrap()["count"], 3, "each forgery once");
    let kept = quarantined(&stage);
    assert!(kept.contains(&b"{\"phase\": \"complete\"}".to_vec()));
    assert!(kept.iter().any(|bytes| String::from_utf8_lossy(bytes).contains("\"verify\"")));
    assert_eq!(detail(&stage)["detail"]["phase"], "execute");
    unmark(&stage, "fail-execute");
    put_flag(&stage, &flag("claude-code", "executed"));
    stage.wait("the last commit", || (stage.transitions() == ALL_FOUR).then_some(()));
    drop(daemon);
}

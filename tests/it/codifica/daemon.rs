//! The daemon hands out tasks, starts agents in worktrees of their own, and judges what is committed.

use super::{CONFIG, stage_with, task};
use crate::e2e::stage::Stage;

/// Does its task honestly, and one thing more that a test may want.
fn agent(more: &str) -> String {
    let bin = env!("CARGO_BIN_EXE_agency");
    format!(
        "echo \"$AGENCY_AGENT $AGENCY_TASK $AGENCY_PHASE $(git branch --show-current)\" >> \"$HOME/started\"\n\
         printf '%s\\n' \"$1\" > \"$HOME/prompt-$AGENCY_TASK\"\n\
         mkdir -p src && echo \"made for $AGENCY_TASK\" > src/$AGENCY_TASK.txt\n\
         {more}\n\
         {bin} work artifact $AGENCY_TASK --path src/$AGENCY_TASK.txt --type text || exit 9\n\
         {bin} work submit $AGENCY_TASK --summary \"built $AGENCY_TASK\" || exit 9\n\
         {bin} work done $AGENCY_TASK --summary \"tested $AGENCY_TASK\" || exit 9\n"
    )
}

pub(crate) fn daemon_stage(config: &str, more: &str, tasks: &[String]) -> Stage {
    let stage = stage_with(&agent(more), config, tasks);
    let script = stage.at("agent.sh");
    let text = format!(
        "agents:\n  builder: {{ command: [sh, {0}, \"{{prompt}}\"], retries: 1, backoff: 100ms }}\n  writer: {{ command: [sh, {0}, \"{{prompt}}\"], retries: 0 }}\nroles: {{ builder: builder }}\ncodifica: {{ agents: [builder, writer] }}\n",
        script.display()
    );
    stage.set_config(&text);
    stage
}

/// It ends with 1 where something is held then.
fn run_once(stage: &Stage) {
    let code = stage.start_with(&["--once"]).wait();
    let held = stage.json(&["status", "--json"])["repos"][0]["held"] == true;
    assert_eq!(code, i32::from(held), "{}", stage.daemon_log());
}

/// What was told, but for the notices about the owner's own verbs.
fn rules(stage: &Stage) -> Vec<String> {
    let all = stage.json(&["escalations", "--all", "--json"]);
    let rules = all.as_array().unwrap().iter().map(|one| one["rule"].as_str().unwrap());
    rules.filter(|rule| *rule != "SE-04").map(str::to_owned).collect()
}

/// The escalations of one rule, as machines see them.
fn told(stage: &Stage, rule: &str) -> Vec<serde_json::Value> {
    let all = stage.json(&["escalations", "--all", "--json"]);
    all.as_array().unwrap().iter().filter(|one| one["rule"] == rule).cloned().collect()
}

// covers: CD-05, CD-08, CD-15, CD-18
#[test]
fn tasks_are_handed_out_in_order_and_their_agents_know_what_came_before() {
    let tasks = [
        task("FEAT-1", ""),
        task("FEAT-2", "  depends_on: [FEAT-1]\n"),
        task("FEAT-3", "  owner-note: kept\n"),
    ];
    let stage = daemon_stage(CONFIG, "", &tasks);
    run_once(&stage);
    assert_eq!(rules(&stage), ["DM-13"], "nothing happens before the owner says so");
    assert!(stage.started().is_empty());
    stage.ok(&["adopt"]);
    run_once(&stage);
    let list = stage.json(&["work", "list", "--json"]);
    let states: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["state"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        states,
        ["done", "done", "done"],
        "{}{}",
        stage.ok(&["escalations", "--all"]),
        stage.daemon_log()
    );
    let started = stage.started();
    assert_eq!(started.len(), 3, "{started:?}");
    assert!(
        started.iter().any(|line| line.ends_with("FEAT-1 work build/FEAT-1-task-feat-1")),
        "{started:?}"
    );
    let before = |a: &str, b: &str| {
        started.iter().position(|line| line.contains(a))
            < started.iter().position(|line| line.contains(b))
    };
    assert!(before("FEAT-1", "FEAT-2"), "{started:?}");
    let prompt = std::fs::read_to_string(stage.at("home/prompt-FEAT-2")).unwrap();
    for words in [
        "human_review",
        "<<<DATA",
        "id: FEAT-2",
        "tested FEAT-1",
        "src/FEAT-1.txt (text)",
        "build/FEAT-2-task-feat-2",
        "from its branch `build/FEAT-1-task-feat-1`, which is not merged into `main` yet",
        include_str!("../../spec/codifica-11.txt"),
    ] {
        assert!(prompt.contains(words), "the prompt lacks {words}:\n{prompt}");
    }
    assert_eq!(
        stage.git(&["show", "build/FEAT-2-task-feat-2:src/FEAT-1.txt"]),
        "made for FEAT-1",
        "the work of the dependency is in its tree"
    );
    assert_eq!(
        stage.git(&["show", "build/FEAT-1-task-feat-1:src/FEAT-1.txt"]),
        "made for FEAT-1",
        "uncommitted work is kept"
    );
    assert!(stage.read("src/FEAT-1.txt").is_none(), "nobody merges for the owner");
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    assert_eq!(
        stage.git(&["worktree", "list"]).lines().count(),
        1,
        "worktrees are gone, branches stay"
    );
    assert_eq!(rules(&stage), ["DM-13"]);
    assert!(stage.ok(&["work", "audit"]).contains("no violation"));
}

// covers: CD-10, CD-12, CD-16, CD-30
#[test]
fn what_really_changed_is_judged_against_the_scope() {
    let config = CONFIG.replace(
        "\"rules\":{",
        "\"rules\":{\"file_scope\":{\"include\":[\"src/**\"],\"exclude\":[\"*.key\"]},",
    );
    let sly = "echo x > src/my.key; echo x > elsewhere.txt; rm -f assets/FEAT-1/old.png; sed -i 's/title: Task FEAT-2/title: mine/' work/active.md";
    let stage = daemon_stage(
        &config,
        sly,
        &[task("FEAT-1", ""), task("FEAT-2", "  depends_on: [NEVER]\n")],
    );
    stage.write("assets/FEAT-1/old.png", "evidence");
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "evidence"]);
    stage.ok(&["adopt"]);
    run_once(&stage);
    let all = stage.json(&["escalations", "--all", "--json"]);
    let told = all
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["rule"] == "CD-16" || one["rule"] == "CD-12")
        .cloned();
    let told = told.unwrap_or_else(|| panic!("{all}\n{}", stage.daemon_log())).to_string();
    for words in [
        "my.key",
        "elsewhere.txt",
        "old.png",
        "CD-10",
        "Not committed on `build/FEAT-1-task-feat-1`",
        "refs/agency/snapshots/codifica-FEAT-1-end",
    ] {
        assert!(told.contains(words), "the message lacks {words}: {told}");
    }
    let kept = stage.git(&["log", "--name-only", "--format=", "build/FEAT-1-task-feat-1"]);
    assert!(kept.contains("src/FEAT-1.txt"), "{kept}");
    assert!(!kept.contains("my.key") && !kept.contains("elsewhere.txt"), "{kept}");
    let bytes = stage.git(&["show", "refs/agency/snapshots/codifica-FEAT-1-end:src/my.key"]);
    assert_eq!(bytes, "x", "nothing is thrown away");
    assert!(
        stage.read("work/active.md").unwrap().contains("Task FEAT-2"),
        "the owner's branch is untouched"
    );
}

// covers: CD-30
#[test]
fn a_file_outside_the_scope_that_an_agent_committed_leaves_the_branch() {
    let config =
        CONFIG.replace("\"rules\":{", "\"rules\":{\"file_scope\":{\"exclude\":[\"*.key\"]},");
    let sly = "echo x > src/my.key; git add -A; git -c user.name=a -c user.email=a@b commit --quiet -m mine";
    let stage = daemon_stage(&config, sly, &[task("FEAT-1", "")]);
    stage.ok(&["adopt"]);
    run_once(&stage);
    let branch = "build/FEAT-1-task-feat-1";
    let kept = stage.git(&["log", "--name-only", "--format=", branch]);
    assert!(kept.contains("src/FEAT-1.txt") && !kept.contains("my.key"), "{kept}");
    let told = told(&stage, "CD-12").pop().unwrap_or_else(|| panic!("{}", stage.daemon_log()));
    assert!(told["did"].as_str().unwrap().contains("`src/my.key`"), "{told}");
    let refs = stage.git(&["for-each-ref", "--format=%(refname)", "refs/agency/out-of-scope/"]);
    assert_eq!(stage.git(&["show", &format!("{refs}:src/my.key")]), "x", "kept apart");
}

// covers: CD-30
#[test]
fn a_file_outside_the_scope_that_an_agent_committed_and_deleted_again_leaves_the_history() {
    let config =
        CONFIG.replace("\"rules\":{", "\"rules\":{\"file_scope\":{\"exclude\":[\"*.key\"]},");
    let sly = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b\n\
               echo secret > src/my.key; git add -A; git commit --quiet -m mine\n\
               git rm --quiet src/my.key; git commit --quiet -m clean";
    let stage = daemon_stage(&config, sly, &[task("FEAT-1", "")]);
    stage.ok(&["adopt"]);
    run_once(&stage);
    let branch = "build/FEAT-1-task-feat-1";
    let kept = stage.git(&["log", "--name-only", "--format=", branch]);
    assert!(kept.contains("src/FEAT-1.txt") && !kept.contains("my.key"), "{kept}");
    let told = told(&stage, "CD-12").pop().unwrap_or_else(|| panic!("{}", stage.daemon_log()));
    assert!(told["did"].as_str().unwrap().contains("`src/my.key`"), "{told}");
    let refs = stage.git(&["for-each-ref", "--format=%(refname)", "refs/agency/out-of-scope/"]);
    assert_eq!(stage.git(&["show", &format!("{refs}~1:src/my.key")]), "secret", "kept apart");
}

/// FEAT-1 is done elsewhere: its work is on the branch `build/FEAT-1-task-feat-1` of a bare repository beside this one.
fn with_remote_work(stage: &Stage) {
    let branch = "build/FEAT-1-task-feat-1";
    stage.git(&["checkout", "--quiet", "-b", branch]);
    stage.write("src/FEAT-1.txt", "made elsewhere\n");
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "by FEAT-1"]);
    stage.git(&["checkout", "--quiet", "main"]);
    let done = stage.read("work/active.md").unwrap().replacen("state: todo", "state: done", 1);
    stage.write("work/active.md", done);
    stage.git(&["commit", "--quiet", "-a", "-m", "FEAT-1 is done"]);
    stage.git_in(&stage.at(""), &["init", "--quiet", "--bare", "remote.git"]);
    stage.let_runs_write("remote.git");
    stage.git(&["remote", "add", "hub", stage.at("remote.git").to_str().unwrap()]);
    stage.git(&["push", "--quiet", "hub", "main", branch]);
    stage.git(&["fetch", "--quiet", "hub"]);
}

// covers: CD-15
#[test]
fn the_work_of_a_dependency_is_found_on_its_remote_tracking_branch() {
    let stage =
        daemon_stage(CONFIG, "", &[task("FEAT-1", ""), task("FEAT-2", "  depends_on: [FEAT-1]\n")]);
    with_remote_work(&stage);
    stage.git(&["branch", "--quiet", "-D", "build/FEAT-1-task-feat-1"]);
    stage.ok(&["adopt"]);
    run_once(&stage);
    let found = stage.git(&["show", "build/FEAT-2-task-feat-2:src/FEAT-1.txt"]);
    assert_eq!(found, "made elsewhere", "{}", stage.daemon_log());
    let prompt = std::fs::read_to_string(stage.at("home/prompt-FEAT-2")).unwrap();
    let wanted = "your branch starts from its branch `hub/build/FEAT-1-task-feat-1`, which is not merged into `main` yet.";
    assert!(prompt.contains(wanted), "{prompt}");
}

// covers: CD-15
#[test]
fn a_remote_tracking_branch_that_is_ahead_of_the_local_one_counts_too() {
    let stage =
        daemon_stage(CONFIG, "", &[task("FEAT-1", ""), task("FEAT-2", "  depends_on: [FEAT-1]\n")]);
    let branch = "build/FEAT-1-task-feat-1";
    with_remote_work(&stage);
    stage.git(&["checkout", "--quiet", branch]);
    stage.write("src/more.txt", "more\n");
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "more by FEAT-1"]);
    stage.git(&["push", "--quiet", "hub", branch]);
    stage.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    stage.git(&["checkout", "--quiet", "main"]);
    stage.ok(&["adopt"]);
    run_once(&stage);
    assert_eq!(stage.git(&["show", "build/FEAT-2-task-feat-2:src/more.txt"]), "more");
    let prompt = std::fs::read_to_string(stage.at("home/prompt-FEAT-2")).unwrap();
    for words in ["its branch `build/FEAT-1", "its branch `hub/build/FEAT-1"] {
        assert!(prompt.contains(words), "no {words} in {prompt}");
    }
}

// covers: CD-15
#[test]
fn a_dependency_that_conflicts_waits_for_the_owner_and_goes_on_when_it_is_merged() {
    let stage =
        daemon_stage(CONFIG, "", &[task("FEAT-1", ""), task("FEAT-2", "  depends_on: [FEAT-1]\n")]);
    stage.git(&["checkout", "--quiet", "-b", "build/FEAT-1-task-feat-1"]);
    stage.write("README.md", "one way\n");
    stage.git(&["commit", "--quiet", "-a", "-m", "by FEAT-1"]);
    stage.git(&["checkout", "--quiet", "main"]);
    stage.write("README.md", "another way\n");
    let done = stage.read("work/active.md").unwrap().replacen("state: todo", "state: done", 1);
    stage.write("work/active.md", done);
    stage.git(&["commit", "--quiet", "-a", "-m", "the owner's way"]);
    stage.ok(&["adopt"]);
    let daemon = stage.start();
    let all = stage.wait("the conflict to be told", || {
        Some(told(&stage, "CD-15")).filter(|all| !all.is_empty())
    });
    daemon.stop();
    let said = all[0]["summary"].as_str().unwrap();
    assert!(
        said.contains("`build/FEAT-1-task-feat-1` conflicts with `main` in README.md"),
        "{said}"
    );
    assert!(stage.started().is_empty());
    stage.git(&["merge", "--quiet", "-s", "ours", "-m", "merged", "build/FEAT-1-task-feat-1"]);
    stage.ok(&["resume"]);
    run_once(&stage);
    assert_eq!(stage.json(&["work", "show", "FEAT-2", "--json"])["state"], "done");
    let prompt = std::fs::read_to_string(stage.at("home/prompt-FEAT-2")).unwrap();
    assert!(prompt.contains("is merged into `main`"), "{prompt}");
}

// covers: CD-10, CD-06, CD-20
#[test]
fn foreign_commits_are_judged_by_their_author_once() {
    let stage = daemon_stage(
        CONFIG,
        "exit 0",
        &[
            task("FEAT-1", "").replace("unassigned", "human"),
            task("FEAT-2", "").replace("unassigned", "human"),
        ],
    );
    stage.ok(&["adopt"]);
    let edit = |from: &str, to: &str, author: &str| {
        stage.write("work/active.md", stage.read("work/active.md").unwrap().replacen(from, to, 1));
        stage.git(&["commit", "--quiet", "-a", "-m", "an edit", "--author", author]);
    };
    edit("title: Task FEAT-1", "title: better", "Owner <owner@example.com>");
    run_once(&stage);
    assert_eq!(rules(&stage), [""; 0], "humans may edit");
    edit("title: Task FEAT-2", "title: mine", "agent:sly <sly@agent.localhost>");
    edit("title: better", "title: best", "Owner <owner@example.com>");
    run_once(&stage);
    assert_eq!(rules(&stage), ["CD-10"]);
    run_once(&stage);
    let all = told(&stage, "CD-10");
    assert_eq!((all.len(), &all[0]["count"]), (1, &1.into()), "told once: {all:?}");
    assert!(all[0]["summary"].as_str().unwrap().contains("agent:sly"), "{all:?}");
}

// covers: CD-10, CD-20
#[test]
fn an_edit_in_no_commit_is_told_once_with_a_diff_and_stays() {
    let stage =
        daemon_stage(CONFIG, "exit 0", &[task("FEAT-1", "").replace("unassigned", "human")]);
    stage.ok(&["adopt"]);
    let text = stage.read("work/active.md").unwrap();
    stage.write("work/active.md", text.replace("title: Task FEAT-1", "title: better"));
    run_once(&stage);
    assert_eq!(rules(&stage), [""; 0], "people may edit");
    let wrong = text.replace("state: todo", "state: done");
    stage.write("work/active.md", &wrong);
    run_once(&stage);
    run_once(&stage);
    let all = told(&stage, "CD-07");
    assert_eq!((all.len(), &all[0]["count"]), (1, &1.into()), "told once: {all:?}");
    assert!(all[0]["summary"].as_str().unwrap().starts_with("agent or human: FEAT-1"), "{all:?}");
    let evidence = all[0]["evidence"].to_string();
    for words in ["-   state: todo", "+   state: done", "CD-20"] {
        assert!(evidence.contains(words), "the message lacks {words}: {evidence}");
    }
    assert_eq!(stage.read("work/active.md").unwrap(), wrong, "it belongs to people");
    let status = stage.json(&["status", "--json"]).to_string();
    assert!(status.contains("refused: work/active.md"), "{status}");
    stage.write("work/active.md", &text);
    run_once(&stage);
    assert_eq!(told(&stage, "CD-07")[0]["state"], "resolved", "{}", stage.daemon_log());
    // The contract counts as it is committed: an edit of it changes nothing, and is told.
    stage.write(
        "codifica.json",
        CONFIG.replace("\"rules\":{", "\"rules\":{\"allowed_agents\":[\"x\"],"),
    );
    run_once(&stage);
    assert_eq!(rules(&stage), ["CD-07", "CD-12"]);
}

// covers: CD-16
#[test]
fn images_in_the_main_tree_are_guarded_committed_or_not() {
    let stage =
        daemon_stage(CONFIG, "exit 0", &[task("FEAT-1", "").replace("unassigned", "human")]);
    stage.write("assets/FEAT-1/a.png", "one");
    stage.write("assets/FEAT-1/b.PNG", "two");
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "evidence"]);
    stage.ok(&["adopt"]);
    run_once(&stage);
    assert_eq!(rules(&stage), [""; 0]);
    std::fs::remove_file(stage.repo().join("assets/FEAT-1/a.png")).unwrap();
    stage.write("assets/FEAT-1/b.PNG", "forged");
    stage.write("assets/stray.png", "of nobody");
    stage.write("assets/FEAT-1/new.png", "more evidence is welcome");
    run_once(&stage);
    run_once(&stage);
    let all = told(&stage, "CD-16");
    assert_eq!((all.len(), &all[0]["count"]), (1, &1.into()), "{all:?} {}", stage.daemon_log());
    let said = all[0]["evidence"].to_string();
    for words in ["a.png", "b.PNG", "stray.png"] {
        assert!(said.contains(words), "the message lacks {words}: {said}");
    }
    assert!(!said.contains("CD-16  assets/FEAT-1/new.png"), "{said}");
    std::fs::remove_file(stage.repo().join("assets/stray.png")).unwrap();
    stage.git(&["checkout", "--quiet", "--", "assets"]);
    run_once(&stage);
    assert_eq!(told(&stage, "CD-16")[0]["state"], "resolved");
    stage.git(&["rm", "--quiet", "assets/FEAT-1/a.png"]);
    stage.git(&["commit", "--quiet", "-m", "tidy", "--author", "agent:sly <sly@agent.localhost>"]);
    run_once(&stage);
    let all = told(&stage, "CD-16");
    assert_eq!(all.len(), 2, "a commit that deletes one is told by its author: {all:?}");
    assert!(all.iter().any(|one| one["summary"].as_str().unwrap().contains("agent:sly")));
    let audit = stage.agency(&["work", "audit"]);
    assert!(audit.code == 1 && audit.out.contains("CD-16"), "{}", audit.out);
}

// covers: SE-04
#[test]
fn what_only_a_human_may_do_is_announced_and_refused_to_agents() {
    let bin = env!("CARGO_BIN_EXE_agency");
    let verbs = [
        "block",
        "unblock",
        "reject",
        "reopen",
        "reclaim",
        "review --status pass",
        "submit",
        "archive",
    ];
    let mut sly = String::new();
    for verb in verbs {
        let reason = if verb.contains("review")
            || verb == "archive"
            || verb == "submit"
            || verb == "unblock"
        {
            ""
        } else {
            "--reason x"
        };
        sly.push_str(&format!(
            "{bin} work {verb} FEAT-1 --as-human {reason} >> \"$HOME/said\" 2>&1 && exit 8\n"
        ));
    }
    // Without its environment it is the same agent still.
    sly.push_str(&format!("env -u AGENCY_AGENT -u AGENCY_RUN {bin} work claim FEAT-2 --agent writer >> \"$HOME/said\" 2>&1 && exit 8\n"));
    sly.push_str(&format!("env AGENCY_AGENT=writer {bin} work claim FEAT-2 --agent writer >> \"$HOME/said\" 2>&1 && exit 8\n"));
    let tasks = [
        task("FEAT-1", "").replace("unassigned", "agent:builder"),
        task("FEAT-2", "").replace("unassigned", "human"),
    ];
    let stage = daemon_stage(CONFIG, &sly, &tasks);
    stage.ok(&["adopt"]);
    run_once(&stage);
    let said = std::fs::read_to_string(stage.at("home/said")).unwrap();
    assert_eq!(said.matches("SE-04").count(), verbs.len(), "{said}");
    assert_eq!(said.matches("may not speak for").count(), 2, "{said}");
    assert_eq!(stage.json(&["work", "show", "FEAT-1", "--json"])["state"], "done", "{said}");
    let before = told(&stage, "SE-04").len();
    stage.ok(&["work", "reopen", "FEAT-1", "--as-human", "--reason", "not yet"]);
    stage.ok(&["work", "reject", "FEAT-1", "--as-human", "--reason", "no need"]);
    stage.ok(&["work", "block", "FEAT-2", "--as-human", "--reason", "wait"]);
    run_once(&stage);
    let all = told(&stage, "SE-04");
    assert_eq!(all.len(), before + 2, "{all:?}");
    let said = serde_json::to_string(&all).unwrap();
    for words in ["FEAT-1: done → todo (not yet)", "FEAT-1: todo → rejected (no need)"] {
        assert!(said.contains(words), "nobody announced {words}: {said}");
    }
}

// covers: SE-01
#[test]
fn a_command_runs_git_as_it_was_pinned_for_the_daemon() {
    let stage =
        daemon_stage(CONFIG, "exit 0", &[task("FEAT-1", "").replace("unassigned", "human")]);
    stage.ok(&["adopt"]);
    stage.ok(&["work", "list"]);
    stage.git(&["config", "core.fsmonitor", "./evil.sh"]);
    let said = stage.agency(&["work", "claim", "FEAT-1", "--as-human"]);
    assert!(
        said.code == 1 && said.err.contains("SE-01") && said.err.contains("fsmonitor"),
        "{}",
        said.err
    );
    run_once(&stage);
    assert_eq!(rules(&stage), ["SE-01"], "{}", stage.daemon_log());
    stage.git(&["config", "--unset", "core.fsmonitor"]);
    stage.ok(&["trust"]);
    stage.ok(&["work", "claim", "FEAT-1", "--as-human"]);
    run_once(&stage);
    assert_eq!(told(&stage, "SE-01")[0]["state"], "resolved");
}

// covers: CD-26
#[test]
fn a_spec_that_is_gone_stops_the_handing_out_until_it_is_back() {
    let stage = daemon_stage(CONFIG, "", &[task("FEAT-1", "")]);
    stage.ok(&["adopt"]);
    std::fs::rename(stage.repo().join("spec.md"), stage.at("spec.md")).unwrap();
    run_once(&stage);
    assert_eq!((rules(&stage), stage.started().len()), (vec!["CD-01".to_owned()], 0));
    std::fs::rename(stage.at("spec.md"), stage.repo().join("spec.md")).unwrap();
    run_once(&stage);
    assert_eq!(stage.json(&["work", "show", "FEAT-1", "--json"])["state"], "done");
    assert_eq!(told(&stage, "CD-01")[0]["state"], "resolved");
}

// covers: CD-11
#[test]
fn a_stale_claim_is_told_once_and_never_taken() {
    let stale = task("FEAT-1", "  claimed_at: 2020-01-01T00:00:00Z\n")
        .replace("todo", "in_progress")
        .replace("unassigned", "agent:gone");
    let stage = daemon_stage(CONFIG, "exit 0", &[stale]);
    stage.ok(&["adopt"]);
    run_once(&stage);
    run_once(&stage);
    assert_eq!(rules(&stage), ["CD-11"]);
    assert_eq!(told(&stage, "CD-11")[0]["count"], 1);
    assert_eq!(stage.json(&["work", "show", "FEAT-1", "--json"])["owner"], "agent:gone");
}

// covers: CD-06, CD-24
#[test]
fn a_dependency_that_falls_back_is_noted_by_us() {
    let done = task("BASE", "  completed_at: 2026-01-01T00:00:00Z\n")
        .replace("todo", "done")
        .replace("unassigned", "human");
    let now = "2099-01-01T00:00:00Z";
    let next = task("FEAT-1", &format!("  depends_on: [BASE]\n  claimed_at: {now}\n"))
        .replace("todo", "in_progress")
        .replace("unassigned", "agent:else");
    let stage = daemon_stage(CONFIG, "exit 0", &[done, next]);
    stage.ok(&["adopt"]);
    stage.ok(&["work", "reopen", "BASE", "--as-human", "--reason", "it was not done"]);
    run_once(&stage);
    let noted = stage.json(&["work", "show", "FEAT-1", "--json"]);
    assert_eq!(noted["execution_notes"][0]["by"], "agent:agency", "{noted} {}", stage.daemon_log());
    assert!(noted["execution_notes"][0]["note"].as_str().unwrap().contains("BASE"));
    assert_eq!(noted["state"], "in_progress", "never reverted by us");
    assert_eq!(rules(&stage), [""; 0]);
}

// covers: CD-08, CD-12
#[test]
fn an_agent_that_leaves_its_task_is_tried_again_and_then_told() {
    let stage = daemon_stage(
        CONFIG,
        "exit 3",
        &[task("FEAT-1", "").replace("unassigned", "agent:builder")],
    );
    stage.ok(&["adopt"]);
    run_once(&stage);
    assert_eq!(stage.started().len(), 2, "one try and one retry");
    assert_eq!(rules(&stage), ["SU-06"]);
    assert_eq!(
        stage.json(&["work", "show", "FEAT-1", "--json"])["state"],
        "in_progress",
        "the claim stays"
    );
    std::fs::write(stage.at("agent.sh"), agent("")).unwrap();
    stage.ok(&["resume"]);
    run_once(&stage);
    assert_eq!(
        stage.json(&["work", "show", "FEAT-1", "--json"])["state"],
        "done",
        "{}",
        stage.daemon_log()
    );
}

// covers: CD-08
#[test]
fn a_lock_that_a_killed_git_left_is_told_and_work_goes_on_when_it_is_gone() {
    let stage = daemon_stage(CONFIG, "", &[task("FEAT-1", "")]);
    stage.ok(&["adopt"]);
    let lock = stage.repo().join(".git/index.lock");
    std::fs::write(&lock, "").unwrap();
    let minutes_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(120);
    std::fs::File::open(&lock).unwrap().set_modified(minutes_ago).unwrap();
    run_once(&stage);
    let away = told(&stage, "CD-08");
    assert_eq!(
        (away.len(), &away[0]["severity"], &away[0]["state"]),
        (1, &"warning".into(), &"open".into())
    );
    assert!(stage.ok(&["status"]).contains("away: `index.lock` lies in the git directory"));
    assert!(stage.started().is_empty());
    std::fs::remove_file(&lock).unwrap();
    run_once(&stage);
    assert_eq!(told(&stage, "CD-08")[0]["state"], "resolved");
    assert_eq!(stage.started().len(), 1);
}

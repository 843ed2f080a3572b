//! Around a task's work: what its tree is made of, what the owner does meanwhile, and whose word does not count.

use super::running::{CONFIG, artifact, board_with, log, merges, on_main, task, work};
use super::status;
use crate::e2e::stage::Stage;

fn release(stage: &Stage) {
    std::fs::remove_file(stage.at("home/wait")).unwrap();
}

// covers: AG-14, AG-19
#[test]
fn a_tree_is_prepared_and_an_override_merges() {
    let config = CONFIG.replace(
        "disk_floor: 1MiB",
        "disk_floor: 1MiB, setup: [\"echo $AGENCY_TASK >> $HOME/setups && touch .made\"], copy: [.env.test]",
    );
    let stage = board_with(&config);
    stage.write(".gitignore", ".env.test\n.made\n");
    stage.write(".env.test", "KEY=1\n");
    stage.write(".kodingx/RISKS.md", "# Risks\n\n### R-001: it may burn\n**Priority:** P1 (High)\n**Status:** OPEN\n**Linked Tasks:** none\n");
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "settings"]);
    let plain = task(&stage, "plain", &[]);
    let risky = task(&stage, "risky", &["--risk", "R-001"]);
    work(&stage);
    assert_eq!(status(&stage, &plain.1), "DONE", "{}", log(&stage));
    let setups = std::fs::read_to_string(stage.at("home/setups")).unwrap();
    assert_eq!(setups.matches(&plain.0).count(), 2, "once in each of its trees: {setups}");
    assert!(std::fs::read_to_string(stage.at("home/copied")).unwrap().contains("KEY=1"));
    assert_eq!(on_main(&stage, ".env.test"), None);
    assert_eq!(status(&stage, &risky.1), "READY_FOR_REVIEW");
    assert!(stage.escalation("AG-20").unwrap()["summary"].to_string().contains("R-001"));
    let after = task(&stage, "look at it later", &["--assignee", "alice"]);
    let overridden = stage.agency(&[
        "verify",
        "--task",
        &risky.0,
        "--override",
        "--reason",
        "we must",
        "--followup",
        &after.0,
        "--approver",
        "owner@example.com",
    ]);
    assert!(
        overridden.out.contains("overridden") || overridden.err.contains("overridden"),
        "{}{}",
        overridden.out,
        overridden.err
    );
    work(&stage);
    assert_eq!(status(&stage, &risky.1), "DONE", "{}", log(&stage));
    assert_eq!(merges(&stage).len(), 2);
    assert_eq!(artifact(&stage, &risky.1)["override"]["approved"], true);
    assert!(on_main(&stage, ".kodingx/DECISIONS.md").unwrap().contains("ADR-001"));
    assert!(on_main(&stage, ".kodingx/RISKS.md").unwrap().contains("R-002"));
}

// covers: AG-14
#[test]
fn a_disk_that_is_too_full_makes_no_tree() {
    let stage = board_with(&CONFIG.replace("1MiB", "1000000GiB"));
    let (_, file) = task(&stage, "plain", &[]);
    work(&stage);
    assert_eq!(status(&stage, &file), "BLOCKED", "{}", log(&stage));
    assert!(stage.escalation("SU-06").is_some());
    assert!(stage.daemon_log().contains("must stay free"), "{}", stage.daemon_log());
    assert_eq!(stage.started().len(), 0);
}

// covers: AG-14
#[test]
fn a_moved_target_is_verified_anew_and_the_owners_dirty_file_is_waited_for() {
    let stage = board_with(CONFIG);
    let slow = "name: slow\ndescription: waits\ncommands:\n  - \"ls work | grep -q T0 || exit 0; echo x >> $HOME/verifies; while [ -e $HOME/hold ]; do sleep 0.05; done\"\n";
    stage.write(".kodingx/dod/profiles/slow.yml", slow);
    stage.write("work/shared.txt", "as it was\n");
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "slow"]);
    std::fs::write(stage.at("home/hold"), "").unwrap();
    let made = stage.json(&[
        "task",
        "new",
        "--title",
        "a clash",
        "--assignee",
        "claude-code",
        "--dod-profile",
        "slow",
        "--may-touch",
        "work/**",
        "--json",
    ]);
    let (id, file) =
        (made["id"].as_str().unwrap(), std::path::PathBuf::from(made["path"].as_str().unwrap()));
    stage.write("work/shared.txt", "half a thought\n");
    let daemon = stage.start();
    let verifies =
        || std::fs::read_to_string(stage.at("home/verifies")).unwrap_or_default().len() / 2;
    stage.wait("the verify", || (verifies() == 1).then_some(()));
    stage.write("other.txt", "the owner goes on\n");
    stage.git(&["add", "other.txt"]);
    stage.git(&["commit", "--quiet", "-m", "meanwhile", "--", "other.txt"]);
    std::fs::remove_file(stage.at("home/hold")).unwrap();
    stage.wait("another verify", || (verifies() == 2).then_some(()));
    // It passes, but the owner has the file open: the artifact is written after the try to merge.
    stage.wait("the artifact", || {
        let day = file.parent().unwrap().file_name().unwrap().to_str().unwrap();
        let stem = file.file_stem().unwrap().to_str().unwrap();
        stage.read(&format!(".kodingx/verify/{day}/{stem}.verify.json"))
    });
    assert_eq!((merges(&stage).len(), status(&stage, &file)), (0, "READY_FOR_REVIEW".to_owned()));
    assert_eq!(stage.read("work/shared.txt").as_deref(), Some("half a thought\n"));
    stage.git(&["checkout", "--quiet", "--", "work/shared.txt"]);
    stage.wait("the merge", || (status(&stage, &file) == "DONE").then_some(()));
    assert_eq!(stage.read("work/shared.txt").unwrap().trim(), id);
    assert_eq!(merges(&stage).len(), 1);
    assert_eq!(daemon.stop(), 0);
}

// covers: AG-07, AG-14, AG-11
#[test]
fn nobody_reports_for_another() {
    let stage = board_with(CONFIG);
    std::fs::write(stage.at("home/wait"), "").unwrap();
    let (id, file) = task(&stage, "plain", &[]);
    let (later, later_file) = task(&stage, "later", &["--depends-on", &id]);
    let daemon = stage.start();
    stage.wait("the builder", || (stage.started().len() == 1).then_some(()));
    let report = |task: &std::path::Path, id: &str, agent: &str| {
        let (stem, day) = (
            task.file_stem().unwrap().to_str().unwrap(),
            task.parent().unwrap().file_name().unwrap().to_str().unwrap(),
        );
        let path = format!(".kodingx/outbox/{agent}/{day}/{stem}-report.md");
        stage.write(&path, format!(
            "---\ntask_id: {id}\nagent: {agent}\nstatus: READY_FOR_REVIEW\nstarted_at: 2026-01-31T16:12:00Z\nfinished_at: 2026-01-31T16:45:00Z\n\
             changes:\n  files_modified: []\ncommands_run: []\nverification:\n  dod_passed: true\nrisks: []\n---\n"
        ));
        stage.wait("the refusal", || {
            let all = stage.json(&["escalations", "--json"]);
            let found = all
                .as_array()
                .unwrap()
                .iter()
                .find(|one| one["rule"] == "AG-07" && one.to_string().contains(&path))?;
            Some(found["summary"].as_str().unwrap().to_owned())
        })
    };
    let said = report(&file, &id, "claude-code");
    assert!(said.contains("owner's tree") || said.contains("worktree"), "{said}");
    report(&file, &id, "codex");
    let said = report(&later_file, &later, "claude-code");
    assert!(said.contains("ASSIGNED"), "{said}");
    assert_eq!(status(&stage, &file), "IN_PROGRESS");
    release(&stage);
    stage.wait("both", || (status(&stage, &later_file) == "DONE").then_some(()));
    assert_eq!(daemon.stop(), 0);
}

// covers: SE-08
#[test]
fn a_worktree_that_was_swapped_is_not_entered_and_goes_on_when_it_is_back() {
    let stage = board_with(CONFIG);
    // The sandbox would keep the agent from it.
    stage.without_sandbox();
    let (id, file) = task(&stage, "swaps its tree", &[]);
    let before = stage.git(&["rev-parse", "main"]);
    let daemon = stage.start();
    let told = stage.wait("the swap to be told", || stage.escalation("SE-08"));
    assert!(told["summary"].as_str().unwrap().contains("a symlink"), "{told}");
    let shown = stage.json(&["status", "--json"]);
    let condition = &shown["repos"][0]["protocols"][0]["condition"];
    assert_eq!(condition["kind"], "held", "{shown}");
    assert!(condition["resolve"].as_str().unwrap().contains("put the worktree back"), "{shown}");
    assert!(!stage.repo().join(format!("work/{id}.txt")).exists(), "the owner's tree is as it was");
    assert_eq!(stage.git(&["status", "--porcelain", "--", "work"]), "");
    assert_eq!(stage.git(&["diff", "--name-only", &before, "main", "--", "work"]), "");
    let trees = std::fs::read_dir(stage.folder().join("worktrees")).unwrap().flatten();
    let links: Vec<_> = trees.map(|one| one.path()).filter(|path| path.is_symlink()).collect();
    let [link] = &links[..] else { panic!("{links:?}") };
    std::fs::remove_file(link).unwrap();
    std::fs::rename(format!("{}.mine", link.display()), link).unwrap();
    stage.wait("the task to be done", || (status(&stage, &file) == "DONE").then_some(()));
    stage.wait("the message to be resolved", || {
        (stage.escalation("SE-08")?["state"] == "resolved").then_some(())
    });
    assert_eq!(daemon.stop(), 0);
}

//! `kill -9` of the daemon and of agents at any moment of many handoffs: each message stays in exactly one folder, none is lost,
//! and none is delivered again without a retry that was counted.

use super::super::stage::Stage;
use super::{RELAY, events, messages, state};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Handoffs that see kills; `AGENCY_TRIALS=200` is the full number.
const EVERYDAY: usize = 8;
const FULL: usize = 200;
/// Several short workflows at a time are quicker than a long one, and each begins and ends under kills.
const WORKFLOWS: usize = 4;

/// Of one handoff, no more: the pause before each further try is twice as long.
const TRIES_KILLED: usize = 3;

/// What happened to one workflow, or to all of them.
#[derive(Default, Debug)]
struct Tally {
    handoffs: usize,
    daemons_killed: usize,
    agents_killed: usize,
    retries: usize,
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % limit
    }

    /// Some moment within so long: what comes next hits no two tries at the same place.
    fn pause(&mut self, limit_ms: u64) {
        std::thread::sleep(Duration::from_millis(self.roll(limit_ms)));
    }
}

fn is_complete(stage: &Stage) -> bool {
    state(stage)["current_workflow"]["status"] == "completed"
}

/// What a git leaves that is killed at work. The owner is told of it (HO-11), and takes it away: no git here works for so long.
fn clear_old_locks(stage: &Stage) {
    for lock in ["index.lock", "HEAD.lock", "refs/heads/main.lock"] {
        let lock = stage.repo().join(".git").join(lock);
        let age = lock.metadata().and_then(|meta| meta.modified()).map(|at| at.elapsed());
        if matches!(age, Ok(Ok(age)) if age > Duration::from_secs(3)) {
            std::fs::remove_file(lock).ok();
        }
    }
}

/// Ends the agent that is alive, if one is: by the pid that it left, if that is still this stage's script.
fn kill_agent(stage: &Stage) -> bool {
    let pid = std::fs::read_to_string(stage.at("home/pid")).ok();
    let Some(pid) = pid.and_then(|pid| pid.trim().parse::<i32>().ok()) else { return false };
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let script = stage.at("agent.sh");
    let is_ours = String::from_utf8_lossy(&words).contains(script.to_str().unwrap());
    is_ours && kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok()
}

fn tries_of_the_last(stage: &Stage) -> usize {
    let started = stage.started();
    let task = |line: &String| line.rsplit(' ').next().map(str::to_owned);
    let last = started.last().and_then(task);
    started.iter().filter(|line| task(line) == last).count()
}

/// One life of the daemon: it works for a while, an agent may die, then it dies itself.
fn live_and_die(stage: &Stage, dice: &mut Dice, tally: &mut Tally) {
    let begun = stage.started().len();
    let daemon = stage.start();
    // A daemon that dies while it starts is as good as any other.
    if dice.roll(4) == 0 {
        dice.pause(100);
    } else {
        let enough = begun + 1 + usize::try_from(dice.roll(2)).unwrap();
        stage.wait("the next agents", || {
            clear_old_locks(stage);
            (stage.started().len() >= enough || is_complete(stage)).then_some(())
        });
        dice.pause(120);
        if dice.roll(4) > 0 && tries_of_the_last(stage) <= TRIES_KILLED {
            tally.agents_killed += usize::from(kill_agent(stage));
        }
        dice.pause(80);
    }
    daemon.kill();
    tally.daemons_killed += 1;
}

/// A fix iteration is two handoffs; the plan and the first review are two more.
fn play(fixes: usize, seed: u64) -> Tally {
    let stage = Stage::new(RELAY);
    stage.configure_agents("retries: 20, backoff: 20ms", "handoff: { max_iterations: 1000 }\n");
    std::fs::write(stage.at("home/fixes"), fixes.to_string()).unwrap();
    std::fs::write(stage.at("home/slow"), "0.08").unwrap();
    stage.ok(&["handoff", "start", "Add user auth"]);
    let mut tally = Tally { handoffs: 2 + 2 * fixes, ..Tally::default() };
    let mut dice = Dice(seed);
    while !is_complete(&stage) {
        live_and_die(&stage, &mut dice, &mut tally);
    }
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    tally.retries = judge(&stage, tally.handoffs);
    tally
}

/// What must hold afterwards. Returns how many deliveries were counted as retries.
fn judge(stage: &Stage, handoffs: usize) -> usize {
    let said = stage.ok(&["escalations", "--all"]);
    assert!(is_complete(stage), "{said}");
    let all = messages(stage);
    let handed = all.values().filter(|places| {
        !matches!(places[0].1["type"].as_str().unwrap(), "completion" | "escalation")
    });
    assert_eq!(handed.count(), handoffs, "every handoff once: {said}");
    for (id, places) in &all {
        assert_eq!((places.len(), places[0].0.as_str()), (1, "completed"), "{id}");
    }
    let events = events(stage);
    let of = |name: &str| {
        let mut runs: BTreeMap<String, usize> = BTreeMap::new();
        for event in events.iter().filter(|event| event["event"] == name) {
            *runs.entry(event["context"]["run"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        runs
    };
    let (started, completed, failed) =
        (of("agent_started"), of("agent_completed"), of("error_occurred"));
    assert!(started.values().all(|times| *times == 1), "no run began twice");
    assert_eq!(completed.len(), 1 + handoffs, "each handoff and the plan ended well once");
    let counted = completed.len() + failed.len();
    assert_eq!(started.len(), counted, "every further delivery is a counted retry");
    let mut really: Vec<String> = stage.started();
    really.sort();
    let lines = really.len();
    really.dedup();
    assert_eq!(really.len(), lines, "no agent was started twice for one run");
    assert!(really.len() <= counted, "more agents began than were counted");
    failed.len()
}

// covers: HO-02, HO-03, HO-06, DM-06
#[test]
fn kills_of_daemon_and_agents_lose_no_message_and_deliver_none_twice_uncounted() {
    let trials = std::env::var("AGENCY_TRIALS").ok().and_then(|text| text.parse().ok());
    let trials: usize = trials.unwrap_or(EVERYDAY).min(FULL);
    let workflows = if trials > EVERYDAY { WORKFLOWS } else { 1 };
    let fixes = (trials.div_ceil(workflows) / 2).saturating_sub(1).max(1);
    let begun = Instant::now();
    let all = std::thread::scope(|scope| {
        let seeds = 7..7 + workflows as u64;
        let playing: Vec<_> = seeds.map(|seed| scope.spawn(move || play(fixes, seed))).collect();
        playing.into_iter().fold(Tally::default(), |sum, one| {
            let one = one.join().expect("a workflow failed, see above");
            Tally {
                handoffs: sum.handoffs + one.handoffs,
                daemons_killed: sum.daemons_killed + one.daemons_killed,
                agents_killed: sum.agents_killed + one.agents_killed,
                retries: sum.retries + one.retries,
            }
        })
    });
    eprintln!("{all:?} in {} s", begun.elapsed().as_secs());
    assert!(all.daemons_killed > 0, "nothing was tried: {all:?}");
    // A few handoffs may be over before one of their agents is met alive.
    assert!(
        workflows == 1 || all.agents_killed * 8 > all.handoffs,
        "too little was tried: {all:?}"
    );
}

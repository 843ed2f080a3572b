//! The real agent CLIs through their profiles, against a scripted provider on loopback: no key and no network is used. They are
//! looked for where `AGENCY_TEST_CLIS` says (`tests/real-clis/install`); a test whose CLI is missing is listed as ignored.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say so and stop")]

#[path = "real_clis/audit.rs"]
mod audit;
#[path = "real_clis/home.rs"]
mod home;
#[path = "real_clis/night.rs"]
mod night;
#[path = "real_clis/profiles.rs"]
mod profiles;
#[path = "real_clis/provider.rs"]
mod provider;
#[path = "real_clis/room.rs"]
mod room;
#[path = "runs/stage.rs"]
#[expect(dead_code, reason = "shared with the tests of the whole, which use more of it")]
mod run_stage;
#[path = "e2e/stage.rs"]
#[expect(dead_code, reason = "shared with the tests of the whole, which use more of it")]
mod stage;
#[path = "real_clis/turn.rs"]
mod turn;

use agency::config::Profile;
use agency::run::profile::word;
use libtest_mimic::{Arguments, Trial};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const ALL: [Profile; 4] = [Profile::Claude, Profile::Codex, Profile::Gemini, Profile::Aider];
/// One test at a time: each is given the machine's full attention, so that limits of seconds mean something.
static TURN: Mutex<()> = Mutex::new(());

fn main() {
    let mut trials = vec![
        profile(Profile::Claude, || wait_for(profiles::claude())),
        profile(Profile::Codex, || wait_for(profiles::codex())),
        profile(Profile::Gemini, || wait_for(profiles::gemini())),
        profile(Profile::Aider, || wait_for(profiles::aider())),
    ];
    for cli in ALL {
        let name = word(cli);
        trials.push(trial(format!("{name}_plays_a_turn"), &[cli], move || turn::play(cli)));
        trials.push(trial(format!("{name}_audits"), &[cli], move || audit::play(cli)));
    }
    trials.push(trial("a_night_of_every_trouble".to_owned(), &ALL, night::play));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn profile(cli: Profile, test: impl FnOnce() + Send + 'static) -> Trial {
    trial(format!("{}_through_its_profile", word(cli)), &[cli], test)
}

/// A test that needs these CLIs; without one of them it is ignored, and its line says why.
fn trial(name: String, needs: &[Profile], test: impl FnOnce() + Send + 'static) -> Trial {
    let missing = needs.iter().find_map(|cli| room::missing(*cli));
    let run = move || {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        test();
        Ok(())
    };
    let trial = Trial::test(format!("real_clis::{name}"), run);
    trial.with_ignored_flag(missing.is_some()).with_kind(missing.unwrap_or_default())
}

fn wait_for(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test);
}

/// A file of the project.
fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

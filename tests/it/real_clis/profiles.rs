//! Each real CLI through its profile and a real shim: how its runs end in each trouble of its provider, and what it used.

use super::room::{Case, Room};
use agency::config::{Profile, SandboxMode};
use agency::run::profile::Access;

const RETRY_NEVER: &[(&str, &str)] = &[("CLAUDE_CODE_MAX_RETRIES", "0")];
const SUBSCRIPTION: &[(&str, &str)] =
    &[("ANTHROPIC_API_KEY", ""), ("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-fake")];

fn ok() -> Case {
    Case { wanted: "ok", ..Case::default() }
}

fn fail(mode: &'static str, wanted: &'static str) -> Case {
    Case { mode, wanted, ..Case::default() }
}

/// It would retry for minutes: our own limit ends it.
fn endless(mode: &'static str, wanted: &'static str, wall_s: u64) -> Case {
    Case { mode, wanted, wall_s: Some(wall_s), ..Case::default() }
}

/// It would retry for minutes: we stop it once its stream has said why.
fn retrying(mode: &'static str, trouble: &'static str) -> Case {
    Case { mode, wanted: "stopped", trouble: Some(trouble), ..Case::default() }
}

/// Longer than one argument of a program may be.
fn long() -> Case {
    Case { more_words: 30_000, ..ok() }
}

/// As on a kernel that has no sandbox for runs.
fn outside(case: Case) -> Case {
    Case { sandbox: SandboxMode::Off, ..case }
}

fn read_only(wanted: &'static str) -> Case {
    Case { access: Access::ReadOnly, wanted, ..Case::default() }
}

// covers: SU-01, SU-05, SU-07
pub(crate) async fn claude() {
    let mut room = Room::open(Profile::Claude);
    let once = |mode, wanted| Case { env: RETRY_NEVER, ..fail(mode, wanted) };
    let cases = [
        ok(),
        read_only("denied"),
        once("401", "auth"),
        once("429", "provider"),
        // With an API key it is told of no limit and no reset: to it, this is one more 429.
        fail("usage", "provider"),
        Case { env: SUBSCRIPTION, ..fail("usage", "usage-limit") },
        once("500", "provider"),
        once("refused", "provider"),
        endless("401", "auth", 15),
        endless("429", "provider", 15),
        retrying("500", "overloaded"),
        retrying("refused", "unreachable"),
        long(),
        outside(ok()),
    ];
    let ends = room.play(&cases).await;
    let wrote = &ends[0].usage;
    assert_eq!(wrote.session, Some(room.session().to_string()), "we chose it");
    let used = (wrote.input_tokens, wrote.output_tokens, wrote.cost_microusd);
    assert_eq!(used, (Some(2_000), Some(100), Some(8_480)));
    assert!(format!("{:?}", ends[5].outcome).contains("until: Some"), "{:?}", ends[5].outcome);
    let again = room.resume(&cases[0], &ends[0]).await;
    assert_eq!(again.usage, ends[0].usage, "charged once");
}

// covers: SU-01, SU-05, SU-07
pub(crate) async fn codex() {
    let mut room = Room::open(Profile::Codex);
    let cases = [
        ok(),
        // It tells no denial; that the file is missing is all there is to see.
        read_only("ok"),
        fail("401", "auth"),
        fail("429", "provider"),
        fail("usage", "usage-limit"),
        fail("500", "provider"),
        endless("refused", "provider", 8),
        long(),
        outside(ok()),
        outside(read_only("ok")),
    ];
    let ends = room.play(&cases).await;
    let wrote = &ends[0].usage;
    let used = (wrote.input_tokens, wrote.output_tokens, wrote.cost_microusd);
    assert_eq!(used, (Some(2_000), Some(100), None));
    let again = room.resume(&cases[0], &ends[0]).await;
    assert_eq!(again.usage, ends[0].usage, "the same session, counted once");
}

// covers: SU-01, SU-05, SU-07
pub(crate) async fn gemini() {
    let mut room = Room::open(Profile::Gemini);
    let cases = [
        ok(),
        // Its model is offered nothing that writes, so there is nothing to deny.
        read_only("ok"),
        fail("401", "auth"),
        fail("400", "auth"),
        fail("usage", "usage-limit"),
        retrying("429", "rate-limited"),
        retrying("500", "overloaded"),
        retrying("refused", "unreachable"),
        long(),
        outside(ok()),
    ];
    let ends = room.play(&cases).await;
    let wrote = &ends[0].usage;
    assert_eq!(wrote.session, Some(room.session().to_string()), "we chose it");
    assert_eq!((wrote.input_tokens, wrote.output_tokens), (Some(2_000), Some(100)));
    let again = room.resume(&cases[0], &ends[0]).await;
    assert_eq!(again.usage, ends[0].usage, "the same session, counted once");
}

// covers: SU-01, SU-05, SU-07
pub(crate) async fn aider() {
    let mut room = Room::open(Profile::Aider);
    let cases = [
        ok(),
        fail("401", "auth"),
        retrying("429", "rate-limited"),
        retrying("usage", "rate-limited"),
        retrying("500", "overloaded"),
        // To it, no answer is a server that is down.
        retrying("refused", "overloaded"),
        long(),
        outside(ok()),
    ];
    let ends = room.play(&cases).await;
    let wrote = &ends[0].usage;
    let used = (wrote.input_tokens, wrote.output_tokens, wrote.cost_microusd);
    assert_eq!(used, (Some(1_000), Some(50), Some(2_800)));
    assert!(!room.has_commits(&cases[0]), "commits are ours to make");
}

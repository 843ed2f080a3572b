//! The owner's pages in a real browser, at the size of a phone: Chromium driven over WebDriver, which is JSON over HTTP. They run
//! with `AGENCY_TEST_BROWSER=1`, after `tests/browser/install`; else they are listed as ignored.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say so and stop")]

#[path = "browser/driver.rs"]
mod driver;
#[path = "e2e/page_link.rs"]
mod page_link;
#[path = "e2e/stage.rs"]
#[expect(dead_code, reason = "shared with the tests of the whole, which use more of it")]
mod stage;

use driver::{Browser, PHONE};
use libtest_mimic::{Arguments, Trial};
use page_link::{link, listening};
use serde_json::json;
use stage::{HONEST, Stage};

fn main() {
    let is_wanted = std::env::var_os("AGENCY_TEST_BROWSER").is_some();
    let trial = |name: &str, test: fn()| {
        let run = move || {
            test();
            Ok(())
        };
        let kind = if is_wanted { "" } else { "AGENCY_TEST_BROWSER is not set" };
        Trial::test(format!("browser::{name}"), run).with_ignored_flag(!is_wanted).with_kind(kind)
    };
    let trials = vec![
        trial(
            "an_owner_answers_from_a_phone_and_the_page_follows",
            an_owner_answers_from_a_phone_and_the_page_follows,
        ),
        trial(
            "markup_in_a_repository_is_text_in_a_browser",
            markup_in_a_repository_is_text_in_a_browser,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn held(more: &str) -> Stage {
    let stage = Stage::new("exit 3");
    stage.configure_agents("retries: 0", more);
    stage.ok(&["loop", "init", "--steps", "1"]);
    stage
}

// covers: WB-01, WB-02, WB-03
fn an_owner_answers_from_a_phone_and_the_page_follows() {
    let browser = Browser::start(PHONE);
    let (address, listen) = listening();
    let stage = held(&listen);
    let daemon = stage.start();
    stage.wait("the hold", || stage.escalation("SU-06"));
    browser.open(&link(&stage));
    assert!(browser.text("h1").contains("1 thing needs you"), "{}", browser.source());
    // Nothing is wider than the phone.
    let wide = browser.script("return document.documentElement.scrollWidth - window.innerWidth");
    assert_eq!(wide, json!(0));
    browser.wait("the live connection", "return document.body.dataset.connected === 'yes'");
    std::fs::write(stage.at("agent.sh"), HONEST).unwrap();
    browser.type_into("form:has([value=answer]) input.words", "mended from the train");
    browser.click("button[data-verb=answer]");
    browser.wait("the answer", "return document.querySelector('.flash') !== null");
    stage.wait_for_phase("complete");
    browser.wait(
        "the end, without a reload",
        "return document.querySelector('h1').textContent.includes('All is well')",
    );
    let journal = stage.json(&["journal", "--json", "--lines", "10000"]);
    let asked = journal
        .as_array()
        .unwrap()
        .iter()
        .find(|line| line["body"]["command"]["args"]["reason"] == "mended from the train");
    let command = &asked.unwrap()["body"]["command"];
    assert_eq!(
        (&command["by"], &command["from"]),
        (&json!("tester"), &json!("dashboard (127.0.0.1)"))
    );
    assert_eq!(command["id"].as_str().unwrap().len(), 36, "the number of the request");
    browser.open(&format!("http://{address}/now"));
    assert!(browser.source().contains("done"));
    drop(daemon);
}

// covers: WB-04
fn markup_in_a_repository_is_text_in_a_browser() {
    let browser = Browser::start(PHONE);
    let (_, listen) = listening();
    let evil = "<img src=x onerror=document.title='pwned'><script>document.title='pwned'</script>";
    let stage =
        Stage::new(&format!("cat <<'END'\n{evil}\n\u{1b}[31mred \u{202e}txt.exe\nEND\nexit 3"));
    stage.configure_agents("retries: 0", &listen);
    stage.write(&format!("{}.md", evil.replace('/', "_")), "x");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    stage.wait("the hold", || stage.escalation("SU-06"));
    browser.open(&link(&stage));
    let key = stage.folder().file_name().unwrap().to_str().unwrap().to_owned();
    let run = stage.json(&["runs", "--json"])[0]["id"].as_str().unwrap().to_owned();
    let origin = browser.script("return location.origin").as_str().unwrap().to_owned();
    for path in [
        "/".to_owned(),
        format!("/repo/{key}"),
        format!("/repo/{key}/run/{run}"),
        "/history?q=%3Cscript%3E".to_owned(),
    ] {
        browser.open(&format!("{origin}{path}"));
        assert!(
            browser.script("return document.title").as_str().unwrap().contains("agency"),
            "{path}"
        );
        assert_eq!(
            browser.script("return document.querySelectorAll('main img, main script').length"),
            json!(0),
            "{path}"
        );
    }
    browser.open(&format!("{origin}/repo/{key}/run/{run}"));
    let text = browser.text("main");
    assert!(text.contains("<script>") && text.contains("ESC") && text.contains("U+202E"), "{text}");
    // The policy holds although a script of ours asks.
    let ran = browser.script("const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s); return window.ran ?? 0");
    assert_eq!(ran, json!(0), "no inline script runs");
    drop(daemon);
}

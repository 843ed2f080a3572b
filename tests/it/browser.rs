//! The owner's pages in a real browser, at the size of a phone: Chromium driven over WebDriver, which is JSON over HTTP. Where
//! Chromium or its driver is missing (`tests/browser/install`) each test says so and ends.

mod driver;

use crate::e2e::dashboard::{link, listening};
use crate::e2e::stage::{HONEST, Stage};
use driver::{Browser, PHONE};
use serde_json::json;

/// Enough to see one page and do one thing on it.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn browser() -> Option<Browser> {
    let browser = Browser::start(PHONE);
    if browser.is_none() {
        eprintln!("SKIPPED: no chromium with chromedriver; tests/browser/install installs them");
    }
    browser
}

fn held(more: &str) -> Stage {
    let stage = Stage::new("exit 3");
    stage.configure_agents("retries: 0", more);
    stage.ok(&["loop", "init", "--steps", "1"]);
    stage
}

// covers: WB-01, WB-02, WB-03
#[test]
fn an_owner_answers_from_a_phone_and_the_page_follows() {
    let Some(browser) = browser() else { return };
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
#[test]
fn markup_in_a_repository_is_text_in_a_browser() {
    let Some(browser) = browser() else { return };
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

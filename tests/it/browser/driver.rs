//! A browser of our own, driven by chromedriver. It ends with the test, and only it: no other browser is touched.

use crate::stage::wait_until;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

pub(super) const PHONE: (u32, u32) = (390, 844);
const LIMIT: Duration = Duration::from_secs(30);
/// As WebDriver names the reference of an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

pub(super) struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    _profile: TempDir,
}

fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .flat_map(|dir| names.iter().map(move |name| dir.join(name)))
        .find(|program| program.is_file())
}

fn chromium() -> Option<PathBuf> {
    find(&["chromium", "chromium-browser", "google-chrome"])
}

impl Browser {
    pub(super) fn start((width, height): (u32, u32)) -> Self {
        let chromium = chromium().expect("chromium is in PATH");
        let program = find(&["chromedriver"]).expect("chromedriver is in PATH");
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let driver = Command::new(program)
            .arg(format!("--port={}", address.port()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Its browser stays in this group, so nothing is left behind by a test that fails.
            .process_group(0)
            .spawn()
            .unwrap();
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Self { driver, address, session: String::new(), _profile: profile };
        wait_until(LIMIT, || TcpStream::connect(address).ok()).expect("chromedriver listens");
        let capabilities = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {
            "binary": chromium, "args": arguments(browser._profile.path()),
            "mobileEmulation": {"deviceMetrics": {"width": width, "height": height, "pixelRatio": 2.0}},
        }}}});
        let made = browser.ask("POST", "/session", &capabilities);
        browser.session = made["sessionId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
        browser
    }

    pub(super) fn open(&self, url: &str) {
        self.call("POST", "/url", &json!({ "url": url }));
    }

    pub(super) fn source(&self) -> String {
        self.call("GET", "/source", &Value::Null).as_str().unwrap_or_default().to_owned()
    }

    pub(super) fn script(&self, script: &str) -> Value {
        self.call("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    pub(super) fn text(&self, selector: &str) -> String {
        let element = self.element(selector);
        self.call("GET", &format!("/element/{element}/text"), &Value::Null)
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    pub(super) fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.call("POST", &format!("/element/{element}/click"), &json!({}));
    }

    pub(super) fn type_into(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.call("POST", &format!("/element/{element}/value"), &json!({ "text": text }));
    }

    pub(super) fn wait(&self, what: &str, script: &str) {
        let found = wait_until(LIMIT, || (self.script(script) == json!(true)).then_some(()));
        assert!(found.is_some(), "waited for {what} in\n{}", self.source());
    }

    fn element(&self, selector: &str) -> String {
        let found =
            self.call("POST", "/element", &json!({ "using": "css selector", "value": selector }));
        found[ELEMENT].as_str().unwrap_or_else(|| panic!("no {selector}: {found}")).to_owned()
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        self.ask(method, &format!("/session/{}{path}", self.session), body)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(2 * LIMIT)).unwrap();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (address, length) = (self.address, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let body = read_body(&mut BufReader::new(stream));
        serde_json::from_slice::<Value>(&body).unwrap_or_default()["value"].take()
    }
}

/// The driver keeps the connection open, so its own word says where the answer ends.
fn read_body(reader: &mut impl BufRead) -> Vec<u8> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    body
}

fn arguments(profile: &Path) -> Vec<String> {
    let fixed = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ];
    let profile = format!("--user-data-dir={}", profile.display());
    fixed.iter().map(|&one| one.to_owned()).chain([profile]).collect()
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Ok(group) = i32::try_from(self.driver.id()) {
            killpg(Pid::from_raw(group), Signal::SIGKILL).ok();
        }
        self.driver.wait().ok();
    }
}

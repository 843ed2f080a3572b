//! The owner's pages of a real daemon, over its real sockets: an answer from a page, what an agent gets, how soon a page hears,
//! the report, the numbers, and how much it all costs where there is much to show.

use super::page_link::{free_port, link, listening};
use super::stage::{Daemon, HONEST, Stage, wait_until};
use crate::escalate::receiver::Receiver;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// A client of one daemon's pages, which has entered.
pub(crate) struct Pages {
    pub(crate) address: SocketAddr,
    pub(crate) cookie: String,
}

impl Pages {
    pub(crate) fn enter(stage: &Stage, address: SocketAddr) -> Self {
        let link = link(stage);
        let path =
            link.strip_prefix(&format!("http://{address}")).unwrap_or_else(|| panic!("{link}"));
        let reply = send(address, "GET", path, "", "");
        assert!(reply.starts_with("HTTP/1.1 303"), "{reply}");
        let cookie = reply.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        Self { address, cookie: cookie.split(';').next().unwrap().to_owned() }
    }

    pub(crate) fn get(&self, path: &str) -> String {
        send(self.address, "GET", path, &format!("Cookie: {}\r\n", self.cookie), "")
    }

    pub(crate) fn post(&self, form: &str) -> String {
        let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
        let head = format!("Cookie: {}\r\nOrigin: http://{}\r\n{kind}", self.cookie, self.address);
        send(self.address, "POST", "/act", &head, form)
    }

    /// The hidden fields of the first form of a page that has all of these words.
    pub(crate) fn form(&self, path: &str, words: &[&str]) -> Option<String> {
        let page = self.get(path);
        let form = page.split("<form").find(|form| words.iter().all(|word| form.contains(word)))?;
        let fields = form.split("<input type=\"hidden\" name=\"").skip(1).map(|rest| {
            let (name, rest) = rest.split_once("\" value=\"").unwrap();
            format!("{name}={}", rest.split('"').next().unwrap())
        });
        Some(fields.collect::<Vec<_>>().join("&"))
    }
}

fn send(address: SocketAddr, method: &str, path: &str, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let length = body.len();
    let text = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\n{head}Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    String::from_utf8_lossy(&reply).into_owned()
}

fn status(reply: &str) -> &str {
    reply.split(' ').nth(1).unwrap_or_default()
}

/// A loop whose agents fail at once, so that it is held and the owner is asked.
fn held(stage: &Stage) -> Daemon {
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    stage.wait("the hold", || stage.escalation("SU-06"));
    daemon
}

// covers: WB-01, WB-02, WB-03
#[test]
fn an_answer_from_a_page_is_journalled_with_who_from_where_and_a_number_that_works_once() {
    let stage = Stage::new("exit 3");
    let (address, listen) = listening();
    stage.configure_agents("retries: 0", &listen);
    let daemon = held(&stage);
    let pages = Pages::enter(&stage, address);
    let page = pages.get("/");
    assert!(page.contains("1 thing needs you") && page.contains("SU-06"), "{page}");
    std::fs::write(stage.at("agent.sh"), HONEST).unwrap();
    let form = pages.form("/", &["value=\"answer\"", "value=\"resume\""]).unwrap();
    let reply = pages.post(&(form.clone() + "&text=the+agent+is+mended"));
    assert_eq!(status(&reply), "303", "{reply}");
    assert_eq!(status(&pages.post(&form)), "409", "the second click");
    stage.wait_for_phase("complete");
    let request = form.split('&').find_map(|field| field.strip_prefix("request=")).unwrap();
    let journal = stage.json(&["journal", "--json", "--lines", "10000"]);
    let asked =
        journal.as_array().unwrap().iter().filter(|line| line["body"]["command"]["id"] == request);
    let [asked] = asked.collect::<Vec<_>>()[..] else { panic!("{journal}") };
    let command = &asked["body"]["command"];
    assert_eq!(command["verb"], "resume");
    assert_eq!(
        (&command["by"], &command["from"]),
        (&json!("tester"), &json!("dashboard (127.0.0.1)"))
    );
    assert_eq!(command["args"]["reason"], "the agent is mended");
    // The journal knows the number, too: whoever sends it again by another way gets nothing.
    let again = json!({"id": request, "protocol": null, "verb": "pause", "by": "x"});
    let mut socket =
        std::os::unix::net::UnixStream::connect(stage.folder().join("control.sock")).unwrap();
    socket.write_all(format!("{again}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("was given before"), "{answer}");
    let page = pages.get("/");
    assert!(page.contains("All is well"), "{page}");
    let key = stage.folder().file_name().unwrap().to_str().unwrap().to_owned();
    let page = pages.get(&format!("/repo/{key}"));
    for words in [
        "Timeline",
        "RL5",
        "tester, dashboard (127.0.0.1): resume",
        "Cost per day",
        "class=\"lit\"",
    ] {
        assert!(page.contains(words), "{words} is missing in {page}");
    }
    let run = stage.json(&["runs", "--json"])[0]["id"].as_str().unwrap().to_owned();
    let page = pages.get(&format!("/repo/{key}/run/{run}"));
    assert!(
        status(&page) == "200" && page.contains("Prompt") && page.contains("Transcript"),
        "{page}"
    );
    assert!(pages.get("/history?q=verify").contains(&format!("/repo/{key}/run/")));
    assert!(pages.get("/machine").contains("git version"));
    drop(daemon);
}

// covers: WB-05
#[test]
fn an_agent_gets_nothing_by_any_way_and_is_not_taken_for_the_owner() {
    // The agent has the owner's cookie and form, and tries everything with them; curl would do the same.
    let agent = r#"
for request in "$HOME"/request.*; do
  [ -e "$request" ] || continue
  exec bash -c '
    for request in "$HOME"/request.*; do
      exec 4<> /dev/tcp/127.0.0.1/$(cat "$HOME/port") && cat "$request" >&4 && head -n 1 <&4 >> "$HOME/answers"
      exec 4>&-
    done
    "$(cat "$HOME/agency")" dashboard --link > "$HOME/link" 2>&1; echo $? >> "$HOME/link"
    touch "$HOME/tried"; sleep 60'
done
exit 3"#;
    let stage = Stage::new(agent);
    let (address, listen) = listening();
    stage.configure_agents("retries: 0", &listen);
    std::fs::write(stage.at("home/answers"), "").unwrap();
    std::fs::write(stage.at("home/port"), address.port().to_string()).unwrap();
    std::fs::write(stage.at("home/agency"), env!("CARGO_BIN_EXE_agency")).unwrap();
    let daemon = held(&stage);
    let pages = Pages::enter(&stage, address);
    let key = stage.folder().file_name().unwrap().to_str().unwrap().to_owned();
    let form = pages.form(&format!("/repo/{key}"), &["value=\"pause\""]).unwrap();
    let cookie = format!("Cookie: {}\r\n", pages.cookie);
    let post = format!(
        "POST /act HTTP/1.1\r\nHost: {address}\r\n{cookie}Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    let path = link(&stage).split_once(&address.to_string()).unwrap().1.to_owned();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{cookie}\r\n");
    for (name, text) in [("1", get("/")), ("2", post), ("3", get(&path)), ("4", get("/events"))] {
        std::fs::write(stage.at(&format!("home/request.{name}")), text).unwrap();
    }
    let resume = pages.form("/", &["value=\"answer\"", "value=\"resume\""]).unwrap();
    assert_eq!(status(&pages.post(&resume)), "303");
    stage.wait("what the agent tried", || stage.at("home/tried").exists().then_some(()));
    let answers = std::fs::read_to_string(stage.at("home/answers")).unwrap();
    assert_eq!(answers.matches("403").count(), 4, "{answers}");
    let link = std::fs::read_to_string(stage.at("home/link")).unwrap();
    assert!(link.trim_end().ends_with('1') && !link.contains("/enter/"), "{link}");
    let journal = stage.ok(&["journal", "--json", "--lines", "10000"]);
    assert!(!journal.contains("\"verb\": \"pause\""), "nothing in the owner's name: {journal}");
    assert_eq!(status(&pages.post(&form)), "303", "the owner's own click still counts");
    drop(daemon);
}

// covers: WB-01
#[test]
fn an_open_page_hears_of_a_transition_within_a_second() {
    let stage = Stage::new("exit 3");
    let (address, listen) = listening();
    stage.configure_agents("retries: 0", &listen);
    let daemon = held(&stage);
    let pages = Pages::enter(&stage, address);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let text =
        format!("GET /events HTTP/1.1\r\nHost: {address}\r\nCookie: {}\r\n\r\n", pages.cookie);
    stream.write_all(text.as_bytes()).unwrap();
    let mut heard = String::new();
    let mut read_to = |word: &str| {
        let mut buffer = [0; 1024];
        while !heard.contains(word) {
            let count = stream.read(&mut buffer).unwrap();
            assert!(count > 0, "the connection ended: {heard}");
            heard.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        heard.clear();
    };
    read_to("retry:");
    stage.ok(&["pause", "--reason", "a test"]);
    let began = Instant::now();
    read_to("event: changed");
    let delay = began.elapsed();
    assert!(delay < Duration::from_secs(1), "{delay:?}");
    assert!(pages.get("/").contains("a test"));
    drop(daemon);
}

// covers: OP-09
#[test]
fn the_report_says_what_happened_and_goes_out_at_its_time() {
    let hooks = Receiver::fine();
    let stage = Stage::new(HONEST);
    stage.configure("");
    stage.ok(&["loop", "init", "--steps", "1"]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 0);
    let text = stage.ok(&["digest", "--since", "1h"]);
    for words in ["Nothing waits for you", "committed", "claude-code", "codex"] {
        assert!(text.contains(words), "{words} is missing in {text}");
    }
    let value = stage.json(&["digest", "--since", "1h", "--json"]);
    assert!(
        value["runs"].as_u64().unwrap() >= 4
            && value["repos"][0]["committed"].as_array().unwrap().len() >= 4,
        "{value}"
    );
    let page = stage.at("report.html");
    stage.ok(&["digest", "--since", "1h", "--html", page.to_str().unwrap()]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.contains("<svg")
            && page.contains("Nothing waits for you")
            && !page.contains("<script"),
        "{page}"
    );
    // A daemon that was away at the time sends the report when it comes.
    let daemon_folder = stage.at("state/daemon");
    std::fs::write(daemon_folder.join("digest.json"), "{\"until\":\"2026-01-01T00:00:00Z\"}")
        .unwrap();
    let url = hooks.url("/hook");
    stage.configure(&format!(
        "escalation:\n  digest: \"00:00 UTC\"\n  webhooks: [ {{ url: \"{url}\" }} ]\n"
    ));
    let daemon = stage.start();
    let sent = || {
        hooks
            .requests()
            .into_iter()
            .map(|request| request.json())
            .find(|body| body["rule"] == "OP-09")
    };
    let body = stage.wait("the report", sent);
    assert_eq!(body["type"], "escalation.digest");
    assert!(body["summary"].as_str().unwrap().starts_with("Nothing waits for you"), "{body}");
    let status = stage.ok(&["status", "--json"]);
    assert!(!status.contains("OP-09"), "a report waits for nothing: {status}");
    drop(daemon);
}

// covers: MX-01
#[test]
fn the_numbers_are_served_without_a_session_and_nothing_else_is() {
    let stage = Stage::new(HONEST);
    let address = free_port();
    stage.configure(&format!("metrics: {{ listen: \"{address}\" }}\n"));
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    stage.wait_for_phase("complete");
    let served = || {
        TcpStream::connect(address).ok()?;
        let reply = send(address, "GET", "/metrics", "", "");
        (reply.contains("row=\"RL5\"") && reply.contains("kind=\"done\"} 1")).then_some(reply)
    };
    let text = stage.wait("the numbers", served);
    for line in [
        "agency_up 1",
        "kind=\"done\"} 1",
        "agency_runs_total{",
        "outcome=\"ok\"",
        "agency_flag_to_action_seconds_count",
        "verdict=\"accepted\"",
    ] {
        assert!(text.contains(line), "{line} is missing in {text}");
    }
    assert!(!text.contains(stage.repo().to_str().unwrap()) && text.contains("# EOF"), "{text}");
    assert_eq!(status(&send(address, "GET", "/", "", "")), "404");
    let printed = stage.ok(&["metrics", "--prometheus"]);
    assert!(
        printed.contains("agency_runs_total{")
            && printed.contains("agency_flag_to_action_seconds_count"),
        "{printed}"
    );
    drop(daemon);
}

/// A state directory with many repositories and runs, as they lie there after months.
fn fill(stage: &Stage, repos: usize, runs: usize) {
    let now = chrono::Utc::now();
    for repo in 0..repos {
        let path = stage.at(&format!("many/repo-{repo:03}"));
        std::fs::create_dir_all(&path).unwrap();
        let folder = stage.at("state").join(format!("repo-{repo:03}-{repo:08x}"));
        let id = uuid_of(repo);
        write_json(
            &folder,
            "repo.json",
            &json!({
                "version": 1, "id": id, "path": path, "identity": path, "host": "elsewhere", "host_name": "elsewhere", "created": now, "adopted": true, "copy": false, "journal": true,
            }),
        );
        let kind = ["idle", "waiting", "done"][repo % 3];
        let condition = json!({"kind": kind, "reason": "no task is ready", "until": null, "run": null, "resolve": null});
        write_json(
            &folder,
            "status.json",
            &json!({
                "path": path, "held": false, "protocols": [{"name": "loop", "condition": condition, "summary": "step 3 of 7"}], "notes": [], "pid": 1,
            }),
        );
        for run in 0..runs / repos {
            run_folder(
                &folder.join("runs").join(format!("r-{repo:03}-{run:03}")),
                &path,
                now - chrono::TimeDelta::minutes(run as i64),
            );
        }
    }
}

fn uuid_of(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

fn write_json(folder: &Path, name: &str, value: &Value) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join(name), value.to_string()).unwrap();
}

fn run_folder(folder: &Path, repo: &Path, at: chrono::DateTime<chrono::Utc>) {
    let name = folder.file_name().unwrap().to_str().unwrap();
    let limits = serde_json::to_value(agency::run::Limits::default()).unwrap();
    write_json(
        folder,
        "run.json",
        &json!({
            "version": 1, "run": name, "argv": ["true"], "dir": repo, "env": [], "limits": limits, "beat_ms": 1000, "repo": repo, "protocol": "loop",
            "seat": "codex", "role": "reviewer", "task": "3", "phase": "review", "why": "a test", "prompt_file": null, "intended_at": at,
        }),
    );
    let exit = agency::run::ExitRecord::new(agency::run::How::Exited(0), at);
    write_json(folder, "exit.json", &serde_json::to_value(exit).unwrap());
    write_json(
        folder,
        "usage.json",
        &json!({"version": 1, "usage": {"cost_microusd": 250_000, "input_tokens": 1000, "output_tokens": 50}}),
    );
    write_json(folder, "seen", &json!(null));
}

/// Resident memory in KiB.
fn memory(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// `AGENCY_FIGURES=1` prints them.
// covers: WB-01
#[test]
fn pages_stay_small_and_quick_with_200_repositories_and_10_000_runs() {
    let stage = Stage::new(HONEST);
    let (address, listen) = listening();
    stage.configure(&listen);
    stage.ok(&["loop", "init", "--steps", "1"]);
    fill(&stage, 200, 10_000);
    let daemon = stage.start();
    stage.wait_for_phase("complete");
    let pages = Pages::enter(&stage, address);
    let before = memory(daemon.pid());
    let mut figures = Vec::new();
    for path in ["/", "/now", "/history", "/repo/repo-007-00000007", "/"] {
        let began = Instant::now();
        let page = pages.get(path);
        figures.push((path, began.elapsed(), page.len()));
        assert_eq!(status(&page), "200", "{path}: {page}");
    }
    for (path, _, bytes) in &figures {
        assert!(*bytes < 200_000, "{path} has {bytes} bytes");
    }
    let after = wait_until(Duration::from_secs(5), || {
        Some(memory(daemon.pid())).filter(|kib| *kib < before + 8 * 1024)
    });
    let after = after.unwrap_or_else(|| memory(daemon.pid()));
    if std::env::var_os("AGENCY_FIGURES").is_some() {
        eprintln!("{figures:?}; memory before {before} KiB, after {after} KiB");
    }
    assert!(after < before + 8 * 1024, "memory before {before} KiB, after {after} KiB");
    // A machine that builds something else beside it is slow; ten times the goal is a defect in any case.
    let (_, last, _) = figures.last().unwrap();
    assert!(*last < Duration::from_secs(3), "{figures:?}");
    drop(daemon);
}

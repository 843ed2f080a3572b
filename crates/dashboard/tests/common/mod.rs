//! A dashboard on real sockets with a source that notes what is done, and a client that sends exactly the bytes it is given.

use agency_dashboard::view::*;
use agency_dashboard::{
    Act, Caller, Dashboard, Identify, Options, Outcome, Pending, Right, Source, Standing,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What nobody may believe: it is put into every text that a repository or an agent writes.
pub(crate) const EVIL: &str = "<script>alert(1)</script><svg onload=alert(2)><a href=\"javascript:alert(3)\">x</a>\" onmouseover=\"alert(4) \u{1b}[31mred\u{1b}]0;title\u{7} invoice\u{202e}fdp.exe a\u{200b}b";

#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) acts: Mutex<Vec<(String, Act, Caller)>>,
    pub(crate) stamp: AtomicU64,
    pub(crate) summary: Mutex<String>,
}

fn time() -> Time {
    "2026-01-01T08:00:00Z".parse().unwrap()
}

impl Fake {
    fn card(&self) -> RepoCard {
        let summary = self.summary.lock().unwrap().clone();
        let cause = Cause {
            id: "a1b2c3d4e5f6".into(),
            rule: "LP-03".into(),
            severity: Severity::Critical,
            protocol: "loop".into(),
            summary: format!("{summary} {EVIL}"),
            holds: true,
            count: 2,
            first_seen: time(),
            what: EVIL.into(),
            did: EVIL.into(),
            wont: EVIL.into(),
            resolve: format!("agency resume --repo '/src/{EVIL}'"),
            options: vec!["resume".into()],
            evidence: vec![EVIL.into(); 4],
            undelivered: vec![EVIL.into()],
            ..Cause::default()
        };
        let question = Cause {
            id: "0123456789ab".into(),
            rule: "HO-07".into(),
            question: true,
            summary: "Which token?".into(),
            ..Cause::default()
        };
        let protocol = ProtocolCard {
            name: "loop".into(),
            kind: Kind::Held,
            reason: EVIL.into(),
            run: Some("r-1".into()),
            agent: Some(EVIL.into()),
            task: Some(EVIL.into()),
            trouble: Some(EVIL.into()),
            resolve: Some(EVIL.into()),
            summary: EVIL.into(),
            ..ProtocolCard::default()
        };
        RepoCard {
            key: "shop-1a2b3c4d".into(),
            name: EVIL.into(),
            path: format!("/src/{EVIL}"),
            attended: true,
            held: true,
            notes: vec![EVIL.into()],
            protocols: vec![protocol],
            causes: vec![cause, question],
            paused: Some(EVIL.into()),
            closed: Some(EVIL.into()),
            ..RepoCard::default()
        }
    }

    fn line(&self) -> RunLine {
        RunLine {
            id: "r-1".into(),
            repo_key: "shop-1a2b3c4d".into(),
            repo: EVIL.into(),
            protocol: "loop".into(),
            agent: EVIL.into(),
            role: EVIL.into(),
            task: EVIL.into(),
            phase: EVIL.into(),
            outcome: Some("crash".into()),
            reason: Some(EVIL.into()),
            started: time(),
            ended: Some(time()),
            model: Some(EVIL.into()),
            cost: Some(0.5),
            ..RunLine::default()
        }
    }
}

impl Source for Fake {
    fn overview(&self) -> Overview {
        let repos = vec![self.card()];
        Overview {
            daemon: "daemon: running".into(),
            isolation: "isolation: none".into(),
            problem: Some(EVIL.into()),
            unreachable: true,
            repos,
        }
    }

    fn repo(&self, key: &str) -> Option<RepoPage> {
        let step = |kind| Step {
            n: 1,
            at: time(),
            protocol: "loop".into(),
            kind,
            what: EVIL.into(),
            row: Some(EVIL.into()),
        };
        (key == "shop-1a2b3c4d").then(|| RepoPage {
            card: self.card(),
            timeline: vec![step(StepKind::Moved), step(StepKind::Refused)],
            tables: vec![RowTable {
                protocol: "loop".into(),
                head: vec!["row".into()],
                rows: vec![TableRow { cells: vec![EVIL.into()], lit: true }],
            }],
            tasks: vec![Task {
                id: "T0001".into(),
                title: EVIL.into(),
                status: "BLOCKED".into(),
                assignee: EVIL.into(),
                verbs: vec!["unblock"],
            }],
            runs: vec![self.line()],
            cost_per_day: vec![(EVIL.into(), 1.0)],
            time_per_agent: vec![(EVIL.into(), 60.0)],
        })
    }

    fn run(&self, _: &str, run: &str) -> Option<RunPage> {
        let said = |kind| Said { text: EVIL.into(), kind };
        (run == "r-1").then(|| RunPage {
            line: self.line(),
            why: EVIL.into(),
            argv: vec![EVIL.into()],
            dir: EVIL.into(),
            prompt: Some(EVIL.into()),
            transcript: vec![
                said(SaidKind::Message),
                said(SaidKind::Tool),
                said(SaidKind::Failure),
            ],
            complaints: EVIL.into(),
            diff: Some(DiffView {
                title: EVIL.into(),
                text: format!("+++ b/{EVIL}\n+{EVIL}\n-{EVIL}\n@@ {EVIL}"),
                cut: false,
            }),
            gates: vec![Gate { run: self.line(), line: EVIL.into(), output: EVIL.into() }],
            ..RunPage::default()
        })
    }

    fn history(&self, _: &HistoryQuery) -> HistoryPage {
        let cause = PastCause {
            repo_key: "shop-1a2b3c4d".into(),
            repo: EVIL.into(),
            id: "a".into(),
            rule: EVIL.into(),
            severity: Severity::Notice,
            summary: EVIL.into(),
            state: "open".into(),
            first_seen: time(),
        };
        HistoryPage { runs: vec![self.line()], causes: vec![cause], more: true }
    }

    fn machine(&self) -> Vec<Finding> {
        vec![Finding { name: EVIL.into(), fine: false, found: EVIL.into(), fix: Some(EVIL.into()) }]
    }

    fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Relaxed)
    }

    fn act(&self, repo: &str, act: Act, caller: Caller) -> Pending {
        self.acts.lock().unwrap().push((repo.to_owned(), act, caller));
        Box::pin(async { Outcome::Accepted("done".into()) })
    }
}

pub(crate) struct Stage {
    pub(crate) fake: Arc<Fake>,
    pub(crate) dashboard: Dashboard,
    pub(crate) address: SocketAddr,
    pub(crate) dir: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(Arc::new(|_| Standing::Outside))
    }

    pub(crate) fn with(identify: Identify) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let (fake, dir) = (Arc::new(Fake::default()), tempfile::tempdir().unwrap());
        let options = Options {
            socket: dir.path().join("dashboard.sock"),
            listen: Some("127.0.0.1:0".parse().unwrap()),
            hosts: vec!["box.tailnet.ts.net".into()],
            proxies: Vec::new(),
            who: "owner".into(),
            identify,
        };
        let source: Arc<dyn Source> = fake.clone();
        let dashboard = runtime.block_on(Dashboard::start(source, options)).unwrap();
        let address = dashboard.address().unwrap();
        Self { fake, dashboard, address, dir, _runtime: runtime }
    }

    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn acts(&self) -> usize {
        self.fake.acts.lock().unwrap().len()
    }

    pub(crate) fn send(&self, request: &str) -> Reply {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Reply::read(&mut stream, request.as_bytes())
    }

    pub(crate) fn send_unix(&self, request: &str) -> Reply {
        let mut stream = UnixStream::connect(self.dir.path().join("dashboard.sock")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Reply::read(&mut stream, request.as_bytes())
    }

    pub(crate) fn get(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        self.send(&request("GET", path, &self.host(), headers, ""))
    }

    pub(crate) fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut all = vec![("Content-Type", "application/x-www-form-urlencoded")];
        all.extend(headers);
        self.send(&request("POST", path, &self.host(), &all, body))
    }

    /// The cookie of somebody who has entered by a link.
    pub(crate) fn enter(&self, right: Right) -> String {
        let link = self.dashboard.link(right).unwrap();
        let path = link.split_once(&self.host()).unwrap().1;
        let reply = self.get(path, &[]);
        assert_eq!(reply.status, 303, "{}", reply.text);
        reply.cookie()
    }

    /// The fields of the first form of a page that does this.
    pub(crate) fn form(&self, cookie: &str, verb: &str) -> String {
        let page = self.get("/", &[("Cookie", cookie)]);
        assert_eq!(page.status, 200, "{}", page.text);
        let wanted = format!("name=\"do\" value=\"{verb}\"");
        let form = page.text.split("<form").find(|form| form.contains(&wanted));
        let form = form.unwrap_or_else(|| panic!("no form does {verb}"));
        let hidden = form.split("<input type=\"hidden\" name=\"").skip(1).map(|rest| {
            let (name, rest) = rest.split_once("\" value=\"").unwrap();
            format!("{name}={}", rest.split('"').next().unwrap())
        });
        hidden.collect::<Vec<_>>().join("&")
    }
}

pub(crate) fn request(
    method: &str,
    path: &str,
    host: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> String {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if method == "POST" {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text + "\r\n" + body
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) text: String,
}

impl Reply {
    fn read(stream: &mut (impl Read + Write), request: &[u8]) -> Self {
        // A server that refuses early closes before it has read everything.
        stream.write_all(request).ok();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).ok();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, text) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_owned(), text: text.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines
            .into_iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    pub(crate) fn cookie(&self) -> String {
        self.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
    }
}

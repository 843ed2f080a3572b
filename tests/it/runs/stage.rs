//! A runs folder in a temporary directory, shell scripts as agents, and looks at real processes. It proves nothing itself.

use agency::model::{Access, Outcome, RunEnd, RunEvent, RunId, Seat, Spawn, TreeRef};
use agency::run::{Executor, Folder, Limits, LocalExecutor, RunSpec, Ticket};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

pub(crate) const SHIM: &str = env!("CARGO_BIN_EXE_agency");
const PATIENCE: Duration = Duration::from_secs(40);

/// One daemon's view of the runs.
pub(crate) struct Stage {
    dir: PathBuf,
    pub(crate) executor: LocalExecutor,
    pub(crate) events: UnboundedReceiver<Box<RunEvent>>,
}

impl Stage {
    pub(crate) fn new(dir: &Path) -> Self {
        Self::with(dir, Path::new(SHIM), |executor| executor)
    }

    pub(crate) fn with(
        dir: &Path,
        shim: &Path,
        change: impl FnOnce(LocalExecutor) -> LocalExecutor,
    ) -> Self {
        let (sender, events) = unbounded_channel();
        let executor = LocalExecutor::new(dir.join("runs"), shim.to_owned(), sender);
        Self { dir: dir.to_owned(), executor: change(executor), events }
    }

    /// A run of `sh -c script` in the stage's directory, under a fresh id.
    pub(crate) fn spec(&self, script: &str) -> RunSpec {
        let run = RunId::new(format!("run-{}", uuid::Uuid::new_v4()));
        let path = std::env::var("PATH").unwrap();
        RunSpec {
            spawn: Spawn {
                run,
                seat: Seat::new("codex"),
                role: "builder".to_owned(),
                tree: TreeRef::Main,
                task: "6".to_owned(),
                phase: "review".to_owned(),
                prompt: "do it".to_owned(),
                why: "a test".to_owned(),
                resume: None,
                command: None,
                access: Access::Write,
            },
            repo: self.dir.clone(),
            protocol: "loop".to_owned(),
            argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
            dir: self.dir.clone(),
            stdin: Default::default(),
            env: vec![("PATH".to_owned(), path)],
            limits: Limits { grace_s: 1, ..Limits::default() },
            profile: None,
            agent: None,
            model: None,
            price: None,
            prices: Default::default(),
            sandbox: None,
        }
    }

    pub(crate) fn start(&self, spec: &RunSpec) {
        assert_eq!(self.executor.submit(spec).unwrap(), Ticket::Started);
    }

    pub(crate) async fn play(&mut self, spec: &RunSpec) -> RunEnd {
        self.start(spec);
        self.end().await
    }

    pub(crate) async fn outcome_of(&mut self, script: &str) -> Outcome {
        let spec = self.spec(script);
        self.play(&spec).await.outcome
    }

    pub(crate) async fn next(&mut self) -> RunEvent {
        let event = tokio::time::timeout(PATIENCE, self.events.recv()).await;
        *event.expect("an event in time").expect("the executor lives")
    }

    /// The next end; starts before it are passed over.
    pub(crate) async fn end(&mut self) -> RunEnd {
        loop {
            if let RunEvent::Ended(end) = self.next().await {
                return *end;
            }
        }
    }

    pub(crate) async fn started(&mut self) {
        let event = self.next().await;
        assert!(matches!(event, RunEvent::Started { .. }), "{event:?}");
    }

    pub(crate) fn folder(&self, spec: &RunSpec) -> Folder {
        self.executor.folder(&spec.spawn.run).unwrap()
    }

    pub(crate) fn json(&self, spec: &RunSpec, name: &str) -> Value {
        let text = std::fs::read(self.folder(spec).path().join(name)).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    pub(crate) fn stdout(&self, spec: &RunSpec) -> String {
        std::fs::read_to_string(self.folder(spec).stdout()).unwrap()
    }

    pub(crate) fn shim_pid(&self, spec: &RunSpec) -> i32 {
        i32::try_from(self.json(spec, "alive")["shim"]["pid"].as_i64().unwrap()).unwrap()
    }
}

/// Every process, dead ones left out, that carries the run's mark: found without any code of the program.
pub(crate) fn carrying(spec: &RunSpec) -> Vec<String> {
    let mark = format!("AGENCY_RUN={}", spec.spawn.run);
    let environ = |pid: &str| std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let carries =
        |pid: &String| environ(pid).split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes());
    let names = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = names.filter_map(|entry| entry.file_name().into_string().ok());
    pids.filter(|name| name.parse::<i32>().is_ok()).filter(carries).collect()
}

pub(crate) fn exists(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

pub(crate) async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let from = Instant::now();
    while !holds() {
        assert!(from.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

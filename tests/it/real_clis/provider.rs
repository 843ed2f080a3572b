//! The scripted provider that a real CLI talks to, on loopback. It knows no CLI.

use super::room::Ports;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What it has the CLI write into `hello.txt`.
pub(crate) const WROTE: &str = "it's \"quoted\" `and` $HOME\n";

/// A provider that answers as scripted; it ends with this value.
pub(crate) enum Provider {
    Scripted(Child),
    /// Nobody listens there.
    Refusing(u16),
}

impl Drop for Provider {
    fn drop(&mut self) {
        if let Self::Scripted(child) = self {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Provider {
    /// Has the CLI write `hello.txt`, or fail in this mode.
    pub(crate) fn start(dir: &Path, mode: &str) -> Self {
        Self::writing(dir, mode, "hello.txt", WROTE)
    }

    pub(crate) fn writing(dir: &Path, mode: &str, path: &str, content: &str) -> Self {
        if mode == "refused" {
            let bound = TcpListener::bind("127.0.0.1:0").unwrap();
            return Self::Refusing(bound.local_addr().unwrap().port());
        }
        let script = serde_json::json!({"path": path, "content": content, "final": "done"});
        Self::scripted(dir, mode, &script)
    }

    /// Has the CLI say this, and do nothing.
    pub(crate) fn saying(dir: &Path, text: &str) -> Self {
        Self::scripted(dir, "", &serde_json::json!({"steps": [], "final": text}))
    }

    fn scripted(dir: &Path, mode: &str, script: &serde_json::Value) -> Self {
        std::fs::write(dir.join("script.json"), script.to_string()).unwrap();
        let mut command = Command::new("python3");
        command.arg(crate::root("tests/real-clis/mock_llm.py"));
        command.args(["--port", "0", "--script", "script.json", "--log", "requests.jsonl"]);
        if !mode.is_empty() {
            command.args(["--fail", mode]);
        }
        Self::Scripted(command.current_dir(dir).stdout(Stdio::piped()).spawn().unwrap())
    }

    /// One that each CLI reaches at a port of its own, with troubles; see `tests/real-clis/night.py`.
    pub(crate) fn with_weather(dir: &Path) -> Self {
        let mut command = Command::new("python3");
        command.arg("-B").arg(crate::root("tests/real-clis/night.py"));
        command.args(["--weather", "weather.json", "--keys", "keys", "--log", "weather.jsonl"]);
        Self::Scripted(command.current_dir(dir).stdout(Stdio::piped()).spawn().unwrap())
    }

    /// Asked once, as `port` is.
    pub(crate) fn ports(&mut self) -> Ports {
        serde_json::from_str(&self.first_line()).unwrap()
    }

    /// Asked once: it is the first line that a scripted one prints.
    pub(crate) fn port(&mut self) -> u16 {
        match self {
            Self::Refusing(port) => *port,
            Self::Scripted(_) => {
                self.first_line().trim().rsplit(':').next().unwrap().parse().unwrap()
            }
        }
    }

    fn first_line(&mut self) -> String {
        let Self::Scripted(child) = self else { panic!("nobody listens there") };
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        line
    }
}

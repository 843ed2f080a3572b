//! An HTTP listener on this machine that does what it is told, and remembers every request. It proves nothing itself.

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    pub(crate) path: String,
    pub(crate) answer: Answer,
}

impl Request {
    pub(crate) fn id(&self) -> &str {
        self.headers.get("webhook-id").map_or("", String::as_str)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Status(u16),
    /// A status and a header line.
    With(u16, String),
    /// Close without a word, before anything is read.
    Hang,
    /// Read everything, then close without a word.
    Drop,
    /// Say a part of the status line and close our half.
    Half,
    /// Answer 200 after a while.
    Slow(Duration),
}

type Script = Box<dyn FnMut(usize) -> Answer + Send>;

pub(crate) struct Receiver {
    port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Receiver {
    /// Answers 200 over TLS.
    pub(crate) fn over_tls(tls: Arc<ServerConfig>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let connection = ServerConnection::new(Arc::clone(&tls)).unwrap();
                serve(StreamOwned::new(connection, stream), Answer::Status(200), &seen);
            }
        });
        Self { port, requests }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// `script` gives the answer to each connection, by its number.
    pub(crate) fn new(script: impl FnMut(usize) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, script) = (Arc::clone(&requests), Mutex::new(Box::new(script) as Script));
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let answer = (script.lock().unwrap())(number);
                let seen = Arc::clone(&seen);
                stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                std::thread::spawn(move || serve(stream, answer, &seen));
            }
        });
        Self { port, requests }
    }

    pub(crate) fn fine() -> Self {
        Self::new(|_| Answer::Status(200))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

/// A client that goes away is part of the game: errors end the conversation.
fn serve(stream: impl Read + Write, answer: Answer, seen: &Mutex<Vec<Request>>) -> Option<()> {
    if answer == Answer::Hang {
        return None;
    }
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    seen.lock().unwrap().push(Request { headers, body, path, answer: answer.clone() });
    reply(reader.get_mut(), answer)
}

fn reply(stream: &mut impl Write, answer: Answer) -> Option<()> {
    let full = |status: u16, header: &str| {
        format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n{header}\r\n")
    };
    let text = match answer {
        Answer::Hang | Answer::Drop => return None,
        Answer::Status(status) => full(status, ""),
        Answer::With(status, header) => full(status, &format!("{header}\r\n")),
        Answer::Half => "HTTP/1.1 2".to_owned(),
        Answer::Slow(wait) => {
            std::thread::sleep(wait);
            full(200, "")
        }
    };
    stream.write_all(text.as_bytes()).ok()?;
    stream.flush().ok()
}

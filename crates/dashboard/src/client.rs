//! Asks a running daemon for a link, on its socket.

use crate::server::short;
use crate::session::Right;
use serde::Deserialize;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);
const ANSWER_MAX: u64 = 64 * 1024;

/// What the daemon gives.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Link {
    /// Where TCP listens, if it does.
    pub address: Option<String>,
    pub path: String,
    pub expires_s: u64,
}

pub fn ask_link(socket: &Path, right: Right) -> io::Result<Link> {
    let mut stream = short(socket, |path| UnixStream::connect(path))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let right = match right {
        Right::Act => "act",
        Right::Read => "read",
    };
    let request = format!(
        "POST /link HTTP/1.1\r\nHost: agency\r\nX-Agency-Link: {right}\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    if !head.starts_with("HTTP/1.1 200") {
        let why = head.lines().next().unwrap_or_default();
        return Err(io::Error::other(format!(
            "the daemon refused to make a link ({why}); only the owner may ask for one, outside of any run"
        )));
    }
    Ok(serde_json::from_str(body)?)
}

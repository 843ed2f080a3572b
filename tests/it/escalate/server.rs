//! An SMTP server on this machine: plain or STARTTLS, with sign-in, refusing whom it is told to. It proves nothing itself.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Mail {
    pub(crate) to: String,
    pub(crate) text: String,
    pub(crate) encrypted: bool,
    pub(crate) signed_in: Option<String>,
}

/// What to say to `RCPT TO` of this address, for the how-manieth time.
type Script = Box<dyn FnMut(&str) -> Option<&'static str> + Send>;

pub(crate) struct Server {
    pub(crate) port: u16,
    /// Trust this to trust the server (PEM).
    pub(crate) root: Vec<u8>,
    mails: Arc<Mutex<Vec<Mail>>>,
}

#[derive(Clone)]
struct Desk {
    tls: Arc<ServerConfig>,
    script: Arc<Mutex<Script>>,
    mails: Arc<Mutex<Vec<Mail>>>,
}

impl Server {
    /// `refuse` gives a reply for a recipient that is not taken.
    pub(crate) fn new(refuse: impl FnMut(&str) -> Option<&'static str> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tls, root) = certified();
        let mails = Arc::new(Mutex::new(Vec::new()));
        let script = Arc::new(Mutex::new(Box::new(refuse) as Script));
        let desk = Desk { tls, script, mails: Arc::clone(&mails) };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let desk = desk.clone();
                std::thread::spawn(move || desk.greet(stream));
            }
        });
        Self { port, root, mails }
    }

    pub(crate) fn mails(&self) -> Vec<Mail> {
        self.mails.lock().unwrap().clone()
    }
}

/// TLS for `localhost`, and the certificate to trust (PEM).
pub(crate) fn certified() -> (Arc<ServerConfig>, Vec<u8>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    (Arc::new(tls), made.cert.pem().into_bytes())
}

impl Desk {
    fn greet(&self, mut stream: TcpStream) -> Option<()> {
        stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        say(&mut stream, "220 ready")?;
        if self.talk(&mut stream, false)? {
            let connection = ServerConnection::new(Arc::clone(&self.tls)).ok()?;
            self.talk(&mut StreamOwned::new(connection, stream), true)?;
        }
        Some(())
    }

    /// True when the client asks for TLS.
    fn talk(&self, stream: &mut (impl Read + Write), encrypted: bool) -> Option<bool> {
        let (mut to, mut user) = (String::new(), None);
        loop {
            let line = read_line(stream)?;
            let word = line.split([' ', ':']).next()?.to_ascii_uppercase();
            match word.as_str() {
                "EHLO" if encrypted => say(stream, "250-box\r\n250 AUTH PLAIN")?,
                "EHLO" => say(stream, "250-box\r\n250-AUTH PLAIN\r\n250 STARTTLS")?,
                "STARTTLS" => {
                    say(stream, "220 go")?;
                    return Some(true);
                }
                "AUTH" => {
                    let words = STANDARD.decode(line.split(' ').nth(2)?).ok()?;
                    let words = String::from_utf8(words).ok()?.replace('\0', " ");
                    let right = words.ends_with(" s3cret-pass");
                    user = right.then(|| words.trim().to_owned());
                    say(stream, if right { "235 hello" } else { "535 no" })?;
                }
                "RCPT" => {
                    to = line.split(['<', '>']).nth(1)?.to_owned();
                    let refused = (self.script.lock().unwrap())(&to);
                    say(stream, refused.unwrap_or("250 ok"))?;
                }
                "DATA" => {
                    say(stream, "354 go")?;
                    let text = read_data(stream)?;
                    let (to, signed_in) = (to.clone(), user.clone());
                    self.mails.lock().unwrap().push(Mail { to, text, encrypted, signed_in });
                    say(stream, "250 taken")?;
                }
                "QUIT" => return say(stream, "221 bye").map(|()| false),
                _ => say(stream, "250 ok")?,
            }
        }
    }
}

fn say(stream: &mut impl Write, line: &str) -> Option<()> {
    stream.write_all(format!("{line}\r\n").as_bytes()).ok()?;
    stream.flush().ok()
}

fn read_line(stream: &mut impl Read) -> Option<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") {
        stream.read_exact(&mut byte).ok()?;
        line.push(byte[0]);
    }
    Some(String::from_utf8(line).ok()?.trim_end().to_owned())
}

fn read_data(stream: &mut impl Read) -> Option<String> {
    let mut text = String::new();
    loop {
        let line = read_line(stream)?;
        if line == "." {
            return Some(text);
        }
        text.push_str(&line);
        text.push_str("\r\n");
    }
}

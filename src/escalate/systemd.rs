//! Readiness and liveness for a service manager that listens on `NOTIFY_SOCKET`. Without one it does nothing.

use super::heartbeat::Proofs;
use crate::config::Env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

pub struct SystemdNotifier {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl SystemdNotifier {
    pub fn of(env: &Env) -> Self {
        let socket = env.get("NOTIFY_SOCKET").and_then(|name| {
            let socket = UnixDatagram::unbound().ok()?;
            Some((socket, address(name)?))
        });
        Self { socket, watchdog: watchdog(env, std::process::id()) }
    }

    pub fn ready(&self) {
        self.say("READY=1\n");
    }

    pub fn stopping(&self) {
        self.say("STOPPING=1\n");
    }

    /// Feeds the watchdog for as long as it is polled, and only while everybody proves that they live (ES-08).
    pub async fn watch(&self, proofs: Proofs) {
        let (Some(limit), Some(_)) = (self.watchdog, &self.socket) else {
            return std::future::pending().await;
        };
        let mut witness = proofs.witness();
        let mut ticks = tokio::time::interval(limit / 2);
        loop {
            ticks.tick().await;
            if witness.is_proven() {
                self.say("WATCHDOG=1\n");
            }
        }
    }

    fn say(&self, text: &str) {
        if let Some((socket, address)) = &self.socket
            && let Err(error) = socket.send_to_addr(text.as_bytes(), address)
        {
            tracing::warn!(error = %error, "the service manager does not hear us");
        }
    }
}

/// A path, or with a leading `@` a name that is no file (Linux).
fn address(name: &OsStr) -> Option<SocketAddr> {
    match name.as_bytes() {
        [b'@', rest @ ..] => abstract_address(rest),
        [b'/', ..] => SocketAddr::from_pathname(name).ok(),
        _ => None,
    }
}

#[cfg(target_os = "linux")]
fn abstract_address(name: &[u8]) -> Option<SocketAddr> {
    use std::os::linux::net::SocketAddrExt as _;
    SocketAddr::from_abstract_name(name).ok()
}

#[cfg(not(target_os = "linux"))]
fn abstract_address(_: &[u8]) -> Option<SocketAddr> {
    None
}

/// The watchdog's limit, unless it is meant for another process.
fn watchdog(env: &Env, me: u32) -> Option<Duration> {
    let number = |name: &str| env.get(name)?.to_str()?.parse::<u64>().ok();
    let mine = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(me));
    number("WATCHDOG_USEC").filter(|limit| mine && *limit > 1).map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(dir: &tempfile::TempDir) -> (UnixDatagram, String) {
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        (socket, path.to_str().unwrap().to_owned())
    }

    fn heard(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 100];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    // covers: ES-08
    #[tokio::test]
    async fn the_watchdog_is_fed_only_on_proof() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, path) = listener(&dir);
        let env = Env::from_iter([("NOTIFY_SOCKET", path.as_str()), ("WATCHDOG_USEC", "20000")]);
        let (supervisor, proofs) = (SystemdNotifier::of(&env), Proofs::default());
        supervisor.ready();
        assert_eq!(heard(&socket), "READY=1\n");

        let proof = proofs.promise();
        let watch = |limit| {
            tokio::time::timeout(Duration::from_millis(limit), supervisor.watch(proofs.clone()))
        };
        watch(60).await.unwrap_err();
        socket.set_nonblocking(true).unwrap();
        assert!(socket.recv(&mut [0; 10]).is_err(), "silence without proof");
        proof.beat();
        watch(60).await.unwrap_err();
        socket.set_nonblocking(false).unwrap();
        assert_eq!(heard(&socket), "WATCHDOG=1\n");
        supervisor.stopping();
        assert_eq!(heard(&socket), "STOPPING=1\n", "one beat feeds it once");
    }

    #[test]
    fn a_watchdog_for_somebody_else_is_none_of_ours() {
        let env = |pid: &str| Env::from_iter([("WATCHDOG_USEC", "1000000"), ("WATCHDOG_PID", pid)]);
        assert_eq!(watchdog(&env("7"), 7), Some(Duration::from_secs(1)));
        assert_eq!(watchdog(&env("8"), 7), None);
        assert!(SystemdNotifier::of(&Env::default()).socket.is_none());
    }
}

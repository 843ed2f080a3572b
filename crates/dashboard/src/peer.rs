//! Which process is at the other end of a connection, and whether it belongs to a run (WB-05). It trusts nothing that the other
//! end says.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// Says whether a process belongs to a run.
pub type Identify = Arc<dyn Fn(u32) -> Standing + Send + Sync>;

/// As what a process counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Outside,
    /// The run that it belongs to.
    Inside(String),
    /// It may read with a session, and never act.
    Unclear(String),
}

/// The other end, as the kernel names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Unix { pid: Option<u32>, uid: u32 },
    Tcp { theirs: SocketAddr, ours: SocketAddr },
}

impl Peer {
    /// For the lock-out.
    pub(crate) fn source(&self) -> String {
        match self {
            Self::Unix { uid, .. } => format!("user {uid}"),
            Self::Tcp { theirs, .. } => theirs.ip().to_canonical().to_string(),
        }
    }

    /// For the journal.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Unix { .. } => "dashboard (socket)".to_owned(),
            Self::Tcp { theirs, .. } => format!("dashboard ({})", theirs.ip().to_canonical()),
        }
    }

    /// Reads `/proc`: not for a task that serves.
    pub(crate) fn standing(&self, identify: &Identify, proxies: &[IpAddr]) -> Standing {
        match self {
            Self::Unix { pid: None, .. } => {
                Standing::Unclear("its process is not known".to_owned())
            }
            Self::Unix { uid, .. } if *uid != own_uid() && *uid != 0 => {
                Standing::Unclear(format!("it belongs to another user ({uid})"))
            }
            Self::Unix { pid: Some(pid), .. } => identify(*pid),
            Self::Tcp { theirs, ours } => tcp_standing(*theirs, *ours, identify, proxies),
        }
    }
}

fn tcp_standing(
    theirs: SocketAddr,
    ours: SocketAddr,
    identify: &Identify,
    proxies: &[IpAddr],
) -> Standing {
    let is_proxy = proxies.contains(&theirs.ip().to_canonical());
    let Some(socket) = local_socket(theirs, ours) else {
        // Nobody on this machine has that socket: it comes from elsewhere, or it is closed by now.
        let is_here = theirs.ip().to_canonical().is_loopback();
        return if is_proxy && !is_here {
            Standing::Outside
        } else {
            Standing::Unclear("no process of this machine has the connection".to_owned())
        };
    };
    let mut standing =
        Standing::Unclear("the process that has the connection cannot be seen".to_owned());
    if is_proxy && socket.uid != own_uid() {
        standing = Standing::Outside;
    }
    // All of them count: a socket can be handed on.
    for pid in holders(socket.inode) {
        match identify(pid) {
            Standing::Inside(run) => return Standing::Inside(run),
            Standing::Unclear(why) => return Standing::Unclear(why),
            Standing::Outside => standing = Standing::Outside,
        }
    }
    standing
}

fn own_uid() -> u32 {
    nix::unistd::getuid().as_raw()
}

#[derive(Debug, PartialEq, Eq)]
struct LocalSocket {
    uid: u32,
    inode: u64,
}

/// The other end's own entry in the kernel's table of connections.
fn local_socket(theirs: SocketAddr, ours: SocketAddr) -> Option<LocalSocket> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"]
        .map(|path| fs::read_to_string(path).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines().skip(1)).find_map(|line| entry(line, theirs, ours))
}

fn entry(line: &str, theirs: SocketAddr, ours: SocketAddr) -> Option<LocalSocket> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let same = |word: &str, wanted: SocketAddr| {
        address(word)
            .is_some_and(|(ip, port)| ip == wanted.ip().to_canonical() && port == wanted.port())
    };
    let (local, remote) = (words.get(1)?, words.get(2)?);
    let fits = same(local, theirs) && same(remote, ours);
    let socket =
        LocalSocket { uid: words.get(7)?.parse().ok()?, inode: words.get(9)?.parse().ok()? };
    // A socket that is closed already has no inode.
    (fits && socket.inode > 0).then_some(socket)
}

/// `0100007F:1F90`: each group of four bytes as this machine stores it.
fn address(word: &str) -> Option<(IpAddr, u16)> {
    let (ip, port) = word.split_once(':')?;
    let groups: Vec<[u8; 4]> = (0..ip.len() / 8)
        .map(|at| Some(u32::from_str_radix(ip.get(8 * at..8 * at + 8)?, 16).ok()?.to_ne_bytes()))
        .collect::<Option<_>>()?;
    let ip = match groups.as_slice() {
        [v4] => IpAddr::V4(Ipv4Addr::from(*v4)),
        [a, b, c, d] => {
            let bytes: [u8; 16] = [*a, *b, *c, *d].concat().try_into().ok()?;
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some((ip, u16::from_str_radix(port, 16).ok()?))
}

/// The processes that have this socket open, as far as we may look.
fn holders(inode: u64) -> Vec<u32> {
    let wanted = format!("socket:[{inode}]");
    let has = |pid: &u32| {
        let fds = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        fds.into_iter()
            .any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.as_os_str() == wanted.as_str()))
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(has).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn outside() -> Identify {
        Arc::new(|_| Standing::Outside)
    }

    // covers: WB-05
    #[test]
    fn the_process_behind_a_loopback_connection_is_found() {
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(listen) else { continue };
            let ours = listener.local_addr().unwrap();
            let stream = TcpStream::connect(ours).unwrap();
            let theirs = stream.local_addr().unwrap();
            let peer = Peer::Tcp { theirs, ours };
            let own = std::process::id();
            let only_us: Identify = Arc::new(move |pid| {
                if pid == own { Standing::Inside("r7".to_owned()) } else { Standing::Outside }
            });
            assert_eq!(peer.standing(&only_us, &[]), Standing::Inside("r7".to_owned()));
            assert_eq!(peer.standing(&outside(), &[]), Standing::Outside);
            drop(stream);
            drop(listener);
            assert!(
                matches!(peer.standing(&outside(), &[]), Standing::Unclear(_)),
                "closed: nobody"
            );
        }
    }

    // covers: WB-05
    #[test]
    fn a_connection_of_nobody_is_unclear_and_only_a_named_proxy_counts_as_outside() {
        let ours = "192.0.2.1:7777".parse().unwrap();
        let theirs: SocketAddr = "192.0.2.9:5000".parse().unwrap();
        let peer = Peer::Tcp { theirs, ours };
        assert!(matches!(peer.standing(&outside(), &[]), Standing::Unclear(_)));
        assert_eq!(peer.standing(&outside(), &[theirs.ip()]), Standing::Outside);
        let unknown = Peer::Unix { pid: None, uid: own_uid() };
        assert!(matches!(unknown.standing(&outside(), &[]), Standing::Unclear(_)));
    }

    #[test]
    fn the_kernels_addresses_are_read() {
        let loopback = "127.0.0.1:8080".parse().unwrap();
        let line = "  12: 0100007F:1F90 0100007F:1E61 01 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0 20 4 30 10 -1";
        let found = entry(line, loopback, "127.0.0.1:7777".parse().unwrap());
        assert_eq!(found, Some(LocalSocket { uid: 1000, inode: 4242 }));
        assert_eq!(entry(line, "127.0.0.1:7777".parse().unwrap(), loopback), None, "our own end");
        // An IPv4 connection through a socket of IPv6.
        let (ip, port) = address("0000000000000000FFFF00000100007F:1F90").unwrap();
        assert_eq!((ip.to_string(), port), ("127.0.0.1".to_owned(), 8080));
        assert_eq!(address("xyz:1"), None);
    }
}

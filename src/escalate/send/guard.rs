//! Which addresses a request may really reach (ES-04). It is asked for every address just before we connect.

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// How far a request may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::escalate) enum Reach {
    /// The address itself says that it means this machine.
    ThisMachine,
    Public,
    /// Private networks, too; never link-local, where clouds keep their keys.
    Private,
}

#[derive(Debug, thiserror::Error)]
#[error("`{host}` has no address that may be used (private ones need `allow_private`)")]
struct NoAddress {
    host: String,
}

impl Reach {
    pub(in crate::escalate) fn of(host: &str, allow_private: bool) -> Self {
        let here = host == "localhost" || literal(host).is_some_and(|ip| ip.is_loopback());
        match (here, allow_private) {
            (true, _) => Self::ThisMachine,
            (false, true) => Self::Private,
            (false, false) => Self::Public,
        }
    }

    pub(in crate::escalate) fn allows(self, ip: IpAddr) -> bool {
        match self {
            Self::ThisMachine => plain(ip).is_loopback(),
            Self::Public => kind(ip) == Kind::Public,
            Self::Private => matches!(kind(ip), Kind::Public | Kind::Private),
        }
    }

    /// A number in an address is never resolved: the resolver below would not be asked.
    pub(super) fn allows_host(self, host: &str) -> bool {
        literal(host).is_none_or(|ip| self.allows(ip))
    }
}

fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

impl Resolve for Reach {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = *self;
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> =
                found.filter(|address| reach.allows(address.ip())).collect();
            if allowed.is_empty() {
                return Err(NoAddress { host }.into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Public,
    Private,
    Forbidden,
}

/// An IPv4 address that is written as an IPv6 one counts as what it is.
fn plain(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => inner_v4(v6).map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}

/// Mapped and compatible addresses, 6to4, and the well-known NAT64 prefix all carry an IPv4 address.
fn inner_v4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let parts = ip.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match parts {
        // `::` and `::1` are themselves.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] => Some(v4(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(v4(high, low)),
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

fn kind(ip: IpAddr) -> Kind {
    match plain(ip) {
        IpAddr::V4(ip) => kind_v4(ip),
        IpAddr::V6(ip) => kind_v6(ip),
    }
}

fn kind_v4(ip: Ipv4Addr) -> Kind {
    match ip.octets() {
        [10 | 127, ..] | [192, 168, ..] => Kind::Private,
        [172, b, ..] if (16..32).contains(&b) => Kind::Private,
        // Shared by a provider's customers; also what many overlay networks use.
        [100, b, ..] if (64..128).contains(&b) => Kind::Private,
        [0 | 224.., ..] | [169, 254, ..] | [192, 0, 0, _] => Kind::Forbidden,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] | [198, 18 | 19, ..] => {
            Kind::Forbidden
        }
        _ => Kind::Public,
    }
}

fn kind_v6(ip: Ipv6Addr) -> Kind {
    match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] | [0xfc00..=0xfdff, ..] => Kind::Private,
        // Teredo and other special uses; documentation.
        [0x2001, 0..=0x01ff | 0xdb8, ..] | [0x3fff, 0..=0x0fff, ..] => Kind::Forbidden,
        [0x2000..=0x3fff, ..] => Kind::Public,
        _ => Kind::Forbidden,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: ES-04
    #[test]
    fn addresses_are_what_they_reach_and_not_how_they_are_written() {
        for (text, public, private, here) in [
            ("93.184.216.34", true, true, false),
            ("2606:4700::1111", true, true, false),
            ("10.0.0.1", false, true, false),
            ("172.31.255.255", false, true, false),
            ("172.32.0.1", true, true, false),
            ("192.168.1.1", false, true, false),
            ("100.64.0.1", false, true, false),
            ("127.0.0.1", false, true, true),
            ("::1", false, true, true),
            ("fd00::1", false, true, false),
            ("fc12::1", false, true, false),
            ("169.254.169.254", false, false, false),
            ("::ffff:169.254.169.254", false, false, false),
            ("::ffff:10.0.0.1", false, true, false),
            ("::ffff:127.0.0.1", false, true, true),
            ("::127.0.0.1", false, true, true),
            ("64:ff9b::a9fe:a9fe", false, false, false),
            ("64:ff9b::7f00:1", false, true, true),
            ("2002:a9fe:a9fe::1", false, false, false),
            ("2002:a00:1::1", false, true, false),
            ("fe80::1", false, false, false),
            ("fec0::1", false, false, false),
            ("ff02::1", false, false, false),
            ("::", false, false, false),
            ("0.0.0.0", false, false, false),
            ("0.1.2.3", false, false, false),
            ("224.0.0.1", false, false, false),
            ("255.255.255.255", false, false, false),
            ("192.0.0.192", false, false, false),
            ("2001::1", false, false, false),
        ] {
            let ip: IpAddr = text.parse().unwrap();
            assert_eq!(Reach::Public.allows(ip), public, "{text} public");
            assert_eq!(Reach::Private.allows(ip), private, "{text} private");
            assert_eq!(Reach::ThisMachine.allows(ip), here, "{text} here");
        }
    }

    // covers: ES-04
    #[tokio::test]
    async fn a_name_is_judged_by_what_it_resolves_to() {
        let resolve = |reach: Reach| reach.resolve("localhost".parse().unwrap());
        assert!(resolve(Reach::Public).await.is_err());
        assert!(
            resolve(Reach::ThisMachine).await.unwrap().all(|address| address.ip().is_loopback())
        );
        assert_eq!(Reach::of("localhost", false), Reach::ThisMachine);
        assert_eq!(Reach::of("hooks.example", true), Reach::Private);
        assert!(!Reach::of("10.1.2.3", false).allows_host("10.1.2.3"));
        assert!(!Reach::of("[fd00::1]", false).allows_host("[fd00::1]"));
    }
}

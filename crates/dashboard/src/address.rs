//! The names under which the dashboard may be reached. A page of another name, whatever its DNS record says, is refused: this is
//! what stops DNS rebinding.

/// Every browser reaches this machine, or the near end of an ssh tunnel, under these, with any port.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
/// What a program writes that speaks to the socket.
pub(crate) const SOCKET: &str = "agency";

pub(crate) struct Hosts(Vec<String>);

impl Hosts {
    /// `named`: further names, as `dashboard.hosts` lists them.
    pub(crate) fn new(named: &[String]) -> Self {
        let named = named.iter().map(|name| name.to_ascii_lowercase());
        Self(
            LOOPBACK
                .iter()
                .map(|&name| name.to_owned())
                .chain([SOCKET.to_owned()])
                .chain(named)
                .collect(),
        )
    }

    /// `name`, `name:port`, `[::1]:port`.
    pub(crate) fn allow(&self, authority: &str) -> bool {
        let authority = authority.to_ascii_lowercase();
        let Some((name, port)) = split(&authority) else { return false };
        let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
        port.is_none_or(is_port) && self.0.iter().any(|known| *known == name || *known == authority)
    }

    /// Of an `Origin`: its scheme must be one of the web, its name one of ours, and both must be those of the request itself: another
    /// port of the same name is another program.
    pub(crate) fn allow_origin(&self, origin: &str, host: &str) -> bool {
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        authority
            .is_some_and(|authority| self.allow(authority) && authority.eq_ignore_ascii_case(host))
    }
}

fn split(authority: &str) -> Option<(&str, Option<&str>)> {
    let end = if authority.starts_with('[') {
        authority.find(']')? + 1
    } else {
        authority.find(':').unwrap_or(authority.len())
    };
    let (name, rest) = authority.split_at(end);
    match rest.strip_prefix(':') {
        Some(port) => Some((name, Some(port))),
        None => rest.is_empty().then_some((name, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: WB-03
    #[test]
    fn only_our_own_names_are_allowed() {
        let hosts = Hosts::new(&["Box.tailnet.ts.net".to_owned()]);
        for good in [
            "localhost",
            "localhost:7777",
            "127.0.0.1:1",
            "[::1]:7777",
            "[::1]",
            "BOX.tailnet.ts.net:443",
            "agency",
        ] {
            assert!(hosts.allow(good), "{good}");
        }
        let bad = [
            "",
            "evil.example",
            "localhost.evil.example",
            "evil.example:7777",
            "127.0.0.1.nip.io",
            "localhost:",
            "localhost:0",
            "localhost:99999",
            "localhost:80:80",
            "user@localhost",
            "[::1",
            "[::1]x",
            "127.0.0.2",
            "0.0.0.0",
            "localhost.",
            "box",
        ];
        for bad in bad {
            assert!(!hosts.allow(bad), "{bad}");
        }
    }

    // covers: WB-03
    #[test]
    fn an_origin_is_checked_against_the_list_and_the_request() {
        let hosts = Hosts::new(&[]);
        assert!(hosts.allow_origin("http://localhost:7777", "localhost:7777"));
        // DNS rebinding: Origin and Host agree, and neither is ours.
        assert!(!hosts.allow_origin("http://evil.example:7777", "evil.example:7777"));
        // Another program of this machine: the same name, another port.
        assert!(!hosts.allow_origin("http://localhost:3000", "localhost:7777"));
        for bad in
            ["null", "", "file://localhost:7777", "localhost:7777", "http://localhost:7777/x"]
        {
            assert!(!hosts.allow_origin(bad, "localhost:7777"), "{bad}");
        }
    }
}

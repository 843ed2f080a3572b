//! Addresses in a configuration: webhooks, mail servers, people. It connects to none, and never quotes what may hold a secret.

use super::value::text_that;
use super::walk::Spot;
use super::yaml::Kind;
use std::net::IpAddr;

/// `https://…`, or `http://…` on this machine (ES-04).
pub(super) fn url(spot: &mut Spot<'_>) -> Option<String> {
    let wanted = "an address such as `https://host/path` (`http://` only for this machine)";
    checked(spot, wanted, |address| match address.scheme {
        "https" => true,
        "http" => is_loopback(address.host),
        _ => false,
    })
}

/// `smtps://…`, `smtp://…?tls=required`, or plain `smtp://…` on this machine.
pub(super) fn smtp(spot: &mut Spot<'_>) -> Option<String> {
    if let Kind::Scalar { text, .. } = &spot.node.kind
        && Address::of(text).is_some_and(|address| address.user.contains(':'))
    {
        let hint = Some("put it in a variable and name that in `password_env`".to_owned());
        spot.refuse_as("a password in the address", "`smtps://user@host:465`", hint);
        return None;
    }
    let wanted = "`smtps://user@host:465`, or `smtp://user@host:587?tls=required` for STARTTLS (plain `smtp://` only for this machine)";
    checked(spot, wanted, |address| match address.scheme {
        "smtps" => true,
        "smtp" => is_loopback(address.host) || address.rest.ends_with("?tls=required"),
        _ => false,
    })
}

/// One person's address, as a header takes it.
pub(super) fn mail_address(spot: &mut Spot<'_>) -> Option<String> {
    text_that("an address such as `owner@example.com`", |address| {
        let plain = |c: char| c.is_ascii_graphic() && !matches!(c, ',' | ';' | '<' | '>' | '"');
        let parts = address.split_once('@');
        parts
            .is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !host.contains('@'))
            && address.chars().all(plain)
    })(spot)
}

struct Address<'a> {
    scheme: &'a str,
    user: &'a str,
    host: &'a str,
    rest: &'a str,
}

impl<'a> Address<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (user, host_port) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (host, port) = split_port(host_port)?;
        let sane = text.chars().all(|c| c.is_ascii_graphic())
            && !host.is_empty()
            && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
        sane.then_some(Self { scheme, user, host, rest })
    }
}

/// `host:port`, `host`, `[::1]:port` or `[::1]`.
fn split_port(text: &str) -> Option<(&str, Option<&str>)> {
    let Some(bracketed) = text.strip_prefix('[') else {
        return Some(text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))));
    };
    let (host, rest) = bracketed.split_once(']')?;
    let port = rest.strip_prefix(':');
    (rest.is_empty() || port.is_some()).then_some((host, port))
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn checked(
    spot: &mut Spot<'_>,
    wanted: &str,
    fits: impl Fn(&Address<'_>) -> bool,
) -> Option<String> {
    let Kind::Scalar { text, .. } = &spot.node.kind else {
        spot.refuse(wanted);
        return None;
    };
    match Address::of(text) {
        Some(address) if fits(&address) => Some(text.clone()),
        // A webhook's path is a secret: of the address only the harmless part is shown.
        Some(Address { scheme, host, .. }) => {
            spot.refuse_as(format!("`{scheme}://{host}…`"), wanted, None);
            None
        }
        None => {
            spot.refuse_as("something else", wanted, None);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::problem::Problems;
    use super::super::yaml::Node;
    use super::*;

    type Read = fn(&mut Spot<'_>) -> Option<String>;

    fn read(text: &str, read: Read) -> Result<String, String> {
        let node = Node { line: 1, kind: Kind::Scalar { text: text.to_owned(), plain: true } };
        let mut problems = Problems::default();
        read(&mut Spot::new(&node, "x".to_owned(), &mut problems))
            .ok_or_else(|| problems.iter().next().unwrap().to_string())
    }

    #[test]
    fn plain_http_stays_on_this_machine() {
        for good in ["https://hooks.example/x?y", "http://127.0.0.1:8080/", "http://[::1]:1/x"] {
            assert!(read(good, url).is_ok(), "{good}");
        }
        for bad in [
            "http://example.com",
            "http://localhost.example.com",
            "http://localhost@example.com/",
            "ftp://a",
            "https://",
            "https://a b",
            "https://a:99999",
            "hooks.example",
            "http://[::1]x/",
        ] {
            assert!(read(bad, url).is_err(), "{bad}");
        }
    }

    #[test]
    fn secrets_are_never_quoted() {
        let problem = read("http://hooks.example/T0P/s3cret", url).unwrap_err();
        assert!(!problem.contains("s3cret") && problem.contains("hooks.example"), "{problem}");
        let problem = read("smtps://user:s3cret@mail.example", smtp).unwrap_err();
        assert!(!problem.contains("s3cret") && problem.contains("password_env"), "{problem}");
    }

    #[test]
    fn mail_goes_out_encrypted_or_not_at_all() {
        for good in [
            "smtps://user@mail.example:465",
            "smtp://localhost:25",
            "smtp://user@mail.example:587?tls=required",
        ] {
            assert!(read(good, smtp).is_ok(), "{good}");
        }
        for bad in ["smtp://mail.example", "mail.example", "https://mail.example"] {
            assert!(read(bad, smtp).is_err(), "{bad}");
        }
        for bad in ["owner", "a@b@c", "a@b, c@d", "a@b\r\nBcc: x@y", "<a@b>", "@b"] {
            assert!(read(bad, mail_address).is_err(), "{bad}");
        }
        assert!(read("agency@box", mail_address).is_ok());
    }
}

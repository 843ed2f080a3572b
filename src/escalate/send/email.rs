//! One mail to each recipient over SMTP, with TLS unless it stays on this machine. It knows no queue.

use super::{ATTEMPT_LIMIT, CONNECT_LIMIT, Outgoing};
use crate::config::Email;
use crate::escalate::pace::Outcome;
use crate::escalate::shapes::{Letter, letter};
use lettre::address::Envelope;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use reqwest::Url;
use std::error::Error;

pub(in crate::escalate) struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Address,
    to: Vec<Address>,
}

impl Mailer {
    /// The error is for the owner.
    pub(in crate::escalate) fn new(
        email: &Email,
        password: Option<String>,
        roots: &[Vec<u8>],
    ) -> Result<Self, String> {
        super::secure();
        let url =
            Url::parse(&email.smtp).map_err(|_| "its server's address is wrong".to_owned())?;
        let host = url.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let (tls, port) = encryption(&url, &host, roots)?;
        let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&host)
            .port(url.port().unwrap_or(port))
            .tls(tls)
            .hello_name(own_name())
            .timeout(Some(CONNECT_LIMIT));
        if let Some(password) = password {
            builder = builder.credentials(Credentials::new(decoded(url.username()), password));
        }
        let address = |text: &String| {
            text.parse::<Address>().map_err(|error| format!("`{text}` is no mail address: {error}"))
        };
        let to = email.to.iter().map(address).collect::<Result<_, _>>()?;
        Ok(Self { transport: builder.build(), from: address(&email.from)?, to })
    }

    /// Each recipient gets a mail of their own: one wrong address must not cost the others theirs.
    pub(in crate::escalate) async fn send(&self, outgoing: &Outgoing) -> Outcome {
        let (mut reached, mut later, mut never) = (Vec::new(), None, None);
        let open = |to: &&Address| !outgoing.reached.iter().any(|done| *done == to.to_string());
        for to in self.to.iter().filter(open) {
            match self.send_to(to, outgoing).await {
                Outcome::Delivered => reached.push(to.to_string()),
                Outcome::Later { error, .. } => later = Some(error),
                Outcome::Refused { error } | Outcome::Never { error } => never = Some(error),
            }
        }
        let someone = !reached.is_empty() || !outgoing.reached.is_empty();
        match (later, never) {
            (Some(error), _) => Outcome::Later { error, wait: None, reached },
            (None, Some(error)) if !someone => Outcome::Never { error },
            (None, Some(error)) => {
                tracing::warn!(error, "a mail reached some recipients and was refused for others");
                Outcome::Delivered
            }
            (None, None) => Outcome::Delivered,
        }
    }

    async fn send_to(&self, to: &Address, outgoing: &Outgoing) -> Outcome {
        let ends = Letter { from: self.from.clone(), to: to.clone() };
        let mail = match letter(&outgoing.message, &ends, outgoing.made) {
            Ok(mail) => mail,
            Err(error) => return Outcome::later(format!("cannot write the mail: {error}")),
        };
        let envelope = match Envelope::new(Some(self.from.clone()), vec![to.clone()]) {
            Ok(envelope) => envelope,
            Err(error) => return Outcome::later(format!("cannot address the mail: {error}")),
        };
        let sent = self.transport.send_raw(&envelope, &mail);
        match tokio::time::timeout(ATTEMPT_LIMIT, sent).await {
            Ok(Ok(_)) => Outcome::Delivered,
            Ok(Err(error)) => judge(&error),
            Err(_) => Outcome::later("the mail server took too long"),
        }
    }
}

fn judge(error: &lettre::transport::smtp::Error) -> Outcome {
    let mut text = error.to_string();
    if let Some(cause) =
        error.source().map(ToString::to_string).filter(|cause| !text.contains(cause))
    {
        text = format!("{text}: {cause}");
    }
    match error.status() {
        Some(code) => Outcome::of_smtp(u16::from(code), text),
        None => Outcome::later(text),
    }
}

/// Wrapped in TLS, STARTTLS or nothing happens, or plain: the configuration allows that on this machine only.
fn encryption(url: &Url, host: &str, roots: &[Vec<u8>]) -> Result<(Tls, u16), String> {
    let parameters = || {
        let mut builder = TlsParameters::builder(host.to_owned());
        for pem in roots {
            let root = Certificate::from_pem(pem).map_err(|error| error.to_string())?;
            builder = builder.add_root_certificate(root);
        }
        builder.build().map_err(|error| error.to_string())
    };
    match (url.scheme(), url.query()) {
        ("smtps", _) => Ok((Tls::Wrapper(parameters()?), 465)),
        (_, Some("tls=required")) => Ok((Tls::Required(parameters()?), 587)),
        _ => Ok((Tls::None, 25)),
    }
}

fn own_name() -> ClientId {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let plain = |name: &String| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c))
    };
    name.filter(plain).map_or_else(ClientId::default, ClientId::Domain)
}

/// `ann%40example.com` → `ann@example.com`
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_name_may_be_an_address() {
        assert_eq!(decoded("ann%40example.com"), "ann@example.com");
        assert_eq!(decoded("100%"), "100%");
    }

    // covers: ES-01
    #[test]
    fn only_an_address_on_this_machine_goes_without_tls() {
        let tls = |url: &str| encryption(&Url::parse(url).unwrap(), "localhost", &[]).unwrap();
        assert!(matches!(tls("smtps://u@mail.example"), (Tls::Wrapper(_), 465)));
        assert!(matches!(tls("smtp://u@mail.example?tls=required"), (Tls::Required(_), 587)));
        assert!(matches!(tls("smtp://localhost"), (Tls::None, 25)));
    }
}

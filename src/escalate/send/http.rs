//! The HTTP client of webhooks and heartbeat: no redirects, no proxies, time limits, guarded addresses. It sends nothing itself.

use super::guard::Reach;
use super::{ATTEMPT_LIMIT, CONNECT_LIMIT};
use reqwest::{Certificate, Client, redirect::Policy};
use std::error::Error;
use std::sync::Arc;

/// Makes sure that TLS has its cryptography. Whoever was first has decided.
pub(in crate::escalate) fn secure() {
    drop(rustls::crypto::ring::default_provider().install_default());
}

/// A proxy would hide which address is really reached, so none is used.
pub(in crate::escalate) fn client(
    reach: Reach,
    roots: &[Vec<u8>],
) -> Result<Client, reqwest::Error> {
    secure();
    let mut builder = Client::builder()
        .user_agent(concat!("agency/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .connect_timeout(CONNECT_LIMIT)
        .timeout(ATTEMPT_LIMIT)
        // A connection that died while it lay idle would cost a try.
        .pool_max_idle_per_host(0)
        .dns_resolver(Arc::new(reach));
    for pem in roots {
        builder = builder.tls_certs_merge([Certificate::from_pem(pem)?]);
    }
    builder.build()
}

/// An error and its causes on one line, without the address: its path may be a secret.
pub(in crate::escalate) fn why(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

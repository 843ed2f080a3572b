//! Where the daemon listens: the `dashboard` and `metrics` of a configuration. It listens nowhere itself.

use super::value::{list, optional, text_that};
use super::walk::{Section, Spot, section};
use std::net::{IpAddr, SocketAddr};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DashboardConfig {
    /// `None`: only on the socket in the state directory.
    pub listen: Option<SocketAddr>,
    /// Names beside `localhost` under which a browser may reach it.
    pub hosts: Vec<String>,
    /// Addresses of proxies that let in only the owner.
    pub proxies: Vec<IpAddr>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsConfig {
    pub listen: Option<SocketAddr>,
    /// Others may read the numbers: listen on another address than this machine's own.
    pub open: bool,
}

pub(super) fn read_dashboard(spot: &mut Spot<'_>) -> Option<DashboardConfig> {
    section(spot, |keys| {
        let mut config = DashboardConfig::default();
        keys.set("listen", &mut config.listen, optional(socket));
        keys.set("hosts", &mut config.hosts, list(host));
        keys.set("proxies", &mut config.proxies, list(address));
        let open = config.listen.filter(|listen| !listen.ip().is_loopback());
        if let Some(listen) = open.filter(|_| config.proxies.is_empty()) {
            refuse_open(
                keys,
                listen,
                "`dashboard.proxies` with the address of the proxy that lets in only you",
            );
        }
        config
    })
}

pub(super) fn read_metrics(spot: &mut Spot<'_>) -> Option<MetricsConfig> {
    section(spot, |keys| {
        let mut config = MetricsConfig::default();
        keys.set("listen", &mut config.listen, optional(socket));
        keys.set("open", &mut config.open, super::value::yes_or_no);
        let open = config.listen.filter(|listen| !listen.ip().is_loopback());
        if let Some(listen) = open.filter(|_| !config.open) {
            refuse_open(keys, listen, "`metrics.open: true`");
        }
        config
    })
}

fn refuse_open(keys: &mut Section<'_>, listen: SocketAddr, also: &str) {
    let found = format!("`listen: {listen}`, which other machines can reach");
    keys.refuse(found, &format!("an address of this machine such as `127.0.0.1:7777`, or {also}"));
}

fn socket(spot: &mut Spot<'_>) -> Option<SocketAddr> {
    let wanted = "an address with a port, such as `127.0.0.1:7777`";
    text_that(wanted, |text| text.parse::<SocketAddr>().is_ok())(spot)?.parse().ok()
}

fn address(spot: &mut Spot<'_>) -> Option<IpAddr> {
    let wanted = "an IP address, such as `127.0.0.1`";
    text_that(wanted, |text| text.parse::<IpAddr>().is_ok())(spot)?.parse().ok()
}

fn host(spot: &mut Spot<'_>) -> Option<String> {
    text_that("the name of a host, such as `box.tailnet.ts.net`, without a scheme", |name| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
        !name.is_empty() && name.len() <= 253 && name.chars().all(plain)
    })(spot)
}

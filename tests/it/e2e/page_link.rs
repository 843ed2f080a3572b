//! A dashboard on a free port, and the link by which its owner comes in.

use super::stage::Stage;
use std::net::{SocketAddr, TcpListener};

pub(crate) fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// The settings of a dashboard on a free port.
pub(crate) fn listening() -> (SocketAddr, String) {
    let address = free_port();
    (address, format!("dashboard: {{ listen: \"{address}\" }}\n"))
}

pub(crate) fn link(stage: &Stage) -> String {
    let made = || Some(stage.agency(&["dashboard", "--link"])).filter(|said| said.code == 0);
    stage.wait("a link", made).out.trim().to_owned()
}

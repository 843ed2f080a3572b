//! Which machine this is. It tells machines apart; it proves nothing.

use crate::model::Digest;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    /// A digest: the machine id itself is not meant to be shown around.
    pub(super) id: String,
    /// For people.
    pub(super) name: String,
}

impl Host {
    /// By the machine id where there is one; host names change with the network.
    pub(super) fn this() -> Self {
        let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
        let name = name.unwrap_or_else(|| "an unnamed host".to_owned());
        let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
        let machine = if machine.trim().is_empty() { &name } else { machine.trim() };
        let id = Digest::of(format!("agency host {machine}").as_bytes()).short().to_owned();
        Self { id, name }
    }
}

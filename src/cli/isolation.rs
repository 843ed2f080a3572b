//! What keeps agents apart from the daemon here (SE-05). It looks and changes nothing.

use crate::config::Env;
use std::path::Path;

/// The files by which container engines mark the inside.
const MARKS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Agents share the daemon's user on this machine.
    SharedUser,
    /// They share it, but only inside a container.
    Contained,
}

impl Level {
    pub(super) fn live(env: &Env) -> Self {
        let is_marked = MARKS.iter().any(|path| Path::new(path).exists());
        Self::of(is_marked || env.get("container").is_some_and(|value| !value.is_empty()))
    }

    fn of(is_contained: bool) -> Self {
        if is_contained { Self::Contained } else { Self::SharedUser }
    }

    /// Print as JSON
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::SharedUser => "shared-uid",
            Self::Contained => "contained",
        }
    }

    /// Said plainly: what is prevented and what is only found out.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::SharedUser => {
                "isolation: none (shared user). Violations are detected, not prevented."
            }
            Self::Contained => {
                "isolation: none (container, shared user). Violations are detected, not prevented."
            }
        }
    }

    /// The next better one.
    pub(super) fn advice(self) -> Option<&'static str> {
        match self {
            Self::SharedUser => {
                Some("to prevent, run daemon and agents in a container: `examples/container`")
            }
            Self::Contained => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: SE-05
    #[test]
    fn each_level_says_what_it_does_not_prevent() {
        for level in [true, false].map(Level::of) {
            assert!(level.sentence().contains("detected, not prevented"), "{level:?}");
        }
        let told = Env::from_iter([("container", "podman")]);
        assert_eq!(Level::live(&told), Level::Contained);
        assert_eq!(Level::of(false).word(), "shared-uid");
    }
}

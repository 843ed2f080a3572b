//! Names of things, each its own type, so that no two can be swapped. They say nothing about where a thing lives.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::fmt;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }
    };
}

name!(
    /// A line of the conformance list or of a protocol's table of refusals, such as `LP-05`.
    RuleId
);
name!(
    /// A row of a transition table, such as `RL3`.
    RowId
);
name!(
    /// One effect of one decision. Unique in a repository's journal, the same when decided again.
    Key
);
name!(
    /// One run: one process tree, one folder.
    RunId
);
name!(
    /// A name that a protocol gives to somebody who works: `codex`, `builder`.
    Seat
);
name!(
    /// A git commit, in full hex.
    CommitId
);
name!(
    /// A git tree, in full hex.
    TreeId
);
name!(
    /// The bytes of a file as git keeps them, in full hex.
    BlobId
);

/// SHA-256 of some bytes, in hex. It lies inline: there is one for every file and record that we know.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; Self::LENGTH]);

#[derive(Debug, thiserror::Error)]
#[error("`{found}` is not a SHA-256 in hex")]
pub struct DigestError {
    found: String,
}

impl Digest {
    const LENGTH: usize = 64;

    pub fn of(bytes: &[u8]) -> Self {
        Self::finish(Sha256::new().chain_update(bytes))
    }

    /// For bytes that arrive in pieces.
    pub fn finish(hasher: Sha256) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; Self::LENGTH];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(hasher.finalize()) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        Self(hex)
    }

    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("BUG: hex digits are text")
    }

    /// Enough to tell digests apart by eye.
    pub fn short(&self) -> &str {
        &self.as_str()[..12]
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        let is_hex = |bytes: &[u8]| bytes.iter().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
        match text.as_bytes().try_into() {
            Ok(bytes) if is_hex(text.as_bytes()) => Ok(Self(bytes)),
            Ok(_) | Err(_) => Err(DigestError { found: crate::model::clip(&text, 80) }),
        }
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.as_str().to_owned()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.short())
    }
}

/// A path inside a tree: relative, `/`-separated, never out of it (SE-02).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RelPath(Cow<'static, str>);

#[derive(Debug, thiserror::Error)]
#[error("`{found}` is not a path inside the repository")]
pub struct RelPathError {
    found: String,
}

impl RelPath {
    pub fn new(text: impl Into<String>) -> Result<Self, RelPathError> {
        let text = text.into();
        if is_inside(&text) { Ok(Self(text.into())) } else { Err(RelPathError { found: text }) }
    }

    /// For paths that are written in our own source. It takes no memory: a thousand repositories have the same ones.
    pub fn fixed(text: &'static str) -> Self {
        assert!(is_inside(text), "BUG: a path in our own source must be relative");
        Self(Cow::Borrowed(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    pub fn join(&self, name: &str) -> Result<Self, RelPathError> {
        Self::new(format!("{}/{name}", self.0))
    }
}

fn is_inside(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 4096
        && !text.contains(['\0', '\n', '\r'])
        && text.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

impl TryFrom<String> for RelPath {
    type Error = RelPathError;

    fn try_from(text: String) -> Result<Self, RelPathError> {
        Self::new(text)
    }
}

impl From<RelPath> for String {
    fn from(path: RelPath) -> Self {
        path.0.into_owned()
    }
}

impl AsRef<std::path::Path> for RelPath {
    fn as_ref(&self) -> &std::path::Path {
        std::path::Path::new(&*self.0)
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RelPath({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_never_leaves_the_repository() {
        for bad in ["", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a/", "a\0b", "a\nb"] {
            assert!(RelPath::new(bad).is_err(), "{bad:?} must be refused");
        }
        for good in ["a", ".agent-status.json", "reviews/x y.md", "-option", "a/..b"] {
            assert!(RelPath::new(good).is_ok(), "{good:?} must be accepted");
        }
    }

    #[test]
    fn a_digest_is_the_sha256_in_hex() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").as_str(), empty);
        assert_eq!(Digest::try_from(empty.to_owned()).unwrap(), Digest::of(b""));
        for bad in ["", "e3b0", &empty[1..], &empty.to_uppercase(), &format!("{empty}0")] {
            assert!(Digest::try_from(bad.to_owned()).is_err(), "{bad:?} must be refused");
        }
    }
}

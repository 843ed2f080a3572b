//! Which files a protocol wants to be told about. Watching them is the shell's work.

use super::RelPath;

/// How a file shows that it is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Cut JSON looks unfinished.
    Json,
    /// An opened but not closed frontmatter looks unfinished.
    Frontmatter,
    /// Any text is whole.
    Text,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedFile {
    pub path: RelPath,
    pub shape: Shape,
    /// The largest size that is read, in bytes.
    pub limit: u64,
}

/// All files with one of these name endings below a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedTree {
    pub root: RelPath,
    pub endings: Vec<String>,
    pub shape: Shape,
    pub limit: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    pub files: Vec<WatchedFile>,
    pub trees: Vec<WatchedTree>,
}

//! Files of a commit by their names, in its top folder and a few folders deep. It opens none of them.

use super::{Call, GitError, Repo, names};
use agency_protocols::model::{CommitId, RelPath};

/// The top folder and two folders below it.
const LEVELS: usize = 3;
/// Folders that are looked into at each level.
const FOLDERS_MAX: usize = 500;

impl Repo {
    /// Those files whose name is one of `wanted`; `*.sln` means every name with that ending.
    pub async fn files_named(
        &self,
        commit: &CommitId,
        wanted: &[String],
    ) -> Result<Vec<RelPath>, GitError> {
        let is_wanted = |path: &RelPath| {
            let name = path.file_name();
            wanted.iter().any(|wanted| match wanted.strip_prefix('*') {
                Some(ending) => name.ends_with(ending),
                None => name == wanted,
            })
        };
        let mut found = Vec::new();
        let mut folders: Vec<String> = Vec::new();
        for level in 0..LEVELS {
            if level > 0 && folders.is_empty() {
                break;
            }
            let entries = self.entries_in(commit, &folders).await?;
            folders.clear();
            for (kind, path) in entries {
                match kind {
                    Entry::Folder if !path.file_name().starts_with('.') => {
                        folders.push(format!("{path}/"));
                    }
                    Entry::File if is_wanted(&path) => found.push(path),
                    Entry::Folder | Entry::File => {}
                }
            }
            folders.truncate(FOLDERS_MAX);
        }
        Ok(found)
    }

    /// What lies in these folders; none given: in the top folder.
    async fn entries_in(
        &self,
        commit: &CommitId,
        folders: &[String],
    ) -> Result<Vec<(Entry, RelPath)>, GitError> {
        let call = Call::local("ls-tree").args(["-z", "--full-tree"]);
        let call = call.arg(names::object(commit.as_str())?).arg("--");
        let call = call.env("GIT_LITERAL_PATHSPECS", "1");
        let output = self.git(folders.iter().fold(call, Call::arg)).await?;
        let records = output.stdout.split(|&byte| byte == 0);
        // A name that is no path of ours, such as one that is not UTF-8, is no marker of a language.
        Ok(records.filter_map(entry).collect())
    }
}

enum Entry {
    File,
    Folder,
}

/// `<mode> <type> <object>\t<path>`; links and submodules are neither.
fn entry(record: &[u8]) -> Option<(Entry, RelPath)> {
    let at = record.iter().position(|&byte| byte == b'\t')?;
    let kind = match record.get(..6)? {
        b"040000" => Entry::Folder,
        b"100644" | b"100755" => Entry::File,
        _ => return None,
    };
    Some((kind, names::rel_path(&record[at + 1..]).ok()?))
}

//! Brings the private index up to the work tree without git, where everything in it is plain (see `scan`). Where it is not, the
//! caller asks git.

use super::checkout::stamp;
use super::diff::Difference;
use super::index::{Edits, Index, IndexEntry};
use super::ingest_settings::{Conversion, Ground};
use super::recent::{Recent, Staged};
use super::scan::{NotPlain, Scan, Scanned, Unknown};
use super::snapshot::Seed;
use super::tree::File;
use super::verdicts::Verdicts;
use super::{GitError, Repo, names};
use agency_host::clock;
use agency_host::read::open_plain;
use agency_protocols::model::{CommitId, RelPath, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

/// A larger index is git's to read.
const INDEX_MAX: u64 = 256 << 20;

/// Where a scan begins.
struct Base {
    index: Index,
    /// When it was written.
    taken: Timestamp,
    seed: Seed,
    /// How it stands to the head; `None`: not known.
    staged: Option<Staged>,
}

impl Repo {
    /// What differs from the head. `None`: only git can tell.
    pub(super) async fn stage_plain(
        &self,
        recent: &mut Recent,
        index: &Path,
        head: Option<&CommitId>,
    ) -> Result<Option<Vec<Difference>>, GitError> {
        // What an agent planted holds git as a whole, also where no process of it is started.
        self.guarded()?.check()?;
        self.guarded()?.check_beside(&self.0.git_dir)?;
        let (conversion, verdicts) = self.ways(recent).await?;
        let Some(mut base) = self.base(recent, index, head)? else { return Ok(None) };
        let begun = clock::wall();
        let staged = base.staged.take();
        let seed = base.seed;
        let scanned = match self.scan(base, verdicts, conversion).await? {
            Ok(scanned) => scanned,
            Err(NotPlain(why)) => {
                tracing::debug!(why, "the tree is left to git");
                return Ok(None);
            }
        };
        let changed = changes(&scanned);
        let Scanned { index: mut now, edits, verdicts } = scanned;
        recent.verdicts = Some(verdicts);
        let same =
            edits.is_empty() && staged.as_ref().is_some_and(|staged| staged.edits.is_empty());
        now.edit(edits);
        self.put_index(index, (!same).then_some(&now), begun)?;
        recent.written = stamp(index);
        recent.seed = Some(seed);
        match staged {
            Some(staged) => differences(&staged.sides, changed, &now).map(Some),
            None => self.diff_index(self.object_of(head), index).await.map(Some),
        }
    }

    /// How files are taken in here, and which names are known to be ignored, as far as the tree itself does not say otherwise.
    async fn ways(&self, recent: &mut Recent) -> Result<(Conversion, Verdicts), GitError> {
        let ingest_settings = match recent.ingest_settings.take().filter(Ground::stands) {
            Some(ingest_settings) => ingest_settings,
            None => {
                recent.verdicts = None;
                self.ingest_settings().await?
            }
        };
        let ingest_settings = recent.ingest_settings.insert(ingest_settings);
        let new = || Verdicts::new(ingest_settings.ignored.clone());
        Ok((ingest_settings.conversion, recent.verdicts.take().unwrap_or_else(new)))
    }

    /// What the last look left, else the owner's index. Of that one only such stamps are believed as we wrote down ourselves:
    /// whoever changes a file can write its new stamps beside its old bytes.
    fn base(
        &self,
        recent: &mut Recent,
        private: &Path,
        head: Option<&CommitId>,
    ) -> Result<Option<Base>, GitError> {
        let seed = self.owners_seed()?;
        let staged = recent.staged.take().filter(|staged| staged.head.as_ref() == head);
        let staged = staged.filter(|_| recent.seed == Some(seed));
        let ours = recent.written.is_some() && recent.written == stamp(private);
        let last = if ours { self.read_index(private) } else { None };
        match (last, staged) {
            (Some((mut index, taken, _)), Some(staged)) => {
                index.edit(edits_of(&staged));
                Ok(Some(Base { index, taken, seed, staged: Some(staged) }))
            }
            (last, _) => Ok(self.owners_base(last)),
        }
    }

    fn owners_base(&self, last: Option<(Index, Timestamp, Seed)>) -> Option<Base> {
        let (mut index, mut taken, seed) = self.read_index(&self.owners_index())?;
        index.reveal();
        if let Some((last, then, _)) = last {
            index.believe_only(&last);
            taken = taken.min(then);
        }
        Some(Base { index, taken, seed, staged: None })
    }

    /// `None`: there is none that we can read.
    pub(super) fn read_index(&self, file: &Path) -> Option<(Index, Timestamp, Seed)> {
        let file = open_plain(file).ok()?;
        let meta = file.metadata().ok()?;
        if meta.len() > INDEX_MAX {
            return None;
        }
        let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).ok()?);
        file.take(INDEX_MAX).read_to_end(&mut bytes).ok()?;
        let index = Index::parse(&bytes, self.0.format)?;
        Some((index, meta.modified().ok()?.into(), Seed::of(&meta)))
    }

    /// As old as the look that it comes from: what changed since is younger.
    fn put_index(
        &self,
        file: &Path,
        index: Option<&Index>,
        taken: Timestamp,
    ) -> Result<(), GitError> {
        let put = || -> io::Result<()> {
            if let Some(index) = index {
                // Only we read it, and we know our own.
                fs::write(file, index.to_bytes(self.0.format, false))?;
            }
            fs::File::options().write(true).open(file)?.set_modified(taken.into())
        };
        put().map_err(|source| GitError::io("write", file, source))
    }

    /// Beside the other work: a large tree takes its time.
    async fn scan(
        &self,
        base: Base,
        verdicts: Verdicts,
        conversion: Conversion,
    ) -> Result<Result<Scanned, NotPlain>, GitError> {
        let (root, store) = (self.0.root.clone(), self.store());
        let looked = apart(move || {
            let mut scan = Scan::new(&root, base.index, base.taken, store, verdicts, conversion)?;
            let unknown = scan.look()?;
            Ok((scan, unknown))
        });
        let mut looked = looked.await?;
        loop {
            match looked {
                Err(why) => return Ok(Err(why)),
                Ok((scan, unknown)) if unknown.is_empty() => return Ok(scan.finish()),
                Ok((scan, unknown)) => looked = self.go_on(scan, unknown).await?,
            }
        }
    }

    async fn go_on(
        &self,
        mut scan: Scan,
        unknown: Vec<Unknown>,
    ) -> Result<Result<(Scan, Vec<Unknown>), NotPlain>, GitError> {
        let paths = unknown.iter().map(|unknown| unknown.path.as_str());
        let ignored = match self.matched(paths).await {
            // A name that it will not hear of: then it sees the tree itself.
            Err(GitError::Refused { .. }) => {
                return Ok(Err(NotPlain("git does not say what it ignores")));
            }
            ignored => ignored?,
        };
        apart(move || {
            let unknown = scan.judged(unknown, |path| ignored.contains(path))?;
            Ok((scan, unknown))
        })
        .await
    }
}

async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, NotPlain> + Send + 'static,
) -> Result<Result<T, NotPlain>, GitError> {
    tokio::task::spawn_blocking(work).await.map_err(GitError::BrokenOff)
}

fn edits_of(staged: &Staged) -> Edits {
    let entry = |file: &File| IndexEntry::of(file);
    let edits = staged.edits.iter();
    edits.map(|edit| (edit.path.to_string(), edit.to.as_ref().and_then(entry))).collect()
}

type Sides = (Option<File>, Option<File>);

/// What the edits change, apart from stamps: before and after.
fn changes(scanned: &Scanned) -> BTreeMap<String, Sides> {
    let file = |entry: Option<&IndexEntry>| entry.map(IndexEntry::file);
    let sides = |(path, to): (&String, &Option<IndexEntry>)| {
        let sides = (file(scanned.index.get(path)), file(to.as_ref()));
        (sides.0 != sides.1).then(|| (path.clone(), sides))
    };
    scanned.edits.iter().filter_map(sides).collect()
}

/// `heads`: what the head has where the index that the scan began with may differ from it. Everywhere else the two were the same.
fn differences(
    heads: &BTreeMap<RelPath, Option<File>>,
    mut changed: BTreeMap<String, Sides>,
    now: &Index,
) -> Result<Vec<Difference>, GitError> {
    let known: BTreeSet<&str> = heads.keys().map(RelPath::as_str).collect();
    changed.retain(|path, _| !known.contains(path.as_str()));
    let mut found = Vec::new();
    for (path, (from, to)) in changed {
        found.push(Difference { path: names::rel_path(path.as_bytes())?, from, to });
    }
    for (path, from) in heads {
        let to = now.get(path.as_str()).map(IndexEntry::file);
        if to != *from {
            found.push(Difference { path: path.clone(), from: from.clone(), to });
        }
    }
    found.sort_by(|a, b| a.path.as_str().cmp(b.path.as_str()));
    Ok(found)
}

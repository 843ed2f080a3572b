//! `agency ledger`: beginning the loop, and the scripts by which prompts in the wild call us.

use super::file::{Place, keep_copy};
use super::{Trouble, finish};
use crate::cli::ask::tell;
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::model::RelPath;
use crate::protocol::ledger::{Features, NAME};
use crate::store;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(clap::Subcommand)]
pub(in crate::cli) enum Verb {
    /// Begin the ledger's loop on the branch that is checked out: a list, then feature by feature
    #[command(after_help = "Example:\n  agency ledger init --spec docs/spec.md && agency run")]
    Init {
        /// What is to be built, as a file of the repository; for the INITIALIZER, where there is no feature list yet
        #[arg(long, value_name = "FILE")]
        spec: Option<String>,
    },
    /// Write an id into each entry of feature_list.json that has none
    #[command(after_help = "Example:\n  agency ledger adopt && agency ledger init")]
    Adopt {
        #[command(flatten)]
        place: Place,
    },
    /// Write scripts/{progress,reviews,features}.py that call this program, so that prompts that use them work unchanged
    #[command(after_help = "Example:\n  agency ledger scripts\n  python3 scripts/features.py next")]
    Scripts {
        /// The directory that gets `scripts/` (default: the current one)
        #[arg(long, short = 'd', value_name = "DIR")]
        dir: Option<PathBuf>,
        /// Also over scripts that are not ours
        #[arg(long)]
        force: bool,
    },
}

/// What every script of ours begins with; by it we know our own.
const MARK: &str = "# Written by `agency ledger scripts`";

pub(in crate::cli) fn run(context: &Context, verb: &Verb) -> anyhow::Result<Exit> {
    match verb {
        Verb::Init { spec } => {
            tell(context, crate::model::Verb::Init, Some(NAME), &[("spec", spec.as_deref())])
        }
        Verb::Adopt { place } => Ok(finish(adopt(place))),
        Verb::Scripts { dir, force } => {
            Ok(finish(write_all(dir.as_deref().unwrap_or(Path::new(".")), *force)))
        }
    }
}

/// LG-17: the ids that a session needs to name its feature.
fn adopt(place: &Place) -> Result<(), Trouble> {
    let (written, total) = place.change(|features: &mut Features| {
        let written = features.write_ids();
        let odd = features.unusable();
        odd.map_or(Ok((written, features.len())), |problem| Err(Trouble::from(vec![problem])))
    })?;
    match written.as_slice() {
        [] => anstream::println!("SUCCESS: All {total} entries have an id; nothing was changed"),
        ids => anstream::println!("SUCCESS: Wrote {} ids: {}", ids.len(), ids.join(", ")),
    }
    anstream::println!("Next: agency ledger init (or, where the loop is held: agency resume)");
    Ok(())
}

fn write_all(dir: &Path, force: bool) -> Result<(), Trouble> {
    let program = std::env::current_exe().map_err(|error| Trouble::ours(error.to_string()))?;
    for name in ["progress", "reviews", "features"] {
        let path = RelPath::new(format!("scripts/{name}.py"))
            .expect("BUG: a script's path is made of our own words");
        let text = script(name, &program);
        store::edit(dir, &path, 1 << 20, Duration::from_secs(10), |old| {
            let foreign = old.is_some_and(|old| !String::from_utf8_lossy(old).contains(MARK));
            if foreign && !force {
                let said = format!("`{path}` is not ours; --force replaces it");
                return Err(Trouble::new(said));
            }
            if let Some(old) = old.filter(|_| foreign) {
                keep_copy(dir, &path, old)?;
            }
            Ok(Some(text.clone().into_bytes()))
        })?;
        let rights = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(dir.join(path.as_str()), rights)
            .map_err(|error| Trouble::ours(format!("cannot make `{path}` executable: {error}")))?;
        anstream::println!("SUCCESS: Wrote {path}");
    }
    Ok(())
}

/// `agency` from PATH, so that the script can be committed; else the program that wrote it.
fn script(name: &str, program: &Path) -> String {
    let program = serde_json::to_string(&program.to_string_lossy()).unwrap_or_default();
    format!(
        "#!/usr/bin/env python3\n{MARK}: it only calls `agency {name}` with the same words.\n\
         import os\nimport shutil\nimport sys\n\n\
         program = shutil.which(\"agency\") or {program}\n\
         os.execv(program, [program, \"{name}\", *sys.argv[1:]])\n"
    )
}

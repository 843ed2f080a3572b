//! Where a CLI's program lies: in a `PATH`, and, for codex, behind its npm wrapper. It runs nothing.

use super::{Profile, word};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The profile's program in a `PATH` that is not necessarily our own.
pub fn find(profile: Profile, path: &OsStr) -> Option<PathBuf> {
    look_up(word(profile), path)
}

/// Whether a program of this name would be started. A relative path counts as there: it is looked up in the run's own tree.
pub fn is_in(path: &OsStr, program: &str) -> bool {
    let named = Path::new(program);
    if named.is_absolute() {
        is_program(named)
    } else {
        program.contains('/') || look_up(program, path).is_some()
    }
}

fn look_up(program: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(program))
        .find(|file| is_program(file))
}

/// The native codex that belongs to the npm wrapper `found`; anything else is used as it is. A SIGKILL to the wrapper
/// leaves the native program running, so we start that one.
pub fn native_codex(found: &Path) -> PathBuf {
    behind_wrapper(found).unwrap_or_else(|| found.to_owned())
}

fn behind_wrapper(found: &Path) -> Option<PathBuf> {
    let wrapper = found.canonicalize().ok()?;
    if wrapper.extension()? != "js" {
        return None;
    }
    let package = wrapper.parent()?.parent()?;
    let (platform, triple) = platform()?;
    let beside = package.parent()?.join(platform);
    let below = package.join("node_modules/@openai").join(platform);
    [beside, below, package.to_owned()]
        .iter()
        .map(|package| package.join("vendor").join(triple))
        .flat_map(|vendor| [vendor.join("bin/codex"), vendor.join("codex/codex")])
        .find(|file| is_program(file))
}

/// The npm package with the native program for this machine, and the name of its folder in there.
fn platform() -> Option<(&'static str, &'static str)> {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => Some(("codex-linux-x64", "x86_64-unknown-linux-musl")),
        ("linux", "aarch64") => Some(("codex-linux-arm64", "aarch64-unknown-linux-musl")),
        ("macos", "x86_64") => Some(("codex-darwin-x64", "x86_64-apple-darwin")),
        ("macos", "aarch64") => Some(("codex-darwin-arm64", "aarch64-apple-darwin")),
        _ => None,
    }
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn program(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn the_native_codex_is_found_beside_and_below_the_wrapper() {
        let Some((platform, triple)) = platform() else { return };
        for place in ["lib/@openai", "lib/@openai/codex/node_modules/@openai"] {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().canonicalize().unwrap();
            let wrapper = root.join("lib/@openai/codex/bin/codex.js");
            program(&wrapper);
            fs::create_dir(root.join("bin")).unwrap();
            let found = root.join("bin/codex");
            std::os::unix::fs::symlink(&wrapper, &found).unwrap();
            assert_eq!(native_codex(&found), found, "without its package the wrapper is used");
            let native = root.join(place).join(platform).join("vendor").join(triple);
            program(&native.join("bin/codex"));
            assert_eq!(native_codex(&found), native.join("bin/codex"));
        }
    }

    #[test]
    fn a_program_is_found_in_the_given_path_only_when_it_can_run() {
        let dir = tempfile::tempdir().unwrap();
        let [first, second] = ["a", "b"].map(|name| dir.path().join(name));
        program(&second.join("codex"));
        fs::create_dir_all(&first).unwrap();
        fs::write(first.join("codex"), "").unwrap();
        let path = std::env::join_paths([&first, &second]).unwrap();
        assert_eq!(find(Profile::Codex, &path), Some(second.join("codex")));
        assert_eq!(find(Profile::Claude, &path), None);
        assert_eq!(native_codex(&second.join("codex")), second.join("codex"));
    }
}

//! How a run inside a sandbox finds its own folder. The kernel shows it neither the directory nor the environment of its shim,
//! so the shim carries a digest of the folder's path as its process name, which only the shim itself can set. The path comes by
//! a variable, and counts only when it fits the name.

use agency_protocols::model::Digest;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The variable that tells a confined run where its folder lies.
pub const FOLDER: &str = "AGENCY_RUN_FOLDER";
/// So that people recognise it in a list of processes.
const START: &str = "ag-";
/// A process name has room for 15 bytes.
const DIGITS: usize = 12;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// This process keeps the run of this folder.
pub(crate) fn carry(folder: &Path) {
    let Ok(name) = CString::new(name_of(folder)) else { return };
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_name(&name).ok();
    #[cfg(not(target_os = "linux"))]
    drop(name);
}

/// The folder that our own environment names, if the shim `pid` keeps that one.
pub(crate) fn folder_kept_by(pid: i32) -> Option<PathBuf> {
    let folder = std::env::var_os(FOLDER).map(PathBuf::from)?;
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    (name.trim_end() == name_of(&folder)).then_some(folder)
}

/// 72 bits of the digest.
fn name_of(folder: &Path) -> String {
    let digest = Digest::of(folder.as_os_str().as_bytes());
    let pairs = digest.as_str().as_bytes().chunks_exact(2).take(DIGITS);
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).unwrap_or("0");
        usize::from(u8::from_str_radix(pair, 16).unwrap_or(0))
    };
    let digits = pairs.map(|pair| char::from(ALPHABET[byte(pair) % ALPHABET.len()]));
    START.chars().chain(digits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_fits_and_tells_folders_apart() {
        let names = ["/s/runs/a", "/s/runs/b"].map(|path| name_of(Path::new(path)));
        assert_eq!(names.each_ref().map(String::len), [15, 15]);
        assert_ne!(names[0], names[1]);
    }
}

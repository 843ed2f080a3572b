//! A run's own folder for temporary files. It is removed when the value is dropped, after the run's end is on record.

use super::{Plan, SandboxError};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Other users may have taken a name in a shared folder.
const TRIES: u32 = 100;

#[derive(Debug)]
pub struct Temp(PathBuf);

impl Temp {
    /// Short, since sockets that programs make in there have short paths; new, and only ours to enter.
    pub fn make(plan: &Plan) -> Result<Self, SandboxError> {
        let failed = |source| SandboxError::Temp { path: plan.temp.clone(), source };
        let base = plan.temp.canonicalize().map_err(failed)?;
        let pid = std::process::id();
        for number in 0..TRIES {
            let path = base.join(format!("agency-{pid}-{number}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(io::ErrorKind::AlreadyExists.into()))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        // What a run made unreadable stays; the machine cleans its folder for temporary files.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

//! The binary: a run's shim, or the command line. It does nothing itself.

use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all, before anything is set up: a shim must stay small.
    match agency::run::shim::duty() {
        Some(duty) => agency::run::shim::main(duty),
        None => agency::cli::main(),
    }
}

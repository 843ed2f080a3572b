//! The binary: a run's shim, the probe of a sandbox, or the command line. It does nothing itself.

use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all, before anything is set up: a shim must stay small.
    match agency::run::shim::duty() {
        Some(duty) => agency::run::shim::main(duty),
        None => match agency::run::sandbox::probe::run_if_asked() {
            Some(code) => code,
            None => agency::cli::main(),
        },
    }
}

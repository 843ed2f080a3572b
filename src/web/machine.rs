//! What `agency doctor` finds. It starts a few programs, so one look serves for a while.

use crate::cli::context::Context;
use crate::cli::doctor::{Check, checks};
use agency_dashboard::view::Finding;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const FRESH: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Machine(Mutex<Option<(Instant, Vec<Check>)>>);

impl Machine {
    pub(super) fn look(&self, context: &Context) -> Vec<Finding> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let checks = match &*last {
            Some((at, checks)) if at.elapsed() < FRESH => checks.clone(),
            _ => match checks(context) {
                Ok(checks) => last.insert((Instant::now(), checks)).1.clone(),
                Err(error) => return vec![failed(&error)],
            },
        };
        checks.into_iter().map(finding).collect()
    }
}

fn finding(check: Check) -> Finding {
    let Check { name, fine, found, fix } = check;
    Finding { name, fine, found, fix }
}

fn failed(error: &anyhow::Error) -> Finding {
    let (name, found) = ("doctor".to_owned(), format!("{error:#}"));
    Finding { name, fine: false, found, fix: Some("agency doctor".to_owned()) }
}

//! Each request of an owner works once (WB-02): the numbers of the last requests, as the journal has them.

use std::collections::VecDeque;

/// Enough for every page that may still be open somewhere; a journal segment holds about as many.
const MOST: usize = 512;

#[derive(Debug, Default)]
pub(super) struct AskedOnce(VecDeque<String>);

impl AskedOnce {
    pub(super) fn of(ids: Vec<String>) -> Self {
        Self(ids.into())
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.0.iter().any(|known| known == id)
    }

    pub(super) fn note(&mut self, id: &str) {
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back(id.to_owned());
    }

    pub(super) fn forget(&mut self, id: &str) {
        self.0.retain(|known| known != id);
    }

    /// Oldest first.
    pub(super) fn last(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

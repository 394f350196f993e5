//! The application of a proxy: writes the data that it has read on another connection.

use super::timing::Next;
use anabranch_base::time::Time;
use std::collections::VecDeque;

/// Data that has been read and not written, by time of creation.
#[derive(Clone, Debug, Default)]
pub(super) struct Relay {
    runs: VecDeque<(u64, Time)>,
    held: u64,
    ended: bool,
}

impl Relay {
    pub(super) fn give(&mut self, len: u64, born: Time) {
        self.held += len;
        match self.runs.back_mut() {
            Some(last) if last.1 == born => last.0 += len,
            _ => self.runs.push_back((len, born)),
        }
    }

    /// Marks the end of the data; returns whether this was new.
    pub(super) const fn end(&mut self) -> bool {
        !core::mem::replace(&mut self.ended, true)
    }

    pub(super) const fn held(&self) -> u64 {
        self.held
    }

    pub(super) fn next(&mut self) -> Next {
        match self.runs.pop_front() {
            Some((len, born)) => {
                self.held -= len;
                Next::Message { len, born: Some(born) }
            }
            None if self.ended => Next::End,
            None => Next::At(Time::MAX),
        }
    }
}

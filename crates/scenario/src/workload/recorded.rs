//! Recorded messages.

use super::timing::Next;
use crate::model::Recording;
use anabranch_base::time::Time;
use std::sync::Arc;

/// Writes the messages of a recording.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    recording: Arc<Recording>,
    start: Time,
    /// Index of the next message.
    at: usize,
}

impl Recorded {
    pub(super) fn new(recording: &Arc<Recording>, start: Time) -> Self {
        Self { recording: recording.clone(), start, at: 0 }
    }

    pub(super) fn next(&mut self, now: Time) -> Next {
        let Some(&(after, len)) = self.recording.messages.get(self.at) else { return Next::End };
        let born = self.start + after;
        if born > now {
            return Next::At(born);
        }
        self.at += 1;
        Next::Message { len, born: Some(born) }
    }
}

//! Stream reset and stream addition (RFC 6525).

use super::skip::Part;
use super::{Inbox, Reassembly, Run, Stream};

impl Reassembly {
    pub fn streams(&self) -> u16 {
        self.streams.len() as u16
    }

    /// Adds `count` streams.
    pub fn add_streams(&mut self, count: u16) {
        self.streams.extend((0..count).map(|_| Stream::default()));
        self.held.add_streams(self.streams.len());
    }

    /// True if no fragment or message waits for missing data.
    pub fn is_whole(&self) -> bool {
        self.runs.is_empty() && self.partials.is_empty() && self.held.all() == 0
    }

    /// Restarts the numbering of messages in each of these streams. All data sent before has been received; messages
    /// that are still incomplete will never be complete.
    pub fn reset_streams(&mut self, streams: &[u16], inbox: &mut Inbox) {
        let mut is_reset = vec![false; self.streams.len()];
        for &stream in streams {
            is_reset[usize::from(stream)] = true;
        }
        // Unordered DATA messages have no numbers.
        let restarts = |run: &Run| !run.unordered && is_reset[usize::from(run.stream)];
        let runs = self.runs.iter().filter(|(_, run)| restarts(run));
        let runs: Vec<Part> = runs.map(|(&start, _)| Part::Run(start)).collect();
        self.drop_parts(&runs, inbox);
        for &id in streams {
            for unordered in [false, true] {
                self.drop_partials((id, unordered), (0, u32::MAX), inbox);
            }
            let stream = &mut self.streams[usize::from(id)];
            for (_, message) in core::mem::take(&mut stream.waiting) {
                self.held.remove(id, message.len);
                inbox.push(message);
            }
            (stream.next, stream.gone) = (0, None);
        }
    }
}

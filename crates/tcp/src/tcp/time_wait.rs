//! State that a host keeps of an ended connection (TIME-WAIT, RFC 9293 §3.3.2).

use super::numbers::Tuple;
use anabranch_base::time::Time;
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::{Flags, Segment, Timestamps};

/// State of an ended connection that suffices to acknowledge old segments and to judge a new SYN (RFC 6191).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeWaitState {
    /// Next sequence number to send.
    pub next_sequence: Serial,
    /// Next sequence number expected.
    pub expected: Serial,
    /// With timestamps: the last one received, and the offset of the clock of those sent.
    pub timestamps: Option<(u32, u32)>,
}

impl TimeWaitState {
    /// Repeats the last acknowledgement, at `now` from `local` to `remote`.
    pub fn answer(&self, now: Time, (local, remote): Tuple) -> Segment {
        let mut segment = Segment {
            source_port: local.port(),
            destination_port: remote.port(),
            seq: self.next_sequence,
            ack: self.expected,
            flags: Flags::ACK,
            ..Segment::default()
        };
        if let Some((echo, offset)) = self.timestamps {
            let value = ((now.as_nanos() / 1_000_000) as u32).wrapping_add(offset);
            segment.options.timestamps = Some(Timestamps { value, echo });
        }
        segment
    }
}

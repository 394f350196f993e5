//! FORWARD TSN and I-FORWARD-TSN (RFC 3758 §3.6, RFC 8260 §2.3): the peer has abandoned messages, and their missing
//! chunks will not arrive.

use crate::common::{Core, violation};
use crate::open::Open;
use crate::receiver::reassembly::Skip;
use anabranch_endpoint::endpoint::Reason;
use anabranch_wire::sctp::Chunk;

impl Open {
    /// Handles a FORWARD TSN or I-FORWARD-TSN. It is acknowledged at once, like a chunk with the I bit.
    pub fn handle_forward(&mut self, core: &mut Core, chunk: &Chunk) -> Option<Reason> {
        let (cumulative, skips): (_, Vec<Skip>) = match chunk {
            Chunk::ForwardTsn(forward) => {
                let skip = |skipped: &anabranch_wire::sctp::Skipped| Skip {
                    stream: skipped.stream,
                    unordered: false,
                    number: u32::from(skipped.ssn),
                };
                (forward.cumulative_tsn, forward.skipped.iter().map(skip).collect())
            }
            Chunk::IForwardTsn(forward) => {
                let skip = |skipped: &anabranch_wire::sctp::SkippedMessage| Skip {
                    stream: skipped.stream,
                    unordered: skipped.unordered,
                    number: skipped.mid.0,
                };
                (forward.cumulative_tsn, forward.skipped.iter().map(skip).collect())
            }
            _ => return None,
        };
        if matches!(chunk, Chunk::IForwardTsn(_)) != self.extensions.i_data {
            return Some(self.refuse(core, violation("FORWARD TSN and I-DATA mixed")));
        }
        if !self.phase.takes_data() {
            return None;
        }
        let to = cumulative.unwrap_near(self.inbound.cumulative());
        let unclear = to > self.inbound.cumulative() && self.reconfig.awaits_numbers();
        if unclear || self.inbound.is_from_before(to) {
            return None;
        }
        core.totals.forward_tsns_received += 1;
        self.inbound.skip_to(to, &skips, &mut core.inbox);
        None
    }
}

//! Packets with zero checksum (RFC 9653), for a lower layer that detects damage: SCTP over DTLS.

use super::state::{Association, State};
use anabranch_wire::sctp::{self, Chunk};
use anabranch_wire::{Body, Packet};

/// True if a chunk always needs a checksum (§5.2): the receiver may not know the sender or its address yet.
const fn has_checksum(chunk: &Chunk) -> bool {
    matches!(chunk, Chunk::Init(_) | Chunk::CookieEcho(_) | Chunk::Asconf(_))
}

impl Association {
    /// Returns true if a packet with zero checksum is accepted, because this endpoint has announced that (§5.3). The
    /// packet may be the peer's first, an INIT ACK.
    pub(crate) fn trusts_carrier(&self, packet: &sctp::Packet) -> bool {
        let told = !matches!(self.state, State::Idle | State::Listening | State::Closed);
        told && self.core.config.error_detection.is_some() && !packet.chunks.iter().any(has_checksum)
    }

    /// Sets the checksum to zero in a packet of an association whose peer accepts it (§5.2). A response to a packet of
    /// another association, with its tag, gets a checksum.
    pub(crate) fn leave_out_checksum(&self, packet: &mut Packet) {
        let State::Open(open) = &self.state else { return };
        if let Body::Sctp(body) = &mut packet.body
            && open.extensions.zero_checksum
        {
            let own = body.verification_tag == open.peer_tag;
            // The sender of an INIT ACK may have restarted, and may no longer accept packets with zero checksum.
            let answers = body.chunks.iter().any(|chunk| matches!(chunk, Chunk::InitAck(_)));
            body.zero_checksum = own && !answers && !body.chunks.iter().any(has_checksum);
        }
    }
}

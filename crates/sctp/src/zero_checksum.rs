//! Packets without a checksum, where what carries them notices their damage by itself (RFC 9653): SCTP over DTLS.

use super::association::{Association, State};
use anabranch_wire::sctp::{self, Chunk};
use anabranch_wire::{Body, Packet};

/// These chunks always need a checksum (§5.2): the receiver may not know the sender yet, or the sender's
/// address.
const fn has_checksum(chunk: &Chunk) -> bool {
    matches!(chunk, Chunk::Init(_) | Chunk::CookieEcho(_) | Chunk::Asconf(_))
}

impl Association {
    /// Whether to accept a packet without a checksum: this end has announced to the peer that it does (§5.3).
    /// It may be the peer's first packet, an INIT ACK.
    pub(super) fn trusts_carrier(&self, packet: &sctp::Packet) -> bool {
        let told = !matches!(self.state, State::Idle | State::Listening | State::Closed);
        told && self.core.config.error_detection.is_some() && !packet.chunks.iter().any(has_checksum)
    }

    /// A packet of an association whose peer accepts it is sent without a checksum (§5.2). A reply to a
    /// packet of another association, by its tag, has one.
    pub(super) fn leave_out_checksum(&self, packet: &mut Packet) {
        let State::Open(open) = &self.state else { return };
        if let Body::Sctp(body) = &mut packet.body
            && open.extensions.zero_checksum
        {
            let own = body.verification_tag == open.peer_tag;
            // The sender of an INIT ACK may have restarted, and may no longer accept packets without a
            // checksum.
            let answers = body.chunks.iter().any(|chunk| matches!(chunk, Chunk::InitAck(_)));
            body.zero_checksum = own && !answers && !body.chunks.iter().any(has_checksum);
        }
    }
}

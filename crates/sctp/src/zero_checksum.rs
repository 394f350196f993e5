//! Packets without a checksum, where what carries them notices their damage by itself (RFC 9653): SCTP over DTLS.

use super::association::{Association, State};
use anabranch_wire::sctp::{self, Chunk};
use anabranch_wire::{Body, Packet};

/// These packets have a checksum in any case (§5.2): who gets them may not know the sender yet, or the address that it is at.
const fn has_checksum(chunk: &Chunk) -> bool {
    matches!(chunk, Chunk::Init(_) | Chunk::CookieEcho(_) | Chunk::Asconf(_))
}

impl Association {
    /// A packet without a checksum is to be taken: this end has told the peer that it does so (§5.3). It may be the peer's very
    /// first, an INIT ACK.
    pub(super) fn trusts_carrier(&self, packet: &sctp::Packet) -> bool {
        let told = !matches!(self.state, State::Idle | State::Listening | State::Closed);
        told && self.core.config.error_detection.is_some() && !packet.chunks.iter().any(has_checksum)
    }

    /// A packet of an association whose peer takes it so leaves without a checksum (§5.2). What answers a packet of another
    /// association, by its tag, has one.
    pub(super) fn leave_out_checksum(&self, packet: &mut Packet) {
        let State::Open(open) = &self.state else { return };
        if let Body::Sctp(body) = &mut packet.body
            && open.extensions.zero_checksum
        {
            let own = body.verification_tag == open.peer_tag;
            // What an INIT ACK answers may be from a peer that has begun anew, without what it said before.
            let answers = body.chunks.iter().any(|chunk| matches!(chunk, Chunk::InitAck(_)));
            body.zero_checksum = own && !answers && !body.chunks.iter().any(has_checksum);
        }
    }
}

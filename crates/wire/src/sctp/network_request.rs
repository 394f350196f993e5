//! Requests for network control in the bytes of packets, which a router parses and answers.

use super::{CHECKSUM_AT, Chunk, HEADER_LEN, NetworkControl, checksum, kind};

impl NetworkControl {
    /// The chunk at the start of an SCTP packet's bytes, if it is a valid request. Returns `None` if the packet's
    /// checksum is wrong: an answer would have a correct checksum and so hide the damage.
    pub fn requested_in(packet: &[u8]) -> Option<Self> {
        if packet.get(HEADER_LEN as usize) != Some(&kind::NETWORK_CONTROL) {
            return None;
        }
        let found = packet.get(CHECKSUM_AT..).and_then(<[u8]>::first_chunk)?;
        let found = u32::from_le_bytes(*found);
        if found != 0 && found != checksum(packet) {
            return None;
        }
        match Chunk::parse(packet.get(HEADER_LEN as usize..)?) {
            Ok(Some((Chunk::NetworkControl(control), _))) if !control.is_report => Some(*control),
            _ => None,
        }
    }

    /// Replaces the chunk at the start of an SCTP packet's bytes, from which the chunk was read, and corrects the
    /// checksum, unless the packet has none (RFC 9653).
    ///
    /// # Panics
    ///
    /// If the packet is too short for the chunk.
    pub fn replace_in(self, packet: &mut [u8]) {
        let had_checksum = packet[CHECKSUM_AT..HEADER_LEN as usize] != [0; 4] || checksum(packet) == 0;
        let bytes = Chunk::NetworkControl(Box::new(self)).to_bytes();
        packet[HEADER_LEN as usize..][..bytes.len()].copy_from_slice(&bytes);
        if had_checksum {
            let corrected = checksum(packet).to_le_bytes();
            packet[CHECKSUM_AT..HEADER_LEN as usize].copy_from_slice(&corrected);
        }
    }
}

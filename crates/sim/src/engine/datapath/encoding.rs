//! Encoding of packets: only to check each packet, or as the form in which links carry packets.

use crate::engine::slab::PacketSlab;
use anabranch_wire::check::{self, CheckError, check};

/// Bytes of packets.
#[derive(Debug)]
pub(super) enum Encoding {
    /// Every packet is encoded, parsed and compared as it is sent; contains the bytes of the last one.
    Checked(Vec<u8>),
    /// Packets travel as bytes, by their slots in the pool. Ends and middleboxes receive the packets that
    /// are parsed from them.
    Carried(Vec<Vec<u8>>),
}

impl Encoding {
    /// Encodes a packet that was just stored.
    pub(super) fn encode(&mut self, slab: &PacketSlab, id: u32) -> Result<(), CheckError> {
        match self {
            Self::Checked(scratch) => check(slab.get(id), scratch),
            Self::Carried(all) => check::encode(slab.get(id), slot(all, id)),
        }
    }

    /// Replaces a stored packet by the packet that is parsed from its bytes.
    pub(super) fn parse(&mut self, slab: &mut PacketSlab, id: u32) -> Result<(), CheckError> {
        if let Self::Carried(all) = self {
            let packet = slab.get_mut(id);
            *packet = check::receive(packet, slot(all, id))?;
        }
        Ok(())
    }
}

/// The buffer for the bytes of a packet.
fn slot(all: &mut Vec<Vec<u8>>, id: u32) -> &mut Vec<u8> {
    let at = id as usize;
    if at >= all.len() {
        all.resize_with(at + 1, Vec::new);
    }
    &mut all[at]
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_wire::{Body, Ecn, Packet, Payload, tcp};

    fn packet() -> Packet {
        let payload = Payload::new(1_000, 100);
        let body = Body::Tcp(tcp::Segment { payload, ..tcp::Segment::default() });
        Packet { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into(), ecn: Ecn::NotEct, body }
    }

    #[test]
    fn arrival_is_parsed_from_its_bytes() {
        let mut slab = PacketSlab::new();
        let mut encoding = Encoding::Carried(Vec::new());
        let id = slab.insert(packet());
        encoding.encode(&slab, id).expect("the packet has an encoding");
        // The parsed packet replaces this change.
        slab.get_mut(id).ecn = Ecn::Ect1;
        assert_eq!(encoding.parse(&mut slab, id), Ok(()));
        assert_eq!(slab.take(id), packet());
    }

    #[test]
    fn changed_byte_is_an_error() {
        let mut slab = PacketSlab::new();
        let id = slab.insert(packet());
        for at in [0, 21, 139] {
            let mut encoding = Encoding::Carried(Vec::new());
            encoding.encode(&slab, id).expect("the packet has an encoding");
            let Encoding::Carried(all) = &mut encoding else { panic!("packets travel as bytes") };
            all[id as usize][at] ^= 1;
            assert!(matches!(encoding.parse(&mut slab, id), Err(CheckError::Parse(_))), "{at}");
        }
    }

    #[test]
    fn bytes_at_a_wrong_offset_are_an_error() {
        let mut slab = PacketSlab::new();
        let mut encoding = Encoding::Carried(Vec::new());
        let id = slab.insert(packet());
        encoding.encode(&slab, id).expect("the packet has an encoding");
        let Body::Tcp(segment) = &mut slab.get_mut(id).body else { panic!("a segment") };
        segment.payload.offset += 1;
        assert_eq!(encoding.parse(&mut slab, id), Err(CheckError::Payload { payload: 0, at: 0 }));
    }
}

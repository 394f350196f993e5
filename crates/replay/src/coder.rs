//! Compression of packets: each by its differences from an earlier packet between the same ends.

use super::fields::{Fields, Malformed, Put as _};

/// Longest IP packet, bytes: an IPv6 header and its largest payload.
const MAX_PACKET_BYTES: usize = 65_575;
/// Number of earlier packets that are kept for comparison.
const SLOTS: usize = 64;
/// Bytes that are kept of an earlier packet: headers and options.
const KEPT_BYTES: usize = 256;
/// Minimum number of equal bytes that end a run of different bytes; a shorter match would cost more than it saves.
const MIN_EQUAL_BYTES: usize = 3;

/// The last packets, against which the next one is encoded; writer and reader keep the same packets.
#[derive(Clone, Debug)]
pub struct Coder {
    slots: Vec<Vec<u8>>,
}

impl Coder {
    pub fn new() -> Self {
        Self { slots: vec![Vec::new(); SLOTS] }
    }

    /// Appends a packet: its length, the slot of the earlier packet, then in turn the number of equal bytes, the number of
    /// other bytes, and these. Behind the kept bytes of the earlier packet, zero bytes count as equal.
    pub fn encode(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let slot = slot_of(bytes);
        out.put_number(bytes.len() as u64);
        out.push(slot as u8);
        let earlier = &self.slots[slot];
        let differs = |at: usize| bytes[at] != earlier.get(at).copied().unwrap_or(0);
        let mut at = 0;
        while at < bytes.len() {
            let first = (at..bytes.len()).find(|&at| differs(at)).unwrap_or(bytes.len());
            let end = end_of_others(first, bytes.len(), differs);
            out.put_number((first - at) as u64);
            out.put_bytes(&bytes[first..end]);
            at = end;
        }
        self.keep(slot, bytes);
    }

    /// The next packet.
    pub fn decode(&mut self, fields: &mut Fields<'_>) -> Result<Vec<u8>, Malformed> {
        let len: usize = fields.small()?;
        let slot = usize::from(fields.byte()?);
        if len > MAX_PACKET_BYTES || slot >= SLOTS {
            return Err(Malformed);
        }
        let mut bytes = self.slots[slot].clone();
        bytes.resize(len, 0);
        let mut at: usize = 0;
        while at < len {
            let equal: usize = fields.small()?;
            let others = fields.bytes()?;
            let first = at.checked_add(equal).ok_or(Malformed)?;
            let end =
                first.checked_add(others.len()).filter(|&end| end <= len && end > at).ok_or(Malformed)?;
            bytes[first..end].copy_from_slice(others);
            at = end;
        }
        self.keep(slot, &bytes);
        Ok(bytes)
    }

    fn keep(&mut self, slot: usize, bytes: &[u8]) {
        let kept = &mut self.slots[slot];
        kept.clear();
        kept.extend_from_slice(&bytes[..bytes.len().min(KEPT_BYTES)]);
    }
}

/// The end of a run of bytes that differ: before [`MIN_EQUAL_BYTES`] equal ones, or at `len`.
fn end_of_others(first: usize, len: usize, differs: impl Fn(usize) -> bool) -> usize {
    let mut end = first;
    for at in first..len {
        if differs(at) {
            end = at + 1;
        } else if at - end >= MIN_EQUAL_BYTES {
            return end;
        }
    }
    end
}

/// The slot of packets between the ends of this one: a hash (FNV-1a) of addresses and ports.
fn slot_of(bytes: &[u8]) -> usize {
    let ends = if bytes.first().is_some_and(|first| first >> 4 == 6) { 8..44 } else { 12..24 };
    let ends = bytes.get(ends).unwrap_or_default();
    let hash = ends.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 32) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_packet_takes_a_few_bytes() {
        let mut packet = vec![0x45; 60];
        packet.resize(1500, 0);
        let (mut writer, mut out) = (Coder::new(), Vec::new());
        writer.encode(&packet, &mut out);
        assert_eq!(out.len(), 2 + 1 + 1 + 1 + 60 + 2 + 1);
        out.clear();
        packet[25] = 7;
        writer.encode(&packet, &mut out);
        // Length, slot, 25 equal, one other, 1,474 equal, none.
        assert_eq!(out[3..], [25, 1, 7, 0xc2, 0x0b, 0]);
    }

    fn packet() -> impl Strategy<Value = Vec<u8>> {
        let few = prop_oneof![3 => Just(0_u8), 1 => any::<u8>()];
        prop::collection::vec(few, 0..600)
    }

    proptest! {
        #[test]
        fn packets_are_read_back(packets in prop::collection::vec(packet(), 1..20)) {
            let (mut writer, mut reader) = (Coder::new(), Coder::new());
            for packet in packets {
                let mut out = Vec::new();
                writer.encode(&packet, &mut out);
                let mut fields = Fields(&out);
                prop_assert_eq!(reader.decode(&mut fields), Ok(packet));
                prop_assert_eq!(fields.end(), Ok(()));
            }
        }

        #[test]
        fn any_bytes_give_a_short_packet_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(packet) = Coder::new().decode(&mut Fields(&bytes)) {
                prop_assert!(packet.len() <= MAX_PACKET_BYTES);
            }
        }
    }
}

//! Fragmentation of IPv4 packets (RFC 791 §3.2), for links that end on another machine. A link within a
//! machine does not fragment: it carries a packet longer than its MTU unchanged if the packet may be
//! fragmented.

use super::packet::RawPacket;
use anabranch_wire::ip::ipv4;

const MORE_FRAGMENTS: u8 = 0x20;
/// Bits of the first octet of the fragment offset.
const OFFSET_BITS: u8 = 0x1f;

/// Splits an IPv4 packet into fragments of at most `longest` bytes, at least 576. All of them have its options.
pub(super) fn fragments(packet: &RawPacket, longest: usize) -> Vec<Vec<u8>> {
    let mut whole = Vec::new();
    packet.append_finished(&mut whole);
    let len = packet.header_len();
    let (header, payload) = whole.split_at(len);
    let first = u16::from_be_bytes([header[6] & OFFSET_BITS, header[7]]);
    let room = (longest.saturating_sub(len) / 8 * 8).max(8);
    let count = payload.len().div_ceil(room);
    let fragment = |(number, part): (usize, &[u8])| {
        let mut bytes = [header, part].concat();
        let total = bytes.len() as u16;
        let [high, low] = first.wrapping_add((number * room / 8) as u16).to_be_bytes();
        let more = if number + 1 < count { MORE_FRAGMENTS } else { header[6] & MORE_FRAGMENTS };
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        (bytes[6], bytes[7]) = (more | high & OFFSET_BITS, low);
        ipv4::set_checksum(&mut bytes);
        bytes
    };
    payload.chunks(room).enumerate().map(fragment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_wire::Checksum;
    use proptest::prelude::*;

    fn packet(payload: &[u8], flags: u8, words: usize) -> RawPacket {
        let mut packet = vec![1; 20 + 4 * words];
        packet[0] = 0x45 + words as u8;
        (packet[6], packet[7]) = (flags, 5);
        packet.extend(payload);
        RawPacket::new(packet).expect("an IPv4 header")
    }

    #[test]
    fn fragments_have_offsets_and_flags() {
        // 1500 bytes hold 1480 bytes of payload, 185 units of 8 bytes.
        let parts = fragments(&packet(&[9; 2000], 0, 0), 1500);
        let heads: Vec<_> = parts.iter().map(|part| (part.len(), part[6], part[7])).collect();
        assert_eq!(heads, [(1500, MORE_FRAGMENTS, 5), (540, 0, 190)]);
        // The packet is itself a fragment that others follow, so all of its parts have the flag "more
        // fragments".
        let parts = fragments(&packet(&[9; 2000], MORE_FRAGMENTS, 0), 1500);
        assert!(parts.iter().all(|part| part[6] & MORE_FRAGMENTS != 0));
    }

    proptest! {
        #[test]
        fn fragments_contain_the_payload(payload: Vec<u8>, words in 0..11_usize, longest in 576..2000_usize) {
            let payload = payload.repeat(30);
            let mut joined = Vec::new();
            for part in fragments(&packet(&payload, 0, words), longest) {
                let len = 20 + 4 * words;
                prop_assert!(part.len() <= longest);
                prop_assert_eq!(Checksum::new().bytes(&part[..len]).finish(), 0);
                prop_assert_eq!(usize::from(u16::from_be_bytes([part[6] & OFFSET_BITS, part[7]]) - 5) * 8, joined.len());
                joined.extend_from_slice(&part[len..]);
            }
            prop_assert_eq!(joined, payload);
        }

        #[test]
        fn random_bytes_do_not_panic(mut packet: Vec<u8>, longest in 576..70_000_usize) {
            if let Some(first) = packet.first_mut() {
                *first = 0x40 | *first & 0xf;
            }
            if let Ok(packet) = RawPacket::new(packet) {
                fragments(&packet, longest);
            }
        }
    }
}

//! Theorems about lengths and fields of SCTP chunks ([method](anabranch_proof)).

use super::{Action, Chunk, Data, DataFlags, ForwardTsn, GapBlock, SackFlags, kind, padded, tlv};
use crate::Payload;
use crate::seq::Serial;
use anabranch_proof::theorem;

theorem! {
    /// For every length below 2³² − 4, padding gives the next multiple of four.
    fn padding_gives_next_multiple_of_four(len: u32) {
        if len > u32::MAX - 4 {
            return;
        }
        let padded = padded(len);
        assert!(padded.is_multiple_of(4) && padded >= len && padded - len < 4);
    }
}

theorem! {
    /// For all three lengths of 16 bits, a list pads all items but the last.
    fn list_pads_all_items_but_the_last(a: u16, b: u16, c: u16) {
        let [a, b, c] = [a, b, c].map(u32::from);
        let expected = a.next_multiple_of(4) + b.next_multiple_of(4) + c;
        assert!(tlv::list_length([a, b, c].into_iter()) == expected);
    }
}

theorem! {
    /// For every number of packets, the flags of a SACK report it, limited to 3.
    fn sack_flags_report_up_to_three_packets(packets: u32) {
        assert!(SackFlags::answering(packets).packets_answered() == packets.min(3));
    }
}

theorem! {
    /// For all cumulative TSNs and gap blocks, the block is behind the cumulative TSN and contains `end − start + 1` TSNs.
    fn gap_block_is_behind_the_cumulative_tsn(cumulative: u32, start: u16, end: u16) {
        if start == 0 || end < start {
            return;
        }
        let (cumulative, block) = (Serial(cumulative), GapBlock::new(start, end));
        let (first, last) = (block.first(cumulative), block.last(cumulative));
        assert!(cumulative.before(first) && first.at_or_before(last));
        assert!(last.0.wrapping_sub(first.0) == u32::from(end - start));
    }
}

theorem! {
    /// For every chunk type and parameter type, the two high bits determine the action (RFC 9260 §3.2).
    fn two_high_bits_of_a_type_are_its_action(parameter: u16) {
        let kind = (parameter >> 8) as u8;
        let action = Action::of_chunk(kind);
        assert!(action == Action::of_parameter(parameter));
        assert!(action.stops() == (kind & 0x80 == 0) && action.reports() == (kind & 0x40 != 0));
    }
}

theorem! {
    /// For all fields of DATA with a payload of up to 4 bytes, the encoding has the announced length, and parsing it
    /// returns the chunk.
    fn data_chunk_survives_encoding(tsn: u32, stream: u16, ssn: u16, ppid: u32, flags: u8, len: u8) {
        if len > 4 {
            return;
        }
        let payload = Payload::new(16, len.into());
        let data = Data { tsn: Serial(tsn), stream, ssn, ppid, flags: DataFlags(flags), payload };
        let (chunk, mut out) = (Chunk::Data(data), Vec::with_capacity(32));
        chunk.emit(&mut out, &mut |_, bytes| bytes.fill(7));
        assert!(out.len() == chunk.wire_len() as usize);
        assert!(usize::from(u16::from_be_bytes([out[2], out[3]])) == chunk.length() as usize);
        let Ok(Some((Chunk::Data(parsed), rest))) = Chunk::parse(&out) else { panic!("no DATA chunk") };
        assert!(parsed == data && rest.is_empty());
    }
}

theorem! {
    /// For all 20 bytes with the type of DATA, parsing returns; a parsed chunk ends on a multiple of four, and its payload
    /// lies within the bytes.
    fn parsed_data_lies_within_its_bytes(value: [u8; 19]) {
        let mut bytes = [kind::DATA; 20];
        bytes[1..].copy_from_slice(&value);
        if let Ok(Some((chunk, rest))) = Chunk::parse(&bytes) {
            let payload = chunk.payload().expect("a payload of DATA");
            assert!(bytes.len() - rest.len() == chunk.wire_len() as usize && rest.len().is_multiple_of(4));
            assert!(payload.end() <= u64::from(chunk.length()));
        }
    }
}

theorem! {
    /// For all 20 bytes with the type of SACK, parsing returns; the counts of a parsed chunk agree with its length.
    fn parsed_sack_has_the_announced_entries(value: [u8; 19]) {
        let mut bytes = [kind::SACK; 20];
        bytes[1..].copy_from_slice(&value);
        if let Ok(Some((Chunk::Sack(sack), rest))) = Chunk::parse(&bytes) {
            assert!(bytes.len() - rest.len() == sack.length() as usize);
            assert!(sack.gaps.len() + sack.duplicates.len() <= 1);
        }
    }
}

theorem! {
    /// For all 12 bytes with the type of FORWARD TSN, parsing returns, and a parsed chunk has the parsed length.
    fn parsed_forward_tsn_has_the_parsed_length(value: [u8; 11]) {
        let mut bytes = [kind::FORWARD_TSN; 12];
        bytes[1..].copy_from_slice(&value);
        if let Ok(Some((Chunk::ForwardTsn(forward), rest))) = Chunk::parse(&bytes) {
            let forward: ForwardTsn = forward;
            assert!(bytes.len() - rest.len() == padded(forward.length()) as usize);
        }
    }
}

theorem! {
    /// For all 8 bytes of every type, parsing returns; a parsed chunk has the length of the bytes that it took.
    fn chunk_of_any_type_has_the_parsed_length(bytes: [u8; 8]) {
        if let Ok(Some((chunk, rest))) = Chunk::parse(&bytes) {
            assert!(bytes.len() - rest.len() == chunk.wire_len() as usize);
        }
    }
}

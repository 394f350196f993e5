//! Theorems about TCP segments and their options ([method](anabranch_proof)).

use super::{Options, Segment, Timestamps};
use crate::seq::Serial;
use anabranch_proof::theorem;

theorem! {
    /// For all option spaces of 4 bytes, parsing returns, and the options read need at most 4 bytes.
    fn parsing_four_bytes_of_options_returns(bytes: [u8; 4]) {
        if let Ok(options) = Options::parse(&bytes) {
            assert!(options.dense_len() <= 4);
        }
    }
}

theorem! {
    /// For all MSS, window scale, SACK-permitted and timestamps, present or not, the encoding has the announced length, a
    /// multiple of four, and parsing it returns the options.
    fn options_survive_encoding(mss: Option<u16>, shift: Option<u8>, sack: bool, stamps: Option<[u8; 8]>) {
        let timestamps = stamps.map(|[a, b, c, d, e, f, g, h]| Timestamps {
            value: u32::from_le_bytes([a, b, c, d]),
            echo: u32::from_le_bytes([e, f, g, h]),
        });
        let options = Options { mss, window_scale: shift, sack_permitted: sack, timestamps, ..Options::default() };
        let mut out = Vec::with_capacity(64);
        options.emit(&mut out);
        assert!(out.len() == options.wire_len() as usize && out.len().is_multiple_of(4) && out.len() <= 40);
        let parsed = Options::parse(&out).expect("valid options");
        assert!(parsed.mss == mss && parsed.window_scale == shift && parsed.sack_permitted == sack);
        assert!(parsed.timestamps == timestamps && parsed.sack.is_empty() && parsed.mptcp.is_empty());
    }
}

theorem! {
    /// For up to two SACK blocks with any edges, the encoding has the announced length, and parsing it returns the blocks.
    fn sack_blocks_survive_encoding(edges: [u8; 16], count: u8) {
        let mut options = Options::default();
        let (words, _) = edges.as_chunks();
        let edge = |at: usize| Serial(u32::from_le_bytes(words[at]));
        for at in 0..usize::from(count % 3) {
            assert!(options.sack.push(edge(2 * at), edge(2 * at + 1)));
        }
        let mut out = Vec::with_capacity(64);
        options.emit(&mut out);
        assert!(out.len() == options.wire_len() as usize);
        let parsed = Options::parse(&out).expect("valid options");
        assert!(parsed.sack.count() == options.sack.count());
        for (one, other) in parsed.sack.as_slice().iter().zip(options.sack.as_slice()) {
            assert!(one == other);
        }
    }
}

theorem! {
    /// For all 24 bytes, a parsed segment has the length of the bytes, and its payload ends where they end.
    fn parsed_segment_lies_within_its_bytes(fixed: [u8; 20]) {
        let mut bytes = [1; 24];
        bytes[..20].copy_from_slice(&fixed);
        match Segment::parse_unverified(&bytes) {
            Ok(segment) => {
                assert!(segment.payload.end() == 24 && segment.payload.offset == u64::from(fixed[12] >> 4) * 4);
            }
            Err(_) => assert!(fixed[12] >> 4 < 5 || fixed[12] >> 4 > 6),
        }
    }
}

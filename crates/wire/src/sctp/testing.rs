//! Helpers of the chunk tests.

use super::Chunk;
use crate::Buffer;
pub(super) use crate::bytes::from_hex as hex;

/// Checks that the chunk is written as `bytes`, padding included, and read back from them; every shorter
/// prefix is refused.
pub(super) fn check_chunk(chunk: &Chunk, bytes: &str) {
    let bytes = hex(bytes);
    let mut out = vec![0xee; 3];
    chunk.emit(&mut out, &mut |payload, bytes| payload.fill(bytes));
    assert_eq!(out[3..], bytes, "{chunk:?}");
    assert_eq!(chunk.wire_len() as usize, bytes.len());
    assert_eq!(chunk.length(), u32::from(u16::from_be_bytes([bytes[2], bytes[3]])));
    assert_eq!(chunk.to_bytes()[..], bytes[..chunk.length() as usize]);
    assert_eq!(chunk.kind(), bytes[0]);

    let behind = [&bytes[..], &[1, 2, 3]].concat();
    let (mut read, rest) = Chunk::parse(&behind).unwrap().unwrap();
    if let (Some(payload), Some(sent)) = (read.payload_mut(), chunk.payload()) {
        assert_eq!(sent.first_difference(Buffer(&behind).bytes(*payload)), None);
        payload.offset = sent.offset;
    }
    assert_eq!((&read, rest), (chunk, &[1, 2, 3][..]));
    for cut in 0..bytes.len() {
        assert!(!matches!(Chunk::parse(&bytes[..cut]), Ok(Some(_))), "{chunk:?} cut at {cut}");
    }
}

/// Checks that the bytes are refused.
pub(super) fn refuse_chunk(bytes: &str) {
    assert!(!matches!(Chunk::parse(&hex(bytes)), Ok(Some(_))), "{bytes}");
}

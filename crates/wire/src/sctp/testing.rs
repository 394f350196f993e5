//! Helpers of the chunk tests.

use super::Chunk;
use crate::Buffer;

/// Bytes from hexadecimal digits; white space is for the reader.
pub(super) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> = digits
        .chars()
        .filter(|char| !char.is_whitespace())
        .map(|char| char.to_digit(16).expect("a hexadecimal digit"))
        .collect();
    let (pairs, []) = digits.as_chunks() else { panic!("an odd number of digits") };
    pairs.iter().map(|[high, low]| (high << 4 | low) as u8).collect()
}

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

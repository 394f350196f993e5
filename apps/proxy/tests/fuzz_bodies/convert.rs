//! Properties of the parser of Convert messages that hold for any input.

use anabranch_proxy::convert::{emit, parse};

/// Parses bytes as the beginning of a stream. Asserts that a message is complete with its last byte and not before,
/// whatever bytes follow; that an invalid beginning stays invalid with more bytes; and that a parsed message is equal
/// after it was encoded and parsed again.
pub fn convert(bytes: &[u8]) {
    match parse(bytes) {
        Ok(Some((tlvs, len))) => {
            assert!((4..=bytes.len().min(1020)).contains(&len));
            assert!((0..len).all(|short| parse(&bytes[..short]) == Ok(None)));
            // Bytes after the end of an option list are padding, which is not encoded again.
            let again = emit(&tlvs).expect("the message fits into the maximum length");
            assert!(again.len() <= len);
            assert_eq!(parse(&again), Ok(Some((tlvs, again.len()))));
        }
        Ok(None) => assert!(bytes.len() < 1020, "an incomplete message is longer than the maximum"),
        Err(malformed) => assert_eq!(parse(&[bytes, &[0; 8]].concat()), Err(malformed)),
    }
}

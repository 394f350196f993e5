//! Messages of the Convert Protocol.

use anabranch_proxy::convert::{emit, parse};

/// The beginning of a stream. A message is complete with its last byte and not before, independent of the bytes after it. A wrong
/// beginning stays wrong with more bytes. A message that was read, written and read again is equal.
pub fn convert(bytes: &[u8]) {
    match parse(bytes) {
        Ok(Some((tlvs, len))) => {
            assert!((4..=bytes.len().min(1020)).contains(&len));
            assert!((0..len).all(|short| parse(&bytes[..short]) == Ok(None)));
            // Bytes after the end of a list of options are padding, and not written again.
            let again = emit(&tlvs).expect("it was no longer");
            assert!(again.len() <= len);
            assert_eq!(parse(&again), Ok(Some((tlvs, again.len()))));
        }
        Ok(None) => assert!(bytes.len() < 1020, "it wants ever more"),
        Err(malformed) => assert_eq!(parse(&[bytes, &[0; 8]].concat()), Err(malformed)),
    }
}

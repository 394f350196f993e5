//! Properties of the parsers of a client's first bytes that hold for any input.

use anabranch_proxy::reverse::header::{self, Version};
use anabranch_proxy::reverse::malformed::Parsed;
use anabranch_proxy::reverse::{http_host::http_host, server_name::server_name};
use std::fmt::Debug;

/// Parses bytes as the beginning of a stream, with the parsers for PROXY headers, TLS and HTTP.
pub fn first_bytes(bytes: &[u8]) {
    check(bytes, header::parse);
    check(bytes, server_name);
    check(bytes, http_host);
    if let Ok(Some((Some((client, proxy)), _))) = header::parse(bytes) {
        for version in [Version::V1, Version::V2] {
            let again = header::emit(version, client, proxy);
            assert_eq!(header::parse(&again), Ok(Some((Some((client, proxy)), again.len()))));
        }
    }
    if let Ok(Some((Some(name), _))) = server_name(bytes) {
        assert!((1..=255).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic()));
        assert!(bytes.windows(2).any(|pair| pair[0] == 22 && pair[1] == 3));
    }
    if let Ok(Some((Some(host), _))) = http_host(bytes) {
        assert!(bytes.windows(host.len()).any(|part| part == host.as_bytes()), "{host}");
    }
}

/// Asserts that a request is complete with its last byte and not before, whatever bytes follow, and that an invalid
/// beginning stays invalid.
fn check<T: Clone + Debug + PartialEq>(bytes: &[u8], parse: impl Fn(&[u8]) -> Parsed<Option<T>>) {
    match parse(bytes) {
        // The length is 0 if the bytes belong to another protocol.
        Ok(Some((value, len))) => {
            assert!(len <= bytes.len() && (len > 0 || value.is_none()));
            let more = [bytes, &[0; 8]].concat();
            assert_eq!(parse(&more), Ok(Some((value.clone(), len))));
            if len > 0 {
                assert_eq!(parse(&bytes[..len]), Ok(Some((value, len))));
                // Checks every eighth prefix, and those that lack a few bytes at the end.
                let shorter = (0..len).step_by(8).chain(len.saturating_sub(8)..len);
                for short in shorter {
                    assert_eq!(parse(&bytes[..short]), Ok(None), "{short} of {len}");
                }
            }
        }
        Ok(None) => assert!((0..bytes.len()).step_by(8).all(|short| parse(&bytes[..short]) == Ok(None))),
        Err(malformed) => assert_eq!(parse(&[bytes, &[0; 8]].concat()), Err(malformed)),
    }
}

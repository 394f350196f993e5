//! Properties of the parsers of requested host names that hold for any input.

use anabranch_proxy::reverse::malformed::Parsed;
use anabranch_proxy::reverse::{http_host::http_host, server_name::server_name};

/// The beginning of a stream, taken for TLS and for HTTP.
pub fn requested_host(bytes: &[u8]) {
    check(bytes, server_name);
    check(bytes, http_host);
    if let Ok(Some((Some(name), _))) = server_name(bytes) {
        assert!((1..=255).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic()));
        assert!(bytes.windows(2).any(|pair| pair[0] == 22 && pair[1] == 3));
    }
    if let Ok(Some((Some(host), _))) = http_host(bytes) {
        assert!(bytes.windows(host.len()).any(|part| part == host.as_bytes()), "{host}");
    }
}

/// A request is complete with its last byte and not before, independent of the bytes after it. An invalid one stays invalid.
fn check(bytes: &[u8], parse: impl Fn(&[u8]) -> Parsed<Option<String>>) {
    match parse(bytes) {
        // The length is 0 for another protocol.
        Ok(Some((host, len))) => {
            assert!(len <= bytes.len() && (len > 0 || host.is_none()));
            let more = [bytes, &[0; 8]].concat();
            assert_eq!(parse(&more), Ok(Some((host.clone(), len))));
            if len > 0 {
                assert_eq!(parse(&bytes[..len]), Ok(Some((host, len))));
                // A byte in eight, and those next to the end.
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

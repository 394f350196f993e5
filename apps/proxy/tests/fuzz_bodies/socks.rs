//! Properties of the parsers of SOCKS 5 that hold for any input.

use anabranch_proxy::socks::wire;

/// Parses bytes as a stream of SOCKS 5 messages, with the parser of each kind of message.
pub fn socks(bytes: &[u8]) {
    check(bytes, wire::greeting);
    check(bytes, wire::login);
    check(bytes, wire::request);
    check(bytes, wire::reply);
    check(bytes, wire::proof);
    check(bytes, wire::selected_method);
    check(bytes, wire::proof_reply);
    if let Ok(Some((proof, len))) = wire::proof(bytes) {
        let mut again = Vec::new();
        wire::emit_proof(&proof, &mut again);
        assert_eq!(again, bytes[..len]);
    }
    if let Ok(Some((reply, len))) = wire::proof_reply(bytes) {
        let again = wire::emit_proof_reply(reply);
        assert!(again == bytes[..len] || reply == wire::LoginReply::Rejected);
    }
    if let Some((server, data)) = wire::datagram(bytes) {
        let mut again = Vec::new();
        wire::emit_datagram(&server, &bytes[data..], &mut again);
        assert_eq!(
            wire::datagram(&again).map(|(server, data)| (server, &again[data..])),
            Some((server, &bytes[data..]))
        );
    }
    if let Ok(Some((server, data))) = wire::frame(bytes) {
        let mut again = Vec::new();
        wire::emit_frame(&server, &bytes[data.clone()], &mut again);
        let parsed =
            wire::frame(&again).expect("the frame was encoded above").expect("the frame is complete");
        assert_eq!((parsed.0, &again[parsed.1]), (server, &bytes[data.clone()]));
        for short in [0, 1, data.start - 1, data.end - 1] {
            assert_eq!(wire::frame(&bytes[..short]), Ok(None));
        }
    }
    if let Ok(Some(((_, target), len))) = wire::request(bytes) {
        let mut again = Vec::new();
        wire::emit_request(bytes[1], &target, &mut again);
        let parsed =
            wire::request(&again).expect("the message was encoded above").expect("the message is complete");
        assert_eq!((parsed.0.1, parsed.1), (target, again.len()));
        // The encoding is that of the input, except for an address that the input contained as a name (type 3).
        assert!(again[3] == bytes[3] && again.len() == len || bytes[3] == 3, "{bytes:?}");
    }
}

/// Asserts that a message is complete with its last byte and not before, whatever bytes follow, and that a malformed
/// message stays malformed.
fn check<T: PartialEq + std::fmt::Debug>(bytes: &[u8], parse: impl Fn(&[u8]) -> wire::Parsed<T>) {
    match parse(bytes) {
        Ok(Some((message, len))) => {
            assert!((1..=bytes.len().min(515)).contains(&len));
            assert_eq!(parse(&bytes[..len]), Ok(Some((message, len))));
            for short in 0..len {
                assert!(!matches!(parse(&bytes[..short]), Ok(Some(_))));
            }
        }
        Ok(None) => assert!(bytes.len() < 515, "an incomplete message is longer than the maximum"),
        Err(malformed) => {
            let more = [bytes, &[0; 8]].concat();
            assert_eq!(parse(&more), Err(malformed));
        }
    }
}

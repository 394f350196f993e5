//! Frames in UDP datagrams between two Anabranch proxies, with a code under a key that only holders of the user's
//! password can compute.
//!
//! ```text
//! | kind, 1 byte | path, 1 | number, 8 | time, 4 | body | code, 16 |
//! ```
//!
//! The body of a datagram is its number on the path, 4 bytes, and then the server's address and the payload, as after the
//! length of a frame in a stream. The body of a report has the fields of [`Report`].

use crate::socks::wire::{self, Target};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Prefix of the bytes from which keys are derived. With it, a key is valid for no other purpose.
const PURPOSE: &[u8] = b"anabranch-proxy datagrams 1";
/// Length of the code, bytes: half of that of the hash (RFC 2104 §5).
const CODE_BYTES: usize = 16;
/// Length of the fields before the body.
const HEADER_BYTES: usize = 14;
/// Length of a report's body.
const REPORT_BYTES: usize = 17;
/// Maximum number of paths of an association.
pub const MAX_PATHS: usize = 8;

/// Kinds of frames.
const DATAGRAM: u8 = 1;
const REPORT: u8 = 2;

/// Random bytes of an association, drawn by one of the two proxies.
pub type Nonce = [u8; 16];

/// Keys of the two directions of an association, each for the frames of one proxy.
#[derive(Clone)]
pub struct Keys {
    send: Hmac<Sha256>,
    receive: Hmac<Sha256>,
}

impl Keys {
    /// Derives the keys of the proxy that opens the association. Each proxy draws a nonce, so no key is used twice even
    /// if an attacker repeats the other one's nonce.
    pub fn of_client(password: &[u8], client: &Nonce, far: &Nonce) -> Self {
        let [up, down] = ["up", "down"].map(|direction| {
            let mut mac = Hmac::<Sha256>::new_from_slice(password).expect("HMAC takes keys of any length");
            for part in [PURPOSE, client, far, direction.as_bytes()] {
                mac.update(part);
            }
            let key = mac.finalize().into_bytes();
            Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes keys of any length")
        });
        Self { send: up, receive: down }
    }

    /// Derives the keys of the far proxy.
    pub fn of_upstream(password: &[u8], client: &Nonce, far: &Nonce) -> Self {
        let Self { send, receive } = Self::of_client(password, client, far);
        Self { send: receive, receive: send }
    }
}

/// A received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Number of the path.
    pub path: u8,
    /// Number of the frame: datagrams are numbered over all paths, reports on each path.
    pub number: u64,
    /// Time at which the frame was sent, in µs of the sender's clock, modulo 2³².
    pub time_us: u32,
    /// Content of the frame.
    pub body: Body,
}

/// Content of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A datagram: its number on the path, the server, and the payload.
    Datagram(u32, Target, Vec<u8>),
    /// A report of the datagrams received on the path.
    Report(Report),
}

/// Report of one proxy about the datagrams that it has received on a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Highest number on the path of a received datagram; 0 before the first one, whose number is 1.
    pub highest: u32,
    /// Number of datagrams received, modulo 2³².
    pub received: u32,
    /// Time of the frame that was received last on the path, as its sender wrote it.
    pub echo_us: u32,
    /// Time between the arrival of that frame and this report, µs.
    pub delay_us: u32,
    /// True if the receiver must answer with a report at once.
    pub wants_answer: bool,
}

/// Encodes a frame and its code.
pub fn emit(frame: &Frame, keys: &Keys) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1536);
    bytes.push(if matches!(frame.body, Body::Datagram(..)) { DATAGRAM } else { REPORT });
    bytes.push(frame.path);
    bytes.extend_from_slice(&frame.number.to_be_bytes());
    bytes.extend_from_slice(&frame.time_us.to_be_bytes());
    match &frame.body {
        Body::Datagram(on_path, server, payload) => {
            bytes.extend_from_slice(&on_path.to_be_bytes());
            wire::emit_target(server, &mut bytes);
            bytes.extend_from_slice(payload);
        }
        Body::Report(report) => {
            for number in [report.highest, report.received, report.echo_us, report.delay_us] {
                bytes.extend_from_slice(&number.to_be_bytes());
            }
            bytes.push(report.wants_answer.into());
        }
    }
    let code = keys.send.clone().chain_update(&bytes).finalize().into_bytes();
    bytes.extend_from_slice(&code[..CODE_BYTES]);
    bytes
}

/// Parses a frame; `None` if its code is wrong or it is malformed.
pub fn parse(bytes: &[u8], keys: &Keys) -> Option<Frame> {
    let (content, code) = bytes.split_at_checked(bytes.len().checked_sub(CODE_BYTES)?)?;
    keys.receive.clone().chain_update(content).verify_truncated_left(code).ok()?;
    let (header, body) = content.split_at_checked(HEADER_BYTES)?;
    let (kind, path) = (header[0], header[1]);
    let number = u64::from_be_bytes(header[2..10].try_into().ok()?);
    let time_us = u32::from_be_bytes(header[10..].try_into().ok()?);
    let word = |at: usize| Some(u32::from_be_bytes(body.get(at..at + 4)?.try_into().ok()?));
    let body = match kind {
        DATAGRAM => {
            let on_path = word(0)?;
            let (server, len) = wire::target_of(&body[4..]).ok()??;
            Body::Datagram(on_path, server, body[4 + len..].to_vec())
        }
        REPORT if body.len() == REPORT_BYTES => Body::Report(Report {
            highest: word(0)?,
            received: word(4)?,
            echo_us: word(8)?,
            delay_us: word(12)?,
            wants_answer: body[16] != 0,
        }),
        _ => return None,
    };
    (usize::from(path) < MAX_PATHS).then_some(Frame { path, number, time_us, body })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn both() -> (Keys, Keys) {
        (Keys::of_client(b"secret", &[1; 16], &[2; 16]), Keys::of_upstream(b"secret", &[1; 16], &[2; 16]))
    }

    fn datagram() -> Frame {
        let server = Target::Address(([192, 0, 2, 1], 443).into());
        Frame { path: 1, number: 7, time_us: 9, body: Body::Datagram(3, server, b"payload".to_vec()) }
    }

    #[test]
    fn frame_is_bound_to_its_association() {
        let (client, far) = both();
        let report = Report { highest: 1, received: 2, echo_us: 3, delay_us: 4, wants_answer: true };
        for frame in [datagram(), Frame { body: Body::Report(report), ..datagram() }] {
            let bytes = emit(&frame, &client);
            assert_eq!(parse(&bytes, &far), Some(frame));
            // A frame is not valid for the other direction, nor under another password or another nonce.
            assert_eq!(parse(&bytes, &client), None);
            for (password, mine, others) in [
                (&b"guess!"[..], [1; 16], [2; 16]),
                (b"secret", [3; 16], [2; 16]),
                (b"secret", [1; 16], [3; 16]),
            ] {
                assert_eq!(parse(&bytes, &Keys::of_upstream(password, &mine, &others)), None);
            }
        }
    }

    #[test]
    fn path_beyond_the_maximum_is_invalid() {
        let (client, far) = both();
        let frame = Frame { path: MAX_PATHS as u8, ..datagram() };
        assert_eq!(parse(&emit(&frame, &client), &far), None);
    }

    proptest! {
        #[test]
        fn changed_frame_is_invalid(at in any::<prop::sample::Index>(), bit in 0..8_u8) {
            let (client, far) = both();
            let mut bytes = emit(&datagram(), &client);
            let at = at.index(bytes.len());
            bytes[at] ^= 1_u8 << bit;
            prop_assert_eq!(parse(&bytes, &far), None);
        }

        /// Malformed bytes with a valid authentication code, as a faulty proxy could send them, and without
        /// one.
        #[test]
        fn any_bytes_are_parsed_or_refused(content in prop::collection::vec(any::<u8>(), 0..80)) {
            let (client, far) = both();
            prop_assert_eq!(parse(&content, &far), None);
            let code = client.send.clone().chain_update(&content).finalize().into_bytes();
            let bytes = [&content[..], &code[..CODE_BYTES]].concat();
            if let Some(frame) = parse(&bytes, &far) {
                prop_assert_eq!(parse(&emit(&frame, &client), &far), Some(frame));
            }
        }
    }
}

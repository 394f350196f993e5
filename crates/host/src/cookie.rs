//! SYN cookies (RFC 4987 §3.6): the state of a SYN travels in the sequence number and the timestamp of the SYN/ACK, and
//! returns with the third segment.
//!
//! ```text
//! sequence number:  5 bits time | 3 bits MSS | 24 bits code      low bits of the timestamp:  SACK | 4 bits window scale
//! ```
//!
//! The code is keyed over the two ends, the peer's sequence number, time and MSS. Window scale and SACK-permitted come
//! back only from a peer that uses timestamps; without them a connection from a cookie has neither.
//!
//! With Multipath TCP the SYN/ACK has a key that follows from the cookie. The third segment, or the first data, contains
//! this key and the peer's (RFC 8684 §3.1), so that no key is stored.

use super::protocol::Tuple;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::Secrets;
use anabranch_tcp::tcp::timestamp_offset;
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::mptcp::Key;
use anabranch_wire::tcp::{Flags, Options, Segment, Timestamps};
use core::net::{IpAddr, SocketAddr};

/// Time unit of cookies: a cookie is valid in the period in which it was made and in the next one.
const COOKIE_PERIOD: Duration = Duration::from_secs(64);

/// MSS values that a cookie can encode. A cookie has the largest of these that is not above the peer's MSS.
const MSS_VALUES: [u16; 8] = [536, 1_220, 1_300, 1_340, 1_400, 1_440, 1_460, 8_960];

/// Number of low bits of the timestamp that encode options.
const OPTION_BITS: u32 = 5;
/// Code for a SYN without the window scale option.
const NO_SCALE: u32 = 15;

/// HMAC over a purpose, the two ends, the peer's sequence number, and a further value.
fn keyed(secrets: &Secrets, purpose: &str, (local, remote): Tuple, peer: Serial, value: &[u8]) -> [u8; 32] {
    let bytes = |at: SocketAddr| {
        let address = match at.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        (address, at.port().to_be_bytes())
    };
    let ((a, b), (c, d)) = (bytes(local), bytes(remote));
    secrets.keyed(&[purpose.as_bytes(), &a, &b, &c, &d, &peer.0.to_be_bytes(), value])
}

fn code(secrets: &Secrets, tuple: Tuple, peer: Serial, time_and_mss: u8) -> u32 {
    let hash = keyed(secrets, "SYN cookie", tuple, peer, &[time_and_mss]);
    u32::from_be_bytes([0, hash[0], hash[1], hash[2]])
}

/// The Multipath TCP key of a connection from a cookie: `peer` is the sequence number of the SYN, `number` that of the
/// SYN/ACK.
pub(super) fn key(secrets: &Secrets, tuple: Tuple, (peer, number): (Serial, Serial)) -> Key {
    let hash = keyed(secrets, "MP_CAPABLE cookie", tuple, peer, &number.0.to_be_bytes());
    Key::new(u64::from_be_bytes(*hash.first_chunk().expect("the HMAC has 32 bytes")))
}

/// Number of the period in which a cookie was made.
fn period(now: Time) -> u64 {
    now.as_nanos() / COOKIE_PERIOD.as_nanos()
}

/// The SYN/ACK with a cookie for a SYN. `mss` is the largest segment that this end accepts, and `shift` its window scale.
pub(super) fn answer(
    secrets: &Secrets,
    now: Time,
    (tuple, syn): (Tuple, &Segment),
    (mss, shift): (u16, u8),
) -> Segment {
    let assumed = if tuple.0.is_ipv4() { 536 } else { 1_220 };
    let peer_mss = syn.options.mss.unwrap_or(assumed);
    let index = MSS_VALUES.iter().rposition(|&known| known <= peer_mss).unwrap_or(0) as u8;
    let time_and_mss = (period(now) as u8) << 3 | index;
    let number = u32::from(time_and_mss) << 24 | code(secrets, tuple, syn.seq, time_and_mss);
    let mut options = Options { mss: Some(mss), ..Options::default() };
    if let Some(Timestamps { value: echo, .. }) = syn.options.timestamps {
        let scale = syn.options.window_scale.map_or(NO_SCALE, |shift| u32::from(shift.min(14)));
        let encoded_options = u32::from(syn.options.sack_permitted) << 4 | scale;
        let clock = ((now.as_nanos() / 1_000_000) as u32).wrapping_add(timestamp_offset(secrets, tuple));
        // The timestamp with the encoded options must not be ahead of the clock: later timestamps of the connection
        // come from the clock and must not decrease (RFC 7323 §4.1).
        let mut value = clock >> OPTION_BITS << OPTION_BITS | encoded_options;
        if Serial(clock).before(Serial(value)) {
            value = value.wrapping_sub(1 << OPTION_BITS);
        }
        options.timestamps = Some(Timestamps { value, echo });
        options.sack_permitted = syn.options.sack_permitted;
        options.window_scale = syn.options.window_scale.map(|_| shift);
    }
    Segment {
        source_port: tuple.0.port(),
        destination_port: tuple.1.port(),
        seq: Serial(number),
        ack: syn.seq.add(1),
        flags: Flags::SYN | Flags::ACK,
        window: u16::MAX,
        options,
        ..Segment::default()
    }
}

/// Restores, from a segment with a valid cookie, the peer's SYN and the sequence number of the SYN/ACK.
pub(super) fn open(secrets: &Secrets, now: Time, tuple: Tuple, segment: &Segment) -> Option<(Segment, u32)> {
    let number = segment.ack.0.wrapping_sub(1);
    let (time_and_mss, found) = ((number >> 24) as u8, number & 0x00ff_ffff);
    let peer = Serial(segment.seq.0.wrapping_sub(1));
    let age = (period(now) as u8).wrapping_sub(time_and_mss >> 3) & 0x1f;
    if age > 1 || code(secrets, tuple, peer, time_and_mss) != found {
        return None;
    }
    let mut options = Options { mss: Some(MSS_VALUES[usize::from(time_and_mss & 7)]), ..Options::default() };
    if let Some(Timestamps { value, echo }) = segment.options.timestamps {
        let scale = echo & 0xf;
        options.timestamps = Some(Timestamps { value, echo: 0 });
        options.sack_permitted = echo & 0x10 != 0;
        options.window_scale = (scale != NO_SCALE).then_some(scale as u8);
    }
    let syn = Segment {
        source_port: segment.source_port,
        destination_port: segment.destination_port,
        seq: peer,
        flags: Flags::SYN,
        window: segment.window,
        options,
        ..Segment::default()
    };
    Some((syn, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(port: u16) -> Tuple {
        (([10, 0, 0, 1], 80).into(), ([10, 0, 0, 2], port).into())
    }

    fn syn(options: Options) -> Segment {
        Segment { seq: Serial(7_000), flags: Flags::SYN, options, ..Segment::default() }
    }

    /// The third segment of the handshake.
    fn third(answer: &Segment, timestamps: bool) -> Segment {
        let echo = answer.options.timestamps.map(|t| Timestamps { value: 901, echo: t.value });
        Segment {
            seq: answer.ack,
            ack: answer.seq.add(1),
            flags: Flags::ACK,
            options: Options { timestamps: echo.filter(|_| timestamps), ..Options::default() },
            ..Segment::default()
        }
    }

    #[test]
    fn third_segment_restores_the_syn() {
        let secrets = Secrets::new([5; 32]);
        let full = |mss, scale, sack| Options {
            mss: Some(mss),
            window_scale: scale,
            sack_permitted: sack,
            timestamps: Some(Timestamps { value: 900, echo: 0 }),
            ..Options::default()
        };
        for (mss, remembered) in [(100, 536), (1_300, 1_300), (1_459, 1_440), (1_460, 1_460), (9_000, 8_960)]
        {
            for (scale, sack) in [(None, true), (Some(0), false), (Some(14), true)] {
                for millis in [0, 31, 32, 70_000] {
                    let now = Time::ZERO + Duration::from_millis(millis);
                    let options = full(mss, scale, sack);
                    let answer = answer(&secrets, now, (tuple(1), &syn(options)), (1_460, 7));
                    let clock = (millis as u32).wrapping_add(timestamp_offset(&secrets, tuple(1)));
                    let value = answer.options.timestamps.map_or(0, |t| t.value);
                    assert!(clock.wrapping_sub(value) < 64, "the clock never goes back");
                    let (syn, number) = open(&secrets, now, tuple(1), &third(&answer, true)).expect("ours");
                    assert_eq!((number, syn.seq), (answer.seq.0, Serial(7_000)));
                    assert_eq!(syn.options.mss, Some(remembered));
                    assert_eq!((syn.options.window_scale, syn.options.sack_permitted), (scale, sack));
                    assert_eq!(syn.options.timestamps.map(|t| t.value), Some(901));
                }
            }
        }
        let plain = Options { window_scale: Some(7), sack_permitted: true, ..Options::default() };
        let answer = answer(&secrets, Time::ZERO, (tuple(1), &syn(plain)), (1_460, 7));
        let (syn, _) = open(&secrets, Time::ZERO, tuple(1), &third(&answer, false)).expect("ours");
        assert_eq!(
            (syn.options.mss, syn.options.window_scale, syn.options.sack_permitted),
            (Some(536), None, false)
        );
        assert_eq!((answer.options.window_scale, answer.options.sack_permitted), (None, false));
    }

    #[test]
    fn cookie_is_bound_to_its_ends_and_expires() {
        let secrets = Secrets::new([5; 32]);
        let answer = answer(&secrets, Time::ZERO, (tuple(1), &syn(Options::default())), (1_460, 7));
        let segment = third(&answer, false);
        let at = |secs| Time::ZERO + Duration::from_secs(secs);
        assert!(open(&secrets, at(127), tuple(1), &segment).is_some());
        assert!(open(&secrets, at(128), tuple(1), &segment).is_none(), "too old");
        assert!(open(&secrets, at(0), tuple(2), &segment).is_none(), "another port");
        assert!(open(&Secrets::new([6; 32]), at(0), tuple(1), &segment).is_none(), "another host");
        for bit in 0..32 {
            let forged = Segment { ack: Serial((segment.ack.0 - 1) ^ 1 << bit).add(1), ..segment.clone() };
            assert!(open(&secrets, at(0), tuple(1), &forged).is_none(), "bit {bit}");
        }
        let forged = Segment { seq: segment.seq.add(1), ..segment };
        assert!(open(&secrets, at(0), tuple(1), &forged).is_none(), "another sequence number");
    }
}

//! Initial numbers of a connection. They are secret: an outsider cannot guess one, or derive one from another.

use anabranch_base::time::Time;
use anabranch_endpoint::Secrets;
use anabranch_wire::seq::Serial;
use core::net::{IpAddr, SocketAddr};

/// Local and remote endpoint of a connection, which select its numbers.
pub type Tuple = (SocketAddr, SocketAddr);

fn bytes(at: SocketAddr) -> [u8; 18] {
    let mut bytes = [0; 18];
    let address = match at.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    bytes[..16].copy_from_slice(&address.octets());
    bytes[16..].copy_from_slice(&at.port().to_be_bytes());
    bytes
}

fn keyed(secrets: &Secrets, label: &[u8], (local, remote): Tuple) -> [u8; 32] {
    secrets.keyed(&[label, &bytes(local), &bytes(remote)])
}

fn low32(hash: [u8; 32]) -> u32 {
    u32::from_be_bytes([hash[28], hash[29], hash[30], hash[31]])
}

/// Initial sequence number (RFC 6528 §3): a clock that ticks every 4 µs, plus a keyed hash of the two endpoints. The
/// numbers of one pair of endpoints rise from connection to connection, and do not reveal those of another pair.
pub fn initial_sequence(secrets: &Secrets, now: Time, ends: Tuple) -> Serial {
    let clock = (now.as_nanos() / 4_000) as u32;
    Serial(low32(keyed(secrets, b"tcp sequence", ends)).wrapping_add(clock))
}

/// Offset added to the millisecond clock of timestamps. It hides the uptime of this host. It is the same for every
/// connection between two endpoints, so that their timestamps rise from one connection to the next (RFC 6191 §3).
pub fn timestamp_offset(secrets: &Secrets, ends: Tuple) -> u32 {
    low32(keyed(secrets, b"tcp timestamps", ends))
}

/// Secrets of one connection, derived from both endpoints and the time of its start.
pub(crate) fn of_connection(secrets: &Secrets, now: Time, (local, remote): Tuple) -> Secrets {
    let parts: [&[u8]; 4] = [b"connection", &bytes(local), &bytes(remote), &now.as_nanos().to_be_bytes()];
    Secrets::new(secrets.keyed(&parts))
}

/// Initial sequence number and timestamp offset of a control block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Sequence number of the SYN.
    pub sequence: Serial,
    /// Offset added to the clock of timestamps.
    pub timestamps: u32,
}

impl Numbers {
    /// Initial numbers of a connection between these endpoints that starts now.
    pub fn new(secrets: &Secrets, now: Time, ends: Tuple) -> Self {
        Self { sequence: initial_sequence(secrets, now, ends), timestamps: timestamp_offset(secrets, ends) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::time::Duration;

    fn ends(port: u16) -> Tuple {
        (SocketAddr::from(([10, 0, 0, 1], port)), SocketAddr::from(([10, 0, 0, 2], 80)))
    }

    #[test]
    fn initial_sequence_number_rises_every_4_microseconds() {
        let secrets = Secrets::new([3; 32]);
        let at = |micros| initial_sequence(&secrets, Time::ZERO + Duration::from_micros(micros), ends(1));
        assert_eq!(at(4_000).0.wrapping_sub(at(0).0), 1_000);
        assert_eq!((at(3), at(4)), (at(0), at(0).add(1)));
    }

    #[test]
    fn numbers_differ_by_endpoints_and_by_host() {
        let (one, other) = (Secrets::new([3; 32]), Secrets::new([4; 32]));
        let (a, b) = (Numbers::new(&one, Time::ZERO, ends(1)), Numbers::new(&one, Time::ZERO, ends(2)));
        let c = Numbers::new(&other, Time::ZERO, ends(1));
        let swapped = (ends(1).1, ends(1).0);
        let d = Numbers::new(&one, Time::ZERO, swapped);
        let all = [
            a.sequence.0,
            a.timestamps,
            b.sequence.0,
            b.timestamps,
            c.sequence.0,
            c.timestamps,
            d.sequence.0,
        ];
        for (i, number) in all.iter().enumerate() {
            assert!(!all[..i].contains(number), "{all:x?}");
        }
    }

    #[test]
    fn connections_draw_from_separate_sources() {
        let secrets = Secrets::new([3; 32]);
        let draw = |nanos, port| of_connection(&secrets, Time::from_nanos(nanos), ends(port)).next_u64();
        assert_eq!(draw(5, 1), draw(5, 1));
        assert!(draw(5, 1) != draw(6, 1) && draw(5, 1) != draw(5, 2));
    }
}

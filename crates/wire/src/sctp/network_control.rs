//! The network control chunk: a path's request to the routers on its path, and the routers' records. The idea is that of
//! Becke2014 §8.1.2; the format is our own, and experimental.
//!
//! ```text
//!  0                   1                   2                   3
//! +---------------+---------------+-------------------------------+
//! |  Type = 190   |  Chunk Flags  |         Length = 184          |
//! +---------------+---------------+-------------------------------+
//! |                        Association ID                         |
//! +---------------+---------------+---------------+---------------+
//! |     Path      |     Paths     | Records Used  |   Reserved    |
//! +---------------+---------------+---------------+---------------+
//! |                    Wanted Rate in kbit/s                      |
//! +-------------------------------+-------------------------------+
//! |   Maximum Delay in 0.1 ms     |    Maximum Loss in 0.001 %    |
//! +-------------------------------+-------------------------------+
//! |              Mask of Paths to Be Apart From                   |
//! +---------------------------------------------------------------+
//! :            Records #1 to #8, of 20 bytes each:                :
//! |                          Router ID                            |
//! |                        Rate in kbit/s                         |
//! |                      Free Rate in kbit/s                      |
//! |       Delay in 0.1 ms         |        Loss in 0.001 %        |
//! |       Queue in Packets        |         Record Flags          |
//! +---------------------------------------------------------------+
//! ```
//!
//! The chunk is the first one of its packet, so that a router needs no search. Routers fill records and set flags, and
//! correct the packet's checksum; they never change the length. The upper bits of the type make other endpoints
//! skip the chunk (RFC 9260 §3.2).

use super::{CHUNK_HEADER_LEN, kind};

/// Length of the fields between the chunk header and the records, bytes.
const FIELDS_LEN: usize = (NetworkControl::FIXED_LEN - CHUNK_HEADER_LEN) as usize;

/// A network control chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkControl {
    /// Flag 1: the chunk returns the records of a request to its sender. Routers do not change such a chunk.
    pub is_report: bool,
    /// Flag 2: more routers than [`MAX_RECORDS`](Self::MAX_RECORDS) were on the path.
    pub has_overflow: bool,
    /// Flag 4: no route from a router to the destination met the request.
    pub is_shared: bool,
    /// A random number of the association, chosen by the sender of the request.
    pub association: u32,
    /// The path of the request, below [`MAX_PATHS`](Self::MAX_PATHS).
    pub path: u8,
    /// Number of paths of the association.
    pub paths: u8,
    /// The rate that the path would use, kbit/s; 0 if unknown.
    pub wanted_kbit_per_s: u32,
    /// Upper bound on the delay of the route that a router chooses, in units of 0.1 ms; 0 for none.
    pub max_delay_100us: u16,
    /// Upper bound on the loss of the route that a router chooses, in units of 0.001 %; 0 for none.
    pub max_loss_milli_percent: u16,
    /// Paths with which the path should share no route: bit `i` for path `i`.
    pub apart_from: u32,
    /// The records of routers, in the order in which the packet passed them; at most [`MAX_RECORDS`](Self::MAX_RECORDS).
    pub records: Vec<Record>,
}

/// The record of one router about the route that it chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The router.
    pub router: u32,
    /// Rate of the link, kbit/s.
    pub rate_kbit_per_s: u32,
    /// The part of this rate that is not in use, kbit/s.
    pub free_kbit_per_s: u32,
    /// One-way delay of the link, in units of 0.1 ms.
    pub delay_100us: u16,
    /// Share of lost packets, in units of 0.001 %.
    pub loss_milli_percent: u16,
    /// Waiting packets.
    pub queue_packets: u16,
    /// [`SHARED`](Self::SHARED), or 0.
    pub flags: u16,
}

impl Record {
    /// Length, bytes.
    pub const LEN: u32 = 20;

    /// Flag of a record: no route from the router to the destination met the request.
    pub const SHARED: u16 = 1;

    fn emit(&self, out: &mut Vec<u8>) {
        for word in [self.router, self.rate_kbit_per_s, self.free_kbit_per_s] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        for half in [self.delay_100us, self.loss_milli_percent, self.queue_packets, self.flags] {
            out.extend_from_slice(&half.to_be_bytes());
        }
    }

    fn parse(bytes: &[u8; Self::LEN as usize]) -> Self {
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        Self {
            router: word(0),
            rate_kbit_per_s: word(4),
            free_kbit_per_s: word(8),
            delay_100us: half(12),
            loss_milli_percent: half(14),
            queue_packets: half(16),
            flags: half(18),
        }
    }
}

impl NetworkControl {
    /// Maximum number of paths, one bit of the mask each.
    pub const MAX_PATHS: u8 = 32;

    /// Maximum number of records.
    pub const MAX_RECORDS: usize = 8;

    /// Bytes before the records, chunk header included.
    pub const FIXED_LEN: u32 = 24;

    /// Length of the chunk, bytes; always the same.
    pub const LEN: u32 = Self::FIXED_LEN + Self::MAX_RECORDS as u32 * Record::LEN;

    /// The flag of [`is_shared`](Self::is_shared) in the second byte.
    pub(crate) const SHARED_FLAG: u8 = 4;

    /// The request of path `at` of an association of `paths` paths, which asks to share no route with the paths `others`.
    /// The wanted rate is a congestion window of `window` bytes per round-trip time, in seconds; 0 without one. Paths from
    /// [`MAX_PATHS`](Self::MAX_PATHS) on have no bit.
    pub fn of_path(
        association: u32,
        (at, paths): (usize, usize),
        others: impl Iterator<Item = usize>,
        (window, srtt_s): (u64, Option<f64>),
    ) -> Self {
        let most = usize::from(Self::MAX_PATHS);
        let kbit_per_s = |srtt_s: f64| (8e-3 * window as f64 / srtt_s.max(1e-6)) as u32;
        Self {
            association,
            path: at as u8,
            paths: paths.min(most) as u8,
            wanted_kbit_per_s: srtt_s.map_or(0, kbit_per_s),
            apart_from: others.take_while(|other| *other < most).fold(0, |mask, other| mask | 1 << other),
            ..Self::default()
        }
    }

    /// Appends a record, or sets the overflow flag if all records are in use.
    pub fn push(&mut self, record: Record) {
        if self.records.len() < Self::MAX_RECORDS {
            self.records.push(record);
        } else {
            self.has_overflow = true;
        }
    }

    /// Discards the records, for which an option of IP has no room.
    pub fn discard_records(&mut self) {
        self.records.clear();
        self.has_overflow = false;
    }

    pub(super) const fn flags(&self) -> u8 {
        self.is_report as u8 | (self.has_overflow as u8) << 1 | (self.is_shared as u8) << 2
    }

    /// Appends the value of the chunk.
    ///
    /// # Panics
    ///
    /// If there are more records than fit.
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        assert!(self.records.len() <= Self::MAX_RECORDS, "a chunk has at most {} records", Self::MAX_RECORDS);
        let end = out.len() + (Self::LEN - CHUNK_HEADER_LEN) as usize;
        self.emit_fields(out);
        for record in &self.records {
            record.emit(out);
        }
        out.resize(end, 0);
    }

    /// Appends the fields between the chunk header and the records.
    fn emit_fields(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.association.to_be_bytes());
        out.extend_from_slice(&[self.path, self.paths, self.records.len() as u8, 0]);
        out.extend_from_slice(&self.wanted_kbit_per_s.to_be_bytes());
        out.extend_from_slice(&self.max_delay_100us.to_be_bytes());
        out.extend_from_slice(&self.max_loss_milli_percent.to_be_bytes());
        out.extend_from_slice(&self.apart_from.to_be_bytes());
    }

    /// Appends the first [`FIXED_LEN`](Self::FIXED_LEN) bytes of the chunk.
    pub(crate) fn emit_start(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[kind::NETWORK_CONTROL, self.flags()]);
        out.extend_from_slice(&(Self::LEN as u16).to_be_bytes());
        self.emit_fields(out);
    }

    /// Reads the first [`FIXED_LEN`](Self::FIXED_LEN) bytes of a chunk, of which nothing follows; `None` if they are
    /// not those of a request without records.
    pub(crate) fn parse_start(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::FIXED_LEN as usize] = bytes.try_into().ok()?;
        let (&[kind, flags, high, low], fields) = bytes.split_first_chunk()?;
        let (control, used) = Self::parse_fields(flags, fields.first_chunk()?)?;
        let is_chunk =
            kind == kind::NETWORK_CONTROL && u32::from(u16::from_be_bytes([high, low])) == Self::LEN;
        (is_chunk && used == 0 && !control.is_report && !control.has_overflow).then_some(control)
    }

    /// Reads the value of a chunk; `None` if its length, its paths or its number of records are invalid.
    pub(super) fn parse(flags: u8, value: &[u8]) -> Option<Self> {
        const VALUE_LEN: usize = (NetworkControl::LEN - CHUNK_HEADER_LEN) as usize;
        let value: &[u8; VALUE_LEN] = value.try_into().ok()?;
        let (fields, records) = value.split_first_chunk::<FIELDS_LEN>()?;
        let (control, used) = Self::parse_fields(flags, fields)?;
        let (all, _) = records.as_chunks();
        let records = all.get(..usize::from(used))?.iter().map(Record::parse).collect();
        Some(Self { records, ..control })
    }

    /// Reads the fields between the chunk header and the records, and returns the number of records, too; `None` if
    /// the paths are invalid.
    fn parse_fields(flags: u8, fields: &[u8; FIELDS_LEN]) -> Option<(Self, u8)> {
        let [a0, a1, a2, a3, path, paths, used, _, w0, w1, w2, w3, d0, d1, l0, l1, m0, m1, m2, m3] = *fields;
        if path >= paths || paths > Self::MAX_PATHS {
            return None;
        }
        let control = Self {
            is_report: flags & 1 != 0,
            has_overflow: flags & 2 != 0,
            is_shared: flags & Self::SHARED_FLAG != 0,
            association: u32::from_be_bytes([a0, a1, a2, a3]),
            path,
            paths,
            wanted_kbit_per_s: u32::from_be_bytes([w0, w1, w2, w3]),
            max_delay_100us: u16::from_be_bytes([d0, d1]),
            max_loss_milli_percent: u16::from_be_bytes([l0, l1]),
            apart_from: u32::from_be_bytes([m0, m1, m2, m3]),
            records: Vec::new(),
        };
        Some((control, used))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_chunk, hex};
    use super::super::{Chunk, Chunks, Packet, Unknown};
    use super::*;

    /// A request with one record.
    fn example() -> NetworkControl {
        NetworkControl {
            is_shared: true,
            association: 0x0102_0304,
            path: 1,
            paths: 2,
            wanted_kbit_per_s: 10_000,
            max_delay_100us: 500,
            max_loss_milli_percent: 100,
            apart_from: 0x8000_0001,
            records: vec![Record {
                router: 7,
                rate_kbit_per_s: 10_000,
                free_kbit_per_s: 2_500,
                delay_100us: 200,
                loss_milli_percent: 1_000,
                queue_packets: 30,
                flags: Record::SHARED,
            }],
            ..NetworkControl::default()
        }
    }

    fn encoded() -> String {
        let fields = "be 04 00b8 01020304 01 02 01 00 00002710 01f4 0064 80000001";
        let record = "00000007 00002710 000009c4 00c8 03e8 001e 0001";
        format!("{fields} {record} {}", "00".repeat(7 * 20))
    }

    fn packet(chunk: NetworkControl) -> Vec<u8> {
        let chunks = Chunks::from(Chunk::NetworkControl(Box::new(chunk)));
        let packet = Packet {
            source_port: 1,
            destination_port: 2,
            verification_tag: 3,
            chunks,
            udp: None,
            may_fragment: false,
            zero_checksum: false,
        };
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        bytes
    }

    #[test]
    fn encoding_has_184_bytes() {
        assert_eq!(NetworkControl::LEN, 184);
        check_chunk(&Chunk::NetworkControl(Box::new(example())), &encoded());
        for (flags, change) in [
            ("01", (|c| c.is_report = true) as fn(&mut NetworkControl)),
            ("02", |c| c.has_overflow = true),
            ("04", |c| c.is_shared = true),
        ] {
            let mut chunk = NetworkControl { is_shared: false, ..example() };
            change(&mut chunk);
            let bytes = encoded().replacen("04", flags, 1);
            check_chunk(&Chunk::NetworkControl(Box::new(chunk)), &bytes);
        }
    }

    #[test]
    fn invalid_chunks_are_unknown() {
        let valid = hex(&encoded());
        let read = |bytes: &[u8]| {
            Chunk::parse(bytes).expect("the chunk has a length").expect("the chunk is complete").0
        };
        let longer = [&valid[..], &[0; 4]].concat();
        for len in [4_u16, 8, 24, 44, 180, 183, 185, 188] {
            let mut bytes = longer.clone();
            bytes[2..4].copy_from_slice(&len.to_be_bytes());
            let value = bytes[4..usize::from(len)].into();
            assert_eq!(read(&bytes), Chunk::Unknown(Unknown { kind: 190, flags: 4, value }), "{len}");
        }
        // 9 records; path 2 of 2; 33 paths.
        for (at, value) in [(10, 9), (8, 2), (9, 33), (9, 0)] {
            let mut bytes = valid.clone();
            bytes[at] = value;
            assert!(matches!(read(&bytes), Chunk::Unknown(_)), "byte {at} is {value}");
        }
    }

    #[test]
    fn ninth_record_sets_the_overflow_flag() {
        let mut chunk = NetworkControl { paths: 1, ..NetworkControl::default() };
        for router in 0..9 {
            assert!(!chunk.has_overflow);
            chunk.push(Record { router, ..Record::default() });
        }
        assert!(chunk.has_overflow);
        assert_eq!(chunk.records.iter().map(|r| r.router).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn router_replaces_chunk_and_checksum() {
        let mut bytes = packet(NetworkControl { records: Vec::new(), ..example() });
        let mut chunk = NetworkControl::requested_in(&bytes).expect("a request");
        chunk.push(example().records[0]);
        chunk.replace_in(&mut bytes);
        assert_eq!(bytes, packet(example()));
        // A damaged packet, a report, and a packet with a checksum of zero.
        let mut damaged = bytes.clone();
        damaged[100] ^= 1;
        assert_eq!(NetworkControl::requested_in(&damaged), None);
        assert_eq!(
            NetworkControl::requested_in(&packet(NetworkControl { is_report: true, ..example() })),
            None
        );
        bytes[8..12].fill(0);
        let chunk = NetworkControl::requested_in(&bytes).expect("the lower layer detects damage");
        NetworkControl { wanted_kbit_per_s: 1, ..chunk }.replace_in(&mut bytes);
        assert_eq!(bytes[8..12], [0; 4]);
        for len in 0..bytes.len() {
            assert_eq!(NetworkControl::requested_in(&bytes[..len]), None, "{len}");
        }
    }
}

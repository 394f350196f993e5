//! The records of a recording.

use super::call::{Call, put_address, read_addresses};
use super::coder::Coder;
use super::fields::{Fields, Malformed, Put as _};
use super::image::Image;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::Address;
use anabranch_host::{ConnectionId, Limits};

/// Kinds of records that are no calls.
const ARRIVAL: u8 = Call::LAST_KIND + 1;
const SUMS: u8 = ARRIVAL + 1;
const DATA: u8 = SUMS + 1;
const SENT: u8 = DATA + 1;
const CLOCK: u8 = SENT + 1;
const END: u8 = CLOCK + 1;

/// The first record: everything that the run began with.
#[derive(Clone, Debug)]
pub struct Head {
    /// Version of the program that recorded.
    pub version: String,
    /// The subject of a recording.
    pub subject: Subject,
}

/// The subject of a recording.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A host on real packets.
    Host {
        /// The recording has the bytes of payloads.
        has_data: bool,
        /// The key of the host's secrets.
        key: [u8; 32],
        /// The host's addresses at the start.
        addresses: Vec<Address>,
        /// The host's limits.
        limits: Limits,
    },
    /// A scenario in real time.
    Scenario {
        /// The seed.
        seed: u64,
        /// The scenario in its canonical form.
        text: String,
    },
}

/// Numbers of records of each kind, to detect a damaged file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls, readings of the clock included.
    pub calls: u64,
    /// Packets that arrived.
    pub arrivals: u64,
    /// Packets that were sent.
    pub sent: u64,
}

/// A record.
#[derive(Clone, Debug)]
pub enum Record {
    /// A call.
    Call(Box<Call>),
    /// A packet arrived.
    Arrival(Image),
    /// The host computed these checksums (RFC 1071) of parts of the payload of the packet that has just arrived.
    Sums(Vec<u16>),
    /// The bytes of earlier writes, in a recording with data.
    Data(ConnectionId, Vec<u8>),
    /// A packet was sent, with the CRC-32C of its real bytes in a recording with data.
    Sent(Image, Option<u32>),
    /// A reading of the clock of a run.
    Clock,
    /// The last record.
    End(Counts),
}

impl Head {
    /// The first record of a recording by this version of the program.
    pub fn of(subject: Subject) -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), subject }
    }

    /// Appends the record.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_bytes(self.version.as_bytes());
        match &self.subject {
            Subject::Host { has_data, key, addresses, limits } => {
                out.push(0);
                out.put_flag(*has_data);
                out.extend_from_slice(key);
                out.put_list(addresses.iter().copied(), put_address);
                let (first, last) = (limits.ephemeral_ports.start(), limits.ephemeral_ports.end());
                let numbers =
                    [limits.connections, limits.time_wait, limits.pairs].map(|number| number as u64);
                let others = [limits.answers_per_second, (*first).into(), (*last).into()].map(u64::from);
                numbers.into_iter().chain(others).for_each(|number| out.put_number(number));
            }
            Subject::Scenario { seed, text } => {
                out.push(1);
                out.put_number(*seed);
                out.put_bytes(text.as_bytes());
            }
        }
    }

    /// Reads the record.
    pub fn read(mut fields: Fields<'_>) -> Result<Self, Malformed> {
        let version = fields.text()?.to_owned();
        let subject = match fields.byte()? {
            0 => {
                let (has_data, key) = (fields.flag()?, fields.array()?);
                let addresses = read_addresses(&mut fields)?;
                let (connections, time_wait, pairs) = (fields.small()?, fields.small()?, fields.small()?);
                let (answers_per_second, first, last) = (fields.small()?, fields.small()?, fields.small()?);
                if first == 0 || first > last {
                    return Err(Malformed);
                }
                let ephemeral_ports = first..=last;
                let limits = Limits { connections, time_wait, answers_per_second, pairs, ephemeral_ports };
                Subject::Host { has_data, key, addresses, limits }
            }
            1 => Subject::Scenario { seed: fields.number()?, text: fields.text()?.to_owned() },
            _ => return Err(Malformed),
        };
        fields.end()?;
        Ok(Self { version, subject })
    }
}

/// The state on which the form of a record depends; writer and reader have the same.
#[derive(Clone, Debug)]
pub struct Context {
    coder: Coder,
    /// The time of the last record with a time.
    pub now: Time,
    /// The offset of the last payload.
    offset: u64,
}

impl Context {
    pub fn new() -> Self {
        Self { coder: Coder::new(), now: Time::ZERO, offset: 0 }
    }

    /// Appends a call at a time. False if its settings cannot be expressed.
    pub fn put_call(&mut self, now: Time, call: &Call, out: &mut Vec<u8>) -> bool {
        self.put_time(now, out);
        call.put(out)
    }

    /// Appends an arrival at a time.
    pub fn put_arrival(&mut self, now: Time, image: &Image, out: &mut Vec<u8>) {
        self.put_time(now, out);
        out.push(ARRIVAL);
        self.put_image(image, out);
    }

    /// Appends the checksums of an arrival.
    pub fn put_sums(sums: &[u16], out: &mut Vec<u8>) {
        out.put_number(0);
        out.push(SUMS);
        out.put_list(sums.iter(), |&sum, out| out.put_number(sum.into()));
    }

    /// Appends bytes of writes.
    pub fn put_data(id: ConnectionId, bytes: &[u8], out: &mut Vec<u8>) {
        out.put_number(0);
        out.push(DATA);
        out.put_number(id.to_number());
        out.put_number(bytes.len() as u64);
        out.extend_from_slice(bytes);
    }

    /// Appends a packet that was sent.
    pub fn put_sent(&mut self, image: &Image, digest: Option<u32>, out: &mut Vec<u8>) {
        out.put_number(0);
        out.push(SENT);
        self.put_image(image, out);
        out.put_flag(digest.is_some());
        if let Some(digest) = digest {
            out.extend_from_slice(&digest.to_le_bytes());
        }
    }

    /// Appends a reading of the clock.
    pub fn put_clock(&mut self, now: Time, out: &mut Vec<u8>) {
        self.put_time(now, out);
        out.push(CLOCK);
    }

    /// Appends the last record.
    pub fn put_end(counts: Counts, out: &mut Vec<u8>) {
        out.put_number(0);
        out.push(END);
        for number in [counts.calls, counts.arrivals, counts.sent] {
            out.put_number(number);
        }
    }

    /// Each record begins with the nanoseconds since the previous one.
    fn put_time(&mut self, now: Time, out: &mut Vec<u8>) {
        out.put_number(now.since(self.now).as_nanos());
        self.now = self.now.max(now);
    }

    fn put_image(&mut self, image: &Image, out: &mut Vec<u8>) {
        out.put_flag(image.encapsulated);
        self.coder.encode(&image.bytes, out);
        out.put_list(image.offsets.iter(), |&offset, out| {
            // The difference, with its sign in the lowest bit.
            let difference = offset.wrapping_sub(self.offset) as i64;
            out.put_number((difference << 1 ^ difference >> 63) as u64);
            self.offset = offset;
        });
    }

    fn read_image(&mut self, fields: &mut Fields<'_>) -> Result<Image, Malformed> {
        let (encapsulated, bytes) = (fields.flag()?, self.coder.decode(fields)?);
        let offsets = fields.list(|fields| {
            let number = fields.number()?;
            let difference = (number >> 1) as i64 ^ -((number & 1) as i64);
            self.offset = self.offset.wrapping_add(difference as u64);
            Ok(self.offset)
        })?;
        Ok(Image { encapsulated, bytes, offsets })
    }

    /// Reads a record.
    pub fn read(&mut self, mut fields: Fields<'_>) -> Result<Record, Malformed> {
        /// Later than any time of a run: a century.
        const LATEST: Time = Time::from_nanos(100 * 365 * 86_400 * 1_000_000_000);
        self.now += Duration::from_nanos(fields.number()?);
        if self.now > LATEST {
            return Err(Malformed);
        }
        let record = match fields.byte()? {
            ARRIVAL => Record::Arrival(self.read_image(&mut fields)?),
            SUMS => Record::Sums(fields.list(Fields::small)?),
            DATA => {
                let id = ConnectionId::from_number(fields.number()?).ok_or(Malformed)?;
                Record::Data(id, fields.bytes()?.to_vec())
            }
            SENT => {
                let image = self.read_image(&mut fields)?;
                let digest = if fields.flag()? { Some(u32::from_le_bytes(fields.array()?)) } else { None };
                Record::Sent(image, digest)
            }
            CLOCK => Record::Clock,
            END => Record::End(Counts {
                calls: fields.number()?,
                arrivals: fields.number()?,
                sent: fields.number()?,
            }),
            kind => Record::Call(Box::new(Call::read(kind, &mut fields)?)),
        };
        fields.end()?;
        Ok(record)
    }
}

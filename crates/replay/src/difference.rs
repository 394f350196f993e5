//! The first difference between a recording and its replay.

use super::image::Image;
use anabranch_base::time::Time;
use anabranch_wire::Packet;
use core::fmt;

/// The first difference between a recording and its replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The time in the recording.
    pub at: Time,
    /// The object that differs: a field of a packet, or the result of a call.
    pub place: Place,
    /// The value in the recording.
    pub recorded: String,
    /// The value in the replay.
    pub replayed: String,
}

/// The object that differs between a recording and its replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A packet was sent by one of both only.
    Packet {
        /// Number of the packet among all sent packets, from 1.
        number: u64,
    },
    /// A field of a packet.
    Field {
        /// The number of the packet among those sent, from 1.
        number: u64,
        /// The field, for example `body.seq`.
        name: String,
    },
    /// The protocol core panicked in the replay.
    Panic {
        /// Number of packets sent before.
        packets: u64,
    },
    /// The result of a call.
    Call {
        /// The number of the call, from 1.
        number: u64,
        /// The call, for example `write`.
        name: &'static str,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.as_secs_f64();
        match &self.place {
            Place::Packet { number } => write!(f, "packet {number} at {at:.6} s")?,
            Place::Field { number, name } => write!(f, "packet {number} at {at:.6} s, field {name}")?,
            Place::Call { number, name } => write!(f, "call {number} ({name}) at {at:.6} s")?,
            Place::Panic { packets } => {
                return write!(f, "panic after {packets} sent packets at {at:.6} s: {}", self.replayed);
            }
        }
        write!(f, ": {} in the recording, {} in the replay", self.recorded, self.replayed)
    }
}

/// A packet that was sent, in the recording or in the replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The packet without its payload.
    pub image: Image,
    /// The CRC-32C of the packet's real bytes, in a recording with data.
    pub digest: Option<u32>,
}

/// A packet in one phrase.
fn phrase(sent: &Sent) -> String {
    let ends = sent.image.parse().map(|packet| format!(" from {} to {}", packet.source, packet.destination));
    format!("{} bytes{}", sent.image.bytes.len(), ends.unwrap_or_default())
}

/// Compares the packet with this number: the one of the recording, and the one of the replay.
pub fn compare(
    number: u64,
    at: Time,
    recorded: Option<&Sent>,
    replayed: Option<&Sent>,
) -> Option<Difference> {
    let (Some(old), Some(new)) = (recorded, replayed) else {
        let value = |sent: Option<&Sent>| sent.map_or("none".to_owned(), phrase);
        let is_one = recorded.is_some() || replayed.is_some();
        return is_one.then(|| Difference {
            at,
            place: Place::Packet { number },
            recorded: value(recorded),
            replayed: value(replayed),
        });
    };
    if old == new {
        return None;
    }
    let (name, recorded, replayed) = field(old, new);
    Some(Difference { at, place: Place::Field { number, name }, recorded, replayed })
}

/// The first different field, with its values.
fn field(old: &Sent, new: &Sent) -> (String, String, String) {
    let parsed = [old, new].map(|sent| sent.image.parse());
    if let [Some(old), Some(new)] = &parsed
        && let Some(found) = packet_field(old, new)
    {
        return found;
    }
    let pair = old.image.offsets.iter().zip(&new.image.offsets).find(|(old, new)| old != new);
    if let Some((old, new)) = pair {
        return ("payload offset".to_owned(), old.to_string(), new.to_string());
    }
    if old.image.bytes == new.image.bytes && old.digest != new.digest {
        let value =
            |sent: &Sent| sent.digest.map_or("none".to_owned(), |digest| format!("CRC-32C {digest:08x}"));
        return ("payload bytes".to_owned(), value(old), value(new));
    }
    // A field that the parsed packet does not contain, such as DF of the IP header: compare the bytes.
    let (old, new) = (&old.image.bytes, &new.image.bytes);
    let at = old.iter().zip(new).position(|(old, new)| old != new).unwrap_or(old.len().min(new.len()));
    let value = |bytes: &[u8]| bytes.get(at).map_or("none".to_owned(), |byte| format!("{byte:#04x}"));
    (format!("byte {at}"), value(old), value(new))
}

/// The first field in which two packets differ.
fn packet_field(old: &Packet, new: &Packet) -> Option<(String, String, String)> {
    let [old, new] = [old, new].map(|packet| format!("{packet:#?}"));
    let mut path: Vec<&str> = Vec::new();
    let (mut old, mut new) = (old.lines(), new.lines());
    loop {
        let (was, is) = (old.next(), new.next());
        if was != is {
            let name = |line: &str| line.trim().split_once(": ").map(|(name, _)| name.to_owned());
            let (was, is) = (was.unwrap_or_default(), is.unwrap_or_default());
            let last = name(was).or_else(|| name(is));
            // Levels of variants and tuples have no name.
            let names = path.iter().copied().filter(|name| !name.is_empty()).chain(last.as_deref());
            return Some((names.collect::<Vec<_>>().join("."), value(was), value(is)));
        }
        let line = was?.trim();
        match line.strip_suffix(['{', '(', '[']) {
            Some(opened) => path.push(opened.split_once(": ").map_or("", |(name, _)| name)),
            None if line.starts_with(['}', ')', ']']) => {
                path.pop();
            }
            None => {}
        }
    }
}

/// The value on a line.
fn value(line: &str) -> String {
    let line = line.trim().trim_end_matches([',', '{', '(', '[', ' ']);
    line.split_once(": ").map_or(line, |(_, value)| value).to_owned()
}

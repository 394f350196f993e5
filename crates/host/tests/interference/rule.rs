//! One kind of interference by a middlebox.

use super::Program;
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::mptcp::{DataNumber, Dss};
use anabranch_wire::tcp::{Flags, Segment};
use anabranch_wire::{Body, BoxedIfSet, Packet, Payload};

/// Highest loss rate of a rule that drops a part of the packets to the end of the run.
const MAX_LOSS: f64 = 0.5;

#[derive(Clone, Copy, Debug)]
enum Action {
    /// Strips all options of Multipath TCP, from SYNs only if `syns`.
    Strip {
        syns: bool,
    },
    /// Strips the data sequence signal, or only its mapping, or only its `DATA_ACK`.
    StripDss,
    StripMapping,
    StripDataAck,
    /// Strips all options of Multipath TCP except the data sequence signal.
    StripOthers,
    /// Cuts data sequence numbers and acknowledgements to their lower 32 bits.
    Shorten,
    /// Drops SYNs with options of Multipath TCP.
    Firewall,
    /// Splits a segment in two; the second part keeps the options only if `everywhere`.
    Split {
        everywhere: bool,
    },
    Drop,
    /// Delays a packet by a random time of at most this one.
    Delay(Duration),
    Repeat,
    /// Turns a packet into an RST, or drops it and answers with an RST in the name of the receiver.
    Reset,
    /// Reduces the advertised window to a quarter.
    Clamp,
}

/// An action, and the time, ends, paths and probability with which it applies.
#[derive(Clone, Debug)]
pub struct Rule {
    action: Action,
    from: Time,
    until: Time,
    /// Sending ends and paths of the packets that the rule changes.
    ends: [bool; 2],
    paths: [bool; 2],
    /// Number of first packets that the rule leaves unchanged.
    spared: u32,
    chance: f64,
}

fn segment(packet: &mut Packet) -> &mut Segment {
    match &mut packet.body {
        Body::Tcp(segment) => segment,
        other => unreachable!("not TCP: {other:?}"),
    }
}

impl Rule {
    pub fn read(program: &mut Program<'_>) -> Self {
        let milliseconds = |byte: u8| Duration::from_millis(1 << (byte % 16));
        let action = match program.byte() % 20 {
            0 | 1 => Action::Strip { syns: false },
            2 => Action::Strip { syns: true },
            3 | 4 => Action::StripDss,
            5 => Action::StripMapping,
            6 => Action::StripDataAck,
            7 => Action::StripOthers,
            8 => Action::Shorten,
            9 => Action::Firewall,
            10 => Action::Split { everywhere: true },
            11 => Action::Split { everywhere: false },
            12..=14 => Action::Drop,
            15 => Action::Delay(milliseconds(program.byte() % 12)),
            16 => Action::Repeat,
            17 | 18 => Action::Reset,
            _ => Action::Clamp,
        };
        let from = Time::ZERO + milliseconds(program.byte()).saturating_sub(Duration::from_millis(1));
        let lasts = program.byte();
        let until = if lasts < 128 { Time::MAX } else { from + milliseconds(lasts) };
        let bits = program.byte();
        let both = |bits: u8| [bits & 3 != 1, bits & 3 != 2];
        let chance = match program.byte() {
            often @ 128.. => f64::from(often - 127) / 128.0,
            _ => 1.0,
        };
        // Higher loss rates take hours of virtual time and find no further faults.
        let hopeless = matches!(action, Action::Drop) && until == Time::MAX && chance < 1.0;
        let chance = if hopeless { chance.min(MAX_LOSS) } else { chance };
        let spared = u32::from(program.byte() % 64);
        Self { action, from, until, ends: both(bits), paths: both(bits >> 2), spared, chance }
    }

    /// True if the rule applies to the next packet of this end on this path. Counts the packets that it leaves
    /// unchanged.
    pub fn applies(&mut self, now: Time, from: usize, path: usize) -> bool {
        let here = self.ends[from] && self.paths[path] && self.from <= now && now < self.until;
        let spares = here && self.spared > 0;
        self.spared -= u32::from(spares);
        here && !spares
    }

    /// The packets that replace a packet, each with its delay.
    pub fn apply(&self, mut packet: Packet, late: Duration, rng: &mut Rng) -> Vec<(Packet, Duration)> {
        if !rng.chance(self.chance) {
            return vec![(packet, late)];
        }
        let piece = segment(&mut packet);
        let syn = piece.flags.contains(Flags::SYN);
        let options = &mut piece.options.mptcp;
        match self.action {
            Action::Strip { syns } if syns || !syn => *options = BoxedIfSet::default(),
            Action::StripDss if options.dss.is_some() => options.dss = None,
            Action::StripMapping => {
                options.dss = options.dss.map(|dss| Dss { mapping: None, data_fin: false, ..dss });
            }
            Action::StripDataAck => options.dss = options.dss.map(|dss| Dss { data_ack: None, ..dss }),
            Action::StripOthers if !syn && !options.others.is_empty() => options.others.clear(),
            Action::Shorten => {
                let short = |number: DataNumber| match number {
                    DataNumber::Long(number) => DataNumber::Short(number as u32),
                    short @ DataNumber::Short(_) => short,
                };
                // The checksum stays: it covers the full number, which the other end can reconstruct.
                options.dss = options.dss.map(|dss| Dss {
                    data_ack: dss.data_ack.map(short),
                    mapping: dss.mapping.map(|mapping| anabranch_wire::tcp::mptcp::Mapping {
                        dsn: short(mapping.dsn),
                        ..mapping
                    }),
                    ..dss
                });
            }
            Action::Firewall if syn && !options.is_empty() => return Vec::new(),
            Action::Split { everywhere } if piece.payload.len > 1 && !syn => {
                return split(packet, everywhere, rng).into_iter().map(|packet| (packet, late)).collect();
            }
            Action::Drop => return Vec::new(),
            Action::Delay(by) => {
                return vec![(packet, late + Duration::from_nanos(rng.below(by.as_nanos() + 1)))];
            }
            Action::Repeat => return vec![(packet.clone(), late), (packet, late)],
            Action::Reset => return vec![(reset(packet, rng), late)],
            Action::Clamp => piece.window /= 4,
            _ => {}
        }
        vec![(packet, late)]
    }
}

fn split(packet: Packet, everywhere: bool, rng: &mut Rng) -> Vec<Packet> {
    let (mut first, mut second) = (packet.clone(), packet);
    let at = rng.between(1, u64::from(segment(&mut first).payload.len) - 1) as u32;
    let (head, tail) = (segment(&mut first), segment(&mut second));
    head.payload = head.payload.part(0, at);
    head.flags = Flags(head.flags.0 & !Flags::FIN.0);
    tail.payload = tail.payload.part(at, tail.payload.len - at);
    tail.seq = tail.seq.add(at);
    if !everywhere {
        tail.options.mptcp.dss =
            tail.options.mptcp.dss.map(|dss| Dss { mapping: None, data_fin: false, ..dss });
        tail.options.mptcp.others.clear();
    }
    vec![first, second]
}

/// Turns a packet into an RST, or into an RST that answers it.
fn reset(mut packet: Packet, rng: &mut Rng) -> Packet {
    let answer = rng.chance(0.5);
    if answer {
        core::mem::swap(&mut packet.source, &mut packet.destination);
    }
    let piece = segment(&mut packet);
    let acknowledges = piece.flags.contains(Flags::ACK);
    if answer {
        core::mem::swap(&mut piece.source_port, &mut piece.destination_port);
        let end = piece.seq.add(piece.sequence_len());
        piece.seq = if acknowledges { piece.ack } else { Serial(0) };
        piece.ack = end;
    }
    piece.flags = if answer && acknowledges { Flags::RST } else { Flags::RST | Flags::ACK };
    piece.payload = Payload::new(0, 0);
    piece.options = anabranch_wire::tcp::Options::default();
    packet
}

//! A stateful firewall: packets from inside create state by addresses, ports and protocol, and packets from outside
//! pass only with state (RFC 2979 §2; RFC 6092 §3). A subflow that an outside host opens is therefore refused, and
//! one that an inside host opens passes.

use crate::{Behaviour, FlowKey, Onward, Outcome, Transit};
use anabranch_base::time::{Duration, Time};
use anabranch_netem::keys::{Default, InvalidValues, Key, Keyed, Kind, Takes, Value, Values, Word};
use anabranch_wire::icmp::{Message, Quote, Unreachable, may_be_answered};
use anabranch_wire::ip::protocol;
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::{Flags, Segment};
use anabranch_wire::{Body, Ecn, Packet};
use core::marker::PhantomData;
use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;

/// The kind in scenarios.
pub static KIND: Kind = Kind {
    name: "firewall",
    summary: "passes packets from outside only if a packet from its links `from` has created state for their flow",
    source: "RFC 2979, RFC 6092",
    keys: &[
        Key {
            name: "tcp_timeout",
            takes: Takes::Time,
            default: Default::Is("\"7440 s\""),
            doc: "Lifetime of the state of a TCP connection or an SCTP association without a packet: at least 2 h 4 min by RFC 6092 REC-35.",
        },
        Key {
            name: "udp_timeout",
            takes: Takes::Time,
            default: Default::Is("\"120 s\""),
            doc: "Lifetime of the state of UDP and of ICMP echoes without a packet: at least 2 min by RFC 6092 REC-14.",
        },
        Key {
            name: "answer",
            takes: Takes::Word(ANSWERS),
            default: Default::Is("\"drop\""),
            doc: "The answer to a refused packet from outside.",
        },
        Key {
            name: "limit",
            takes: Takes::Integer { min: 1, max: 1 << 24 },
            default: Default::Is("65536"),
            doc: "Maximum number of states. A new one replaces the one without a packet for the longest time.",
        },
    ],
};

static ANSWERS: &[Word] = &[
    Word { name: "drop", summary: "no answer" },
    Word { name: "reset", summary: "a reset for a TCP segment, and none for other packets" },
    Word { name: "icmp", summary: "an ICMP error: administratively prohibited" },
];

/// The answer to a refused packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The firewall sends no answer.
    Drop,
    /// A reset for a TCP segment (RFC 9293 §3.10.7.1).
    Reset,
    /// Destination unreachable, administratively prohibited (RFC 1812 §5.2.7.1, RFC 4443 §3.1).
    Icmp,
}

impl Answer {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Drop, "drop"), (Self::Reset, "reset"), (Self::Icmp, "icmp")];
}

/// Lifetimes and number of states, and the answer to refused packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Lifetime of a connection without a packet.
    pub tcp_timeout: Duration,
    /// Lifetime of a flow without connections, without a packet.
    pub udp_timeout: Duration,
    /// The answer to a refused packet.
    pub answer: Answer,
    /// Maximum number of states.
    pub limit: usize,
}

impl Keyed for Settings {
    fn read(values: Values<'_>) -> Result<Self, InvalidValues> {
        let word = values.word("answer");
        let found = Answer::ALL.into_iter().find(|(_, name)| *name == word);
        let (answer, _) = found.unwrap_or_else(|| panic!("{word} was not declared"));
        Ok(Self {
            tcp_timeout: values.time("tcp_timeout"),
            udp_timeout: values.time("udp_timeout"),
            answer,
            limit: values.integer("limit") as usize,
        })
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("tcp_timeout", Value::Time(self.tcp_timeout)),
            ("udp_timeout", Value::Time(self.udp_timeout)),
            ("answer", Value::Word(Answer::ALL[self.answer as usize].1)),
            ("limit", Value::Integer(self.limit as u64)),
        ]
    }
}

/// Time of a flow's last packet and the number of that packet, which orders packets of the same time.
type LastUse = (Time, u64);

/// The flows with state, each by the key of its packets from inside.
#[derive(Clone, Debug)]
pub struct State<R> {
    settings: Settings,
    flows: BTreeMap<FlowKey, LastUse>,
    by_use: BTreeMap<LastUse, FlowKey>,
    packets: u64,
    carrier: PhantomData<R>,
}

impl<R> State<R> {
    pub(crate) const fn new(settings: Settings) -> Self {
        Self { settings, flows: BTreeMap::new(), by_use: BTreeMap::new(), packets: 0, carrier: PhantomData }
    }

    /// True if a flow has state that has not expired.
    fn is_known(&mut self, now: Time, key: FlowKey) -> bool {
        let Some(&last_use) = self.flows.get(&key) else { return false };
        let Settings { tcp_timeout, udp_timeout, .. } = self.settings;
        let is_connection = matches!(key.protocol, protocol::TCP | protocol::SCTP);
        let timeout = if is_connection { tcp_timeout } else { udp_timeout };
        if last_use.0 + timeout >= now {
            return true;
        }
        self.flows.remove(&key);
        self.by_use.remove(&last_use);
        false
    }

    /// Records a packet of a flow, and creates state for the flow if it has none.
    fn record_use(&mut self, now: Time, key: FlowKey) {
        self.packets += 1;
        let last_use = (now, self.packets);
        if let Some(before) = self.flows.insert(key, last_use) {
            self.by_use.remove(&before);
        } else if self.flows.len() > self.settings.limit
            && let Some((_, idle)) = self.by_use.pop_first()
        {
            self.flows.remove(&idle);
        }
        self.by_use.insert(last_use, key);
    }

    fn record_from_inside(&mut self, now: Time, packet: &Packet) {
        let Some(key) = key_of(packet) else { return };
        if self.is_known(now, key) || begins_flow(packet) {
            self.record_use(now, key);
        }
    }

    /// True if a packet from outside passes.
    fn admits(&mut self, now: Time, packet: &Packet) -> bool {
        if let Some(key) = key_of(packet).map(reversed) {
            let is_known = self.is_known(now, key);
            if is_known {
                self.record_use(now, key);
            }
            return is_known;
        }
        // An ICMP error concerns the flow of the packet that it quotes; that packet came from inside.
        let Body::Icmp(message) = &packet.body else { return false };
        let quoted = message.quote().and_then(Quote::parse);
        quoted.is_some_and(|quoted| {
            let (protocol, source, destination) = (quoted.protocol, quoted.source, quoted.destination);
            self.is_known(now, FlowKey { protocol, source, destination })
        })
    }

    /// The answer to a refused packet; `here` is the address of the interface by which it has arrived.
    fn answer(&self, packet: &Packet, here: IpAddr) -> Option<Packet> {
        let (source, body) = match (self.settings.answer, &packet.body) {
            (Answer::Reset, Body::Tcp(segment)) => (packet.destination, Body::Tcp(reset(segment)?)),
            (Answer::Drop | Answer::Reset, _) => return None,
            (Answer::Icmp, Body::Icmp(message)) if message.quote().is_some() => return None,
            (Answer::Icmp, _) => {
                let (what, quote) = (Unreachable::Prohibited, Quote::of(packet));
                (here, Body::Icmp(Box::new(Message::Unreachable { what, quote })))
            }
        };
        let destination = packet.source;
        let can_answer = may_be_answered(destination) && source.is_ipv4() == destination.is_ipv4();
        can_answer.then_some(Packet { source, destination, ecn: Ecn::NotEct, body })
    }
}

impl<R: Copy> Behaviour<R> for State<R> {
    fn pass(&mut self, now: Time, transit: Transit<R>, outcome: &mut Outcome<R>) {
        let Transit { packet, inside, crosses, arrives_at, onward, .. } = transit;
        // A packet whose source and destination are on the same side does not pass the firewall.
        if !crosses {
            outcome.send(packet, onward);
        } else if inside {
            self.record_from_inside(now, &packet);
            outcome.send(packet, onward);
        } else if self.admits(now, &packet) {
            outcome.send(packet, onward);
        } else {
            let answer = self.answer(&packet, arrives_at);
            outcome.sent.extend(answer.map(|answer| (answer, Onward::Back(onward))));
            outcome.drop(packet, onward);
        }
    }
}

/// The key of a packet's flow. An echo has its identifier in place of both ports (RFC 5508 §3); `None` for ICMP errors.
fn key_of(packet: &Packet) -> Option<FlowKey> {
    let Body::Icmp(message) = &packet.body else { return FlowKey::of(packet) };
    let (Message::EchoRequest(echo) | Message::EchoReply(echo)) = message.as_ref() else { return None };
    let protocol = if packet.source.is_ipv4() { protocol::ICMP } else { protocol::ICMPV6 };
    let [source, destination] =
        [packet.source, packet.destination].map(|address| SocketAddr::new(address, echo.identifier));
    Some(FlowKey { protocol, source, destination })
}

/// The key of the packets in the other direction.
const fn reversed(FlowKey { protocol, source, destination }: FlowKey) -> FlowKey {
    FlowKey { protocol, source: destination, destination: source }
}

/// True if a packet from inside creates state: for TCP only the SYN of the connecting end, for ICMP only an echo
/// request.
fn begins_flow(packet: &Packet) -> bool {
    match &packet.body {
        Body::Tcp(segment) => {
            segment.flags.contains(Flags::SYN) && !segment.flags.intersects(Flags::ACK | Flags::RST)
        }
        Body::Icmp(message) => matches!(**message, Message::EchoRequest(_)),
        Body::Udp(_) | Body::Sctp(_) => true,
    }
}

/// The reset that answers a segment (RFC 9293 §3.10.7.1); `None` if the segment is a reset itself.
fn reset(segment: &Segment) -> Option<Segment> {
    if segment.flags.intersects(Flags::RST) {
        return None;
    }
    let (flags, seq, ack) = if segment.flags.intersects(Flags::ACK) {
        (Flags::RST, segment.ack, Serial(0))
    } else {
        (Flags::RST | Flags::ACK, Serial(0), segment.seq.add(segment.sequence_len()))
    };
    let (source_port, destination_port) = (segment.destination_port, segment.source_port);
    Some(Segment { source_port, destination_port, seq, ack, flags, ..Segment::default() })
}

#[cfg(test)]
mod tests;

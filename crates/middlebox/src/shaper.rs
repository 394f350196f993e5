//! Limits the rate of each flow: a provider's limit per transport connection, independent of the link's rate.
//! Faster packets of a flow wait in the flow's own queue.

use crate::{Behaviour, FlowKey, Outcome, Transit};
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;
use anabranch_netem::keys::{Default, InvalidValues, Key, Keyed, Kind, Takes, Value, Values};
use anabranch_netem::queue::QueueLimit;
use anabranch_wire::Packet;
use core::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// The kind in scenarios.
pub static KIND: Kind = Kind {
    name: "shaper",
    summary: "limits each flow (addresses, ports, protocol) to `rate`, with a queue per flow; packets beyond `limit` are dropped",
    source: "",
    keys: &[
        Key {
            name: "rate",
            takes: Takes::Rate,
            default: Default::Required("\"2 Mbit/s\""),
            doc: "Rate of each flow, counted in IP packets.",
        },
        Key {
            name: "limit",
            takes: Takes::Limit,
            default: Default::Is("\"100 packets\""),
            doc: "Capacity of a flow's queue, in packets or bytes. The packet that is being sent does not count.",
        },
    ],
};

/// Limits of each flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Rate, counted in IP packets.
    pub rate: Rate,
    /// Capacity of the queue.
    pub limit: QueueLimit,
}

impl Keyed for Settings {
    fn read(values: Values<'_>) -> Result<Self, InvalidValues> {
        Ok(Self { rate: values.rate("rate"), limit: values.limit("limit") })
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        vec![("rate", Value::Rate(self.rate)), ("limit", Value::Limit(self.limit))]
    }
}

/// The packets of one flow in the middlebox: the first is being sent until its departure time, the others wait.
#[derive(Clone, Debug)]
struct Flow<R> {
    packets: VecDeque<(Packet, R)>,
    bytes: u64,
    /// The end of the last packet's transmission.
    free: Time,
}

/// The flows with packets in the middlebox.
#[derive(Clone, Debug)]
pub struct State<R> {
    settings: Settings,
    flows: BTreeMap<FlowKey, Flow<R>>,
    /// End of transmission and flow of each packet; packets of a flow leave in order.
    leaving: BinaryHeap<Reverse<(Time, u64, FlowKey)>>,
    taken: u64,
}

impl<R> State<R> {
    pub(crate) const fn new(settings: Settings) -> Self {
        Self { settings, flows: BTreeMap::new(), leaving: BinaryHeap::new(), taken: 0 }
    }

    /// Transmission time of a packet.
    fn time_of(&self, packet: &Packet) -> Duration {
        self.settings.rate.time_to_send(packet.wire_len().into())
    }
}

impl<R: Copy> Behaviour<R> for State<R> {
    fn pass(&mut self, now: Time, transit: Transit<R>, outcome: &mut Outcome<R>) {
        let Transit { packet, onward, .. } = transit;
        let Some(key) = FlowKey::of(&packet).filter(|_| transit.inside) else {
            outcome.send(packet, onward);
            return;
        };
        let took = self.time_of(&packet);
        let empty = || Flow { packets: VecDeque::new(), bytes: 0, free: Time::ZERO };
        let flow = self.flows.entry(key).or_insert_with(empty);
        let len = u64::from(packet.wire_len());
        let waiting = match flow.packets.front() {
            None => None,
            Some((first, _)) => {
                Some((flow.packets.len() as u64, flow.bytes - u64::from(first.wire_len()) + len))
            }
        };
        if waiting.is_some_and(|(packets, bytes)| self.settings.limit.exceeded_by(packets, bytes)) {
            outcome.drop(packet, onward);
            return;
        }
        flow.free = flow.free.max(now) + took;
        flow.bytes += len;
        flow.packets.push_back((packet, onward));
        self.leaving.push(Reverse((flow.free, self.taken, key)));
        self.taken += 1;
    }

    fn next_event(&self) -> Option<Time> {
        self.leaving.peek().map(|Reverse((at, ..))| *at)
    }

    fn due(&mut self, now: Time, outcome: &mut Outcome<R>) {
        while let Some(&Reverse((at, _, key))) = self.leaving.peek()
            && at <= now
        {
            self.leaving.pop();
            let flow = self.flows.get_mut(&key).expect("a flow with a packet");
            let (packet, onward) = flow.packets.pop_front().expect("the packet that has been sent");
            flow.bytes -= u64::from(packet.wire_len());
            if flow.packets.is_empty() {
                self.flows.remove(&key);
            }
            outcome.send(packet, onward);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Middlebox;
    use crate::fixture::{at, data, out, pass};

    /// Packets of 1,000 bytes take one millisecond each; besides the one being sent, one packet may wait.
    fn shaper() -> Middlebox<u32> {
        let settings =
            Settings { rate: Rate::from_bits_per_second(8_000_000), limit: QueueLimit::Packets(1) };
        Middlebox::new(&crate::Settings::Shaper(settings))
    }

    fn thousand(offset: u64) -> Packet {
        let mut packet = data(offset, 1_000);
        let header = packet.wire_len() - 1_000;
        let anabranch_wire::Body::Tcp(segment) = &mut packet.body else { panic!("{packet:?}") };
        segment.payload.len = 1_000 - header;
        assert_eq!(packet.wire_len(), 1_000);
        packet
    }

    #[test]
    fn flow_has_its_rate_and_its_queue_overflows() {
        let mut middlebox = shaper();
        let outcomes: Vec<_> = (0..3).map(|n| pass(&mut middlebox, at(0), out(thousand(n), 1))).collect();
        assert_eq!(
            outcomes.iter().map(|o| (o.sent.len(), o.dropped.len())).collect::<Vec<_>>(),
            [(0, 0), (0, 0), (0, 1)]
        );
        for moment in 1..=2 {
            assert_eq!(middlebox.next_event(), Some(at(moment)));
            let mut outcome = Outcome::default();
            middlebox.due(at(moment), &mut outcome);
            assert_eq!(outcome.sent.len(), 1);
        }
        assert_eq!(middlebox.next_event(), None);
    }

    #[test]
    fn flows_do_not_delay_each_other() {
        let mut middlebox = shaper();
        let mut other = thousand(0);
        let anabranch_wire::Body::Tcp(segment) = &mut other.body else { panic!("{other:?}") };
        segment.source_port += 1;
        pass(&mut middlebox, at(0), out(thousand(0), 1));
        pass(&mut middlebox, at(0), out(other, 2));
        let mut outcome = Outcome::default();
        middlebox.due(at(1), &mut outcome);
        assert_eq!(outcome.sent.len(), 2, "both leave after one packet's time");
    }
}

//! Merges segments: a segment that directly follows another is appended to it, under the options of the first
//! (Honda et al., "Is it still possible to extend TCP?", IMC 2011, §4.5). The mapping of the appended segment
//! is lost, so that the receiver of Multipath TCP gets bytes without a mapping (RFC 8684 §3.3.1).

use crate::{Behaviour, FlowKey, Outcome, Transit};
use anabranch_base::time::{Duration, Time};
use anabranch_netem::keys::{Default, InvalidValues, Key, Keyed, Kind, Takes, Value, Values};
use anabranch_wire::tcp::{Flags, Segment};
use anabranch_wire::{Body, Packet, Pattern};
use std::collections::BTreeMap;

/// The kind in scenarios.
pub static KIND: Kind = Kind {
    name: "merge",
    summary: "merges consecutive TCP segments, under the options of the first",
    source: "Honda et al. 2011 §4.5",
    keys: &[
        Key {
            name: "size",
            takes: Takes::Octets { min: 2, max: 65_535 },
            default: Default::Is("1400"),
            doc: "Maximum payload of a merged segment. The next link drops it if it exceeds the link's MTU.",
        },
        Key {
            name: "wait",
            takes: Takes::Time,
            default: Default::Is("\"1 ms\""),
            doc: "Maximum time for which a segment waits for the next one. Segments with PSH or FIN do not wait.",
        },
    ],
};

/// Limits of merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Maximum payload of a segment, bytes.
    pub size: u32,
    /// Maximum time for which a segment waits for the next one.
    pub wait: Duration,
}

impl Keyed for Settings {
    fn read(values: Values<'_>) -> Result<Self, InvalidValues> {
        Ok(Self { size: values.integer("size") as u32, wait: values.time("wait") })
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        vec![("size", Value::Integer(self.size.into())), ("wait", Value::Time(self.wait))]
    }
}

/// A waiting segment.
#[derive(Clone, Debug)]
struct Waiting<R> {
    packet: Packet,
    onward: R,
    until: Time,
}

/// At most one segment of each direction of a connection waits.
#[derive(Clone, Debug)]
pub struct State<R> {
    settings: Settings,
    waiting: BTreeMap<FlowKey, Waiting<R>>,
}

impl<R> State<R> {
    pub(crate) const fn new(settings: Settings) -> Self {
        Self { settings, waiting: BTreeMap::new() }
    }
}

impl<R: Copy> Behaviour<R> for State<R> {
    fn pass(&mut self, now: Time, transit: Transit<R>, outcome: &mut Outcome<R>) {
        let Transit { packet, inside, crosses, arrives_at, leaves_from, onward } = transit;
        let key = FlowKey::of(&packet);
        let Some((key, Body::Tcp(segment))) = key.zip(Some(&packet.body)).filter(|_| inside) else {
            outcome.send(packet, onward);
            return;
        };
        let Settings { size, wait } = self.settings;
        let (plain, ends) = (is_plain(segment), ends(segment));
        let Some(mut before) = self.waiting.remove(&key) else {
            if plain && !ends && segment.payload.len < size {
                self.waiting.insert(key, Waiting { packet, onward, until: now + wait });
            } else {
                outcome.send(packet, onward);
            }
            return;
        };
        let joined = before.packet.ecn == packet.ecn && plain && join(&mut before.packet, segment, size);
        if !joined {
            outcome.send(before.packet, before.onward);
            // The next segment of the flow may be appended to the packet that did not fit the waiting one.
            return self.pass(
                now,
                Transit { packet, inside, crosses, arrives_at, leaves_from, onward },
                outcome,
            );
        }
        outcome.changed += 1;
        if ends || matches!(&before.packet.body, Body::Tcp(whole) if whole.payload.len >= size) {
            outcome.send(before.packet, before.onward);
        } else {
            self.waiting.insert(key, before);
        }
    }

    fn next_event(&self) -> Option<Time> {
        self.waiting.values().map(|waiting| waiting.until).min()
    }

    fn due(&mut self, now: Time, outcome: &mut Outcome<R>) {
        let over = self.waiting.iter().filter(|(_, waiting)| waiting.until <= now);
        let mut over: Vec<_> = over.map(|(&key, waiting)| (waiting.until, key)).collect();
        over.sort_unstable();
        for (_, key) in over {
            if let Some(Waiting { packet, onward, .. }) = self.waiting.remove(&key) {
                outcome.send(packet, onward);
            }
        }
    }
}

/// True if the segment carries data and has no flag or option that requires a separate segment.
fn is_plain(segment: &Segment) -> bool {
    !segment.payload.is_empty() && segment.flags.0 & !(Flags::ACK | Flags::PSH | Flags::FIN).0 == 0
}

/// True if no later segment may be appended to this one.
fn ends(segment: &Segment) -> bool {
    segment.flags.intersects(Flags::PSH | Flags::FIN)
}

/// Appends a segment to another if it follows directly and the result has at most `size` payload bytes. The bytes
/// have to be consecutive in the data stream, too, because a payload is one range of the data stream.
fn join(packet: &mut Packet, next: &Segment, size: u32) -> bool {
    let Body::Tcp(whole) = &mut packet.body else { return false };
    let follows = whole.seq.add(whole.payload.len) == next.seq && whole.payload.end() == next.payload.offset;
    let len = whole.payload.len + next.payload.len;
    if !follows || len > size {
        return false;
    }
    whole.settle(&Pattern);
    whole.payload.len = len;
    whole.flags |= next.flags;
    (whole.ack, whole.window) = (next.ack, next.window);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Middlebox;
    use crate::fixture::{at, data, out, pass, segment_of};

    const SETTINGS: crate::Settings =
        crate::Settings::Merge(Settings { size: 1_000, wait: Duration::from_millis(5) });

    #[test]
    fn next_segment_joins_under_first_mapping() {
        let mut middlebox = Middlebox::new(&SETTINGS);
        assert!(pass(&mut middlebox, at(0), out(data(0, 400), 1)).sent.is_empty());
        assert_eq!(middlebox.next_event(), Some(at(5)));
        assert!(pass(&mut middlebox, at(1), out(data(400, 400), 1)).sent.is_empty());
        let outcome = pass(&mut middlebox, at(2), out(data(800, 200), 1));
        let [(whole, _)] = &outcome.sent[..] else { panic!("{outcome:?}") };
        let whole = segment_of(whole);
        assert_eq!((whole.payload.offset, whole.payload.len), (0, 1_000));
        assert_eq!(whole.options.mptcp.dss.and_then(|dss| dss.mapping).map(|mapping| mapping.len), Some(400));
        assert_eq!(middlebox.next_event(), None);
    }

    #[test]
    fn gap_or_timeout_releases_the_segment() {
        let mut middlebox = Middlebox::new(&SETTINGS);
        pass(&mut middlebox, at(0), out(data(0, 400), 1));
        let outcome = pass(&mut middlebox, at(1), out(data(800, 400), 1));
        assert_eq!(outcome.sent.iter().map(|(p, _)| segment_of(p).payload.offset).collect::<Vec<_>>(), [0]);
        let mut outcome = Outcome::default();
        middlebox.due(at(6), &mut outcome);
        assert_eq!(segment_of(&outcome.sent[0].0).payload.offset, 800);
    }

    #[test]
    fn psh_and_fin_release_the_waiting_segment() {
        let mut middlebox = Middlebox::new(&SETTINGS);
        pass(&mut middlebox, at(0), out(data(0, 100), 1));
        let mut last = data(100, 100);
        let Body::Tcp(segment) = &mut last.body else { panic!("{last:?}") };
        segment.flags = Flags::ACK | Flags::FIN;
        let outcome = pass(&mut middlebox, at(1), out(last, 1));
        assert_eq!(segment_of(&outcome.sent[0].0).payload.len, 200);
        assert!(segment_of(&outcome.sent[0].0).flags.contains(Flags::FIN));
    }
}

//! Network address translation: packets from inside leave with the address of the interface by which they
//! leave, and with a port of that address. Mappings do not depend on the destination (RFC 4787 REQ-1), but
//! only addresses and ports to which the mapping has sent may send back through it (address and
//! port-dependent filtering, as in Linux). Unsolicited packets, and packets addressed to inside addresses,
//! are dropped. SCTP without UDP is dropped too, as by most translators (RFC 6951 §1); errors about
//! translated packets are translated (RFC 5508 §4).

use crate::{Behaviour, FlowKey, Onward, Outcome, Transit};
use anabranch_base::time::{Duration, Time};
use anabranch_netem::keys::{Default, InvalidValues, Key, Keyed, Kind, Takes, Value, Values};
use anabranch_wire::ip::protocol;
use anabranch_wire::{Body, Packet};
use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet};

/// The kind in scenarios.
pub static KIND: Kind = Kind {
    name: "nat",
    summary: "translates addresses and ports of packets from its links `from`; unsolicited packets from outside are dropped",
    source: "RFC 4787, RFC 5382, RFC 5508",
    keys: &[Key {
        name: "timeout",
        takes: Takes::Time,
        default: Default::Is("\"7440 s\""),
        doc: "Lifetime of a mapping without a packet from inside. RFC 5382 requires 2 h 4 min for TCP; many translators keep mappings for minutes.",
    }],
};

/// The first port that is assigned if the original one is taken: lower ports belong to services (RFC 6335
/// §6).
const FIRST_PORT: u16 = 1_024;

/// Lifetime of mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Lifetime without a packet from inside.
    pub timeout: Duration,
}

impl Keyed for Settings {
    fn read(values: Values<'_>) -> Result<Self, InvalidValues> {
        Ok(Self { timeout: values.time("timeout") })
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        vec![("timeout", Value::Time(self.timeout))]
    }
}

/// The inside address and port to which an outside address and port is mapped, and the state of the mapping.
#[derive(Clone, Debug)]
struct Mapping<R> {
    inner: SocketAddr,
    /// Destinations to which the inside end has sent packets through this mapping.
    peers: BTreeSet<SocketAddr>,
    /// Route from the translator to the inside host, for packets from `peers`.
    onward: R,
    until: Time,
}

/// Transport protocol, address and port of one end.
type End = (u8, SocketAddr);

/// All mappings of a translator.
#[derive(Clone, Debug)]
pub struct State<R> {
    settings: Settings,
    by_outer: BTreeMap<End, Mapping<R>>,
    /// The outside end by inside end and outside address.
    by_inner: BTreeMap<(End, IpAddr), SocketAddr>,
    next_port: u16,
}

impl<R> State<R> {
    pub(crate) const fn new(settings: Settings) -> Self {
        Self { settings, by_outer: BTreeMap::new(), by_inner: BTreeMap::new(), next_port: FIRST_PORT }
    }

    /// The inside end that is mapped to an outside end.
    pub(crate) fn inner_address(&self, transport: u8, outer: SocketAddr) -> Option<SocketAddr> {
        self.by_outer.get(&(transport, outer)).map(|mapping| mapping.inner)
    }

    /// The outside end to which an inside end is mapped, if the mapping has not expired.
    fn outer(&mut self, now: Time, (inner, address): (End, IpAddr)) -> Option<SocketAddr> {
        let outer = *self.by_inner.get(&(inner, address))?;
        if self.by_outer.get(&(inner.0, outer)).is_some_and(|mapping| mapping.until >= now) {
            return Some(outer);
        }
        self.by_outer.remove(&(inner.0, outer));
        self.by_inner.remove(&(inner, address));
        None
    }

    /// An unused outside end; it has the same port as the inside end, if that is free.
    fn free(&mut self, now: Time, (transport, inner): End, address: IpAddr) -> Option<SocketAddr> {
        let is_free = |port: u16| {
            let held = self.by_outer.get(&(transport, SocketAddr::new(address, port)));
            held.is_none_or(|mapping| mapping.until < now)
        };
        let ports = (self.next_port..=u16::MAX).chain(FIRST_PORT..self.next_port);
        let port = [inner.port()].into_iter().chain(ports).find(|&port| is_free(port))?;
        if port != inner.port() {
            self.next_port = port.checked_add(1).unwrap_or(FIRST_PORT);
        }
        let outer = SocketAddr::new(address, port);
        if let Some(old) = self.by_outer.remove(&(transport, outer)) {
            self.by_inner.remove(&((transport, old.inner), address));
        }
        Some(outer)
    }
}

impl<R: Copy> State<R> {
    /// The outside end of a leaving packet; creates the mapping if there is none.
    fn find_or_create_mapping(
        &mut self,
        now: Time,
        key: FlowKey,
        (address, onward): (IpAddr, R),
    ) -> Option<SocketAddr> {
        let inner = (key.protocol, key.source);
        let outer = match self.outer(now, (inner, address)) {
            Some(outer) => outer,
            None => self.free(now, inner, address)?,
        };
        self.by_inner.insert((inner, address), outer);
        let fresh = || Mapping { inner: key.source, peers: BTreeSet::new(), onward, until: now };
        let mapping = self.by_outer.entry((key.protocol, outer)).or_insert_with(fresh);
        mapping.peers.insert(key.destination);
        mapping.until = now + self.settings.timeout;
        Some(outer)
    }

    /// Translates a leaving packet to its outside address.
    fn translate_leaving(
        &mut self,
        now: Time,
        packet: &mut Packet,
        (address, onward): (IpAddr, R),
    ) -> Option<()> {
        if let Body::Icmp(message) = &mut packet.body {
            // An ICMP error from an inside host about a packet that had come from outside.
            let quote = message.quote_mut()?;
            let quoted = quote.parse()?;
            let outer = self.outer(now, ((quoted.protocol, quoted.destination), address))?;
            *quote = quote.with_destination(outer)?;
            packet.source = address;
            return Some(());
        }
        let key = FlowKey::of(packet).filter(|key| key.protocol != protocol::SCTP)?;
        let outer = self.find_or_create_mapping(now, key, (address, onward))?;
        packet.source = outer.ip();
        set_port(packet, outer.port(), true);
        Some(())
    }

    /// Translates a packet that is addressed to the translator to its inside destination; returns its route.
    fn translate_entering(&mut self, now: Time, packet: &mut Packet) -> Option<R> {
        let alive = |mapping: &&Mapping<R>| mapping.until >= now;
        if let Body::Icmp(message) = &mut packet.body {
            let quote = message.quote_mut()?;
            let quoted = quote.parse()?;
            let mapping = self.by_outer.get(&(quoted.protocol, quoted.source)).filter(alive)?;
            *quote = quote.with_source(mapping.inner)?;
            packet.destination = mapping.inner.ip();
            return Some(mapping.onward);
        }
        let key = FlowKey::of(packet)?;
        let mapping = self.by_outer.get(&(key.protocol, key.destination)).filter(alive)?;
        if !mapping.peers.contains(&key.source) {
            return None;
        }
        let (inner, onward) = (mapping.inner, mapping.onward);
        packet.destination = inner.ip();
        set_port(packet, inner.port(), false);
        Some(onward)
    }
}

impl<R: Copy> Behaviour<R> for State<R> {
    fn pass(&mut self, now: Time, transit: Transit<R>, outcome: &mut Outcome<R>) {
        let Transit { mut packet, inside, crosses, leaves_from, onward, .. } = transit;
        match (inside, leaves_from) {
            // The packet's source and destination are on the same side: it is not translated.
            (_, Some(_)) if !crosses => outcome.send(packet, onward),
            (true, Some(address)) => match self.translate_leaving(now, &mut packet, (address, onward)) {
                Some(()) => {
                    outcome.changed += 1;
                    outcome.send(packet, onward);
                }
                None => outcome.drop(packet, onward),
            },
            (false, None) => match self.translate_entering(now, &mut packet) {
                Some(back) => {
                    outcome.changed += 1;
                    outcome.sent.push((packet, Onward::Back(back)));
                }
                None => outcome.drop(packet, onward),
            },
            // The packet is from outside to an inside address, or from inside to the translator itself.
            _ => outcome.drop(packet, onward),
        }
    }
}

/// Changes the source or destination port of a packet's transport.
fn set_port(packet: &mut Packet, port: u16, source: bool) {
    let place = match &mut packet.body {
        Body::Tcp(segment) if source => &mut segment.source_port,
        Body::Tcp(segment) => &mut segment.destination_port,
        Body::Udp(datagram) if source => &mut datagram.source_port,
        Body::Udp(datagram) => &mut datagram.destination_port,
        Body::Sctp(sctp) => match (&mut sctp.udp, source) {
            (Some(ports), true) => &mut ports.source,
            (Some(ports), false) => &mut ports.destination,
            (None, true) => &mut sctp.source_port,
            (None, false) => &mut sctp.destination_port,
        },
        Body::Icmp(_) => return,
    };
    *place = port;
}

#[cfg(test)]
mod tests;

//! A link with lookahead: it delivers frames ahead of time, while they still wait in the queue.

use crate::measure::digest::Digest;
use anabranch_base::rng::Rng;
use anabranch_base::time::Time;
use anabranch_netem::{Change, Dropped, FlowHash, Frame, Link, LinkModel};
use anabranch_wire::icmp::Quote;
use anabranch_wire::ip::protocol;
use anabranch_wire::{Body, Ecn, Packet};
use core::net::IpAddr;

/// Flags in `len_ecn`: packets are shorter than 2^28 bytes, so that their length does not use these bits.
const MAY_FRAGMENT: u32 = 1 << 31;
const HAS_DATA: u32 = 1 << 30;

/// The handle of a packet that a link carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRef {
    /// Handle of the packet.
    pub id: u32,
    /// Index of the packet's next hop.
    pub next: u32,
    /// The flow hash; zero if no queue uses it.
    pub flow: u32,
    /// Length of the IP packet in bytes times four, plus the ECN field, plus the flags [`MAY_FRAGMENT`] and [`HAS_DATA`].
    len_ecn: u32,
}

impl PacketRef {
    /// A handle of a packet of `len` bytes.
    #[inline]
    pub const fn new(id: u32, len: u32, ecn: Ecn) -> Self {
        Self { id, next: 0, flow: 0, len_ecn: len << 2 | ecn as u32 }
    }

    /// The handle of a packet with the properties that links read.
    #[inline]
    pub fn of(id: u32, packet: &Packet) -> Self {
        let mut frame = Self::new(id, packet.wire_len(), packet.ecn);
        frame.len_ecn |= u32::from(packet.may_fragment()) * MAY_FRAGMENT;
        frame.len_ecn |= u32::from(packet.has_data()) * HAS_DATA;
        frame
    }

    /// The handle for the next hop.
    #[inline]
    #[must_use]
    pub const fn onwards(mut self) -> Self {
        self.next += 1;
        self
    }

    /// The ECN field; a queue may have set it.
    #[inline]
    pub const fn ecn(self) -> Ecn {
        Ecn::from_bits(self.len_ecn as u8)
    }
}

impl Frame for PacketRef {
    #[inline]
    fn wire_len(&self) -> u32 {
        (self.len_ecn & !(MAY_FRAGMENT | HAS_DATA)) >> 2
    }

    #[inline]
    fn has_data(&self) -> bool {
        self.len_ecn & HAS_DATA != 0
    }

    #[inline]
    fn may_fragment(&self) -> bool {
        self.len_ecn & MAY_FRAGMENT != 0
    }

    #[inline]
    fn ecn_capable(&self) -> bool {
        self.ecn() != Ecn::NotEct
    }

    #[inline]
    fn mark(&mut self) {
        self.len_ecn |= Ecn::Ce as u32;
    }

    #[inline]
    fn flow(&self) -> u32 {
        self.flow
    }
}

/// The hash of a packet's flow: its addresses, protocol and ports.
pub fn flow_of(packet: &Packet) -> u32 {
    let (protocol, ports) = match &packet.body {
        Body::Tcp(segment) => (protocol::TCP, [segment.source_port, segment.destination_port]),
        Body::Udp(datagram) => (protocol::UDP, [datagram.source_port, datagram.destination_port]),
        Body::Sctp(sctp) => match sctp.udp {
            Some(ports) => (protocol::UDP, [ports.source, ports.destination]),
            None => (protocol::SCTP, [sctp.source_port, sctp.destination_port]),
        },
        Body::Icmp(_) => (protocol::ICMP, [0, 0]),
    };
    let mut hash = Digest::new();
    for address in [packet.source, packet.destination] {
        match address {
            IpAddr::V4(address) => hash.word(address.to_bits().into()),
            IpAddr::V6(address) => {
                let bits = address.to_bits();
                hash.word((bits >> 64) as u64);
                hash.word(bits as u64);
            }
        }
    }
    let [source, destination] = ports.map(u64::from);
    hash.word(u64::from(protocol) << 32 | source << 16 | destination);
    (hash.value() >> 32) as u32
}

/// The hash of a packet's flow by which routers choose among equally short paths. An error has that of the packet
/// that it quotes.
pub fn route_hash(packet: &Packet) -> FlowHash {
    let addresses = [packet.source, packet.destination];
    let (transport, ports) = match &packet.body {
        Body::Tcp(segment) => (protocol::TCP, Some([segment.source_port, segment.destination_port])),
        Body::Udp(datagram) => (protocol::UDP, Some([datagram.source_port, datagram.destination_port])),
        Body::Sctp(sctp) => match sctp.udp {
            Some(ports) => (protocol::UDP, Some([ports.source, ports.destination])),
            None => (protocol::SCTP, Some([sctp.source_port, sctp.destination_port])),
        },
        Body::Icmp(message) => {
            if let Some(quoted) = message.quote().and_then(Quote::parse) {
                let ports = [quoted.source.port(), quoted.destination.port()];
                let addresses = [quoted.source.ip(), quoted.destination.ip()];
                return FlowHash::new(addresses, quoted.protocol, Some(ports));
            }
            let is_ipv4 = packet.source.is_ipv4();
            (if is_ipv4 { protocol::ICMP } else { protocol::ICMPV6 }, None)
        }
    };
    FlowHash::new(addresses, transport, ports)
}

/// One direction of a link: two cache lines, and further data behind a pointer.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct LookaheadLink {
    link: Link<PacketRef>,
    /// Time at which the last frame taken ahead leaves, rounded up to a nanosecond, and the fraction of a
    /// nanosecond by which that is too late.
    reserved: Time,
    early: u16,
    /// Number of frames in the queue, from the first on, that were taken ahead.
    ahead: u32,
}

const _: () = assert!(size_of::<LookaheadLink>() <= 128, "a link has outgrown two cache lines");

impl LookaheadLink {
    /// A direction of a link. Its random draws come from streams forked off `rng`.
    pub fn new(model: &LinkModel, rng: &Rng) -> Self {
        Self { link: Link::new(model, rng), reserved: Time::ZERO, early: 0, ahead: 0 }
    }

    /// Processes all departures until `now`, and returns the link for reading.
    pub fn at(&mut self, now: Time) -> &mut Link<PacketRef> {
        self.advance(now);
        &mut self.link
    }

    /// Offers a frame to the link.
    #[expect(clippy::inline_always, reason = "it only adds the count of frames taken ahead")]
    #[inline(always)]
    pub fn offer(&mut self, now: Time, frame: PacketRef) {
        self.link.offer_beyond(now, frame, &mut self.ahead);
    }

    /// Processes the departures that are due. No frame may be offered for an earlier time afterwards.
    #[inline]
    pub fn advance(&mut self, now: Time) {
        self.link.advance_beyond(now, &mut self.ahead);
    }

    /// The time of the next event that [`take`](Self::take) has to process.
    #[inline]
    pub fn next_event(&self) -> Option<Time> {
        if self.ahead == 0 {
            return self.link.next_event();
        }
        let first = self.link.first_arrival();
        if first.is_some() || self.link.waiting() == self.ahead {
            return first;
        }
        Some(self.reserved + self.link.delay())
    }

    /// The next frame that has arrived at the other end, if any.
    #[inline]
    pub fn take(&mut self, now: Time) -> Option<PacketRef> {
        self.advance(now);
        self.link.take(now)
    }

    /// The next frame that has left the queue and arrives before `limit`, and its time of arrival.
    #[inline]
    pub fn take_before(&mut self, limit: Time) -> Option<(Time, PacketRef)> {
        self.link.take_before(limit)
    }

    /// The next frame whose arrival is certain and before `limit`, and its time of arrival; the frame may
    /// still be in the queue.
    #[inline]
    pub fn take_ahead(&mut self, limit: Time) -> Option<(Time, PacketRef)> {
        if self.link.first_arrival().is_some() {
            return self.link.take_before(limit);
        }
        if self.link.waiting() == self.ahead {
            return None;
        }
        let frame = *self.link.certain(self.ahead as usize)?;
        let free = if self.ahead > 0 { (self.reserved, self.early) } else { self.link.free() };
        let (end, early) = self.link.transmitted(free, frame.wire_len());
        let arrival = self.link.last_arrival().max(end + self.link.delay());
        if arrival >= limit {
            return None;
        }
        self.ahead += 1;
        (self.reserved, self.early) = (end, early);
        Some((arrival, frame))
    }

    /// The lower bound on the arrival of a frame that has not left the queue, or is offered at `offered` or
    /// later.
    #[inline]
    pub fn lower_bound(&self, offered: Time) -> Time {
        offered.max(self.free()) + self.link.delay()
    }

    /// Time at which the transmitter has sent its current frame and those taken ahead.
    #[inline]
    fn free(&self) -> Time {
        if self.ahead > 0 { self.reserved } else { self.link.busy_until() }
    }

    /// The earliest arrival of the frames that have left the queue.
    #[inline]
    pub fn first_arrival(&self) -> Option<Time> {
        self.link.first_arrival()
    }

    /// True if frames arrive in the order in which they leave the queue.
    pub fn keeps_order(&self) -> bool {
        self.link.keeps_order()
    }

    /// Returns true if the link is up.
    pub const fn is_up(&self) -> bool {
        self.link.is_up()
    }

    /// True if its queue uses the flow hash of frames.
    pub fn needs_flow_hash(&self) -> bool {
        self.link.needs_flow_hash()
    }

    /// The largest IP packet it carries, bytes.
    pub fn mtu(&self) -> u32 {
        self.link.mtu()
    }

    /// Returns true if the next frame enters the queue twice. Then the caller offers a copy directly after it.
    #[inline]
    pub fn duplicates_next(&mut self) -> bool {
        self.link.duplicates_next()
    }

    /// Frames dropped since the last call; the caller removes their packets from the pool.
    #[inline]
    pub fn take_dropped(&mut self) -> Option<Vec<Dropped<PacketRef>>> {
        self.link.take_dropped()
    }

    /// Calls `visit` for every frame on the link.
    pub fn visit(&mut self, mut visit: impl FnMut(&mut PacketRef)) {
        self.link.visit(|_, frame| visit(frame));
    }

    /// Applies a change that the scenario contains.
    ///
    /// # Panics
    ///
    /// If a frame was taken ahead that would leave the queue after the change.
    pub fn change(&mut self, now: Time, change: &Change) {
        self.advance(now);
        assert!(self.ahead == 0, "a frame was taken ahead beyond a change at {now:?}");
        self.link.change(now, change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;
    use anabranch_base::units::Rate;
    use anabranch_netem::loss::bernoulli::Bernoulli;
    use anabranch_netem::queue::{self, QueueLimit, red};
    use anabranch_netem::{Totals, loss};
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    /// A link of 12 Mbit/s (1500 bytes take 1 ms) with a delay of 5 ms and a queue of three packets.
    fn model() -> LinkModel {
        presets::wire(12, 5, 3)
    }

    fn link(model: &LinkModel) -> LookaheadLink {
        LookaheadLink::new(model, &Rng::new(1))
    }

    fn frame(id: u32, len: u32) -> PacketRef {
        PacketRef::new(id, len, Ecn::Ect0)
    }

    fn us(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    /// Runs the link until it is empty; returns arrivals and their times.
    fn drain(link: &mut LookaheadLink) -> Vec<(Time, u32)> {
        let mut arrived = Vec::new();
        while let Some(now) = link.next_event() {
            if let Some(frame) = link.take(now) {
                arrived.push((now, frame.id));
            }
        }
        arrived
    }

    #[test]
    fn packet_handle_has_length_and_ecn_field() {
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            let mut frame = PacketRef::new(3, 65_575, ecn);
            assert_eq!((frame.wire_len(), frame.ecn()), (65_575, ecn));
            assert_eq!(frame.ecn_capable(), ecn != Ecn::NotEct);
            frame.mark();
            assert_eq!((frame.wire_len(), frame.ecn()), (65_575, Ecn::Ce));
            assert!(!frame.may_fragment() && !frame.has_data());
            frame.len_ecn |= MAY_FRAGMENT | HAS_DATA;
            assert_eq!((frame.wire_len(), frame.ecn()), (65_575, Ecn::Ce));
            assert!(frame.may_fragment() && frame.has_data());
        }
    }

    #[test]
    fn certain_frames_are_taken_ahead() {
        let mut link = link(&model());
        for id in 0..4 {
            link.offer(us(0), frame(id, 1500));
        }
        // One frame is being transmitted, and three wait. No frame that arrives after the limit is taken.
        let mut taken = || link.take_ahead(us(8000)).map(|(at, frame)| (at, frame.id));
        assert_eq!([taken(), taken(), taken()], [Some((us(6000), 0)), Some((us(7000), 1)), None]);
        // The taken frames still occupy the queue, which is full until the first has left.
        assert_eq!(link.at(us(500)).queued(us(500)), (3, 4500));
        link.offer(us(500), frame(4, 1500));
        assert_eq!(link.take_dropped().map(|dropped| dropped[0].frame.id), Some(4));
        link.offer(us(1500), frame(5, 1500));
        assert_eq!(drain(&mut link), [(us(8000), 2), (us(9000), 3), (us(10_000), 5)]);
        assert_eq!(link.at(us(10_000)).totals(us(10_000)).packets, 5);
    }

    /// Log of frames: time, identifier, and the cause of a drop.
    type Log = Vec<(Time, u32, Option<anabranch_netem::DropCause>)>;

    /// The log of frames that are offered with these gaps in microseconds and these lengths. The third number may
    /// select a change of the link. Run with or without lookahead.
    fn run(model: &LinkModel, offers: &[(u64, u32, u8)], ahead: bool) -> (Log, Totals) {
        let mut link = link(model);
        let times: Vec<u64> =
            offers.iter().scan(0, |at, offer| Some(*at + offer.0).inspect(|t| *at = *t)).collect();
        let change_after = |id: usize| {
            let next = (id + 1..offers.len()).find(|&later| offers[later].2 <= 3);
            next.map_or(Time::MAX, |later| us(times[later]))
        };
        let mut log = Vec::new();
        for (id, &(_, len, change)) in offers.iter().enumerate() {
            let at = us(times[id]);
            while let Some(next) = link.next_event().filter(|&next| next < at) {
                log.extend(link.take(next).map(|frame| (next, frame.id, None)));
            }
            match change {
                0 => link.change(at, &Change::State { up: false }),
                1 => link.change(at, &Change::State { up: true }),
                2 => link.change(at, &Change::Rate(Rate::from_bits_per_second(u64::from(len) * 10_000))),
                3 => link.change(at, &Change::Rate(Rate::from_bits_per_second(0))),
                _ => {}
            }
            link.offer(at, frame(id as u32, len));
            while let Some((at, frame)) = ahead.then(|| link.take_ahead(change_after(id))).flatten() {
                log.push((at, frame.id, None));
            }
        }
        log.extend(drain(&mut link).into_iter().map(|(at, id)| (at, id, None)));
        let dropped = link.take_dropped().unwrap_or_default();
        log.extend(dropped.into_iter().map(|dropped| (dropped.at, dropped.frame.id, Some(dropped.cause))));
        log.sort_unstable();
        let end = us(10_000_000);
        (log, link.at(end).totals(end))
    }

    proptest! {
        /// For any offers, taking frames ahead does not change the arrivals and drops.
        #[test]
        fn taking_ahead_does_not_change_arrivals(
            offers in prop::collection::vec((0_u64..3000, 40_u32..1600, 0_u8..8), 1..120),
            red in any::<bool>(),
            lossy in any::<bool>(),
        ) {
            let mut model = model();
            if red {
                let limit = QueueLimit::Packets(5);
                let red = red::Settings { limit, min: 0.5, max: 4.0, max_p: 0.5, weight: 0.2, gentle: false, ecn: true };
                model.queue = queue::Settings::Red(red);
            }
            if lossy {
                model.loss = loss::Settings::Bernoulli(Bernoulli { rate: 0.3 });
            }
            prop_assert_eq!(run(&model, &offers, true), run(&model, &offers, false));
        }
    }
}

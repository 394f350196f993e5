//! Opening a connection over other pairs of addresses: multipath SYN retransmission (Becke2014 §5.1.2.1).
//!
//! The requested pair of addresses may not connect the hosts: for an application that binds no address, the kernel
//! takes the source address from the main routing table. An unanswered SYN is therefore repeated over the next pair.
//! There is one attempt at a time. A late answer for an earlier pair is reset, so that the other end keeps no
//! half-open connection.

use super::SynRetransmission;
use super::connection::{Connection, ConnectionPhase, Role};
use super::subflow::{Confirmation, Handshake, Subflow};
use crate::tcp::{Numbers, Route, Tcb};
use anabranch_base::time::Time;
use anabranch_endpoint::Address;
use anabranch_multipath::PathId;
use anabranch_multipath::path_manager::Pair;
use anabranch_multipath::rtt::RtoBounds;
use core::net::{IpAddr, SocketAddr};

impl Connection {
    /// Sets the pairs of addresses on which earlier connections of the host were established, the latest first. A
    /// repeated SYN uses them before other pairs. Call it before [`connect`](anabranch_endpoint::Endpoint::connect).
    pub fn prefer(&mut self, worked: &[(IpAddr, IpAddr)]) {
        self.opening.prefer(worked);
        self.opening.keep(self.config.syn_pairs);
    }

    /// The pair of addresses of the initial subflow at the connecting end, if the connection could have used another
    /// pair.
    pub fn opened_on(&self) -> Option<(IpAddr, IpAddr)> {
        let asked = self.config.syn_retransmission == SynRetransmission::Multipath;
        (asked && self.role == Role::Client).then(|| (self.locals[0].address.ip, self.remote.ip()))
    }

    /// Ends the attempt of an initial subflow whose SYN has timed out, if there is another pair; the SYN over that
    /// pair waits for a port. Returns false if the subflow continues by itself, or all pairs have been tried.
    pub(super) fn try_next_pair(&mut self, now: Time, index: usize) -> bool {
        self.has_pairs_to_try(index)
            && self.subflows[0].block.syn_is_unanswered(now)
            && self.leave_pair(|block| block.counters_mut().timeouts += 1)
    }

    /// Tries the next pair at once after a router has reported that the SYN of the initial subflow did not reach the
    /// peer. The report ends no connection (RFC 5461 §4). The last pair of a round waits for its timeout, because the
    /// next round would get the same reports at once.
    pub(super) fn try_next_pair_at_once(&mut self, index: usize) -> bool {
        let pairs = self.opening.pairs.len() as u32;
        self.has_pairs_to_try(index)
            && self.subflows[0].block.syn_is_unreachable()
            && !(self.opening.unanswered + 1).is_multiple_of(pairs)
            && self.leave_pair(|_| {})
    }

    fn has_pairs_to_try(&self, index: usize) -> bool {
        let asked = self.config.syn_retransmission == SynRetransmission::Multipath;
        let opening = self.role == Role::Client && self.phase == ConnectionPhase::Opening && index == 0;
        asked && opening && self.opening.pairs.len() > 1
    }

    /// Ends an attempt, after which the next SYN waits for a port. Returns false if there is no attempt to end.
    fn leave_pair(&mut self, count: impl FnOnce(&mut Tcb)) -> bool {
        self.opening.unanswered += 1;
        let most = self.config.tcp.syn_retries.max(self.opening.pairs.len() as u32 - 1);
        if self.opening.unanswered > most {
            return false;
        }
        let block = &mut self.subflows[0].block;
        count(block);
        block.suspend();
        self.opening.needs_port = true;
        true
    }

    /// Local and remote address of the SYN that waits for a port.
    pub(super) fn opening_ends(&self) -> Option<(IpAddr, SocketAddr)> {
        let (from, to) = self.opening.next().filter(|_| self.opening.needs_port)?;
        Some((from, SocketAddr::new(to, self.remote.port())))
    }

    /// Gives the waiting SYN its port. Without a port no attempt is left.
    pub(super) fn begin_on(&mut self, now: Time, port: Option<u16>) {
        let Some((from, remote)) = self.opening_ends() else { return };
        self.opening.needs_port = false;
        let Some(port) = port else { return };
        // No identifiers have been announced yet: the local address of this pair gets identifier 0.
        let at = self.locals.iter().position(|local| local.address.ip == from).unwrap_or_default();
        self.locals.swap(0, at);
        (self.remote, self.remotes[0].at) = (remote, remote);
        let Address { ip, mtu, backup } = self.locals[0].address;
        let local = SocketAddr::new(ip, port);
        let config = self.config.tcp.clone();
        // The timeout of each pair is that of a first SYN, doubled from round to round (RFC 6298 §5.5).
        let initial = config.rto.initial.saturating_mul(1 << self.opening.rounds().min(16));
        let rto = RtoBounds { initial: initial.min(config.rto.max), ..config.rto };
        // The connection repeats the SYN, so the block does not.
        let config = config.rto(rto).syn_retries(0);
        let mut block = Tcb::client(config, Route { local, remote, path: PathId(0), mtu });
        block.begin(Numbers::new(&self.secrets, now, (local, remote)));
        let handshake = Handshake::Capable(Confirmation::Awaited);
        let mut subflow = Subflow::new(block, Pair::default(), handshake, backup);
        subflow.make_room(&mut *self.congestion, self.receive.long);
        *subflow.block.counters_mut() = *self.subflows[0].block.counters();
        self.subflows[0] = subflow;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{A, B, Setup, extra, tcp as segment_of};
    use super::*;
    use anabranch_base::time::Duration;
    use anabranch_endpoint::endpoint::{Endpoint, Event, NetworkEvent, Quote, Reason, Unreachable};
    use anabranch_testkit::harness::{Pair as Wired, Wire};
    use anabranch_wire::tcp::Flags;

    fn setup(syn_retransmission: SynRetransmission) -> Setup {
        Setup { syn_retransmission, ..Setup::default() }
    }

    /// A pair of ends where only the second local address reaches the requested destination.
    fn reachable_from_second_address(syn_retransmission: SynRetransmission, wire: Wire) -> Wired<Connection> {
        let (client, server) = setup(syn_retransmission).ends();
        Wired::new(client, server, &[(A[1], B[0], wire)], 1)
    }

    /// Time and source of each initial SYN, and whether it contains `MP_CAPABLE`.
    fn syns(pair: &Wired<Connection>) -> Vec<(f64, IpAddr, bool)> {
        let syn = |packet: &anabranch_wire::Packet| segment_of(packet).flags == Flags::SYN;
        let sent = pair.log.iter().filter(|(_, end, packet)| *end == 0 && syn(packet));
        sent.map(|(at, _, packet)| {
            let offers = !segment_of(packet).options.mptcp.others.is_empty();
            (at.as_secs_f64(), packet.source, offers)
        })
        .collect()
    }

    #[test]
    fn unanswered_syn_uses_next_pair_after_one_second() {
        let mut pair = reachable_from_second_address(SynRetransmission::Multipath, Wire::new(10));
        pair.run_until(1.022);
        assert!(!pair.sinks[0].events.contains(&Event::Connected));
        pair.run_until(1.023);
        assert_eq!(syns(&pair), [(0.0, A[0], true), (1.0, A[1], true)]);
        assert!(
            pair.sinks[0].events.contains(&Event::Connected),
            "SYN/ACK at 1.0224 s: twice 10 ms and 1.2 ms"
        );
        assert!(pair.send_file(100_000, 5.0));
        assert!(!pair.ends[0].is_fallback());
        let report = pair.ends[0].report();
        assert_eq!((report.paths[0].local.ip(), report.paths[0].counters.timeouts), (A[1], 1));
    }

    #[test]
    fn unreachable_pair_is_skipped_at_once() {
        let mut pair = reachable_from_second_address(SynRetransmission::Multipath, Wire::new(10));
        pair.run_until(0.1);
        let refuse = |pair: &mut Wired<Connection>| {
            let (_, _, packet) = pair.log.iter().rfind(|(_, end, _)| *end == 0).expect("a SYN").clone();
            let segment = segment_of(&packet);
            let quote = Quote {
                local: SocketAddr::new(packet.source, segment.source_port),
                remote: SocketAddr::new(packet.destination, segment.destination_port),
                number: segment.seq.0,
                initiate_tag: None,
            };
            let now = pair.now;
            pair.ends[0].handle_network(now, NetworkEvent::Unreachable { quote, what: Unreachable::Host });
        };
        refuse(&mut pair);
        pair.run_until(0.2);
        assert_eq!(
            syns(&pair).iter().take(2).map(|syn| (syn.0, syn.1)).collect::<Vec<_>>(),
            [(0.0, A[0]), (0.1, A[1])]
        );
        assert!(pair.sinks[0].events.contains(&Event::Connected));
        // The last pair of a round waits for its timeout, even if a router reports it as unreachable.
        let mut pair =
            reachable_from_second_address(SynRetransmission::Multipath, Wire { up: false, ..Wire::new(10) });
        for at in [0.1, 0.2, 1.2, 1.3] {
            pair.run_until(at);
            refuse(&mut pair);
        }
        pair.run_until(4.0);
        let times: Vec<_> = syns(&pair).iter().map(|syn| (syn.0, syn.1)).collect();
        assert_eq!(times, [(0.0, A[0]), (0.1, A[1]), (1.1, A[0]), (1.2, A[1]), (3.2, A[0])]);
    }

    #[test]
    fn default_syn_retransmissions_stay_on_one_pair() {
        let mut pair = reachable_from_second_address(SynRetransmission::Single, Wire::new(10));
        pair.run_until(200.0);
        let single = syns(&pair);
        assert!(single.iter().all(|(_, from, _)| *from == A[0]), "{single:?}");
        assert_eq!(
            single.iter().map(|syn| syn.0).collect::<Vec<_>>(),
            [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0]
        );
        assert_eq!(pair.sinks[0].events, [Event::Closed(Reason::TimedOut)]);
    }

    #[test]
    fn failure_is_reported_after_the_sum_of_all_timeouts() {
        let mut pair =
            reachable_from_second_address(SynRetransmission::Multipath, Wire { up: false, ..Wire::new(10) });
        pair.run_until(21.999);
        // Two pairs in each round of 1, 2 and 4 s, and one attempt of 8 s: 22 s. From the third round on, SYNs are
        // plain TCP.
        let times = [0.0, 1.0, 2.0, 4.0, 6.0, 10.0, 14.0];
        let expected: Vec<_> = (times.iter().enumerate()).map(|(i, &at)| (at, A[i % 2], i < 4)).collect();
        assert_eq!(syns(&pair), expected);
        assert!(pair.sinks[0].events.is_empty());
        pair.run_until(22.001);
        assert_eq!(pair.sinks[0].events, [Event::Closed(Reason::TimedOut)]);
        assert_eq!(pair.ends[0].next_timeout(), None);
    }

    #[test]
    fn late_answer_is_reset_and_next_round_waits_longer() {
        // A round trip of 1.5 s exceeds the timeout of the first round, and not that of the second.
        let late = Wire { delay: Duration::from_millis(750), ..Wire::new(10) };
        let (client, server) = setup(SynRetransmission::Multipath).ends();
        let mut pair = Wired::new(client, server, &[(A[0], B[0], late.clone()), (A[1], B[0], late)], 1);
        pair.run_until(20.0);
        let resets =
            pair.sent(0, |packet| segment_of(packet).flags.contains(Flags::RST).then_some(packet.source));
        assert!(resets.contains(&A[0]), "{resets:?}");
        assert_eq!(syns(&pair)[2], (2.0, A[0], true));
    }

    #[test]
    fn address_skipped_by_the_syn_joins_later() {
        let mut pair = reachable_from_second_address(SynRetransmission::Multipath, Wire::new(10));
        pair.wires.insert((A[0], B[1]), Wire::new(10));
        pair.wires.insert((B[1], A[0]), Wire::new(10));
        pair.run_until(5.0);
        assert_eq!(extra(&pair, 0, "joins"), 1, "{:?}", pair.ends[0].report().paths);
    }
}

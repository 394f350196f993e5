//! Adversarial peers and off-path attackers. For any arriving segments the connection does not panic, its memory stays
//! bounded, and it accepts nothing without validation.

use super::Config;
use super::connection::Connection;
use super::keys::address_hmac;
use super::reset::ResetReason;
use super::subflow::Subflow;
use crate::tcp;
use anabranch_base::time::Duration;
use anabranch_endpoint::endpoint::{Endpoint, Event, NetworkEvent, Reason, Write};
use anabranch_endpoint::{Address, Ends, Secrets};
use anabranch_multipath::congestion::Choice;
use anabranch_multipath::scheduler;
use anabranch_settings::policy::Penalisation;
use anabranch_testkit::harness::{Pair, Wire};
use anabranch_wire::tcp::mptcp::{AddAddress, Control, DataNumber, Dss, Join, Mapping};
use anabranch_wire::tcp::{Flags, Segment};
use anabranch_wire::{Body, Packet, Payload};
use core::net::{IpAddr, Ipv4Addr};

const A: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 2, 0, 1))];
const B: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::new(10, 1, 0, 2)), IpAddr::V4(Ipv4Addr::new(10, 2, 0, 2))];

/// Two hosts with two disjoint paths.
fn beginning(receive_buffer: u64, backup: bool) -> Pair<Connection> {
    let congestion = Choice::find("lia").expect("lia is in the table");
    let config = Config::default()
        .tcp(tcp::Config::default().congestion(congestion).receive_buffer(receive_buffer))
        .scheduler(scheduler::find("lowest-rtt").expect("lowest-rtt is in the table"))
        .path_manager(anabranch_multipath::path_manager::parse("disjoint").expect("disjoint is in the table"))
        .opportunistic_retransmission(false)
        .penalisation(Penalisation::Never)
        .mechanisms_in_start_up(true)
        .checksum(false);
    let addresses = |ips: &[IpAddr], backup: bool| {
        ips.iter().map(|&ip| Address { ip, mtu: 1500, backup: backup && ip == ips[0] }).collect()
    };
    let local = addresses(&A, backup);
    let client = Ends { local, local_port: 40_000, remote: vec![B[0]], remote_port: 5001 };
    let client = Connection::connecting(config.clone(), &client, Secrets::new([1; 32]));
    let server = Ends::listening(addresses(&B, false), 5001);
    let server = Connection::listening(config, &server, Secrets::new([2; 32]));
    let wires = [(A[0], B[0], Wire::new(10)), (A[1], B[1], Wire::new(10))];
    Pair::new(client, server, &wires, 1)
}

/// Two hosts with two disjoint paths, after half a second in which the client sent `bytes` bytes.
fn pair(receive_buffer: u64, backup: bool, bytes: u64) -> Pair<Connection> {
    let mut pair = beginning(receive_buffer, backup);
    pair.run_until(0.1);
    pair.ends[0].write(pair.now, Write::bytes(bytes));
    pair.run_until(0.5);
    pair
}

fn tcp(packet: &mut Packet) -> &mut Segment {
    match &mut packet.body {
        Body::Tcp(segment) => segment,
        other => panic!("not TCP: {other:?}"),
    }
}

/// The client's last packet on its first path.
fn last(pair: &Pair<Connection>) -> Packet {
    let from = |(_, end, packet): &&(_, usize, Packet)| *end == 0 && packet.source == A[0];
    pair.log.iter().rev().find(from).expect("a packet").2.clone()
}

/// Delivers a segment without data to the server. The segment follows the client's last packet, altered by `change`.
fn forge(pair: &mut Pair<Connection>, change: impl FnOnce(&mut Segment)) {
    let mut packet = last(pair);
    let segment = tcp(&mut packet);
    segment.seq = segment.seq.add(segment.payload.len);
    segment.payload = Payload::new(0, 0);
    change(segment);
    pair.ends[1].handle_packet(pair.now, packet, &anabranch_wire::Pattern);
}

/// True if the connection still transfers data.
fn works(mut pair: Pair<Connection>) -> bool {
    let before = pair.sinks[1].delivered;
    pair.ends[0].write(pair.now, Write::bytes(50_000));
    pair.run_until(pair.now.as_secs_f64() + 5.0);
    pair.sinks[1].delivered == before + 50_000
}

fn mapping(dsn: u64, subflow_seq: u32, len: u16) -> Dss {
    let mapping = Mapping { dsn: DataNumber::Long(dsn), subflow_seq, len, checksum: None };
    Dss { data_ack: None, mapping: Some(mapping), data_fin: false }
}

#[test]
fn options_of_out_of_window_segment_are_ignored() {
    let mappings = [
        (None, Control::RemoveAddress(vec![0, 1])),
        (None, Control::Fail { dsn: 7 }),
        (None, Control::Priority { backup: true }),
        (Some(mapping(0, 0, 0)), Control::Fail { dsn: 7 }),
    ];
    for (dss, control) in mappings {
        let mut pair = pair(100_000, false, 10_000);
        forge(&mut pair, |segment| {
            segment.seq = segment.seq.add(1 << 30);
            segment.options.mptcp.dss = dss;
            segment.options.mptcp.others = vec![control.clone()];
        });
        let report = pair.ends[1].report();
        assert!(report.paths.iter().all(|path| path.usable && !path.backup), "{control:?}");
        assert!(!report.fallback, "{control:?}");
        assert!(works(pair));
    }
}

/// A peer that has given up a join answers a late SYN/ACK with an RST, as for an unknown connection (RFC 9293
/// §3.5.2). That RST must not end the connection, even if no other path is up and this path has carried data before.
#[test]
fn join_closed_by_peer_does_not_end_connection() {
    let mut pair = pair(100_000, false, 100_000);
    let server =
        |pair: &Pair<Connection>| pair.ends[1].subflows.iter().map(Subflow::has_worked).collect::<Vec<_>>();
    assert_eq!(server(&pair), [true, true]);
    let joins = |packet: &&Packet| {
        let Body::Tcp(segment) = &packet.body else { return false };
        segment.flags == Flags::SYN && packet.source == A[1]
    };
    let mut syn =
        pair.log.iter().map(|(_, _, packet)| packet).find(joins).expect("the second path was joined").clone();
    for source in A {
        let from = |(_, end, packet): &&(_, usize, Packet)| *end == 0 && packet.source == source;
        let mut packet = pair.log.iter().rev().find(from).expect("a packet").2.clone();
        let segment = tcp(&mut packet);
        segment.seq = segment.seq.add(segment.payload.len);
        (segment.payload, segment.flags) = (Payload::new(0, 0), Flags::RST);
        segment.options.mptcp.dss = None;
        segment.options.mptcp.others = vec![ResetReason::Unspecified.option(true)];
        pair.ends[1].handle_packet(pair.now, packet, &anabranch_wire::Pattern);
    }
    assert!(pair.ends[1].subflows.iter().all(Subflow::is_dead));
    tcp(&mut syn).source_port = 50_000;
    pair.ends[1].handle_packet(pair.now, syn.clone(), &anabranch_wire::Pattern);
    assert!(pair.ends[1].subflows.iter().any(|subflow| !subflow.is_dead()), "a new subflow is being joined");
    let segment = tcp(&mut syn);
    (segment.flags, segment.seq) = (Flags::RST, segment.seq.add(1));
    segment.options = anabranch_wire::tcp::Options::default();
    pair.ends[1].handle_packet(pair.now, syn, &anabranch_wire::Pattern);
    assert!(pair.ends[1].subflows.iter().all(Subflow::is_dead));
    assert!(!pair.ends[1].is_closed(), "a path may return");
}

#[test]
fn join_flood_opens_a_limited_number_of_subflows() {
    let mut pair = pair(100_000, false, 10_000);
    let syn = pair.log.iter().map(|(_, _, packet)| packet.clone()).find(|packet| {
        let Body::Tcp(segment) = &packet.body else { return false };
        segment.flags == Flags::SYN
            && segment.options.mptcp.others.iter().any(|option| matches!(option, Control::Join(_)))
    });
    let syn = syn.expect("the second path was joined");
    for number in 0..2000_u16 {
        let mut packet = syn.clone();
        let segment = tcp(&mut packet);
        segment.source_port = 1000 + number;
        if let Control::Join(Join::Syn { address_id, .. }) = &mut segment.options.mptcp.others[0] {
            *address_id = number as u8;
        }
        pair.ends[1].handle_packet(pair.now, packet, &anabranch_wire::Pattern);
        while pair.ends[1].poll_transmit(pair.now).is_some() {}
    }
    assert!(
        pair.ends[1].report().paths.len() <= anabranch_multipath::MAX_PATHS,
        "{}",
        pair.ends[1].report().paths.len()
    );
    assert!(works(pair));
}

#[test]
fn mappings_outside_the_window_are_ignored() {
    let first = pair(100_000, false, 10_000).ends[0].keys.local.idsn.wrapping_add(1);
    for dsn in [first.wrapping_sub(1), first.wrapping_sub(20_000), first.wrapping_add(1 << 40), u64::MAX, 0] {
        for data_fin in [false, true] {
            let mut pair = pair(100_000, false, 10_000);
            let taken = pair.ends[1].subflows[0].mappings.taken as u32;
            forge(&mut pair, |segment| {
                segment.payload = Payload::new(0, 1000);
                segment.options.mptcp.dss = Some(Dss { data_fin, ..mapping(dsn, taken + 1, 1000) });
            });
            pair.settle();
            assert_eq!((pair.sinks[1].delivered, pair.sinks[1].finished), (10_000, false), "{dsn}");
        }
    }
}

#[test]
fn mapping_before_first_subflow_byte_is_ignored() {
    let mut pair = pair(100_000, false, 0);
    let first = pair.ends[0].keys.local.idsn.wrapping_add(1);
    forge(&mut pair, |segment| {
        segment.payload = Payload::new(0, 1000);
        segment.options.mptcp.others.clear();
        segment.options.mptcp.dss = Some(mapping(first, 0, 1400));
    });
    pair.settle();
    assert_eq!(pair.sinks[1].delivered, 0);
}

#[test]
fn second_data_fin_is_ignored() {
    let mut pair = pair(100_000, false, 10_000);
    let first = pair.ends[0].keys.local.idsn.wrapping_add(1);
    for (offset, fin) in
        [(5000, None), (20_000, Some(20_000)), (15_000, Some(20_000)), (30_000, Some(20_000))]
    {
        forge(&mut pair, |segment| {
            segment.options.mptcp.dss = Some(Dss { data_fin: true, ..mapping(first + offset, 0, 1) });
        });
        assert_eq!(pair.ends[1].receive.fin, fin);
    }
}

#[test]
fn acknowledgements_of_unsent_data_are_ignored() {
    let mut pair = pair(100_000, false, 10_000);
    let mut answer = pair.log.iter().rev().find(|(_, end, _)| *end == 1).expect("a packet").2.clone();
    let sent = pair.ends[0].keys.local.idsn.wrapping_add(1 + 10_000);
    for number in [sent.wrapping_add(1), sent.wrapping_add(1 << 31), sent.wrapping_add(1 << 50)] {
        tcp(&mut answer).options.mptcp.dss =
            Some(Dss { data_ack: Some(DataNumber::Long(number)), mapping: None, data_fin: false });
        pair.ends[0].handle_packet(pair.now, answer.clone(), &anabranch_wire::Pattern);
        assert_eq!(pair.ends[0].send.una, 10_000);
    }
}

#[test]
fn announcements_take_bounded_memory() {
    let mut pair = pair(100_000, false, 10_000);
    let (server, client) = (pair.ends[1].keys.local, pair.ends[0].keys.local);
    let mut packet = pair.log.iter().rev().find(|(_, end, _)| *end == 1).expect("a packet").2.clone();
    for number in 0..10_000_u32 {
        let (id, address) = (number as u8, IpAddr::V4(Ipv4Addr::from(0x0a03_0000 + number)));
        let hmac = Some(address_hmac(&server, &client, (id, address, None)));
        let add = AddAddress { address_id: id, address, port: None, hmac };
        tcp(&mut packet).options.mptcp.others = vec![Control::AddAddress(add)];
        pair.ends[0].handle_packet(pair.now, packet.clone(), &anabranch_wire::Pattern);
    }
    let client = &pair.ends[0];
    assert!(client.control.len() <= 64 && client.remotes.len() <= 257, "{}", client.control.len());
    assert!(client.subflows.len() <= 256);
}

#[test]
fn one_byte_mappings_take_bounded_memory() {
    let mut pair = pair(10_000, false, 1000);
    let first = pair.ends[0].keys.local.idsn.wrapping_add(1);
    let taken = pair.ends[1].subflows[0].mappings.taken as u32;
    for number in 1..100_000_u32 {
        forge(&mut pair, |segment| {
            segment.seq = segment.seq.add(2 * number);
            segment.payload = Payload::new(0, 1);
            let dss = mapping(first + 1000 + u64::from(number % 5000), taken + 1 + 2 * number, 1);
            segment.options.mptcp.dss = Some(dss);
        });
    }
    let subflow = &pair.ends[1].subflows[0];
    assert!(subflow.mappings.count() <= 1024, "{}", subflow.mappings.count());
    assert!(subflow.block.out_of_order() <= 4 * 10_000 + (1 << 16), "{}", subflow.block.out_of_order());
}

#[test]
fn subflow_without_a_port_is_tried_again_later() {
    let mut pair = beginning(100_000, false);
    pair.next_port[0] = u16::MAX; // no port is left
    pair.run_until(1.0);
    assert_eq!(pair.ends[0].report().paths.len(), 1);
    pair.next_port[0] = 50_000;
    pair.run_until(40.0);
    let paths = pair.ends[0].report().paths;
    assert!(paths.len() == 2 && paths[1].usable && paths[1].local.port() == 50_000, "{paths:?}");
}

#[test]
fn data_timer_has_an_upper_bound() {
    let mut pair = pair(100_000, false, 10_000);
    pair.ends[0].data_backoff = 6;
    pair.wires.values_mut().for_each(|wire| wire.up = false);
    pair.ends[0].write(pair.now, Write::bytes(100_000));
    pair.run_until(60.0);
    assert!(pair.ends[0].data_timeout() <= Duration::from_secs(60), "{:?}", pair.ends[0].data_timeout());
}

#[test]
fn plain_tcp_runs_no_data_timer() {
    let mut pair = pair(100_000, false, 10_000);
    pair.ends[0].write(pair.now, Write::bytes(1000));
    pair.ends[0].poll_transmit(pair.now).expect("data");
    assert!(pair.ends[0].data_timer.is_some());
    pair.ends[0].become_plain(false);
    assert_eq!(pair.ends[0].data_timer, None);
}

#[test]
fn initial_backup_subflow_is_announced() {
    let pair = pair(100_000, true, 10_000);
    assert_eq!(pair.ends[1].report().paths.iter().map(|path| path.backup).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn connection_forgotten_by_peer_is_reset_at_once() {
    // A filter resets every attempt to join.
    let mut pair = pair(100_000, false, 10_000);
    pair.wires.values_mut().for_each(|wire| wire.up = false);
    pair.ends[1].abort(pair.now);
    pair.settle();
    pair.wires.values_mut().for_each(|wire| wire.up = true);
    pair.ends[0].write(pair.now, Write::bytes(10_000));
    pair.run_until(5.0);
    assert!(pair.sinks[0].events.contains(&Event::Closed(Reason::Reset)), "{:?}", pair.sinks[0].events);
}

#[test]
fn pending_joins_end_with_their_connection() {
    let mut pair = pair(100_000, false, 10_000);
    pair.wires.values_mut().for_each(|wire| wire.up = false);
    pair.ends[0].handle_network(pair.now, NetworkEvent::address(A[0], 1500, false));
    pair.ends[0].handle_network(pair.now, NetworkEvent::address(A[1], 1500, false));
    pair.run_until(120.0);
    pair.ends[0].handle_network(pair.now, NetworkEvent::address(A[0], 1500, true)); // its joins are lost
    pair.run_until(241.0);
    assert!(pair.sinks[0].events.contains(&Event::Closed(Reason::TimedOut)), "{:?}", pair.sinks[0].events);
    pair.wires.values_mut().for_each(|wire| wire.up = true);
    pair.log.clear();
    pair.run_until(1000.0);
    assert!(pair.sent(0, |packet| Some(packet.clone())).is_empty());
}

#[test]
fn server_may_close_before_handshake_completes() {
    let mut early = beginning(100_000, false);
    early.run_until(0.0116); // the SYN has arrived
    early.ends[1].close(early.now);
    early.run_until(0.5);
    assert!(early.sinks[0].finished && early.sinks[0].events.contains(&Event::Connected));
    early.ends[0].close(early.now);
    early.run_until(2.0);
    assert!(early.sinks.iter().all(|sink| sink.events.contains(&Event::Closed(Reason::Closed))));
}

#[test]
fn half_closed_subflow_does_not_keep_connection() {
    let mut pair = pair(100_000, false, 10_000);
    pair.ends[0].close(pair.now);
    pair.ends[1].close(pair.now);
    // The `DATA_FIN`s are exchanged on the first path; the client leaves the second one silently.
    pair.ends[0].subflows[1].block.suspend();
    pair.tampering = Some(|packet| {
        if packet.source == A[1] {
            packet.destination = A[0]; // lost
        }
    });
    pair.run_until(200.0);
    let ended = |end: usize| pair.sinks[end].events.contains(&Event::Closed(Reason::Closed));
    assert!(ended(0) && ended(1), "{:?} {:?}", pair.sinks[0].events, pair.sinks[1].events);
}

#[test]
fn handshake_without_keys_causes_fallback() {
    // A SYN/ACK that answers ours completes the handshake, as in a simultaneous open, but contains no key.
    let mut pair = beginning(100_000, false);
    pair.run_until(0.0116);
    let mut packet = pair.log[0].2.clone();
    let ours = pair.log.iter().find(|(_, end, _)| *end == 1).expect("a SYN/ACK").2.clone();
    let Body::Tcp(ours) = ours.body else { panic!() };
    let segment = tcp(&mut packet);
    (segment.flags, segment.ack) = (Flags::SYN | Flags::ACK, ours.seq.add(1));
    pair.ends[1].handle_packet(pair.now, packet, &anabranch_wire::Pattern);
    pair.ends[1].close(pair.now);
    for _ in 0..100 {
        if pair.ends[1].poll_transmit(pair.now).is_none() {
            assert!(pair.ends[1].report().fallback);
            return;
        }
    }
    panic!("more than 100 segments");
}

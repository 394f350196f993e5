//! Peers with other versions, flags, addresses and priorities than this implementation, and subflows that end late.

use super::connection::Connection;
use super::keys::address_hmac;
use super::receive::MAX_DISPUTED;
use super::tests::{A, B, Setup, extra, tcp};
use crate::tcp as settings;
use anabranch_base::rng::Rng;
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::{Endpoint, NetworkEvent, Write};
use anabranch_endpoint::{Address, Ends, Secrets};
use anabranch_testkit::harness::{Pair, Wire};
use anabranch_wire::tcp::mptcp::{AddAddress, Control, Dss, Mapping};
use anabranch_wire::tcp::{Flags, Segment};
use anabranch_wire::{Body, Packet, Payload};
use core::net::{IpAddr, Ipv6Addr};

fn segment(packet: &mut Packet) -> &mut Segment {
    match &mut packet.body {
        Body::Tcp(segment) => segment,
        other => panic!("not TCP: {other:?}"),
    }
}

fn capable(packet: &mut Packet) -> Option<&mut anabranch_wire::tcp::mptcp::Capable> {
    segment(packet).options.mptcp.others.iter_mut().find_map(|option| match option {
        Control::Capable(capable) => Some(capable),
        _ => None,
    })
}

/// Two ends with two disjoint paths that have carried data.
fn working(setup: &Setup) -> Pair<Connection> {
    let mut pair = setup.pair(Wire::new(10), Wire::new(20));
    pair.run_until(0.1);
    pair.ends[0].write(pair.now, Write::bytes(100_000));
    pair.run_until(1.0);
    assert_eq!(pair.sinks[1].delivered, 100_000);
    pair
}

/// Sends an `ADD_ADDR` for an address and an identifier to the client, as its server would.
fn announce(pair: &mut Pair<Connection>, id: u8, address: IpAddr) {
    let (server, client) = (pair.ends[1].keys.local, pair.ends[0].keys.local);
    let hmac = Some(address_hmac(&server, &client, (id, address, None)));
    let is_match = |(_, end, packet): &&(Time, usize, Packet)| *end == 1 && packet.source == B[0];
    let mut packet = pair.log.iter().rev().find(is_match).expect("a packet").2.clone();
    let add = AddAddress { address_id: id, address, port: None, hmac };
    segment(&mut packet).options.mptcp.others = vec![Control::AddAddress(add)];
    pair.ends[0].handle_packet(pair.now, packet, &anabranch_wire::Pattern);
    pair.settle();
}

#[test]
fn a_peer_of_version_2_gets_an_answer_of_version_1() {
    let mut pair = Setup::disjoint().pair(Wire::new(10), Wire::new(20));
    pair.tampering = Some(|packet| {
        if segment(packet).flags == Flags::SYN
            && let Some(capable) = capable(packet)
        {
            capable.version = 2;
        }
    });
    assert!(pair.send_file(300_000, 5.0));
    let mut answer = pair.log.iter().find(|(_, end, _)| *end == 1).expect("a SYN/ACK").2.clone();
    assert_eq!(capable(&mut answer).map(|capable| capable.version), Some(1));
    assert!(!pair.ends[0].report().fallback && extra(&pair, 0, "joins") == 1);
}

#[test]
fn unusable_third_segment_means_plain_tcp() {
    let mut pair = Setup::disjoint().pair(Wire::new(10), Wire::new(20));
    pair.tampering = Some(|packet| {
        if !segment(packet).flags.contains(Flags::SYN)
            && let Some(capable) = capable(packet)
        {
            capable.hmac_sha256 = false;
        }
    });
    assert!(pair.send_file(300_000, 5.0));
    assert!(pair.ends.iter().all(|end| end.report().fallback));
}

#[test]
fn no_join_goes_to_an_address_that_refuses_joins() {
    let joined = |refuses: bool| {
        let mut pair = Setup::default().pair(Wire::new(10), Wire::new(20));
        pair.wires.insert((A[1], B[0]), Wire::new(10));
        pair.wires.insert((B[0], A[1]), Wire::new(10));
        if refuses {
            pair.tampering = Some(|packet| {
                if segment(packet).flags == Flags::SYN | Flags::ACK
                    && let Some(capable) = capable(packet)
                {
                    capable.no_join_here = true;
                }
            });
        }
        assert!(pair.send_file(300_000, 5.0));
        let to = |p: &Packet| (tcp(p).flags == Flags::SYN).then_some(p.destination);
        let mut all: Vec<_> = pair.sent(0, to).into_iter().skip(1).collect();
        all.dedup();
        all
    };
    assert!(joined(false).contains(&B[0]) && joined(true).iter().all(|to| *to == B[1]));
}

#[test]
fn address_of_other_ip_version_is_not_connected() {
    let mut pair = working(&Setup::default());
    announce(&mut pair, 7, Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 7).into());
    pair.run_until(3.0);
    let mut scratch = Vec::new();
    for (_, _, packet) in &pair.log {
        anabranch_wire::check(packet, &mut scratch).expect("the packet can be encoded");
    }
    assert!(pair.ends[0].report().paths.iter().all(|path| path.remote.is_ipv4()));
    assert!(pair.ends[0].control.is_empty(), "the echo was sent");
}

#[test]
fn server_announces_first_address_under_another_id() {
    let secrets = Secrets::simulated(&mut Rng::new(1));
    let both = |ips: [IpAddr; 2]| ips.map(|ip| Address::new(ip, 1500)).to_vec();
    let config = Setup::default().config();
    let client = Ends { local: both(A), local_port: 40_000, remote: vec![B[1]], remote_port: 5001 };
    let client = Connection::connecting(config.clone(), &client, secrets.fork("client"));
    let server = Connection::listening(config, &Ends::listening(both(B), 5001), secrets.fork("server"));
    let wires = [(A[0], B[1], Wire::new(10)), (A[1], B[0], Wire::new(20))];
    let mut pair = Pair::new(client, server, &wires, 1);
    assert!(pair.send_file(1_000_000, 10.0));
    let announced = pair.sent(1, |p| {
        tcp(p).options.mptcp.others.iter().find_map(|option| match option {
            Control::AddAddress(add) => Some((add.address_id, add.address)),
            _ => None,
        })
    });
    assert!(!announced.is_empty() && announced.iter().all(|add| *add == (1, B[0])), "{announced:?}");
    let shares: Vec<_> = pair.ends[1].report().arrivals.iter().map(|arrival| arrival.new).collect();
    assert!(shares.iter().filter(|&&share| share > 100_000).count() == 2, "{shares:?}");
}

#[test]
fn same_address_under_another_id_gets_no_subflow() {
    let mut pair = working(&Setup::default());
    let living = |pair: &Pair<Connection>| pair.ends[0].subflows.iter().filter(|s| !s.is_dead()).count();
    let before = living(&pair);
    announce(&mut pair, 9, B[1]);
    pair.run_until(3.0);
    assert_eq!(living(&pair), before);
    // The peer withdraws the address under one of its two identifiers: all subflows to the address end.
    let is_match = |(_, end, packet): &&(Time, usize, Packet)| *end == 1 && packet.source == B[0];
    let mut packet = pair.log.iter().rev().find(is_match).expect("a packet").2.clone();
    segment(&mut packet).options.mptcp.others = vec![Control::RemoveAddress(vec![9])];
    pair.ends[0].handle_packet(pair.now, packet, &anabranch_wire::Pattern);
    pair.settle();
    assert!(pair.ends[0].subflows.iter().all(|s| s.is_dead() || s.block.remote().ip() == B[0]));
}

#[test]
fn pairs_that_no_route_connects_are_left_out() {
    let setup = Setup { unroutable: vec![(A[0], B[1]), (A[1], B[0])], ..Setup::default() };
    let (client, server) = setup.ends();
    let wires = [(A[0], B[0], Wire::new(10)), (A[1], B[1], Wire::new(20))];
    let mut pair = Pair::new(client, server, &wires, 1);
    assert!(pair.send_file(500_000, 5.0));
    pair.run_until(60.0);
    let tried = pair.sent(0, |p| (tcp(p).flags == Flags::SYN).then_some((p.source, p.destination)));
    assert_eq!(tried, [(A[0], B[0]), (A[1], B[1])]);
}

#[test]
fn unacknowledged_signals_survive_a_loss() {
    // The client's initial subflow is a backup, and the first two `MP_PRIO`s are lost.
    let setup = Setup { backup: [true, false], ..Setup::disjoint() };
    let mut pair = setup.pair(Wire::new(10), Wire::new(20));
    let mut lost = 0;
    pair.filter = Some(Box::new(move |_, p| {
        let signal = tcp(p)
            .options
            .mptcp
            .others
            .iter()
            .any(|option| matches!(option, Control::Priority { .. } | Control::RemoveAddress(_)));
        lost += u32::from(signal);
        signal && lost <= 2
    }));
    pair.run_until(5.0);
    let backups =
        |pair: &Pair<Connection>| pair.ends[1].report().paths.iter().map(|p| p.backup).collect::<Vec<_>>();
    assert!(backups(&pair)[0]);

    let mut pair = working(&Setup::disjoint());
    let mut lost = 0;
    pair.filter = Some(Box::new(move |_, p| {
        let removes = |option: &Control| matches!(option, Control::RemoveAddress(_));
        let signal = tcp(p).options.mptcp.others.iter().any(removes);
        lost += u32::from(signal);
        signal && lost <= 2
    }));
    pair.ends[0].handle_network(pair.now, NetworkEvent::address(A[1], 1500, false));
    pair.run_until(10.0);
    assert!(pair.ends[1].subflows[1].is_dead());
    let sent = pair.sent(0, |p| {
        let removes = |option: &Control| matches!(option, Control::RemoveAddress(_));
        tcp(p).options.mptcp.others.iter().any(removes).then_some(())
    });
    assert_eq!(sent.len(), 4, "repetitions are limited");
}

#[test]
fn no_deadline_remains_after_time_wait() {
    let mut pair = working(&Setup::disjoint());
    pair.ends[0].close(pair.now);
    pair.ends[1].close(pair.now);
    pair.run_until(300.0);
    assert_eq!(pair.ends.each_ref().map(Endpoint::next_timeout), [None, None]);
    assert!(pair.ends.iter().all(|end| end.blocks().all(|block| block.remains().is_none())));
}

#[test]
fn stalled_subflow_retains_at_most_the_send_buffer() {
    let config = settings::Config::default().send_buffer(300_000);
    let mut pair = working(&Setup { tcp: config, ..Setup::disjoint() });
    pair.keep_log = false;
    for (ends, wire) in &mut pair.wires {
        wire.up = ends.0 != A[1] && ends.1 != A[1];
    }
    let mut most = 0;
    let end = Time::from_secs_f64(20.0);
    while pair.now < end {
        pair.ends[0].write(pair.now, Write::bytes(1_000_000));
        if !pair.step(end) {
            break;
        }
        let client = &pair.ends[0];
        most = most.max(client.send.una - client.released());
    }
    assert!(pair.sinks[1].delivered > 15_000_000, "{}", pair.sinks[1].delivered);
    // A stalled subflow is probed once a second.
    assert!(most < 300_000 + 1_500_000, "{most}");
}

#[test]
fn silently_returning_path_is_used_within_3_seconds() {
    for (down, send_buffer) in
        [(1.0, 4_000_000), (6.0, 4_000_000), (20.0, 4_000_000), (20.0, 300_000), (50.0, 1_000_000)]
    {
        let config = settings::Config::default().send_buffer(send_buffer);
        let mut pair = working(&Setup { tcp: config, ..Setup::disjoint() });
        pair.keep_log = false;
        let fill = |pair: &mut Pair<Connection>, seconds: f64| {
            let end = Time::from_secs_f64(pair.now.as_secs_f64() + seconds);
            while pair.now < end {
                pair.ends[0].write(pair.now, Write::bytes(1_000_000));
                if !pair.step(end) {
                    break;
                }
            }
            let second = |arrival: &&anabranch_endpoint::Arrival| arrival.remote.ip() == A[1];
            pair.ends[1].report().arrivals.iter().filter(second).map(|arrival| arrival.new).sum::<u64>()
        };
        fill(&mut pair, 2.0);
        pair.wires.iter_mut().filter(|(e, _)| e.0 == A[1] || e.1 == A[1]).for_each(|(_, w)| w.up = false);
        let before = fill(&mut pair, down);
        pair.wires.values_mut().for_each(|w| w.up = true);
        let after = fill(&mut pair, 3.0);
        assert!(after > before + 200_000, "{down} s, {send_buffer} B: {before} {after}");
        let living = pair.ends[1].subflows.iter().filter(|s| !s.is_dead()).count();
        assert_eq!(living, 2, "the server ends the old subflow");
    }
}

/// Sends 20,000 bytes, then 2,000 more in halves over two subflows, each half under a checksummed mapping of all
/// 2,000. `order` lists the halves: index of the subflow, and whether it is the second half. Returns the number of
/// bytes in order at the receiver.
fn brought_in_halves(order: &[(usize, bool)]) -> u64 {
    let setup = Setup { checksum: true, ..Setup::disjoint() };
    let mut pair = setup.pair(Wire::new(10), Wire::new(10));
    pair.run_until(0.1);
    pair.ends[0].write(pair.now, Write::bytes(20_000));
    pair.run_until(1.0);
    let base = pair.ends[0].keys.local.idsn.wrapping_add(1 + 20_000);
    let acknowledged = pair.ends[1].keys.local.idsn.wrapping_add(1);
    let half = |path: usize, second: bool, pair: &Pair<Connection>| {
        let is_match = |(_, end, p): &&(Time, usize, Packet)| *end == 0 && p.source == A[path];
        let mut packet = pair.log.iter().rev().find(is_match).expect("a packet").2.clone();
        let taken = pair.ends[1].subflows[path].mappings.taken;
        let data = Payload::new(20_000, 2000);
        let sum = anabranch_wire::checksum::Checksum::new().pattern(data);
        let subflow_seq = taken as u32 + 1;
        let checksum = anabranch_wire::tcp::mptcp::dss_checksum(base, subflow_seq, 2000, sum);
        let number = pair.ends[0].subflows[path].block.sent();
        assert_eq!(number, taken);
        let piece = segment(&mut packet);
        piece.seq = piece.seq.add(piece.payload.len + if second { 1000 } else { 0 });
        piece.payload = data.part(if second { 1000 } else { 0 }, 1000);
        piece.options.mptcp.others.clear();
        piece.options.mptcp.dss = Some(Dss {
            data_ack: Some(anabranch_wire::tcp::mptcp::DataNumber::Long(acknowledged)),
            mapping: Some(Mapping {
                dsn: anabranch_wire::tcp::mptcp::DataNumber::Long(base),
                subflow_seq,
                len: 2000,
                checksum: Some(anabranch_wire::tcp::mptcp::DataChecksum::Known(checksum)),
            }),
            data_fin: false,
        });
        packet
    };
    let packets: Vec<_> = order.iter().map(|&(path, second)| half(path, second, &pair)).collect();
    for packet in packets {
        pair.ends[1].handle_packet(pair.now, packet, &anabranch_wire::Pattern);
    }
    pair.ends[1].receive.nxt
}

#[test]
fn mapping_halves_on_two_subflows_do_not_deadlock() {
    // Subflow 0 sends the first half, subflow 1 all of the data, and then subflow 0 the second half.
    assert_eq!(brought_in_halves(&[(0, false), (1, true), (1, false), (0, true)]), 22_000);
}

#[test]
fn half_a_mapping_does_not_block_a_complete_one() {
    let again = [(1, false); MAX_DISPUTED as usize + 1];
    for held in [false, true] {
        let order: Vec<_> = [(0, held)].into_iter().chain(again).chain([(1, true)]).collect();
        assert_eq!(brought_in_halves(&order), 22_000, "{held}");
        // The late half belongs to a mapping that was taken over: its bytes are dropped and acknowledged.
        let late: Vec<_> = order.iter().copied().chain([(0, !held)]).collect();
        assert_eq!(brought_in_halves(&late), 22_000, "{held}");
    }
}

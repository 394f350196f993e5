//! A middlebox removes options, from the beginning or later, on one path or on all. In each case every byte arrives,
//! or both applications get an error.

use super::connection::Connection;
use super::tests::{A, B, Setup, extra, tcp};
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::endpoint::{Endpoint, Event, Reason, Write};
use anabranch_testkit::harness::{Pair, Wire};
use anabranch_wire::tcp::mptcp::{Control, DataChecksum, DataNumber, Dss, Mapping};
use anabranch_wire::tcp::{Flags, Segment};
use anabranch_wire::{Body, Packet, Payload};
use std::cell::Cell;
use std::rc::Rc;

fn segment(packet: &mut Packet) -> &mut Segment {
    match &mut packet.body {
        Body::Tcp(segment) => segment,
        other => panic!("not TCP: {other:?}"),
    }
}

/// Removes all options of Multipath TCP from packets without SYN.
fn strip(packet: &mut Packet) {
    packet.settle(&anabranch_wire::Pattern);
    let segment = segment(packet);
    if !segment.flags.contains(Flags::SYN) {
        segment.options.mptcp = anabranch_wire::BoxedIfSet::default();
    }
}

/// Two ends on a network that removes the options of packets from the `after`-th packet on, if the packet's source is
/// one of `from`.
fn stripping(setup: &Setup, from: Vec<core::net::IpAddr>, after: usize) -> Pair<Connection> {
    let mut pair = setup.pair(Wire::new(10), Wire::new(20));
    let mut count = 0;
    pair.middlebox = Some(Box::new(move |mut packets| {
        for packet in &mut packets {
            count += 1;
            if count > after && from.contains(&packet.source) {
                strip(packet);
            }
        }
        packets
    }));
    pair
}

fn infinite(packet: &Packet) -> bool {
    tcp(packet).options.mptcp.dss.is_some_and(|dss| dss.mapping.is_some_and(|mapping| mapping.len == 0))
}

/// `MP_TCPRST` options of the resets that an end sent.
fn resets(pair: &Pair<Connection>, end: usize) -> Vec<(u8, u8)> {
    let reason = |p: &Packet| {
        tcp(p).options.mptcp.others.iter().find_map(|option| match option {
            Control::Reset { flags, reason } => Some((*flags, *reason)),
            _ => None,
        })
    };
    pair.sent(end, reason).into_iter().collect()
}

fn reason(pair: &Pair<Connection>, end: usize) -> Option<Reason> {
    pair.sinks[end].events.iter().find_map(|event| match event {
        Event::Closed(reason) => Some(*reason),
        _ => None,
    })
}

#[test]
fn lost_options_on_only_path_cause_fallback() {
    let (client, server) = (vec![A[0]], vec![B[0]]);
    let both = vec![A[0], B[0]];
    for checksum in [false, true] {
        for from in [&client, &server, &both] {
            // The removal starts at the first packets, within the first window, in the middle, or at the end, with
            // the `DATA_FIN`.
            for after in [0, 2, 3, 4, 20, 150, 208, 210] {
                let setup = Setup { checksum, paths: "default".into(), ..Setup::default() };
                let mut pair = stripping(&setup, from.clone(), after);
                assert!(pair.send_file(200_000, 20.0), "{checksum} {from:?} {after} {:?}", pair.ends);
                pair.ends[1].close(pair.now);
                pair.run_until(40.0);
                let ends = [0, 1].map(|end| reason(&pair, end));
                assert_eq!(ends, [Some(Reason::Closed); 2], "{checksum} {from:?} {after}");
            }
        }
    }
}

#[test]
fn plain_tcp_gets_its_window_back_after_a_timeout() {
    let setup = Setup { paths: "default".into(), ..Setup::default() };
    let mut pair = setup.pair(Wire::new(10), Wire::new(10));
    pair.stripping = Some(0);
    assert!(!pair.send_file(4_000_000, 1.0));
    pair.wires.values_mut().for_each(|wire| wire.up = false);
    assert!(!pair.send_file(4_000_000, 2.0));
    pair.wires.values_mut().for_each(|wire| wire.up = true);
    // 3.4 s at the rate of the wire, and an outage of one second; a window of one packet would need a minute.
    assert!(pair.send_file(4_000_000, 8.0), "{:#?}", pair.ends[0].report());
    let report = pair.ends[0].report();
    assert!(report.fallback && report.paths[0].counters.timeouts > 0, "{report:#?}");
}

#[test]
fn infinite_mapping_reports_missing_options_to_peer() {
    let setup = Setup { paths: "default".into(), ..Setup::default() };
    let mut pair = stripping(&setup, vec![B[0]], 0);
    assert!(pair.send_file(200_000, 5.0));
    assert!(pair.ends.iter().all(|end| end.report().fallback));
    let told = pair.sent(0, |p| infinite(p).then_some(()));
    let plain =
        pair.sent(0, |p| (!tcp(p).payload.is_empty() && tcp(p).options.mptcp.is_empty()).then_some(()));
    assert!(told.len() < 30 && plain.len() > 80, "{} infinite, {} plain", told.len(), plain.len());
}

#[test]
fn path_that_loses_options_is_reset_and_data_moves() {
    for (from, teller) in [(A[0], 1), (B[0], 0), (A[1], 1), (B[1], 0)] {
        let mut pair = stripping(&Setup::disjoint(), vec![from], 200);
        assert!(pair.send_file(1_000_000, 6.0), "{from} {}", pair.sinks[1].delivered);
        assert!(resets(&pair, teller).contains(&(1, 6)), "{from} {:?}", resets(&pair, teller));
        assert!(pair.ends.iter().all(|end| !end.report().fallback));
    }
}

#[test]
fn lost_options_on_all_paths_end_both_applications() {
    for from in [vec![A[0], A[1]], vec![B[0], B[1]], vec![A[0], A[1], B[0], B[1]]] {
        let mut pair = stripping(&Setup::disjoint(), from.clone(), 200);
        let done = pair.send_file(1_000_000, 400.0);
        let ends = [0, 1].map(|end| reason(&pair, end));
        assert!(
            !done && ends.iter().all(|end| end.is_some_and(|r| r != Reason::Closed)),
            "{from:?} {ends:?}"
        );
    }
}

#[test]
fn a_fourth_segment_without_options_ends_the_join() {
    let mut pair = stripping(&Setup::disjoint(), vec![B[1]], 0);
    assert!(pair.send_file(300_000, 5.0));
    assert!(resets(&pair, 0).contains(&(1, 6)));
    assert_eq!(extra(&pair, 0, "joins"), 0);
}

#[test]
fn retransmissions_of_third_segment_are_limited() {
    let mut pair = stripping(&Setup::disjoint(), vec![A[1]], 0);
    pair.run_until(0.1);
    pair.ends[0].write(pair.now, Write::bytes(10_000));
    pair.run_until(120.0);
    let proofs = pair.sent(0, |p| {
        let on_second = p.source == A[1] && tcp(p).flags == Flags::ACK;
        on_second.then_some(())
    });
    assert!(proofs.len() < 40, "{}", proofs.len());
}

#[test]
fn repeatedly_reset_subflow_is_joined_less_often() {
    let mut pair = Setup::disjoint().pair(Wire::new(10), Wire::new(20));
    pair.middlebox = Some(Box::new(|mut packets| {
        for packet in &mut packets {
            if packet.source == A[1] && !segment(packet).payload.is_empty() {
                segment(packet).flags = Flags::RST | Flags::ACK;
            }
        }
        packets
    }));
    pair.keep_log = false;
    for second in 1..60 {
        pair.run_until(f64::from(second));
        pair.ends[0].write(pair.now, Write::bytes(1_000_000));
    }
    let joins = extra(&pair, 0, "joins");
    assert!((3..12).contains(&joins), "{joins}");
}

#[test]
fn a_reset_on_the_last_subflow_is_reported_at_once() {
    for transient in [false, true] {
        let setup = Setup { paths: "default".into(), ..Setup::default() };
        let mut pair = setup.pair(Wire::new(10), Wire::new(10));
        pair.run_until(0.1);
        pair.ends[0].write(pair.now, Write::bytes(10_000));
        pair.run_until(0.5);
        let mut packet = pair.log.iter().rev().find(|(_, end, _)| *end == 1).expect("a packet").2.clone();
        segment(&mut packet).flags = Flags::RST | Flags::ACK;
        segment(&mut packet).options.mptcp.dss = None;
        if transient {
            segment(&mut packet).options.mptcp.others.push(Control::Reset { flags: 1, reason: 2 });
        }
        pair.ends[0].handle_packet(pair.now, packet, &anabranch_wire::Pattern);
        pair.settle();
        assert_eq!(reason(&pair, 0), (!transient).then_some(Reason::Reset));
        if transient {
            pair.ends[0].write(pair.now, Write::bytes(10_000));
            assert!(pair.run_while(5.0, |pair| pair.sinks[1].delivered < 20_000), "the path is joined again");
        }
    }
}

#[test]
fn a_mapping_ahead_of_its_data_is_kept() {
    for checksum in [false, true] {
        let setup = Setup { checksum, ..Setup::disjoint() };
        let mut pair = setup.pair(Wire::new(10), Wire::new(20));
        pair.middlebox = Some(Box::new(|packets| {
            let mut out = Vec::new();
            for mut packet in packets {
                packet.settle(&anabranch_wire::Pattern);
                let data = segment(&mut packet);
                if let Some(dss) =
                    data.options.mptcp.dss.filter(|d| d.mapping.is_some() && !data.payload.is_empty())
                {
                    data.options.mptcp.dss = Some(Dss { mapping: None, ..dss });
                    let mut ahead = packet.clone();
                    segment(&mut ahead).payload.len = 0;
                    segment(&mut ahead).options.mptcp.dss = Some(dss);
                    out.push(ahead);
                }
                out.push(packet);
            }
            out
        }));
        assert!(pair.send_file(300_000, 5.0), "{checksum} {}", pair.sinks[1].delivered);
        assert!(pair.ends[1].report().arrivals.iter().all(|arrival| arrival.new > 0));
    }
}

#[test]
fn data_ack_is_as_long_as_data_sequence_number() {
    for long in [true, false] {
        let mut pair = Setup::disjoint().pair(Wire::new(10), Wire::new(20));
        if !long {
            pair.tampering = Some(|packet| {
                if let Some(Dss { mapping: Some(Mapping { dsn, .. }), .. }) =
                    &mut segment(packet).options.mptcp.dss
                    && let DataNumber::Long(number) = *dsn
                {
                    *dsn = DataNumber::Short(number as u32);
                }
            });
        }
        assert!(pair.send_file(300_000, 5.0));
        let acks = pair.sent(1, |p| {
            (tcp(p).payload.is_empty()).then(|| tcp(p).options.mptcp.dss.and_then(|dss| dss.data_ack))?
        });
        // The first data segment is left out: it carries `MP_CAPABLE` and therefore no data sequence number.
        let later = acks.iter().skip(8);
        assert!(
            acks.len() > 50 && later.clone().all(|ack| matches!(ack, DataNumber::Long(_)) == long),
            "{acks:?}"
        );
    }
}

#[test]
fn the_checksum_of_the_first_data_is_verified() {
    let setup = Setup { checksum: true, paths: "default".into(), ..Setup::default() };
    let mut pair = setup.pair(Wire::new(10), Wire::new(10));
    pair.damaged = true;
    pair.middlebox = Some(Box::new(|mut packets| {
        for packet in &mut packets {
            packet.settle(&anabranch_wire::Pattern);
            let first = segment(packet)
                .options
                .mptcp
                .others
                .iter()
                .any(|option| matches!(option, Control::Capable(capable) if capable.data.is_some()));
            if first {
                segment(packet).payload.offset ^= 1;
            }
        }
        packets
    }));
    assert!(pair.send_file(100_000, 10.0));
    assert_eq!(extra(&pair, 1, "checksum_failures"), 1);
    assert!(pair.ends.iter().all(|end| end.report().fallback));
}

#[test]
fn data_fin_with_wrong_checksum_is_ignored() {
    let setup = Setup { checksum: true, ..Setup::disjoint() };
    let mut pair = setup.pair(Wire::new(10), Wire::new(10));
    let wrong = Rc::new(Cell::new(0));
    let count = Rc::clone(&wrong);
    pair.middlebox = Some(Box::new(move |mut packets| {
        for packet in &mut packets {
            if let Some(Dss { data_fin: true, mapping: Some(mapping), .. }) =
                &mut segment(packet).options.mptcp.dss
                && count.get() < 3
            {
                count.set(count.get() + 1);
                let Some(DataChecksum::Known(sum)) = mapping.checksum else { panic!("{mapping:?}") };
                mapping.checksum = Some(DataChecksum::Known(sum ^ 0x1234));
            }
        }
        packets
    }));
    assert!(!pair.send_file(50_000, 0.5) && pair.sinks[1].delivered == 50_000 && !pair.sinks[1].finished);
    assert!(pair.send_file(50_000, 10.0) && wrong.get() == 3);
}

#[test]
fn wrong_checksum_during_join_keeps_connection() {
    // The server detects the wrong checksum before the join arrives, and after.
    for after in [0, 30] {
        wrong_checksum_beside_a_join(after);
    }
}

fn wrong_checksum_beside_a_join(after: u32) {
    let setup = Setup { checksum: true, ..Setup::disjoint() };
    let mut pair = setup.pair(Wire::new(10), Wire::new(10));
    pair.damaged = true;
    let (mut seen, wrong) = (0, after + 1);
    pair.middlebox = Some(Box::new(move |mut packets| {
        for packet in &mut packets {
            packet.settle(&anabranch_wire::Pattern);
            let mapped = segment(packet).options.mptcp.dss.is_some_and(|dss| dss.mapping.is_some());
            if mapped && !segment(packet).payload.is_empty() {
                seen += 1;
                segment(packet).payload.offset ^= u64::from(seen == wrong);
            }
        }
        packets
    }));
    // The server knows of the join, but the third segment of the join is lost repeatedly.
    pair.filter = Some(Box::new(|number, p| number < 60 && p.source == A[1] && tcp(p).flags == Flags::ACK));
    let events = |pair: &Pair<Connection>| pair.sinks.each_ref().map(|sink| sink.events.clone());
    assert!(pair.send_file(100_000, 20.0), "{:?}", events(&pair));
    assert_eq!(extra(&pair, 1, "checksum_failures"), 1);
}

/// A connection with one subflow, whose server finds a wrong checksum and falls back. The signals of the fallback do
/// not reach the client, which sends nothing more, as a Linux sender that has finished. Returns also the number of
/// `MP_FAIL`s.
fn server_alone_in_fallback() -> (Pair<Connection>, Rc<Cell<u32>>) {
    let setup = Setup { checksum: true, paths: "default".into(), ..Setup::default() };
    let mut pair = setup.pair(Wire::new(10), Wire::new(10));
    pair.damaged = true;
    let (mut seen, fails) = (0, Rc::new(Cell::new(0)));
    let count = Rc::clone(&fails);
    pair.middlebox = Some(Box::new(move |mut packets| {
        for packet in &mut packets {
            packet.settle(&anabranch_wire::Pattern);
            let from_server = packet.source == B[0] || packet.source == B[1];
            let segment = segment(packet);
            seen += u32::from(!segment.payload.is_empty());
            // Only the second data segment is damaged.
            segment.payload.offset ^= u64::from(!segment.payload.is_empty() && seen == 2);
            let mptcp = &mut segment.options.mptcp;
            if from_server && !segment.flags.contains(Flags::SYN) {
                let before = mptcp.others.len();
                mptcp.others.retain(|option| !matches!(option, Control::Fail { .. }));
                count.set(count.get() + u32::from(mptcp.others.len() < before));
                let data_ack = mptcp.dss.and_then(|dss| dss.data_ack);
                mptcp.dss = data_ack.map(|_| Dss { data_ack, mapping: None, data_fin: false });
            }
        }
        packets
    }));
    pair.run_until(0.1);
    pair.ends[0].write(pair.now, Write::bytes(20_000));
    pair.run_until(1.0);
    assert_eq!(pair.ends.each_ref().map(Connection::is_fallback), [false, true]);
    assert_eq!(pair.sinks[1].delivered, 20_000);
    (pair, fails)
}

#[test]
fn plain_end_acknowledges_data_and_data_fin() {
    let (mut pair, _) = server_alone_in_fallback();
    let acknowledged = |pair: &Pair<Connection>| pair.ends[0].report().send_buffer == 0;
    assert!(acknowledged(&pair), "the client would send its data again at other positions");
    pair.ends[0].close(pair.now);
    pair.run_until(2.0);
    assert!(pair.sinks[1].finished);
    assert_eq!(pair.ends[0].send.fin, super::data::DataFin::Acknowledged);
    assert_eq!(pair.sinks[1].delivered, 20_000);
}

#[test]
fn mp_fail_answers_mp_fail_and_gets_no_answer() {
    let (mut pair, fails) = server_alone_in_fallback();
    assert_eq!(fails.get(), 1, "one for all acknowledgements of a round trip");
    pair.ends[0].write(pair.now, Write::bytes(20_000));
    pair.run_until(2.0);
    assert_eq!(fails.get(), 2, "MP_FAIL is repeated without an answer");
    // A bare acknowledgement with the client's `MP_FAIL` and a `DATA_ACK`, as Linux sends it.
    let is_match = |(_, end, packet): &&(Time, usize, Packet)| *end == 0 && !tcp(packet).payload.is_empty();
    let mut answer = pair.log.iter().rev().find(is_match).expect("the client has sent data").2.clone();
    let data = segment(&mut answer);
    (data.seq, data.payload) = (data.seq.add(data.payload.len), Payload::EMPTY);
    let ack = Some(DataNumber::Long(0));
    segment(&mut answer).options.mptcp.others = vec![Control::Fail { dsn: 1 }];
    segment(&mut answer).options.mptcp.dss = Some(Dss { data_ack: ack, mapping: None, data_fin: false });
    let before = (pair.log.len(), fails.get());
    pair.ends[1].handle_packet(pair.now, answer, &anabranch_wire::Pattern);
    pair.settle();
    assert_eq!(pair.log.len(), before.0, "the answer has no answer");
    pair.ends[0].write(pair.now, Write::bytes(20_000));
    pair.run_until(4.0);
    assert_eq!(pair.sinks[1].delivered, 60_000);
    assert_eq!(fails.get(), before.1, "the failure is settled");
}

#[test]
fn data_lost_above_subflows_is_repaired_quickly() {
    let mut pair = Setup::disjoint().pair(Wire::new(10), Wire::new(20));
    pair.keep_log = false;
    let blocked = Rc::new(Cell::new(true));
    let block = Rc::clone(&blocked);
    // One data segment is delayed, so that later data waits behind it.
    pair.filter = Some(Box::new(move |_, p| {
        let payload = tcp(p).payload;
        block.get() && payload.offset <= 100_000 && payload.end() > 100_000
    }));
    assert!(!pair.send_file(3_000_000, 1.7));
    let waiting = pair.ends[1].receive.ahead.covered();
    // The receiver runs out of memory and drops data that it has acknowledged on the subflows.
    pair.ends[1].receive.ahead.clear();
    blocked.set(false);
    let before = pair.now;
    assert!(pair.send_file(3_000_000, 60.0), "{} after {waiting}", pair.sinks[1].delivered);
    assert!(
        waiting > 1_000_000 && pair.now.since(before) < Duration::from_secs(15),
        "{waiting} {:?}",
        pair.now
    );
}

#[test]
fn data_with_final_segment_after_fallback_is_readable() {
    let mut pair = Setup::disjoint().pair(Wire::new(10), Wire::new(10));
    pair.stripping = Some(0);
    pair.run_until(0.1);
    pair.ends[1].close(pair.now);
    pair.run_until(0.2);
    // One segment contains the last data, the FIN, and the acknowledgement of the other end's FIN.
    pair.ends[0].write(pair.now, Write::bytes(1000));
    pair.ends[0].close(pair.now);
    pair.run_until(1.0);
    assert_eq!((pair.sinks[1].delivered, pair.sinks[1].finished), (1000, true));
    let readable = pair.sinks[1].events.iter().position(|event| *event == Event::Readable);
    let closed = pair.sinks[1].events.iter().position(|event| matches!(event, Event::Closed(_)));
    assert!(readable.is_some() && readable < closed, "{:?}", pair.sinks[1].events);
}

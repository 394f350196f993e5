//! Behaviour of a TCP connection, end to end.

use super::{Config, Connection, Recovery, State};
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::endpoint::{Endpoint, Event, Reason, Write};
use anabranch_endpoint::limits::{Limit, Limits};
use anabranch_endpoint::{Address, Ends, Secrets};
use anabranch_testkit::harness::{Pair, Wire};
use anabranch_wire::tcp::{Flags, Segment, Timestamps};
use anabranch_wire::{Body, Ecn, Packet};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use proptest::prelude::*;

pub(super) const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
pub(super) const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

fn connecting(mtu: u32) -> Ends {
    Ends::connecting(SocketAddr::new(CLIENT, 40_000), mtu, SocketAddr::new(SERVER, 5001))
}

fn listening(mtu: u32) -> Ends {
    Ends::listening(vec![Address::new(SERVER, mtu)], 5001)
}

pub(super) fn pair(config: &Config, wire: Wire) -> Pair<Connection> {
    pair_of(config, config, wire, 1)
}

pub(super) fn pair_of(client: &Config, server: &Config, wire: Wire, seed: u64) -> Pair<Connection> {
    pair_over(1500, [client, server], wire, seed)
}

fn pair_over(mtu: u32, [client, server]: [&Config; 2], wire: Wire, seed: u64) -> Pair<Connection> {
    let secrets = Secrets::new([seed as u8; 32]);
    let c = Connection::connecting(client.clone(), &connecting(mtu), secrets.fork("client"));
    let s = Connection::listening(server.clone(), &listening(mtu), secrets.fork("server"));
    Pair::new(c, s, &[(CLIENT, SERVER, wire)], seed)
}

fn tcp(packet: &Packet) -> &Segment {
    match &packet.body {
        Body::Tcp(segment) => segment,
        other => panic!("not TCP: {other:?}"),
    }
}

fn all(recovery: Recovery) -> Config {
    Config::default().recovery(recovery)
}

#[test]
fn a_file_arrives_and_both_ends_close() {
    let mut pair = pair(&Config::default(), Wire::new(10));
    assert!(pair.send_file(1_000_000, 20.0));
    pair.ends[1].close(pair.now);
    pair.run_until(pair.now.as_secs_f64() + 1.0);
    assert_eq!(pair.ends[0].block().state(), State::TimeWait);
    assert_eq!(pair.ends[1].block().state(), State::Closed(Reason::Closed));
    pair.run_until(200.0);
    assert_eq!(pair.ends[0].block().state(), State::Closed(Reason::Closed));
    let report = pair.ends[0].report();
    assert_eq!(report.paths[0].counters.timeouts, 0);
}

#[test]
fn handshake_negotiates_options_in_one_round_trip() {
    let mut pair = pair(&Config::default(), Wire { serialisation: Duration::ZERO, ..Wire::new(10) });
    pair.run_until(0.020);
    assert!(pair.sinks[0].events.contains(&Event::Connected));
    let syn = tcp(&pair.log[0].2);
    assert_eq!((syn.flags, syn.options.mss, syn.options.sack_permitted), (Flags::SYN, Some(1460), true));
    assert_eq!(syn.options.window_scale, Some(6)); // 4 MB in 16 bits
    let answer = tcp(&pair.log[1].2);
    assert_eq!(answer.flags, Flags::SYN | Flags::ACK);
    assert_eq!(answer.options.timestamps.map(|t| t.echo), syn.options.timestamps.map(|t| t.value));
    assert_eq!(pair.ends[0].block().mss(), 1448);
    assert_eq!(pair.ends[0].report().paths[0].srtt, Some(Duration::from_millis(20)));
}

#[test]
fn slow_start_grows_window_from_ten_segments() {
    let mut pair = pair(&Config::default(), Wire { serialisation: Duration::ZERO, ..Wire::new(50) });
    pair.run_until(0.1);
    pair.ends[0].write(pair.now, Write::bytes(1_000_000));
    pair.settle();
    let data = |p: &Packet| (tcp(p).payload.len > 0).then_some(tcp(p).payload.len);
    assert_eq!(pair.sent(0, data).len(), 10);
    pair.run_until(0.2001);
    // The first segment is acknowledged at once, because the window is larger than the 64 KiB that the SYN/ACK could
    // advertise. The next eight are acknowledged in pairs. Each acknowledged segment opens the window by one more
    // (RFC 3465). The last one waits for its delayed acknowledgement.
    assert_eq!(pair.sent(0, data).len(), 10 + 9 + 9);
}

#[test]
fn every_recovery_repairs_a_loss_without_timeout() {
    for recovery in [Recovery::Sack, Recovery::Prr, Recovery::Rack] {
        for lost in [12, 20, 33] {
            let mut pair = pair(&all(recovery), Wire::new(20));
            let mut data = 0;
            pair.filter = Some(Box::new(move |_, packet| {
                let hit = tcp(packet).payload.len > 0;
                data += usize::from(hit);
                hit && (data == lost || data == lost + 3)
            }));
            assert!(pair.send_file(400_000, 20.0), "{recovery:?} {lost}");
            let c = pair.ends[0].report().paths[0].counters;
            assert_eq!((c.timeouts, c.recoveries), (0, 1), "{recovery:?} {lost} {c:?}");
            assert_eq!(c.fast_retransmissions, 2, "{recovery:?} {lost} {c:?}");
        }
    }
}

#[test]
fn threshold_ignores_the_unused_part_of_the_window() {
    // A transfer of a megabyte opens the window. Then the client writes eight segments every 100 ms, and one segment
    // of one flight is lost.
    for recovery in [Recovery::Sack, Recovery::Prr, Recovery::Rack] {
        let mut pair = pair(&all(recovery), Wire { queue: 10_000, ..Wire::new(20) });
        pair.run_until(0.1);
        pair.ends[0].write(pair.now, Write::bytes(1_000_000));
        pair.run_until(1.0);
        let before = pair.ends[0].report().paths[0];
        assert!(before.cwnd > 500_000 && before.ssthresh == u64::MAX, "{before:?}");
        let mut seen = 0;
        pair.filter = Some(Box::new(move |_, packet| {
            seen += u32::from(tcp(packet).payload.len > 0);
            seen == 19 && tcp(packet).payload.len > 0
        }));
        for tenth in 11..20 {
            pair.ends[0].write(pair.now, Write::bytes(8 * u64::from(before.mss)));
            pair.run_until(f64::from(tenth) / 10.0);
        }
        let after = pair.ends[0].report().paths[0];
        assert_eq!((after.counters.timeouts, after.counters.recoveries), (0, 1), "{recovery:?} {after:?}");
        // Half of the bytes in flight: eight segments, of which at most two are acknowledged by then.
        let packets = after.ssthresh / u64::from(before.mss);
        assert!((3..=4).contains(&packets), "{recovery:?} {after:?}");
    }
}

#[test]
fn without_sack_three_duplicates_repair_a_loss() {
    let config = Config::default().sack(false);
    let mut pair = pair(&config, Wire::new(20));
    let mut data = 0;
    pair.filter = Some(Box::new(move |_, packet| {
        let hit = tcp(packet).payload.len > 0;
        data += usize::from(hit);
        hit && (data == 20 || data == 24)
    }));
    assert!(pair.send_file(400_000, 20.0));
    let c = pair.ends[0].report().paths[0].counters;
    assert_eq!((c.timeouts, c.recoveries, c.fast_retransmissions), (0, 1, 2));
}

#[test]
fn lost_tail_costs_sack_a_timeout_and_rack_a_probe() {
    for (recovery, timeouts, probes) in [(Recovery::Sack, 1, 0), (Recovery::Rack, 0, 1)] {
        let mut pair = pair(&all(recovery), Wire::new(20));
        let mut hit = false;
        pair.filter = Some(Box::new(move |_, packet| {
            let last = !hit && tcp(packet).payload.end() == 100_000;
            hit |= last;
            last
        }));
        pair.run_until(0.1);
        pair.ends[0].write(pair.now, Write::bytes(100_000));
        assert!(pair.run_while(5.0, |p| p.sinks[1].delivered < 100_000));
        let c = pair.ends[0].report().paths[0].counters;
        assert_eq!((c.timeouts, c.probes), (timeouts, probes), "{recovery:?}");
    }
}

#[test]
fn retransmission_timer_doubles_and_ends_connection() {
    let config = all(Recovery::Sack).retries(3);
    let mut pair = pair(&config, Wire::new(10));
    pair.run_until(0.1);
    pair.wires.values_mut().for_each(|w| w.up = false);
    pair.ends[0].write(pair.now, Write::bytes(1000));
    pair.run_until(10.0);
    let times: Vec<u64> = (pair.log.iter())
        .filter(|(_, from, p)| *from == 0 && tcp(p).payload.len > 0)
        .map(|(at, _, _)| at.as_nanos() / 1_000_000)
        .collect();
    // The RTO is 222.4 ms (the minimum above the round trip of the handshake), then doubled.
    assert_eq!(times, [100, 322, 767, 1656]);
    assert_eq!(pair.ends[0].block().state(), State::Closed(Reason::TimedOut));
}

#[test]
fn lost_syn_sets_initial_timer_to_three_seconds() {
    for lost in [0, 1] {
        let mut pair = pair(&Config::default(), Wire::new(10));
        pair.filter = Some(Box::new(move |number, _| number == lost));
        pair.run_until(2.0);
        assert_eq!(pair.ends[0].report().paths[0].rto, Duration::from_secs(3), "RFC 6298 §5.7");
        pair.ends[0].write(pair.now, Write::bytes(10_000));
        pair.run_until(3.0);
        assert!(pair.ends[0].report().paths[0].rto < Duration::from_millis(300), "once there is a sample");
    }
}

#[test]
fn slightly_longer_round_trip_causes_no_timeout() {
    // A steady round trip of 640 ms grows by 20 ms.
    let config = Config::default().receive_buffer(40_000).send_buffer(8_000_000);
    let mut pair = pair(&config, Wire::new(320));
    pair.run_until(1.0);
    pair.ends[0].write(pair.now, Write::bytes(8_000_000));
    pair.run_until(60.0);
    pair.wires.values_mut().for_each(|wire| wire.delay = Duration::from_millis(330));
    pair.run_until(80.0);
    let path = pair.ends[0].report().paths[0];
    assert!(path.counters.bytes_acked > 1_000_000 && path.outstanding > 0, "{path:?}");
    assert_eq!((path.counters.timeouts, path.counters.fast_retransmissions), (0, 0), "{path:?}");
}

#[test]
fn a_closed_window_is_probed_and_opens_again() {
    let config = Config::default().receive_buffer(20_000);
    let mut pair = pair(&config, Wire::new(10));
    pair.reading = false;
    pair.run_until(0.1);
    pair.ends[0].write(pair.now, Write::bytes(100_000));
    pair.run_until(5.0);
    assert_eq!(pair.ends[1].readable(), 20_000);
    let c = pair.ends[0].report().paths[0].counters;
    assert!(c.probes >= 2 && c.timeouts == 0, "{c:?}");
    let [congestion, receive] = blocked(&pair);
    assert!(receive > 4800 && congestion < 100, "{congestion} ms, {receive} ms");
    pair.reading = true;
    assert!(pair.run_while(8.0, |p| p.sinks[1].delivered < 100_000));
}

#[test]
fn late_read_of_wide_window_sends_no_update() {
    // The buffer may grow to 6 MB and has 128 kB now, so 20 kB are no part worth an update.
    let config = Config::default().receive_buffer(6_000_000).receive_autotuning(true);
    let mut pair = pair(&config, Wire::new(10));
    pair.reading = false;
    pair.run_until(0.1);
    pair.ends[0].write(pair.now, Write::bytes(20_000));
    pair.run_until(1.0);
    assert_eq!(pair.ends[1].read(pair.now, u64::MAX).map(|delivery| delivery.len), Some(20_000));
    assert!(!pair.ends[1].window_update_due());
}

/// Milliseconds for which the client waited: for its congestion window, for the receive window.
fn blocked(pair: &Pair<Connection>) -> [u64; 2] {
    let Limits { connection, paths, .. } = pair.ends[0].limits(pair.now);
    assert_eq!(paths, core::slice::from_ref(&connection), "the only path");
    let window = [Limit::SlowStart, Limit::Avoidance, Limit::Recovery, Limit::Timeout];
    let congestion = window.map(|limit| connection.by(limit).as_millis()).iter().sum();
    [congestion, connection.by(Limit::ReceiveWindow).as_millis()]
}

#[test]
fn only_saturated_connection_is_counted_as_blocked() {
    let mut pair = pair(&Config::default(), Wire::new(10));
    pair.run_until(1.0);
    pair.ends[0].write(pair.now, Write::bytes(2_000_000));
    pair.run_until(2.0);
    let [congestion, receive] = blocked(&pair);
    assert!((950..=1000).contains(&congestion) && receive < 50, "{congestion} ms, {receive} ms");

    // 20 kB/s are far less than the initial window permits.
    assert!(pair.run_while(20.0, |p| p.sinks[1].delivered < 2_000_000));
    let before = blocked(&pair);
    for _ in 0..100 {
        pair.ends[0].write(pair.now, Write::bytes(2000));
        pair.run_until(pair.now.as_secs_f64() + 0.1);
    }
    assert_eq!(blocked(&pair), before);
}

#[test]
fn reset_needs_the_exact_sequence_number() {
    let mut pair = pair(&Config::default(), Wire::new(10));
    pair.run_until(0.1);
    pair.ends[0].write(pair.now, Write::bytes(5000));
    pair.run_until(1.0);
    let last = tcp(&pair.log.iter().rev().find(|(_, from, _)| *from == 0).expect("sent").2).clone();
    let mut reset = Segment { flags: Flags::RST, ..last };
    reset.options = anabranch_wire::tcp::Options::default();
    reset.payload = anabranch_wire::Payload::EMPTY;
    let exact = pair.ends[1].block().received();
    let first = reset.seq.sub(pair.ends[1].block().stream_position(reset.seq) as u32);
    for (at, ends) in [(exact + 1, false), (exact, true)] {
        reset.seq = first.add(at as u32);
        let packet =
            Packet { source: CLIENT, destination: SERVER, ecn: Ecn::NotEct, body: Body::Tcp(reset.clone()) };
        pair.ends[1].handle_packet(pair.now, packet, &anabranch_wire::Pattern);
        assert_eq!(pair.ends[1].block().state() == State::Closed(Reason::Reset), ends);
    }
}

#[test]
fn ends_with_full_windows_accept_acknowledgements() {
    let config = all(Recovery::Sack).receive_buffer(3000);
    let mut pair = pair(&config, Wire::new(10));
    pair.run_until(0.1);
    // The first segment of each end arrives, too small to move the window. The data that fills the window, and every
    // acknowledgement, is lost.
    let first = |_, packet: &Packet| {
        let segment = tcp(packet);
        let offset = segment.payload.offset;
        segment.payload.len == 0 || offset > 0
    };
    pair.filter = Some(Box::new(first));
    for (len, until) in [(900, 0.12), (2100, 0.15)] {
        pair.ends.iter_mut().for_each(|end| assert_eq!(end.write(pair.now, Write::bytes(len)), len));
        pair.run_until(until);
    }
    pair.filter = None;
    pair.run_until(20.0);
    assert_eq!([0, 1].map(|end: usize| pair.sinks[end].delivered), [3000, 3000]);
}

#[test]
fn a_repeated_fin_is_no_data_packet() {
    let mut pair = pair(&Config::default(), Wire::new(10));
    pair.run_until(0.1);
    pair.ends[0].write(pair.now, Write::bytes(1000));
    pair.run_until(0.5);
    pair.wires.values_mut().for_each(|wire| wire.up = false);
    pair.ends[0].close(pair.now);
    pair.run_until(1.0);
    pair.wires.values_mut().for_each(|wire| wire.up = true);
    pair.run_until(3.0);
    let fins = pair.log.iter().filter(|(_, from, p)| *from == 0 && tcp(p).flags.contains(Flags::FIN)).count();
    let counters = pair.ends[0].report().paths[0].counters;
    assert!(fins > 1 && counters.timeouts > 0, "{fins} {counters:?}");
    assert_eq!((counters.data_packets_sent, counters.timeout_retransmissions), (1, 0));
}

#[test]
fn an_abort_resets_the_peer() {
    let mut pair = pair(&Config::default(), Wire::new(10));
    pair.run_until(0.1);
    pair.ends[0].abort(pair.now);
    pair.run_until(0.2);
    assert_eq!(pair.ends[1].block().state(), State::Closed(Reason::Reset));
}

#[test]
fn side_without_state_resets_half_open_connection() {
    let mut pair = pair(&Config::default(), Wire::new(10));
    pair.run_until(0.1);
    // The server restarts: a new listener without state of the connection.
    pair.ends[1] = Connection::listening(Config::default(), &listening(1500), Secrets::new([9; 32]));
    pair.ends[1].connect(pair.now);
    pair.ends[0].write(pair.now, Write::bytes(1000));
    pair.run_until(0.5);
    assert_eq!(pair.ends[0].block().state(), State::Closed(Reason::Reset));
}

#[test]
fn unanswered_syn_times_out_and_shrinks_window() {
    let mut dead = pair(&Config::default().syn_retries(2), Wire { up: false, ..Wire::new(10) });
    dead.run_until(60.0);
    assert_eq!(dead.log.len(), 3);
    assert_eq!(dead.ends[0].block().state(), State::Closed(Reason::TimedOut));
    let mut late = pair(&Config::default(), Wire::new(10));
    late.filter = Some(Box::new(|number, _| number == 0));
    late.run_until(1.1);
    assert_eq!(late.ends[0].report().paths[0].cwnd, 1448);
}

#[test]
fn simultaneous_open_connects() {
    let config = Config::default();
    let (a, b) = (SocketAddr::new(CLIENT, 7), SocketAddr::new(SERVER, 8));
    let one = Connection::connecting(config.clone(), &Ends::connecting(a, 1500, b), Secrets::new([1; 32]));
    let two = Connection::connecting(config, &Ends::connecting(b, 1500, a), Secrets::new([2; 32]));
    let mut pair = Pair::new(one, two, &[(CLIENT, SERVER, Wire::new(10))], 1);
    pair.run_until(0.1);
    assert!(pair.ends.iter().all(|e| e.block().state() == State::Established));
    assert!(pair.send_file(50_000, 5.0));
}

#[test]
fn nagle_holds_a_second_small_segment_back() {
    for (nagle, expected) in [(false, 3), (true, 2)] {
        let mut pair = pair(&Config::default().nagle(nagle), Wire::new(50));
        pair.run_until(0.3);
        for _ in 0..3 {
            pair.ends[0].write(pair.now, Write::bytes(100));
            pair.settle();
        }
        pair.run_until(1.0);
        let data = pair.sent(0, |p| (tcp(p).payload.len > 0).then_some(tcp(p).payload.len));
        assert_eq!(data.len(), expected, "{data:?}");
    }
}

#[test]
fn nagle_sends_new_data_once_a_segment_is_full() {
    let mut pair = pair(&Config::default().nagle(true), Wire::new(50));
    pair.run_until(0.3);
    let (now, end) = (pair.now, &mut pair.ends[0]);
    let mut lengths = |bytes: u64| {
        assert_eq!(end.write(now, Write::bytes(bytes)), bytes);
        core::iter::from_fn(|| end.poll_transmit(now)).map(|p| tcp(&p).payload.len).collect::<Vec<_>>()
    };
    assert_eq!((lengths(100), lengths(100)), (vec![100], vec![]), "Nagle");
    assert_eq!(lengths(1400), [1448], "the data now fills a segment");
    // The window of ten segments fills, and data waits behind it.
    assert_eq!((lengths(20_000).len(), lengths(20_000).len()), (8, 0));
    // The test does not pass on the segments polled above, so they are lost.
    pair.run_until(20.0);
    assert_eq!(pair.sinks[1].delivered, 100 + 100 + 1400 + 20_000 + 20_000);
}

#[test]
fn ecn_marks_reduce_window_once_a_round_trip() {
    let config = all(Recovery::Sack).ecn(true);
    let mut pair = pair(&config, Wire { serialisation: Duration::ZERO, ..Wire::new(50) });
    pair.run_until(0.1);
    pair.ends[0].write(pair.now, Write::bytes(20_000));
    pair.run_until(0.11);
    let mut mark = pair.log.last().expect("data was sent").2.clone();
    assert_eq!(mark.ecn, Ecn::Ect0);
    mark.ecn = Ecn::Ce;
    let before = pair.ends[0].report().paths[0].cwnd;
    pair.ends[1].handle_packet(pair.now, mark, &anabranch_wire::Pattern);
    pair.run_until(0.25);
    let report = pair.ends[0].report().paths[0];
    assert_eq!((report.counters.ecn_reductions, report.counters.fast_retransmissions), (1, 0));
    assert!(report.cwnd < before, "{} {before}", report.cwnd);
    pair.ends[0].write(pair.now, Write::bytes(20_000));
    pair.run_until(0.5);
    let cwr = pair.sent(0, |p| tcp(p).flags.contains(Flags::CWR).then_some(()));
    assert_eq!(cwr.len(), 2); // on the SYN and on the first new data after the reduction
}

#[test]
fn delayed_ack_halves_the_number_of_acknowledgements() {
    let acks = |delayed_ack| {
        let wire = Wire { queue: 10_000, ..Wire::new(10) };
        let mut pair = pair(&Config::default().delayed_ack(delayed_ack), wire);
        assert!(pair.send_file(1_000_000, 10.0));
        pair.sent(1, |_| Some(())).len()
    };
    let (every, second) = (acks(None), acks(Config::default().delayed_ack));
    assert!(every > 690 && second < every * 6 / 10, "{every} {second}");
}

#[test]
fn old_timestamps_are_refused() {
    let mut pair = pair(&Config::default(), Wire::new(10));
    pair.run_until(0.1);
    pair.ends[0].write(pair.now, Write::bytes(1000));
    pair.run_until(0.2);
    let data = |p: &Packet| (tcp(p).payload.len > 0).then(|| p.clone());
    let mut stale = pair.sent(0, data).pop_back().expect("data");
    pair.ends[0].write(pair.now, Write::bytes(1000));
    pair.run_until(0.5);
    let Body::Tcp(segment) = &mut stale.body else { panic!() };
    segment.seq = segment.seq.add(2000);
    pair.ends[1].handle_packet(pair.now, stale, &anabranch_wire::Pattern);
    assert_eq!(pair.ends[1].block().received(), 2000);
}

fn recoveries() -> impl Strategy<Value = Recovery> {
    prop_oneof![Just(Recovery::Sack), Just(Recovery::Prr), Just(Recovery::Rack)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn bytes_arrive_once_and_in_order_despite_faults(
        seed in any::<u64>(),
        (loss, reorder, duplicate) in (0.0..0.3_f64, 0.0..0.3_f64, 0.0..0.1_f64),
        (size, buffer) in (1_u64..300_000, 2_000_u64..200_000),
        recovery in recoveries(),
        (sack, timestamps, nagle, ecn, delayed) in any::<(bool, bool, bool, bool, bool)>(),
        queue in 2_u64..100,
    ) {
        let delayed_ack = delayed.then(|| Duration::from_millis(40));
        let config = Config::default()
            .receive_buffer(buffer)
            .recovery(recovery)
            .sack(sack)
            .timestamps(timestamps)
            .nagle(nagle)
            .ecn(ecn)
            .delayed_ack(delayed_ack)
            .retries(100)
            .syn_retries(100);
        let wire = Wire { queue, loss, reorder, duplicate, ..Wire::new(5) };
        let mut pair = pair_of(&config, &config, wire, seed);
        pair.keep_log = false;
        let arrived = pair.send_file(size, 20_000.0);
        prop_assert!(arrived, "{} of {size} at {:?}: {:?}", pair.sinks[1].delivered, pair.now, pair.ends);
        prop_assert!(pair.now < Time::from_secs_f64(20_000.0));
    }
}

#[test]
fn sequence_numbers_wrap_in_a_long_transfer() {
    // Jumbograms shorten the test: 5 GB exceed the range of sequence numbers.
    for recovery in [Recovery::Sack, Recovery::Rack] {
        let config = Config::default().recovery(recovery);
        let wire =
            Wire { serialisation: Duration::from_micros(50), loss: 0.001, reorder: 0.001, ..Wire::new(1) };
        let mut pair = pair_over(65_535, [&config, &config], wire, 1);
        pair.keep_log = false;
        assert!(pair.send_file(5_000_000_000, 1000.0), "{:?}", pair.sinks[1].delivered);
        pair.ends[1].close(pair.now);
        pair.run_until(pair.now.as_secs_f64() + 5.0);
        assert!(pair.sinks[1].events.contains(&Event::Closed(Reason::Closed)));
    }
}

#[test]
fn initial_numbers_depend_on_secrets_and_endpoints() {
    let syn = |secrets: u8, port: u16, millis: u64| {
        let from = SocketAddr::new(CLIENT, port);
        let ends = Ends::connecting(from, 1500, SocketAddr::new(SERVER, 5001));
        let mut client = Connection::connecting(Config::default(), &ends, Secrets::new([secrets; 32]));
        let now = Time::ZERO + Duration::from_millis(millis);
        client.connect(now);
        let packet = client.poll_transmit(now).expect("a SYN");
        (tcp(&packet).seq, tcp(&packet).options.timestamps.expect("offered").value)
    };
    assert_eq!(syn(1, 40_000, 5), syn(1, 40_000, 5));
    // 4 ms later: the sequence number has advanced by a thousand ticks of 4 µs, the timestamp by 4 ms.
    let (first, second) = (syn(1, 40_000, 5), syn(1, 40_000, 9));
    assert_eq!((second.0, second.1), (first.0.add(1000), first.1.wrapping_add(4)));
    assert!(syn(1, 40_001, 5).0 != first.0 && syn(1, 40_001, 5).1 != first.1);
    assert!(syn(2, 40_000, 5).0 != first.0 && syn(2, 40_000, 5).1 != first.1);
}

#[test]
fn connection_continues_from_the_syn_cookie_number() {
    let mut pair = pair(&Config::default(), Wire::new(10));
    let mut listener = Connection::listening(Config::default(), &listening(1500), Secrets::new([7; 32]))
        .with_initial_sequence(0xc00c_1e00);
    let syn = pair.ends[0].poll_transmit(Time::ZERO).expect("a SYN");
    let mut answer = syn.clone();
    (answer.source, answer.destination) = (SERVER, CLIENT);
    let Body::Tcp(segment) = &mut answer.body else { unreachable!("made as TCP") };
    (segment.source_port, segment.destination_port) = (5001, 40_000);
    segment.flags |= Flags::ACK;
    (segment.ack, segment.seq) = (segment.seq.add(1), anabranch_wire::seq::Serial(0xc00c_1e00));
    let ends = (SocketAddr::new(SERVER, 5001), SocketAddr::new(CLIENT, 40_000));
    let value = super::timestamp_offset(&Secrets::new([7; 32]), ends);
    segment.options.timestamps = segment.options.timestamps.map(|t| Timestamps { value, echo: t.value });
    pair.ends[0].handle_packet(Time::ZERO, answer, &anabranch_wire::Pattern);
    let proof = pair.ends[0].poll_transmit(Time::ZERO).expect("the third segment");
    for packet in [syn, proof] {
        listener.handle_packet(Time::ZERO, packet, &anabranch_wire::Pattern);
    }
    assert_eq!(listener.block().state(), State::Established);
    assert_eq!(
        listener.poll_transmit(Time::ZERO).map(|packet| tcp(&packet).flags),
        None,
        "no second SYN/ACK"
    );
    pair.ends[1] = listener;
    assert!(pair.send_file(100_000, 5.0));
}

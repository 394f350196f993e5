//! Segments that no well-behaved peer sends, or not in this order, and the reactions that RFC 9293 and related RFCs
//! require.

use super::{Config, Connection, Recovery, State};
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::endpoint::{Endpoint, Event, Reason, Write};
use anabranch_endpoint::{Address, Ends, Secrets};
use anabranch_testkit::harness::{Pair, Wire};
use anabranch_wire::tcp::{Flags, Segment};
use anabranch_wire::{Body, Packet, Payload};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

fn pair(config: &Config) -> Pair<Connection> {
    let (local, remote) = (SocketAddr::new(CLIENT, 40_000), SocketAddr::new(SERVER, 5001));
    let (client, server) =
        (Ends::connecting(local, 1500, remote), Ends::listening(vec![Address::new(SERVER, 1500)], 5001));
    let c = Connection::connecting(config.clone(), &client, Secrets::new([1; 32]));
    let s = Connection::listening(config.clone(), &server, Secrets::new([2; 32]));
    Pair::new(c, s, &[(CLIENT, SERVER, Wire::new(10))], 1)
}

fn tcp(packet: &Packet) -> &Segment {
    match &packet.body {
        Body::Tcp(segment) => segment,
        other => panic!("not TCP: {other:?}"),
    }
}

/// A pair in which the client has sent `bytes` bytes.
pub(super) fn established(config: &Config, bytes: u64) -> Pair<Connection> {
    let mut pair = pair(config);
    pair.run_until(0.1);
    pair.ends[0].write(pair.now, Write::bytes(bytes));
    pair.run_until(0.5);
    pair
}

/// Delivers the last segment of one end to the other, altered by `change`.
pub(super) fn forge(pair: &mut Pair<Connection>, from: usize, change: impl FnOnce(&mut Segment)) {
    let mut packet = pair.log.iter().rev().find(|(_, end, _)| *end == from).expect("a packet").2.clone();
    let Body::Tcp(segment) = &mut packet.body else { panic!("not TCP") };
    change(segment);
    pair.ends[1 - from].handle_packet(pair.now, packet, &anabranch_wire::Pattern);
}

#[test]
fn fin_at_old_data_changes_nothing() {
    let mut pair = established(&Config::default(), 1000);
    forge(&mut pair, 0, |segment| {
        segment.payload = Payload::new(0, 500);
        segment.flags |= Flags::FIN;
    });
    assert_eq!(pair.ends[1].readable(), 0);
    pair.settle();
    assert!(!pair.sinks[1].finished);
    assert_eq!(pair.ends[1].block().state(), State::Established);
    // Later data arrives nevertheless.
    pair.ends[0].write(pair.now, Write::bytes(1000));
    pair.ends[0].close(pair.now);
    pair.run_until(1.0);
    assert_eq!((pair.sinks[1].delivered, pair.sinks[1].finished), (2000, true));
}

#[test]
fn fin_before_received_data_is_ignored() {
    let mut pair = established(&Config::default(), 1000);
    forge(&mut pair, 0, |segment| {
        segment.seq = segment.seq.add(3000);
        segment.payload = Payload::new(3000, 1000);
    });
    pair.settle();
    forge(&mut pair, 0, |segment| {
        segment.seq = segment.seq.add(2000);
        segment.payload = Payload::new(2000, 500);
        segment.flags |= Flags::FIN;
    });
    pair.settle();
    forge(&mut pair, 0, |segment| {
        segment.seq = segment.seq.add(1000);
        segment.payload = Payload::new(1000, 2000);
    });
    pair.settle();
    assert_eq!((pair.sinks[1].delivered, pair.sinks[1].finished), (4000, false));
}

#[test]
fn segment_before_the_first_byte_is_ignored() {
    let mut pair = established(&Config::default(), 1000);
    forge(&mut pair, 0, |segment| {
        segment.seq = segment.seq.sub(10);
        segment.payload = Payload::new(0, 1400);
    });
    pair.settle();
    assert_eq!(pair.sinks[1].delivered, 1000);
}

#[test]
fn data_into_a_closed_window_is_acknowledged() {
    let mut pair = pair(&Config::default().receive_buffer(10_000));
    pair.reading = false;
    pair.run_until(0.1);
    pair.ends[0].write(pair.now, Write::bytes(10_000));
    pair.run_until(1.0);
    assert_eq!(pair.ends[1].readable(), 10_000);
    // RFC 9293 §3.8.6.1: a probe of one byte, as some stacks send it; and a bare FIN.
    for flags in [Flags::ACK, Flags::ACK | Flags::FIN] {
        forge(&mut pair, 0, |segment| {
            segment.seq = segment.seq.add(segment.payload.len);
            segment.payload = Payload::new(10_000, u32::from(flags == Flags::ACK));
            segment.flags = flags;
        });
        let answer = pair.ends[1].poll_transmit(pair.now).expect("an acknowledgement");
        assert_eq!(tcp(&answer).window, 0);
    }
    // A FIN needs no room in the window.
    assert_eq!(pair.ends[1].block().state(), State::CloseWait);
}

#[test]
fn server_may_close_before_handshake_completes() {
    let mut pair = pair(&Config::default());
    // The first SYN/ACK is lost.
    pair.filter = Some(Box::new(|number, _| number == 1));
    pair.run_until(0.0116); // the SYN has arrived
    assert_eq!(pair.ends[1].block().state(), State::SynReceived);
    pair.ends[1].close(pair.now);
    pair.run_until(1.5);
    assert!(pair.sinks[0].finished && pair.sinks[0].events.contains(&Event::Connected));
    pair.ends[0].close(pair.now);
    pair.run_until(2.0);
    assert!(pair.sinks[0].events.contains(&Event::Closed(Reason::Closed)));
    assert!(pair.sinks[1].events.contains(&Event::Closed(Reason::Closed)));
}

#[test]
fn window_scale_is_answered_only_if_offered() {
    // With a buffer below 64 KiB the shift would be zero, but the option must still be absent (RFC 7323 §2.2).
    let mut pair = pair(&Config::default().receive_buffer(30_000));
    pair.tampering = Some(|packet| {
        if let Body::Tcp(segment) = &mut packet.body {
            segment.options.window_scale = segment.options.window_scale.filter(|_| packet.source == SERVER);
        }
    });
    pair.run_until(0.1);
    assert_eq!(tcp(&pair.log[1].2).options.window_scale, None);
}

#[test]
fn a_repeated_answer_to_a_syn_gives_no_sample() {
    let mut pair = pair(&Config::default().timestamps(false));
    pair.run_until(0.0116);
    let syn = pair.log[0].2.clone();
    pair.now = Time::from_secs_f64(0.030);
    pair.ends[1].handle_packet(pair.now, syn, &anabranch_wire::Pattern);
    pair.run_until(0.5);
    // 10 ms each way and the serialisation of two headers: about 20 ms, not less.
    let srtt = pair.ends[1].report().paths[0].srtt;
    assert!(srtt.is_none_or(|srtt| srtt >= Duration::from_millis(20)), "{srtt:?}");
}

#[test]
fn an_old_acknowledgement_does_not_open_the_window() {
    let mut pair = established(&Config::default().receive_buffer(20_000), 8000);
    let window = pair.ends[0].block().peer_window();
    forge(&mut pair, 1, |segment| {
        segment.seq = segment.seq.add(100);
        segment.ack = segment.ack.sub(5000);
        segment.window = u16::MAX;
    });
    assert_eq!(pair.ends[0].block().peer_window(), window);
}

#[test]
fn timer_stays_doubled_until_new_data_is_acknowledged() {
    // RFC 6298 §5 and Karn: without timestamps, the acknowledgement of a retransmission gives no sample of the round
    // trip.
    let config = Config::default().timestamps(false).recovery(Recovery::Sack);
    let mut pair = pair(&config);
    let mut data = 0;
    pair.filter = Some(Box::new(move |_, packet| {
        data += usize::from(tcp(packet).payload.len > 0);
        tcp(packet).payload.len > 0 && data <= 3
    }));
    pair.run_until(0.1);
    pair.ends[0].write(pair.now, Write::bytes(1000));
    pair.run_until(5.0);
    assert_eq!(pair.ends[0].block().acknowledged(), 1000);
    assert_eq!(pair.ends[0].report().paths[0].rto, Duration::from_micros(222_400 * 8));
    pair.ends[0].write(pair.now, Write::bytes(1000));
    pair.run_until(6.0);
    let rto = pair.ends[0].report().paths[0].rto;
    assert!(rto < Duration::from_millis(300), "{rto:?}");
}

#[test]
fn unnecessary_tail_loss_probe_costs_nothing() {
    // RFC 8985 §7.4.2: the acknowledgement of the original is late and covers exactly the probed data.
    let mut pair = established(&Config::default().recovery(Recovery::Rack), 50_000);
    pair.wires.values_mut().for_each(|wire| wire.delay = Duration::from_millis(75));
    pair.ends[0].write(pair.now, Write::bytes(5000));
    pair.run_until(2.0);
    let path = pair.ends[0].report().paths[0];
    assert_eq!((path.counters.probes, path.counters.timeouts, path.ssthresh), (1, 0, u64::MAX), "{path:?}");
}

#[test]
fn reset_has_timestamps_of_the_connection() {
    let mut pair = established(&Config::default(), 1000);
    let echo = |packet: &Packet| tcp(packet).options.timestamps.map(|stamps| stamps.echo);
    pair.ends[0].abort(pair.now);
    pair.settle();
    let reset = &pair.log.last().expect("a packet").2;
    assert!(tcp(reset).flags.contains(Flags::RST));
    let (_, _, answer) = pair.log.iter().rev().find(|(_, end, _)| *end == 1).expect("an answer");
    assert_eq!(echo(reset), tcp(answer).options.timestamps.map(|stamps| stamps.value));
}

#[test]
fn window_opens_after_timeout_of_a_single_segment() {
    let mut pair = established(&Config::default(), 1000);
    let mut seen = 0;
    // The segment and its probe are lost; the retransmission of the timeout fills the window of one segment.
    pair.filter = Some(Box::new(move |_, packet| {
        let data = !tcp(packet).payload.is_empty();
        seen += u32::from(data);
        data && seen <= 2
    }));
    pair.ends[0].write(pair.now, Write::bytes(1000));
    pair.run_until(3.0);
    let path = pair.ends[0].report().paths[0];
    assert_eq!((path.counters.timeouts, path.counters.bytes_acked), (1, 2000));
    // One segment after the timeout, and the acknowledged bytes (RFC 3465).
    assert_eq!(path.cwnd, u64::from(path.mss) + 1000);
}

//! Spurious losses and timeouts: each signal that reveals them, and real losses that must not be undone.

use super::tests::{CLIENT, SERVER, pair};
use super::{Config, Connection};
use anabranch_base::time::Duration;
use anabranch_endpoint::endpoint::{Endpoint, PathReport, Write};
use anabranch_testkit::harness::{Pair, Wire};
use anabranch_wire::{Body, Packet};

/// One-way delay in milliseconds.
const DELAY_MS: u64 = 20;

fn config(timestamps: bool) -> Config {
    Config::default().timestamps(timestamps)
}

/// A connection in the middle of a transfer that fills no queue.
fn transferring(config: &Config) -> Pair<Connection> {
    let mut pair = pair(config, Wire { queue: 10_000, ..Wire::new(DELAY_MS) });
    pair.run_until(0.1);
    pair.ends[0].write(pair.now, Write::bytes(1_000_000));
    pair.run_until(0.3);
    pair
}

fn path(pair: &Pair<Connection>) -> PathReport {
    pair.ends[0].report().paths[0]
}

/// Delays all packets for `millis` milliseconds, and then delivers them.
fn stall(pair: &mut Pair<Connection>, millis: u64) {
    let wire = pair.wires.get_mut(&(CLIENT, SERVER)).expect("the wire");
    wire.free_at = wire.free_at.max(pair.now) + Duration::from_millis(millis);
}

fn payload(packet: &Packet) -> u32 {
    match &packet.body {
        Body::Tcp(segment) => segment.payload.len,
        other => panic!("not TCP: {other:?}"),
    }
}

/// Delays the `number`th data packet from now on, so that it arrives behind the next `behind` ones.
fn delay_one(pair: &mut Pair<Connection>, number: usize, behind: usize) {
    let (mut seen, mut held) = (0, None);
    pair.middlebox = Some(Box::new(move |packets| {
        let mut out = Vec::new();
        for packet in packets {
            let data = packet.source == CLIENT && payload(&packet) > 0;
            seen += usize::from(data);
            if data && seen == number {
                held = Some(packet);
                continue;
            }
            out.push(packet);
            if data && seen == number + behind {
                out.extend(held.take());
            }
        }
        out
    }));
}

#[test]
fn timeout_after_a_delay_spike_is_undone() {
    // With timestamps the reaction is undone at the first acknowledgement, without them by F-RTO.
    for timestamps in [true, false] {
        let mut pair = transferring(&config(timestamps));
        let before = path(&pair);
        stall(&mut pair, 700);
        pair.run_until(1.0);
        let during = path(&pair);
        assert!(during.counters.timeouts > 0 && during.cwnd <= u64::from(during.mss), "{during:?}");
        pair.run_until(1.3);
        let after = path(&pair);
        assert_eq!(after.counters.undone, 1, "{timestamps} {after:?}");
        assert!(after.cwnd >= before.cwnd && after.ssthresh == u64::MAX, "{before:?}\n{after:?}");
        let needless = after.counters.timeout_retransmissions + after.counters.fast_retransmissions;
        assert!(needless <= 3, "{timestamps} {after:?}");
        assert!(pair.run_while(5.0, |p| p.sinks[1].delivered < 1_000_000));
    }
}

#[test]
fn timeout_after_an_outage_is_not_undone() {
    for timestamps in [true, false] {
        let mut pair = transferring(&config(timestamps));
        pair.wires.values_mut().for_each(|wire| wire.up = false);
        pair.run_until(1.0);
        pair.wires.values_mut().for_each(|wire| wire.up = true);
        assert!(pair.run_while(10.0, |p| p.sinks[1].delivered < 1_000_000));
        let path = path(&pair);
        assert!(path.counters.timeouts > 0 && path.ssthresh < u64::MAX, "{path:?}");
        assert_eq!(path.counters.undone, 0, "{timestamps} {path:?}");
    }
}

#[test]
fn recovery_for_a_late_segment_is_undone() {
    // With timestamps the reaction is undone when the segment arrives; without them, when the receiver reports the
    // retransmission as a duplicate.
    for timestamps in [true, false] {
        let mut pair = transferring(&config(timestamps));
        let before = path(&pair);
        delay_one(&mut pair, 5, 15);
        pair.run_until(0.75);
        let after = path(&pair);
        assert_eq!((after.counters.recoveries, after.counters.undone), (1, 1), "{timestamps} {after:?}");
        assert!(after.cwnd >= before.cwnd && after.ssthresh == u64::MAX, "{before:?}\n{after:?}");
        assert!(pair.run_while(5.0, |p| p.sinks[1].delivered < 1_000_000));
        assert_eq!(path(&pair).counters.timeouts, 0);
    }
}

#[test]
fn recovery_for_a_lost_segment_is_not_undone() {
    for timestamps in [true, false] {
        let mut pair = transferring(&config(timestamps));
        let mut data = 0;
        pair.filter = Some(Box::new(move |_, packet| {
            data += usize::from(payload(packet) > 0);
            payload(packet) > 0 && (data == 5 || data == 9)
        }));
        assert!(pair.run_while(5.0, |p| p.sinks[1].delivered < 1_000_000));
        let path = path(&pair);
        assert_eq!((path.counters.recoveries, path.counters.undone), (1, 0), "{timestamps} {path:?}");
        assert!(path.ssthresh < u64::MAX, "{path:?}");
    }
}

#[test]
fn late_segment_undoes_nothing_after_a_real_loss() {
    // One segment is lost and another is late: the D-SACK explains one of two retransmissions only.
    let mut pair = transferring(&config(false));
    let mut data = 0;
    delay_one(&mut pair, 8, 15);
    pair.filter = Some(Box::new(move |_, packet| {
        data += usize::from(payload(packet) > 0);
        payload(packet) > 0 && data == 5
    }));
    pair.run_until(0.6);
    let path = path(&pair);
    assert!(path.counters.fast_retransmissions >= 2, "{path:?}");
    assert_eq!(path.counters.undone, 0, "{path:?}");
}

#[test]
fn retransmissions_continue_at_once_without_new_data() {
    // Ten segments are lost, and there is no new data for step 2 of F-RTO.
    let mut pair = pair(&config(false), Wire::new(DELAY_MS));
    pair.run_until(0.1);
    pair.wires.values_mut().for_each(|wire| wire.up = false);
    pair.ends[0].write(pair.now, Write::bytes(14_000));
    pair.run_until(0.3);
    pair.wires.values_mut().for_each(|wire| wire.up = true);
    // A timeout, then slow start from one segment: four round trips.
    assert!(pair.run_while(0.75, |p| p.sinks[1].delivered < 14_000), "{:?}", path(&pair));
    assert_eq!(path(&pair).counters.timeouts, 1);
}

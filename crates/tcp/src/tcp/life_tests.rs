//! Closed windows, keep-alives and user timeouts, with silent peers and dead peers.

use super::adversarial_tests::{established, forge};
use super::{Config, Connection, State};
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::endpoint::{Endpoint, Reason, Write};
use anabranch_testkit::harness::Pair;
use anabranch_wire::tcp::Timestamps;

const HOUR_SECONDS: f64 = 3600.0;

/// Cuts the path: no further packet arrives.
fn cut(pair: &mut Pair<Connection>) {
    pair.wires.values_mut().for_each(|wire| wire.up = false);
}

/// Closes the server's window and announces that to the client.
fn shut(pair: &mut Pair<Connection>) {
    let acknowledged = pair.ends[0].block().acknowledged() as u32;
    let first = pair.ends[0].block().first;
    forge(pair, 1, |segment| {
        segment.ack = first.add(acknowledged);
        segment.window = 0;
    });
}

/// Keeps the server's window closed for `seconds`, while the server answers every segment of the client.
fn shut_out(pair: &mut Pair<Connection>, seconds: f64) {
    let end = pair.now + Duration::from_secs_f64(seconds);
    let mut answered = pair.log.len();
    while pair.step(end) {
        if pair.log.len() > answered {
            shut(pair);
            answered = pair.log.len();
        }
    }
}

fn state(pair: &Pair<Connection>) -> State {
    pair.ends[0].block().state()
}

#[test]
fn window_closed_over_sent_data_keeps_connection() {
    let mut pair = established(&Config::default(), 1000);
    cut(&mut pair);
    pair.ends[0].write(pair.now, Write::bytes(20_000));
    pair.settle();
    shut(&mut pair);
    shut_out(&mut pair, HOUR_SECONDS);
    assert_eq!(state(&pair), State::Established);
    // Once the window opens, the transfer continues at once.
    pair.wires.values_mut().for_each(|wire| wire.up = true);
    let (first, acknowledged) = (pair.ends[0].block().first, pair.ends[0].block().acknowledged() as u32);
    forge(&mut pair, 1, |segment| segment.ack = first.add(acknowledged));
    let now = pair.now.as_secs_f64();
    assert!(pair.run_while(now + 2.0, |p| p.sinks[1].delivered < 21_000), "{:?}", pair.sinks[1]);
}

#[test]
fn fin_at_a_closed_window_keeps_the_connection() {
    let mut pair = established(&Config::default(), 1000);
    cut(&mut pair);
    shut(&mut pair);
    pair.ends[0].close(pair.now);
    shut_out(&mut pair, HOUR_SECONDS);
    assert_eq!(state(&pair), State::FinWait1);
}

#[test]
fn dead_peer_behind_closed_window_is_detected() {
    for outstanding in [false, true] {
        let mut pair = established(&Config::default(), 1000);
        cut(&mut pair);
        if !outstanding {
            shut(&mut pair);
        }
        pair.ends[0].write(pair.now, Write::bytes(20_000));
        pair.settle();
        if outstanding {
            shut(&mut pair);
        }
        shut_out(&mut pair, 600.0);
        assert_eq!(state(&pair), State::Established);
        pair.run_until(2.0 * HOUR_SECONDS);
        assert_eq!(state(&pair), State::Closed(Reason::TimedOut), "data outstanding: {outstanding}");
    }
}

#[test]
fn keep_alives_distinguish_silent_and_dead_peers() {
    let config = Config::default().keepalive(Some(Duration::from_secs(10)));
    let mut pair = established(&config, 1000);
    pair.run_until(1000.0);
    assert_eq!(state(&pair), State::Established);
    let probes = pair.ends[0].report().paths[0].counters.probes;
    assert!((40..=110).contains(&probes), "one of the two ends probes every 10 s: {probes}");
    cut(&mut pair);
    pair.run_until(1085.0);
    assert_eq!(state(&pair), State::Established);
    pair.run_until(1111.0);
    assert_eq!(state(&pair), State::Closed(Reason::TimedOut));
    // Without keep-alives, no probe is sent.
    let mut pair = established(&Config::default(), 1000);
    cut(&mut pair);
    pair.run_until(HOUR_SECONDS);
    assert_eq!(state(&pair), State::Established);
}

#[test]
fn user_timeout_aborts_unacknowledged_connection() {
    let config = Config::default().user_timeout(Some(Duration::from_secs(5)));
    let mut pair = established(&config, 1000);
    pair.run_until(100.0);
    assert_eq!(state(&pair), State::Established, "no data is outstanding");
    cut(&mut pair);
    pair.ends[0].write(pair.now, Write::bytes(20_000));
    pair.run_until(104.9);
    assert_eq!(state(&pair), State::Established);
    pair.run_until(105.1);
    assert_eq!(state(&pair), State::Closed(Reason::TimedOut));
    // A peer that keeps its window closed is not silent.
    let mut pair = established(&config, 1000);
    cut(&mut pair);
    shut(&mut pair);
    pair.ends[0].write(pair.now, Write::bytes(20_000));
    shut_out(&mut pair, 4.0);
    assert_eq!(state(&pair), State::Established);
}

#[test]
fn changed_user_timeout_applies_to_outstanding_data() {
    let mut pair = established(&Config::default(), 1000);
    pair.ends[0].set_user_timeout(pair.now, Some(Duration::from_secs(3)));
    pair.run_until(100.0);
    assert_eq!(state(&pair), State::Established, "no data is outstanding");
    cut(&mut pair);
    pair.ends[0].write(pair.now, Write::bytes(20_000));
    pair.run_until(102.0);
    // Five seconds from now, instead of three from the first transmission.
    pair.ends[0].set_user_timeout(pair.now, Some(Duration::from_secs(5)));
    pair.run_until(106.9);
    assert_eq!(state(&pair), State::Established);
    pair.run_until(107.1);
    assert_eq!(state(&pair), State::Closed(Reason::TimedOut));
    // Without a timeout, the limit of retransmissions ends the connection after minutes.
    let mut pair = established(&Config::default().user_timeout(Some(Duration::from_secs(3))), 1000);
    cut(&mut pair);
    pair.ends[0].write(pair.now, Write::bytes(20_000));
    pair.run_until(2.0);
    pair.ends[0].set_user_timeout(pair.now, None);
    pair.run_until(100.0);
    assert_eq!(state(&pair), State::Established);
}

#[test]
fn data_for_a_closed_application_is_refused() {
    for bytes in [0, 1] {
        let mut pair = established(&Config::default(), 1000);
        cut(&mut pair);
        pair.ends[0].refuse_data();
        pair.ends[0].close(pair.now);
        pair.run_until(3.0);
        assert_eq!(state(&pair), State::FinWait1);
        forge(&mut pair, 1, |segment| segment.payload = anabranch_wire::Payload::new(0, bytes));
        pair.settle();
        let refused = bytes > 0;
        assert_eq!(state(&pair) == State::Closed(Reason::Aborted), refused, "{bytes}");
        // The server has not received the FIN, so it expects the number of the FIN.
        let expected = pair.ends[0].block().first.add(1000);
        let reset = pair.sent(0, |packet| match &packet.body {
            anabranch_wire::Body::Tcp(segment) if segment.flags == anabranch_wire::tcp::Flags::RST => {
                Some(segment.seq)
            }
            _ => None,
        });
        assert_eq!(reset, if refused { vec![expected] } else { Vec::new() });
    }
}

#[test]
fn thousand_syns_cause_few_challenge_acks() {
    let mut pair = established(&Config::default(), 1000);
    let before = pair.log.len();
    for _ in 0..1000 {
        forge(&mut pair, 0, |segment| {
            segment.flags = anabranch_wire::tcp::Flags::SYN;
            segment.payload = anabranch_wire::Payload::EMPTY;
        });
        pair.settle();
    }
    assert!((1..=2).contains(&(pair.log.len() - before)), "{} answers", pair.log.len() - before);
}

#[test]
fn older_timestamp_is_accepted_after_24_silent_days() {
    for (days, taken) in [(23, 1000), (25, 2000)] {
        let mut pair = established(&Config::default(), 1000);
        pair.now += Duration::from_secs(days * 86_400);
        forge(&mut pair, 0, |segment| {
            segment.seq = segment.seq.add(1000);
            segment.payload = anabranch_wire::Payload::new(1000, 1000);
            let Timestamps { value, echo } = segment.options.timestamps.expect("timestamps were negotiated");
            segment.options.timestamps = Some(Timestamps { value: value.wrapping_sub(1000), echo });
        });
        pair.settle();
        assert_eq!(pair.sinks[1].delivered, taken, "after {days} days");
        assert!(pair.now > Time::ZERO);
    }
}

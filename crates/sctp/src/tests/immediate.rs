//! The I bit (RFC 7053): a burst of fewer than two packets does not wait for a delayed SACK.

use super::pair::{A, App, B, Link, Net, at_ms, body, bulk, ms};
use crate::ImmediateSack;
use anabranch_endpoint::endpoint::Endpoint;
use anabranch_wire::sctp::{Chunk, DataFlags};
use std::sync::{Arc, Mutex};

/// Runs an association over a link of 10 ms. Returns the flags of each DATA chunk of the first endpoint, and the end
/// time.
fn flags(app: App, when: ImmediateSack, nagle: bool) -> (Vec<bool>, Net) {
    let mut net = Net::new(vec![Link::new(10, 10)], |_, config| {
        config.immediate_sack = when;
        config.nagle = nagle;
        config.nr_sack = false;
    });
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    net.filter = Some(Box::new(move |_, from, packet| {
        let asked = body(packet).chunks.iter().filter_map(|chunk| match chunk {
            Chunk::Data(data) => Some(data.flags.contains(DataFlags::IMMEDIATE)),
            _ => None,
        });
        if from == A {
            log.lock().expect("no thread panicked").extend(asked);
        }
        true
    }));
    net.apps[A] = app;
    net.connect();
    net.run_to_end(at_ms(60_000));
    let seen = seen.lock().expect("no thread panicked").clone();
    (seen, net)
}

#[test]
fn last_chunk_of_a_burst_requests_a_sack() {
    for (when, expected) in [(ImmediateSack::End, [false, true]), (ImmediateSack::Never, [false; 2])] {
        let (seen, mut net) = flags(App::sends(bulk(2, 1452)), when, true);
        assert_eq!(seen, expected);
        // The first chunk is acknowledged at once because it is the first data. The second waits for the delay, or not.
        net.run_until(at_ms(150));
        let left = net.ends[A].report().send_buffer;
        assert_eq!(left == 0, when == ImmediateSack::End, "{left} bytes in flight with {when:?}");
    }
}

#[test]
fn data_held_by_nagle_requests_a_sack() {
    // The first chunk is acknowledged at once because it is the first data. The second is therefore not a second
    // unacknowledged packet.
    let messages = [(1452, 0, true), (1452, 0, true), (100, 0, true)];
    for (when, by) in [(ImmediateSack::End, 100), (ImmediateSack::Never, 300)] {
        let (seen, net) = flags(App::sends(messages), when, true);
        assert_eq!(seen.iter().any(|asked| *asked), when == ImmediateSack::End, "{seen:?}");
        assert!(net.now < at_ms(by), "{when:?} took until {:?}", net.now);
        assert!(when == ImmediateSack::End || net.now > at_ms(200), "the delay of {:?} shows", net.now);
    }
}

#[test]
fn a_shutdown_does_not_wait_for_a_delayed_sack() {
    let app = App { close: true, ..App::sends(bulk(2, 1452)) };
    let (_, mut net) = flags(app, ImmediateSack::End, false);
    net.run_until(at_ms(150));
    assert!(net.closed(A).is_some() && net.closed(B).is_some(), "closed within {:?}", ms(150));
}

#[test]
fn chunk_that_fills_the_window_requests_a_sack() {
    let count = |when| {
        let (seen, _) = flags(App::sends(bulk(200, 1452)), when, true);
        seen.iter().filter(|asked| **asked).count()
    };
    assert_eq!(count(ImmediateSack::End), 1);
    assert!(count(ImmediateSack::Window) > 10);
}

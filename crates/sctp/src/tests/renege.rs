//! A receiver that reneges: it discards chunks that it has acknowledged after a gap.

use super::pair::{A, App, B, Link, Net, at_ms, body};
use anabranch_wire::sctp::Chunk;
use core::cell::Cell;
use std::rc::Rc;

/// A transfer that loses each TSN that is a multiple of 301 once; returns discarded and reneged chunks.
fn run(share: f64, (nr_sack, i_data): (bool, bool), (len, streams): (u64, u16)) -> (u64, u64) {
    let mut net = Net::new(vec![Link::new(10, 40)], |_, config| {
        (config.receive_buffer, config.streams) = (12_000, streams);
        (config.nr_sack, config.i_data, config.renege) = (nr_sack, i_data, share);
        (config.rto.initial, config.rto.min) = (super::pair::ms(300), super::pair::ms(300));
    });
    let last = Rc::new(Cell::new(None));
    net.filter = Some(Box::new(move |_, from, packet| {
        let tsn = body(packet).chunks.iter().filter(|_| from == A).find_map(Chunk::tsn).map(|tsn| tsn.0);
        // Losing some TSNs once stops the cumulative TSN while later chunks fill the buffer.
        let lost = tsn.is_some_and(|tsn| tsn % 301 == 0 && last.get() != Some(tsn));
        if lost {
            last.set(tsn);
        }
        !lost
    }));
    net.apps[A] =
        App::sends((0..3_000_000 / len).map(|number| (len, (number % u64::from(streams)) as u16, false)));
    net.connect();
    net.run_to_end(at_ms(300_000));
    net.check(A);
    net.recount();
    (net.extra(B, "chunks_discarded"), net.extra(A, "chunks_reneged"))
}

#[test]
fn discarded_chunks_are_sent_again() {
    for load in [(900, 1), (4_000, 1)] {
        for i_data in [false, true] {
            let (few, reneged) = run(0.2, (false, i_data), load);
            assert!(few > 0 && reneged > 0, "{few} {reneged} {load:?} {i_data}");
            let (all, _) = run(1.0, (false, i_data), load);
            assert!(all > 0, "{all}");
        }
    }
}

#[test]
fn receiver_keeps_chunks_after_nr_sack() {
    assert_eq!(run(1.0, (true, false), (900, 1)), (0, 0));
    assert_eq!(run(0.0, (false, false), (900, 1)), (0, 0));
}

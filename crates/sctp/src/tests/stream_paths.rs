//! Streams with fixed paths.

use super::pair::{A, App, B, Link, Net, at_ms, body};
use crate::{Config, RetransmissionPath, StreamPaths, StreamScheduler};
use anabranch_multipath::buffer::Rescheduling;
use anabranch_wire::sctp::Chunk;
use core::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

fn fixed(config: &mut Config) {
    *config = Config::for_cmt().send_buffer(1_000_000).receive_buffer(500_000);
    config.stream_paths = StreamPaths::Fixed;
    // No other rule moves a chunk.
    (config.retransmission, config.tail_loss_probe) = (RetransmissionPath::Same, false);
    config.rescheduling = Rescheduling::default();
    config.streams = 5;
}

/// Streams and paths of the data chunks that end A sends, over time.
fn logged(net: &mut Net) -> Rc<RefCell<BTreeSet<(u16, u8)>>> {
    let seen: Rc<RefCell<BTreeSet<(u16, u8)>>> = Rc::default();
    let log = Rc::clone(&seen);
    net.filter = Some(Box::new(move |_, from, packet| {
        let core::net::IpAddr::V4(source) = packet.source else { return true };
        for chunk in body(packet).chunks.iter().filter(|_| from == A) {
            match chunk {
                Chunk::Data(data) => log.borrow_mut().insert((data.stream, source.octets()[1])),
                Chunk::IData(data) => log.borrow_mut().insert((data.stream, source.octets()[1])),
                _ => false,
            };
        }
        true
    }));
    seen
}

fn messages(count: u64, len: u64) -> App {
    App::sends((0..count).map(move |number| (len, (number % 5) as u16, false)))
}

#[test]
fn stream_uses_path_of_its_number() {
    for (i_data, len) in [(false, 1_000), (true, 10_000), (false, 10_000)] {
        let links = vec![Link::new(10, 5), Link::new(4, 30), Link::new(2, 10)];
        let mut net = Net::new(links, |_, config| {
            fixed(config);
            config.i_data = i_data;
        });
        let seen = logged(&mut net);
        net.apps[A] = messages(2_000_000 / len, len);
        net.connect();
        // Until heartbeats have confirmed the other paths, the first one carries all streams.
        net.run_until(at_ms(300));
        seen.borrow_mut().clear();
        net.run_to_end(at_ms(60_000));
        net.check(A);
        let expected: BTreeSet<(u16, u8)> = (0..5).map(|stream| (stream, (stream % 3) as u8)).collect();
        assert_eq!(*seen.borrow(), expected);
    }
}

#[test]
fn stream_moves_while_its_path_is_inactive() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |_, config| fixed(config));
    net.links[1].up = false;
    let seen = logged(&mut net);
    net.apps[A] = messages(2_000, 1_000);
    net.connect();
    net.run_until(at_ms(20_000));
    net.check(A);
    assert!((0..5).all(|stream| seen.borrow().contains(&(stream, 0))));
    // The path answers again: its streams return.
    net.links[1].up = true;
    net.run_until(at_ms(600_000));
    seen.borrow_mut().clear();
    net.apps[A].outbox.extend((0..100).map(|number| (1_000, number % 5, false)));
    net.drain();
    net.run_until(at_ms(700_000));
    let expected: BTreeSet<(u16, u8)> = (0..5).map(|stream| (stream, (stream % 2) as u8)).collect();
    assert_eq!(*seen.borrow(), expected);
    net.check(A);
}

/// Every stream scheduler delivers with fixed paths, also with one stream.
#[test]
fn every_stream_scheduler_works_with_fixed_paths() {
    for scheduler in [
        StreamScheduler::Fcfs,
        StreamScheduler::RoundRobin,
        StreamScheduler::RoundRobinPacket,
        StreamScheduler::Priority,
        StreamScheduler::Fair,
        StreamScheduler::WeightedFair,
    ] {
        for (streams, i_data) in [(1, false), (5, false), (5, true)] {
            let lossy = Link { loss: 0.01, ..Link::new(10, 10) };
            let mut net = Net::new(vec![lossy.clone(), lossy], |_, config| {
                fixed(config);
                config.streams = streams;
                config.i_data = i_data;
                config.stream_scheduler = scheduler;
                config.stream_priorities = [3, 2, 1].into();
                config.stream_weights = [5, 0, 1].into();
            });
            let message = |number: u16| (4_000, number % streams, number.is_multiple_of(7));
            net.apps[A] = App::sends((0..300).map(message));
            net.connect();
            net.run_to_end(at_ms(60_000));
            net.check(A);
            net.recount();
        }
    }
}

/// RFC 8260 §3.3: a packet contains chunks of one stream only, although several messages fit.
#[test]
fn packet_of_round_robin_packet_has_one_stream() {
    for (scheduler, several) in
        [(StreamScheduler::RoundRobinPacket, false), (StreamScheduler::RoundRobin, true)]
    {
        let mut net = Net::new(vec![Link { queue: 10_000, ..Link::new(10, 5) }], |_, config| {
            config.stream_scheduler = scheduler;
            config.streams = 5;
        });
        let mixed = Rc::new(RefCell::new([0_u32; 2]));
        let log = Rc::clone(&mixed);
        net.filter = Some(Box::new(move |_, from, packet| {
            let streams: Vec<u16> = (body(packet).chunks.iter().filter(|_| from == A))
                .filter_map(|chunk| if let Chunk::Data(data) = chunk { Some(data.stream) } else { None })
                .collect();
            let different = streams.iter().collect::<BTreeSet<_>>().len();
            log.borrow_mut()[0] += u32::from(different > 1);
            log.borrow_mut()[1] += u32::from(streams.len() > 1);
            true
        }));
        net.apps[A] = messages(3_000, 300);
        net.connect();
        net.run_to_end(at_ms(60_000));
        net.check(A);
        assert_eq!(mixed.borrow()[0] > 0, several);
        assert!(mixed.borrow()[1] > 100, "chunks are bundled");
        assert_eq!(net.apps[B].read.len(), 3_000);
    }
}

//! Tests of the send queue.

use super::*;

fn order(scheduler: StreamScheduler, interleave: bool) -> Vec<(u16, u32)> {
    let mut queue = SendQueue::new(scheduler, interleave, 3, 0);
    let mut offset = 0;
    for (stream, len) in [(0, 250), (0, 100), (1, 100), (2, 100), (1, 100)] {
        queue.push(offset, &Write { stream, ..Write::bytes(len) });
        offset += len;
    }
    let mut out = Vec::new();
    while let Some(piece) = queue.cut(100) {
        out.push((piece.message.stream, piece.len));
    }
    assert_eq!(queue.bytes(), 0);
    out
}

#[test]
fn fcfs_sends_messages_in_order_of_writing() {
    let expected = [(0, 100), (0, 100), (0, 50), (0, 100), (1, 100), (2, 100), (1, 100)];
    assert_eq!(order(StreamScheduler::Fcfs, false), expected);
    assert_eq!(order(StreamScheduler::Fcfs, true), expected);
}

#[test]
fn round_robin_turns_between_messages_or_fragments() {
    let messages = [(0, 100), (0, 100), (0, 50), (1, 100), (2, 100), (0, 100), (1, 100)];
    assert_eq!(order(StreamScheduler::RoundRobin, false), messages);
    let fragments = [(0, 100), (1, 100), (2, 100), (0, 100), (1, 100), (0, 50), (0, 100)];
    assert_eq!(order(StreamScheduler::RoundRobin, true), fragments);
}

#[test]
fn fair_serves_stream_that_sent_least() {
    // Streams 1 and 2 have sent nothing while 0 sends its long message; then 1 and 2 have equal values, and the
    // lower number is first.
    let messages = [(0, 100), (0, 100), (0, 50), (1, 100), (2, 100), (1, 100), (0, 100)];
    assert_eq!(order(StreamScheduler::Fair, false), messages);
}

#[test]
fn a_started_message_precedes_other_streams() {
    let mut queue = SendQueue::new(StreamScheduler::RoundRobin, false, 2, 0);
    queue.push(0, &Write::bytes(200));
    assert_eq!(queue.cut(100).map(|p| (p.first, p.last)), Some((true, false)));
    queue.push(200, &Write { stream: 1, unordered: true, ..Write::bytes(10) });
    assert_eq!(queue.cut(100).map(|p| (p.message.stream, p.last)), Some((0, true)));
    assert_eq!(queue.cut(100).map(|p| (p.message.stream, p.message.unordered)), Some((1, true)));
    assert_eq!(queue.cut(100), None);
}

#[test]
fn added_streams_stop_at_the_maximum_number() {
    let mut queue = SendQueue::new(StreamScheduler::Fcfs, false, 4, 0);
    for _ in 0..2 {
        queue.add_streams(40_000);
    }
    assert_eq!(queue.streams(), u16::MAX);
}

#[test]
fn release_stops_at_the_first_unsent_message() {
    let mut queue = SendQueue::new(StreamScheduler::Fcfs, false, 2, 50);
    for (stream, len) in [(0, 100), (1, 200), (0, 300)] {
        queue.push(0, &Write { stream, ..Write::bytes(len) });
    }
    queue.release(1, 200);
    assert_eq!(queue.released(), 50);
    queue.release(0, 60);
    assert_eq!(queue.released(), 50);
    queue.release(0, 40);
    assert_eq!(queue.released(), 350);
    queue.release(2, 300);
    assert_eq!(queue.released(), 650);
}

/// Streams and lengths of all fragments of at most 100 bytes.
fn drain(queue: &mut SendQueue) -> Vec<(u16, u32)> {
    core::iter::from_fn(|| queue.cut(100)).map(|piece| (piece.message.stream, piece.len)).collect()
}

/// RFC 8260 §3.4: the stream with the highest priority goes first, and streams with the same priority take turns. With
/// I-DATA it interrupts a message of another stream.
#[test]
fn urgent_stream_goes_first() {
    for (interleave, after) in
        [(true, [(2, 100), (0, 100), (1, 100)]), (false, [(0, 100), (2, 100), (1, 100)])]
    {
        let mut queue = SendQueue::new(StreamScheduler::Priority, interleave, 3, 0).with_numbers(&[7, 7, 1]);
        queue.push(0, &Write { stream: 0, ..Write::bytes(200) });
        queue.push(200, &Write { stream: 1, ..Write::bytes(100) });
        assert_eq!(queue.cut(100).map(|piece| piece.message.stream), Some(0));
        queue.push(300, &Write { stream: 2, ..Write::bytes(100) });
        let mut order = drain(&mut queue);
        if interleave {
            // Streams 0 and 1 have the same priority, and it is the turn of stream 1.
            order[1..].sort_unstable();
        }
        assert_eq!(order, after);
    }
}

/// RFC 8260 §3.6: a weight of 3 gets three times the bytes of a weight of 1 while both have data.
#[test]
fn bytes_are_shared_by_weight() {
    let mut queue = SendQueue::new(StreamScheduler::WeightedFair, false, 3, 0).with_numbers(&[3, 1]);
    for number in 0..300 {
        queue.push(100 * number, &Write { stream: (number % 3) as u16, ..Write::bytes(100) });
    }
    let first: Vec<u16> = drain(&mut queue)[..100].iter().map(|&(stream, _)| stream).collect();
    let of = |stream: u16| first.iter().filter(|&&other| other == stream).count();
    // The third stream has no weight, which counts as 1.
    assert_eq!([of(0), of(1), of(2)], [60, 20, 20]);
}

/// RFC 8260 §3.3: the stream changes with the packet only.
#[test]
fn packet_has_messages_of_one_stream() {
    let mut queue = SendQueue::new(StreamScheduler::RoundRobinPacket, false, 2, 0);
    for number in 0..6 {
        queue.push(50 * number, &Write { stream: u16::from(number >= 3), ..Write::bytes(50) });
    }
    let mut packets = Vec::new();
    while queue.peek().is_some() {
        let two: Vec<u16> = (0..2).filter_map(|_| queue.cut(100)).map(|piece| piece.message.stream).collect();
        queue.end_packet();
        packets.push(two);
    }
    assert_eq!(packets, [vec![0, 0], vec![1, 1], vec![0], vec![1]]);
}

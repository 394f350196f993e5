use super::*;
use proptest::prelude::*;

/// The pattern bytes of a range of stream offsets.
fn bytes(range: core::ops::Range<u64>) -> Vec<u8> {
    range.map(Payload::byte).collect()
}

/// The bytes that the buffer writes for a payload.
fn filled(buffer: &SendBuffer, payload: Payload) -> Vec<u8> {
    let mut out = vec![0; payload.len as usize];
    buffer.fill(payload, &mut out);
    out
}

#[test]
fn written_bytes_are_kept_until_released() {
    let mut buffer = SendBuffer::default();
    buffer.write(&bytes(0..3000));
    buffer.release(1000);
    // The 6,000 kept bytes do not fit a ring of 4,096: the ring grows, and the bytes keep their offsets.
    buffer.write(&bytes(3000..7000));
    assert_eq!((buffer.written(), buffer.len()), (7000, 6000));
    assert_eq!(filled(&buffer, Payload::new(1000, 6000)), bytes(1000..7000));
    buffer.release(7000);
    assert!(buffer.is_empty());
    // The bytes from 7,000 to 11,000 cross the end of a ring of 8,192.
    buffer.write(&bytes(7000..11_000));
    assert_eq!(filled(&buffer, Payload::new(8000, 500)), bytes(8000..8500));
    assert!(filled(&buffer, Payload::EMPTY).is_empty());
}

#[test]
#[should_panic(expected = "is not among")]
fn released_bytes_cannot_be_sent_again() {
    let mut buffer = SendBuffer::default();
    buffer.write(&[1, 2, 3]);
    buffer.release(2);
    filled(&buffer, Payload::new(1, 2));
}

#[test]
#[should_panic(expected = "is not among")]
fn unwritten_bytes_cannot_be_sent() {
    let mut buffer = SendBuffer::default();
    buffer.write(&[1, 2, 3]);
    filled(&buffer, Payload::new(2, 2));
}

#[test]
fn stream_is_read_in_order_after_any_arrival_order() {
    let mut buffer = ReceiveBuffer::default();
    let mut out = Vec::new();
    buffer.place(5000, &bytes(5000..9000));
    buffer.place(0, &bytes(0..2000));
    buffer.read(0, 1500, &mut out);
    buffer.place(2000, &bytes(2000..5000));
    buffer.read(1500, 7500, &mut out);
    assert_eq!(out, bytes(0..9000));
    assert_eq!(buffer.next(), 9000);
}

#[test]
#[should_panic(expected = "has been read")]
fn bytes_that_were_read_cannot_arrive_again() {
    let mut buffer = ReceiveBuffer::default();
    buffer.place(0, &[1, 2]);
    buffer.read(0, 2, &mut Vec::new());
    buffer.place(1, &[2]);
}

#[test]
fn message_is_assembled_from_runs_of_fragments() {
    let mut fragments = Fragments::default();
    for (key, text) in [(9, "lo"), (7, "ab"), (20, " wor"), (8, "hel"), (21, "ld")] {
        fragments.place(key, text.as_bytes());
    }
    let mut out = b"> ".to_vec();
    fragments.collect(&[(8, 2), (20, 2)], &mut out);
    assert_eq!(out, b"> hello world");
    assert_eq!(fragments.len(), 1);
    // After its fragment was read, a key may be used again.
    fragments.place(8, b"c");
    fragments.collect(&[(7, 2)], &mut out);
    assert_eq!(out, b"> hello worldabc");
    assert!(fragments.is_empty());
}

#[test]
#[should_panic(expected = "two fragments")]
fn two_fragments_with_one_key_panic() {
    let mut fragments = Fragments::default();
    fragments.place(1, b"a");
    fragments.place(1, b"b");
}

#[test]
#[should_panic(expected = "two fragments with the key 4096")]
fn equal_keys_panic_where_other_keys_share_a_place() {
    let mut fragments = Fragments::default();
    for key in [0, 4096, 8192] {
        fragments.place(key, b"a");
    }
    fragments.forget((0, 1));
    fragments.place(4096, b"b");
}

#[test]
fn long_message_is_sent_from_its_buffer() {
    let mut buffer = SendBuffer::default();
    buffer.write_message(bytes(0..100));
    let long = bytes(100..6000);
    let at = long.as_ptr();
    buffer.write_message(long);
    buffer.write_message(bytes(6000..6010));
    assert_eq!(buffer.run(Payload::new(1000, 9)).as_ptr(), at.wrapping_add(900));
    // One payload covers the end of a short message, a long one, and the start of a short one.
    assert_eq!(filled(&buffer, Payload::new(99, 5903)), bytes(99..6002));
    buffer.release(3000);
    assert_eq!(filled(&buffer, Payload::new(3000, 3010)), bytes(3000..6010));
    buffer.release(6010);
    assert!(buffer.is_empty());
}

#[derive(Clone, Debug)]
enum Command {
    /// The application writes this number of bytes.
    Write(usize),
    /// The application writes a message of this number of bytes, in a buffer with room for as many, or for four times as many.
    Message(usize, bool),
    /// A part of the kept bytes is sent. The fields are its start as a share of the kept bytes, and its length as a
    /// share of the bytes after the start, in 255ths.
    Fill(u8, u8),
    /// This share of the kept bytes, in 255ths, is acknowledged and released.
    Release(u8),
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        (0..9000_usize).prop_map(Command::Write),
        (0..9000_usize, any::<bool>()).prop_map(|(len, is_large)| Command::Message(len, is_large)),
        (any::<u8>(), any::<u8>()).prop_map(|(at, len)| Command::Fill(at, len)),
        any::<u8>().prop_map(Command::Release),
    ]
}

/// A part of a length, in 255ths.
fn share(of: u64, share: u8) -> u64 {
    of * u64::from(share) / 255
}

proptest! {
    #[test]
    fn send_buffer_equals_a_vector_of_all_bytes(commands in prop::collection::vec(command(), 1..60)) {
        let (mut buffer, mut model) = (SendBuffer::default(), Vec::new());
        let mut released = 0;
        for command in commands {
            let kept = model.len() as u64 - released;
            match command {
                Command::Write(len) => {
                    let new = bytes(model.len() as u64 * 3..model.len() as u64 * 3 + len as u64);
                    buffer.write(&new);
                    model.extend(new);
                }
                Command::Message(len, is_large) => {
                    let mut new = Vec::with_capacity(if is_large { 4 * len } else { len });
                    new.extend(bytes(model.len() as u64 * 5..model.len() as u64 * 5 + len as u64));
                    model.extend_from_slice(&new);
                    buffer.write_message(new);
                }
                Command::Fill(at, len) => {
                    let offset = released + share(kept, at);
                    let payload = Payload::new(offset, share(model.len() as u64 - offset, len) as u32);
                    prop_assert_eq!(
                        filled(&buffer, payload),
                        &model[offset as usize..payload.end() as usize]
                    );
                }
                Command::Release(part) => {
                    released += share(kept, part);
                    buffer.release(released);
                }
            }
            prop_assert_eq!(buffer.written(), model.len() as u64);
            prop_assert_eq!(buffer.len(), model.len() as u64 - released);
        }
    }

    /// Pieces arrive in any order within a window of the stream; at random times the application reads all in-order
    /// bytes.
    #[test]
    fn receive_buffer_returns_the_stream(
        cuts in prop::collection::vec(1..3000_usize, 1..60),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 60),
        reads in prop::collection::vec(any::<bool>(), 60),
    ) {
        let total: usize = cuts.iter().sum();
        let stream = bytes(0..total as u64);
        let mut pieces = Vec::new();
        for len in cuts {
            let start = pieces.last().map_or(0, |range: &core::ops::Range<usize>| range.end);
            pieces.push(start..start + len);
        }
        let (mut buffer, mut out) = (ReceiveBuffer::default(), Vec::new());
        let mut arrived = anabranch_multipath::buffer::RangeSet::new();
        for (pick, read) in picks.iter().zip(reads) {
            if pieces.is_empty() {
                break;
            }
            // Take one of the first eight missing pieces.
            let piece = pieces.remove(pick.index(pieces.len().min(8)));
            buffer.place(piece.start as u64, &stream[piece.clone()]);
            arrived.insert(piece.start as u64, piece.end as u64);
            let ready = arrived.range_at(buffer.next()).map_or(0, |(_, end)| end - buffer.next());
            if read || pieces.is_empty() {
                buffer.read(buffer.next(), ready, &mut out);
            }
        }
        prop_assert_eq!(out, stream);
    }

    /// Fragments of several messages arrive in any order; afterwards the messages are read in any order.
    #[test]
    fn fragments_return_the_messages(
        lens in prop::collection::vec(0..2000_usize, 1..40),
        order in Just(()).prop_perturb(|(), mut rng| rng.random::<u64>()),
        messages in 1..6_usize,
        distance in prop::sample::select(vec![1_u64, 16, 100, 4096, 1 << 30]),
    ) {
        let mut fragments = Fragments::default();
        let content = |key: usize| bytes(key as u64 * 5000..(key * 5000 + lens[key]) as u64);
        let mut keys: Vec<usize> = (0..lens.len()).collect();
        keys.sort_by_key(|&key| Payload::byte(order ^ key as u64));
        for &key in &keys {
            fragments.place(key as u64 * distance, &content(key));
        }
        for message in (0..messages).rev() {
            // Message m has the keys that equal m modulo the number of messages, so each run has one key.
            let own: Vec<usize> = (message..lens.len()).step_by(messages).collect();
            let runs: Vec<(u64, u32)> = own.iter().map(|&key| (key as u64 * distance, 1)).collect();
            let mut out = Vec::new();
            fragments.collect(&runs, &mut out);
            prop_assert_eq!(out, own.iter().flat_map(|&key| content(key)).collect::<Vec<u8>>());
        }
        prop_assert!(fragments.is_empty());
    }
}

//! The send queue: messages written and not yet cut into chunks, by stream, and the choice of the stream whose
//! message goes out next (RFC 8260 §3).

use crate::endpoint::Write;
use multipath::policy::StreamScheduler;
use std::collections::{BTreeSet, VecDeque};

/// A message, or what is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// Offset of the first byte not yet cut off.
    pub offset: u64,
    /// Bytes not yet cut off.
    pub left: u64,
    /// Number of the message in its stream, ordered and unordered ones apart (SSN, MID).
    pub number: u32,
    /// Fragments cut off so far.
    pub fragments: u32,
    pub stream: u16,
    pub unordered: bool,
    pub ppid: u32,
    /// Position in the order of writing.
    pub serial: u64,
}

/// A fragment cut off a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub message: Message,
    pub len: u32,
    pub first: bool,
    pub last: bool,
}

/// Most ordered messages of a stream that may be on their way with numbers of 16 bits: one more, and the newest would
/// look older than the oldest (serial number arithmetic, RFC 9260 §1.6).
const MOST_ORDERED: u32 = 1 << 15;

/// Messages in the order of writing, until they and all before them have left for good.
#[derive(Debug)]
struct Written {
    /// Length, and how much of it has not left yet.
    messages: VecDeque<(u64, u64)>,
    /// Number of the front, or of the next one if there is none.
    first: u64,
    /// Offset of the front, or of the next one.
    released: u64,
}

impl Written {
    /// A message of `len` bytes is written; its number.
    fn push(&mut self, len: u64) -> u64 {
        self.messages.push_back((len, len));
        self.first + self.messages.len() as u64 - 1
    }

    fn release(&mut self, serial: u32, len: u32) {
        let at = serial.wrapping_sub(self.first as u32) as usize;
        let Some((_, left)) = self.messages.get_mut(at) else { return };
        *left -= u64::from(len);
        while let Some(&(len, 0)) = self.messages.front() {
            self.messages.pop_front();
            self.first += 1;
            self.released += len;
        }
    }
}

#[derive(Debug, Default)]
struct Stream {
    queue: VecDeque<Message>,
    ordered: u32,
    unordered: u32,
    /// Ordered messages begun and not yet acknowledged as a whole.
    unacknowledged: u32,
    /// Virtual bytes sent, for the fair scheduler.
    served: u64,
}

/// All messages that wait, by stream.
#[derive(Debug)]
pub(super) struct SendQueue {
    scheduler: StreamScheduler,
    /// Fragments of different messages may mix (I-DATA).
    interleave: bool,
    streams: Vec<Stream>,
    /// Streams with messages, keyed by what the scheduler orders them by.
    ready: BTreeSet<(u64, u16)>,
    /// The stream that must go on, since its message has been begun.
    current: Option<u16>,
    bytes: u64,
    written: Written,
    round: u64,
    /// Served bytes of the stream served last: where a stream starts that becomes busy.
    floor: u64,
    /// With one stream there is nothing to choose: messages go through its queue alone.
    single: bool,
}

impl SendQueue {
    /// For messages whose bytes begin at the offset `start`.
    pub fn new(scheduler: StreamScheduler, interleave: bool, streams: u16, start: u64) -> Self {
        Self {
            scheduler,
            interleave,
            streams: (0..streams.max(1)).map(|_| Stream::default()).collect(),
            ready: BTreeSet::new(),
            current: None,
            bytes: 0,
            written: Written { messages: VecDeque::new(), first: 0, released: start },
            round: 0,
            floor: 0,
            single: streams <= 1,
        }
    }

    /// Bytes that wait.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Everything written below this offset has left for good.
    pub const fn released(&self) -> u64 {
        self.written.released
    }

    /// `len` bytes of the message that was written as number `serial`, modulo 2^32, will not be sent again.
    pub fn release(&mut self, serial: u32, len: u32) {
        self.written.release(serial, len);
    }

    pub fn streams(&self) -> u16 {
        self.streams.len() as u16
    }

    /// Appends a message; the stream exists.
    pub fn push(&mut self, offset: u64, write: &Write) {
        let &Write { len, stream, unordered, ppid } = write;
        let at = &mut self.streams[usize::from(stream)];
        let counter = if unordered { &mut at.unordered } else { &mut at.ordered };
        let number = *counter;
        *counter = counter.wrapping_add(1);
        let idle = at.queue.is_empty();
        let serial = self.written.push(len);
        at.queue.push_back(Message {
            offset,
            left: len,
            number,
            fragments: 0,
            stream,
            unordered,
            ppid,
            serial,
        });
        self.bytes += len;
        if idle && !self.single {
            self.enlist(stream);
        }
    }

    /// Puts a stream that has messages in the scheduler's order.
    fn enlist(&mut self, stream: u16) {
        let at = &mut self.streams[usize::from(stream)];
        let Some(front) = at.queue.front() else { return };
        let key = match self.scheduler {
            StreamScheduler::Fcfs => front.serial,
            StreamScheduler::RoundRobin => {
                self.round += 1;
                self.round
            }
            StreamScheduler::Fair => {
                at.served = at.served.max(self.floor);
                at.served
            }
        };
        self.ready.insert((key, stream));
    }

    fn next_stream(&self) -> Option<u16> {
        if self.single {
            return Some(0);
        }
        self.current.or_else(|| self.ready.first().map(|&(_, stream)| stream))
    }

    /// The message whose fragment goes out next.
    #[inline]
    pub fn peek(&self) -> Option<&Message> {
        self.streams[usize::from(self.next_stream()?)].queue.front()
    }

    /// The `next` message must not begin yet, since its number would be too far from the oldest that is on its way.
    #[inline]
    pub fn is_out_of_numbers(&self, next: &Message) -> bool {
        !self.interleave
            && !next.unordered
            && next.fragments == 0
            && self.streams[usize::from(next.stream)].unacknowledged >= MOST_ORDERED
    }

    /// An ordered message has arrived, and all that its stream sent before.
    pub fn acknowledged(&mut self, stream: u16) {
        let at = &mut self.streams[usize::from(stream)];
        at.unacknowledged = at.unacknowledged.saturating_sub(1);
    }

    /// Cuts the next fragment of at most `max` bytes off.
    pub fn cut(&mut self, max: u32) -> Option<Piece> {
        let stream = self.next_stream()?;
        let at = &mut self.streams[usize::from(stream)];
        let front = at.queue.front_mut()?;
        let message = *front;
        let len = message.left.min(u64::from(max)) as u32;
        front.offset += u64::from(len);
        front.left -= u64::from(len);
        front.fragments += 1;
        let last = front.left == 0;
        if last {
            at.queue.pop_front();
        }
        at.served += u64::from(len);
        at.unacknowledged += u32::from(message.fragments == 0 && !message.unordered);
        self.bytes -= u64::from(len);
        if !self.single {
            self.advance(stream, last);
        }
        Some(Piece { message, len, first: message.fragments == 0, last })
    }

    /// After a fragment of `stream`: whose turn is next.
    fn advance(&mut self, stream: u16, last: bool) {
        if self.current.is_none()
            && let Some((key, _)) = self.ready.pop_first()
            && self.scheduler == StreamScheduler::Fair
        {
            self.floor = self.floor.max(key);
        }
        if last || self.interleave {
            self.current = None;
            self.enlist(stream);
        } else {
            self.current = Some(stream);
        }
    }
}

#[cfg(test)]
mod tests {
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
    fn first_come_first_served() {
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
    fn fair_lets_the_stream_that_sent_least_go_first() {
        // Streams 1 and 2 have sent nothing while 0 sends its long message; 1 then is level with 2 and lower.
        let messages = [(0, 100), (0, 100), (0, 50), (1, 100), (2, 100), (1, 100), (0, 100)];
        assert_eq!(order(StreamScheduler::Fair, false), messages);
    }

    #[test]
    fn a_begun_message_goes_on_although_another_stream_came_first() {
        let mut queue = SendQueue::new(StreamScheduler::RoundRobin, false, 2, 0);
        queue.push(0, &Write::bytes(200));
        assert_eq!(queue.cut(100).map(|p| (p.first, p.last)), Some((true, false)));
        queue.push(200, &Write { stream: 1, unordered: true, ..Write::bytes(10) });
        assert_eq!(queue.cut(100).map(|p| (p.message.stream, p.last)), Some((0, true)));
        assert_eq!(queue.cut(100).map(|p| (p.message.stream, p.message.unordered)), Some((1, true)));
        assert_eq!(queue.cut(100), None);
    }

    #[test]
    fn what_is_released_ends_where_the_first_message_begins_that_is_not_gone() {
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
}

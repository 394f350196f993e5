//! The send queue: written messages, by stream, of which not all data has been fragmented, and the choice of the next
//! stream (RFC 8260 §3).

mod choice;
mod homes;
mod stream_reset;

pub(crate) use self::choice::numbers;
use self::homes::Homes;
use anabranch_endpoint::endpoint::Write;
use anabranch_settings::policy::StreamScheduler;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A message, or its remaining part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// Offset of the first byte that has not been fragmented.
    pub offset: u64,
    /// Remaining bytes.
    pub left: u64,
    /// Number of the message in its stream (SSN, MID); ordered and unordered messages are numbered separately. It is
    /// assigned with the first fragment, so that an unsent message can be abandoned without a missing number.
    pub number: u32,
    /// Number of fragments already made.
    pub fragments: u32,
    pub stream: u16,
    pub unordered: bool,
    pub ppid: u32,
    /// Position in the order of writing.
    pub serial: u64,
}

/// A fragment of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub message: Message,
    pub len: u32,
    pub first: bool,
    pub last: bool,
}

/// Maximum number of ordered messages of a stream in flight with 16-bit numbers. With one more, the newest would appear
/// older than the oldest (serial number arithmetic, RFC 9260 §1.6).
const MAX_ORDERED_IN_FLIGHT: u32 = 1 << 15;

/// Bits below the priority in the order of streams; they count rounds.
const ROUND_BITS: u32 = 48;

/// Messages in the order of writing, until they and all messages before them have left the send buffer.
#[derive(Debug)]
struct Written {
    /// Length of each message, and its bytes that are still in the send buffer.
    messages: VecDeque<(u64, u64)>,
    /// Number of the first message, or of the next one if there is none.
    first: u64,
    /// Offset of the first message, or of the next one.
    released: u64,
}

impl Written {
    /// Adds a message of `len` bytes; returns its number.
    fn push(&mut self, len: u64) -> u64 {
        self.messages.push_back((len, len));
        self.first + self.messages.len() as u64 - 1
    }

    fn release(&mut self, serial: u32, len: u64) {
        let at = serial.wrapping_sub(self.first as u32) as usize;
        let Some((_, left)) = self.messages.get_mut(at) else { return };
        *left -= len;
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
    /// Ordered messages that were started and are not completely acknowledged.
    unacknowledged: u32,
    /// Virtual bytes sent, for the fair schedulers.
    served: u64,
}

/// All queued messages, by stream.
#[derive(Debug)]
pub(crate) struct SendQueue {
    scheduler: StreamScheduler,
    /// Priorities or weights, by stream.
    numbers: Box<[u16]>,
    /// True if fragments of different messages may be interleaved (I-DATA).
    interleave: bool,
    streams: Vec<Stream>,
    /// Streams with messages, keyed by the scheduler's order.
    ready: BTreeSet<(u64, u16)>,
    /// Stream of a message that was started and must be continued first.
    current: Option<u16>,
    bytes: u64,
    written: Written,
    round: u64,
    /// Served bytes of the last served stream. A stream that becomes busy starts with this value, so that its idle
    /// time gives no credit.
    floor: u64,
    /// Streams with a pending reset. Their messages from this position on, in the order of writing, wait for the
    /// reset.
    held: BTreeMap<u16, u64>,
    /// Position for a pending reset of all streams.
    paused: Option<u64>,
    /// True with one stream that may use any path: its queue is used directly, without scheduling.
    single: bool,
    /// Stream of the current packet, if all its chunks must belong to one stream.
    packet: Option<u16>,
    homes: Homes,
}

impl SendQueue {
    /// Creates the queue for messages whose bytes start at the offset `start`.
    pub fn new(scheduler: StreamScheduler, interleave: bool, streams: u16, start: u64) -> Self {
        Self {
            scheduler,
            numbers: Box::default(),
            interleave,
            streams: (0..streams.max(1)).map(|_| Stream::default()).collect(),
            ready: BTreeSet::new(),
            current: None,
            bytes: 0,
            written: Written { messages: VecDeque::new(), first: 0, released: start },
            round: 0,
            floor: 0,
            held: BTreeMap::new(),
            paused: None,
            single: streams <= 1,
            packet: None,
            homes: Homes::default(),
        }
    }

    /// Sets the priorities or weights of the first streams.
    #[must_use]
    pub fn with_numbers(mut self, numbers: &[u16]) -> Self {
        self.numbers = numbers.into();
        self
    }

    /// Queued bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All data below this offset has left the send buffer.
    pub const fn released(&self) -> u64 {
        self.written.released
    }

    /// Releases `len` bytes of the message with number `serial` (modulo 2^32); they will not be sent again.
    pub fn release(&mut self, serial: u32, len: u64) {
        self.written.release(serial, len);
    }

    pub fn streams(&self) -> u16 {
        self.streams.len() as u16
    }

    /// Appends a message of an existing stream; returns its position in the order of writing.
    pub fn push(&mut self, offset: u64, write: &Write) -> u64 {
        let &Write { len, stream, unordered, ppid, .. } = write;
        let at = &mut self.streams[usize::from(stream)];
        let idle = at.queue.is_empty();
        let serial = self.written.push(len);
        at.queue.push_back(Message {
            offset,
            left: len,
            number: 0,
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
        serial
    }

    /// Position, in the order of writing, of the oldest message that is still in the send buffer.
    pub const fn oldest(&self) -> u64 {
        self.written.first
    }

    /// Position of the message that has `serial` modulo 2^32 and is not older than [`oldest`](Self::oldest).
    pub const fn unwrap_serial(&self, serial: u32) -> u64 {
        self.written.first + serial.wrapping_sub(self.written.first as u32) as u64
    }

    /// Bytes of a message that have not been fragmented; `None` if there are none.
    pub fn uncut(&self, stream: u16, serial: u64) -> Option<u64> {
        let queue = &self.streams[usize::from(stream)].queue;
        let at = queue.binary_search_by_key(&serial, |message| message.serial).ok()?;
        queue.get(at).map(|message| message.left)
    }

    /// Removes the unfragmented part of a message from the queue; returns its bytes if there are any.
    pub fn discard(&mut self, stream: u16, serial: u64) -> Option<u64> {
        let queue = &mut self.streams[usize::from(stream)].queue;
        let at = queue.binary_search_by_key(&serial, |message| message.serial).ok()?;
        let left = queue.remove(at)?.left;
        self.bytes -= left;
        if at > 0 || self.single {
            return Some(left);
        }
        // The front message determined the order, unless the scheduler ignores it; then the stream keeps its
        // position.
        self.current.take_if(|current| *current == stream);
        let key = self.ready.iter().copied().find(|&(_, ready)| ready == stream);
        let stays = !self.streams[usize::from(stream)].queue.is_empty()
            && key.is_some()
            && self.scheduler != StreamScheduler::Fcfs;
        if !stays {
            key.map(|key| self.ready.remove(&key));
            self.enlist(stream);
        }
        Some(left)
    }

    /// Inserts a stream with messages into the scheduler's order.
    fn enlist(&mut self, stream: u16) {
        let at = &mut self.streams[usize::from(stream)];
        let Some(front) = at.queue.front() else { return };
        let key = match self.scheduler {
            StreamScheduler::Fcfs => front.serial,
            StreamScheduler::RoundRobin | StreamScheduler::RoundRobinPacket => {
                self.round += 1;
                self.round
            }
            StreamScheduler::Priority => {
                self.round += 1;
                let priority = self.numbers.get(usize::from(stream)).copied().unwrap_or(0);
                (u64::from(priority) << ROUND_BITS) | self.round
            }
            StreamScheduler::Fair | StreamScheduler::WeightedFair => {
                at.served = at.served.max(self.floor);
                at.served
            }
        };
        self.ready.insert((key, stream));
    }

    #[inline]
    fn next_stream(&self) -> Option<u16> {
        let free = self.held.is_empty() && self.paused.is_none();
        if self.single && free { Some(0) } else { self.choose_stream(free) }
    }

    /// Chooses the next stream, if there are several or some of them must wait; `None` if no stream can be chosen.
    fn choose_stream(&self, free: bool) -> Option<u16> {
        if self.single {
            return (!self.waits(0)).then_some(0);
        }
        if self.current.is_some() {
            return self.current;
        }
        if self.packet.is_some() {
            return self.packet.filter(|&stream| self.has_message(stream));
        }
        let mut ready = self.ready.iter().map(|&(_, stream)| stream);
        if free && self.homes.admit_all() {
            return ready.next();
        }
        ready.find(|&stream| self.homes.admit(stream) && !self.waits(stream))
    }

    /// The message of the next fragment.
    #[inline]
    pub fn peek(&self) -> Option<&Message> {
        self.streams[usize::from(self.next_stream()?)].queue.front()
    }

    /// Returns true if the `next` message must wait, because its number would be too far from the oldest outstanding
    /// one.
    #[inline]
    pub fn is_out_of_numbers(&self, next: &Message) -> bool {
        !self.interleave
            && !next.unordered
            && next.fragments == 0
            && self.streams[usize::from(next.stream)].unacknowledged >= MAX_ORDERED_IN_FLIGHT
    }

    /// Records that an ordered message was acknowledged, together with all earlier ones of its stream.
    pub fn acknowledged(&mut self, stream: u16) {
        let at = &mut self.streams[usize::from(stream)];
        at.unacknowledged = at.unacknowledged.saturating_sub(1);
    }

    /// Removes the next fragment of at most `max` bytes from the queue.
    pub fn cut(&mut self, max: u32) -> Option<Piece> {
        let stream = self.next_stream()?;
        let at = &mut self.streams[usize::from(stream)];
        let front = at.queue.front_mut()?;
        if front.fragments == 0 {
            let counter = if front.unordered { &mut at.unordered } else { &mut at.ordered };
            front.number = *counter;
            *counter = counter.wrapping_add(1);
        }
        let message = *front;
        let len = message.left.min(u64::from(max)) as u32;
        front.offset += u64::from(len);
        front.left -= u64::from(len);
        front.fragments += 1;
        let last = front.left == 0;
        if last {
            at.queue.pop_front();
        }
        at.unacknowledged += u32::from(message.fragments == 0 && !message.unordered);
        self.bytes -= u64::from(len);
        if !self.single {
            self.advance(stream, (len, last));
        }
        Some(Piece { message, len, first: message.fragments == 0, last })
    }

    /// Updates the scheduler's order after a fragment of `stream`.
    fn advance(&mut self, stream: u16, (len, last): (u32, bool)) {
        self.streams[usize::from(stream)].served += self.cost(stream, len);
        if self.scheduler == StreamScheduler::RoundRobinPacket {
            self.packet = Some(stream);
        }
        if self.current.is_none() {
            let key = self.ready.first().copied().filter(|&(_, first)| first == stream);
            let key = key.or_else(|| self.ready.iter().copied().find(|&(_, ready)| ready == stream));
            if let Some((place, _)) = key.filter(|key| self.ready.remove(key))
                && matches!(self.scheduler, StreamScheduler::Fair | StreamScheduler::WeightedFair)
            {
                self.floor = self.floor.max(place);
            }
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
mod tests;

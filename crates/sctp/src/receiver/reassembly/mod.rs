//! Reassembly: fragments are joined to messages, and ordered messages are delivered in the order of their stream.
//!
//! A message that fills the receive buffer is delivered in parts (RFC 9260 §6.9). When the message is next in order,
//! its received fragments, from the first on, go to the inbox; the rest follows on arrival. In each stream, at
//! most one ordered and one unordered message are delivered in parts at a time. No other message of the same kind is
//! delivered before its end, so that the parts need no identifier.

mod held;
mod renege;
mod skip;
mod stream_reset;
mod waiting;

use self::held::HeldBytes;
use crate::inbox::{Fragments, Inbox, Message};
use anabranch_wire::seq::Serial;
use std::collections::{BTreeMap, VecDeque};

/// A received chunk of user data, DATA or I-DATA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment {
    /// Unwrapped TSN.
    pub tsn: u64,
    pub stream: u16,
    pub unordered: bool,
    pub first: bool,
    pub last: bool,
    pub immediate: bool,
    /// SSN or MID.
    pub message: u32,
    /// Fragment sequence number; `None` for DATA, whose fragments are in the order of their TSNs.
    pub number: Option<u32>,
    /// In DATA and in the first fragment of I-DATA.
    pub ppid: u32,
    pub len: u32,
}

/// Abandoned messages of a stream, ordered or unordered, up to a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Skip {
    pub stream: u16,
    pub unordered: bool,
    /// SSN or MID of the last abandoned message.
    pub number: u32,
}

/// Violation of a rule of fragmentation or stream order by the sender; it ends the association.
pub(crate) type Violation = &'static str;

/// Fragments of one DATA message with contiguous TSNs.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// TSN after the last fragment.
    end: u64,
    first: bool,
    last: bool,
    ppid: u32,
    len: u64,
    stream: u16,
    message: u32,
    unordered: bool,
    /// True if the part of the message before this run has been delivered. Then the run may be empty, and only marks where
    /// the rest of the message starts.
    begun: bool,
}

/// Fragments of one I-DATA message.
#[derive(Debug, Default)]
struct Partial {
    /// TSN and length of the fragments not delivered yet, by fragment sequence number.
    fragments: BTreeMap<u32, (u64, u32)>,
    /// Number of delivered fragments, from the first on.
    delivered: u32,
    /// Fragment sequence number of the last fragment.
    last: Option<u32>,
    ppid: u32,
}

#[derive(Debug, Default)]
struct Stream {
    /// Number of the next ordered message.
    next: u64,
    waiting: BTreeMap<u64, Message>,
    /// Whether an ordered and an unordered message of the stream are being delivered in parts.
    open: [bool; 2],
    /// Unordered messages that wait for the end of one that is delivered in parts.
    behind: VecDeque<Message>,
    /// Number of the last abandoned unordered I-DATA message.
    gone: Option<Serial>,
}

/// Received data that cannot be delivered yet.
#[derive(Debug)]
pub(crate) struct Reassembly {
    streams: Vec<Stream>,
    runs: BTreeMap<u64, Run>,
    partials: BTreeMap<(u16, bool, u32), Partial>,
    held: HeldBytes,
    /// True if the sender may abandon messages. Then late fragments of a skipped message are discarded, and are no
    /// violation.
    lenient: bool,
    /// Fragments discarded with their message, as runs of TSNs.
    given_up: Vec<(u64, u32)>,
}

impl Reassembly {
    /// Creates an empty state for `streams` streams; `lenient` if the sender may abandon messages.
    pub fn new(streams: u16, lenient: bool) -> Self {
        Self {
            lenient,
            given_up: Vec::new(),
            streams: (0..streams).map(|_| Stream::default()).collect(),
            runs: BTreeMap::new(),
            partials: BTreeMap::new(),
            held: HeldBytes::new(streams),
        }
    }

    /// Bytes held.
    pub const fn held(&self) -> u64 {
        self.held.all()
    }

    /// Bytes held of each stream; empty if there is only one.
    pub fn held_by_stream(&self) -> &[u64] {
        self.held.by_stream()
    }

    pub fn has_stream(&self, stream: u16) -> bool {
        usize::from(stream) < self.streams.len()
    }

    /// Fragments that will never be delivered, as runs of TSNs: first TSN and number.
    pub fn into_runs(self) -> impl Iterator<Item = (u64, u32)> {
        let runs = self.runs.into_iter().map(|(start, run)| (start, (run.end - start) as u32));
        let runs = runs.filter(|&(_, count)| count > 0);
        let partials = self.partials.into_values().flat_map(|partial| partial.fragments.into_values());
        let waiting =
            self.streams.into_iter().flat_map(|stream| stream.waiting.into_values().chain(stream.behind));
        let waiting = waiting.flat_map(|message| message.fragments.into_runs());
        runs.chain(partials.map(|(tsn, _)| (tsn, 1))).chain(waiting)
    }

    /// Adds a new fragment. Messages that are complete and next in order go to `inbox`.
    pub fn insert(&mut self, piece: &Fragment, inbox: &mut Inbox) -> Result<(), Violation> {
        if self.lenient && self.is_late(piece) {
            self.given_up.push((piece.tsn, 1));
            return Ok(());
        }
        self.held.add(piece.stream, piece.len.into());
        if piece.first && piece.last {
            let &Fragment { stream, unordered, ppid, .. } = piece;
            let (len, fragments) = (u64::from(piece.len), Fragments::Run(piece.tsn, 1));
            let whole = Message { len, stream, unordered, ppid, fragments, more: false, aborted: false };
            return self.deliver(whole, piece.message, piece.number.is_some(), inbox);
        }
        match piece.number {
            None => self.join_run(piece, inbox),
            Some(number) => self.join_partial(piece, number, inbox),
        }
    }

    fn join_run(&mut self, piece: &Fragment, inbox: &mut Inbox) -> Result<(), Violation> {
        let mut run = Run {
            end: piece.tsn + 1,
            first: piece.first,
            last: piece.last,
            ppid: piece.ppid,
            len: u64::from(piece.len),
            stream: piece.stream,
            message: piece.message,
            unordered: piece.unordered,
            begun: false,
        };
        let mut start = piece.tsn;
        let left =
            self.runs.range(..=start).next_back().map(|(&s, &r)| (s, r)).filter(|(_, r)| r.end == start);
        if let Some((at, before)) = left {
            if before.last != run.first {
                return Err("fragments of two messages overlap");
            }
            if !before.last {
                join(&before, &run)?;
                self.runs.remove(&at);
                start = at;
                run = Run { end: run.end, last: run.last, len: before.len + run.len, ..before };
            }
        }
        if let Some(&behind) = self.runs.get(&run.end) {
            if behind.first != run.last {
                return Err("fragments of two messages overlap");
            }
            if !behind.first {
                join(&run, &behind)?;
                self.runs.remove(&run.end);
                run = Run { end: behind.end, last: behind.last, len: run.len + behind.len, ..run };
            }
        }
        if run.begun {
            self.continue_run((start, run), inbox);
            return Ok(());
        }
        if run.first && run.last {
            let whole = run.message(start, false);
            return self.deliver(whole, run.message, false, inbox);
        }
        self.runs.insert(start, run);
        Ok(())
    }

    /// Delivers a part of a DATA message; the rest starts after it.
    fn continue_run(&mut self, (start, run): (u64, Run), inbox: &mut Inbox) {
        self.held.remove(run.stream, run.len);
        inbox.push(run.message(start, !run.last));
        if run.last {
            self.end(run.stream, run.unordered, inbox);
        } else {
            self.runs.insert(run.end, Run { len: 0, begun: true, ..run });
        }
    }

    fn join_partial(&mut self, piece: &Fragment, number: u32, inbox: &mut Inbox) -> Result<(), Violation> {
        // The first fragment has number 0, and no other fragment does (RFC 8260 §2.1).
        if !piece.first && number == 0 {
            return Err("fragment sequence number 0 without the B bit");
        }
        let key = (piece.stream, piece.unordered, piece.message);
        let partial = self.partials.entry(key).or_default();
        if number < partial.delivered || partial.fragments.insert(number, (piece.tsn, piece.len)).is_some() {
            return Err("duplicate fragment sequence number");
        }
        if piece.first {
            partial.ppid = piece.ppid;
        }
        if piece.last {
            partial.last = Some(number);
        }
        let highest = partial.fragments.last_key_value().map_or(0, |(&highest, _)| highest);
        if partial.last.is_some_and(|last| highest > last) {
            return Err("fragment behind the last one");
        }
        if partial.delivered > 0 {
            self.continue_partial(key, inbox);
            return Ok(());
        }
        if partial.last.is_some_and(|last| partial.fragments.len() as u64 == u64::from(last) + 1)
            && let Some(mut partial) = self.partials.remove(&key)
        {
            let whole = partial.message(key, false);
            return self.deliver(whole, piece.message, true, inbox);
        }
        Ok(())
    }

    /// Delivers the fragments of an I-DATA message that follow its delivered part.
    fn continue_partial(&mut self, key: (u16, bool, u32), inbox: &mut Inbox) {
        let Some(partial) = self.partials.get_mut(&key) else { return };
        if partial.fragments.first_key_value().is_none_or(|(&first, _)| first != partial.delivered) {
            return;
        }
        let mut part = partial.message(key, true);
        part.more = partial.last.is_none_or(|last| partial.delivered <= last);
        let ended = !part.more;
        self.held.remove(key.0, part.len);
        inbox.push(part);
        if ended {
            self.partials.remove(&key);
            self.end(key.0, key.1, inbox);
        }
    }

    /// Delivers the received beginning of every message that is next in order. An unordered message qualifies when all
    /// TSNs before it have been received, that is, if it starts at TSN `cumulative` or before. If it were started after
    /// a gap, the message that fills the gap could not be delivered before the end of this one. It would then use the
    /// buffer that the end of this one needs.
    pub fn deliver_parts(&mut self, cumulative: u64, inbox: &mut Inbox) {
        let may_begin = |tsn: u64, unordered: bool| !unordered || tsn <= cumulative;
        let begins = |(&start, run): (&u64, &Run)| {
            (run.first && !run.begun && may_begin(start, run.unordered)).then_some((start, *run))
        };
        let runs: Vec<(u64, Run)> = self.runs.iter().filter_map(begins).collect();
        for (start, run) in runs {
            if self.open(run.stream, run.unordered, |next| run.message as u16 == next as u16) {
                self.runs.remove(&start);
                self.held.remove(run.stream, run.len);
                inbox.push(run.message(start, true));
                self.runs.insert(run.end, Run { len: 0, begun: true, ..run });
            }
        }
        let begins = |(&key, partial): (&(u16, bool, u32), &Partial)| {
            let first = partial.fragments.get(&0).filter(|_| partial.delivered == 0);
            first.is_some_and(|&(tsn, _)| may_begin(tsn, key.1)).then_some(key)
        };
        let partials: Vec<(u16, bool, u32)> = self.partials.iter().filter_map(begins).collect();
        for key in partials {
            if self.open(key.0, key.1, |next| key.2 == next as u32) {
                self.continue_partial(key, inbox);
            }
        }
    }

    /// Starts delivering a message of this kind in parts; an ordered one must be `in_turn`.
    fn open(&mut self, stream: u16, unordered: bool, in_turn: impl Fn(u64) -> bool) -> bool {
        let stream = &mut self.streams[usize::from(stream)];
        let open = &mut stream.open[usize::from(unordered)];
        let may = !*open && (unordered || in_turn(stream.next));
        *open |= may;
        may
    }

    /// Called after the last part of a message: delivers the messages that waited for it.
    fn end(&mut self, id: u16, unordered: bool, inbox: &mut Inbox) {
        let stream = &mut self.streams[usize::from(id)];
        stream.open[usize::from(unordered)] = false;
        if unordered {
            for message in stream.behind.drain(..) {
                self.held.remove(id, message.len);
                inbox.push(message);
            }
        } else {
            stream.next += 1;
            self.held.remove(id, stream.deliver_waiting(inbox));
        }
    }

    /// Delivers a complete message if it is next in order, and the messages that waited for it.
    fn deliver(
        &mut self,
        whole: Message,
        message: u32,
        wide: bool,
        inbox: &mut Inbox,
    ) -> Result<(), Violation> {
        let id = whole.stream;
        let stream = &mut self.streams[usize::from(id)];
        if whole.unordered {
            if stream.open[1] {
                stream.behind.push_back(whole);
            } else {
                self.held.remove(id, whole.len);
                inbox.push(whole);
            }
            return Ok(());
        }
        let number = stream.number_of(message, wide);
        // A number before the first one of a stream has wrapped to a huge value.
        if number < stream.next
            || number > stream.next + u64::from(u32::MAX)
            || stream.open[0] && number == stream.next
        {
            return Err("message number was already delivered");
        }
        if number > stream.next {
            return match stream.waiting.insert(number, whole) {
                None => Ok(()),
                Some(_) => Err("duplicate message number"),
            };
        }
        stream.next += 1;
        let len = whole.len;
        inbox.push(whole);
        self.held.remove(id, len + stream.deliver_waiting(inbox));
        Ok(())
    }
}

impl Run {
    /// The message, or part of one, in the run that starts at TSN `start`.
    const fn message(&self, start: u64, more: bool) -> Message {
        let &Self { end, len, stream, unordered, ppid, .. } = self;
        let fragments = Fragments::Run(start, (end - start) as u32);
        Message { len, stream, unordered, ppid, fragments, more, aborted: false }
    }
}

impl Partial {
    /// Removes the next fragments and returns them as a message, or part of one.
    fn message(&mut self, (stream, unordered, _): (u16, bool, u32), more: bool) -> Message {
        let (mut len, mut tsns) = (0, Vec::new());
        while let Some((tsn, bytes)) = self.fragments.remove(&self.delivered) {
            self.delivered += 1;
            len += u64::from(bytes);
            tsns.push(tsn);
        }
        let fragments = Fragments::of(tsns);
        Message { len, stream, unordered, ppid: self.ppid, fragments, more, aborted: false }
    }
}

impl Stream {
    /// The number of an ordered message without limit. SSNs have 16 bits, MIDs (`wide`) have 32.
    const fn number_of(&self, message: u32, wide: bool) -> u64 {
        unwrap_number(self.next, message, wide)
    }

    /// Delivers the waiting messages that are next in order; returns their bytes.
    fn deliver_waiting(&mut self, inbox: &mut Inbox) -> u64 {
        let mut bytes = 0;
        while let Some(next) = self.waiting.remove(&self.next) {
            self.next += 1;
            bytes += next.len;
            inbox.push(next);
        }
        bytes
    }
}

fn join(left: &Run, right: &Run) -> Result<(), Violation> {
    if (left.stream, left.unordered) != (right.stream, right.unordered)
        || (!left.unordered && left.message != right.message)
    {
        return Err("neighbouring fragments of different messages");
    }
    Ok(())
}

/// Unwraps a message number near the next number of its stream: SSNs have 16 bits, MIDs (`wide`) 32.
const fn unwrap_number(next: u64, message: u32, wide: bool) -> u64 {
    if wide {
        return Serial(message).unwrap_near(next);
    }
    next.wrapping_add_signed((message as u16).wrapping_sub(next as u16) as i16 as i64)
}

#[cfg(test)]
mod proofs;
#[cfg(test)]
mod tests;

//! From chunks to messages: fragments are joined, and ordered messages wait for their turn in their stream.

use super::inbox::{Fragments, Inbox, Message};
use std::collections::BTreeMap;
use wire::seq::Serial;

/// A chunk of user data, DATA or I-DATA, as the receiver sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment {
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
    /// Of DATA, and of the first fragment of I-DATA.
    pub ppid: u32,
    pub len: u32,
}

/// The sender broke a rule of fragmentation or of stream order; the association ends.
pub(super) type Violation = &'static str;

/// Fragments of one DATA message with contiguous TSNs.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// TSN behind the last fragment.
    end: u64,
    first: bool,
    last: bool,
    ppid: u32,
    len: u64,
    stream: u16,
    message: u32,
    unordered: bool,
}

/// Fragments of one I-DATA message.
#[derive(Debug, Default)]
struct Partial {
    /// TSNs by fragment sequence number.
    fragments: BTreeMap<u32, u64>,
    /// Number of the last fragment.
    last: Option<u32>,
    ppid: u32,
    len: u64,
}

#[derive(Debug, Default)]
struct Stream {
    /// Number of the next ordered message.
    next: u64,
    waiting: BTreeMap<u64, Message>,
}

/// Everything received that is not yet a message in its turn.
#[derive(Debug)]
pub(super) struct Reassembly {
    streams: Vec<Stream>,
    runs: BTreeMap<u64, Run>,
    partials: BTreeMap<(u16, bool, u32), Partial>,
    /// Bytes held.
    held: u64,
}

impl Reassembly {
    pub fn new(streams: u16) -> Self {
        Self {
            streams: (0..streams).map(|_| Stream::default()).collect(),
            runs: BTreeMap::new(),
            partials: BTreeMap::new(),
            held: 0,
        }
    }

    pub const fn held(&self) -> u64 {
        self.held
    }

    pub fn has_stream(&self, stream: u16) -> bool {
        usize::from(stream) < self.streams.len()
    }

    /// All that will never be a message, as runs of TSNs: the first and how many.
    pub fn into_runs(self) -> impl Iterator<Item = (u64, u32)> {
        let runs = self.runs.into_iter().map(|(start, run)| (start, (run.end - start) as u32));
        let partials = self.partials.into_values().flat_map(|partial| partial.fragments.into_values());
        let waiting = self.streams.into_iter().flat_map(|stream| stream.waiting.into_values());
        let waiting = waiting.flat_map(|message| message.fragments.into_runs());
        runs.chain(partials.map(|tsn| (tsn, 1))).chain(waiting)
    }

    /// Takes a fragment that is new; messages that are whole and in turn go to `inbox`.
    pub fn insert(&mut self, piece: &Fragment, inbox: &mut Inbox) -> Result<(), Violation> {
        self.held += u64::from(piece.len);
        if piece.first && piece.last {
            let fragments = Fragments::Run(piece.tsn, 1);
            let whole = message(piece, piece.ppid, u64::from(piece.len), fragments);
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
        };
        let mut start = piece.tsn;
        let left =
            self.runs.range(..start).next_back().map(|(&s, &r)| (s, r)).filter(|(_, r)| r.end == start);
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
        if run.first && run.last {
            let fragments = Fragments::Run(start, (run.end - start) as u32);
            let Run { len, stream, unordered, ppid, .. } = run;
            let whole = Message { len, stream, unordered, ppid, fragments };
            return self.deliver(whole, run.message, false, inbox);
        }
        self.runs.insert(start, run);
        Ok(())
    }

    fn join_partial(&mut self, piece: &Fragment, number: u32, inbox: &mut Inbox) -> Result<(), Violation> {
        // The number of the first fragment is 0, and it takes no other (RFC 8260 §2.1).
        if !piece.first && number == 0 {
            return Err("a first fragment that does not say so");
        }
        let key = (piece.stream, piece.unordered, piece.message);
        let partial = self.partials.entry(key).or_default();
        if partial.fragments.insert(number, piece.tsn).is_some() {
            return Err("a fragment sequence number twice");
        }
        if piece.first {
            partial.ppid = piece.ppid;
        }
        if piece.last {
            partial.last = Some(number);
        }
        partial.len += u64::from(piece.len);
        let highest = partial.fragments.last_key_value().map_or(0, |(&highest, _)| highest);
        match partial.last {
            Some(last) if highest > last => Err("a fragment behind the last one"),
            Some(last) if partial.fragments.len() as u64 == u64::from(last) + 1 => {
                let fragments = Fragments::of(partial.fragments.values().copied());
                let whole = message(piece, partial.ppid, partial.len, fragments);
                self.partials.remove(&key);
                self.deliver(whole, piece.message, true, inbox)
            }
            _ => Ok(()),
        }
    }

    /// A message is whole: to the inbox if it is its turn, and those that waited for it.
    fn deliver(
        &mut self,
        whole: Message,
        message: u32,
        wide: bool,
        inbox: &mut Inbox,
    ) -> Result<(), Violation> {
        if whole.unordered {
            self.held -= whole.len;
            inbox.push(whole);
            return Ok(());
        }
        let stream = &mut self.streams[usize::from(whole.stream)];
        // SSNs have 16 bits, MIDs 32.
        let number = if wide {
            Serial(message).unwrap_near(stream.next)
        } else {
            stream
                .next
                .wrapping_add_signed(i64::from((message as u16).wrapping_sub(stream.next as u16) as i16))
        };
        // The first numbers of a stream have none before them, so a wrapped one is enormous.
        if number < stream.next || number > stream.next + u64::from(u32::MAX) {
            return Err("a message number that has been delivered");
        }
        if number > stream.next {
            return match stream.waiting.insert(number, whole) {
                None => Ok(()),
                Some(_) => Err("a message number twice"),
            };
        }
        stream.next += 1;
        self.held -= whole.len;
        inbox.push(whole);
        while let Some(next) = stream.waiting.remove(&stream.next) {
            stream.next += 1;
            self.held -= next.len;
            inbox.push(next);
        }
        Ok(())
    }
}

const fn message(piece: &Fragment, ppid: u32, len: u64, fragments: Fragments) -> Message {
    Message { len, stream: piece.stream, unordered: piece.unordered, ppid, fragments }
}

fn join(left: &Run, right: &Run) -> Result<(), Violation> {
    if (left.stream, left.unordered) != (right.stream, right.unordered)
        || (!left.unordered && left.message != right.message)
    {
        return Err("neighbouring fragments of different messages");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(tsn: u64, (first, last): (bool, bool), message: u32, unordered: bool) -> Fragment {
        Fragment {
            tsn,
            stream: 0,
            unordered,
            first,
            last,
            immediate: false,
            message,
            number: None,
            ppid: tsn as u32,
            len: 100,
        }
    }

    /// The payload protocol identifier of a message, which is the TSN of its first fragment, its length and fragments.
    type Read = (u32, u64, Vec<(u64, u32)>);

    fn read(inbox: &mut Inbox) -> Vec<Read> {
        let next = || inbox.pop().map(|delivery| (delivery.ppid, delivery.len, inbox.last().to_vec()));
        core::iter::from_fn(next).collect()
    }

    #[test]
    fn fragments_join_in_any_order() {
        let (mut re, mut inbox) = (Reassembly::new(1), Inbox::default());
        for (tsn, ends) in [(12, (false, true)), (10, (true, false)), (11, (false, false))] {
            re.insert(&piece(tsn, ends, 0, false), &mut inbox).unwrap();
        }
        assert_eq!(read(&mut inbox), [(10, 300, vec![(10, 3)])]);
        assert_eq!(re.held(), 0);
    }

    #[test]
    fn ordered_messages_wait_and_unordered_ones_do_not() {
        let (mut re, mut inbox) = (Reassembly::new(1), Inbox::default());
        re.insert(&piece(11, (true, true), 1, false), &mut inbox).unwrap();
        assert_eq!(re.held(), 100);
        re.insert(&piece(12, (true, true), 0, true), &mut inbox).unwrap();
        assert_eq!(read(&mut inbox), [(12, 100, vec![(12, 1)])]);
        re.insert(&piece(10, (true, true), 0, false), &mut inbox).unwrap();
        assert_eq!(read(&mut inbox), [(10, 100, vec![(10, 1)]), (11, 100, vec![(11, 1)])]);
        assert!(re.insert(&piece(13, (true, true), 0, false), &mut inbox).is_err());
    }

    #[test]
    fn stream_numbers_wrap() {
        let (mut re, mut inbox) = (Reassembly::new(1), Inbox::default());
        for number in 0..70_000_u32 {
            let ssn = number & 0xffff;
            re.insert(&piece(u64::from(number), (true, true), ssn, false), &mut inbox).unwrap();
        }
        assert_eq!(read(&mut inbox).len(), 70_000);
    }

    #[test]
    fn mixed_messages_are_violations() {
        let mut inbox = Inbox::default();
        let mut re = Reassembly::new(1);
        re.insert(&piece(10, (true, false), 0, false), &mut inbox).unwrap();
        assert!(re.insert(&piece(11, (true, false), 1, false), &mut inbox).is_err());
        let mut re = Reassembly::new(1);
        re.insert(&piece(10, (true, false), 0, false), &mut inbox).unwrap();
        assert!(re.insert(&piece(11, (false, true), 1, false), &mut inbox).is_err());
        let mut re = Reassembly::new(1);
        re.insert(&piece(11, (false, true), 0, false), &mut inbox).unwrap();
        re.insert(&piece(12, (true, false), 1, false), &mut inbox).unwrap();
        assert!(re.insert(&piece(10, (false, false), 1, false), &mut inbox).is_err());
    }

    #[test]
    fn interleaved_fragments_join_by_message() {
        let (mut re, mut inbox) = (Reassembly::new(1), Inbox::default());
        let cut = |tsn, ends, message, number| Fragment {
            number: Some(number),
            ..piece(tsn, ends, message, false)
        };
        re.insert(&cut(10, (true, false), 0, 0), &mut inbox).unwrap();
        re.insert(&cut(11, (true, false), 1, 0), &mut inbox).unwrap();
        re.insert(&cut(12, (false, true), 1, 1), &mut inbox).unwrap();
        assert_eq!(read(&mut inbox), []);
        re.insert(&cut(14, (false, true), 0, 2), &mut inbox).unwrap();
        re.insert(&cut(13, (false, false), 0, 1), &mut inbox).unwrap();
        let first = (10, 300, vec![(10, 1), (13, 2)]);
        assert_eq!(read(&mut inbox), [first, (11, 200, vec![(11, 2)])]);
        re.insert(&cut(15, (false, true), 2, 1), &mut inbox).unwrap();
        assert!(re.insert(&cut(16, (false, false), 2, 2), &mut inbox).is_err());
        assert!(re.insert(&cut(17, (false, true), 2, 1), &mut inbox).is_err());
        assert!(re.insert(&cut(18, (false, false), 3, 0), &mut inbox).is_err());
    }
}

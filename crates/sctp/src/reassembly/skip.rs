//! Messages that the sender has given up (RFC 3758 §3.6): incomplete messages are discarded, and messages
//! that waited for them are delivered.

use super::{Fragment, Fragments, Inbox, Message, Reassembly, Run, Skip, Stream};
use anabranch_wire::seq::Serial;
use std::collections::VecDeque;

/// The key under which the received fragments of a discarded message are kept.
pub(super) enum Part {
    /// The run of DATA from this TSN on.
    Run(u64),
    /// A message of I-DATA.
    Partial((u16, bool, u32)),
}

impl Reassembly {
    /// The sender has given up all missing chunks up to TSN `to`, and with them the messages up to `skips`;
    /// `wide` if it sends I-DATA. The cost depends on the messages discarded and delivered, not on the number
    /// of messages held.
    pub fn skip(&mut self, to: u64, skips: &[Skip], wide: bool, inbox: &mut Inbox) {
        self.drop_orphans(to, inbox);
        for &skip in skips {
            if !self.has_stream(skip.stream) {
                continue;
            }
            if skip.unordered {
                let number = Serial(skip.number);
                let stream = &mut self.streams[usize::from(skip.stream)];
                if stream.gone.is_none_or(|gone| gone.before(number)) {
                    stream.gone = Some(number);
                }
                // The half of all numbers that is not behind it.
                let first = skip.number.wrapping_sub(1 << 31);
                self.drop_partials((skip.stream, true), (first, skip.number), inbox);
            } else {
                self.skip_ordered(to, skip, wide, inbox);
            }
        }
    }

    fn skip_ordered(&mut self, to: u64, skip: Skip, wide: bool, inbox: &mut Inbox) {
        let next = self.streams[usize::from(skip.stream)].next;
        let target = unwrap(next, skip.number, wide);
        if target < next || target > next + u64::from(u32::MAX) {
            return;
        }
        if wide {
            self.drop_partials((skip.stream, false), (next as u32, target as u32), inbox);
        } else {
            self.drop_straddling(to, skip.stream, |message| unwrap(next, message, wide) <= target, inbox);
        }
        let stream = &mut self.streams[usize::from(skip.stream)];
        // Those that are whole are in turn, although some before them are missing.
        while let Some(first) = stream.waiting.first_entry().filter(|first| *first.key() <= target) {
            let message = first.remove();
            self.held -= message.len;
            inbox.push(message);
        }
        stream.next = target + 1;
        self.held -= stream.deliver_waiting(inbox);
    }

    /// Lets go the messages of I-DATA of a stream and kind that are not whole, from the first of these numbers to the last, which
    /// may be smaller: numbers wrap.
    pub(super) fn drop_partials(
        &mut self,
        (stream, unordered): (u16, bool),
        (first, last): (u32, u32),
        inbox: &mut Inbox,
    ) {
        let wraps = first > last;
        let ranges = [Some((first, if wraps { u32::MAX } else { last })), wraps.then_some((0, last))];
        for (first, last) in ranges.into_iter().flatten() {
            let covered = self.partials.range((stream, unordered, first)..=(stream, unordered, last));
            let parts: Vec<Part> = covered.map(|(&key, _)| Part::Partial(key)).collect();
            self.drop_parts(&parts, inbox);
        }
    }

    /// Discards fragments of DATA whose neighbour has been given up: no fragment can come before them, or
    /// behind them. After that, at most one message has fragments up to TSN `to`, and it continues behind
    /// `to`.
    fn drop_orphans(&mut self, to: u64, inbox: &mut Inbox) {
        let orphan = |(&start, run): (&u64, &Run)| {
            let headless = !run.first && !run.begun;
            (headless || !run.last && run.end <= to).then_some(Part::Run(start))
        };
        let orphans: Vec<Part> = self.runs.range(..=to + 1).filter_map(orphan).collect();
        self.drop_parts(&orphans, inbox);
    }

    /// Lets go the fragments of an ordered message of DATA that is `covered` and goes on behind TSN `to`: as the TSNs of a message
    /// follow each other, they are the next that have come.
    fn drop_straddling(&mut self, to: u64, stream: u16, covered: impl Fn(u32) -> bool, inbox: &mut Inbox) {
        let mut from = self.runs.range(..=to).next_back().map_or(to + 1, |(&start, _)| start);
        while let Some((&start, run)) = self.runs.range(from..).next() {
            let here = run.stream == stream && !run.unordered && covered(run.message);
            if here {
                self.drop_part(&Part::Run(start), inbox);
            } else if start > to {
                return;
            }
            from = start + 1;
        }
    }

    pub(super) fn drop_parts(&mut self, parts: &[Part], inbox: &mut Inbox) {
        for part in parts {
            self.drop_part(part, inbox);
        }
    }

    fn drop_part(&mut self, part: &Part, inbox: &mut Inbox) {
        let (stream, unordered, begun) = match *part {
            Part::Run(start) => {
                let Some(run) = self.runs.remove(&start) else { return };
                self.held -= run.len;
                self.given_up.extend((run.end > start).then(|| (start, (run.end - start) as u32)));
                (run.stream, run.unordered, run.begun)
            }
            Part::Partial(key) => {
                let Some(partial) = self.partials.remove(&key) else { return };
                for (tsn, len) in partial.fragments.into_values() {
                    self.held -= u64::from(len);
                    self.given_up.push((tsn, 1));
                }
                (key.0, key.1, partial.delivered > 0)
            }
        };
        if begun {
            let fragments = Fragments::Scattered(Box::default());
            inbox.push(Message { len: 0, stream, unordered, ppid: 0, fragments, more: false, aborted: true });
            let stream = &mut self.streams[usize::from(stream)];
            stream.open[usize::from(unordered)] = false;
            if unordered {
                self.held -= stream.deliver_behind(inbox);
            }
        }
    }

    /// A fragment of a message that has been stepped over already: it counts as received, and is of no use.
    pub(super) fn is_late(&self, piece: &Fragment) -> bool {
        let stream = &self.streams[usize::from(piece.stream)];
        if piece.unordered {
            return piece.number.is_some()
                && stream.gone.is_some_and(|gone| !gone.before(Serial(piece.message)));
        }
        let number = unwrap(stream.next, piece.message, piece.number.is_some());
        // The first numbers of a stream have none before them, so a wrapped one is enormous.
        number < stream.next || number > stream.next + u64::from(u32::MAX)
    }

    /// Removes and returns the chunks discarded since the last call, as runs of TSNs: the first and the
    /// number.
    #[inline]
    pub fn pass_given_up(&mut self, to: &mut VecDeque<(u64, u32)>) {
        // Mostly nothing, and this is asked for each packet.
        if !self.given_up.is_empty() {
            to.extend(self.given_up.drain(..));
        }
    }
}

impl Stream {
    /// Delivers the unordered messages that waited for the end of one which came in parts; their bytes.
    fn deliver_behind(&mut self, inbox: &mut Inbox) -> u64 {
        let mut bytes = 0;
        for message in self.behind.drain(..) {
            bytes += message.len;
            inbox.push(message);
        }
        bytes
    }
}

/// A number of a message near the next one of its stream: SSNs have 16 bits, MIDs (`wide`) 32.
fn unwrap(next: u64, message: u32, wide: bool) -> u64 {
    if wide {
        Serial(message).unwrap_near(next)
    } else {
        next.wrapping_add_signed(i64::from((message as u16).wrapping_sub(next as u16) as i16))
    }
}

//! Abandoned messages (RFC 3758 §3.6): incomplete messages are discarded, and messages that waited for them are
//! delivered.

use super::{Fragment, Fragments, Inbox, Message, Reassembly, Run, Skip, Stream, unwrap_number};
use anabranch_wire::seq::Serial;
use std::collections::VecDeque;

/// The key under which the received fragments of a discarded message are kept.
pub(super) enum Part {
    /// The run of DATA that starts at this TSN.
    Run(u64),
    /// An I-DATA message.
    Partial((u16, bool, u32)),
}

impl Reassembly {
    /// Skips the abandoned messages up to `skips`, after the sender has abandoned all missing chunks up to TSN `to`.
    /// `wide` if the sender uses I-DATA. The cost depends on the messages discarded and delivered, not on the number
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
                // The abandoned numbers are the half of the number space before this number.
                let first = skip.number.wrapping_sub(1 << 31);
                self.drop_partials((skip.stream, true), (first, skip.number), inbox);
            } else {
                self.skip_ordered(to, skip, wide, inbox);
            }
        }
    }

    fn skip_ordered(&mut self, to: u64, skip: Skip, wide: bool, inbox: &mut Inbox) {
        let next = self.streams[usize::from(skip.stream)].next;
        let target = unwrap_number(next, skip.number, wide);
        if target < next || target > next + u64::from(u32::MAX) {
            return;
        }
        if wide {
            self.drop_partials((skip.stream, false), (next as u32, target as u32), inbox);
        } else {
            self.drop_straddling(
                to,
                skip.stream,
                |message| unwrap_number(next, message, wide) <= target,
                inbox,
            );
        }
        let stream = &mut self.streams[usize::from(skip.stream)];
        // Complete messages are now next in order, although earlier ones are missing.
        while let Some(first) = stream.waiting.first_entry().filter(|first| *first.key() <= target) {
            let message = first.remove();
            self.held.remove(skip.stream, message.len);
            inbox.push(message);
        }
        stream.next = target + 1;
        self.held.remove(skip.stream, stream.deliver_waiting(inbox));
    }

    /// Discards the incomplete I-DATA messages of a stream and kind with numbers from the first to the last. The last
    /// may be smaller than the first, because numbers wrap.
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

    /// Discards fragments of DATA whose neighbour was abandoned, because the fragments before or after them will not
    /// arrive. After that, at most one message has fragments up to TSN `to`, and it continues after `to`.
    fn drop_orphans(&mut self, to: u64, inbox: &mut Inbox) {
        let orphan = |(&start, run): (&u64, &Run)| {
            let headless = !run.first && !run.begun;
            (headless || !run.last && run.end <= to).then_some(Part::Run(start))
        };
        let orphans: Vec<Part> = self.runs.range(..=to + 1).filter_map(orphan).collect();
        self.drop_parts(&orphans, inbox);
    }

    /// Drops the fragments of a covered ordered DATA message that continues after TSN `to`. TSNs of a message are
    /// consecutive, so these are the next received fragments.
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
                self.held.remove(run.stream, run.len);
                self.given_up.extend((run.end > start).then(|| (start, (run.end - start) as u32)));
                (run.stream, run.unordered, run.begun)
            }
            Part::Partial(key) => {
                let Some(partial) = self.partials.remove(&key) else { return };
                for (tsn, len) in partial.fragments.into_values() {
                    self.held.remove(key.0, len.into());
                    self.given_up.push((tsn, 1));
                }
                (key.0, key.1, partial.delivered > 0)
            }
        };
        if begun {
            let fragments = Fragments::Scattered(Box::default());
            inbox.push(Message { len: 0, stream, unordered, ppid: 0, fragments, more: false, aborted: true });
            let id = stream;
            let stream = &mut self.streams[usize::from(id)];
            stream.open[usize::from(unordered)] = false;
            if unordered {
                self.held.remove(id, stream.deliver_behind(inbox));
            }
        }
    }

    /// True if a fragment belongs to a message that was skipped. It is acknowledged and discarded.
    pub(super) fn is_late(&self, piece: &Fragment) -> bool {
        let stream = &self.streams[usize::from(piece.stream)];
        if piece.unordered {
            return piece.number.is_some()
                && stream.gone.is_some_and(|gone| !gone.before(Serial(piece.message)));
        }
        let number = unwrap_number(stream.next, piece.message, piece.number.is_some());
        // A number before the first one of a stream has wrapped to a huge value.
        number < stream.next || number > stream.next + u64::from(u32::MAX)
    }

    /// Removes and returns the chunks discarded since the last call, as runs of TSNs: first TSN and number.
    #[inline]
    pub fn take_abandoned(&mut self, to: &mut VecDeque<(u64, u32)>) {
        // Called for each packet, and usually empty.
        if !self.given_up.is_empty() {
            to.extend(self.given_up.drain(..));
        }
    }
}

impl Stream {
    /// Delivers the unordered messages that waited for the end of a partially delivered one; returns their bytes.
    fn deliver_behind(&mut self, inbox: &mut Inbox) -> u64 {
        let mut bytes = 0;
        for message in self.behind.drain(..) {
            bytes += message.len;
            inbox.push(message);
        }
        bytes
    }
}

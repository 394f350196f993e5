//! What a sender has given up (RFC 3758 §3.6): messages that will not become whole are let go, and those that waited for them
//! are delivered.

use super::{Fragment, Fragments, Inbox, Message, Reassembly, Run, Skip, Stream};
use wire::seq::Serial;

/// A message to be let go: all that has come of it, by the key under which it is kept.
enum Part {
    /// The run of DATA from this TSN on.
    Run(u64),
    /// A message of I-DATA.
    Partial((u16, bool, u32)),
}

impl Reassembly {
    /// The sender has given up all that is missing up to TSN `to`, and with it the messages up to these; `wide` if it sends
    /// I-DATA.
    pub fn skip(&mut self, to: u64, skips: &[Skip], wide: bool, inbox: &mut Inbox) {
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
                self.let_go(skip.stream, true, inbox, |message| !number.before(Serial(message)));
            } else {
                self.skip_ordered(skip, wide, inbox);
            }
        }
        self.drop_orphans(to, inbox);
    }

    fn skip_ordered(&mut self, skip: Skip, wide: bool, inbox: &mut Inbox) {
        let next = self.streams[usize::from(skip.stream)].next;
        let target = unwrap(next, skip.number, wide);
        if target < next || target > next + u64::from(u32::MAX) {
            return;
        }
        let covered = |message| unwrap(next, message, wide) <= target;
        self.let_go(skip.stream, false, inbox, covered);
        let stream = &mut self.streams[usize::from(skip.stream)];
        // Those that are whole are in turn, although some before them are missing.
        let behind = stream.waiting.split_off(&(target + 1));
        for (_, message) in core::mem::replace(&mut stream.waiting, behind) {
            self.held -= message.len;
            inbox.push(message);
        }
        stream.next = target + 1;
        self.held -= stream.deliver_waiting(inbox);
    }

    /// Lets go the messages of a stream that are not whole and have one of these numbers.
    pub(super) fn let_go(
        &mut self,
        stream: u16,
        unordered: bool,
        inbox: &mut Inbox,
        covered: impl Fn(u32) -> bool,
    ) {
        let run = |(&start, run): (&u64, &Run)| {
            let here = (run.stream, run.unordered) == (stream, unordered) && covered(run.message);
            here.then_some(Part::Run(start))
        };
        // Unordered DATA has no numbers.
        let runs: Vec<Part> = self.runs.iter().filter(|_| !unordered).filter_map(run).collect();
        let partials =
            self.partials.keys().filter(|key| (key.0, key.1) == (stream, unordered) && covered(key.2));
        let parts = partials.map(|&key| Part::Partial(key));
        runs.into_iter().chain(parts.collect::<Vec<_>>()).for_each(|part| self.drop_part(&part, inbox));
    }

    /// Fragments whose neighbour has been given up: nothing comes before them, or behind them.
    fn drop_orphans(&mut self, to: u64, inbox: &mut Inbox) {
        let orphan = |(&start, run): (&u64, &Run)| {
            let headless = !run.first && !run.begun && start <= to + 1;
            (headless || !run.last && run.end <= to).then_some(Part::Run(start))
        };
        let orphans: Vec<Part> = self.runs.iter().filter_map(orphan).collect();
        for part in &orphans {
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

    /// What has been let go since the last call, as runs of TSNs: the first and how many.
    pub fn take_given_up(&mut self) -> Vec<(u64, u32)> {
        core::mem::take(&mut self.given_up)
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

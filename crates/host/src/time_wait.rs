//! Ended TCP connections (TIME-WAIT, RFC 9293 §3.3.2). A host keeps a small entry of each, to answer stray segments
//! and to let the same two ends connect again (RFC 6191).

use super::protocol::Tuple;
use anabranch_base::time::{Duration, Time};
use anabranch_tcp::tcp::TimeWaitState;
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::{Flags, Segment};
use std::collections::{BTreeMap, VecDeque};

/// Lifetime of an entry: twice the maximum segment lifetime (4 minutes in RFC 9293 §3.4.2; one minute in Linux).
const TIME_WAIT_DURATION: Duration = Duration::from_secs(60);

/// The reaction to a segment for an ended connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    /// The segment is ignored.
    Ignored,
    /// The segment is acknowledged.
    Answer(Box<Segment>),
    /// The segment opens the next connection between the two ends.
    Reopens,
}

/// All ended connections.
#[derive(Debug)]
pub(super) struct TimeWait {
    entries: BTreeMap<Tuple, (Time, TimeWaitState)>,
    /// Expiry times in order of creation; a later segment may have prolonged an entry since.
    order: VecDeque<(Time, Tuple)>,
    most: usize,
}

impl TimeWait {
    pub(super) const fn new(most: usize) -> Self {
        Self { entries: BTreeMap::new(), order: VecDeque::new(), most }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn contains(&self, tuple: &Tuple) -> bool {
        self.entries.contains_key(tuple)
    }

    /// Adds an entry; forgets the oldest one at the limit.
    pub(super) fn insert(&mut self, now: Time, tuple: Tuple, state: TimeWaitState) {
        let until = now + TIME_WAIT_DURATION;
        if self.entries.insert(tuple, (until, state)).is_none() {
            self.order.push_back((until, tuple));
        }
        while self.entries.len() > self.most {
            let Some((_, oldest)) = self.order.pop_front() else { break };
            self.entries.remove(&oldest);
        }
    }

    /// Removes an entry, because its addresses and ports are in use again.
    pub(super) fn remove(&mut self, tuple: &Tuple) {
        if self.entries.remove(tuple).is_some() {
            self.order.retain(|(_, known)| known != tuple);
        }
    }

    /// Forgets expired entries.
    pub(super) fn expire(&mut self, now: Time) {
        while let Some(&(until, tuple)) = self.order.front().filter(|(until, _)| *until <= now) {
            self.order.pop_front();
            match self.entries.get(&tuple) {
                Some(&(later, _)) if later > until => self.order.push_back((later, tuple)),
                _ => drop(self.entries.remove(&tuple)),
            }
        }
    }

    /// Time of the next expiry.
    pub(super) fn next(&self) -> Option<Time> {
        self.order.front().map(|(until, _)| *until)
    }

    /// Decides the reaction to a segment; `None` if there is no ended connection with this tuple.
    pub(super) fn handle(&mut self, now: Time, tuple: &Tuple, segment: &Segment) -> Option<Reaction> {
        let (until, state) = self.entries.get_mut(tuple)?;
        // An RST must not end the wait (RFC 1337).
        if segment.flags.contains(Flags::RST) {
            return Some(Reaction::Ignored);
        }
        if segment.flags.contains(Flags::SYN) && !segment.flags.contains(Flags::ACK) {
            let newer = match (state.timestamps, segment.options.timestamps) {
                (Some((last, _)), Some(new)) => Serial(last).before(Serial(new.value)),
                _ => state.expected.before(segment.seq),
            };
            // RFC 6191 §2: with equal timestamps, a sequence number beyond the old ones suffices.
            let same = matches!((state.timestamps, segment.options.timestamps),
                (Some((last, _)), Some(new)) if last == new.value);
            if newer || (same && state.expected.before(segment.seq)) {
                return Some(Reaction::Reopens);
            }
        } else if segment.flags.contains(Flags::FIN)
            && segment.seq.add(segment.sequence_len()) == state.expected
        {
            // The peer retransmits its FIN because the last acknowledgement was lost: restart the wait (RFC 9293
            // §3.10.7.4).
            *until = now + TIME_WAIT_DURATION;
        } else if segment.sequence_len() == 0 && segment.seq == state.expected {
            return Some(Reaction::Ignored);
        }
        Some(Reaction::Answer(Box::new(state.answer(now, *tuple))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_wire::tcp::Timestamps;

    fn tuple(port: u16) -> Tuple {
        (([10, 0, 0, 1], 80).into(), ([10, 0, 0, 2], port).into())
    }

    fn secs(secs: u64) -> Time {
        Time::ZERO + Duration::from_secs(secs)
    }

    const STATE: TimeWaitState =
        TimeWaitState { next_sequence: Serial(100), expected: Serial(200), timestamps: Some((5_000, 7)) };

    fn segment(seq: u32, flags: Flags, timestamp: Option<u32>) -> Segment {
        let mut segment = Segment { seq: Serial(seq), flags, ..Segment::default() };
        segment.options.timestamps = timestamp.map(|value| Timestamps { value, echo: 0 });
        segment
    }

    #[test]
    fn newer_syn_reopens_the_connection() {
        let mut all = TimeWait::new(10);
        all.insert(Time::ZERO, tuple(1), STATE);
        all.insert(Time::ZERO, tuple(2), TimeWaitState { timestamps: None, ..STATE });
        let mut handle = |port, segment: Segment| all.handle(secs(1), &tuple(port), &segment);
        assert_eq!(handle(1, segment(0, Flags::SYN, Some(5_001))), Some(Reaction::Reopens));
        assert!(matches!(handle(1, segment(0, Flags::SYN, Some(5_000))), Some(Reaction::Answer(_))));
        assert_eq!(handle(1, segment(201, Flags::SYN, Some(5_000))), Some(Reaction::Reopens));
        assert!(matches!(handle(1, segment(0, Flags::SYN, Some(4_999))), Some(Reaction::Answer(_))));
        assert_eq!(handle(2, segment(201, Flags::SYN, None)), Some(Reaction::Reopens));
        assert!(matches!(handle(2, segment(200, Flags::SYN, None)), Some(Reaction::Answer(_))));
        assert_eq!(handle(1, segment(200, Flags::RST, None)), Some(Reaction::Ignored));
        assert_eq!(handle(3, segment(200, Flags::ACK, None)), None);
    }

    #[test]
    fn repeated_fin_is_acknowledged_and_restarts_the_wait() {
        let mut all = TimeWait::new(10);
        all.insert(Time::ZERO, tuple(1), STATE);
        let fin = segment(199, Flags::FIN | Flags::ACK, Some(5_001));
        let Some(Reaction::Answer(answer)) = all.handle(secs(30), &tuple(1), &fin) else {
            panic!("an answer")
        };
        assert_eq!((answer.seq, answer.ack, answer.flags), (Serial(100), Serial(200), Flags::ACK));
        assert_eq!(answer.options.timestamps, Some(Timestamps { value: 30_007, echo: 5_000 }));
        all.expire(secs(60));
        assert_eq!((all.len(), all.next()), (1, Some(secs(90))));
        all.expire(secs(90));
        assert_eq!((all.len(), all.next()), (0, None));
    }

    #[test]
    fn oldest_entry_is_forgotten_at_the_limit() {
        let mut all = TimeWait::new(2);
        for port in 1..=3 {
            all.insert(secs(port.into()), tuple(port), STATE);
        }
        assert_eq!((all.contains(&tuple(1)), all.contains(&tuple(2)), all.len()), (false, true, 2));
        all.remove(&tuple(2));
        assert_eq!((all.len(), all.next()), (1, Some(secs(63))));
    }
}

//! Checks what a flow delivers: what was written when, and whether what is delivered is right.
//!
//! Every delivery of every run is checked against them. Breaking a rule is a mistake of a protocol core, never of a
//! scenario, so it ends the run with a panic that says where.

use super::fragments::Fragments;
use anabranch_base::time::Time;
use anabranch_endpoint::Delivery;
use anabranch_scenario::measure::{Histogram, Pace};
use anabranch_wire::Payload;
use std::collections::{BTreeMap, VecDeque};

/// What a protocol promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// A stream of bytes: every byte once, in order.
    Stream,
    /// Messages: each whole, perhaps in parts, and once, in order within its stream unless sent unordered.
    Messages,
    /// Datagrams: whole or not at all, in any order.
    Datagrams,
}

/// Records of datagrams are gone through for those that are settled when there are so many, and whenever there are twice as
/// many as were left the last time.
const FEW_RECORDS: usize = 1024;

/// What was written at one moment: a run of bytes.
#[derive(Clone, Copy, Debug)]
struct WriteRecord {
    start: u64,
    end: u64,
    born: Time,
    /// Bytes of which it is not known yet whether they arrive; of streams, of which only the first may be delivered in part,
    /// it stays as it was written.
    open: u64,
}

/// What was written and not yet delivered or, of datagrams, lost.
#[derive(Clone, Debug)]
pub struct DeliveryChecker {
    service: Service,
    written: u64,
    /// Ascending; without gaps, but for datagrams.
    records: VecDeque<WriteRecord>,
    /// With so many records, those of settled datagrams are taken out.
    many_records: usize,
    /// Everything below was delivered (of a stream).
    next: u64,
    delivered: u64,
    /// Offset behind the last ordered message of each stream.
    streams: Vec<u64>,
    delays: Histogram,
    /// Of messages that have not been read.
    fragments: Fragments,
    /// What has been read of messages that come in parts, by stream and whether unordered.
    parts: BTreeMap<(u16, bool), Delivery>,
    /// Messages that their sender has given up and that have not been delivered all the same: length by offset.
    given_up: BTreeMap<u64, u64>,
    /// Their bytes, and those of parts of such messages that were delivered.
    given_up_bytes: u64,
    aborted_bytes: u64,
    /// What was delivered over time, in a run with an outage.
    pace: Option<Box<Pace>>,
    /// What was written and read since somebody asked, if anybody does.
    log: Option<VecDeque<Access>>,
    /// What was delivered of a stream since somebody asked, if anybody does: so many bytes, and when they were written.
    runs: Option<VecDeque<(u64, Time)>>,
}

/// Something that an application wrote or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// When the sending application had it ready, or when the receiving one read it.
    pub at: Time,
    /// It was read.
    pub read: bool,
    /// Offset in all that was written.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

impl DeliveryChecker {
    /// A checker for a flow with this service.
    pub fn new(service: Service) -> Self {
        let records = VecDeque::new();
        Self {
            service,
            written: 0,
            records,
            many_records: FEW_RECORDS,
            next: 0,
            delivered: 0,
            streams: Vec::new(),
            delays: Histogram::new(),
            fragments: Fragments::default(),
            given_up: BTreeMap::new(),
            given_up_bytes: 0,
            aborted_bytes: 0,
            pace: None,
            log: None,
            runs: None,
            parts: BTreeMap::new(),
        }
    }

    /// Counts what is delivered from now on over time.
    pub fn keep_pace(&mut self, pace: Pace) {
        self.pace = Some(Box::new(pace));
    }

    /// What was delivered over time, if that is counted.
    pub fn pace(&self) -> Option<&Pace> {
        self.pace.as_deref()
    }

    /// Keeps what is written and read from now on, for [`poll_access`](Self::poll_access).
    pub fn keep_accesses(&mut self) {
        self.log.get_or_insert_default();
    }

    /// The next of what was kept, oldest first.
    pub fn poll_access(&mut self) -> Option<Access> {
        self.log.as_mut()?.pop_front()
    }

    /// Keeps what is delivered from now on, for [`take_run`](Self::take_run).
    pub fn keep_runs(&mut self) {
        self.runs.get_or_insert_default();
    }

    /// The next bytes that were delivered, oldest first: how many, and when they were written.
    pub fn take_run(&mut self) -> Option<(u64, Time)> {
        self.runs.as_mut()?.pop_front()
    }

    /// Whether what was written may get lost for good, and somebody has to say so.
    pub const fn may_lose(&self) -> bool {
        matches!(self.service, Service::Datagrams)
    }

    /// What the protocol promises.
    pub const fn service(&self) -> Service {
        self.service
    }

    /// Bytes written.
    pub const fn written(&self) -> u64 {
        self.written
    }

    /// Bytes delivered.
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Whether it is known of all that was written that it has been delivered, or given up.
    pub const fn is_settled(&self) -> bool {
        self.delivered - self.aborted_bytes + self.given_up_bytes == self.written
    }

    /// From writing to delivery: of each byte for streams, of each message otherwise.
    pub const fn delays(&self) -> &Histogram {
        &self.delays
    }

    /// Forgets the delays seen so far, at the end of the warm-up.
    pub fn restart_delays(&mut self) {
        self.delays.clear();
    }

    /// The application wrote `len` bytes that it had ready at `born`.
    pub fn wrote(&mut self, len: u64, born: Time) {
        let (start, end) = (self.written, self.written + len);
        self.written = end;
        if let Some(log) = &mut self.log {
            log.push_back(Access { at: born, read: false, offset: start, len });
        }
        match self.records.back_mut() {
            Some(last) if self.service == Service::Stream && last.born == born => last.end = end,
            _ => self.records.push_back(WriteRecord { start, end, born, open: len }),
        }
        if self.service == Service::Datagrams && self.records.len() > self.many_records {
            self.records.retain(|record| record.open > 0);
            self.many_records = FEW_RECORDS.max(2 * self.records.len());
        }
    }

    /// The network has dropped a datagram: nobody has to remember when it was written.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn lost(&mut self, datagram: Payload) -> Result<(), String> {
        self.settle(datagram.offset, u64::from(datagram.len)).map(drop)
    }

    /// The transport has given up a message (partial reliability). It may be delivered all the same.
    ///
    /// # Errors
    /// What is wrong with that.
    pub fn give_up(&mut self, offset: u64, len: u64) -> Result<(), String> {
        let place = self.records.binary_search_by_key(&offset, |record| record.start);
        if let Ok(at) = place {
            let record = &mut self.records[at];
            if record.end != offset + len {
                return Err(format!("{len} bytes at {offset} were given up, which are no message"));
            }
            if core::mem::take(&mut record.open) > 0 {
                self.given_up.insert(offset, len);
                self.given_up_bytes += len;
            }
            self.forget_settled();
        } else if offset + len > self.written {
            return Err(format!("{len} bytes at {offset} were given up, and never written"));
        }
        Ok(())
    }

    /// The transport keeps a fragment of a message, under this key.
    ///
    /// # Errors
    /// What is wrong with it.
    #[inline]
    pub fn place(&mut self, key: u64, payload: Payload) -> Result<(), String> {
        self.fragments.place(key, payload)
    }

    /// The transport gives fragments up that it has placed: the key of the first, and how many.
    ///
    /// # Errors
    /// What is wrong with that.
    pub fn forget(&mut self, run: (u64, u32)) -> Result<(), String> {
        self.fragments.forget(run)
    }

    /// The transport handed a delivery to the receiving application; of a message, with the keys of its fragments.
    ///
    /// # Errors
    /// What is wrong with it.
    #[inline]
    pub fn deliver(&mut self, now: Time, delivery: &Delivery, keys: &[(u64, u32)]) -> Result<(), String> {
        if delivery.aborted {
            let key = (delivery.stream, delivery.unordered);
            let begun = self.parts.remove(&key).ok_or_else(|| format!("{delivery:?} of nothing"))?;
            self.aborted_bytes += begun.len;
            return Ok(());
        }
        let found;
        let delivery = match self.service {
            Service::Messages => {
                found = Delivery { offset: self.fragments.read(delivery, keys)?, ..*delivery };
                &found
            }
            Service::Stream | Service::Datagrams => delivery,
        };
        let end = delivery.offset + delivery.len;
        if end > self.written {
            return Err(format!("{delivery:?} was never written: the sender wrote {} bytes", self.written));
        }
        match self.service {
            Service::Stream => self.deliver_bytes(now, delivery)?,
            Service::Messages => {
                // Most come whole.
                let joined;
                let whole = if delivery.more || !self.parts.is_empty() {
                    joined = self.join(*delivery)?;
                    joined.as_ref()
                } else {
                    Some(delivery)
                };
                if let Some(whole) = whole {
                    self.deliver_message(now, whole)?;
                    self.keep_order(whole)?;
                }
            }
            Service::Datagrams => self.deliver_datagram(now, delivery)?,
        }
        self.delivered += delivery.len;
        if let Some(pace) = &mut self.pace {
            pace.add(now, delivery.len);
        }
        if let Some(log) = &mut self.log {
            log.push_back(Access { at: now, read: true, offset: delivery.offset, len: delivery.len });
        }
        Ok(())
    }

    fn deliver_bytes(&mut self, now: Time, delivery: &Delivery) -> Result<(), String> {
        if delivery.offset != self.next {
            return Err(format!("{delivery:?} came where byte {} was due", self.next));
        }
        let end = delivery.offset + delivery.len;
        while self.next < end {
            let Some(&WriteRecord { end: run, born, .. }) = self.records.front() else { break };
            let upto = run.min(end);
            self.delays.add(now.since(born), upto - self.next);
            if let Some(runs) = &mut self.runs {
                runs.push_back((upto - self.next, born));
            }
            self.next = upto;
            if upto == run {
                self.records.pop_front();
            }
        }
        Ok(())
    }

    /// A message that comes in parts, once the last has come.
    fn join(&mut self, part: Delivery) -> Result<Option<Delivery>, String> {
        let key = (part.stream, part.unordered);
        let message = match self.parts.remove(&key) {
            None => part,
            Some(begun) if begun.offset + begun.len == part.offset => {
                Delivery { len: begun.len + part.len, more: part.more, ..begun }
            }
            Some(begun) => return Err(format!("{part:?} is no part of {begun:?}")),
        };
        if !message.more {
            return Ok(Some(message));
        }
        self.parts.insert(key, message);
        Ok(None)
    }

    #[inline]
    fn deliver_message(&mut self, now: Time, delivery: &Delivery) -> Result<(), String> {
        // Messages of one length, as most are, lie where their offset says.
        let first = self.records.front().map_or(0, |record| record.start);
        let guess = (delivery.offset.saturating_sub(first) / delivery.len.max(1)) as usize;
        let place = match self.records.get(guess) {
            Some(record) if record.start == delivery.offset => Ok(guess),
            _ => self.records.binary_search_by_key(&delivery.offset, |record| record.start),
        };
        if self.given_up.get(&delivery.offset) == Some(&delivery.len) {
            // What was on its way has arrived after all.
            self.given_up.remove(&delivery.offset);
            self.given_up_bytes -= delivery.len;
            return Ok(());
        }
        let Some(record) = place.ok().and_then(|at| self.records.get_mut(at)) else {
            return Err(format!("{delivery:?} is no message, or came before"));
        };
        if record.end != delivery.offset + delivery.len {
            return Err(format!(
                "{delivery:?} is not the whole message of {} bytes",
                record.end - record.start
            ));
        }
        if record.open == 0 {
            return Err(format!("{delivery:?} came before"));
        }
        record.open = 0;
        self.delays.add(now.since(record.born), 1);
        self.forget_settled();
        Ok(())
    }

    /// Takes away the first records, as far as nothing of them is open.
    #[inline]
    fn forget_settled(&mut self) {
        while self.records.front().is_some_and(|record| record.open == 0) {
            self.records.pop_front();
        }
    }

    #[inline]
    fn keep_order(&mut self, delivery: &Delivery) -> Result<(), String> {
        if delivery.unordered {
            return Ok(());
        }
        let stream = usize::from(delivery.stream);
        if stream >= self.streams.len() {
            self.streams.resize(stream + 1, 0);
        }
        if delivery.offset < self.streams[stream] {
            return Err(format!("{delivery:?} came after a later message of its stream"));
        }
        self.streams[stream] = delivery.offset + delivery.len;
        Ok(())
    }

    fn deliver_datagram(&mut self, now: Time, delivery: &Delivery) -> Result<(), String> {
        let born = self.settle(delivery.offset, delivery.len)?;
        self.delays.add(now.since(born), 1);
        Ok(())
    }

    /// It is known what became of a datagram, which may be a part of a larger write; when that was made.
    fn settle(&mut self, offset: u64, len: u64) -> Result<Time, String> {
        // Most are settled in order: then there are as few records as the way is long.
        let first = self.records.front().is_some_and(|record| (record.start..record.end).contains(&offset));
        let found = if first {
            Some(0)
        } else {
            self.records.partition_point(|record| record.start <= offset).checked_sub(1)
        };
        let record = found.and_then(|at| self.records.get_mut(at)).filter(|record| len <= record.open);
        let Some(record) = record.filter(|record| offset + len <= record.end) else {
            return Err(format!("{len} bytes at {offset} are no datagram, or were delivered or lost before"));
        };
        record.open -= len;
        let born = record.born;
        self.forget_settled();
        Ok(born)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::time::Duration;
    use anabranch_wire::Payload;

    fn ms(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    fn delivery(offset: u64, len: u64) -> Delivery {
        Delivery::bytes(offset, len)
    }

    #[test]
    fn a_stream_is_contiguous_and_its_bytes_have_ages() {
        let mut checker = DeliveryChecker::new(Service::Stream);
        checker.wrote(100, ms(0));
        checker.wrote(300, ms(10));
        assert!(checker.deliver(ms(20), &delivery(0, 200), &[]).is_ok());
        assert!(checker.deliver(ms(30), &delivery(200, 200), &[]).is_ok());
        // 100 bytes of 20 ms, 100 of 10 ms and 200 of 20 ms.
        assert!((checker.delays().mean_s().unwrap() - 0.0175).abs() < 1e-12);
        assert_eq!((checker.written(), checker.delivered()), (400, 400));
        assert!(checker.records.is_empty());
    }

    #[test]
    fn gaps_repeats_and_inventions_show() {
        let mut checker = DeliveryChecker::new(Service::Stream);
        checker.wrote(100, ms(0));
        assert!(checker.deliver(ms(1), &delivery(10, 10), &[]).unwrap_err().contains("byte 0 was due"));
        checker.deliver(ms(1), &delivery(0, 50), &[]).unwrap();
        assert!(checker.deliver(ms(1), &delivery(0, 50), &[]).is_err());
        assert!(checker.deliver(ms(1), &delivery(50, 51), &[]).unwrap_err().contains("never written"));
    }

    /// A message that came as one fragment is read.
    fn read(checker: &mut DeliveryChecker, message: Delivery) -> Result<(), String> {
        let payload = Payload::new(message.offset, message.len as u32);
        checker.place(1, payload).unwrap();
        checker.deliver(ms(1), &message, &[(1, 1)])
    }

    #[test]
    fn messages_come_whole_once_and_in_the_order_of_their_stream() {
        let mut checker = DeliveryChecker::new(Service::Messages);
        for _ in 0..5 {
            checker.wrote(10, ms(0));
        }
        let on = |stream, offset| Delivery { stream, ..delivery(offset, 10) };
        assert!(read(&mut checker, on(1, 20)).is_ok());
        assert!(read(&mut checker, on(0, 0)).is_ok());
        assert!(read(&mut checker, on(0, 0)).unwrap_err().contains("before"));
        assert!(read(&mut checker, on(1, 10)).unwrap_err().contains("later message"));
        assert!(read(&mut checker, delivery(30, 5)).unwrap_err().contains("whole"));
        assert!(read(&mut checker, delivery(35, 5)).unwrap_err().contains("no message"));
        let unordered = Delivery { unordered: true, ..on(1, 40) };
        assert!(read(&mut checker, unordered).is_ok());
    }

    #[test]
    fn a_message_may_come_in_parts_that_follow_each_other() {
        let mut checker = DeliveryChecker::new(Service::Messages);
        for _ in 0..3 {
            checker.wrote(10, ms(0));
        }
        let part = |stream, offset, len, more| Delivery { stream, more, ..delivery(offset, len) };
        read(&mut checker, part(0, 0, 4, true)).unwrap();
        read(&mut checker, part(1, 10, 10, false)).unwrap();
        assert_eq!(checker.delivered(), 14);
        read(&mut checker, part(0, 4, 3, true)).unwrap();
        read(&mut checker, part(0, 7, 3, false)).unwrap();
        assert_eq!((checker.delivered(), checker.records.len()), (20, 1));
        read(&mut checker, part(0, 20, 5, true)).unwrap();
        assert!(read(&mut checker, part(0, 26, 4, false)).unwrap_err().contains("no part"));
    }

    #[test]
    fn what_was_given_up_may_come_and_need_not() {
        let mut checker = DeliveryChecker::new(Service::Messages);
        for _ in 0..4 {
            checker.wrote(10, ms(0));
        }
        assert!(checker.give_up(35, 10).is_err() && checker.give_up(0, 5).is_err());
        for offset in [0, 10, 20] {
            checker.give_up(offset, 10).unwrap();
        }
        read(&mut checker, delivery(10, 10)).unwrap();
        assert!(read(&mut checker, delivery(10, 10)).is_err(), "once");
        read(&mut checker, Delivery { more: true, ..delivery(20, 4) }).unwrap();
        checker.deliver(ms(1), &Delivery { aborted: true, ..delivery(24, 0) }, &[]).unwrap();
        assert!(!checker.is_settled());
        read(&mut checker, delivery(30, 10)).unwrap();
        assert!(checker.is_settled());
        assert_eq!((checker.written(), checker.delivered()), (40, 24));
        checker.wrote(10, ms(0));
        read(&mut checker, delivery(40, 10)).unwrap();
        checker.give_up(40, 10).unwrap();
        assert!(checker.is_settled(), "it had been delivered before the sender gave it up");
    }

    #[test]
    fn datagrams_are_remembered_until_they_are_delivered_or_lost() {
        let mut checker = DeliveryChecker::new(Service::Datagrams);
        for number in 0..70_000 {
            checker.wrote(10, ms(number));
        }
        assert!(checker.deliver(ms(70_000), &delivery(500_005, 10), &[]).is_err());
        assert!(checker.deliver(ms(70_000), &delivery(699_990, 10), &[]).is_ok());
        // One that 69,999 others were written after and overtook.
        checker.deliver(ms(70_000), &delivery(0, 10), &[]).unwrap();
        assert!((checker.delays().mean_s().unwrap() - 35.000_5).abs() < 1e-9);
        assert!(checker.deliver(ms(70_000), &delivery(0, 10), &[]).unwrap_err().contains("before"));
        for number in 1..69_999 {
            checker.lost(Payload::new(number * 10, 10)).unwrap();
        }
        assert!(checker.records.is_empty());
        assert!(checker.lost(Payload::new(10, 10)).is_err());
    }

    #[test]
    fn a_datagram_that_never_comes_keeps_no_others() {
        let mut checker = DeliveryChecker::new(Service::Datagrams);
        for number in 0..100_000 {
            checker.wrote(20, ms(number));
            if number != 3 {
                checker.deliver(ms(number), &delivery(20 * number, 10), &[]).unwrap();
                checker.lost(Payload::new(20 * number + 10, 10)).unwrap();
            }
        }
        assert!(checker.records.len() <= FEW_RECORDS + 1, "{}", checker.records.len());
        checker.deliver(ms(100_003), &delivery(60, 20), &[]).unwrap();
        assert!((checker.delays().mean_s().unwrap() - 100.0 / 100_000.0).abs() < 1e-12);
    }
}

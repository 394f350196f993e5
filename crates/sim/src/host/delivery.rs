//! Checks the deliveries of a flow against its writes.
//!
//! Every delivery of every run is checked. A violation is an error of a protocol core, never of a scenario,
//! so it ends the run with a panic that names flow and time.

use super::fragments::Fragments;
use super::meters::MAX_MEASURED_STREAMS;
use super::write_times::WriteTimes;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::Delivery;
use anabranch_scenario::measure::{Datagrams, Deliveries, Histogram, Voice};
use anabranch_wire::Payload;
use std::collections::{BTreeMap, VecDeque};

/// Service of a protocol, which determines the guarantees for its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// A stream of bytes: every byte once, in order.
    Stream,
    /// Messages: each whole, possibly in parts, and once, in order within its stream unless sent unordered.
    Messages,
    /// Datagrams: whole or not at all, in any order.
    Datagrams,
}

/// Records of settled datagrams are removed when there are this many records, and whenever their number has
/// doubled since the last removal.
const MIN_RECORDS_TO_PRUNE: usize = 1024;

/// A written message or datagrams: a range of bytes that were written at one time.
#[derive(Clone, Copy, Debug)]
struct WriteRecord {
    start: u64,
    end: u64,
    born: Time,
    /// Bytes whose delivery is not known yet.
    open: u64,
}

/// Written data that has not been delivered or, for datagrams, lost.
#[derive(Clone, Debug)]
pub struct DeliveryChecker {
    service: Service,
    written: u64,
    /// Messages and datagrams, ascending by offset, and without gaps except for datagrams.
    records: VecDeque<WriteRecord>,
    /// Data of a stream.
    stream: WriteTimes,
    /// Number of records at which those of settled datagrams are removed.
    many_records: usize,
    /// All stream data below this offset was delivered.
    next: u64,
    delivered: u64,
    /// End offset of the last ordered message of each stream.
    streams: Vec<u64>,
    delays: Histogram,
    /// Deliveries of the first streams; empty with one stream.
    by_stream: Vec<StreamDeliveries>,
    /// Fragments of messages that have not been read.
    fragments: Fragments,
    /// Parts of incompletely read messages, by stream and order.
    parts: BTreeMap<(u16, bool), Delivery>,
    /// Length by offset of messages that their sender has abandoned and that have not been delivered. An abandoned
    /// message that was in flight may still be delivered.
    abandoned: BTreeMap<u64, u64>,
    /// Bytes of these messages, including parts that were delivered.
    abandoned_bytes: u64,
    aborted_bytes: u64,
    /// Measurements of datagrams.
    datagrams: Datagrams,
    /// Deliveries over time, in a run with events.
    over_time: Option<Box<Deliveries>>,
    /// Writes and reads since the last query; `None` if not recorded.
    log: Option<VecDeque<Access>>,
    /// Deliveries of a stream since the last query: number of bytes, and time of writing; `None` if not recorded.
    runs: Option<VecDeque<(u64, Time)>>,
}

/// Deliveries of one stream.
#[derive(Clone, Debug, Default)]
pub struct StreamDeliveries {
    /// Bytes of complete messages.
    pub bytes: u64,
    /// Delays from writing to delivery.
    pub delays: Histogram,
}

/// A write or read of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Time at which the sending application had the data ready, or at which the receiving application read it.
    pub at: Time,
    /// True for a read, false for a write.
    pub read: bool,
    /// Offset in the written data.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

impl DeliveryChecker {
    /// A checker for a flow with this service.
    pub fn new(service: Service) -> Self {
        Self {
            service,
            written: 0,
            records: VecDeque::new(),
            stream: WriteTimes::default(),
            many_records: MIN_RECORDS_TO_PRUNE,
            next: 0,
            delivered: 0,
            streams: Vec::new(),
            delays: Histogram::new(),
            by_stream: Vec::new(),
            fragments: Fragments::default(),
            abandoned: BTreeMap::new(),
            abandoned_bytes: 0,
            aborted_bytes: 0,
            datagrams: Datagrams::default(),
            over_time: None,
            log: None,
            runs: None,
            parts: BTreeMap::new(),
        }
    }

    /// Rates datagrams as a call, if there is one.
    #[must_use]
    pub fn with_voice(mut self, voice: Option<Voice>) -> Self {
        self.datagrams = Datagrams::new(voice);
        self
    }

    /// Measurements of datagrams; `None` of other data.
    pub fn datagrams(&self) -> Option<&Datagrams> {
        self.may_lose().then_some(&self.datagrams)
    }

    /// Records the arrival of a further copy of a received datagram.
    pub const fn duplicated(&mut self) {
        self.datagrams.duplicated();
    }

    /// Counts deliveries of the first streams, if there are several.
    #[must_use]
    pub fn with_streams(mut self, count: u16) -> Self {
        if count > 1 {
            self.by_stream.resize_with(usize::from(count).min(MAX_MEASURED_STREAMS), Default::default);
        }
        self
    }

    /// Deliveries of the first streams; empty with one stream.
    pub fn by_stream(&self) -> &[StreamDeliveries] {
        &self.by_stream
    }

    /// Starts to count deliveries over time.
    pub fn keep_over_time(&mut self, deliveries: Deliveries) {
        self.over_time = Some(Box::new(deliveries));
    }

    /// Deliveries over time, if they are counted.
    pub fn over_time(&self) -> Option<&Deliveries> {
        self.over_time.as_deref()
    }

    /// Starts to record writes and reads, for [`poll_access`](Self::poll_access).
    pub fn keep_accesses(&mut self) {
        self.log.get_or_insert_default();
    }

    /// The oldest recorded access.
    pub fn poll_access(&mut self) -> Option<Access> {
        self.log.as_mut()?.pop_front()
    }

    /// Starts to record deliveries, for [`take_run`](Self::take_run).
    pub fn keep_runs(&mut self) {
        self.runs.get_or_insert_default();
    }

    /// Length and time of writing of the oldest recorded delivery.
    pub fn take_run(&mut self) -> Option<(u64, Time)> {
        self.runs.as_mut()?.pop_front()
    }

    /// Returns true if the protocol may lose data, so that losses have to be reported.
    pub const fn may_lose(&self) -> bool {
        matches!(self.service, Service::Datagrams)
    }

    /// The protocol's guarantees.
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

    /// True if all written data has been delivered, lost or abandoned.
    pub const fn is_settled(&self) -> bool {
        self.delivered - self.aborted_bytes + self.abandoned_bytes == self.written
    }

    /// Delays from writing to delivery: of each byte for streams, of each message otherwise.
    pub const fn delays(&self) -> &Histogram {
        &self.delays
    }

    /// Discards the delays of the warm-up.
    pub fn restart_delays(&mut self, now: Time) {
        self.delays.clear();
        self.by_stream.iter_mut().for_each(|stream| stream.delays.clear());
        self.datagrams.restart(now);
    }

    /// Records that the application wrote `len` bytes, ready at `born`.
    pub fn wrote(&mut self, len: u64, born: Time) {
        let (start, end) = (self.written, self.written + len);
        self.written = end;
        if let Some(log) = &mut self.log {
            log.push_back(Access { at: born, read: false, offset: start, len });
        }
        match self.service {
            Service::Stream => self.stream.push(len, born),
            _ => self.records.push_back(WriteRecord { start, end, born, open: len }),
        }
        if self.service == Service::Datagrams && self.records.len() > self.many_records {
            self.records.retain(|record| record.open > 0);
            self.many_records = MIN_RECORDS_TO_PRUNE.max(2 * self.records.len());
        }
    }

    /// Records that the network has dropped a datagram, so that its record can be removed.
    ///
    /// # Errors
    ///
    /// A violation.
    pub fn lost(&mut self, datagram: Payload) -> Result<(), String> {
        let sent = self.settle(datagram.offset, u64::from(datagram.len))?;
        self.datagrams.lost(sent);
        Ok(())
    }

    /// Records that the transport has abandoned a message (partial reliability). It may be delivered
    /// nevertheless.
    ///
    /// # Errors
    ///
    /// A violation.
    pub fn abandon(&mut self, offset: u64, len: u64) -> Result<(), String> {
        let place = self.records.binary_search_by_key(&offset, |record| record.start);
        if let Ok(at) = place {
            let record = &mut self.records[at];
            if record.end != offset + len {
                return Err(format!("{len} bytes at {offset} were abandoned, but are not a message"));
            }
            if core::mem::take(&mut record.open) > 0 {
                self.abandoned.insert(offset, len);
                self.abandoned_bytes += len;
            }
            self.remove_settled();
        } else if offset + len > self.written {
            return Err(format!("{len} bytes at {offset} were abandoned, but never written"));
        }
        Ok(())
    }

    /// Records that the transport stores a fragment of a message, under this key.
    ///
    /// # Errors
    ///
    /// A violation.
    #[inline]
    pub fn place(&mut self, key: u64, payload: Payload) -> Result<(), String> {
        self.fragments.place(key, payload)
    }

    /// Records that the transport discards stored fragments: the key of the first, and their number.
    ///
    /// # Errors
    ///
    /// A violation.
    pub fn forget(&mut self, run: (u64, u32)) -> Result<(), String> {
        self.fragments.forget(run)
    }

    /// Records a delivery to the receiving application; of a message, with the keys of its fragments.
    ///
    /// # Errors
    ///
    /// A violation.
    #[inline]
    pub fn deliver(&mut self, now: Time, delivery: &Delivery, keys: &[(u64, u32)]) -> Result<(), String> {
        if delivery.aborted {
            let key = (delivery.stream, delivery.unordered);
            let begun = self
                .parts
                .remove(&key)
                .ok_or_else(|| format!("{delivery:?} ends a message without a beginning"))?;
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
                // Most messages are delivered whole.
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
        if let Some(deliveries) = &mut self.over_time {
            deliveries.add(now, delivery.len);
        }
        if let Some(log) = &mut self.log {
            log.push_back(Access { at: now, read: true, offset: delivery.offset, len: delivery.len });
        }
        Ok(())
    }

    fn deliver_bytes(&mut self, now: Time, delivery: &Delivery) -> Result<(), String> {
        if delivery.offset != self.next {
            return Err(format!("{delivery:?} was delivered, but byte {} was expected", self.next));
        }
        let end = delivery.offset + delivery.len;
        while self.next < end {
            let Some((len, born)) = self.stream.take(end - self.next) else { break };
            self.delays.add(now.since(born), len);
            if let Some(runs) = &mut self.runs {
                runs.push_back((len, born));
            }
            self.next += len;
        }
        Ok(())
    }

    /// Joins the parts of a message; returns it with the last part.
    fn join(&mut self, part: Delivery) -> Result<Option<Delivery>, String> {
        let key = (part.stream, part.unordered);
        let message = match self.parts.remove(&key) {
            None => part,
            Some(begun) if begun.offset + begun.len == part.offset => {
                Delivery { len: begun.len + part.len, more: part.more, ..begun }
            }
            Some(begun) => return Err(format!("{part:?} is not a part of {begun:?}")),
        };
        if !message.more {
            return Ok(Some(message));
        }
        self.parts.insert(key, message);
        Ok(None)
    }

    #[inline]
    fn deliver_message(&mut self, now: Time, delivery: &Delivery) -> Result<(), String> {
        // Messages of equal length, the usual case, are found directly by their offset.
        let first = self.records.front().map_or(0, |record| record.start);
        let guess = (delivery.offset.saturating_sub(first) / delivery.len.max(1)) as usize;
        let place = match self.records.get(guess) {
            Some(record) if record.start == delivery.offset => Ok(guess),
            _ => self.records.binary_search_by_key(&delivery.offset, |record| record.start),
        };
        if self.abandoned.get(&delivery.offset) == Some(&delivery.len) {
            // The abandoned message was in flight and has arrived.
            self.abandoned.remove(&delivery.offset);
            self.abandoned_bytes -= delivery.len;
            return Ok(());
        }
        let Some(record) = place.ok().and_then(|at| self.records.get_mut(at)) else {
            return Err(format!("{delivery:?} is not a message, or was delivered before"));
        };
        if record.end != delivery.offset + delivery.len {
            return Err(format!(
                "{delivery:?} is not the whole message of {} bytes",
                record.end - record.start
            ));
        }
        if record.open == 0 {
            return Err(format!("{delivery:?} was delivered before"));
        }
        record.open = 0;
        let delay = now.since(record.born);
        self.delays.add(delay, 1);
        if !self.by_stream.is_empty() {
            self.add_to_stream(delivery, delay);
        }
        self.remove_settled();
        Ok(())
    }

    /// Counts a delivery of a flow with several streams.
    #[inline(never)]
    fn add_to_stream(&mut self, delivery: &Delivery, delay: Duration) {
        if let Some(stream) = self.by_stream.get_mut(usize::from(delivery.stream)) {
            stream.bytes += delivery.len;
            stream.delays.add(delay, 1);
        }
    }

    /// Removes the first records while they are settled.
    #[inline]
    fn remove_settled(&mut self) {
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
            return Err(format!("{delivery:?} was delivered after a later message of its stream"));
        }
        self.streams[stream] = delivery.offset + delivery.len;
        Ok(())
    }

    fn deliver_datagram(&mut self, now: Time, delivery: &Delivery) -> Result<(), String> {
        let born = self.settle(delivery.offset, delivery.len)?;
        self.delays.add(now.since(born), 1);
        self.datagrams.received(born, now);
        Ok(())
    }

    /// Settles a datagram, which may be a part of a larger write; returns its time of writing.
    fn settle(&mut self, offset: u64, len: u64) -> Result<Time, String> {
        // Most datagrams are settled in order: then the number of records is proportional to the delay.
        let first = self.records.front().is_some_and(|record| (record.start..record.end).contains(&offset));
        let found = if first {
            Some(0)
        } else {
            self.records.partition_point(|record| record.start <= offset).checked_sub(1)
        };
        let record = found.and_then(|at| self.records.get_mut(at)).filter(|record| len <= record.open);
        let Some(record) = record.filter(|record| offset + len <= record.end) else {
            return Err(format!(
                "{len} bytes at {offset} are not a datagram, or were delivered or lost before"
            ));
        };
        record.open -= len;
        let born = record.born;
        self.remove_settled();
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
    fn stream_is_contiguous_and_bytes_have_delays() {
        let mut checker = DeliveryChecker::new(Service::Stream);
        checker.wrote(100, ms(0));
        checker.wrote(300, ms(10));
        assert!(checker.deliver(ms(20), &delivery(0, 200), &[]).is_ok());
        assert!(checker.deliver(ms(30), &delivery(200, 200), &[]).is_ok());
        // 100 bytes of 20 ms, 100 of 10 ms and 200 of 20 ms.
        assert!((checker.delays().mean_s().unwrap() - 0.0175).abs() < 1e-12);
        assert_eq!((checker.written(), checker.delivered()), (400, 400));
        assert!(checker.stream.is_empty());
    }

    #[test]
    fn gaps_duplicates_and_unwritten_data_are_detected() {
        let mut checker = DeliveryChecker::new(Service::Stream);
        checker.wrote(100, ms(0));
        assert!(checker.deliver(ms(1), &delivery(10, 10), &[]).unwrap_err().contains("byte 0 was expected"));
        checker.deliver(ms(1), &delivery(0, 50), &[]).unwrap();
        assert!(checker.deliver(ms(1), &delivery(0, 50), &[]).is_err());
        assert!(checker.deliver(ms(1), &delivery(50, 51), &[]).unwrap_err().contains("never written"));
    }

    /// Reads a message of one fragment.
    fn read(checker: &mut DeliveryChecker, message: Delivery) -> Result<(), String> {
        let payload = Payload::new(message.offset, message.len as u32);
        checker.place(1, payload).unwrap();
        checker.deliver(ms(1), &message, &[(1, 1)])
    }

    #[test]
    fn messages_are_whole_unique_and_in_stream_order() {
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
        assert!(read(&mut checker, delivery(35, 5)).unwrap_err().contains("not a message"));
        let unordered = Delivery { unordered: true, ..on(1, 40) };
        assert!(read(&mut checker, unordered).is_ok());
    }

    #[test]
    fn message_parts_are_consecutive() {
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
        assert!(read(&mut checker, part(0, 26, 4, false)).unwrap_err().contains("not a part"));
    }

    #[test]
    fn abandoned_messages_may_be_delivered() {
        let mut checker = DeliveryChecker::new(Service::Messages);
        for _ in 0..4 {
            checker.wrote(10, ms(0));
        }
        assert!(checker.abandon(35, 10).is_err() && checker.abandon(0, 5).is_err());
        for offset in [0, 10, 20] {
            checker.abandon(offset, 10).unwrap();
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
        checker.abandon(40, 10).unwrap();
        assert!(checker.is_settled(), "the delivery preceded the abandonment");
    }

    #[test]
    fn datagram_records_last_until_settled() {
        let mut checker = DeliveryChecker::new(Service::Datagrams);
        for number in 0..70_000 {
            checker.wrote(10, ms(number));
        }
        assert!(checker.deliver(ms(70_000), &delivery(500_005, 10), &[]).is_err());
        assert!(checker.deliver(ms(70_000), &delivery(699_990, 10), &[]).is_ok());
        // The first datagram arrives after 69,999 later ones.
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
    fn missing_datagram_does_not_keep_other_records() {
        let mut checker = DeliveryChecker::new(Service::Datagrams);
        for number in 0..100_000 {
            checker.wrote(20, ms(number));
            if number != 3 {
                checker.deliver(ms(number), &delivery(20 * number, 10), &[]).unwrap();
                checker.lost(Payload::new(20 * number + 10, 10)).unwrap();
            }
        }
        assert!(checker.records.len() <= MIN_RECORDS_TO_PRUNE + 1, "{}", checker.records.len());
        checker.deliver(ms(100_003), &delivery(60, 20), &[]).unwrap();
        assert!((checker.delays().mean_s().unwrap() - 100.0 / 100_000.0).abs() < 1e-12);
    }
}

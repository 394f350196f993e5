//! An association over several paths, without sockets and clocks: which frame is sent over which path, and which
//! datagram is delivered.

use super::control::PathControl;
use super::frame::{self, Body, Frame, Keys, MAX_PATHS, Report};
use super::order::{Arrival, Order};
use super::replay::Replay;
use crate::datagrams::side::Datagram;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of payload bytes that wait for room on a path. Further datagrams are dropped.
const MAX_QUEUED_BYTES: usize = 192 << 10;
/// A report is sent after this number of datagrams, or this time after the first of them.
const REPORT_EVERY: u32 = 8;
const REPORT_DELAY: Duration = Duration::from_millis(10);
/// Time after which a path fails if frames that require an answer get none.
const PATH_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval between probes of a path that does not answer, and of one that answers, so that address translators keep
/// their state (RFC 4787 §4.3 permits 30 s for some ports).
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Overhead of a frame beyond the payload, bytes: IPv4, UDP, header, address and code.
const OVERHEAD_BYTES: usize = 20 + 8 + 14 + 4 + 7 + 16;
/// Value of [`Report::delay_us`] if no frame has been received.
const NO_ECHO: u32 = u32::MAX;

/// An association over several paths.
pub struct Session {
    keys: Keys,
    begin: Instant,
    paths: Vec<Path>,
    queue: VecDeque<Datagram>,
    queued_bytes: usize,
    last_number: u64,
    received: Replay,
    order: Order<Datagram>,
}

/// A path as this proxy sees it.
struct Path {
    control: PathControl,
    /// True if this proxy knows where to send frames of this path.
    is_open: bool,
    /// True if the path has answered.
    is_alive: bool,
    /// Time of the first frame that requires an answer and has none.
    unanswered_since: Option<Instant>,
    probe_at: Option<Instant>,
    /// Datagrams received on this path.
    report: Report,
    unreported: u32,
    report_at: Option<Instant>,
    /// Time of the arrival of the last frame.
    heard_at: Option<Instant>,
    /// Numbers of the last report sent and received.
    reports: [u64; 2],
}

impl Path {
    const fn new() -> Self {
        Self {
            control: PathControl::new(),
            is_open: false,
            is_alive: false,
            unanswered_since: None,
            probe_at: None,
            report: Report { highest: 0, received: 0, echo_us: 0, delay_us: NO_ECHO, wants_answer: false },
            unreported: 0,
            report_at: None,
            heard_at: None,
            reports: [0; 2],
        }
    }

    /// True if datagrams may be sent on the path: both proxies know its delay.
    fn is_usable(&self) -> bool {
        self.is_alive && self.control.rtt_s().is_finite()
    }

    /// Marks the path as one that works.
    fn record_answer(&mut self, now: Instant) {
        // The first answer is answered, too, so that both proxies know the path's delay before they send datagrams.
        self.probe_at = Some(if self.is_alive { now + KEEP_ALIVE_INTERVAL } else { now });
        if !self.is_alive {
            self.control.restart();
        }
        (self.is_open, self.is_alive, self.unanswered_since) = (true, true, None);
        self.heard_at = Some(now);
    }

    /// Marks the path as failed if it has not answered in time.
    fn check(&mut self, now: Instant) {
        if self.is_alive && self.unanswered_since.is_some_and(|since| now >= since + PATH_TIMEOUT) {
            self.is_alive = false;
            self.probe_at = Some(now);
        }
    }

    /// Returns the report to send now, if one is due.
    fn due_report(&mut self, now: Instant) -> Option<Report> {
        let wants_answer = self.is_open && self.probe_at.is_some_and(|at| at <= now);
        let is_due = self.unreported >= REPORT_EVERY || self.report_at.is_some_and(|at| at <= now);
        if !(wants_answer || self.is_open && is_due) {
            return None;
        }
        if wants_answer {
            self.unanswered_since.get_or_insert(now);
            self.probe_at = Some(now + if self.is_alive { KEEP_ALIVE_INTERVAL } else { PROBE_INTERVAL });
        }
        (self.unreported, self.report_at) = (0, None);
        self.reports[0] += 1;
        let delay_us = self.heard_at.map_or(NO_ECHO, |at| (now - at).as_micros() as u32);
        Some(Report { delay_us, wants_answer, ..self.report })
    }

    /// Returns the time at which this path has something to do.
    fn due_at(&self) -> Option<Instant> {
        let timeout = self.unanswered_since.filter(|_| self.is_alive).map(|since| since + PATH_TIMEOUT);
        let report = if self.unreported >= REPORT_EVERY { self.heard_at } else { self.report_at };
        let due = [timeout, report, self.probe_at];
        due.into_iter().flatten().min().filter(|_| self.is_open)
    }
}

impl Session {
    /// Creates an association. This proxy knows the addresses of the first `open` paths.
    pub fn new(keys: Keys, open: usize, now: Instant) -> Self {
        let mut paths: Vec<_> = (0..MAX_PATHS).map(|_| Path::new()).collect();
        for path in &mut paths[..open.min(MAX_PATHS)] {
            (path.is_open, path.probe_at) = (true, Some(now));
        }
        Self {
            keys,
            begin: now,
            paths,
            queue: VecDeque::new(),
            queued_bytes: 0,
            last_number: 0,
            received: Replay::new(),
            order: Order::new(),
        }
    }

    /// True if datagrams may be sent on a path.
    pub fn has_usable_path(&self) -> bool {
        self.paths.iter().any(Path::is_usable)
    }

    /// Adds a datagram to be sent, or drops it if too many wait.
    pub fn send(&mut self, datagram: Datagram) {
        if self.queued_bytes + datagram.payload.len() <= MAX_QUEUED_BYTES {
            self.queued_bytes += datagram.payload.len();
            self.queue.push_back(datagram);
        }
    }

    /// Removes a datagram that waits while no path is usable.
    pub fn take_unsent(&mut self) -> Option<Datagram> {
        if self.has_usable_path() { None } else { self.pop() }
    }

    fn pop(&mut self) -> Option<Datagram> {
        let datagram = self.queue.pop_front()?;
        self.queued_bytes -= datagram.payload.len();
        Some(datagram)
    }

    /// Returns the next frame to send, with the number of its path.
    pub fn next_frame(&mut self, now: Instant) -> Option<(usize, Vec<u8>)> {
        let time_us = self.time_us(now);
        for (number, path) in self.paths.iter_mut().enumerate() {
            path.check(now);
            if let Some(report) = path.due_report(now) {
                let (path_number, body) = (number as u8, Body::Report(report));
                let frame = Frame { path: path_number, number: path.reports[0], time_us, body };
                return Some((number, frame::emit(&frame, &self.keys)));
            }
        }
        let bytes = self.queue.front()?.payload.len() + OVERHEAD_BYTES;
        let (number, path) = self
            .paths
            .iter_mut()
            .enumerate()
            .filter(|(_, path)| path.is_usable())
            .filter_map(|(number, path)| path.control.has_room(bytes).then_some((number, path)))
            .min_by(|(_, one), (_, other)| one.control.rtt_s().total_cmp(&other.control.rtt_s()))?;
        let on_path = path.control.send(bytes);
        path.unanswered_since.get_or_insert(now);
        let Datagram { server, payload } = self.pop()?;
        self.last_number += 1;
        let body = Body::Datagram(on_path, server, payload);
        let frame = Frame { path: number as u8, number: self.last_number, time_us, body };
        Some((number, frame::emit(&frame, &self.keys)))
    }

    /// Processes received bytes. Returns the number of the path if the frame is valid and newer than all others on
    /// this path: its source is then the other proxy's address on this path.
    pub fn receive(&mut self, bytes: &[u8], now: Instant) -> Option<usize> {
        let Frame { path: number, number: in_order, time_us, body } = frame::parse(bytes, &self.keys)?;
        let now_us = self.time_us(now);
        let number = usize::from(number);
        let path = self.paths.get_mut(number)?;
        let delay_s = f64::from(now_us.wrapping_sub(time_us).cast_signed()) / 1e6;
        let is_newest = match body {
            Body::Datagram(on_path, server, payload) => {
                if !self.received.accept(in_order) {
                    return None;
                }
                let is_newest = on_path.wrapping_sub(path.report.highest).cast_signed() > 0;
                if is_newest {
                    path.report.highest = on_path;
                }
                path.report.received = path.report.received.wrapping_add(1);
                path.unreported += 1;
                path.report_at.get_or_insert(now + REPORT_DELAY);
                let arrival = Arrival { path: number, number: in_order, bytes: payload.len(), delay_s };
                self.order.add(arrival, Datagram { server, payload }, now);
                is_newest
            }
            Body::Report(report) => {
                if in_order <= path.reports[1] {
                    return None;
                }
                path.reports[1] = in_order;
                if report.wants_answer {
                    path.report_at = Some(now);
                }
                if report.delay_us != NO_ECHO {
                    let rtt_us = now_us.wrapping_sub(report.echo_us).wrapping_sub(report.delay_us);
                    path.control.receive(&report, f64::from(rtt_us.cast_signed().max(0)) / 1e6, now);
                }
                self.order.record_delay(number, delay_s, now);
                true
            }
        };
        path.report.echo_us = time_us;
        path.record_answer(now);
        is_newest.then_some(number)
    }

    /// Returns the next received datagram that is due.
    pub fn next_datagram(&mut self, now: Instant) -> Option<Datagram> {
        self.order.next_item(now)
    }

    /// Returns the time at which [`Self::next_frame`] or [`Self::next_datagram`] has something to do, if nothing is
    /// received or sent before.
    pub fn due_at(&self) -> Option<Instant> {
        self.paths.iter().filter_map(Path::due_at).chain(self.order.due_at()).min()
    }

    fn time_us(&self, now: Instant) -> u32 {
        now.saturating_duration_since(self.begin).as_micros() as u32
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;

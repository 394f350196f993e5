//! Measurements at the ends of a flow during the run.

use super::returns::{Awaited, Watches};
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{Endpoint, Gauge, Held, Limits, Report};
use anabranch_scenario::measure::TimeMeans;

/// Maximum number of streams of a flow that are measured, since each costs time at each arrival.
pub const MAX_MEASURED_STREAMS: usize = 64;

/// Means over time of one path, from its start to the end of the connection.
#[derive(Clone, Copy, Debug)]
pub struct PathMeter {
    /// Congestion window, bytes in flight, smoothed round-trip time in nanoseconds, and an indicator: 1 while the
    /// round-trip time is known, 0 before the first sample and after a restart of the path.
    values: TimeMeans<4>,
}

impl PathMeter {
    /// The meter of a path that begins now.
    pub const fn new(now: Time) -> Self {
        Self { values: TimeMeans::new(now) }
    }

    /// Means until now of the congestion window and the bytes in flight, and the largest congestion window,
    /// bytes.
    pub fn windows(&self, now: Time) -> (f64, f64, u64) {
        (self.values.mean(0, now), self.values.mean(1, now), self.values.max(0))
    }

    /// Mean of the smoothed round-trip time while it was known, nanoseconds; `None` if it never was.
    pub fn srtt(&self, now: Time) -> Option<f64> {
        let share = self.values.mean(3, now);
        (share > 0.0).then(|| self.values.mean(2, now) / share)
    }

    #[inline]
    fn set(&mut self, now: Time, gauge: Gauge) {
        let srtt = gauge.srtt.map_or(0, Duration::as_nanos);
        self.values.set(now, [gauge.cwnd, gauge.outstanding, srtt, gauge.srtt.is_some().into()]);
    }
}

/// Measurements of one flow: values over time, updated at each change, from its start to the end of the
/// connection.
#[derive(Clone, Debug)]
pub struct Meters {
    /// The end whose data is measured.
    source: usize,
    /// Means per path of that end.
    pub paths: Vec<PathMeter>,
    /// Unread bytes at the other end, and out-of-order bytes there.
    pub held: TimeMeans<2>,
    /// Out-of-order bytes of each stream at the other end; empty with one stream.
    pub streams: Vec<TimeMeans<1>>,
    /// Both ends' reports, and the delivered bytes, at the end of the warm-up.
    pub baseline: Option<Box<Baseline>>,
    /// Arrivals after events that let paths return.
    pub watches: Option<Box<Watches>>,
    /// Repetitions in the spans after events.
    pub repetitions: Option<Box<Repetitions>>,
}

/// Payload bytes that a sender sends again in the spans after events.
#[derive(Clone, Debug, Default)]
pub struct Repetitions {
    /// Payload bytes sent before each span, and those of them that were new.
    before: Vec<[u64; 2]>,
    /// The share of repeated bytes in each span that has ended; `None` if nothing was sent.
    shares: Vec<Option<f64>>,
}

impl Repetitions {
    /// The share of repeated bytes in the span after the event with this index.
    pub fn share(&self, event: usize) -> Option<f64> {
        self.shares.get(event).copied().flatten()
    }
}

/// Payload bytes that an end has sent, and those of them that were new.
fn sent(endpoint: Option<&dyn Endpoint>) -> [u64; 2] {
    let mut sum = [0; 2];
    for path in endpoint.map(|endpoint| endpoint.report().paths).into_iter().flatten() {
        let [(_, new), ..] = path.counters.bytes_by_kind();
        sum[0] += path.counters.bytes_sent;
        sum[1] += new;
    }
    sum
}

/// The state of a flow at the end of the warm-up.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    /// Reports of the connecting and of the listening end.
    pub reports: [Report; 2],
    /// Times by cause of the end whose data is measured.
    pub limits: Limits,
    /// Delivered bytes of each end's data.
    pub delivered: [u64; 2],
}

impl Meters {
    /// The meter of the data of the end `source` of a flow that starts at `start`.
    pub const fn new(source: usize, start: Time) -> Self {
        Self {
            source,
            paths: Vec::new(),
            held: TimeMeans::new(start),
            streams: Vec::new(),
            baseline: None,
            watches: None,
            repetitions: None,
        }
    }

    /// Measures the first streams of a flow with several.
    pub fn measure_streams(&mut self, start: Time, count: u16) {
        if count > 1 {
            self.streams = vec![TimeMeans::new(start); usize::from(count).min(MAX_MEASURED_STREAMS)];
        }
    }

    /// Samples an end that has just been processed.
    #[inline]
    pub fn sample<E: Endpoint>(&mut self, now: Time, side: usize, endpoint: &E) {
        if side == self.source {
            self.sample_paths(now, endpoint);
        } else {
            let Held { bytes, reordering } = endpoint.held();
            let [before, ..] = self.held.values();
            // Usually the application reads all arriving data at once, and both values are 0. Out-of-order data is a
            // part of the unread data.
            if bytes != 0 || before != 0 {
                self.held.set(now, [bytes, reordering]);
                if !self.streams.is_empty() {
                    self.sample_streams(now, endpoint.held_by_stream());
                }
            }
            if let Some(watches) = &mut self.watches {
                watches.check(now, endpoint);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn sample_streams(&mut self, now: Time, held: &[u64]) {
        // An association that is not established holds no data.
        let held = held.iter().copied().chain(core::iter::repeat(0));
        for (stream, held) in self.streams.iter_mut().zip(held) {
            stream.set(now, [held]);
        }
    }

    #[inline(never)]
    fn sample_paths<E: Endpoint>(&mut self, now: Time, endpoint: &E) {
        let paths = &mut self.paths;
        let mut at = 0;
        endpoint.gauges(&mut |gauge| {
            if at == paths.len() {
                paths.push(PathMeter::new(now));
            }
            paths[at].set(now, gauge);
            at += 1;
        });
    }

    /// Ends the averages of an end whose connection is closed; later calls change nothing.
    #[cold]
    pub fn end(&mut self, now: Time, side: usize) {
        if side == self.source {
            self.paths.iter_mut().for_each(|path| path.values.end(now));
        } else {
            self.held.end(now);
            self.streams.iter_mut().for_each(|stream| stream.end(now));
        }
    }

    /// Starts to watch for new data after an event.
    pub fn watch_returns(&mut self, now: Time, event: Awaited, endpoints: [Option<&dyn Endpoint>; 2]) {
        let arrivals = endpoints[1 - self.source].map(Endpoint::arrivals).unwrap_or_default();
        self.watches.get_or_insert_default().begin(now, event, arrivals);
    }

    /// Begins the span after an event.
    pub fn begin_span(&mut self, endpoints: [Option<&dyn Endpoint>; 2]) {
        self.repetitions.get_or_insert_default().before.push(sent(endpoints[self.source]));
    }

    /// Ends the oldest span that has not ended.
    pub fn end_span(&mut self, endpoints: [Option<&dyn Endpoint>; 2]) {
        let Some(repetitions) = &mut self.repetitions else { return };
        let Some(&[all_before, new_before]) = repetitions.before.get(repetitions.shares.len()) else {
            return;
        };
        let [all, new] = sent(endpoints[self.source]);
        let (all, new) = (all - all_before, new - new_before);
        repetitions.shares.push((all > 0).then(|| (all - new) as f64 / all as f64));
    }

    /// Ends the warm-up: discards the means up to `now` and stores the present counters.
    pub fn restart(&mut self, now: Time, endpoints: [Option<&dyn Endpoint>; 2], delivered: [u64; 2]) {
        self.paths.iter_mut().for_each(|path| path.values.restart(now));
        self.held.restart(now);
        self.streams.iter_mut().for_each(|stream| stream.restart(now));
        let limits = endpoints[self.source].map(|endpoint| endpoint.limits(now)).unwrap_or_default();
        let reports = endpoints.map(|endpoint| endpoint.map(Endpoint::report).unwrap_or_default());
        self.baseline = Some(Box::new(Baseline { reports, limits, delivered }));
    }
}

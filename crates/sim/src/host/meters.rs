//! Measurements at the ends of a flow during the run.

use super::returns::Returns;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{Endpoint, Gauge, Held, Limits, Report};
use anabranch_scenario::measure::TimeMeans;

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
    /// Both ends' reports, and the delivered bytes, at the end of the warm-up.
    pub baseline: Option<Box<Baseline>>,
    /// Arrivals after the last link of an outage came up.
    pub returns: Option<Box<Returns>>,
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
        Self { source, paths: Vec::new(), held: TimeMeans::new(start), baseline: None, returns: None }
    }

    /// Samples an end that has just been processed.
    #[inline]
    pub fn sample<E: Endpoint>(&mut self, now: Time, side: usize, endpoint: &E) {
        if side == self.source {
            self.sample_paths(now, endpoint);
        } else {
            let Held { bytes, reordering } = endpoint.held();
            let [before, ..] = self.held.values();
            // Usually, all arriving data is read at once. Out-of-order data is a part of the unread data.
            if bytes != 0 || before != 0 {
                self.held.set(now, [bytes, reordering]);
            }
            if let Some(returns) = &mut self.returns {
                returns.check(now, endpoint);
            }
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

    /// Ends the means of an end whose connection has ended, now or before.
    #[cold]
    pub fn end(&mut self, now: Time, side: usize) {
        if side == self.source {
            self.paths.iter_mut().for_each(|path| path.values.end(now));
        } else {
            self.held.end(now);
        }
    }

    /// Starts to watch for new data when the last link of an outage comes up.
    pub fn watch_returns(&mut self, now: Time, endpoints: [Option<&dyn Endpoint>; 2]) {
        let report = endpoints[1 - self.source].map(Endpoint::report).unwrap_or_default();
        self.returns = Some(Box::new(Returns::new(now, report.arrivals)));
    }

    /// Ends the warm-up: discards the means up to `now` and stores the present counters.
    pub fn restart(&mut self, now: Time, endpoints: [Option<&dyn Endpoint>; 2], delivered: [u64; 2]) {
        self.paths.iter_mut().for_each(|path| path.values.restart(now));
        self.held.restart(now);
        let limits = endpoints[self.source].map(|endpoint| endpoint.limits(now)).unwrap_or_default();
        let reports = endpoints.map(|endpoint| endpoint.map(Endpoint::report).unwrap_or_default());
        self.baseline = Some(Box::new(Baseline { reports, limits, delivered }));
    }
}

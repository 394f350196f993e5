//! What is measured at the ends of a flow while it runs.

use super::returns::Returns;
use multipath::time::{Duration, Time};
use scenario::measure::TimeMeans;
use transport::{Endpoint, Gauge, Held, Report, Waits};

/// Means over time of one path, from its beginning to the end of the connection.
#[derive(Clone, Copy, Debug)]
pub struct PathMeter {
    /// Congestion window, bytes in flight, smoothed round-trip time in nanoseconds, and one while there is such a time: there
    /// is none before the first sample, nor after a path was begun again.
    values: TimeMeans<4>,
}

impl PathMeter {
    /// Of a path that begins now.
    pub const fn new(now: Time) -> Self {
        Self { values: TimeMeans::new(now) }
    }

    /// Means until now of the congestion window and the bytes in flight, and the largest congestion window, bytes.
    pub fn windows(&self, now: Time) -> (f64, f64, u64) {
        (self.values.mean(0, now), self.values.mean(1, now), self.values.max(0))
    }

    /// Mean of the smoothed round-trip time while there was one, nanoseconds; none without any.
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

/// What is measured of one flow: values over time, each change of them, from its start to the end of the connection.
#[derive(Clone, Debug)]
pub struct Meters {
    /// The end whose data is measured.
    source: usize,
    /// Per path of that end.
    pub paths: Vec<PathMeter>,
    /// Bytes at the other end that are not read, and those that wait for a gap to close.
    pub held: TimeMeans<2>,
    /// Both ends' reports, and the bytes delivered, at the end of the warm-up.
    pub baseline: Option<Box<Baseline>>,
    /// What arrives after the last link of an outage came up.
    pub returns: Option<Box<Returns>>,
}

/// The state of a flow at the end of the warm-up.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    /// Of the connecting and the listening end.
    pub reports: [Report; 2],
    /// How long data had waited at the end whose data is measured.
    pub blocked: Waits,
    /// Bytes delivered of what each end writes.
    pub delivered: [u64; 2],
}

impl Meters {
    /// Of what the end `source` of a flow writes that starts at a moment.
    pub const fn new(source: usize, start: Time) -> Self {
        Self { source, paths: Vec::new(), held: TimeMeans::new(start), baseline: None, returns: None }
    }

    /// Looks at an end that has just done something.
    #[inline]
    pub fn sample<E: Endpoint>(&mut self, now: Time, side: usize, endpoint: &E) {
        if side == self.source {
            self.sample_paths(now, endpoint);
        } else {
            let Held { bytes, reordering } = endpoint.held();
            let [before, ..] = self.held.values();
            // Mostly, all that arrives is read at once. What waits is part of what is held.
            if bytes != 0 || before != 0 {
                self.held.set(now, [bytes, reordering]);
            }
            if let Some(returns) = &mut self.returns {
                returns.look(now, endpoint);
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

    /// The connection of an end is over, since now if it was not before: its values do not count any more.
    #[cold]
    pub fn end(&mut self, now: Time, side: usize) {
        if side == self.source {
            self.paths.iter_mut().for_each(|path| path.values.end(now));
        } else {
            self.held.end(now);
        }
    }

    /// The last link of an outage comes up: watches what arrives from now on.
    pub fn watch_returns(&mut self, now: Time, endpoints: [Option<&dyn Endpoint>; 2]) {
        let report = endpoints[1 - self.source].map(Endpoint::report).unwrap_or_default();
        self.returns = Some(Box::new(Returns::new(now, report.arrivals)));
    }

    /// The warm-up is over: forgets the means so far and notes where the counters stand.
    pub fn restart(&mut self, now: Time, endpoints: [Option<&dyn Endpoint>; 2], delivered: [u64; 2]) {
        self.paths.iter_mut().for_each(|path| path.values.restart(now));
        self.held.restart(now);
        let blocked = endpoints[self.source].map(|endpoint| endpoint.blocked(now)).unwrap_or_default();
        let reports = endpoints.map(|endpoint| endpoint.map(Endpoint::report).unwrap_or_default());
        self.baseline = Some(Box::new(Baseline { reports, blocked, delivered }));
    }
}

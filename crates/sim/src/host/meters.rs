//! What is measured at the ends of a flow while it runs.

use multipath::PathId;
use multipath::time::{Duration, Time};
use scenario::measure::TimeMean;
use transport::{Endpoint, Report, Waits};

/// The state of an endpoint is looked at so often at most, when it has done something. What changes more often than that
/// (the bytes in flight, say) is a sample; what changes once per round trip is exact enough.
const INTERVAL: Duration = Duration::from_millis(5);

/// Means over time of one path.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathMeter {
    /// Congestion window, bytes.
    pub cwnd: TimeMean,
    /// Bytes in flight.
    pub outstanding: TimeMean,
    /// Smoothed round-trip time, nanoseconds.
    pub srtt: TimeMean,
}

/// What is measured of one flow.
#[derive(Clone, Debug, Default)]
pub struct Meters {
    /// The end whose data is measured.
    source: usize,
    /// Per path of that end.
    pub paths: Vec<PathMeter>,
    /// Bytes at the other end that wait for a gap to close.
    pub reordering: TimeMean,
    /// Bytes at the other end that are not read.
    pub receive_buffer: TimeMean,
    due: [Time; 2],
    /// Both ends' reports, and the bytes delivered, at the end of the warm-up.
    pub baseline: Option<Box<Baseline>>,
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
    /// Nothing measured yet of what the end `source` writes.
    pub fn new(source: usize) -> Self {
        Self { source, ..Self::default() }
    }

    /// Looks at an end that has just done something.
    #[inline]
    pub fn sample(&mut self, now: Time, side: usize, endpoint: &dyn Endpoint) {
        if now < self.due[side] {
            return;
        }
        self.due[side] = now + INTERVAL;
        if side == self.source {
            self.sample_sender(now, endpoint);
        } else {
            self.sample_receiver(now, endpoint);
        }
    }

    /// The warm-up is over: forgets the means so far and notes where the counters stand.
    pub fn restart(&mut self, now: Time, endpoints: [&dyn Endpoint; 2], delivered: [u64; 2]) {
        self.sample_sender(now, endpoints[self.source]);
        self.sample_receiver(now, endpoints[1 - self.source]);
        for path in &mut self.paths {
            path.cwnd.restart(now);
            path.outstanding.restart(now);
            path.srtt.restart(now);
        }
        for mean in [&mut self.reordering, &mut self.receive_buffer] {
            mean.restart(now);
        }
        let blocked = endpoints[self.source].blocked(now);
        self.baseline =
            Some(Box::new(Baseline { reports: endpoints.map(Endpoint::report), blocked, delivered }));
    }

    fn sample_sender(&mut self, now: Time, endpoint: &dyn Endpoint) {
        for id in 0..=u8::MAX {
            let Some(path) = endpoint.path(PathId(id)) else { break };
            let at = usize::from(id);
            if at == self.paths.len() {
                let begin = TimeMean::new(now);
                self.paths.push(PathMeter { cwnd: begin, outstanding: begin, srtt: begin });
            }
            let meter = &mut self.paths[at];
            meter.cwnd.set(now, path.cwnd);
            meter.outstanding.set(now, path.outstanding);
            meter.srtt.set(now, path.srtt.map_or(0, Duration::as_nanos));
        }
    }

    fn sample_receiver(&mut self, now: Time, endpoint: &dyn Endpoint) {
        let report = endpoint.report();
        self.reordering.set(now, report.reordering_buffer);
        self.receive_buffer.set(now, report.receive_buffer);
    }
}

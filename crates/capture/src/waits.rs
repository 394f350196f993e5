//! Time by the cause that limits the sender, and round-trip times.

/// The cause that limits the sender at a moment, as far as packets show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// All sent data is acknowledged, and no data is sent: the application or the scheduler provides none.
    #[default]
    Idle,
    /// The receive window is too small for a packet.
    Window,
    /// Data is in flight, and the receive window has free space: the congestion window, pacing, the send buffer or
    /// the path limits the sender.
    Sending,
    /// The sender is repairing losses.
    Recovery,
}

/// Time by state between the first data and the last event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waits {
    state: State,
    since_ns: Option<u64>,
    /// Idle time since the last data, which counts only if more data follows.
    tail_ns: u64,
    pub idle_ns: u64,
    pub window_ns: u64,
    pub sending_ns: u64,
    pub recovery_ns: u64,
    pub timeout_ns: u64,
    /// Bytes in flight at present; `flight_ns` is the sum of bytes in flight times nanoseconds.
    flight: u64,
    flight_ns: u128,
}

impl Waits {
    /// Adds the time since the last call to the present state.
    pub fn account(&mut self, now_ns: u64) {
        let Some(since_ns) = self.since_ns else { return };
        let passed = now_ns.saturating_sub(since_ns);
        self.since_ns = Some(now_ns.max(since_ns));
        self.flight_ns += u128::from(self.flight) * u128::from(passed);
        let slot = match self.state {
            State::Idle => &mut self.tail_ns,
            State::Window => &mut self.window_ns,
            State::Sending => &mut self.sending_ns,
            State::Recovery => &mut self.recovery_ns,
        };
        *slot += passed;
    }

    /// Counts the time since the last call as time before a timeout.
    pub fn account_timeout(&mut self, now_ns: u64) {
        let before = *self;
        self.account(now_ns);
        let passed = self.since_ns.unwrap_or(now_ns) - before.since_ns.unwrap_or(now_ns);
        let (since_ns, flight_ns) = (self.since_ns, self.flight_ns);
        *self = Self { since_ns, flight_ns, timeout_ns: before.timeout_ns + passed, ..before };
    }

    /// Sets the state and the bytes in flight from now on. The first data begins the measurement, and further data
    /// ends idle time.
    pub fn set(&mut self, now_ns: u64, (state, flight): (State, u64), is_data: bool) {
        self.flight = flight;
        if is_data {
            self.since_ns.get_or_insert(now_ns);
            self.idle_ns += core::mem::take(&mut self.tail_ns);
        }
        self.state = state;
    }

    /// True if the capture contains data.
    pub fn is_begun(&self) -> bool {
        self.since_ns.is_some()
    }

    /// Mean number of bytes in flight over the time that is not idle; `None` if there is no such time.
    pub fn mean_flight(&self) -> Option<f64> {
        let busy_ns = self.window_ns + self.sending_ns + self.recovery_ns + self.timeout_ns;
        (busy_ns > 0).then(|| self.flight_ns as f64 / busy_ns as f64)
    }
}

/// Round-trip times.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundTrips {
    min_ns: Option<u64>,
    max_ns: u64,
    sum_ns: u128,
    count: u64,
    smoothed_ns: u64,
}

impl RoundTrips {
    pub fn add(&mut self, sample_ns: u64) {
        self.min_ns = Some(self.min_ns.map_or(sample_ns, |min| min.min(sample_ns)));
        self.max_ns = self.max_ns.max(sample_ns);
        self.sum_ns += u128::from(sample_ns);
        self.count += 1;
        // The weight of a new sample is that of RFC 6298 §2.3.
        let before = if self.count == 1 { sample_ns } else { self.smoothed_ns };
        self.smoothed_ns = before - before / 8 + sample_ns / 8;
    }

    /// Smoothed round-trip time, 0 before the first sample.
    pub fn smoothed_ns(&self) -> u64 {
        self.smoothed_ns
    }

    pub fn min_ns(&self) -> Option<u64> {
        self.min_ns
    }

    pub fn max_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max_ns)
    }

    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_sum_up_and_idle_tail_does_not_count() {
        let mut waits = Waits::default();
        waits.account(50);
        waits.set(100, (State::Sending, 40), true);
        waits.account(150);
        waits.set(150, (State::Idle, 0), false);
        waits.account(250);
        waits.set(250, (State::Window, 80), true);
        waits.account(260);
        waits.account_timeout(300);
        waits.set(300, (State::Idle, 0), true);
        waits.account(1_000);
        let Waits { idle_ns, window_ns, sending_ns, recovery_ns, timeout_ns, .. } = waits;
        assert_eq!((sending_ns, idle_ns, window_ns, timeout_ns, recovery_ns), (50, 100, 10, 40, 0));
        assert_eq!(waits.mean_flight(), Some((50.0 * 40.0 + 50.0 * 80.0) / 100.0));
    }

    #[test]
    fn backward_time_adds_nothing() {
        let mut waits = Waits::default();
        waits.set(100, (State::Sending, 1), true);
        waits.account(40);
        waits.account(110);
        assert_eq!(waits.sending_ns, 10);
    }
}

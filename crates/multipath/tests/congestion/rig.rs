//! A congestion control of one connection under test, with short methods for events.

use anabranch_base::time::{Duration, Time};
use anabranch_multipath::PathId;
use anabranch_multipath::congestion::{
    Ack, CongestionControl, Idle, Loss, LossKind, Options, PathSetup, Rules, Timeout, find,
};

/// Packet size in all tests: a window in bytes is a round number of packets.
pub const MSS: u64 = 1_000;
/// Value of a slow-start threshold that has not been set.
pub const NONE: u64 = u64::MAX;

/// A congestion control under test, and the simulated time.
pub struct Rig {
    pub control: Box<dyn CongestionControl>,
    pub now: Time,
}

pub const fn setup(rules: Rules, cwnd: u64, ssthresh: u64) -> PathSetup {
    PathSetup { initial_window: cwnd, initial_ssthresh: ssthresh, ..PathSetup::new(rules, MSS as u32) }
}

impl Rig {
    pub fn new(name: &str) -> Self {
        Self::with(name, Options::default())
    }

    /// Creates a rig with the congestion control of this name and with options.
    pub fn with(name: &str, options: Options) -> Self {
        let entry = find(name).unwrap_or_else(|| panic!("{name} is in the table"));
        Self { control: (entry.build)(&options), now: Time::ZERO }
    }

    /// Adds a path with window and threshold in bytes, under the rules of TCP.
    pub fn path(self, id: u8, cwnd: u64, ssthresh: u64) -> Self {
        self.path_by(Rules::Tcp, id, cwnd, ssthresh)
    }

    /// Adds a path with window and threshold in bytes, under the rules of a protocol.
    pub fn path_by(self, rules: Rules, id: u8, cwnd: u64, ssthresh: u64) -> Self {
        self.path_of(id, setup(rules, cwnd, ssthresh))
    }

    /// Adds a path.
    pub fn path_of(mut self, id: u8, setup: PathSetup) -> Self {
        self.control.add_path(PathId(id), setup);
        self
    }

    /// Adds a path under the rules of TCP, whose window is a whole number of packets.
    pub fn path_in_packets(self, id: u8, cwnd: u64, ssthresh: u64) -> Self {
        let setup = PathSetup { whole_packets: true, ..setup(Rules::Tcp, cwnd, ssthresh) };
        self.path_of(id, setup)
    }

    /// Creates a rig with two paths in congestion avoidance. The windows are in packets, the measured round-trip times in
    /// milliseconds.
    pub fn pair(name: &str, windows: [u64; 2], rtts_ms: [u64; 2]) -> Self {
        let mut rig = Self::new(name).path(0, windows[0] * MSS, MSS).path(1, windows[1] * MSS, MSS);
        rig.measure(0, rtts_ms[0]);
        rig.measure(1, rtts_ms[1]);
        rig
    }

    /// Sets the smoothed round-trip time of a path, without an acknowledgement.
    pub fn measure(&mut self, id: u8, rtt_ms: u64) {
        let srtt = Some(Duration::from_millis(rtt_ms));
        let ack = Ack { srtt, ..Ack::new(self.now, PathId(id), 0) };
        self.control.on_ack(&ack);
    }

    /// Acknowledges `bytes` while the application fills the window; returns the new window.
    pub fn ack(&mut self, id: u8, bytes: u64) -> u64 {
        self.ack_with(id, bytes, None)
    }

    /// Acknowledges `bytes` while the application fills the window; returns the new window. `rtt_ms` is both the sample
    /// and the smoothed round-trip time.
    pub fn ack_with(&mut self, id: u8, bytes: u64, rtt_ms: Option<u64>) -> u64 {
        let rtt = rtt_ms.map(Duration::from_millis);
        let ack = Ack { rtt, srtt: rtt, ..Ack::new(self.now, PathId(id), bytes) };
        self.control.on_ack(&ack);
        self.window(id)
    }

    /// Reports that data is to be sent after an idle time of `timeouts` retransmission timeouts; returns the new window.
    pub fn idle(&mut self, id: u8, timeouts: u32) -> u64 {
        self.control.on_idle(&Idle { now: self.now, path: PathId(id), timeouts });
        self.window(id)
    }

    /// Reports a fast retransmission with a full window in flight; returns the new window.
    pub fn lose(&mut self, id: u8) -> u64 {
        self.lose_of(id, self.window(id))
    }

    /// Reports a fast retransmission with `in_flight` bytes in flight; returns the new window.
    pub fn lose_of(&mut self, id: u8, in_flight: u64) -> u64 {
        let kind = LossKind::FastRetransmit;
        self.control.on_loss(&Loss { now: self.now, path: PathId(id), kind, in_flight });
        self.window(id)
    }

    /// Reports an ECN echo; returns the new window.
    pub fn mark(&mut self, id: u8) -> u64 {
        let in_flight = self.window(id);
        self.control.on_loss(&Loss { now: self.now, path: PathId(id), kind: LossKind::Ecn, in_flight });
        self.window(id)
    }

    pub fn recover(&mut self, id: u8) {
        self.control.on_recovered(self.now, PathId(id));
    }

    /// Reports a timeout; returns the new threshold. The new window is always one packet.
    pub fn time_out(&mut self, id: u8, repeated: bool) -> u64 {
        let in_flight = self.window(id);
        self.control.on_timeout(&Timeout { now: self.now, path: PathId(id), repeated, in_flight });
        self.ssthresh(id)
    }

    /// Advances the simulated time.
    pub fn wait(&mut self, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
    }

    pub fn window(&self, id: u8) -> u64 {
        self.control.window(PathId(id))
    }

    pub fn ssthresh(&self, id: u8) -> u64 {
        self.control.ssthresh(PathId(id))
    }
}

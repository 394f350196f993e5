//! The paths of one connection, in the form in which algorithms get them.

use super::{Ack, PathSetup, Rules};
use crate::shared_bottleneck::UNKNOWN;
use anabranch_base::time::Duration;

/// Upper bound of windows and finite thresholds, bytes. With this bound, sums over 256 paths fit into 64 bits, and
/// `f64` represents each value exactly.
pub(super) const MAX_WINDOW: u64 = 1 << 48;

/// Lower bound of round-trip times, one tick of a microsecond clock. With it, quotients stay finite.
const MIN_RTT: Duration = Duration::from_micros(1);

/// A fraction of a byte below this value is a rounding error of `f64` and is not rounded up.
const NOISE: f64 = 1e-6;

/// Rounds `bytes` up to a whole number of at least one: the ⌈·⌉ of the formulas.
pub fn ceil_bytes(bytes: f64) -> u64 {
    let bytes = (bytes - NOISE).min(MAX_WINDOW as f64);
    // A cast from f64 truncates, and maps negative numbers to zero.
    let whole = bytes as u64;
    (whole + u64::from(bytes > whole as f64)).max(1)
}

/// Rounds down to whole packets of `mss` bytes if `whole_packets`.
const fn countable(bytes: u64, mss: u64, whole_packets: bool) -> u64 {
    if whole_packets { bytes - bytes % mss } else { bytes }
}

/// State of a path before its last reaction to a loss.
#[derive(Clone, Debug)]
pub struct Undo<S> {
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes.
    pub ssthresh: u64,
    /// Bytes acknowledged towards the next full window.
    pub partial: u64,
    /// The part of a byte by which the window has yet to change, bytes.
    pub fraction: f64,
    /// State of the algorithm.
    pub state: S,
}

/// One path: the state that all algorithms have in common, and `state`, which only its algorithm uses.
#[derive(Clone, Debug)]
pub struct Path<S> {
    /// Congestion window c, bytes.
    pub cwnd: u64,
    /// Slow-start threshold s, bytes; `u64::MAX` before the first loss.
    pub ssthresh: u64,
    /// Largest payload of one packet, bytes.
    pub mss: u64,
    /// Window before the first acknowledgement, bytes.
    pub initial_window: u64,
    /// The standard that the path follows.
    pub rules: Rules,
    /// Minimum threshold of an uncoupled loss reaction, packets.
    floor: u64,
    /// Number of packets by which one acknowledgement may open the window in slow start.
    abc_limit: u64,
    /// True if window and threshold are whole numbers of packets.
    whole_packets: bool,
    /// True until the data that was outstanding at a timeout has been repaired.
    pub repairing: bool,
    /// Inverse of the smoothed round-trip time, per second. It is 0 before that is known, so the rate of the path is 0,
    /// too.
    pub per_rtt: f64,
    /// Bytes p acknowledged towards the next full window.
    pub partial: u64,
    /// The part of a byte by which the window has yet to change, bytes; with `whole_packets`, the part of a packet.
    pub fraction: f64,
    /// True if data may be sent on the path, so its window may grow and sums include the path.
    pub usable: bool,
    /// Identifier of the path's bottleneck.
    pub bottleneck: u16,
    /// True from a fast retransmission until the retransmitted data has been acknowledged.
    pub recovering: bool,
    /// State to restore if a reaction proves spurious. It is boxed because losses are rare, but paths are read with
    /// each acknowledgement.
    pub undo: Option<Box<Undo<S>>>,
    /// State of the algorithm.
    pub state: S,
}

impl<S: Default> Path<S> {
    /// Creates a path with the initial values of `setup`.
    pub fn new(setup: &PathSetup) -> Self {
        let mss = u64::from(setup.mss.max(1));
        let ssthresh = match setup.initial_ssthresh {
            u64::MAX => u64::MAX,
            bytes => bytes.clamp(mss, MAX_WINDOW),
        };
        let initial_window = setup.initial_window.clamp(mss, MAX_WINDOW);
        let initial_window = countable(initial_window, mss, setup.whole_packets);
        Self {
            cwnd: initial_window,
            ssthresh,
            mss,
            initial_window,
            rules: setup.rules,
            floor: u64::from(setup.floor),
            abc_limit: setup.abc_limit.map_or(u64::MAX, u64::from),
            whole_packets: setup.whole_packets,
            repairing: false,
            per_rtt: 0.0,
            partial: 0,
            fraction: 0.0,
            usable: true,
            bottleneck: UNKNOWN,
            recovering: false,
            undo: None,
            state: S::default(),
        }
    }
}

impl<S: Clone> Path<S> {
    /// Saves the state, so that the following reaction can be reverted if it proves spurious.
    pub fn keep_for_undo(&mut self) {
        self.undo = Some(Box::new(Undo {
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            partial: self.partial,
            fraction: self.fraction,
            state: self.state.clone(),
        }));
    }
}

impl<S> Path<S> {
    /// Stores the smoothed round-trip time of an acknowledgement.
    pub fn measure(&mut self, ack: &Ack) {
        if let Some(srtt) = ack.srtt {
            self.per_rtt = 1e9 / srtt.max(MIN_RTT).as_nanos() as f64;
        }
    }

    /// Returns the minimum threshold of an uncoupled loss reaction, bytes.
    pub fn floor(&self) -> u64 {
        self.floor * self.mss
    }

    /// True if the round-trip time is known.
    pub fn measured(&self) -> bool {
        self.per_rtt > 0.0
    }

    /// Returns the window as a real number, bytes.
    pub fn window(&self) -> f64 {
        self.cwnd as f64
    }

    /// Returns the window in packets.
    pub fn packets(&self) -> f64 {
        self.cwnd as f64 / self.mss as f64
    }

    /// Returns c/RTT, bytes per second; 0 before the round-trip time is known.
    pub fn rate(&self) -> f64 {
        self.cwnd as f64 * self.per_rtt
    }

    /// True if the window is in slow start: c < s.
    pub fn slow_starts(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Growth in slow start for `acked` bytes: byte counting with a limit (RFC 3465 §2.2), and beyond the
    /// threshold by one packet at most.
    pub fn slow_start_step(&self, acked: u64) -> u64 {
        let packets = if self.repairing { 1 } else { self.abc_limit };
        let room = self.ssthresh.saturating_sub(self.cwnd).max(self.mss);
        acked.min(packets.saturating_mul(self.mss)).min(room)
    }

    /// Adds `acked` to p. Once a full window has been acknowledged, subtracts c from p and returns true.
    pub fn full_window(&mut self, acked: u64) -> bool {
        self.partial = self.partial.saturating_add(acked);
        let full = self.partial >= self.cwnd;
        if full {
            self.partial -= self.cwnd;
        }
        full
    }

    /// Opens the window by a whole number of bytes.
    pub fn grow(&mut self, bytes: u64) {
        if self.whole_packets {
            self.shift(bytes as f64);
        } else {
            self.open(bytes);
        }
    }

    fn open(&mut self, bytes: u64) {
        self.cwnd = self.cwnd.saturating_add(bytes).min(self.countable(MAX_WINDOW));
    }

    /// Changes the window by a real number of bytes; a remainder of less than a byte (or of a packet, with
    /// `whole_packets`) is kept for the next call. A window that shrinks in congestion avoidance lowers the
    /// threshold too, so that the path does not enter slow start.
    pub fn shift(&mut self, bytes: f64) {
        let limit = MAX_WINDOW as f64;
        self.fraction = (self.fraction + bytes).clamp(-limit, limit);
        if self.fraction >= 1.0 {
            let whole = self.countable(self.fraction as u64);
            self.fraction -= whole as f64;
            self.open(whole);
        } else if self.fraction <= -1.0 {
            let whole = self.countable((-self.fraction) as u64);
            self.fraction += whole as f64;
            self.set_window(self.cwnd.saturating_sub(whole));
            self.ssthresh = self.ssthresh.min(self.cwnd);
        }
    }

    const fn countable(&self, bytes: u64) -> u64 {
        countable(bytes, self.mss, self.whole_packets)
    }

    /// Sets the window; the minimum is one packet.
    pub fn set_window(&mut self, bytes: u64) {
        self.cwnd = self.countable(bytes.clamp(self.mss, MAX_WINDOW));
    }

    /// Sets the threshold. The minimum is one packet, or two with `whole_packets` (`tcp_reno_ssthresh` of Linux).
    pub fn set_ssthresh(&mut self, bytes: u64) {
        let floor = if self.whole_packets { 2 * self.mss } else { self.mss };
        self.ssthresh = self.countable(bytes.clamp(floor, MAX_WINDOW));
    }

    /// Lowers the window to the data in flight before a loss reduces it: FlightSize in RFC 5681 eq. 4 and RFC
    /// 9438 §4.6. RFC 9260 §7.2.3 uses the window.
    pub fn reduce_to_in_flight(&mut self, in_flight: u64) {
        if self.rules == Rules::Tcp {
            self.set_window(self.cwnd.min(in_flight));
        }
    }

    /// Resets the count towards the next increase. `own` is true if the congestion control in Linux has a separate counter,
    /// which is not reset, because Linux resets only `snd_cwnd_cnt` with each reaction.
    pub fn restart_count(&mut self, own: bool) {
        if !(own && self.whole_packets) {
            (self.partial, self.fraction) = (0, 0.0);
        }
    }
}

/// All paths of a connection, by their index.
#[derive(Clone, Debug, Default)]
pub struct Group<S> {
    paths: Vec<Option<Path<S>>>,
}

impl<S> Group<S> {
    /// Creates a connection without paths.
    pub const fn new() -> Self {
        Self { paths: Vec::new() }
    }

    /// Adds or replaces the path at `at`.
    pub fn insert(&mut self, at: usize, path: Path<S>) {
        if self.paths.len() <= at {
            self.paths.resize_with(at + 1, || None);
        }
        self.paths[at] = Some(path);
    }

    /// Removes the path at `at`, if there is one.
    pub fn remove(&mut self, at: usize) {
        if let Some(slot) = self.paths.get_mut(at) {
            *slot = None;
        }
    }

    /// Returns the path at `at`, if there is one.
    pub fn get(&self, at: usize) -> Option<&Path<S>> {
        self.paths.get(at)?.as_ref()
    }

    /// Returns the path at `at`, mutable, if there is one.
    pub fn get_mut(&mut self, at: usize) -> Option<&mut Path<S>> {
        self.paths.get_mut(at)?.as_mut()
    }

    /// Returns the path at `at`.
    ///
    /// # Panics
    /// If no path has this index; an [`Algorithm`](super::Algorithm) gets indices of existing paths only.
    pub fn path(&self, at: usize) -> &Path<S> {
        self.get(at).expect("the controller passes identifiers of existing paths only")
    }

    /// Returns the path at `at`, mutable.
    ///
    /// # Panics
    /// If no path has this index.
    pub fn path_mut(&mut self, at: usize) -> &mut Path<S> {
        self.get_mut(at).expect("the controller passes identifiers of existing paths only")
    }

    /// The paths that the sums for `at` include: the usable ones that may share its bottleneck and, in any
    /// state, `at` itself, so that no share exceeds one.
    pub fn included_paths(&self, at: usize) -> impl Iterator<Item = &Path<S>> {
        let bottleneck = self.get(at).map_or(UNKNOWN, |path| path.bottleneck);
        let together = move |other: u16| other == bottleneck || other == UNKNOWN || bottleneck == UNKNOWN;
        self.paths.iter().enumerate().filter_map(move |(i, slot)| {
            slot.as_ref().filter(|path| path.usable && together(path.bottleneck) || i == at)
        })
    }

    /// Returns the number of paths that the sums for `at` include; at least one.
    pub fn count(&self, at: usize) -> f64 {
        self.included_paths(at).count() as f64
    }

    /// Returns Σ c_i, bytes.
    pub fn total_window(&self, at: usize) -> u64 {
        self.included_paths(at).map(|path| path.cwnd).sum()
    }

    /// Returns Σ c_i/RTT_i over the paths with a known round-trip time, bytes per second.
    pub fn total_rate(&self, at: usize) -> f64 {
        self.included_paths(at).map(Path::rate).sum()
    }
}

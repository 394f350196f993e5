//! Values that congestion controls and schedulers in Python get. Sizes are bytes, times are seconds.

use anabranch_base::time::{Duration, Time};
use anabranch_multipath::congestion::conformance::MAX_WINDOW;
use anabranch_multipath::congestion::{self, LossKind, PathSetup, Rules};
use anabranch_multipath::scheduler::{self, eligible};
use anabranch_multipath::shared_bottleneck::UNKNOWN;
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use std::sync::Arc;

/// The values of a path that both sides use. One thread at a time has the interpreter or runs the simulator.
#[derive(Debug)]
pub(super) struct Cells {
    pub(super) cwnd: AtomicU64,
    pub(super) ssthresh: AtomicU64,
    pub(super) mss: AtomicU64,
    pub(super) usable: AtomicBool,
    pub(super) recovering: AtomicBool,
    pub(super) bottleneck: AtomicU16,
    pub(super) setup: PathSetup,
}

impl Cells {
    pub(super) fn new(setup: PathSetup) -> Self {
        let cells = Self {
            cwnd: AtomicU64::new(0),
            ssthresh: AtomicU64::new(u64::MAX),
            mss: AtomicU64::new(u64::from(setup.mss.max(1))),
            usable: AtomicBool::new(true),
            recovering: AtomicBool::new(false),
            bottleneck: AtomicU16::new(UNKNOWN),
            setup,
        };
        cells.set_window(setup.initial_window);
        if setup.initial_ssthresh != u64::MAX {
            let bytes = setup.initial_ssthresh.clamp(cells.packet(), MAX_WINDOW);
            cells.ssthresh.store(bytes, Ordering::Relaxed);
        }
        cells
    }

    fn packet(&self) -> u64 {
        self.mss.load(Ordering::Relaxed)
    }

    fn countable(&self, bytes: u64) -> u64 {
        if self.setup.whole_packets { bytes - bytes % self.packet() } else { bytes }
    }

    fn set_window(&self, bytes: u64) {
        self.cwnd.store(self.countable(bytes.clamp(self.packet(), MAX_WINDOW)), Ordering::Relaxed);
    }

    fn set_ssthresh(&self, bytes: u64) {
        let minimum = if self.setup.whole_packets { 2 * self.packet() } else { self.packet() };
        let bytes = self.countable(bytes.clamp(minimum, MAX_WINDOW.max(minimum)));
        self.ssthresh.store(bytes, Ordering::Relaxed);
    }

    /// Sets the packet size; the window keeps its bytes.
    pub(super) fn set_mss(&self, mss: u64) {
        self.mss.store(mss, Ordering::Relaxed);
        self.set_window(self.cwnd.load(Ordering::Relaxed));
        match self.ssthresh.load(Ordering::Relaxed) {
            u64::MAX => {}
            bytes => self.set_ssthresh(bytes),
        }
    }
}

/// A number of bytes; a number beyond 64 bits, or a negative one, becomes the nearest.
#[derive(Clone, Copy)]
struct Bytes(u64);

impl FromPyObject<'_, '_> for Bytes {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        match value.extract::<i64>() {
            Ok(bytes) => Ok(Self(bytes.max(0) as u64)),
            Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => {
                Ok(Self(if value.gt(0)? { MAX_WINDOW } else { 0 }))
            }
            Err(error) => Err(error),
        }
    }
}

/// A path of a connection: its window and threshold, which the control sets, and its properties. Each event of a path has
/// the same object.
#[pyclass(frozen, module = "anabranch")]
pub(crate) struct Path {
    #[pyo3(get)]
    id: u8,
    cells: Arc<Cells>,
}

impl Path {
    pub(super) const fn new(id: u8, cells: Arc<Cells>) -> Self {
        Self { id, cells }
    }
}

#[pymethods]
impl Path {
    /// Congestion window, bytes.
    #[getter]
    fn cwnd(&self) -> u64 {
        self.cells.cwnd.load(Ordering::Relaxed)
    }

    #[setter]
    fn set_cwnd(&self, bytes: Bytes) {
        self.cells.set_window(bytes.0);
    }

    /// Slow-start threshold, bytes; `None` before the first loss.
    #[getter]
    fn ssthresh(&self) -> Option<u64> {
        Some(self.cells.ssthresh.load(Ordering::Relaxed)).filter(|bytes| *bytes != u64::MAX)
    }

    #[setter]
    fn set_ssthresh(&self, bytes: Option<Bytes>) {
        match bytes {
            Some(bytes) => self.cells.set_ssthresh(bytes.0),
            None => self.cells.ssthresh.store(u64::MAX, Ordering::Relaxed),
        }
    }

    /// Largest payload of a packet, bytes.
    #[getter]
    fn mss(&self) -> u64 {
        self.cells.packet()
    }

    /// Whether the path is established and not considered failed.
    #[getter]
    fn usable(&self) -> bool {
        self.cells.usable.load(Ordering::Relaxed)
    }

    /// Whether a loss is being repaired: from a fast retransmission to its success or a timeout.
    #[getter]
    fn recovering(&self) -> bool {
        self.cells.recovering.load(Ordering::Relaxed)
    }

    /// Mark of the path's bottleneck, with `couple = "shared"`; 0 while unknown.
    #[getter]
    fn bottleneck(&self) -> u16 {
        self.cells.bottleneck.load(Ordering::Relaxed)
    }

    /// Window before the first acknowledgement, bytes.
    #[getter]
    fn initial_window(&self) -> u64 {
        self.cells.countable(self.cells.setup.initial_window.clamp(self.cells.packet(), MAX_WINDOW))
    }

    /// The rules of the protocol: "tcp" (RFC 5681) or "sctp" (RFC 9260).
    #[getter]
    fn rules(&self) -> &'static str {
        match self.cells.setup.rules {
            Rules::Tcp => "tcp",
            Rules::Sctp => "sctp",
        }
    }

    /// Minimum threshold after an uncoupled loss reaction, bytes.
    #[getter]
    fn floor(&self) -> u64 {
        u64::from(self.cells.setup.floor) * self.cells.packet()
    }

    /// Maximum growth per acknowledgement in slow start, packets (L of RFC 3465); `None` for no limit.
    #[getter]
    fn abc_limit(&self) -> Option<u32> {
        self.cells.setup.abc_limit
    }

    /// Whether window and threshold are multiples of a packet, as in Linux.
    #[getter]
    fn whole_packets(&self) -> bool {
        self.cells.setup.whole_packets
    }

    fn __repr__(&self) -> String {
        let ssthresh = self.ssthresh().map_or("None".to_owned(), |bytes| bytes.to_string());
        format!("Path(id={}, cwnd={}, ssthresh={ssthresh}, mss={})", self.id, self.cwnd(), self.mss())
    }
}

fn seconds(time: Time) -> f64 {
    time.as_secs_f64()
}

fn optional(time: Option<Duration>) -> Option<f64> {
    time.map(Duration::as_secs_f64)
}

/// New data was acknowledged.
#[pyclass(frozen, get_all, module = "anabranch")]
pub(crate) struct Ack {
    now_s: f64,
    acked: u64,
    rtt_s: Option<f64>,
    srtt_s: Option<f64>,
    cwnd_limited: bool,
}

impl From<&congestion::Ack> for Ack {
    fn from(ack: &congestion::Ack) -> Self {
        Self {
            now_s: seconds(ack.now),
            acked: ack.acked,
            rtt_s: optional(ack.rtt),
            srtt_s: optional(ack.srtt),
            cwnd_limited: ack.cwnd_limited,
        }
    }
}

/// A loss was detected, or an ECN echo arrived.
#[pyclass(frozen, get_all, module = "anabranch")]
pub(crate) struct Loss {
    now_s: f64,
    ecn: bool,
    in_flight: u64,
}

impl From<&congestion::Loss> for Loss {
    fn from(loss: &congestion::Loss) -> Self {
        Self { now_s: seconds(loss.now), ecn: loss.kind == LossKind::Ecn, in_flight: loss.in_flight }
    }
}

/// The retransmission timer expired.
#[pyclass(frozen, get_all, module = "anabranch")]
pub(crate) struct Timeout {
    now_s: f64,
    repeated: bool,
    in_flight: u64,
}

impl From<&congestion::Timeout> for Timeout {
    fn from(timeout: &congestion::Timeout) -> Self {
        let congestion::Timeout { now, repeated, in_flight, .. } = *timeout;
        Self { now_s: seconds(now), repeated, in_flight }
    }
}

/// Data is about to be sent on an idle path.
#[pyclass(frozen, get_all, module = "anabranch")]
pub(crate) struct Idle {
    now_s: f64,
    timeouts: u32,
}

impl From<&congestion::Idle> for Idle {
    fn from(idle: &congestion::Idle) -> Self {
        Self { now_s: seconds(idle.now), timeouts: idle.timeouts }
    }
}

/// Data for which a scheduler selects a path.
#[pyclass(frozen, get_all, module = "anabranch")]
pub(crate) struct Offer {
    now_s: f64,
    bytes: u64,
    window: u64,
    send_window: u64,
    repeated: bool,
}

impl From<&scheduler::Offer> for Offer {
    fn from(offer: &scheduler::Offer) -> Self {
        let scheduler::Offer { now, bytes, window, send_window, repeated } = *offer;
        Self { now_s: seconds(now), bytes, window, send_window, repeated }
    }
}

/// State of a path for a scheduler.
#[pyclass(frozen, get_all, module = "anabranch")]
pub(crate) struct PathState {
    id: u8,
    eligible: bool,
    usable: bool,
    backup: bool,
    cwnd: u64,
    ssthresh: Option<u64>,
    outstanding: u64,
    queueable: u64,
    queued: u64,
    recovering: bool,
    srtt_s: Option<f64>,
    rtt_variation_s: f64,
    mss: u32,
}

impl PathState {
    pub(super) fn new(path: &scheduler::PathState, paths: &[scheduler::PathState]) -> Self {
        Self {
            id: path.id.0,
            eligible: eligible(path, paths),
            usable: path.usable,
            backup: path.backup,
            cwnd: path.cwnd,
            ssthresh: Some(path.ssthresh).filter(|bytes| *bytes != u64::MAX),
            outstanding: path.outstanding,
            queueable: path.queueable,
            queued: path.queued,
            recovering: path.recovering,
            srtt_s: optional(path.srtt),
            rtt_variation_s: path.rtt_variation.as_secs_f64(),
            mss: path.mss,
        }
    }
}

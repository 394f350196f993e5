//! What a test between two meters came to.

use scenario::measure::Histogram;
use scenario::result::Quantiles;
use serde::{Deserialize, Serialize};

/// Version of the document.
pub const FORMAT: u32 = 1;

/// What one end saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EndResult {
    /// Release of its kernel.
    pub kernel: String,
    /// What went wrong: a sentence.
    pub fault: Option<String>,
    /// Flows, in the order of the plan.
    pub flows: Vec<EndFlow>,
}

/// A flow as one end saw it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EndFlow {
    /// The congestion control that its socket had; absent where there is none.
    pub congestion: Option<String>,
    /// What it wrote, if it was to.
    pub written: Option<Written>,
    /// What it read, if the other end was to write.
    pub read: Option<Read>,
    /// Requests that were answered; absent without requests.
    pub answers: Option<u64>,
    /// From writing a request to reading the last byte of its answer, seconds.
    pub response_time_s: Option<Quantiles>,
    /// Its connections or subflows at every look.
    pub subflows: Vec<Subflow>,
}

/// What an end wrote.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Written {
    /// Application bytes that the socket took.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
    /// Bytes per interval.
    pub intervals: Vec<u64>,
}

/// What an end read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Read {
    /// Application bytes.
    pub bytes: u64,
    /// Of these, bytes after the warm-up.
    pub measured_bytes: u64,
    /// Messages that arrived whole.
    pub messages: u64,
    /// Of these, messages after the warm-up.
    #[serde(default)]
    pub measured_messages: u64,
    /// Datagrams that arrived after later ones.
    pub reordered: u64,
    /// Datagrams that were sent up to the latest one that arrived, that included.
    pub due: u64,
    /// Of these, datagrams that became due after the warm-up.
    #[serde(default)]
    pub measured_due: u64,
    /// Datagrams and connections that are not of this test.
    pub foreign: u64,
    /// Bytes per interval.
    pub intervals: Vec<u64>,
    /// When the last byte of all arrived, seconds from the start; absent if the writer did not close.
    pub completed_s: Option<f64>,
    /// From a message's making to its reading, after the warm-up, seconds; absent without one clock.
    pub delay_s: Option<Delay>,
    /// When each message was read and how old it was then, seconds, if that was asked for.
    pub delays: Vec<(f64, f64)>,
}

/// The delays of messages, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Delay {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

impl Delay {
    /// Of what was counted, if anything was.
    pub fn of(histogram: &Histogram) -> Option<Self> {
        let quantile = |q| histogram.quantile_s(q).unwrap_or_default();
        let mean = histogram.mean_s()?;
        let [p50, p95, p99, max] = [0.5, 0.95, 0.99, 1.0].map(quantile);
        Some(Self { mean, p50, p95, p99, max })
    }
}

/// A TCP connection or a subflow, as the kernel described it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Subflow {
    /// Seconds from the start.
    pub at_s: f64,
    /// Address of this end.
    pub local: String,
    /// Address of the other end.
    pub remote: String,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload bytes received in order.
    pub bytes_received: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Congestion window, bytes.
    pub cwnd_bytes: u64,
    /// Smoothed round-trip time, seconds.
    pub srtt_s: Option<f64>,
}

/// What the client makes of both ends.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// Version of this document.
    pub format: u32,
    /// Version of the program.
    pub version: String,
    /// Address of the server's control port.
    pub server_address: String,
    /// Both ends are on one machine, so that delays are those of one clock.
    pub one_clock: bool,
    /// Length of the test, seconds.
    pub duration_s: f64,
    /// Not measured at the start, seconds.
    pub warmup_s: f64,
    /// Time between two looks, seconds.
    pub interval_s: f64,
    /// It ended before its time.
    pub interrupted: bool,
    /// Kernels of the client and of the server.
    pub kernels: [String; 2],
    /// Flows, in the order of the plan.
    pub flows: Vec<FlowDocument>,
}

/// A flow of the document.
#[derive(Clone, Debug, Serialize)]
pub struct FlowDocument {
    /// Name.
    pub name: String,
    /// Protocol.
    pub protocol: String,
    /// Congestion controls at the client and the server; absent where there is none.
    pub congestion: [Option<String>; 2],
    /// What went each way.
    pub ways: Vec<Way>,
    /// Requests that were answered; absent without requests.
    pub answers: Option<u64>,
    /// From writing a request to reading the last byte of its answer, seconds.
    pub response_time_s: Option<Quantiles>,
    /// The connections or subflows at every look of the end that writes.
    pub subflows: Vec<Subflow>,
}

/// One way of a flow's data.
#[derive(Clone, Debug, Serialize)]
pub struct Way {
    /// `client-to-server` or `server-to-client`.
    pub direction: String,
    /// Application bytes that arrived per second after the warm-up, bit/s.
    pub goodput_bps: f64,
    /// Seconds over which that is counted.
    pub measured_s: f64,
    /// Messages that became due after the warm-up and did not arrive, although a later one did; of datagrams only.
    pub lost_messages: Option<u64>,
    /// Messages that were sent after the last one that arrived: at the end of the test they were on the way, or lost as well;
    /// of datagrams only.
    pub open_messages: Option<u64>,
    /// What the writing end says.
    pub written: Written,
    /// What the reading end says.
    pub read: Read,
}

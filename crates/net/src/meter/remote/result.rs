//! Results of a test between two meters.

use anabranch_scenario::measure::Histogram;
use anabranch_scenario::result::Quantiles;
use serde::{Deserialize, Serialize};

/// Version of the document.
pub const FORMAT: u32 = 1;

/// The result of one end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EndResult {
    /// Release of the machine's kernel.
    pub kernel: String,
    /// Processor time of the meter's process during the test, seconds.
    pub processor_s: f64,
    /// A sentence about an error, if there was one.
    pub fault: Option<String>,
    /// Flows, in the order of the plan.
    pub flows: Vec<EndFlow>,
}

/// A flow in the result of one end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EndFlow {
    /// The congestion control of the end's socket; absent if the protocol has none.
    pub congestion: Option<String>,
    /// Data that this end wrote, if it wrote.
    pub written: Option<Written>,
    /// Data that this end read, if the other end wrote.
    pub read: Option<Read>,
    /// Requests with a complete response; absent without requests.
    pub answers: Option<u64>,
    /// From writing a request to reading the last byte of its response, seconds.
    pub response_time_s: Option<Quantiles>,
    /// Connections or subflows of the flow at every sample.
    pub subflows: Vec<Subflow>,
    /// Reason why the connection broke, if the flow tolerates that.
    pub aborted: Option<String>,
}

/// Written data of an end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Written {
    /// Application bytes that the socket accepted.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
    /// The part of these messages that may overtake others; SCTP only.
    #[serde(default)]
    pub unordered: u64,
    /// The part of these messages with a limit on their retransmission; SCTP only.
    #[serde(default)]
    pub unreliable: u64,
    /// Bytes per interval.
    pub intervals: Vec<u64>,
}

/// Read data of an end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Read {
    /// Application bytes.
    pub bytes: u64,
    /// The part of these bytes that arrived after the warm-up.
    pub measured_bytes: u64,
    /// Messages that arrived whole.
    pub messages: u64,
    /// The part of these messages that arrived after the warm-up.
    #[serde(default)]
    pub measured_messages: u64,
    /// Datagrams, or messages of SCTP, that arrived after ones with higher numbers.
    pub reordered: u64,
    /// Number of datagrams, or messages of SCTP, sent up to and including the one with the highest number that arrived.
    pub due: u64,
    /// The part of these datagrams that became due after the warm-up.
    #[serde(default)]
    pub measured_due: u64,
    /// Datagrams and connections that do not belong to this test.
    pub foreign: u64,
    /// Bytes per interval.
    pub intervals: Vec<u64>,
    /// Time at which the last byte arrived, seconds from the start; absent if the writer did not close.
    pub completed_s: Option<f64>,
    /// From a message's creation to its reading, after the warm-up, seconds; absent without a shared clock.
    pub delay_s: Option<Delay>,
    /// Time at which each message was read and its delay, seconds, if requested.
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
    /// Statistics of a histogram; `None` if it is empty.
    pub fn of(histogram: &Histogram) -> Option<Self> {
        let quantile = |q| histogram.quantile_s(q).unwrap_or_default();
        let mean = histogram.mean_s()?;
        let [p50, p95, p99, max] = [0.5, 0.95, 0.99, 1.0].map(quantile);
        Some(Self { mean, p50, p95, p99, max })
    }
}

/// A TCP connection or a subflow, as reported by the kernel, or a path of an association.
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
    /// Retransmitted segments.
    pub retransmissions: u64,
    /// Congestion window, bytes.
    pub cwnd_bytes: u64,
    /// Smoothed round-trip time, seconds.
    pub srtt_s: Option<f64>,
}

/// The client's combination of both ends' results.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// Version of this document.
    pub format: u32,
    /// Version of the program.
    pub version: String,
    /// Address of the server's control port.
    pub server_address: String,
    /// True if both ends are on one machine, so that delays are measured with one clock.
    pub one_clock: bool,
    /// Length of the test, seconds.
    pub duration_s: f64,
    /// Duration of the warm-up, which is not measured, seconds.
    pub warmup_s: f64,
    /// Sampling interval, seconds.
    pub interval_s: f64,
    /// True if the test ended prematurely.
    pub interrupted: bool,
    /// Kernels of the client and of the server.
    pub kernels: [String; 2],
    /// Processor time of the client's and of the server's process during the test, seconds.
    pub processor_s: [f64; 2],
    /// Flows, in the order of the plan.
    pub flows: Vec<FlowDocument>,
}

/// A flow of the document.
#[derive(Clone, Debug, Serialize)]
pub struct FlowDocument {
    /// Number of the flow.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Protocol.
    pub protocol: String,
    /// Congestion controls at the client and the server; absent if there is none.
    pub congestion: [Option<String>; 2],
    /// The data in each direction.
    pub ways: Vec<Way>,
    /// Requests with a complete response; absent without requests.
    pub answers: Option<u64>,
    /// From writing a request to reading the last byte of its response, seconds.
    pub response_time_s: Option<Quantiles>,
    /// The connections or subflows at every sample of the writing end.
    pub subflows: Vec<Subflow>,
    /// Reason why the connection broke at the client and at the server, if the flow tolerates that.
    pub aborted: [Option<String>; 2],
}

/// One direction of a flow's data.
#[derive(Clone, Debug, Serialize)]
pub struct Way {
    /// `client-to-server` or `server-to-client`.
    pub direction: String,
    /// Application bytes that arrived per second after the warm-up, bit/s.
    pub goodput_bps: f64,
    /// Duration of the goodput measurement, seconds.
    pub measured_s: f64,
    /// Messages that became due after the warm-up and were lost although a later one arrived; for datagrams and
    /// unreliable messages only.
    pub lost_messages: Option<u64>,
    /// Messages that were sent after the last one that arrived, and were in flight or lost at the end of the
    /// test; for datagrams and unreliable messages only.
    pub open_messages: Option<u64>,
    /// The result of the writing end.
    pub written: Written,
    /// The result of the reading end.
    pub read: Read,
}

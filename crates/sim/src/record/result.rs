//! The result document of a run.
//!
//! Counts are over the whole run. Rates, means, delays and blocked times are over the measured part, between the end of
//! the warm-up and the end of the run.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What came out of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Version of Anabranch.
    pub version: String,
    /// Title of the scenario.
    pub title: String,
    /// Seed of every random stream.
    pub seed: u64,
    /// Simulated time, warm-up included, seconds.
    pub duration_s: f64,
    /// What was cut off before measuring, seconds.
    pub warmup_s: f64,
    /// Fingerprint of every arrival and every drop, in hexadecimal: equal for equal runs.
    pub digest: String,
    /// Events dealt with.
    pub events: u64,
    /// How long the run took, seconds.
    pub wall_s: f64,
    /// Packets sent to addresses that no route leads to.
    pub unreachable_packets: u64,
    /// Jain's fairness index over the goodputs of all flows; absent if nothing was delivered.
    pub jain: Option<f64>,
    /// Flows, in the order of the scenario.
    pub flows: Vec<FlowResult>,
    /// Directions of links, in the order of the scenario.
    pub links: Vec<LinkResult>,
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowResult {
    /// Name.
    pub name: String,
    /// Sending host.
    pub from: String,
    /// Receiving host.
    pub to: String,
    /// Protocol.
    pub protocol: String,
    /// Congestion control; absent for UDP.
    pub congestion: Option<String>,
    /// How far it came: `opening`, `open`, `closed`, `reset`, `aborted`, `timed-out` or `refused`.
    pub state: String,
    /// It asked for more than plain TCP and did not get it.
    pub fallback: bool,
    /// Application bytes delivered in order, bit/s.
    pub goodput_bps: f64,
    /// Payload bytes sent on all paths, retransmissions included, bit/s.
    pub throughput_bps: f64,
    /// Application bytes delivered.
    pub delivered_bytes: u64,
    /// Application bytes written.
    pub written_bytes: u64,
    /// From the start of the flow until the last byte arrived, seconds; absent if the application did not finish.
    pub completion_s: Option<f64>,
    /// From the application's write to the other application's read; absent if nothing was delivered.
    pub delivery_delay_s: Option<Quantiles>,
    /// Bytes at the receiver that waited for a gap to close.
    pub reordering_buffer_bytes: MeanMax,
    /// Bytes at the receiver that were not read.
    pub receive_buffer_bytes: MeanMax,
    /// How long the sender had data and no path took it, by cause, seconds.
    pub blocked_s: BTreeMap<String, f64>,
    /// Counters of the protocol.
    pub counters: BTreeMap<String, u64>,
    /// Paths.
    pub paths: Vec<PathResult>,
}

/// One path of a flow, as its sender sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathResult {
    /// The link at the sender, and the one at the receiver if it is another: `left>right`; `#2` and so on marks further
    /// paths over the same links.
    pub name: String,
    /// Address and port of the sender.
    pub local: String,
    /// Address and port of the receiver.
    pub remote: String,
    /// The links that packets take, in order.
    pub links: Vec<String>,
    /// Usable at the end.
    pub usable: bool,
    /// Used only when no other path is.
    pub backup: bool,
    /// Payload bytes that arrived on this path and were new to the connection, bit/s.
    pub goodput_bps: f64,
    /// Payload bytes sent on this path, retransmissions included, bit/s.
    pub throughput_bps: f64,
    /// Packets sent.
    pub packets: u64,
    /// Packets sent that carried data.
    pub data_packets: u64,
    /// Data packets that this path sent again.
    pub retransmissions: u64,
    /// The same by cause: `fast`, `timeout`.
    pub retransmissions_by_cause: BTreeMap<String, u64>,
    /// Data packets that another path had carried before.
    pub reinjections: u64,
    /// Tail-loss and zero-window probes.
    pub probes: u64,
    /// Recovery phases.
    pub recoveries: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Window reductions because of ECN.
    pub ecn_reductions: u64,
    /// Smoothed round-trip time at the end, seconds.
    pub srtt_s: Option<f64>,
    /// Mean of the smoothed round-trip time over time, seconds.
    pub srtt_mean_s: Option<f64>,
    /// Retransmission timeout at the end, seconds.
    pub rto_s: f64,
    /// Congestion window at the end, bytes.
    pub cwnd_bytes: u64,
    /// Mean of the congestion window over time, bytes.
    pub cwnd_mean_bytes: f64,
    /// Largest congestion window seen in the measured part, bytes.
    pub cwnd_max_bytes: u64,
    /// Slow-start threshold at the end, bytes; absent before the first loss.
    pub ssthresh_bytes: Option<u64>,
    /// Mean of the bytes in flight over time.
    pub outstanding_mean_bytes: f64,
    /// How long the sender had data and this path, although usable, did not take it, by cause, seconds.
    pub blocked_s: BTreeMap<String, f64>,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkResult {
    /// Name of the link.
    pub name: String,
    /// `forward` from the first of its nodes to the second, or `reverse`.
    pub direction: String,
    /// The node that sends.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// Packets transmitted.
    pub packets: u64,
    /// Bytes of these IP packets.
    pub bytes: u64,
    /// IP packets transmitted, bit/s.
    pub throughput_bps: f64,
    /// Share of the time in which it transmitted; with a trace, share of the opportunities' bytes that were used.
    pub utilisation: f64,
    /// Packets dropped.
    pub drops: u64,
    /// The same by cause: `queue`, `red`, `loss`, `down`, `mtu`.
    pub drops_by_cause: BTreeMap<String, u64>,
    /// Packets marked with "congestion experienced".
    pub marks: u64,
    /// Packets in the queue.
    pub occupancy: MeanMax,
    /// Bytes in the queue.
    pub occupancy_bytes: MeanMax,
}

/// A distribution of delays, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// A value over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanMax {
    /// Mean over time.
    pub mean: f64,
    /// Largest value seen.
    pub max: u64,
}

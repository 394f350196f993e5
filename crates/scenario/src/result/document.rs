//! The result document of a run, in whichever world it ran.
//!
//! Counts are over the whole run. Rates, means, delays and blocked times are over the measured part, between the end of
//! the warm-up and the end of the run. What only a simulation knows is absent elsewhere.

use crate::measure::Histogram;
use crate::model::Scenario;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The form of the document. It grows by one whenever a key goes or gets another meaning; keys that are added leave it as
/// it is.
pub const FORMAT: u32 = 1;

/// The directions of a link in [`LinkResult::direction`]: from the first of its nodes to the second, and back.
pub const DIRECTIONS: [&str; 2] = ["forward", "reverse"];

/// A key of the document, for the page that describes it.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The key.
    pub name: &'static str,
    /// What it holds.
    pub doc: &'static str,
}

/// A part of the document together with the list of its keys, so that the page of the results says what the type says.
macro_rules! part {
    ($(#[doc = $about:literal])+ $name:ident {
        $($(#[doc = $doc:literal])+ $(#[serde($($serde:tt)+)])? $field:ident: $type:ty,)+
    }) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub struct $name {
            $($(#[doc = $doc])+ $(#[serde($($serde)+)])? pub $field: $type,)+
        }

        impl $name {
            /// The keys, in their order.
            pub const FIELDS: &'static [Field] =
                &[$(Field { name: stringify!($field), doc: concat!($($doc),+) }),+];
        }
    };
}

part! {
    /// What came out of a run.
    RunResult {
        /// The form of this document.
        format: u32,
        /// Version of Anabranch.
        version: String,
        /// Where it ran: `sim` for a simulation, `kernel` for the Linux kernel's protocols over an emulated network.
        world: String,
        /// Title of the scenario.
        title: String,
        /// Seed of every random stream.
        seed: u64,
        /// How long the experiment ran, simulated or real, warm-up included, seconds.
        duration_s: f64,
        /// What was cut off before measuring, seconds.
        warmup_s: f64,
        /// Fingerprint of every arrival and drop, in hexadecimal: equal digests mean equal runs, packet by packet. Only a
        /// simulation has one.
        digest: Option<String>,
        /// How often a packet reached the end of a link or an end looked at its timers. Only a simulation counts.
        events: Option<u64>,
        /// How long the run took, seconds.
        wall_s: f64,
        /// Packets sent to addresses that no route leads to; absent where nobody sees them.
        unreachable_packets: Option<u64>,
        /// Jain's fairness index over the goodputs of all flows; absent if nothing was delivered.
        jain: Option<f64>,
        /// Flows, in the order of the scenario.
        flows: Vec<FlowResult>,
        /// Directions of links, in the order of the scenario; none where nobody watches the links.
        links: Vec<LinkResult>,
        /// Middleboxes, in the order of the scenario.
        #[serde(default)]
        middleboxes: Vec<MiddleboxResult>,
        /// The machine; absent in a simulation, which is the same on every machine.
        host: Option<HostFacts>,
    }
}

part! {
    /// What a middlebox did.
    MiddleboxResult {
        /// Name of its node.
        node: String,
        /// Its kind.
        kind: String,
        /// Packets that came to the node.
        packets: u64,
        /// Those that were changed, cut up, or put together with another one.
        changed: u64,
        /// Those that were kept from going on.
        dropped: u64,
    }
}

part! {
    /// The machine on which a run took place, and how it went along.
    HostFacts {
        /// Release of its kernel.
        kernel: String,
        /// Its processor.
        cpu: String,
        /// How many of them.
        cpus: u32,
        /// Processes that ran or wanted to, mean over a minute, before the run and after it.
        load: [f64; 2],
        /// Share of its processors' time that it asked for and that its hypervisor gave to others meanwhile; 0 if it has none.
        stolen: f64,
        /// Kernel parameters of each host that were set for the run.
        sysctls: BTreeMap<String, BTreeMap<String, String>>,
        /// Where the kernel does something else than the scenario says, a sentence each.
        differences: Vec<String>,
        /// How far behind the clock the emulated network was.
        lateness: LatenessResult,
    }
}

part! {
    /// How far behind the clock an emulated network was when it handed packets out.
    LatenessResult {
        /// Packets handed out.
        packets: u64,
        /// Mean, seconds.
        mean_s: f64,
        /// Median, seconds.
        p50_s: f64,
        /// 99th percentile, seconds.
        p99_s: f64,
        /// Largest, seconds.
        max_s: f64,
        /// Share of the packets that were more than a millisecond late.
        late_share: f64,
        /// Packets that hosts sent and that were lost before the network took them, because it did not keep up.
        lost: u64,
        /// The machine did not keep up: more than 1 % of the packets were late, or some were lost. The results are not those
        /// of this network then.
        overloaded: bool,
    }
}

part! {
    /// One flow.
    FlowResult {
        /// Name.
        name: String,
        /// Sending host.
        from: String,
        /// Receiving host.
        to: String,
        /// The host of its proxy, where its paths end; absent without one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        through: Option<String>,
        /// Protocol.
        protocol: String,
        /// `reverse` if its data goes from the receiving host to the sending one, `both` if it goes both ways; absent
        /// otherwise. What follows is of the data that the flow is there for: of `both` what goes forward, with requests
        /// these.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        direction: Option<String>,
        /// Congestion control; absent for UDP.
        congestion: Option<String>,
        /// When it started, seconds: as the scenario says, or as was drawn for this seed.
        start_s: f64,
        /// How far it came: `opening`, `open`, `closed`, `reset`, `aborted`, `timed-out`, `unreachable` or `refused`.
        state: String,
        /// It asked for more than plain TCP and did not get it.
        fallback: bool,
        /// Application bytes delivered in order, bit/s.
        goodput_bps: f64,
        /// Payload bytes sent on all paths, retransmissions included, bit/s.
        throughput_bps: f64,
        /// Application bytes delivered.
        delivered_bytes: u64,
        /// Application bytes written.
        written_bytes: u64,
        /// From the start of the flow to the end of its first handshake at the host that connects, seconds; absent if it never
        /// connected, or where nobody looks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        setup_s: Option<f64>,
        /// From the start of the flow until the last byte arrived, either way, seconds; absent if the applications did not
        /// finish.
        completion_s: Option<f64>,
        /// From the application's write to the other application's read; absent if nothing was delivered.
        delivery_delay_s: Option<Quantiles>,
        /// As `goodput_bps`, of the data that goes the other way: of `both` what goes backward, with requests the answers.
        /// This key and the next three are absent if there is no such data.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reverse_goodput_bps: Option<f64>,
        /// Application bytes delivered, the other way.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reverse_delivered_bytes: Option<u64>,
        /// Application bytes written, the other way.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reverse_written_bytes: Option<u64>,
        /// As `delivery_delay_s`, the other way.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reverse_delivery_delay_s: Option<Quantiles>,
        /// Requests that were answered; absent without requests.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answers: Option<u64>,
        /// From writing a request to reading the last byte of its answer; absent without an answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response_time_s: Option<Quantiles>,
        /// Where links go down and come up again: from the last one's coming up to the first of six successive spans that are
        /// fast enough, seconds. Spans have 0.5 s and begin 0.1 s apart; each tenth of a second counts up to the mean of the
        /// measured part before the outage only, so that data that the outage held back does not make up for others. Fast
        /// enough is nine tenths of that mean, or the 5 % quantile of the spans before the outage if that is less. Absent
        /// without such spans.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recovery_s: Option<f64>,
        /// What it delivered in the last three seconds of the run, as a share of the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recovered_share: Option<f64>,
        /// Bytes at the receiver that waited for a gap to close; absent where the kernel does not tell.
        reordering_buffer_bytes: Option<MeanMax>,
        /// Bytes at the receiver that were not read; absent where the kernel does not tell.
        receive_buffer_bytes: Option<MeanMax>,
        /// How long the sender had data and no path took it, by cause, seconds.
        blocked_s: BTreeMap<String, f64>,
        /// Counters of the protocol.
        counters: BTreeMap<String, u64>,
        /// Paths.
        paths: Vec<PathResult>,
    }
}

part! {
    /// One path of a flow, as its sender sees it.
    PathResult {
        /// The link at the sender, and the one at the receiver if it is another: `left>right`; `#2` and so on marks further
        /// paths over the same links.
        name: String,
        /// Address and port of the sender.
        local: String,
        /// Address and port of the receiver.
        remote: String,
        /// The links that packets take, in order.
        links: Vec<String>,
        /// Usable at the end.
        usable: bool,
        /// Used only when no other path is.
        backup: bool,
        /// Payload bytes that arrived on this path and were new to the connection, bit/s.
        goodput_bps: f64,
        /// Payload bytes sent on this path, retransmissions included, bit/s.
        throughput_bps: f64,
        /// Packets sent.
        packets: u64,
        /// Packets sent that carried data.
        data_packets: u64,
        /// Data packets that this path sent again.
        retransmissions: u64,
        /// The same by cause: `fast`, `timeout`.
        retransmissions_by_cause: BTreeMap<String, u64>,
        /// Data packets that another path had carried before; absent where the kernel does not tell.
        reinjections: Option<u64>,
        /// Tail-loss and zero-window probes; absent where the kernel does not tell.
        probes: Option<u64>,
        /// Recovery phases; absent where the kernel does not tell.
        recoveries: Option<u64>,
        /// Timeouts; absent where the kernel does not tell.
        timeouts: Option<u64>,
        /// Reactions to losses and timeouts that proved spurious and were undone; absent where the kernel does not tell.
        undone: Option<u64>,
        /// Window reductions because of ECN; absent where the kernel does not tell.
        ecn_reductions: Option<u64>,
        /// Smoothed round-trip time at the end, seconds.
        srtt_s: Option<f64>,
        /// Mean of the smoothed round-trip time over time, from its first sample to the end of the connection, seconds.
        srtt_mean_s: Option<f64>,
        /// Retransmission timeout at the end, seconds.
        rto_s: f64,
        /// Congestion window at the end, bytes.
        cwnd_bytes: u64,
        /// Mean of the congestion window over time, from the beginning of the path to the end of the connection, bytes.
        cwnd_mean_bytes: f64,
        /// Largest congestion window seen in the measured part, bytes.
        cwnd_max_bytes: u64,
        /// Slow-start threshold at the end, bytes; absent before the first loss.
        ssthresh_bytes: Option<u64>,
        /// Mean of the bytes in flight over the same time.
        outstanding_mean_bytes: f64,
        /// Where a link of the path goes down and comes up again with the last one of the run: from its coming up to the
        /// arrival of the first data on this path that no other had brought, to the millisecond, seconds. Absent without such
        /// data, and in the kernel's world.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path_back_s: Option<f64>,
        /// The bottleneck that it was found to pass, at the end: paths with the same number share it. A path that shares none has
        /// a number of its own; 0 before the first decision, 21 s into the path's life. This key and the next two are absent
        /// unless the control couples what shares a bottleneck.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bottleneck: Option<u16>,
        /// Share of the decisions, one in 0.35 s, that found it to pass a bottleneck, whether shared or not; absent before the
        /// first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bottleneck_share: Option<f64>,
        /// Share of the decisions that found it to share its bottleneck with another path; absent before the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        coupled_share: Option<f64>,
        /// How long the sender had data and this path, although usable, did not take it, by cause, seconds.
        blocked_s: BTreeMap<String, f64>,
    }
}

part! {
    /// One direction of a link.
    LinkResult {
        /// Name of the link.
        name: String,
        /// `forward` from the first of its nodes to the second, or `reverse`.
        direction: String,
        /// The node that sends.
        from: String,
        /// The node that receives.
        to: String,
        /// Packets transmitted.
        packets: u64,
        /// Bytes of these IP packets.
        bytes: u64,
        /// IP packets transmitted, bit/s.
        throughput_bps: f64,
        /// Share of the time in which it transmitted; with a trace, share of the opportunities' bytes that were used.
        utilisation: f64,
        /// Packets dropped.
        drops: u64,
        /// The same by cause: `queue`, `aqm`, `loss`, `down`, `mtu`.
        drops_by_cause: BTreeMap<String, u64>,
        /// Packets marked with "congestion experienced".
        marks: u64,
        /// Packets in the queue.
        occupancy: MeanMax,
        /// Bytes in the queue.
        occupancy_bytes: MeanMax,
    }
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

impl Quantiles {
    /// Of what was counted, if anything was.
    pub fn of(histogram: &Histogram) -> Option<Self> {
        let quantile = |q| histogram.quantile_s(q).unwrap_or_default();
        let mean = histogram.mean_s()?;
        Some(Self { mean, p50: quantile(0.5), p95: quantile(0.95), p99: quantile(0.99) })
    }
}

/// A value over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanMax {
    /// Mean over time.
    pub mean: f64,
    /// Largest value seen.
    pub max: u64,
}

/// A result with what exactly was run: the document that is written and kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Document {
    /// What came out.
    #[serde(flatten)]
    pub result: RunResult,
    /// The scenario with every default and override spelt out, as [`to_json`](crate::to_json) gives it.
    pub scenario: serde_json::Value,
}

impl Document {
    /// The document of a run of `scenario`.
    pub fn new(result: RunResult, scenario: &Scenario) -> Self {
        Self { result, scenario: crate::to_json(scenario) }
    }
}

/// Jain's fairness index, (Σx)² / (n Σx²); `None` without a positive value.
pub fn jain(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        n += 1.0;
        sum += value;
        squares += value * value;
    }
    (squares > 0.0).then(|| sum * sum / (n * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_by_hand() {
        assert_eq!(jain([3.0, 3.0].into_iter()), Some(1.0));
        assert_eq!(jain([5.0, 0.0].into_iter()), Some(0.5));
        assert!((jain([1.0, 3.0].into_iter()).unwrap() - 0.8).abs() < 1e-12);
        assert_eq!(jain([0.0].into_iter()), None);
    }
}

//! The result document of a run, the same for every world.
//!
//! Counts cover the whole run. Rates, means, delays and times by cause cover the measured part, between the
//! end of the warm-up and the end of the run. Values that only a simulation has are absent in other worlds.

use super::values::{MeanMax, Quantiles};
use crate::model::Scenario;
use anabranch_middlebox::source_route::SourceRouteCounts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the document's format. It is increased when a key is removed or changes its meaning;
/// additional keys do not change it.
pub const FORMAT: u32 = 2;

/// The directions of a link in [`LinkResult::direction`]: from the first of its nodes to the second, and back.
pub const DIRECTIONS: [&str; 2] = ["forward", "reverse"];

/// A key of the document, for the page that describes it.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The key.
    pub name: &'static str,
    /// Type of the key, as written in Rust.
    pub kind: &'static str,
    /// True if a document may lack it.
    pub may_be_absent: bool,
    /// Meaning of the key.
    pub doc: &'static str,
}

/// A part of the document together with the list of its keys, so that the page about results is generated
/// from the type.
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
                &[$(Field {
                    name: stringify!($field),
                    kind: stringify!($type),
                    // Every serde attribute in this file makes a key optional.
                    may_be_absent: false $(|| !stringify!($($serde)+).is_empty())?,
                    doc: concat!($($doc),+),
                }),+];
        }
    };
}

part! {
    /// The result of a run.
    RunResult {
        /// Version of the document's format.
        format: u32,
        /// Version of Anabranch.
        version: String,
        /// The world of the run: `sim` for a simulation, `user` for the same protocols in real time on serialised
        /// packets, `kernel` for the Linux kernel's protocols over an emulated network.
        world: String,
        /// Title of the scenario.
        title: String,
        /// Seed of every random stream.
        seed: u64,
        /// Duration of the experiment, simulated or real, warm-up included, seconds.
        duration_s: f64,
        /// Duration of the warm-up, which is not measured, seconds.
        warmup_s: f64,
        /// Fingerprint of every arrival and drop, in hexadecimal: equal digests mean equal runs, packet by
        /// packet. Only simulations have one.
        digest: Option<String>,
        /// Number of arrivals of packets at the end of a link and of timer expiries at hosts. Only
        /// simulations have it.
        events: Option<u64>,
        /// Duration of the run in real time, seconds.
        wall_s: f64,
        /// Packets sent to addresses without a route; absent where they are not observed.
        unreachable_packets: Option<u64>,
        /// Jain's fairness index over the goodputs of all flows; absent if nothing was delivered.
        jain: Option<f64>,
        /// Flows, in the order of the scenario.
        flows: Vec<FlowResult>,
        /// Directions of links, in the order of the scenario; empty where links are not observed.
        links: Vec<LinkResult>,
        /// Middleboxes, in the order of the scenario.
        #[serde(default)]
        middleboxes: Vec<MiddleboxResult>,
        /// Hosts, by name: in the kernel's world all, in others those with a cost of packets.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        hosts: Vec<HostResult>,
        /// Routers at which packets with source routes have arrived, in the order in which links name them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        routers: Vec<RouterResult>,
        /// The machine; absent in a simulation, whose result does not depend on it.
        host: Option<HostFacts>,
    }
}

part! {
    /// Counts of a middlebox.
    MiddleboxResult {
        /// Name of its node.
        node: String,
        /// Kind of the middlebox.
        kind: String,
        /// Packets that arrived at the node.
        packets: u64,
        /// Packets that were changed, split, or merged with another one.
        changed: u64,
        /// Packets that were dropped.
        dropped: u64,
    }
}

part! {
    /// Packets with a loose source route at a router.
    RouterResult {
        /// Name of the node.
        node: String,
        /// Packets with a source route that arrived from the start of the run on, as for the other counts.
        source_routed: u64,
        /// Packets to the router itself that it has sent to the next address of their route.
        followed: u64,
        /// Packets that were dropped.
        dropped: u64,
        /// Packets whose source route is invalid, dropped or not.
        invalid: u64,
    }
}

impl RouterResult {
    /// The counts of a node.
    pub fn of(node: &str, counts: SourceRouteCounts) -> Self {
        let SourceRouteCounts { packets, followed, dropped, invalid } = counts;
        Self { node: node.to_owned(), source_routed: packets, followed, dropped, invalid }
    }
}

part! {
    /// A host of the scenario.
    HostResult {
        /// Name.
        name: String,
        /// Counters of its kernel that changed during the run, by the names of `nstat`: those of `Ip`, `Ip6`, `Tcp`, `TcpExt`,
        /// `IpExt` and `MPTcpExt`. Those that hold a state, such as `TcpCurrEstab`, have their final values. Empty in other
        /// worlds.
        counters: BTreeMap<String, u64>,
        /// Share of the time in which it processed packets; absent without a cost of packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        utilisation: Option<f64>,
        /// Packets, sent or received, that found its backlog full; absent without a cost of packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        drops: Option<u64>,
    }
}

part! {
    /// The machine of a run, and its load during the run.
    HostFacts {
        /// Release of its kernel.
        kernel: String,
        /// Model of the processor.
        cpu: String,
        /// Number of processors.
        cpus: u32,
        /// Runnable processes, mean over a minute, before and after the run.
        load: [f64; 2],
        /// Share of its processors' time that its hypervisor gave to others although this machine requested
        /// it; 0 without a hypervisor.
        stolen: f64,
        /// Kernel parameters of each host, set for the run.
        sysctls: BTreeMap<String, BTreeMap<String, String>>,
        /// Differences between the kernel and the scenario, one sentence each.
        differences: Vec<String>,
        /// Delay of the emulated network behind the clock.
        lateness: LatenessResult,
    }
}

part! {
    /// Delay of an emulated network behind the clock when it delivered packets.
    LatenessResult {
        /// Packets delivered.
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
        /// Packets that hosts sent and that were lost because the emulated network was too slow to accept
        /// them.
        lost: u64,
        /// The machine was too slow: more than 1 % of the packets were late, or some were lost. The results
        /// are then not those of this network.
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
        /// The host of its proxy, where its paths end; absent without a proxy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        through: Option<String>,
        /// Protocol.
        protocol: String,
        /// `reverse` if its data goes from the receiving host to the sending one, `both` if it goes in both
        /// directions; absent otherwise. The following keys concern the main data of the flow: with `both`
        /// the forward direction, with requests the requests.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        direction: Option<String>,
        /// Congestion control; absent for UDP.
        congestion: Option<String>,
        /// Start of the flow, seconds: from the scenario, or drawn for this seed.
        start_s: f64,
        /// State at the end: `opening`, `open`, `closed`, `reset`, `aborted`, `timed-out`, `unreachable` or
        /// `refused`.
        state: String,
        /// The flow requested Multipath TCP and fell back to plain TCP.
        fallback: bool,
        /// Application bytes delivered in order, bit/s.
        goodput_bps: f64,
        /// Payload bytes sent on all paths, retransmissions included, bit/s.
        throughput_bps: f64,
        /// Application bytes delivered.
        delivered_bytes: u64,
        /// Application bytes written.
        written_bytes: u64,
        /// Time from the start of the flow to the end of its first handshake at the connecting host, seconds;
        /// absent if it never connected, or where this is not observed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        setup_s: Option<f64>,
        /// Time from the start of the flow until the last byte arrived, in either direction, seconds; absent if
        /// the applications did not finish.
        completion_s: Option<f64>,
        /// Time from the application's write to the other application's read; absent if nothing was delivered.
        delivery_delay_s: Option<Quantiles>,
        /// As `goodput_bps`, for the opposite direction: with `both` the backward data, with requests the
        /// responses. This key and the next three are absent if there is no such data.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reverse_goodput_bps: Option<f64>,
        /// Application bytes delivered in the opposite direction.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reverse_delivered_bytes: Option<u64>,
        /// Application bytes written in the opposite direction.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reverse_written_bytes: Option<u64>,
        /// As `delivery_delay_s`, in the opposite direction.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reverse_delivery_delay_s: Option<Quantiles>,
        /// Requests with a complete response; absent without requests.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answers: Option<u64>,
        /// Time from writing a request to reading the last byte of its response; absent without a response.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response_time_s: Option<Quantiles>,
        /// UDP: share lost of the datagrams that were sent in the measured part and did not remain on the way. This key and the next two are
        /// absent for other protocols, without datagrams, and in the kernel's world.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lost_share: Option<f64>,
        /// UDP: number of further copies that arrived, relative to the same datagrams.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duplicated_share: Option<f64>,
        /// UDP: interarrival jitter after the last datagram (RFC 3550 §6.4.1), seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        jitter_s: Option<f64>,
        /// With `voice`: transmission rating R of the call. The delay is that of the first datagram of the measured part plus
        /// `playout`; datagrams with a longer delay are lost for the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        r_factor: Option<f64>,
        /// With `voice`: mean opinion score, from 1 to 4.5.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mos: Option<f64>,
        /// Connections of a flow with arrivals that arrived, including refused ones. This key and the next four are absent
        /// for other flows. Of a flow with arrivals, the keys about a single connection are empty or absent: paths,
        /// buffers, times by cause and values about events.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arrived: Option<u64>,
        /// Connections that were open at the end or had ended, without having delivered their whole file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unfinished: Option<u64>,
        /// Arrivals that were refused, because `max_open` connections were open or the host had no free port.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<u64>,
        /// From the arrival of a connection to the reading of its last byte; absent if none finished in the measured part.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        completion_time_s: Option<Quantiles>,
        /// Slowdown: `completion_time_s` divided by the completion time of the same file alone in the
        /// network, with the links' values at the start and without losses of the loss models; a number
        /// without a unit. If more than 1,000 connections finished, of 1,000 random ones.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slowdown: Option<Quantiles>,
        /// If links fail and recover: time from the last link's recovery to the first of six successive spans that
        /// are fast enough, seconds. Spans have 0.5 s and begin 0.1 s apart. Each tenth of a second counts up to
        /// the mean of the measured part before the outage only, so that data held back by the outage adds
        /// nothing. A span is fast enough at nine tenths of that mean, or at the 5 % quantile of the spans before
        /// the outage if that is less. Absent without such spans.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recovery_s: Option<f64>,
        /// Delivery in the last three seconds of the run, relative to the same rate before the outage.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recovered_share: Option<f64>,
        /// Longest time without delivery after the first event of the scenario, until the end of the run or of the flow's
        /// data, seconds. This key and the next two are absent without events.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gap_s: Option<f64>,
        /// Application bytes delivered in the 5 s after an event: after the one with the fewest such bytes, of the first
        /// thousand times with events. Absent if the run ends earlier.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gap_delivered_bytes: Option<u64>,
        /// Share of the payload bytes sent in the same 5 s that had been sent before, on any path; absent where nothing was
        /// sent, and for Multipath TCP of a kernel. In real time the bounds are up to 10 ms late.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        repeated_share: Option<f64>,
        /// Out-of-order bytes at the receiver; absent where the kernel does not report them.
        reordering_buffer_bytes: Option<MeanMax>,
        /// Unread bytes at the receiver; absent where the kernel does not report them.
        receive_buffer_bytes: Option<MeanMax>,
        /// Time by the cause that limited the flow's sending, seconds; see [limits](#limits). The times add up to the part of
        /// the flow's life that is measured. Null where a kernel does not report a time; empty for UDP.
        #[serde(default)]
        limited_s: BTreeMap<String, Option<f64>>,
        /// Payload bytes that the free parts of the paths' congestion windows would have carried, by the cause that
        /// limited the paths: an estimate of a remedy's gain, which exceeds it where the window is larger than the path needs. Null and empty as `limited_s`.
        #[serde(default)]
        missed_bytes: BTreeMap<String, Option<u64>>,
        /// Time for which the sender had data and no path accepted it, by cause, seconds: sums of `limited_s`.
        blocked_s: BTreeMap<String, f64>,
        /// SCTP: time for which a buffer kept every path with data from sending, by the contents of the buffer, seconds.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        buffer_blocked_s: BTreeMap<String, f64>,
        /// Counters of the protocol.
        counters: BTreeMap<String, u64>,
        /// SCTP streams of the main data, in the order of their numbers, the first 64 at most; empty with one stream.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        streams: Vec<StreamResult>,
        /// Paths.
        paths: Vec<PathResult>,
        /// The paths that the path manager wants, opened or not; see [wanted paths](#wanted-paths). Null where the kernel
        /// does not report them; empty for UDP, and before the flow has started.
        #[serde(default)]
        paths_wanted: Option<Vec<WantedPathResult>>,
    }
}

part! {
    /// A path that the hosts of a flow want to use.
    WantedPathResult {
        /// The links of its addresses, as in the name of a path.
        name: String,
        /// Address of the sender.
        local: String,
        /// Address of the receiver.
        remote: String,
        /// Reason for which the path never opened: `no-answer`, `refused`, `no-route`, `limit`, `stripped` or `pending`; null if
        /// it has been open.
        reason: Option<String>,
    }
}

part! {
    /// One SCTP stream of a flow.
    StreamResult {
        /// Number of the stream.
        stream: u16,
        /// Application bytes of its complete messages that were delivered.
        delivered_bytes: u64,
        /// Time from the application's write of a message to the other application's read; absent if none was
        /// delivered.
        delivery_delay_s: Option<Quantiles>,
        /// Out-of-order bytes of the stream at the receiver.
        reordering_buffer_bytes: MeanMax,
    }
}

part! {
    /// One path of a flow, from the sender's point of view.
    PathResult {
        /// The link at the sender, and, if different, that at the receiver: `left>right`; a suffix `:v4` or `:v6`
        /// states the version of IP if both links have both, and `#2` and so on distinguish further paths of the same
        /// name.
        name: String,
        /// Address and port of the sender.
        local: String,
        /// Address and port of the receiver.
        remote: String,
        /// The links of its packets, in order.
        links: Vec<String>,
        /// Usable at the end.
        usable: bool,
        /// Used only if no other path is usable.
        backup: bool,
        /// Payload bytes that arrived on this path and were new to the connection, bit/s.
        goodput_bps: f64,
        /// Payload bytes sent on this path, retransmissions included, bit/s.
        throughput_bps: f64,
        /// Packets sent.
        packets: u64,
        /// Packets sent that carried data.
        data_packets: u64,
        /// Data packets that this path retransmitted.
        retransmissions: u64,
        /// The same by cause: `fast`, `timeout`.
        retransmissions_by_cause: BTreeMap<String, u64>,
        /// Data packets that another path had carried before; absent where the kernel does not report them.
        reinjections: Option<u64>,
        /// Tail-loss and zero-window probes; absent where the kernel does not report them.
        probes: Option<u64>,
        /// Recovery phases; absent where the kernel does not report them.
        recoveries: Option<u64>,
        /// Timeouts; absent where the kernel does not report them.
        timeouts: Option<u64>,
        /// Reactions to spurious losses and timeouts that were undone; absent where the kernel does not
        /// report them.
        undone: Option<u64>,
        /// Window reductions because of ECN; absent where the kernel does not report them.
        ecn_reductions: Option<u64>,
        /// Reductions of the congestion window by cause: `loss`, `timeout`, `ecn`, `penalisation`; `spurious` counts those
        /// that were undone. Empty where the kernel does not report them.
        #[serde(default)]
        reductions_by_cause: BTreeMap<String, u64>,
        /// Payload bytes sent by kind: `new`, `retransmission` (with SCTP also of data of another path), and further copies
        /// of data of another path by mechanism: `reinjection`, `opportunistic-retransmission`, `copy`, `confluence`,
        /// `chunk-rescheduling`. Empty where the kernel does not report them.
        #[serde(default)]
        bytes_by_kind: BTreeMap<String, u64>,
        /// Largest rate at which payload is known to have arrived, over a smoothed round-trip time, bit/s; absent where
        /// the kernel does not report it.
        #[serde(default)]
        delivery_rate_max_bps: Option<f64>,
        /// Smallest smoothed round-trip time, seconds; absent before the first sample, and where the kernel does not report
        /// it.
        #[serde(default)]
        srtt_min_s: Option<f64>,
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
        /// Largest congestion window in the measured part, bytes.
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
        /// Time from the last event that set a link of the path up, or changed the flow, to the arrival of the first data on this
        /// path that no other had brought, to the millisecond, seconds. Absent without such an event or data, and in the
        /// kernel's world: Linux does not distinguish data that another subflow has brought.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first_data_after_event_s: Option<f64>,
        /// The detected bottleneck at the end: paths with the same number share it. A path with an unshared
        /// bottleneck has its own number; 0 before the first decision, 21 s after the start of the path. This
        /// key and the next two are absent unless the control couples paths by shared bottlenecks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bottleneck: Option<u16>,
        /// Share of the decisions, one every 0.35 s, by which the path passed a bottleneck, shared or not;
        /// absent before the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bottleneck_share: Option<f64>,
        /// Share of the decisions by which the path shared its bottleneck with another path; absent before
        /// the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        coupled_share: Option<f64>,
        /// Experimental: the records of routers in the last report that network control returned for this path, in their order
        /// on the way.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        network_control: Vec<RouterRecord>,
        /// The last state of its subflow or connection that the sender's kernel returned, by the names of `struct tcp_info`
        /// (`linux/tcp.h`): times in microseconds, windows in segments, rates in bytes a second. Absent in a simulation.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        kernel: BTreeMap<String, u64>,
        /// Time for which data waited at the receiver for missing data of this path, as acknowledgements show it to the
        /// sender, seconds. Missing data that was sent on several paths counts for the first of them. Null where the kernel
        /// does not report it; absent for UDP.
        #[serde(default)]
        head_of_line_s: Option<f64>,
        /// Time by the cause that limited the path's sending, seconds; see [limits](#limits). The times add up to the part of
        /// the path's life that is measured. Null where a kernel does not report a time; empty for UDP.
        #[serde(default)]
        limited_s: BTreeMap<String, Option<f64>>,
        /// Payload bytes that the free part of the congestion window would have carried, one window a smoothed round-trip
        /// time, by the cause that limited the path: an estimate of a remedy's gain, which exceeds it where the window is larger than the path needs. Null and empty as `limited_s`.
        #[serde(default)]
        missed_bytes: BTreeMap<String, Option<u64>>,
    }
}

part! {
    /// Experimental: the record of a router with network control about the route of a path.
    RouterRecord {
        /// Name of the router.
        router: String,
        /// Rate of its link for the path, bit/s.
        rate_bps: f64,
        /// The part of this rate that was neither in use nor wanted by other paths, bit/s.
        free_rate_bps: f64,
        /// One-way delay of the link, seconds.
        delay_s: f64,
        /// Share of packets that the link had lost.
        loss: f64,
        /// Packets that waited.
        queue_packets: u64,
        /// Whether the link carried another path of the association, or exceeded a bound.
        shared: bool,
    }
}

part! {
    /// One direction of a link.
    LinkResult {
        /// Name of the link.
        name: String,
        /// `forward` from the first of its nodes to the second, or `reverse`.
        direction: String,
        /// The sending node.
        from: String,
        /// The receiving node.
        to: String,
        /// Packets transmitted.
        packets: u64,
        /// Bytes of these IP packets.
        bytes: u64,
        /// IP packets transmitted, bit/s.
        throughput_bps: f64,
        /// Share of the time in which it transmitted; with a trace, share of the opportunities' bytes that
        /// were used.
        utilisation: f64,
        /// Packets dropped.
        drops: u64,
        /// Drops by cause: `queue`, `aqm`, `loss`, `down`, `mtu`, and `changed` for a queue with a new, lower limit.
        drops_by_cause: BTreeMap<String, u64>,
        /// Packets marked with "congestion experienced".
        marks: u64,
        /// Packets in the queue.
        occupancy: MeanMax,
        /// Bytes in the queue.
        occupancy_bytes: MeanMax,
    }
}

/// The parts of a result, each by the name of its type.
pub fn parts() -> Vec<(&'static str, &'static [Field])> {
    const fn number(name: &'static str, kind: &'static str, doc: &'static str) -> Field {
        Field { name, kind, may_be_absent: false, doc }
    }
    const QUANTILES: &[Field] = &[
        number("mean", "f64", "Mean."),
        number("p50", "f64", "Median."),
        number("p95", "f64", "95th percentile."),
        number("p99", "f64", "99th percentile."),
    ];
    const MEAN_MAX: &[Field] =
        &[number("mean", "f64", "Mean over time."), number("max", "u64", "Largest value.")];
    vec![
        ("RunResult", RunResult::FIELDS),
        ("FlowResult", FlowResult::FIELDS),
        ("StreamResult", StreamResult::FIELDS),
        ("PathResult", PathResult::FIELDS),
        ("WantedPathResult", WantedPathResult::FIELDS),
        ("RouterRecord", RouterRecord::FIELDS),
        ("LinkResult", LinkResult::FIELDS),
        ("MiddleboxResult", MiddleboxResult::FIELDS),
        ("HostResult", HostResult::FIELDS),
        ("RouterResult", RouterResult::FIELDS),
        ("HostFacts", HostFacts::FIELDS),
        ("LatenessResult", LatenessResult::FIELDS),
        ("Quantiles", QUANTILES),
        ("MeanMax", MEAN_MAX),
    ]
}

/// A result together with its exact scenario: the stored document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Document {
    /// The result of the run.
    #[serde(flatten)]
    pub result: RunResult,
    /// The scenario with every default and override, as returned by [`to_json`](crate::to_json).
    pub scenario: serde_json::Value,
}

impl Document {
    /// The document of a run of `scenario`.
    pub fn new(result: RunResult, scenario: &Scenario) -> Self {
        Self { result, scenario: crate::to_json(scenario) }
    }
}

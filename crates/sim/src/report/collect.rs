//! Builds the result document from the measurements.

use super::{
    arrivals,
    route::{Taken, links_taken},
    wanted,
};
use crate::engine::Datapath;
use crate::engine::datapath::{MiddleboxCounts, Middleboxes, ProcessorUse, SourceRouters};
use crate::host::{
    ArrivingFlows, Awaited, Baseline, Flow, FlowEnvironment, Legs, PathMeter, RECEIVER, Relays, Returns,
    SENDER, StreamDeliveries, Transfer,
};
use crate::scenario::Scenario;
use crate::scenario::model::{self, Directions, Event, Protocol};
use crate::scenario::result::{
    self, FlowResult, HostResult, LinkResult, MeanMax, Measured, MiddleboxResult, PathNames, PathResult,
    Quantiles, RouterRecord, RouterResult, StreamResult, Times,
};
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{Arrival, Counters, Endpoint, Limited, Limits, PathReport, Report, Spent};
use anabranch_multipath::PathId;
use anabranch_netem::{Interface, Network, Totals};
use anabranch_scenario::measure::{Datagrams, TimeMeans};
use anabranch_wire::sctp::network_control::Record;
use core::net::SocketAddr;
use std::collections::BTreeMap;

/// A completed run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The scenario of the run.
    pub scenario: &'a Scenario,
    /// Time at which the run ended.
    pub now: Time,
    /// Time at which measuring began.
    pub since: Time,
}

impl Run<'_> {
    /// The flows' results.
    pub fn flows(
        &self,
        (flows, relays, arriving_flows): (&mut [Flow], &Relays, &ArrivingFlows),
        world: &mut FlowEnvironment,
    ) -> Vec<FlowResult> {
        let declared = self.scenario.flows.iter().enumerate();
        let result = |(at, declared)| match arriving_flows.of(at) {
            Some(arriving_flow) => arrivals::flow(
                (declared, direction(declared)),
                (arriving_flow, flows),
                world,
                &self.measured(),
            ),
            None => self.flow(declared, &Legs::of(at, flows, relays), world),
        };
        declared.map(result).collect()
    }

    /// The links' results; `baselines` are the counters of each direction at the start of measuring.
    pub fn links(&self, datapath: &mut Datapath, baselines: &[Totals]) -> Vec<LinkResult> {
        let mut results = Vec::with_capacity(baselines.len());
        for (direction, baseline) in baselines.iter().enumerate() {
            let interface = Interface(direction as u32);
            let totals = datapath.link(interface).at(self.now).totals(self.now);
            results.push(self.measured().link(self.scenario, interface, &totals, baseline));
        }
        results
    }

    /// The middleboxes' results.
    pub fn middleboxes(&self, datapath: &Datapath) -> Vec<MiddleboxResult> {
        let counts = datapath.middleboxes().into_iter().flat_map(Middleboxes::counts);
        let result = |(declared, counted): (&model::Middlebox, MiddleboxCounts)| MiddleboxResult {
            node: declared.node.clone(),
            kind: declared.does.kind().name.to_owned(),
            packets: counted.packets,
            changed: counted.changed,
            dropped: counted.dropped,
        };
        self.scenario.middleboxes.iter().zip(counts).map(result).collect()
    }

    /// The results of routers to which packets with source routes have come.
    pub fn routers(&self, datapath: &mut Datapath) -> Vec<RouterResult> {
        let counts = datapath.source_routers().into_iter().flat_map(SourceRouters::counts);
        let counts: Vec<_> = counts.filter(|(_, counts)| counts.packets > 0).collect();
        let nodes = datapath.network().nodes();
        counts.into_iter().map(|(node, counts)| RouterResult::of(&nodes[node].name, counts)).collect()
    }

    /// The results of hosts with a cost of packets.
    pub fn hosts(&self, datapath: &mut Datapath) -> Vec<HostResult> {
        let span = self.now.since(self.since).as_secs_f64();
        let result = |used: ProcessorUse| HostResult {
            name: used.host,
            counters: BTreeMap::new(),
            utilisation: Some(used.busy.as_secs_f64() / span),
            drops: Some(used.drops),
        };
        let uses = datapath.processors().map(|processors| processors.uses(self.now));
        uses.unwrap_or_default().into_iter().map(result).collect()
    }

    /// Returns true if a flow of Multipath TCP runs as plain TCP because one of its hosts does not support Multipath
    /// TCP.
    fn is_without_mptcp(&self, declared: &model::Flow) -> bool {
        let has_mptcp = |host| self.scenario.has_mptcp(host);
        matches!(declared.protocol, Protocol::Mptcp(_))
            && !(has_mptcp(&declared.from) && has_mptcp(declared.meets()))
    }

    fn flow(&self, declared: &model::Flow, legs: &Legs<'_>, world: &mut FlowEnvironment) -> FlowResult {
        let flow = &*legs.first;
        let endpoints = [SENDER, RECEIVER].map(|side| flow.endpoint(side, &world.hosts));
        let reports = endpoints.map(|endpoint| endpoint.map(Endpoint::report).unwrap_or_default());
        let nothing = Baseline::default();
        let baseline = flow.meters.baseline.as_deref().unwrap_or(&nothing);
        let source = flow.source();
        let (sender, receiver) = (&reports[source], &reports[1 - source]);
        let limits = endpoints[source].map(|endpoint| endpoint.limits(self.now)).unwrap_or_default();
        let [written, back_written] = [source, 1 - source].map(|end| legs.written_by(end));
        let [main, back] = [source, 1 - source].map(|end| legs.read_of(end));
        let delivered = |transfer: Option<&Transfer>| transfer.map(|transfer| transfer.checker.delivered());
        let since_baseline = |end| Some(self.measured().rate(legs.delivered(end)?));
        let client = written.and_then(|transfer| transfer.writer.client());
        let bytes = |written: Option<&Transfer>| written.map(|transfer| transfer.checker.written());
        let datagrams = main.and_then(|transfer| transfer.checker.datagrams());
        let rating = datagrams.and_then(Datagrams::rating);
        let delays = |transfer: Option<&Transfer>| Quantiles::of(transfer?.checker.delays());
        let over_time = main.and_then(|transfer| transfer.checker.over_time());
        let pace = over_time.and_then(|over_time| over_time.pace.as_ref());
        let after = over_time.and_then(|over_time| over_time.after_events.as_ref());
        let least = after.and_then(|after| after.least(self.now));
        let ended = legs.completed().unwrap_or(self.now);
        let mut paths = self.paths((flow, declared), &reports, baseline, &mut world.datapath);
        let limited = limit_paths(&mut paths, &limits, &baseline.limits);
        let limited_s =
            times(&limits.connection.since(&baseline.limits.connection), !limits.paths.is_empty());
        FlowResult {
            name: declared.name.clone(),
            from: declared.from.clone(),
            to: declared.to.clone(),
            through: declared.through.clone(),
            protocol: declared.protocol.name().to_owned(),
            direction: direction(declared),
            congestion: declared.protocol.congestion().map(|choice| choice.entry.name.to_owned()),
            start_s: flow.start().as_secs_f64(),
            state: flow.applications.state.name().to_owned(),
            fallback: sender.fallback || self.is_without_mptcp(declared),
            goodput_bps: since_baseline(source).unwrap_or_default(),
            throughput_bps: paths.iter().map(|path| path.throughput_bps).sum(),
            delivered_bytes: delivered(main).unwrap_or_default(),
            written_bytes: bytes(written).unwrap_or_default(),
            setup_s: flow.applications.connected[SENDER].map(|at| at.since(flow.start()).as_secs_f64()),
            completion_s: legs.completed().map(|at| at.since(flow.start()).as_secs_f64()),
            delivery_delay_s: delays(main),
            reverse_goodput_bps: since_baseline(1 - source),
            reverse_delivered_bytes: delivered(back),
            reverse_written_bytes: bytes(back_written),
            reverse_delivery_delay_s: delays(back),
            answers: client.map(|client| client.answers),
            lost_share: datagrams.and_then(Datagrams::lost_share),
            duplicated_share: datagrams.and_then(Datagrams::duplicated_share),
            jitter_s: datagrams.and_then(Datagrams::jitter_s),
            r_factor: rating.map(|rating| rating.r),
            mos: rating.map(|rating| rating.mos),
            arrived: None,
            unfinished: None,
            refused: None,
            completion_time_s: None,
            slowdown: None,
            response_time_s: client.and_then(|client| Quantiles::of(&client.response_times)),
            recovery_s: pace.and_then(|pace| Some(pace.recovery(self.now)?.as_secs_f64())),
            recovered_share: pace.and_then(|pace| pace.share(self.now)),
            gap_s: after.and_then(|after| Some(after.gap(ended)?.as_secs_f64())),
            gap_delivered_bytes: least.map(|(_, bytes)| bytes),
            repeated_share: least.and_then(|(event, _)| flow.meters.repetitions.as_ref()?.share(event)),
            reordering_buffer_bytes: Some(self.held(flow, 1)),
            receive_buffer_bytes: Some(self.held(flow, 0)),
            blocked_s: result::blocked(&limited_s),
            limited_s,
            missed_bytes: missed(&limited, !limits.paths.is_empty()),
            buffer_blocked_s: seconds_since(&limits.buffers, &baseline.limits.buffers),
            counters: counters(sender, receiver),
            streams: self.streams(flow, main),
            paths,
            paths_wanted: Some(wanted::paths(self.scenario, (flow, &declared.protocol), world)),
        }
    }

    fn paths(
        &self,
        (flow, declared): (&Flow, &model::Flow),
        reports: &[Report; 2],
        baseline: &Baseline,
        datapath: &mut Datapath,
    ) -> Vec<PathResult> {
        let source = flow.source();
        let place = |end| datapath.real_address(end);
        let ends: Vec<_> =
            reports[source].paths.iter().map(|path| [path.local, path.remote].map(place)).collect();
        let [arrived, arrived_before] = [&reports[1 - source], &baseline.reports[1 - source]]
            .map(|report| placed_arrivals(report, datapath));
        let mut names = PathNames::default();
        let mut results = Vec::new();
        let protocol = &declared.protocol;
        let index = self.scenario.flows.iter().position(|other| other.name == declared.name);
        for (at, path) in reports[source].paths.iter().enumerate() {
            let name = names.of(at, self.scenario, ends[at].map(|end| end.ip())).to_owned();
            let gateway = index.zip(path.gateway);
            let taken = Taken { ends: ends[at], protocol, gateway };
            let links = links_taken(self.scenario, taken, (self.now, datapath));
            let sent = sent_since(path, &baseline.reports[source]);
            let way = ReceiverPath::of(ends[at], &ends);
            let arrived = way.delivered_bytes(&arrived) - way.delivered_bytes(&arrived_before);
            // A flow that has not started has no meters.
            let meter = flow.meters.paths.get(path.id.index()).copied().unwrap_or(PathMeter::new(self.now));
            let rates = [self.measured().rate(arrived), self.measured().rate(sent)];
            let [path_back_s, first_data_after_event_s] = self.first_data(flow, (&links, &way), datapath);
            let network_control = router_records(&reports[source], path.id, datapath.network());
            let path = self.path(path, &meter, rates, (name, links));
            results.push(PathResult { path_back_s, first_data_after_event_s, network_control, ..path });
        }
        results
    }

    fn path(
        &self,
        path: &PathReport,
        meter: &PathMeter,
        [goodput_bps, throughput_bps]: [f64; 2],
        (name, links): (String, Vec<String>),
    ) -> PathResult {
        let counters: Counters = path.counters;
        let (cwnd_mean_bytes, outstanding_mean_bytes, cwnd_max_bytes) = meter.windows(self.now);
        let causes = [("fast", counters.fast_retransmissions), ("timeout", counters.timeout_retransmissions)];
        PathResult {
            name,
            local: path.local.to_string(),
            remote: path.remote.to_string(),
            links,
            usable: path.usable,
            backup: path.backup,
            goodput_bps,
            throughput_bps,
            packets: counters.packets_sent,
            data_packets: counters.data_packets_sent,
            retransmissions: counters.fast_retransmissions + counters.timeout_retransmissions,
            retransmissions_by_cause: causes.map(|(cause, count)| (cause.to_owned(), count)).into(),
            reinjections: Some(counters.reinjections),
            probes: Some(counters.probes),
            recoveries: Some(counters.recoveries),
            timeouts: Some(counters.timeouts),
            undone: Some(counters.undone),
            ecn_reductions: Some(counters.ecn_reductions),
            reductions_by_cause: counters.reductions().map(|(cause, count)| (cause.to_owned(), count)).into(),
            bytes_by_kind: counters.bytes_by_kind().map(|(kind, bytes)| (kind.to_owned(), bytes)).into(),
            delivery_rate_max_bps: path.delivery_rate_max.map(|bytes| 8.0 * bytes as f64),
            srtt_min_s: path.srtt_min.map(Duration::as_secs_f64),
            srtt_s: path.srtt.map(Duration::as_secs_f64),
            srtt_mean_s: meter.srtt(self.now).map(|nanos| nanos / 1e9),
            rto_s: path.rto.as_secs_f64(),
            cwnd_bytes: path.cwnd,
            cwnd_mean_bytes,
            cwnd_max_bytes,
            ssthresh_bytes: Some(path.ssthresh).filter(|&threshold| threshold != u64::MAX),
            outstanding_mean_bytes,
            path_back_s: None,
            first_data_after_event_s: None,
            bottleneck: path.grouping.map(|grouping| grouping.bottleneck),
            bottleneck_share: path.grouping.and_then(|grouping| grouping.bottleneck_share()),
            coupled_share: path.grouping.and_then(|grouping| grouping.shared_share()),
            network_control: Vec::new(),
            kernel: BTreeMap::new(),
            head_of_line_s: None,
            limited_s: BTreeMap::new(),
            missed_bytes: BTreeMap::new(),
        }
    }

    /// Times from the end of an outage, and from the last event that may let the path return, to the first new data on it,
    /// seconds.
    fn first_data(
        &self,
        flow: &Flow,
        (links, way): (&[String], &ReceiverPath),
        datapath: &Datapath,
    ) -> [Option<f64>; 2] {
        let place = |end| datapath.real_address(end);
        let first = |returns: &Returns| {
            let times = returns.times().map(|(to, from, after)| (place(to), place(from), after));
            let of_this = times.filter(|&(to, from, _)| way.includes(to, from));
            of_this.map(|(_, _, after)| after.as_secs_f64()).reduce(f64::min)
        };
        let watches = || flow.meters.watches.iter().flat_map(|watches| watches.iter());
        let came_up = self.came_up();
        let is_back = links.iter().any(|link| came_up.contains(&link.as_str()));
        let back = watches().find(|(event, _)| is_back && *event == Awaited::OutageEnd);
        let concerns = |(event, _): &&(Awaited, Returns)| match *event {
            Awaited::OutageEnd => false,
            Awaited::Link(link) => links.contains(&self.scenario.links[link].name),
            Awaited::Flow => true,
        };
        let last = watches().filter(concerns).max_by_key(|(_, returns)| returns.since());
        [back, last].map(|watch| watch.and_then(|(_, returns)| first(returns)))
    }

    /// Links that came up at the end of an outage.
    fn came_up(&self) -> Vec<&str> {
        let Some(outage) = self.scenario.outage() else { return Vec::new() };
        let comes_up = |event: &&Event| event.at == outage.up && event.sets_state(true);
        let events = self.scenario.events.iter().filter(comes_up).filter_map(Event::of_link);
        events.map(|event| &*self.scenario.links[event.link].name).collect()
    }

    const fn measured(&self) -> Measured {
        Measured { since: self.since, until: self.now }
    }

    /// Streams of the main data of a flow with several.
    fn streams(&self, flow: &Flow, main: Option<&Transfer>) -> Vec<StreamResult> {
        let deliveries = main.map(|transfer| transfer.checker.by_stream()).unwrap_or_default();
        let result = |(stream, (deliveries, held)): (u16, (&StreamDeliveries, &TimeMeans<1>))| StreamResult {
            stream,
            delivered_bytes: deliveries.bytes,
            delivery_delay_s: Quantiles::of(&deliveries.delays),
            reordering_buffer_bytes: MeanMax { mean: held.mean(0, self.now), max: held.max(0) },
        };
        (0..).zip(deliveries.iter().zip(&flow.meters.streams)).map(result).collect()
    }

    /// Mean and maximum of a value of a flow's receiver, by its index in [`Meters::held`](crate::host::Meters::held).
    fn held(&self, flow: &Flow, at: usize) -> MeanMax {
        let held = &flow.meters.held;
        MeanMax { mean: held.mean(at, self.now), max: held.max(at) }
    }
}

/// Name of the direction of the data, unless it is the default.
fn direction(declared: &model::Flow) -> Option<String> {
    match declared.direction {
        Directions::Forward => None,
        Directions::Reverse => Some("reverse".to_owned()),
        Directions::Both => Some("both".to_owned()),
    }
}

/// The arrivals of a report, with the addresses of the scenario's network in place of translated ones.
pub(super) fn placed_arrivals(report: &Report, datapath: &Datapath) -> Vec<Arrival> {
    let place = |end| datapath.real_address(end);
    let placed = |arrival: &Arrival| Arrival {
        local: place(arrival.local),
        remote: place(arrival.remote),
        new: arrival.new,
    };
    report.arrivals.iter().map(placed).collect()
}

/// The receiver's view of one path of the sender.
pub(super) struct ReceiverPath {
    to: SocketAddr,
    /// Source address; `None` if this path is the only one with its destination, because then the source may have
    /// changed (RFC 9260 §6.4).
    from: Option<SocketAddr>,
}

impl ReceiverPath {
    /// The path between these ends, of all paths of the sender.
    pub(super) fn of([local, remote]: [SocketAddr; 2], all: &[[SocketAddr; 2]]) -> Self {
        let several = all.iter().filter(|other| other[1] == remote).count() > 1;
        Self { to: remote, from: several.then_some(local) }
    }

    /// Returns true if data with this source and destination arrived over this path.
    fn includes(&self, to: SocketAddr, from: SocketAddr) -> bool {
        to == self.to && self.from.is_none_or(|own| own == from)
    }

    /// Payload bytes that this path has delivered.
    pub(super) fn delivered_bytes(&self, arrivals: &[Arrival]) -> u64 {
        let of_this = |arrival: &&Arrival| self.includes(arrival.local, arrival.remote);
        arrivals.iter().filter(of_this).map(|arrival| arrival.new).sum()
    }
}

fn sent_since(path: &PathReport, baseline: &Report) -> u64 {
    let before = baseline.paths.iter().find(|before| before.id == path.id);
    path.counters.bytes_sent - before.map_or(0, |before| before.counters.bytes_sent)
}

/// The records of routers in the last report about a path.
fn router_records(report: &Report, path: PathId, network: &Network) -> Vec<RouterRecord> {
    let found = report.network.iter().find(|(known, _)| *known == path);
    let records = found.into_iter().flat_map(|(_, chunk)| &chunk.records);
    // A router is numbered by its node.
    let name = |router: u32| network.nodes().get(router as usize).map(|node| node.name.clone());
    let record = |record: &Record| RouterRecord {
        router: name(record.router).unwrap_or_else(|| record.router.to_string()),
        rate_bps: 1e3 * f64::from(record.rate_kbit_per_s),
        free_rate_bps: 1e3 * f64::from(record.free_kbit_per_s),
        delay_s: f64::from(record.delay_100us) / 1e4,
        loss: f64::from(record.loss_milli_percent) / 1e5,
        queue_packets: record.queue_packets.into(),
        shared: record.flags & Record::SHARED != 0,
    };
    records.map(record).collect()
}

/// Writes the times of each path since `before` into the results, and returns their sum.
fn limit_paths(paths: &mut [PathResult], limits: &Limits, before: &Limits) -> Limited {
    let mut sum = Limited::default();
    for (at, (path, limited)) in paths.iter_mut().zip(&limits.paths).enumerate() {
        // A path that was added after `before` had no times then.
        let since = limited.since(&before.paths.get(at).copied().unwrap_or_default());
        let [gaps, gaps_before] = [limits, before].map(|limits| limits.gaps.get(at).copied());
        let waited = gaps.map(|gaps| gaps.saturating_sub(gaps_before.unwrap_or_default()));
        path.head_of_line_s = waited.map(Duration::as_secs_f64);
        path.limited_s = times(&since, true);
        path.missed_bytes = missed(&since, true);
        sum.missed.iter_mut().zip(since.missed).for_each(|(sum, missed)| *sum += missed);
    }
    sum
}

/// Seconds by cause; empty unless the times are `known`.
fn times(limited: &Limited, known: bool) -> Times {
    let seconds = |(cause, time): (&str, Duration)| (cause.to_owned(), Some(time.as_secs_f64()));
    limited.times().filter(|_| known).map(seconds).collect()
}

/// Missed bytes by cause; empty unless the times are `known`.
fn missed(limited: &Limited, known: bool) -> BTreeMap<String, Option<u64>> {
    limited.bytes().filter(|_| known).map(|(cause, bytes)| (cause.to_owned(), Some(bytes))).collect()
}

/// Seconds by cause, since `before`.
fn seconds_since(spent: &Spent, before: &Spent) -> BTreeMap<String, f64> {
    let before: BTreeMap<_, _> = before.iter().copied().collect();
    let since = |&(cause, length): &(&str, Duration)| {
        let before = before.get(cause).copied().unwrap_or_default();
        (cause.to_owned(), length.saturating_sub(before).as_secs_f64())
    };
    spent.iter().map(since).collect()
}

/// Counters of both ends; a counter that both have is the sum.
fn counters(sender: &Report, receiver: &Report) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for &(name, count) in sender.extra.iter().chain(&receiver.extra) {
        *all.entry(name.to_owned()).or_insert(0) += count;
    }
    all
}

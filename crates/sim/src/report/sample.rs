//! Current values of a run, for displays and for programs that control it. All counters are since the start of the
//! run; values of an interval are differences of two samples.

use crate::engine::Datapath;
use crate::host::{ArrivingFlow, ArrivingFlows, Flow, FlowEnvironment, Legs, Relays, State};
use crate::report::collect::{self, ReceiverPath};
use crate::report::route::{Taken, links_taken};
use crate::scenario::Scenario;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{Endpoint, Limited, PathReport, Reason};
use anabranch_netem::{DropCause, Interface};
use anabranch_scenario::result::PathNames;
use core::net::SocketAddr;
use serde::Serialize;
use std::collections::BTreeMap;

/// Present values of all flows and links, in the order of the scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Simulated time, nanoseconds.
    pub now_ns: u64,
    /// Number of processed events.
    pub events: u64,
    /// True if the run has ended.
    pub over: bool,
    /// The flows.
    pub flows: Vec<FlowSample>,
    /// The links, each with its two directions.
    pub links: Vec<LinkSample>,
}

/// Present values of a flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowSample {
    /// State of the connection, as in results.
    pub state: &'static str,
    /// Bytes that the application has written.
    pub written_bytes: u64,
    /// Bytes that the other application has read, each once and in order.
    pub delivered_bytes: u64,
    /// As `delivered_bytes`, for data in the opposite direction; absent without such data.
    pub reverse_delivered_bytes: Option<u64>,
    /// Occupied bytes of the send buffer.
    pub send_buffer_bytes: u64,
    /// Occupied bytes of the receive buffer.
    pub receive_buffer_bytes: u64,
    /// The part of these bytes that is out of order.
    pub reordering_buffer_bytes: u64,
    /// Receive window that the sender knows, bytes.
    pub peer_window_bytes: u64,
    /// Time of the connection by cause, seconds.
    pub limited_s: BTreeMap<&'static str, f64>,
    /// The paths of the data's sender; empty before the start.
    pub paths: Vec<PathSample>,
}

/// Present values of a path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathSample {
    /// Name of the path in results.
    pub name: String,
    /// The links that packets of the path take.
    pub links: Vec<String>,
    /// Established and not believed to have failed.
    pub usable: bool,
    /// Used only when no other path is usable.
    pub backup: bool,
    /// Congestion window, bytes.
    pub cwnd_bytes: u64,
    /// Slow-start threshold, bytes; `None` before the first loss.
    pub ssthresh_bytes: Option<u64>,
    /// Smoothed round-trip time, seconds.
    pub srtt_s: Option<f64>,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// Payload bytes sent, retransmissions included.
    pub sent_bytes: u64,
    /// Payload bytes that arrived over this path and were new to the connection.
    pub delivered_bytes: u64,
    /// Data packets retransmitted.
    pub retransmissions: u64,
    /// Times the retransmission timer ran out.
    pub timeouts: u64,
    /// Time of the path by cause, seconds.
    pub limited_s: BTreeMap<&'static str, f64>,
}

/// Present values of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkSample {
    /// From the first node to the second.
    pub forward: DirectionSample,
    /// From the second node to the first.
    pub reverse: DirectionSample,
}

/// Present values of a direction of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DirectionSample {
    /// True if the link is up.
    pub up: bool,
    /// Packets in the queue.
    pub queue_packets: u64,
    /// Bytes in the queue.
    pub queue_bytes: u64,
    /// Packets transmitted, including those lost on the way.
    pub sent_packets: u64,
    /// Bytes of these IP packets.
    pub sent_bytes: u64,
    /// Packets dropped, by cause.
    pub drops: BTreeMap<&'static str, u64>,
    /// Packets marked with "congestion experienced".
    pub marks: u64,
}

/// Names and links of the paths of a flow, from sample to sample: routes do not change, unless routers have network
/// control.
#[derive(Clone, Debug, Default)]
pub struct KnownPaths {
    names: PathNames,
    /// Index of the flow.
    flow: usize,
    links: Vec<([SocketAddr; 2], Vec<String>)>,
}

impl KnownPaths {
    /// The links of the path `at`; a path may change its addresses.
    fn links_of(
        &mut self,
        (at, ends, gateway): (usize, [SocketAddr; 2], Option<u8>),
        (scenario, now): (&Scenario, Time),
        datapath: &mut Datapath,
    ) -> Vec<String> {
        let is_fixed = !datapath.has_network_control();
        if self.links.get(at).is_none_or(|(known, _)| *known != ends || !is_fixed) {
            let protocol = &scenario.flows[self.flow].protocol;
            let gateway = gateway.map(|gateway| (self.flow, gateway));
            let links = links_taken(scenario, Taken { ends, protocol, gateway }, (now, datapath));
            self.links.truncate(at);
            self.links.push((ends, links));
        }
        self.links[at].1.clone()
    }
}

/// Reads the values of a run at a time.
#[derive(Clone, Copy, Debug)]
pub struct Sampler<'a> {
    /// The scenario of the run.
    pub scenario: &'a Scenario,
    /// The present time.
    pub now: Time,
}

impl Sampler<'_> {
    /// The flows, with the known paths of each.
    pub fn flows(
        &self,
        (flows, relays, arriving_flows): (&mut [Flow], &Relays, &ArrivingFlows),
        known: &mut [KnownPaths],
        world: &mut FlowEnvironment,
    ) -> Vec<FlowSample> {
        let flow = |(index, known): (usize, &mut KnownPaths)| {
            known.flow = index;
            if let Some(arriving_flow) = arriving_flows.of(index) {
                return self.arriving_flow(arriving_flow, flows, world);
            }
            self.flow(&Legs::of(index, flows, relays), known, world)
        };
        known.iter_mut().enumerate().map(flow).collect()
    }

    /// The links.
    pub fn links(&self, datapath: &mut Datapath) -> Vec<LinkSample> {
        let mut direction = |link, end| {
            let link = datapath.link(Interface::new(link, end)).at(self.now);
            let (queue_packets, queue_bytes) = link.queued(self.now);
            let totals = link.totals(self.now);
            DirectionSample {
                up: link.is_up(),
                queue_packets,
                queue_bytes,
                sent_packets: totals.packets,
                sent_bytes: totals.bytes,
                drops: DropCause::ALL.map(DropCause::name).into_iter().zip(totals.drops).collect(),
                marks: totals.marks,
            }
        };
        let links = 0..self.scenario.links.len();
        links.map(|link| LinkSample { forward: direction(link, 0), reverse: direction(link, 1) }).collect()
    }

    /// A flow with arrivals: sums over its connections, without the values of single ones.
    fn arriving_flow(
        &self,
        arriving_flow: &ArrivingFlow,
        flows: &[Flow],
        world: &FlowEnvironment,
    ) -> FlowSample {
        let totals = arriving_flow.totals(flows, world);
        let state = if self.now <= arriving_flow.start() {
            State::Opening
        } else if arriving_flow.is_over() {
            State::Ended(Reason::Closed)
        } else {
            State::Open
        };
        FlowSample {
            state: state.name(),
            written_bytes: totals.written,
            delivered_bytes: totals.delivered,
            reverse_delivered_bytes: None,
            send_buffer_bytes: 0,
            receive_buffer_bytes: 0,
            reordering_buffer_bytes: 0,
            peer_window_bytes: 0,
            limited_s: BTreeMap::new(),
            paths: Vec::new(),
        }
    }

    fn flow(&self, legs: &Legs<'_>, known: &mut KnownPaths, world: &mut FlowEnvironment) -> FlowSample {
        let flow = &*legs.first;
        let source = flow.source();
        let endpoint = |side| flow.endpoint(side, &world.hosts);
        let [sender, receiver] =
            [source, 1 - source].map(|side| endpoint(side).map(Endpoint::report).unwrap_or_default());
        let limits = endpoint(source).map(|endpoint| endpoint.limits(self.now)).unwrap_or_default();
        let delivered = |end| legs.read_of(end).map(|transfer| transfer.checker.delivered());
        let none = Limited::default();
        let place = |end| world.datapath.real_address(end);
        let ends: Vec<_> = sender.paths.iter().map(|path| [path.local, path.remote].map(place)).collect();
        let arrivals = collect::placed_arrivals(&receiver, &world.datapath);
        let mut paths = Vec::with_capacity(sender.paths.len());
        for (at, path) in sender.paths.iter().enumerate() {
            let limited = limits.paths.get(at).unwrap_or(&none);
            let delivered_bytes = ReceiverPath::of(ends[at], &ends).delivered_bytes(&arrivals);
            let values = (delivered_bytes, limited);
            paths.push(self.path((at, path, ends[at]), values, known, &mut world.datapath));
        }
        FlowSample {
            state: flow.applications.state.name(),
            written_bytes: legs.written_by(source).map_or(0, |transfer| transfer.checker.written()),
            delivered_bytes: delivered(source).unwrap_or_default(),
            reverse_delivered_bytes: delivered(1 - source),
            send_buffer_bytes: sender.send_buffer,
            receive_buffer_bytes: receiver.receive_buffer,
            reordering_buffer_bytes: receiver.reordering_buffer,
            peer_window_bytes: sender.peer_window,
            limited_s: seconds(&limits.connection),
            paths,
        }
    }

    fn path(
        &self,
        (at, path, ends): (usize, &PathReport, [SocketAddr; 2]),
        (delivered_bytes, limited): (u64, &Limited),
        known: &mut KnownPaths,
        datapath: &mut Datapath,
    ) -> PathSample {
        let counters = path.counters;
        PathSample {
            name: known.names.of(at, self.scenario, ends.map(|end| end.ip())).to_owned(),
            links: known.links_of((at, ends, path.gateway), (self.scenario, self.now), datapath),
            usable: path.usable,
            backup: path.backup,
            cwnd_bytes: path.cwnd,
            ssthresh_bytes: Some(path.ssthresh).filter(|&bytes| bytes != u64::MAX),
            srtt_s: path.srtt.map(Duration::as_secs_f64),
            in_flight_bytes: path.outstanding,
            sent_bytes: counters.bytes_sent,
            delivered_bytes,
            retransmissions: counters.fast_retransmissions + counters.timeout_retransmissions,
            timeouts: counters.timeouts,
            limited_s: seconds(limited),
        }
    }
}

fn seconds(limited: &Limited) -> BTreeMap<&'static str, f64> {
    limited.times().map(|(cause, time)| (cause, time.as_secs_f64())).collect()
}

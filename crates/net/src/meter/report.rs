//! Builds the result document from the measurements.

use super::flow::{Flow, Transport};
use super::record::{State, TransferTally};
use super::samples::{FlowSamples, PathSamples};
use anabranch_base::time::Time;
use anabranch_endpoint::Limit;
use anabranch_netem::{Interface, InterfaceAddress};
use anabranch_scenario::Scenario;
use anabranch_scenario::model::{Directions, flow_hash};
use anabranch_scenario::result::{self, FlowResult, Measured, PathNames, PathResult, Quantiles, Times};
use anabranch_scenario::workload::Client;
use core::net::SocketAddr;
use std::collections::BTreeMap;

/// The records of a flow's ends.
#[derive(Clone, Copy, Debug)]
pub struct FlowRecords<'a> {
    /// The main data of the flow.
    pub main: &'a TransferTally,
    /// The data in the opposite direction, if there is any.
    pub back: Option<&'a TransferTally>,
    /// The source's results as a requesting application; `None` for others.
    pub client: Option<&'a Client>,
}

/// A completed run.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The scenario of the run.
    pub scenario: &'a Scenario,
    /// Time at which measuring began.
    pub since: Time,
    /// Time at which the run ended.
    pub until: Time,
}

impl Report<'_> {
    /// The result of a flow.
    pub fn flow(
        &self,
        index: usize,
        flow: &Flow,
        records: &FlowRecords<'_>,
        samples: &FlowSamples,
    ) -> FlowResult {
        let declared = &self.scenario.flows[index];
        let FlowRecords { main: tally, back, client } = *records;
        let paths = match flow.transport {
            Transport::Udp => vec![self.datagrams(index, flow, tally)],
            Transport::Tcp | Transport::Mptcp | Transport::Sctp => self.paths(index, samples, tally.state),
        };
        let over_time = tally.over_time.as_ref();
        let pace = over_time.and_then(|over_time| over_time.pace.as_ref());
        let after = over_time.and_then(|over_time| over_time.after_events.as_ref());
        let ended = tally.completed.unwrap_or(self.until);
        // The kernel has no times of a whole Multipath TCP connection.
        let limited_s = match &paths[..] {
            [path] if flow.transport != Transport::Mptcp => path.limited_s.clone(),
            _ => unknown(flow.transport != Transport::Udp),
        };
        FlowResult {
            name: declared.name.clone(),
            from: declared.from.clone(),
            to: declared.to.clone(),
            through: declared.through.clone(),
            protocol: declared.protocol.name().to_owned(),
            congestion: (flow.transport != Transport::Udp).then(|| flow.congestion.to_owned()),
            start_s: flow.start.as_secs_f64(),
            state: tally.state.name().to_owned(),
            fallback: flow.transport == Transport::Mptcp
                && samples.mptcp.map_or(!samples.paths.is_empty(), |connection| connection.fallback),
            goodput_bps: self.measured().rate(tally.delivered_measured),
            // The sum of an empty iterator of floats is minus zero.
            throughput_bps: paths.iter().fold(0.0, |sum, path| sum + path.throughput_bps),
            delivered_bytes: tally.delivered,
            written_bytes: tally.written,
            setup_s: None,
            completion_s: completed(records).map(|at| at.since(flow.start).as_secs_f64()),
            delivery_delay_s: Quantiles::of(&tally.delays),
            direction: match declared.direction {
                Directions::Forward => None,
                Directions::Reverse => Some("reverse".to_owned()),
                Directions::Both => Some("both".to_owned()),
            },
            reverse_goodput_bps: back.map(|back| self.measured().rate(back.delivered_measured)),
            reverse_delivered_bytes: back.map(|back| back.delivered),
            reverse_written_bytes: back.map(|back| back.written),
            reverse_delivery_delay_s: back.and_then(|back| Quantiles::of(&back.delays)),
            answers: client.map(|client| client.answers),
            response_time_s: client.and_then(|client| Quantiles::of(&client.response_times)),
            lost_share: None,
            duplicated_share: None,
            jitter_s: None,
            r_factor: None,
            mos: None,
            arrived: None,
            unfinished: None,
            refused: None,
            completion_time_s: None,
            slowdown: None,
            recovery_s: pace.and_then(|pace| Some(pace.recovery(self.until)?.as_secs_f64())),
            recovered_share: pace.and_then(|pace| pace.share(self.until)),
            gap_s: after.and_then(|after| Some(after.gap(ended)?.as_secs_f64())),
            gap_delivered_bytes: after.and_then(|after| Some(after.least(self.until)?.1)),
            repeated_share: after.filter(|_| counts_repeated_bytes(flow)).and_then(|after| {
                let (event, _) = after.least(self.until)?;
                samples.repetitions.share(event)
            }),
            reordering_buffer_bytes: None,
            receive_buffer_bytes: None,
            blocked_s: result::blocked(&limited_s),
            limited_s,
            missed_bytes: unknown(flow.transport != Transport::Udp),
            buffer_blocked_s: BTreeMap::new(),
            counters: counters(samples),
            paths_wanted: (flow.transport == Transport::Udp).then(Vec::new),
            streams: Vec::new(),
            paths,
        }
    }

    fn paths(&self, index: usize, samples: &FlowSamples, state: State) -> Vec<PathResult> {
        let mut names = PathNames::default();
        let path = |(at, path): (usize, &PathSamples)| {
            let name = names.of(at, self.scenario, [path.local.ip(), path.remote.ip()]).to_owned();
            // The paths of an ended flow are unusable, whatever the kernel last reported about its
            // connection.
            let usable = path.usable && matches!(state, State::Opening | State::Open);
            PathResult { usable, ..self.path(index, name, path) }
        };
        samples.paths.iter().enumerate().map(path).collect()
    }

    fn path(&self, index: usize, name: String, path: &PathSamples) -> PathResult {
        let (info, since) = (&path.latest, &path.baseline);
        let rate = |bytes: u64| self.measured().rate(bytes);
        PathResult {
            name,
            local: path.local.to_string(),
            remote: path.remote.to_string(),
            links: self.links(index, [path.local, path.remote]),
            usable: path.usable,
            backup: self.is_backup(index, path),
            goodput_bps: rate(path.received[0].saturating_sub(path.received[1])),
            throughput_bps: rate(info.bytes_sent.saturating_sub(since.bytes_sent)),
            packets: info.packets,
            data_packets: info.data_packets,
            retransmissions: info.retransmissions,
            retransmissions_by_cause: BTreeMap::new(),
            reinjections: None,
            probes: None,
            recoveries: None,
            timeouts: info.timeouts,
            undone: None,
            ecn_reductions: None,
            reductions_by_cause: BTreeMap::new(),
            bytes_by_kind: BTreeMap::new(),
            delivery_rate_max_bps: None,
            srtt_min_s: None,
            srtt_s: info.srtt_us.map(|micros| f64::from(micros) / 1e6),
            srtt_mean_s: info.srtt_us.map(|_| path.srtt.mean(0, self.until) / 1e6),
            rto_s: f64::from(info.rto_us) / 1e6,
            cwnd_bytes: info.cwnd,
            cwnd_mean_bytes: path.cwnd.mean(0, self.until),
            cwnd_max_bytes: path.cwnd.max(0),
            ssthresh_bytes: info.ssthresh,
            outstanding_mean_bytes: path.in_flight.mean(0, self.until),
            path_back_s: None,
            first_data_after_event_s: None,
            bottleneck: None,
            bottleneck_share: None,
            coupled_share: None,
            network_control: Vec::new(),
            kernel: path.kernel.clone(),
            head_of_line_s: None,
            limited_s: limited(path),
            missed_bytes: unknown(true),
        }
    }

    /// The only path of datagrams, for which the kernel has no state.
    fn datagrams(&self, index: usize, flow: &Flow, tally: &TransferTally) -> PathResult {
        let mut names = PathNames::default();
        let ends = [flow.local.ip(), flow.remote.ip()];
        PathResult {
            name: names.of(0, self.scenario, ends).to_owned(),
            local: flow.local.to_string(),
            remote: flow.remote.to_string(),
            links: self.links(index, [flow.local, flow.remote]),
            usable: matches!(tally.state, State::Open | State::Closed),
            backup: false,
            goodput_bps: self.measured().rate(tally.delivered_measured),
            throughput_bps: self.measured().rate(tally.written_measured),
            packets: tally.datagrams,
            data_packets: tally.datagrams,
            retransmissions: 0,
            retransmissions_by_cause: BTreeMap::new(),
            reinjections: None,
            probes: None,
            recoveries: None,
            timeouts: None,
            undone: None,
            ecn_reductions: None,
            reductions_by_cause: BTreeMap::new(),
            bytes_by_kind: BTreeMap::new(),
            delivery_rate_max_bps: None,
            srtt_min_s: None,
            srtt_s: None,
            srtt_mean_s: None,
            rto_s: 0.0,
            cwnd_bytes: 0,
            cwnd_mean_bytes: 0.0,
            cwnd_max_bytes: 0,
            ssthresh_bytes: None,
            outstanding_mean_bytes: 0.0,
            path_back_s: None,
            first_data_after_event_s: None,
            bottleneck: None,
            bottleneck_share: None,
            coupled_share: None,
            network_control: Vec::new(),
            kernel: BTreeMap::new(),
            head_of_line_s: None,
            limited_s: BTreeMap::new(),
            missed_bytes: BTreeMap::new(),
        }
    }

    /// The links that packets of a flow take from one end to another, in order.
    fn links(&self, index: usize, ends: [SocketAddr; 2]) -> Vec<String> {
        let [from, to] = ends.map(|end| InterfaceAddress::of(end.ip()));
        let network = self.scenario.network().ok();
        let hash = flow_hash(&self.scenario.flows[index].protocol, ends);
        let route = network
            .zip(from.zip(to))
            .and_then(|(mut network, (from, to))| network.route_of([from, to], hash));
        let link = |hop: Interface| self.scenario.links[hop.link()].name.clone();
        route.unwrap_or_default().into_iter().map(link).collect()
    }

    fn is_backup(&self, index: usize, path: &PathSamples) -> bool {
        let flow = &self.scenario.flows[index];
        let link = |address| Interface::of_address(address).map(Interface::link);
        [path.local.ip(), path.remote.ip()]
            .into_iter()
            .filter_map(link)
            .any(|link| flow.backup.contains(&link))
    }

    const fn measured(&self) -> Measured {
        Measured { since: self.since, until: self.until }
    }
}

/// Time at which the last byte arrived, if all applications have closed and all data has arrived.
fn completed(records: &FlowRecords<'_>) -> Option<Time> {
    let main = records.main.completed?;
    records.back.map_or(Some(main), |back| Some(main.max(back.completed?)))
}

/// True if the sender of the main data counts all bytes that it sends again. Multipath TCP of Linux does not: in recovery it
/// sends its queue again on the remaining subflows, as new data of these.
fn counts_repeated_bytes(flow: &Flow) -> bool {
    flow.own[flow.source].is_some() || matches!(flow.transport_of(flow.source), Transport::Tcp)
}

/// The kernel's counters of a whole connection.
fn counters(samples: &FlowSamples) -> BTreeMap<String, u64> {
    let of = |connection: &super::diag::MptcpInfo| {
        [
            ("reinjected_segments".to_owned(), connection.retransmissions),
            ("reinjected_bytes".to_owned(), connection.bytes_retransmitted),
        ]
    };
    samples.mptcp.iter().flat_map(of).collect()
}

/// Times by cause that a kernel reports, in the measured part: those of its two windows.
fn limited(path: &PathSamples) -> Times {
    let seconds = |now: Option<u64>, before: Option<u64>| {
        now.map(|micros| micros.saturating_sub(before.unwrap_or_default()) as f64 / 1e6)
    };
    let (now, before) = (&path.latest, &path.baseline);
    let receive_window = seconds(now.receive_window_limited_us, before.receive_window_limited_us);
    let send_buffer = seconds(now.send_buffer_limited_us, before.send_buffer_limited_us);
    let mut times: Times = unknown(true);
    times.insert(Limit::ReceiveWindow.name().to_owned(), receive_window);
    times.insert(Limit::SendBuffer.name().to_owned(), send_buffer);
    times
}

/// Every cause without a value; empty where there are no causes.
fn unknown<T>(limits: bool) -> BTreeMap<String, Option<T>> {
    Limit::ALL.iter().filter(|_| limits).map(|limit| (limit.name().to_owned(), None)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::diag::TcpInfo;
    use anabranch_scenario::measure::TimeMeans;

    #[test]
    fn times_of_the_kernel_count_from_the_warm_up() {
        let end = ([127, 0, 0, 1], 1).into();
        let info = |receive, send| TcpInfo {
            receive_window_limited_us: receive,
            send_buffer_limited_us: send,
            ..TcpInfo::default()
        };
        let mean = TimeMeans::new(Time::ZERO);
        let path = PathSamples {
            local: end,
            remote: end,
            usable: true,
            latest: info(Some(2_500_000), None),
            baseline: info(Some(500_000), None),
            kernel: BTreeMap::new(),
            received: [0; 2],
            cwnd: mean,
            srtt: mean,
            in_flight: mean,
        };
        let times = limited(&path);
        assert_eq!((times["receive-window"], times["send-buffer"]), (Some(2.0), None));
        assert_eq!((times["application"], times.len()), (None, Limit::COUNT));
        assert_eq!(
            result::blocked(&times).into_iter().collect::<Vec<_>>(),
            [("receive-window".to_owned(), 2.0)]
        );
    }
}

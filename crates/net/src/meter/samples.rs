//! Samples of a flow's paths over a run, from kernels and from own stacks.

use super::diag::{MptcpInfo, TcpInfo};
use super::repetitions::{Repetitions, SentBytes};
use crate::emulator::Translations;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{PathReport, Report};
use anabranch_scenario::measure::TimeMeans;
use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Samples of a path of a flow.
#[derive(Clone, Debug)]
pub struct PathSamples {
    /// Address and port of the source.
    pub local: SocketAddr,
    /// Address and port of the other end.
    pub remote: SocketAddr,
    /// True if the path was established at the last sample.
    pub usable: bool,
    /// The sender's last sample.
    pub latest: TcpInfo,
    /// The sender's sample at the start of measuring.
    pub baseline: TcpInfo,
    /// The kernel's last counters, by name.
    pub kernel: BTreeMap<String, u64>,
    /// Bytes received according to the receiver's kernel, at the end and at the start of measuring.
    pub received: [u64; 2],
    /// Bytes, over the measured part.
    pub cwnd: TimeMeans<1>,
    /// Microseconds.
    pub srtt: TimeMeans<1>,
    /// Bytes.
    pub in_flight: TimeMeans<1>,
}

/// All samples of a flow.
#[derive(Clone, Debug, Default)]
pub struct FlowSamples {
    /// Paths, in the order of their first sample.
    pub paths: Vec<PathSamples>,
    /// The sender's last sample of the Multipath TCP connection.
    pub mptcp: Option<MptcpInfo>,
    /// Counters at the bounds of the spans after events.
    pub repetitions: Repetitions,
    /// Addresses and ports that translators of the network change.
    pub translations: Translations,
}

/// The last reports of own stacks: of each end of each flow, if it has one.
#[derive(Debug, Default)]
pub struct Reports(Mutex<Vec<[Option<Report>; 2]>>);

impl Reports {
    /// A store for the reports of this number of flows, without a report.
    pub fn new(flows: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(vec![[None, None]; flows])))
    }

    /// The reports.
    pub fn lock(&self) -> MutexGuard<'_, Vec<[Option<Report>; 2]>> {
        // The lock may be poisoned: the thread that panicked ends the run anyway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FlowSamples {
    /// Starts measuring.
    pub fn restart(&mut self, now: Time) {
        for path in &mut self.paths {
            path.baseline = path.latest;
            path.received[1] = path.received[0];
            for mean in [&mut path.cwnd, &mut path.srtt, &mut path.in_flight] {
                mean.restart(now);
            }
        }
    }

    /// Adds a report of an own stack. `is_source` is true for the end that sends the main data of the flow.
    pub fn add_report(&mut self, now: Time, report: &Report, is_source: bool) {
        if is_source {
            for path in &report.paths {
                self.path(now, [path.local, path.remote]).sample(now, info(path), path.usable);
            }
            let counters = || report.paths.iter().map(|path| path.counters);
            self.mptcp = Some(MptcpInfo {
                fallback: report.fallback,
                retransmissions: counters().map(|path| path.reinjections).sum(),
                bytes_retransmitted: counters().map(|path| path.bytes_repeated.reinjection).sum(),
            });
        } else {
            for arrival in &report.arrivals {
                self.path(now, [arrival.remote, arrival.local]).received[0] = arrival.new;
            }
        }
    }

    /// Notes what the sender has sent on all paths, if that is a bound of a span after an event.
    pub fn note_repetitions(&mut self, now: Time) {
        if self.repetitions.is_due(now) {
            let sum = |bytes: fn(&TcpInfo) -> u64| self.paths.iter().map(|path| bytes(&path.latest)).sum();
            let sent =
                SentBytes { all: sum(|path| path.bytes_sent), repeated: sum(|path| path.bytes_repeated) };
            self.repetitions.note(now, sent);
        }
    }

    /// The path between two ends; adds a new one. Both ends of a path with a translator have the same one.
    pub fn path(&mut self, now: Time, ends: [SocketAddr; 2]) -> &mut PathSamples {
        let [local, remote] = ends.map(|end| self.translations.original(end));
        let known = self.paths.iter().position(|path| path.local == local && path.remote == remote);
        let at = known.unwrap_or_else(|| {
            let mean = TimeMeans::new(now);
            self.paths.push(PathSamples {
                local,
                remote,
                usable: true,
                latest: TcpInfo::default(),
                baseline: TcpInfo::default(),
                kernel: BTreeMap::new(),
                received: [0; 2],
                cwnd: mean,
                srtt: mean,
                in_flight: mean,
            });
            self.paths.len() - 1
        });
        &mut self.paths[at]
    }
}

impl PathSamples {
    /// Adds a sample of the sender.
    pub fn sample(&mut self, now: Time, info: TcpInfo, usable: bool) {
        self.usable = usable;
        self.cwnd.set(now, [info.cwnd]);
        self.srtt.set(now, [info.srtt_us.unwrap_or_default().into()]);
        self.in_flight.set(now, [info.in_flight]);
        self.latest = info;
    }
}

/// The state of a path of an own stack.
fn info(path: &PathReport) -> TcpInfo {
    let micros = |time: Duration| (time.as_nanos() / 1_000).try_into().unwrap_or(u32::MAX);
    let counters = path.counters;
    let [(_, new), ..] = counters.bytes_by_kind();
    TcpInfo {
        rto_us: micros(path.rto),
        in_flight: path.outstanding,
        srtt_us: path.srtt.map(micros),
        ssthresh: Some(path.ssthresh).filter(|&ssthresh| ssthresh != u64::MAX),
        cwnd: path.cwnd,
        retransmissions: counters.fast_retransmissions + counters.timeout_retransmissions,
        bytes_received: counters.bytes_received,
        packets: counters.packets_sent,
        data_packets: counters.data_packets_sent,
        bytes_sent: counters.bytes_sent,
        bytes_repeated: counters.bytes_sent - new,
        timeouts: Some(counters.timeouts),
        receive_window_limited_us: None,
        send_buffer_limited_us: None,
    }
}

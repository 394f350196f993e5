//! One end of a running test: a thread for each direction of each flow, and one that samples the kernel's
//! connections.

use super::association::OpenAssociation;
use super::plan::{Plan, PlannedFlow, Test};
use super::result::{EndFlow, EndResult, Subflow};
use super::stream_transfer::{AssociationReader, StreamReader, StreamWriter};
use super::streams::StreamPlan;
use super::talk::MessageTransfer;
use super::tally::{EndTally, max_delays};
use super::waiter::Waiter;
use crate::clock::Clock;
use crate::meter::diag::{Diagnostics, Socket};
use crate::meter::flow::Transport;
use crate::meter::span::Span;
use crate::meter::speaker::SharedApplication;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::PathReport;
use anabranch_netem::IpVersions;
use anabranch_scenario::result::Quantiles;
use core::net::SocketAddr;
use rustix::net::sockopt;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of samples of an end, of flows and of their subflows: 150 to 300 MB.
const MAX_SAMPLES: usize = 2 << 20;

/// Time limit for the report of an association.
const REPORT_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(100);

/// The connection of an end of a flow.
pub enum Connection {
    /// A socket of the kernel.
    Socket(OwnedFd),
    /// An association, of which the flow is a stream.
    Association(Arc<OpenAssociation>),
}

/// A connected end of a flow.
pub struct FlowSocket {
    /// The connection.
    pub connection: Connection,
    /// Listening socket of the flow: the kernel accepts further subflows only while it is open.
    pub listening: Option<OwnedFd>,
    /// Address of this end.
    pub local: SocketAddr,
    /// Address of the other end.
    pub remote: SocketAddr,
    /// Connections and datagrams that do not belong to this test.
    pub foreign: u64,
}

impl FlowSocket {
    /// A flow with this connection.
    pub const fn new(connection: Connection, local: SocketAddr, remote: SocketAddr) -> Self {
        Self { connection, listening: None, local, remote, foreign: 0 }
    }

    /// Another flow of the same association; `None` if this one has a socket.
    pub fn of_same_association(&self) -> Option<Self> {
        match &self.connection {
            Connection::Socket(_) => None,
            Connection::Association(open) => {
                let connection = Connection::Association(Arc::clone(open));
                Some(Self::new(connection, self.local, self.remote))
            }
        }
    }
}

/// One end of a test: that of the client (0) or of the server (1).
pub struct Session {
    side: usize,
    flows: Vec<PlannedFlow>,
    lines: Vec<FlowSocket>,
    tallies: Vec<EndTally>,
    speakers: Vec<Option<SharedApplication>>,
    tag: u32,
    one_clock: bool,
    single_port: bool,
    /// Processor time of the process at the start of the test.
    processor: Duration,
    /// The time of the test.
    pub span: Arc<Span>,
    looks: Vec<Vec<Subflow>>,
    diagnostics: Option<Diagnostics>,
    /// Number of threads that have ended.
    finished: AtomicUsize,
}

/// Parameters of a test at one end.
#[derive(Debug)]
pub struct SessionParameters<'a> {
    /// The client's end is 0.
    pub side: usize,
    /// The plan.
    pub plan: &'a Plan,
    /// The test of the plan.
    pub test: Test,
    /// Identifies the connections.
    pub cookie: u64,
    /// True if both ends are on one machine.
    pub one_clock: bool,
}

/// An end's report of an interval.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Interval {
    /// Begin and end of the interval, seconds.
    pub span_s: [f64; 2],
    /// For each flow: bytes written and read at this end, and the connections at the interval's end.
    pub flows: Vec<(u64, u64, Vec<Subflow>)>,
}

impl Session {
    /// Starts the test at the present time of this clock.
    pub fn new(setting: SessionParameters<'_>, lines: Vec<FlowSocket>, clock: Clock) -> Self {
        let SessionParameters { side, plan, test, cookie, one_clock } = setting;
        let span = Arc::new(Span::new(clock, test.warmup, test.until));
        let kept = if plan.keep_delays { max_delays(test.flows.len()) } else { 0 };
        let tally = |flow: &PlannedFlow| {
            EndTally::new(&span, test.interval, kept).tolerating_abort(flow.options.tolerates_abort)
        };
        let tallies = test.flows.iter().map(tally).collect();
        let speaker = |flow: &PlannedFlow| {
            flow.applications[side]
                .clone()
                .map(|application| SharedApplication::new(application, test.warmup))
                .map(|application| application.with_schedule(flow.schedule.clone()))
        };
        let speakers = test.flows.iter().map(speaker).collect();
        let ipv6 = lines.first().is_some_and(|line| line.remote.is_ipv6());
        let versions = if ipv6 { IpVersions::V6 } else { IpVersions::V4 };
        Self {
            side,
            speakers,
            looks: vec![Vec::new(); test.flows.len()],
            flows: test.flows,
            lines,
            tallies,
            tag: cookie as u32,
            one_clock,
            single_port: plan.single_port,
            processor: processor_time(),
            span,
            // A test also works without socket diagnostics.
            diagnostics: Diagnostics::open(versions).ok(),
            finished: AtomicUsize::new(0),
        }
    }

    /// Runs to the end. `look` is called at the end of every interval, and frequently in between with `None`;
    /// it returns whether to continue.
    pub fn run(&mut self, interval: Duration, look: &mut dyn FnMut(Option<Interval>) -> bool) {
        let mut looks = core::mem::take(&mut self.looks);
        let mut diagnostics = self.diagnostics.take();
        let this = &*self;
        let threads = this.threads();
        std::thread::scope(|scope| {
            this.spawn(scope);
            let (mut begun, mut reports) = (Time::ZERO, 0);
            while !this.span.is_over() && this.finished.load(Ordering::Acquire) < threads {
                let end = (begun + interval).min(this.span.until);
                this.span.sleep_until(end.min(this.span.now() + crate::meter::span::MAX_SLEEP));
                let now = this.span.now();
                let report = (now >= end).then(|| {
                    let report = this.report([begun, end], diagnostics.as_mut(), &mut looks);
                    begun = end;
                    report
                });
                if !look(report) {
                    this.span.stop();
                }
                reports += usize::from(now >= end);
                this.limit_samples(reports, &looks);
            }
            if begun < this.span.until.min(this.span.now()) {
                let end = this.span.now().min(this.span.until);
                look(Some(this.report([begun, end], diagnostics.as_mut(), &mut looks)));
            }
        });
        self.looks = looks;
    }

    /// Ends the test before its samples need too much memory.
    fn limit_samples(&self, reports: usize, looks: &[Vec<Subflow>]) {
        let samples = reports * self.flows.len() + looks.iter().map(Vec::len).sum::<usize>();
        if samples > MAX_SAMPLES {
            self.tallies[0]
                .record_fault(format!("the test has more than {MAX_SAMPLES} samples; increase the interval"));
            self.span.stop();
        }
    }

    fn threads(&self) -> usize {
        let writing = self.speakers.iter().flatten().count();
        let reads = |(at, flow): &(usize, &PlannedFlow)| match &flow.stream {
            None => flow.applications[1 - self.side].is_some(),
            Some(stream) => stream.first == *at && self.read_streams(*at).next().is_some(),
        };
        writing + self.flows.iter().enumerate().filter(reads).count()
    }

    /// Index, stream and plan of the flows that this end reads from the association whose first flow is `first`.
    fn read_streams(&self, first: usize) -> impl Iterator<Item = (usize, &StreamPlan)> {
        let flows = self.flows.iter().enumerate();
        flows.filter(|(_, flow)| flow.applications[1 - self.side].is_some()).filter_map(move |(at, flow)| {
            flow.stream.as_ref().filter(|stream| stream.first == first).map(|stream| (at, stream))
        })
    }

    fn spawn<'scope>(&'scope self, scope: &'scope std::thread::Scope<'scope, '_>) {
        for (at, flow) in self.flows.iter().enumerate() {
            let socket = match &self.lines[at].connection {
                Connection::Socket(socket) => socket,
                Connection::Association(open) => {
                    self.spawn_stream(scope, at, open);
                    continue;
                }
            };
            let talk = MessageTransfer {
                socket,
                transport: flow.transport,
                tag: self.tag,
                one_clock: self.one_clock,
                tally: &self.tallies[at],
                span: &self.span,
                max_message: flow.options.max_message.unwrap_or(u64::MAX),
            };
            let speaker = self.speakers[at].as_ref();
            if let Some(speaker) = speaker {
                scope.spawn(move || {
                    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
                    self.span.sleep_until(flow.start);
                    talk.write(speaker);
                    self.finished.fetch_add(1, Ordering::Release);
                });
            }
            if flow.applications[1 - self.side].is_some() {
                scope.spawn(move || {
                    talk.read(speaker);
                    self.finished.fetch_add(1, Ordering::Release);
                });
            }
        }
    }

    /// Starts the writer of a flow in an association, and with the first flow the reader of all flows in it.
    fn spawn_stream<'scope>(
        &'scope self,
        scope: &'scope std::thread::Scope<'scope, '_>,
        at: usize,
        open: &'scope OpenAssociation,
    ) {
        let flow = &self.flows[at];
        let Some(plan) = &flow.stream else { return };
        if let Some(speaker) = &self.speakers[at] {
            let max_message = flow.options.max_message.unwrap_or(u64::MAX).min(plan.config.send_buffer);
            let (stream, tally) = (plan.stream, &self.tallies[at]);
            let writer = StreamWriter { open, stream, tag: self.tag, max_message, tally, span: &self.span };
            let delivery = plan.delivery[self.side].clone();
            scope.spawn(move || {
                let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
                self.span.sleep_until(flow.start);
                writer.write(speaker, delivery);
                self.finished.fetch_add(1, Ordering::Release);
            });
        }
        let streams: BTreeMap<_, _> =
            self.read_streams(at).map(|(of, plan)| (plan.stream, self.stream_reader(of, plan))).collect();
        if !streams.is_empty() {
            let (tag, one_clock) = (self.tag, self.one_clock);
            let reader = AssociationReader { open, tag, one_clock, span: &self.span, streams };
            scope.spawn(move || {
                reader.read();
                self.finished.fetch_add(1, Ordering::Release);
            });
        }
    }

    fn stream_reader(&self, at: usize, plan: &StreamPlan) -> StreamReader<'_> {
        StreamReader {
            tally: &self.tallies[at],
            application: self.speakers[at].as_ref(),
            keeps_sequence: plan.delivery[1 - self.side].keeps_sequence(),
            messages: 0,
            last: None,
            is_ended: false,
        }
    }

    fn report(
        &self,
        [from, to]: [Time; 2],
        diagnostics: Option<&mut Diagnostics>,
        looks: &mut [Vec<Subflow>],
    ) -> Interval {
        let sockets = diagnostics.and_then(|open| open.tcp().ok()).unwrap_or_default();
        let flows = self.tallies.iter().enumerate().map(|(at, tally)| {
            let place = tally.interval_index(from);
            let counts = tally.counts();
            let bytes = |intervals: &[u64]| intervals.get(place).copied().unwrap_or_default();
            let (written, read) = (bytes(&counts.written.intervals), bytes(&counts.read.intervals));
            drop(counts);
            let subflows = match &self.lines[at].connection {
                Connection::Association(open) if self.flows[at].is_first_stream(at) => paths(to, open),
                Connection::Association(_) => Vec::new(),
                Connection::Socket(_) => sockets
                    .iter()
                    .filter(|socket| self.belongs_to_flow(at, socket, &sockets))
                    .map(|socket| subflow(to, socket))
                    .collect(),
            };
            looks[at].extend_from_slice(&subflows);
            (written, read, subflows)
        });
        let flows = flows.collect();
        Interval { span_s: [from.as_secs_f64(), to.as_secs_f64()], flows }
    }

    /// True if a connection, one of `all`, belongs to a flow: the server has a port for each, unless all share the control
    /// port. Then subflows have the token of the first one.
    fn belongs_to_flow(&self, flow: usize, socket: &Socket, all: &[Socket]) -> bool {
        let line = &self.lines[flow];
        let ends = [line.local, line.remote].map(canonical);
        let is_first = |socket: &Socket| [socket.local, socket.remote] == ends;
        match self.flows[flow].transport {
            Transport::Tcp => is_first(socket),
            Transport::Mptcp if self.single_port => {
                let token = all.iter().find(|socket| is_first(socket)).and_then(|first| first.token);
                is_first(socket) || token.is_some() && socket.token == token
            }
            Transport::Mptcp if self.side == 0 => socket.remote.port() == line.remote.port(),
            Transport::Mptcp => socket.local.port() == line.local.port(),
            Transport::Udp | Transport::Sctp => false,
        }
    }

    /// True if an error has occurred.
    pub fn has_failed(&self) -> bool {
        self.tallies.iter().any(|tally| tally.counts().fault.is_some())
    }

    /// The result of this end.
    pub fn result(mut self) -> EndResult {
        let now = self.span.now();
        // No further connections are accepted.
        self.lines.iter_mut().for_each(|line| line.listening = None);
        let mut fault = None;
        let mut flows = Vec::with_capacity(self.flows.len());
        for (at, (flow, subflows)) in self.flows.iter().zip(self.looks).enumerate() {
            let (written, mut read, broken) = self.tallies[at].result();
            if let Some(broken) = broken {
                fault.get_or_insert(format!("flow \"{}\": {broken}", flow.name));
            }
            read.foreign += self.lines[at].foreign;
            let client = self.speakers[at].as_ref().and_then(|speaker| speaker.client(now));
            let congestion = match (&self.lines[at].connection, &flow.stream) {
                (_, Some(stream)) => Some(stream.config.congestion.entry.name.to_owned()),
                (Connection::Socket(_), None) if flow.transport == Transport::Udp => None,
                (Connection::Socket(socket), None) => sockopt::tcp_congestion(socket).ok(),
                (Connection::Association(_), None) => None,
            };
            flows.push(EndFlow {
                congestion,
                written: flow.applications[self.side].is_some().then_some(written),
                read: flow.applications[1 - self.side].is_some().then_some(read),
                answers: client.as_ref().map(|client| client.answers),
                response_time_s: client.and_then(|client| Quantiles::of(&client.response_times)),
                subflows,
                aborted: self.tallies[at].counts().aborted.clone(),
            });
        }
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let processor_s = processor_time().saturating_sub(self.processor).as_secs_f64();
        EndResult { kernel: kernel.trim().to_owned(), processor_s, fault, flows }
    }
}

/// The address without the mapping of IPv4 into IPv6 (RFC 4291 §2.5.5.2).
const fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Processor time of this process.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The paths of an association; empty if it has ended.
fn paths(now: Time, open: &OpenAssociation) -> Vec<Subflow> {
    let begun = Clock::new();
    let reported = Waiter::new().wait(open.association().report(), || begun.elapsed() < REPORT_TIMEOUT);
    let report = reported.and_then(Result::ok).unwrap_or_default();
    let path = |path: &PathReport| Subflow {
        at_s: now.as_secs_f64(),
        local: path.local.to_string(),
        remote: path.remote.to_string(),
        bytes_sent: path.counters.bytes_sent,
        bytes_received: path.counters.bytes_received,
        retransmissions: path.counters.fast_retransmissions + path.counters.timeout_retransmissions,
        cwnd_bytes: path.cwnd,
        srtt_s: path.srtt.map(Duration::as_secs_f64),
    };
    report.paths.iter().map(path).collect()
}

fn subflow(now: Time, socket: &Socket) -> Subflow {
    let info = socket.tcp();
    Subflow {
        at_s: now.as_secs_f64(),
        local: socket.local.to_string(),
        remote: socket.remote.to_string(),
        bytes_sent: info.bytes_sent,
        bytes_received: info.bytes_received,
        retransmissions: info.retransmissions,
        cwnd_bytes: info.cwnd,
        srtt_s: info.srtt_us.map(|micros| f64::from(micros) / 1e6),
    }
}

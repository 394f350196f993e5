//! Samples connections and subflows of kernels and of own stacks during a run.

use super::diag::{Diagnostics, Socket};
use super::repetitions::Repetitions;
use super::samples::{FlowSamples, Reports};
use super::span::Span;
use crate::emulator::Translations;
use crate::namespace::Namespace;
use anabranch_base::time::Time;
use anabranch_netem::IpVersions;
use anabranch_scenario::Scenario;
use anabranch_scenario::result::{INTERVAL, PathNames, Subject, Table};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Maximum number of paths of a flow: the distance between the subjects of two flows in the trace.
const MAX_PATHS_PER_FLOW: usize = 256;

/// A flow's namespaces among the sampled ones, and its port.
#[derive(Clone, Copy, Debug)]
pub struct Watched {
    /// Namespaces of the connecting and of the listening host.
    pub hosts: [usize; 2],
    /// The listening port.
    pub port: u16,
    /// The index in `hosts` of the host with the main data of the flow.
    pub source: usize,
    /// The tokens of its Multipath TCP connection at both ends, once a subflow at the listening port has shown them.
    pub tokens: [Option<u32>; 2],
}

impl Watched {
    /// The index in [`hosts`](Self::hosts) of the end to which a host's socket at the listening port belongs, if it belongs to
    /// this flow.
    fn end(&self, host: usize, socket: &Socket) -> Option<usize> {
        let ports = [socket.remote.port(), socket.local.port()];
        (0..2).find(|&end| self.hosts[end] == host && ports[end] == self.port)
    }

    /// The end of any subflow of the connection, also at a port that an endpoint announces to all connections of a host.
    fn end_of_subflow(&self, host: usize, socket: &Socket) -> Option<usize> {
        let has_token = |end: &usize| {
            self.hosts[*end] == host && socket.token.is_some() && self.tokens[*end] == socket.token
        };
        self.end(host, socket).or_else(|| (0..2).find(has_token))
    }

    /// Notes the token of a host's socket at the listening port.
    fn note_token(&mut self, host: usize, socket: &Socket) {
        if let Some(end) = self.end(host, socket) {
            self.tokens[end] = socket.token.or(self.tokens[end]);
        }
    }
}

/// Samples the kernel's connections at regular intervals.
pub struct Sampler {
    namespaces: Vec<Diagnostics>,
    watched: Vec<Watched>,
    flows: Vec<FlowSamples>,
    names: Vec<PathNames>,
    /// Reports of own stacks.
    reports: Arc<Reports>,
    trace: Option<Table>,
    measuring: bool,
}

impl Sampler {
    /// Samples these flows in these namespaces and in the reports of own stacks, and writes their windows over time into a
    /// folder. Repeated bytes count after `events`.
    ///
    /// # Errors
    ///
    /// If the kernel has no socket diagnostics or a file cannot be written: the operation and the reason.
    pub fn new(
        namespaces: &[Namespace],
        (watched, reports): (Vec<Watched>, Arc<Reports>),
        (versions, events): (IpVersions, Arc<[Time]>),
        (trace, translations): (Option<&Path>, &Translations),
    ) -> Result<Self, (String, io::Error)> {
        let open = |namespace: &Namespace| namespace.run(|| Diagnostics::open(versions));
        let namespaces: io::Result<Vec<_>> = namespaces.iter().map(open).collect();
        let namespaces = namespaces.map_err(|error| ("the kernel's socket diagnostics".to_owned(), error))?;
        let create = |folder: &Path| {
            std::fs::create_dir_all(folder).map_err(|error| (folder.to_owned(), error))?;
            Table::create(folder, "paths.csv", Table::PATHS)
        };
        let trace = trace.map(create).transpose();
        let trace = trace.map_err(|(path, error)| (path.display().to_string(), error))?;
        let repetitions = Repetitions::new(events);
        let samples =
            FlowSamples { translations: translations.clone(), repetitions, ..FlowSamples::default() };
        let flows = vec![samples; watched.len()];
        let names = vec![PathNames::default(); watched.len()];
        Ok(Self { namespaces, watched, flows, names, reports, trace, measuring: false })
    }

    /// Samples every [`INTERVAL`] until the end of the run.
    ///
    /// # Errors
    ///
    /// If the kernel refuses or the trace cannot be written.
    pub fn run(mut self, scenario: &Scenario, span: &Span) -> io::Result<Vec<FlowSamples>> {
        let (mut next, mut answered) = (Time::ZERO, 0);
        while !span.is_over() {
            let wanted = span.requested_samples();
            self.sample(span.now(), scenario, span)?;
            if wanted > answered {
                self.sample_mptcp();
                span.finish_samples(wanted);
                answered = wanted;
            }
            next = next.max(span.now()) + INTERVAL;
            span.sleep_until_sample(next);
        }
        self.sample(span.now().min(span.until), scenario, span)?;
        self.sample_mptcp();
        if let Some(trace) = &mut self.trace {
            trace.finish().map_err(|(path, error)| with_path(&path, &error))?;
        }
        Ok(self.flows)
    }

    fn sample(&mut self, now: Time, scenario: &Scenario, span: &Span) -> io::Result<()> {
        if !self.measuring && now >= span.warmup {
            self.measuring = true;
            self.flows.iter_mut().for_each(|flow| flow.restart(now));
        }
        for host in 0..self.namespaces.len() {
            let sockets = self.namespaces[host].tcp()?;
            for socket in &sockets {
                self.watched.iter_mut().for_each(|watched| watched.note_token(host, socket));
            }
            for socket in &sockets {
                self.add_sample(now, host, socket);
            }
        }
        for ((flow, watched), ends) in self.flows.iter_mut().zip(&self.watched).zip(&*self.reports.lock()) {
            for (end, report) in ends.iter().enumerate() {
                if let Some(report) = report {
                    flow.add_report(now, report, end == watched.source);
                }
            }
        }
        self.flows.iter_mut().for_each(|flow| flow.note_repetitions(now));
        self.trace(now, scenario)
    }

    /// Adds the state of a host's socket to the samples of its flow.
    fn add_sample(&mut self, now: Time, host: usize, socket: &Socket) {
        for (flow, watched) in self.flows.iter_mut().zip(&self.watched) {
            let Some(end) = watched.end_of_subflow(host, socket) else { continue };
            if end == watched.source {
                let path = flow.path(now, [socket.local, socket.remote]);
                path.sample(now, socket.tcp(), socket.established);
                path.kernel = socket.counters_by_name();
            } else {
                let path = flow.path(now, [socket.remote, socket.local]);
                path.received[0] = socket.tcp().bytes_received;
            }
        }
    }

    fn trace(&mut self, now: Time, scenario: &Scenario) -> io::Result<()> {
        let Some(table) = &mut self.trace else { return Ok(()) };
        for (index, (flow, names)) in self.flows.iter().zip(&mut self.names).enumerate() {
            let name = &scenario.flows[index].name;
            for (at, path) in flow.paths.iter().enumerate().take(MAX_PATHS_PER_FLOW) {
                let path_name = names.of(at, scenario, [path.local.ip(), path.remote.ip()]);
                let info = &path.latest;
                let values =
                    [Some(info.cwnd), info.ssthresh, info.srtt_us.map(u64::from), Some(info.in_flight)];
                let names = format!("{name},{path_name}");
                let subject = Subject { index: index * MAX_PATHS_PER_FLOW + at, names: &names };
                table.row(now, subject, &values).map_err(|(path, error)| with_path(&path, &error))?;
            }
        }
        Ok(())
    }

    /// Samples Multipath TCP connections, at the end and before they close.
    fn sample_mptcp(&mut self) {
        for (flow, watched) in self.flows.iter_mut().zip(&self.watched) {
            // Ignore errors: a kernel without Multipath TCP refuses the request.
            let host = watched.hosts[watched.source];
            let Ok(connections) = self.namespaces[host].mptcp() else { continue };
            let found = connections.iter().find(|socket| watched.end(host, socket) == Some(watched.source));
            flow.mptcp = found.map(Socket::mptcp).or(flow.mptcp);
        }
    }
}

fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

//! Samples the kernel's connections and subflows during a run.

use super::diag::{Diagnostics, MptcpInfo, Socket, TcpInfo};
use super::span::Span;
use crate::namespace::Namespace;
use anabranch_base::time::Time;
use anabranch_scenario::Scenario;
use anabranch_scenario::measure::TimeMeans;
use anabranch_scenario::result::{INTERVAL, PathNames, Subject, Table};
use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Maximum number of paths of a flow: the distance between the subjects of two flows in the trace.
const PATHS: usize = 256;

/// A flow's namespaces among the sampled ones, and its port.
#[derive(Clone, Copy, Debug)]
pub struct Watched {
    /// Namespaces of the connecting and of the listening host.
    pub hosts: [usize; 2],
    /// The listening port.
    pub port: u16,
    /// The index in `hosts` of the host with the main data of the flow.
    pub source: usize,
}

impl Watched {
    /// The index in [`hosts`](Self::hosts) of the end to which a host's socket belongs, if it belongs to this
    /// flow.
    fn end(&self, host: usize, socket: &Socket) -> Option<usize> {
        let ports = [socket.remote.port(), socket.local.port()];
        (0..2).find(|&end| self.hosts[end] == host && ports[end] == self.port)
    }
}

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
}

/// Samples the kernel's connections at regular intervals.
pub struct Sampler {
    namespaces: Vec<Diagnostics>,
    watched: Vec<Watched>,
    flows: Vec<FlowSamples>,
    names: Vec<PathNames>,
    trace: Option<Table>,
    measuring: bool,
}

impl Sampler {
    /// Samples these flows in these namespaces, and writes their windows over time into a folder.
    ///
    /// # Errors
    ///
    /// If the kernel has no socket diagnostics or a file cannot be written: the operation and the reason.
    pub fn new(
        namespaces: &[Namespace],
        watched: Vec<Watched>,
        ipv6: bool,
        trace: Option<&Path>,
    ) -> Result<Self, (String, io::Error)> {
        let open = |namespace: &Namespace| namespace.run(|| Diagnostics::open(ipv6));
        let namespaces: io::Result<Vec<_>> = namespaces.iter().map(open).collect();
        let namespaces = namespaces.map_err(|error| ("the kernel's socket diagnostics".to_owned(), error))?;
        let create = |folder: &Path| {
            std::fs::create_dir_all(folder).map_err(|error| (folder.to_owned(), error))?;
            Table::create(folder, "paths.csv", Table::PATHS)
        };
        let trace = trace.map(create).transpose();
        let trace = trace.map_err(|(path, error)| (path.display().to_string(), error))?;
        let flows = vec![FlowSamples::default(); watched.len()];
        let names = vec![PathNames::default(); watched.len()];
        Ok(Self { namespaces, watched, flows, names, trace, measuring: false })
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
            for path in self.flows.iter_mut().flat_map(|flow| &mut flow.paths) {
                path.baseline = path.latest;
                path.received[1] = path.received[0];
                for mean in [&mut path.cwnd, &mut path.srtt, &mut path.in_flight] {
                    mean.restart(now);
                }
            }
        }
        for host in 0..self.namespaces.len() {
            for socket in self.namespaces[host].tcp()? {
                self.add_sample(now, host, &socket);
            }
        }
        self.trace(now, scenario)
    }

    /// Adds the state of a host's socket to the samples of its flow.
    fn add_sample(&mut self, now: Time, host: usize, socket: &Socket) {
        for (flow, watched) in self.flows.iter_mut().zip(&self.watched) {
            let Some(end) = watched.end(host, socket) else { continue };
            if end == watched.source {
                let path = path_of(&mut flow.paths, now, [socket.local, socket.remote]);
                let info = socket.tcp();
                path.usable = socket.established;
                path.cwnd.set(now, [info.cwnd]);
                path.srtt.set(now, [info.srtt_us.unwrap_or_default().into()]);
                path.in_flight.set(now, [info.in_flight]);
                path.latest = info;
                path.kernel = socket.counters_by_name();
            } else {
                let path = path_of(&mut flow.paths, now, [socket.remote, socket.local]);
                path.received[0] = socket.tcp().bytes_received;
            }
        }
    }

    fn trace(&mut self, now: Time, scenario: &Scenario) -> io::Result<()> {
        let Some(table) = &mut self.trace else { return Ok(()) };
        for (index, (flow, names)) in self.flows.iter().zip(&mut self.names).enumerate() {
            let name = &scenario.flows[index].name;
            for (at, path) in flow.paths.iter().enumerate().take(PATHS) {
                let path_name = names.of(at, scenario, [path.local.ip(), path.remote.ip()]);
                let info = &path.latest;
                let values =
                    [Some(info.cwnd), info.ssthresh, info.srtt_us.map(u64::from), Some(info.in_flight)];
                let names = format!("{name},{path_name}");
                let subject = Subject { index: index * PATHS + at, names: &names };
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

/// The path between two ends; adds a new one.
fn path_of(paths: &mut Vec<PathSamples>, now: Time, [local, remote]: [SocketAddr; 2]) -> &mut PathSamples {
    let known = paths.iter().position(|path| path.local == local && path.remote == remote);
    let at = known.unwrap_or_else(|| {
        let mean = TimeMeans::new(now);
        paths.push(PathSamples {
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
        paths.len() - 1
    });
    &mut paths[at]
}

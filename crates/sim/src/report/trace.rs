//! Traces: windows, buffers and queues over time, as CSV.
//!
//! Values are sampled every [`INTERVAL`](anabranch_scenario::result::INTERVAL), or after every event that may have
//! changed them, and written if they changed: `paths.csv` and `buffers.csv` contain the state of the flows'
//! ends, `queues.csv` that of the links' queues. Unknown values, and those of ended connections, are empty.
//! `decisions.csv` has every decision of the senders' schedulers, with its reason, and `transfers.csv` every
//! write and read of applications.

use crate::host::{Access, Flow, FlowEnvironment, Legs, Relays};
use crate::scenario::Scenario;
use anabranch_base::time::Time;
use anabranch_endpoint::{Endpoint, PathReport};
use anabranch_netem::Interface;
use anabranch_scenario::result::{DIRECTIONS, PathNames, Sink, Subject, Table};
use std::io;
use std::path::{Path, PathBuf};

/// The traces of a run.
#[derive(Debug)]
pub struct Trace {
    paths: Table,
    buffers: Table,
    queues: Table,
    decisions: Table,
    transfers: Table,
    /// Names of the paths of each flow.
    names: Vec<PathNames>,
    flows: Vec<String>,
    links: Vec<String>,
}

/// Creates the table of a file, by its name and its columns.
type CreateTable<'a> = dyn FnMut(&str, &str) -> Result<Table, (PathBuf, io::Error)> + 'a;

/// Maximum number of paths of a flow: the distance between the subjects of two flows.
const MAX_PATHS_PER_FLOW: usize = 256;

impl Trace {
    /// Starts the traces of a run in a folder, which is created if necessary.
    ///
    /// # Errors
    ///
    /// The path of the file and the reason.
    pub fn create(folder: &Path, scenario: &Scenario) -> Result<Self, (PathBuf, io::Error)> {
        std::fs::create_dir_all(folder).map_err(|error| (folder.to_owned(), error))?;
        Self::begin(scenario, &mut |name, columns| Table::create(folder, name, columns))
    }

    /// Starts the traces of a run; `open` returns the sink of a file with this name.
    ///
    /// # Errors
    ///
    /// The name of the file and the reason.
    pub fn into_sinks(
        scenario: &Scenario,
        open: &mut dyn FnMut(&str) -> io::Result<Sink>,
    ) -> Result<Self, (PathBuf, io::Error)> {
        Self::begin(scenario, &mut |name, columns| match open(name) {
            Ok(sink) => Table::begin(name.into(), sink, columns),
            Err(error) => Err((name.into(), error)),
        })
    }

    fn begin(scenario: &Scenario, create: &mut CreateTable<'_>) -> Result<Self, (PathBuf, io::Error)> {
        let directions = |link: &str| DIRECTIONS.map(|direction| format!("{link},{direction}"));
        Ok(Self {
            paths: create("paths.csv", Table::PATHS)?,
            buffers: create(
                "buffers.csv",
                "flow,send_buffer_bytes,receive_buffer_bytes,reordering_buffer_bytes,peer_window_bytes,written_bytes,\
                 delivered_bytes",
            )?,
            queues: create("queues.csv", Table::QUEUES)?,
            decisions: create("decisions.csv", "flow,path,offset_bytes,length_bytes,reason")?,
            transfers: create("transfers.csv", "flow,direction,event,offset_bytes,length_bytes")?,
            names: scenario.flows.iter().map(|_| PathNames::default()).collect(),
            flows: scenario.flows.iter().map(|flow| flow.name.clone()).collect(),
            links: scenario.links.iter().flat_map(|link| directions(&link.name)).collect(),
        })
    }

    /// Samples all flows and queues.
    ///
    /// # Errors
    ///
    /// The path of the file and the reason.
    pub fn sample(
        &mut self,
        now: Time,
        scenario: &Scenario,
        (flows, relays): (&mut [Flow], &Relays),
        world: &mut FlowEnvironment,
    ) -> Result<(), (PathBuf, io::Error)> {
        for index in 0..scenario.flows.len() {
            let legs = Legs::of(index, flows, relays);
            self.sample_flow(now, scenario, (index, legs), world)?;
        }
        for (direction, name) in self.links.iter().enumerate() {
            let (packets, bytes) = world.datapath.link(Interface(direction as u32)).at(now).queued(now);
            let subject = Subject { index: direction, names: name };
            self.queues.row(now, subject, &[Some(packets), Some(bytes)])?;
        }
        Ok(())
    }

    /// Samples one flow.
    ///
    /// # Errors
    ///
    /// The path of the file and the reason.
    pub fn sample_flow(
        &mut self,
        now: Time,
        scenario: &Scenario,
        (index, mut legs): (usize, Legs<'_>),
        world: &mut FlowEnvironment,
    ) -> Result<(), (PathBuf, io::Error)> {
        let FlowEnvironment { datapath, hosts } = world;
        let ends = |path: &PathReport| [path.local, path.remote].map(|end| datapath.real_address(end).ip());
        let flow = &*legs.first;
        if now < flow.start() || scenario.flows[index].workload.arrivals().is_some() {
            return Ok(());
        }
        let source = flow.source();
        let report = |side| flow.endpoint(side, hosts).map(Endpoint::report).unwrap_or_default();
        let (sender, receiver) = (report(source), report(1 - source));
        let [sends, receives] = [source, 1 - source].map(|side| !flow.is_over(side));
        let name = &self.flows[index];
        for (at, path) in sender.paths.iter().enumerate().take(MAX_PATHS_PER_FLOW) {
            let path_name = self.names[index].of(at, scenario, ends(path));
            let values = [
                Some(path.cwnd),
                Some(path.ssthresh).filter(|&bytes| bytes != u64::MAX),
                path.srtt.map(|srtt| srtt.as_nanos() / 1_000),
                Some(path.outstanding),
            ];
            let subject =
                Subject { index: index * MAX_PATHS_PER_FLOW + at, names: &format!("{name},{path_name}") };
            self.paths.row(now, subject, &values.map(|value| value.filter(|_| sends)))?;
        }
        while let Some(decision) = flow.poll_decision(hosts) {
            let path = decision.path.and_then(|path| sender.paths.get(path.index()).map(|p| (path, p)));
            let path = path.map_or("", |(id, path)| self.names[index].of(id.index(), scenario, ends(path)));
            let (at, offset, len) = (decision.at.as_secs_f64(), decision.offset, decision.len);
            self.decisions
                .line(&format!("{at:.9},{name},{path},{offset},{len},{}", decision.reason.name()))?;
        }
        for (side, direction) in DIRECTIONS.into_iter().enumerate() {
            for Access { at, read, offset, len } in legs.take_accesses(side) {
                let (at, event) = (at.as_secs_f64(), if read { "read" } else { "write" });
                self.transfers.line(&format!("{at:.9},{name},{direction},{event},{offset},{len}"))?;
            }
        }
        let values = [
            Some(sender.send_buffer).filter(|_| sends),
            Some(receiver.receive_buffer).filter(|_| receives),
            Some(receiver.reordering_buffer).filter(|_| receives),
            Some(sender.peer_window).filter(|_| sends),
            Some(sender.written),
            Some(receiver.delivered),
        ];
        self.buffers.row(now, Subject { index, names: name }, &values)
    }

    /// Ends the traces.
    ///
    /// # Errors
    ///
    /// The path of the file and the reason.
    pub fn finish(mut self) -> Result<(), (PathBuf, io::Error)> {
        for table in
            [&mut self.paths, &mut self.buffers, &mut self.queues, &mut self.decisions, &mut self.transfers]
        {
            table.finish()?;
        }
        Ok(())
    }
}

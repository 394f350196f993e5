//! Traces: how windows, buffers and queues change over time, as CSV.
//!
//! All is looked at every [`INTERVAL`] and written where it has changed: `paths.csv` and `buffers.csv` hold what the
//! flows' ends know, `queues.csv` what waits in front of the links. A value that is not known is left empty.
//! `decisions.csv` has every single decision of the senders' schedulers, with its reason.

use super::collect::PathNames;
use crate::engine::Datapath;
use crate::host::{Flow, RECEIVER, SENDER};
use crate::scenario::Scenario;
use crate::scenario::result::DIRECTIONS;
use multipath::time::{Duration, Time};
use netem::Interface;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// How often a trace looks.
pub const INTERVAL: Duration = Duration::from_millis(10);

/// A file whose rows belong to one of several subjects and are written when they change.
#[derive(Debug)]
struct Table {
    path: PathBuf,
    file: BufWriter<File>,
    /// The latest values of each subject.
    latest: Vec<Vec<Option<u64>>>,
}

impl Table {
    fn create(folder: &Path, name: &str, columns: &str) -> Result<Self, (PathBuf, io::Error)> {
        let path = folder.join(name);
        let create = || {
            let mut file = BufWriter::new(File::create(&path)?);
            writeln!(file, "time_s,{columns}")?;
            Ok(file)
        };
        match create() {
            Ok(file) => Ok(Self { path, file, latest: Vec::new() }),
            Err(error) => Err((path, error)),
        }
    }

    fn row(
        &mut self,
        now: Time,
        subject: usize,
        names: &str,
        values: &[Option<u64>],
    ) -> Result<(), (PathBuf, io::Error)> {
        if self.latest.len() <= subject {
            self.latest.resize(subject + 1, Vec::new());
        }
        if self.latest[subject] == values {
            return Ok(());
        }
        self.latest[subject] = values.to_vec();
        self.write(now, names, values).map_err(|error| (self.path.clone(), error))
    }

    fn write(&mut self, now: Time, names: &str, values: &[Option<u64>]) -> io::Result<()> {
        write!(self.file, "{:.6},{names}", now.as_secs_f64())?;
        for value in values {
            match value {
                Some(value) => write!(self.file, ",{value}")?,
                None => write!(self.file, ",")?,
            }
        }
        writeln!(self.file)
    }
}

/// The traces of a run.
#[derive(Debug)]
pub struct Trace {
    paths: Table,
    buffers: Table,
    queues: Table,
    decisions: Table,
    /// Names of the paths of each flow.
    names: Vec<PathNames>,
    flows: Vec<String>,
    links: Vec<String>,
}

/// Paths that a flow can have: so far apart are the subjects of two flows.
const PATHS: usize = 256;

impl Trace {
    /// Begins the traces of a run in a folder, which is created if need be.
    ///
    /// # Errors
    /// Which file cannot be written, and why.
    pub fn create(folder: &Path, scenario: &Scenario) -> Result<Self, (PathBuf, io::Error)> {
        std::fs::create_dir_all(folder).map_err(|error| (folder.to_owned(), error))?;
        let directions = |link: &str| DIRECTIONS.map(|direction| format!("{link},{direction}"));
        Ok(Self {
            paths: Table::create(
                folder,
                "paths.csv",
                "flow,path,cwnd_bytes,ssthresh_bytes,srtt_us,outstanding_bytes",
            )?,
            buffers: Table::create(
                folder,
                "buffers.csv",
                "flow,send_buffer_bytes,receive_buffer_bytes,reordering_buffer_bytes,peer_window_bytes",
            )?,
            queues: Table::create(folder, "queues.csv", "link,direction,packets,bytes")?,
            decisions: Table::create(folder, "decisions.csv", "flow,path,offset_bytes,length_bytes,reason")?,
            names: scenario.flows.iter().map(|_| PathNames::default()).collect(),
            flows: scenario.flows.iter().map(|flow| flow.name.clone()).collect(),
            links: scenario.links.iter().flat_map(|link| directions(&link.name)).collect(),
        })
    }

    /// Looks at everything.
    ///
    /// # Errors
    /// Which file cannot be written, and why.
    pub fn look(
        &mut self,
        now: Time,
        scenario: &Scenario,
        flows: &mut [Flow],
        datapath: &mut Datapath,
    ) -> Result<(), (PathBuf, io::Error)> {
        for (index, flow) in flows.iter_mut().enumerate() {
            let sender = flow.ends[SENDER].endpoint.report();
            let receiver = flow.ends[RECEIVER].endpoint.report();
            let name = &self.flows[index];
            for (at, path) in sender.paths.iter().enumerate().take(PATHS) {
                let path_name = self.names[index].of(at, scenario, path);
                let values = [
                    Some(path.cwnd),
                    Some(path.ssthresh).filter(|&bytes| bytes != u64::MAX),
                    path.srtt.map(|srtt| srtt.as_nanos() / 1_000),
                    Some(path.outstanding),
                ];
                self.paths.row(now, index * PATHS + at, &format!("{name},{path_name}"), &values)?;
            }
            while let Some(decision) = flow.ends[SENDER].endpoint.poll_decision() {
                let path = decision.path.and_then(|path| sender.paths.get(path.index()).map(|p| (path, p)));
                let path = path.map_or("", |(id, path)| self.names[index].of(id.index(), scenario, path));
                let (at, offset, len) = (decision.at.as_secs_f64(), decision.offset, decision.len);
                let row = writeln!(
                    self.decisions.file,
                    "{at:.9},{name},{path},{offset},{len},{}",
                    decision.why.name()
                );
                row.map_err(|error| (self.decisions.path.clone(), error))?;
            }
            let values =
                [sender.send_buffer, receiver.receive_buffer, receiver.reordering_buffer, sender.peer_window]
                    .map(Some);
            self.buffers.row(now, index, name, &values)?;
        }
        for (direction, name) in self.links.iter().enumerate() {
            let (packets, bytes) = datapath.link(Interface(direction as u32)).at(now).queued(now);
            self.queues.row(now, direction, name, &[Some(packets), Some(bytes)])?;
        }
        Ok(())
    }

    /// Ends the traces.
    ///
    /// # Errors
    /// Which file cannot be written, and why.
    pub fn finish(mut self) -> Result<(), (PathBuf, io::Error)> {
        for table in [&mut self.paths, &mut self.buffers, &mut self.queues, &mut self.decisions] {
            table.file.flush().map_err(|error| (table.path.clone(), error))?;
        }
        Ok(())
    }
}

//! A capture of a run: two interfaces per link end, one of them for dropped packets.
//!
//! A packet appears at the sending end of a link when it is passed to the link's queue, even if the queue
//! drops it, and at the other end when it arrives. A dropped packet appears once more at the interface for
//! drops, with the cause as a comment. A queue may detect a drop late; the timestamp is that of the
//! detection.

use super::table::Sink;
use crate::Scenario;
use anabranch_base::time::Time;
use anabranch_netem::{DropCause, Interface};
use anabranch_wire::Packet;
use anabranch_wire::pcapng;
use core::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Selection of packets, and the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The file, in pcapng.
    pub file: PathBuf,
    /// Bytes kept of each packet; `None` for all.
    pub snaplen: Option<u32>,
    /// Link ends, as `node:link`, links, or nodes; empty for all.
    pub ends: Vec<String>,
    /// Flows; empty for all.
    pub flows: Vec<String>,
}

impl From<PathBuf> for Settings {
    /// Captures everything into this file.
    fn from(file: PathBuf) -> Self {
        Self { file, ..Self::default() }
    }
}

/// A capture cannot be started.
#[derive(Debug)]
pub enum Mistake {
    /// There is no such link end or flow; the message.
    Unknown(String),
    /// The file cannot be written.
    File(io::Error),
}

impl From<io::Error> for Mistake {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

/// The interfaces of a link end.
#[derive(Clone, Copy, Debug)]
struct Ports {
    /// Interface of passing packets.
    passing: pcapng::Interface,
    /// Interface of dropped outgoing packets.
    dropped: pcapng::Interface,
}

/// Writes packets to a pcapng file. One that is not [`finish`](Self::finish)ed is removed: half a capture looks like a whole one.
#[derive(Debug)]
pub struct Capture {
    writer: pcapng::Writer<BufWriter<Unfinished>>,
    /// In the order of [`Interface`]; `None` for ends that are not captured.
    ends: Vec<Option<Ports>>,
    /// Which connections are captured.
    flows: Vec<bool>,
}

impl Capture {
    /// Starts a capture. The interfaces are named `node:link` and `node:link dropped`.
    ///
    /// # Errors
    ///
    /// If there is no such link end or flow, or the file cannot be written.
    pub fn create(settings: &Settings, scenario: &Scenario) -> Result<Self, Mistake> {
        Self::begin(settings, scenario, || Unfinished::create(&settings.file))
    }

    /// Like [`create`](Self::create), but writes into a sink; the file of the settings is not used.
    ///
    /// # Errors
    ///
    /// If there is no such link end or flow, or the sink fails.
    pub fn into_sink(sink: Sink, settings: &Settings, scenario: &Scenario) -> Result<Self, Mistake> {
        Self::begin(settings, scenario, || Ok(Unfinished { file: sink, path: None }))
    }

    fn begin(
        settings: &Settings,
        scenario: &Scenario,
        open: impl FnOnce() -> io::Result<Unfinished>,
    ) -> Result<Self, Mistake> {
        let known = |asked: &str| {
            scenario.links.iter().any(|link| {
                link.name == asked
                    || link
                        .between
                        .iter()
                        .any(|node| node == asked || asked == format!("{node}:{}", link.name))
            })
        };
        if let Some(asked) = settings.ends.iter().find(|asked| !known(asked)) {
            let message = format!(
                "there is no node, link or link end \"{asked}\" to capture; write an end as node:link"
            );
            return Err(Mistake::Unknown(message));
        }
        let mut flows = vec![settings.flows.is_empty(); scenario.flows.len()];
        for asked in &settings.flows {
            let Some(at) = scenario.flows.iter().position(|flow| flow.name == *asked) else {
                return Err(Mistake::Unknown(format!("there is no flow \"{asked}\" to capture")));
            };
            flows[at] = true;
        }
        let flows = scenario.flows_of_connections().into_iter().map(|at| flows[at]).collect();
        let file = BufWriter::new(open()?);
        let mut writer = pcapng::Writer::with_snaplen(file, settings.snaplen.unwrap_or_default())?;
        let mut wanted = Vec::new();
        for link in &scenario.links {
            for node in &link.between {
                let name = format!("{node}:{}", link.name);
                let asked = |asked: &String| *asked == name || *asked == link.name || asked == node;
                let asked = settings.ends.is_empty() || settings.ends.iter().any(asked);
                wanted.push(asked.then_some(name));
            }
        }
        let mut add = |suffix: &str| {
            let add = |name: &Option<String>| {
                name.as_ref().map(|name| writer.add_interface(&format!("{name}{suffix}"))).transpose()
            };
            wanted.iter().map(add).collect::<io::Result<Vec<_>>>()
        };
        let (passing, dropped) = (add("")?, add(" dropped")?);
        let ends = passing.into_iter().zip(dropped);
        let ends =
            ends.map(|(passing, dropped)| Some(Ports { passing: passing?, dropped: dropped? })).collect();
        Ok(Self { writer, ends, flows })
    }

    /// Records a packet that passes a link end, if it belongs to a captured flow.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn packet(
        &mut self,
        now: Time,
        at: Interface,
        flow: Option<usize>,
        packet: &Packet,
    ) -> io::Result<()> {
        match self.ends[at.index()] {
            Some(ports) if self.wants(flow) => self.writer.packet(ports.passing.at(now.as_nanos()), packet),
            _ => Ok(()),
        }
    }

    /// Records an outgoing packet of a link end that is dropped.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn dropped(
        &mut self,
        now: Time,
        at: Interface,
        (flow, cause): (Option<usize>, DropCause),
        packet: &Packet,
    ) -> io::Result<()> {
        match self.ends[at.index()] {
            Some(ports) if self.wants(flow) => {
                let stamp = pcapng::Stamp { comment: Some(cause.name()), ..ports.dropped.at(now.as_nanos()) };
                self.writer.packet(stamp, packet)
            }
            _ => Ok(()),
        }
    }

    /// Records the bytes of an IP packet that passes a link end; `flow` is its flow, if it belongs to one.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn bytes(&mut self, now: Time, at: Interface, flow: Option<usize>, bytes: &[u8]) -> io::Result<()> {
        match self.ends[at.index()] {
            Some(ports) if self.wants(flow) => self.writer.bytes(ports.passing.at(now.as_nanos()), bytes),
            _ => Ok(()),
        }
    }

    /// Records the bytes of an outgoing IP packet of a link end that is dropped.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn dropped_bytes(
        &mut self,
        now: Time,
        at: Interface,
        (flow, cause): (Option<usize>, DropCause),
        bytes: &[u8],
    ) -> io::Result<()> {
        match self.ends[at.index()] {
            Some(ports) if self.wants(flow) => {
                let stamp = pcapng::Stamp { comment: Some(cause.name()), ..ports.dropped.at(now.as_nanos()) };
                self.writer.bytes(stamp, bytes)
            }
            _ => Ok(()),
        }
    }

    fn wants(&self, flow: Option<usize>) -> bool {
        flow.is_none_or(|flow| self.flows[flow])
    }

    /// Ends the capture.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn finish(self) -> io::Result<()> {
        let buffer = self.writer.finish()?;
        let mut file = buffer.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.path = None;
        Ok(())
    }
}

/// A file that is removed when this value is dropped with a path.
struct Unfinished {
    file: Sink,
    path: Option<PathBuf>,
}

impl Unfinished {
    fn create(path: &Path) -> io::Result<Self> {
        let file = File::create(path)?;
        // A pipe or a device was not created here and is not removed.
        let path = file.metadata()?.is_file().then(|| path.to_owned());
        Ok(Self { file: Box::new(file), path })
    }
}

impl fmt::Debug for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unfinished").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Write for Unfinished {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // The failed operation has already returned its error.
            let _ = std::fs::remove_file(path);
        }
    }
}

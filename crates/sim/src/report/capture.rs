//! A capture of a run: one interface a link end.
//!
//! A packet shows at the end of a link from which it is sent when it is handed to the link's queue, also if the queue
//! drops it, and at the other end when it arrives.

use crate::scenario::Scenario;
use multipath::time::Time;
use netem::Interface;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use wire::Packet;
use wire::pcapng;

/// Writes packets to a pcapng file.
#[derive(Debug)]
pub struct Capture {
    writer: pcapng::Writer<BufWriter<File>>,
    /// In the order of [`Interface`].
    interfaces: Vec<pcapng::Interface>,
}

impl Capture {
    /// Begins a capture of every link end, named `node:link`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: &Path, scenario: &Scenario) -> io::Result<Self> {
        let mut writer = pcapng::Writer::new(BufWriter::new(File::create(path)?))?;
        let mut interfaces = Vec::new();
        for link in &scenario.links {
            for node in &link.between {
                interfaces.push(writer.add_interface(&format!("{node}:{}", link.name))?);
            }
        }
        Ok(Self { writer, interfaces })
    }

    /// A packet passes a link end.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn packet(&mut self, now: Time, at: Interface, packet: &Packet) -> io::Result<()> {
        self.writer.packet(self.interfaces[at.index()].at(now.as_nanos()), packet)
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(self) -> io::Result<()> {
        self.writer.finish().map(drop)
    }
}

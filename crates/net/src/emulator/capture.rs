//! A capture of the packets in an emulated network. It has the format of the simulator's capture, with the bytes that
//! the kernels sent.

use super::packet::RawPacket;
use crate::layout::flow_of;
use anabranch_base::time::Time;
use anabranch_netem::{DropCause, Interface};
use anabranch_scenario::Scenario;
use anabranch_scenario::result::capture::{Capture, Mistake, Settings};
use std::io;
use std::path::PathBuf;

/// Writes packets to a capture. After an error it writes no more packets, and [`finish`](Self::finish)
/// returns the error.
#[derive(Debug)]
pub struct Tap {
    file: PathBuf,
    capture: Capture,
    flows: usize,
    failure: Option<io::Error>,
    /// Buffer for a packet with its finished checksum.
    bytes: Vec<u8>,
}

impl Tap {
    /// Begins a capture.
    ///
    /// # Errors
    /// If there is no such link end or flow, or the file cannot be written.
    pub fn create(settings: &Settings, scenario: &Scenario) -> Result<Self, Mistake> {
        Ok(Self {
            file: settings.file.clone(),
            capture: Capture::create(settings, scenario)?,
            flows: scenario.flows.len(),
            failure: None,
            bytes: Vec::new(),
        })
    }

    /// True if writing has failed.
    pub(super) const fn is_broken(&self) -> bool {
        self.failure.is_some()
    }

    /// Records a packet that passes an end of a link.
    pub(super) fn passed(&mut self, now: Time, at: Interface, packet: &RawPacket) {
        self.write(packet, |capture, flow, bytes| capture.bytes(now, at, flow, bytes));
    }

    /// Records a packet that is dropped at an end of a link instead of being sent.
    pub(super) fn dropped(&mut self, now: Time, at: Interface, (cause, packet): (DropCause, &RawPacket)) {
        self.write(packet, |capture, flow, bytes| capture.dropped_bytes(now, at, (flow, cause), bytes));
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// The file that cannot be written, and the reason.
    pub fn finish(self) -> io::Result<()> {
        let Self { file, capture, failure, .. } = self;
        let ended = failure.map_or_else(|| capture.finish(), Err);
        ended.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot write {}: {error}", file.display()))
        })
    }

    fn write(
        &mut self,
        packet: &RawPacket,
        write: impl FnOnce(&mut Capture, Option<usize>, &[u8]) -> io::Result<()>,
    ) {
        if self.failure.is_some() {
            return;
        }
        let ports = packet.ports().map(|ports| [(ports >> 16) as u16, ports as u16]);
        let flow = ports.and_then(|ports| ports.into_iter().find_map(|port| flow_of(port, self.flows)));
        self.bytes.clear();
        self.bytes.extend_from_slice(packet.bytes());
        // Kernels leave the checksum to the network card. A capture needs the finished checksum: its readers
        // would report the unfinished one as an error.
        packet.finish_checksum(&mut self.bytes);
        self.failure = write(&mut self.capture, flow, &self.bytes).err();
    }
}

//! A TUN interface that loses packets.

use super::schedule::Schedule;
use anabranch_base::rng::Rng;
use anabranch_net::{Attachment, Clock, Device, Fill, Tun};
use anabranch_wire::tcp::Flags;
use anabranch_wire::{Body, Packet};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A TUN interface that loses random packets, and all packets for some time.
pub struct Lossy {
    tun: Tun,
    rng: Rng,
    loss: f64,
    outage: Range<Duration>,
    clock: Clock,
}

impl Lossy {
    /// The interface of a path.
    pub fn new(tun: Tun, schedule: &Schedule, path: usize) -> Self {
        let rng = Rng::new(path as u64).fork("losses");
        Self { tun, rng, loss: schedule.loss, outage: schedule.outages[path].clone(), clock: Clock::new() }
    }

    /// Whether the next packet is lost. A reset is not: it is sent once, and a peer without data in flight would never
    /// learn of a lost one.
    fn loses(&mut self, packet: &Packet) -> bool {
        let resets = matches!(&packet.body, Body::Tcp(segment) if segment.flags.contains(Flags::RST));
        (self.rng.unit() < self.loss || self.outage.contains(&self.clock.elapsed())) && !resets
    }
}

impl Device for Lossy {
    fn attachment(&self) -> Attachment {
        self.tun.attachment()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.tun.fd()
    }

    fn receive(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<Packet>> {
        loop {
            let received = self.tun.receive(bytes)?;
            if !received.as_ref().is_some_and(|packet| self.loses(packet)) {
                return Ok(received);
            }
        }
    }

    fn send(&mut self, packet: &Packet, fill: Fill<'_>, bytes: &mut Vec<u8>) -> io::Result<()> {
        if self.loses(packet) { Ok(()) } else { self.tun.send(packet, fill, bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tun.flush()
    }
}

//! A link in memory between two hosts of this process.

use crate::device::{Device, Fill};
use crate::offload;
use crate::stack::Queue;
use crate::train::{Train, Uncut};
use anabranch_wire::Packet;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Maximum number of packets, or of trains of segments, that wait for a host. Further ones are lost, as at a full queue.
const MAX_WAITING: usize = 1024;

/// One end of a link in memory. Consecutive segments of a TCP connection pass as one packet, as at a [`Tun`](crate::Tun)
/// interface.
pub struct Memory {
    incoming: Arc<Queue<Vec<u8>>>,
    outgoing: Arc<Queue<Vec<u8>>>,
    received: VecDeque<Vec<u8>>,
    train: Train,
}

impl Memory {
    /// The two ends of a link.
    ///
    /// # Errors
    /// If the process has no free descriptors.
    pub fn pair() -> io::Result<[Self; 2]> {
        let [one, two] = [Queue::with_limit(MAX_WAITING)?, Queue::with_limit(MAX_WAITING)?];
        let end = |incoming: &Arc<_>, outgoing: &Arc<_>| Self {
            incoming: Arc::clone(incoming),
            outgoing: Arc::clone(outgoing),
            received: VecDeque::new(),
            train: Train::new(Uncut::Everywhere),
        };
        Ok([end(&one, &two), end(&two, &one)])
    }
}

impl Device for Memory {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.incoming.fd()
    }

    fn receive(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<Packet>> {
        loop {
            if self.received.is_empty() {
                self.received.extend(self.incoming.take());
            }
            let Some(output) = self.received.pop_front() else { return Ok(None) };
            *bytes = output;
            if let Ok(packet) = offload::parse_output(bytes) {
                return Ok(Some(packet));
            }
        }
    }

    fn send(&mut self, packet: &Packet, fill: Fill<'_>, _scratch: &mut Vec<u8>) -> io::Result<()> {
        self.train.send(packet, fill, |bytes| {
            pass(&self.outgoing, bytes);
            Ok(())
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.train.flush(|bytes| {
            pass(&self.outgoing, bytes);
            Ok(())
        })
    }
}

/// Passes a packet to the other host. If that is slow or gone, the packet is lost.
fn pass(outgoing: &Queue<Vec<u8>>, bytes: &[u8]) {
    let _ = outgoing.send(bytes.to_vec());
}

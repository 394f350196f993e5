//! A link in memory between two hosts of this process.

use crate::device::{Device, Fill};
use crate::offload;
use crate::stack::Queue;
use crate::train::{Train, Uncut};
use anabranch_wire::Packet;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of packets, or of trains of segments, that wait for a host. Further ones are lost, as at a full queue.
const MAX_WAITING: usize = 1024;

/// Maximum number of used buffers that wait for the next packets of the other host.
const MAX_SPARE: usize = 256;

/// Buffers of packets that were received, for the packets that follow.
#[derive(Clone, Default)]
struct Spare(Arc<Mutex<Vec<Vec<u8>>>>);

impl Spare {
    /// No call panics while it holds the lock, so the list is valid even after a panic elsewhere.
    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, used: &mut Vec<Vec<u8>>) {
        let mut spare = self.lock();
        let room = MAX_SPARE - spare.len();
        spare.extend(used.drain(..room.min(used.len())));
        drop(spare);
        used.clear();
    }

    fn take(&self) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.lock())
    }
}

/// One end of a link in memory. Consecutive segments of a TCP connection pass as one packet, as at a [`Tun`](crate::Tun)
/// interface.
pub struct Memory {
    incoming: Arc<Queue<Vec<u8>>>,
    outgoing: Arc<Queue<Vec<u8>>>,
    received: VecDeque<Vec<u8>>,
    /// Buffers of received packets, which the other host gets back.
    used: Vec<Vec<u8>>,
    returned: Spare,
    train: Train,
    sender: Sender,
}

/// Packets of this host, which the other host gets together.
struct Sender {
    packets: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    returned: Spare,
}

impl Sender {
    /// Keeps a packet, and leaves an empty buffer for the next one.
    fn keep(&mut self, bytes: &mut Vec<u8>) {
        if self.spare.is_empty() {
            self.spare = self.returned.take();
        }
        self.packets.push(core::mem::replace(bytes, self.spare.pop().unwrap_or_default()));
    }
}

impl Memory {
    /// The two ends of a link.
    ///
    /// # Errors
    /// If the process has no free descriptors.
    pub fn pair() -> io::Result<[Self; 2]> {
        let [one, two] = [Queue::with_limit(MAX_WAITING)?, Queue::with_limit(MAX_WAITING)?];
        let [from_one, from_two] = [Spare::default(), Spare::default()];
        let end = |(incoming, outgoing): (&Arc<_>, &Arc<_>), (received, sent): (&Spare, &Spare)| Self {
            incoming: Arc::clone(incoming),
            outgoing: Arc::clone(outgoing),
            received: VecDeque::new(),
            used: Vec::new(),
            returned: received.clone(),
            train: Train::new(Uncut::Everywhere),
            sender: Sender { packets: Vec::new(), spare: Vec::new(), returned: sent.clone() },
        };
        Ok([end((&one, &two), (&from_two, &from_one)), end((&two, &one), (&from_one, &from_two))])
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
                self.returned.add(&mut self.used);
                self.received.extend(self.incoming.take());
            }
            let Some(output) = self.received.pop_front() else { return Ok(None) };
            self.used.push(core::mem::replace(bytes, output));
            if let Some(Ok(packet)) = offload::parse_output(bytes) {
                return Ok(Some(packet));
            }
        }
    }

    fn send(&mut self, packet: &Packet, fill: Fill<'_>, _scratch: &mut Vec<u8>) -> io::Result<()> {
        let Self { train, sender, .. } = self;
        train.send(packet, fill, |bytes| {
            sender.keep(bytes);
            Ok(())
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        let Self { train, sender, outgoing, .. } = self;
        train.flush(|bytes| {
            sender.keep(bytes);
            Ok(())
        })?;
        // If the other host is slow or gone, its packets are lost.
        if !sender.packets.is_empty() {
            outgoing.send_all(&mut sender.packets);
        }
        Ok(())
    }
}

//! Where packets come from and where they go.

use anabranch_wire::{Packet, Payload};
use std::io;
use std::os::fd::BorrowedFd;

/// A way in and out of this machine. None of the calls waits.
pub trait Device {
    /// What becomes readable when a packet has come.
    fn fd(&self) -> BorrowedFd<'_>;

    /// The next packet that has come; `bytes`, whose contents are replaced, has its payload. What is not a whole, correct
    /// packet that this device is for is passed over.
    ///
    /// # Errors
    /// If the device is broken or gone.
    fn receive(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<Packet>>;

    /// Sends a packet, whose payload bytes `fill` knows. `bytes` is scratch space. A packet for which the machine has no
    /// room is lost, as on any network.
    ///
    /// # Errors
    /// If the device is broken or gone.
    fn send(&mut self, packet: &Packet, fill: Fill<'_>, bytes: &mut Vec<u8>) -> io::Result<()>;
}

/// Writes the bytes of a payload into the room for them.
pub type Fill<'a> = &'a mut dyn FnMut(Payload, &mut [u8]);

/// What a system call that must not wait has done, if anything: packets are lost where there is no room, and networks that
/// are not reachable for the moment are the business of the protocols' timers.
pub(crate) fn unless_lost<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    use io::ErrorKind as Kind;
    match result {
        Ok(done) => Ok(Some(done)),
        Err(error) => match error.kind() {
            Kind::WouldBlock
            | Kind::Interrupted
            | Kind::ConnectionRefused
            | Kind::NetworkUnreachable
            | Kind::NetworkDown
            | Kind::HostUnreachable
            | Kind::PermissionDenied => Ok(None),
            _ if rustix::io::Errno::from_io_error(&error) == Some(rustix::io::Errno::NOBUFS) => Ok(None),
            _ => Err(error),
        },
    }
}

//! A host whose calls and packets are recorded, if that is wanted.

use super::call::{Call, RequestedEnds};
use super::endpoint::RecordedEndpoint;
use super::tape::{Recording, Summed, Tape};
use anabranch_base::time::Time;
use anabranch_endpoint::{Address, Endpoint, Ends, Event, Placement, Secrets};
use anabranch_host::{ConnectionId, Host, HostDriver, HostError, Limits, Listening, Protocol, Transport};
use anabranch_multipath::PathId;
use anabranch_wire::{Buffer, Packet, Payload};
use core::net::IpAddr;
use core::ops::Deref;
use std::io;

/// Receives the output of a host, and has the bytes of its payloads.
pub trait PayloadDriver: HostDriver {
    /// Writes the bytes of a payload that a connection sends.
    fn fill(&self, connection: Option<ConnectionId>, payload: Payload, out: &mut [u8]);
}

/// A host, and the recorder of its calls if there is one. The calls that change a host are here, and the others are those
/// of [`Host`]. A call without a result is recorded before it is made, so that a recording has the one that ends in a panic.
pub struct RecordedHost {
    host: Host,
    tape: Option<Box<Tape>>,
}

impl Deref for RecordedHost {
    type Target = Host;

    fn deref(&self) -> &Host {
        &self.host
    }
}

impl RecordedHost {
    /// A host without a recorder.
    pub fn new(addresses: Vec<Address>, limits: Limits, secrets: Secrets) -> Self {
        Self { host: Host::new(addresses, limits, secrets), tape: None }
    }

    /// A host with a recorder. The recording contains the key, from which all secrets of its connections follow.
    ///
    /// # Errors
    /// If the start of the recording cannot be written.
    pub fn recorded(
        addresses: Vec<Address>,
        limits: Limits,
        key: [u8; 32],
        recording: Recording,
    ) -> io::Result<Self> {
        let tape = Tape::new(recording, key, (&addresses, &limits))?;
        Ok(Self { host: Host::new(addresses, limits, Secrets::new(key)), tape: Some(Box::new(tape)) })
    }

    /// Ends the recording, if there is one.
    ///
    /// # Errors
    /// The first error that occurred when the recording was written.
    pub fn finish_recording(&mut self) -> io::Result<()> {
        self.tape.take().map_or(Ok(()), |tape| tape.finish())
    }

    fn record(&mut self, now: Time, call: impl FnOnce() -> Call) {
        if let Some(tape) = &mut self.tape {
            tape.call_at(now, &call());
        }
    }

    /// See [`Host::connect`].
    ///
    /// # Errors
    /// See [`HostError`].
    pub fn connect(
        &mut self,
        now: Time,
        protocol: &Protocol,
        remote: (&[IpAddr], u16),
    ) -> Result<ConnectionId, HostError> {
        let result = self.host.connect(now, protocol, remote);
        let between = || RequestedEnds::Remote(remote.0.to_vec(), remote.1);
        let got = result.as_ref().ok().copied();
        self.record(now, || Call::Connect { protocol: protocol.clone(), between: between(), got });
        result
    }

    /// See [`Host::connect_from`].
    ///
    /// # Errors
    /// See [`HostError`].
    pub fn connect_from(
        &mut self,
        now: Time,
        protocol: &Protocol,
        ends: Ends,
    ) -> Result<ConnectionId, HostError> {
        let between = self.tape.is_some().then(|| RequestedEnds::Ends(ends.clone()));
        let result = self.host.connect_from(now, protocol, ends);
        if let Some(between) = between {
            let got = result.as_ref().ok().copied();
            self.record(now, || Call::Connect { protocol: protocol.clone(), between, got });
        }
        result
    }

    /// See [`Host::listen`].
    ///
    /// # Errors
    /// See [`Host::listen`].
    pub fn listen(&mut self, listening: Listening) -> Result<(), HostError> {
        let recorded = self.tape.is_some().then(|| listening.clone());
        let result = self.host.listen(listening);
        if let (Some(tape), Some(listening)) = (&mut self.tape, recorded) {
            tape.call(&Call::Listen { listening, accepted: result.is_ok() });
        }
        result
    }

    /// See [`Host::stop_listening`].
    pub fn stop_listening(&mut self, now: Time, transport: Transport, port: u16) {
        self.record(now, || Call::StopListening(transport, port));
        self.host.stop_listening(now, transport, port);
    }

    /// See [`Host::accept`].
    pub fn accept(&mut self, transport: Transport, port: u16) -> Option<ConnectionId> {
        let got = self.host.accept(transport, port)?;
        if let Some(tape) = &mut self.tape {
            tape.call(&Call::Accept { at: (transport, port), got });
        }
        Some(got)
    }

    /// Gives the application of a connection access to it, if there is such a connection.
    pub fn with_endpoint<T>(
        &mut self,
        id: ConnectionId,
        act: impl FnOnce(&mut dyn Endpoint) -> T,
    ) -> Option<T> {
        let Self { host, tape } = self;
        let endpoint = host.endpoint_mut(id)?;
        Some(match tape.as_deref_mut() {
            None => act(endpoint),
            Some(tape) => {
                tape.call(&Call::Touch(id));
                act(&mut RecordedEndpoint { endpoint, id, tape })
            }
        })
    }

    /// Records the bytes that an application has just written, if the recording contains them.
    pub fn record_data(&mut self, id: ConnectionId, sent: &anabranch_endpoint::bytes::SendBuffer) {
        if let Some(tape) = &mut self.tape {
            tape.data(id, sent);
        }
    }

    /// See [`Host::forget`].
    pub fn forget(&mut self, now: Time, id: ConnectionId) {
        self.record(now, || Call::Forget(id));
        self.host.forget(now, id);
    }

    /// See [`Host::set_primary`].
    pub fn set_primary(&mut self, id: ConnectionId, path: PathId) -> bool {
        let done = self.host.set_primary(id, path);
        if let Some(tape) = &mut self.tape {
            tape.call(&Call::SetPrimary { id, path, done });
        }
        done
    }

    /// See [`Host::set_backup`].
    pub fn set_backup(&mut self, now: Time, id: ConnectionId, (path, backup): (PathId, bool)) -> bool {
        let done = self.host.set_backup(now, id, (path, backup));
        self.record(now, || Call::SetBackup { id, path, backup, done });
        done
    }

    /// See [`Host::add_address`].
    pub fn add_address(&mut self, now: Time, address: Address) {
        self.record(now, || Call::AddAddress(address));
        self.host.add_address(now, address);
    }

    /// See [`Host::remove_address`].
    pub fn remove_address(&mut self, now: Time, ip: IpAddr) {
        self.record(now, || Call::RemoveAddress(ip));
        self.host.remove_address(now, ip);
    }

    /// See [`Host::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Time) {
        self.record(now, || Call::Timeout);
        self.host.handle_timeout(now);
    }

    /// See [`Host::handle_packet`].
    pub fn handle_packet(&mut self, now: Time, packet: Packet, content: Buffer<'_>) -> Option<ConnectionId> {
        let Some(tape) = &mut self.tape else { return self.host.handle_packet(now, packet, &content) };
        tape.arrival(now, packet.clone(), content);
        let summed = Summed::new(content);
        let taken = self.host.handle_packet(now, packet, &summed);
        tape.sums(&summed.into_sums());
        taken
    }

    /// See [`Host::place`]. It is not recorded, because a replay places the payload of every arrival.
    pub fn place<D: PayloadDriver>(&mut self, id: ConnectionId, driver: &mut D) {
        self.host.place(id, driver);
    }

    /// See [`Host::drive`].
    pub fn drive<D: PayloadDriver>(&mut self, now: Time, driver: &mut D) {
        match self.tape.as_deref_mut() {
            None => self.host.drive(now, driver),
            Some(tape) => {
                if tape.drive(now) {
                    self.host.drive(now, &mut Taped { driver, tape });
                }
            }
        }
    }
}

/// Records packets on their way to a driver.
struct Taped<'a, D> {
    driver: &'a mut D,
    tape: &'a mut Tape,
}

impl<D: PayloadDriver> HostDriver for Taped<'_, D> {
    fn place(&mut self, connection: ConnectionId, placement: Placement) {
        self.driver.place(connection, placement);
    }

    fn forget(&mut self, connection: ConnectionId, run: (u64, u32)) {
        self.driver.forget(connection, run);
    }

    fn transmit(&mut self, connection: Option<ConnectionId>, packet: Packet) {
        let driver = &*self.driver;
        self.tape.sent(&packet, &mut |payload, out| driver.fill(connection, payload, out));
        self.driver.transmit(connection, packet);
    }

    fn event(&mut self, connection: ConnectionId, event: Event) {
        self.driver.event(connection, event);
    }
}

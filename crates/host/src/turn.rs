//! Drains one connection: its output goes to its driver, and the host records the events that concern it.

use super::connections::{Registration, Slot, Stage};
use super::id::ConnectionId;
use super::names::Names;
use super::protocol::Core;
use super::{Host, HostDriver};
use crate::udp::Udp;
use anabranch_base::time::Time;
use anabranch_endpoint::drive::{self, Driver};
use anabranch_endpoint::endpoint::{Endpoint, Event, Placement};
use anabranch_sctp as sctp;
use anabranch_tcp::{mptcp, tcp};
use anabranch_wire::Packet;
use core::net::{IpAddr, SocketAddr};

/// A reference to one connection of a host, for a driver that finds the connection of a packet (by
/// [`connection_of`](Host::connection_of) or from the result of [`handle_packet`](Host::handle_packet)) and keeps the
/// connections' timers itself. The driver passes the input to the endpoint, [drives](Self::drive) it, and lets the host
/// [note](Host::note) the output.
pub struct ConnectionRef<'a> {
    core: &'a mut Core,
    id: ConnectionId,
    registered: &'a mut Registration,
    names: &'a mut Names,
}

/// Entries of ended connections are removed from the queue of connections to drive when there are this many.
const MIN_READY_TO_PRUNE: usize = 64;

/// A driver of a connection of any protocol. Static dispatch by the connection's type lets the compiler remove outputs that
/// a protocol never has.
pub trait ConnectionDriver:
    Driver<tcp::Connection> + Driver<mptcp::Connection> + Driver<sctp::Association> + Driver<Udp>
{
}

impl<D> ConnectionDriver for D where
    D: Driver<tcp::Connection> + Driver<mptcp::Connection> + Driver<sctp::Association> + Driver<Udp>
{
}

impl ConnectionRef<'_> {
    /// The connection itself.
    #[inline]
    pub fn endpoint(&mut self) -> &mut (dyn Endpoint + 'static) {
        self.core.endpoint_mut()
    }

    /// Drains the connection.
    #[inline]
    #[must_use = "the host has to process the output"]
    pub fn drive<D: ConnectionDriver>(&mut self, now: Time, driver: &mut D) -> Output {
        let Self { core, id, registered, names } = self;
        let mut outlet = Outlet { id: *id, registered, names, driver, output: Output::default() };
        match core {
            Core::Tcp(core) => drive::drive(core.as_mut(), now, &mut outlet),
            Core::Mptcp(core) => drive::drive(core.as_mut(), now, &mut outlet),
            Core::Sctp(core) => drive::drive(core.as_mut(), now, &mut outlet),
            Core::Udp(core) => drive::drive(core.as_mut(), now, &mut outlet),
        }
        outlet.output
    }
}

impl Host {
    /// A connection with access to the host's ports.
    #[inline]
    pub fn connection_ref(&mut self, id: ConnectionId) -> Option<ConnectionRef<'_>> {
        let Slot { core, registered } = self.connections.get_mut(id)?;
        Some(ConnectionRef { core, id, registered, names: &mut self.names })
    }

    /// A connection as the endpoint of its protocol, for state that only this protocol has.
    pub fn core(&self, id: ConnectionId) -> Option<&Core> {
        self.connections.get(id).map(|slot| &slot.core)
    }

    /// A connection as the endpoint of its protocol, for calls that only this protocol has. It is driven next.
    pub fn core_mut(&mut self, id: ConnectionId) -> Option<&mut Core> {
        self.wake(id);
        self.connections.get_mut(id).map(|slot| &mut slot.core)
    }

    /// Takes this connection from the queue of its listener for the application, at any position in the queue.
    pub fn accept_one(&mut self, id: ConnectionId) {
        let Some(slot) = self.connections.get_mut(id) else { return };
        if let Stage::Complete(at) = slot.registered.stage {
            slot.registered.stage = Stage::Owned;
            if let Some(listener) = self.listeners.get_mut(&at) {
                listener.queue.retain(|waiting| *waiting != id);
            }
        }
    }

    /// The next packet that the host itself sends, independent of any connection. A driver of single connections polls
    /// it after [`handle_packet`](Self::handle_packet).
    pub fn poll_answer(&mut self) -> Option<Packet> {
        self.out.pop_front()
    }

    /// Releases the records of ended connections that have expired or that no driver needs. For a driver of single
    /// connections, which calls neither [`handle_timeout`](Self::handle_timeout) nor [`drive`](Self::drive).
    pub fn release_records(&mut self, now: Time) {
        self.names.time_wait.expire(now);
        if self.ready.len() > 2 * self.connections.len() + MIN_READY_TO_PRUNE {
            self.ready.retain(|id| self.connections.get(*id).is_some());
        }
    }

    /// Returns true if a connection need not answer its last packet before it handles another one that has arrived.
    pub fn may_wait(&self, id: ConnectionId) -> bool {
        matches!(self.core(id), Some(Core::Sctp(association)) if association.may_wait())
    }

    /// Places the payload of the last packet of a connection, so that the host can handle another packet before it
    /// [drives](Self::drive) the connection.
    pub fn place<D: HostDriver>(&mut self, id: ConnectionId, driver: &mut D) {
        let Some(slot) = self.connections.get_mut(id) else { return };
        drive::place(slot.core.endpoint_mut(), &mut HostOutlet { id, driver, any: false });
    }

    /// Drains a connection for a driver of the whole host.
    pub(super) fn drain<D: HostDriver>(&mut self, now: Time, id: ConnectionId, driver: &mut D) {
        let Some(slot) = self.connections.get_mut(id) else { return };
        slot.registered.ready = false;
        let mut each = HostOutlet { id, driver, any: false };
        let Some(output) = self.connection_ref(id).map(|mut reference| reference.drive(now, &mut each))
        else {
            return;
        };
        if each.any || output.concerns_host() {
            self.note(now, id, output);
        }
        if !output.closed {
            self.schedule(id);
        }
    }

    /// Updates the names and the stage of a connection after its output.
    #[cold]
    pub fn note(&mut self, now: Time, id: ConnectionId, output: Output) {
        self.rename(id);
        if output.connected {
            self.connected(id);
        }
        if output.closed {
            self.closed(now, id);
        }
    }
}

/// The events of a connection that concern its host.
#[derive(Clone, Copy, Debug, Default)]
pub struct Output {
    /// The names of the connection, or its stage, may have changed.
    names: bool,
    connected: bool,
    closed: bool,
}

impl Output {
    /// True if the host has to [`note`](Host::note) the output.
    pub const fn concerns_host(self) -> bool {
        self.names
    }

    /// True if the connection was established.
    pub const fn connected(self) -> bool {
        self.connected
    }

    /// True if the connection has ended.
    pub const fn closed(self) -> bool {
        self.closed
    }

    /// Records an event that the host must handle. Not inlined, because such events are rare.
    #[cold]
    #[inline(never)]
    fn remember(&mut self, event: Event) {
        self.names = true;
        self.connected |= event == Event::Connected;
        self.closed |= matches!(event, Event::Closed(_));
    }
}

/// Receives the output of one connection.
struct Outlet<'a, D> {
    id: ConnectionId,
    registered: &'a mut Registration,
    names: &'a mut Names,
    driver: &'a mut D,
    output: Output,
}

impl<E: Endpoint, D: Driver<E>> Driver<E> for Outlet<'_, D> {
    #[inline]
    fn place(&mut self, placement: Placement) {
        self.driver.place(placement);
    }

    #[inline]
    fn forget(&mut self, run: (u64, u32)) {
        self.driver.forget(run);
    }

    #[inline]
    fn transmit(&mut self, packet: Packet) {
        self.driver.transmit(packet);
    }

    #[inline]
    fn event(&mut self, event: Event) {
        if !matches!(event, Event::Readable | Event::Writable) {
            self.output.remember(event);
        }
        self.driver.event(event);
    }

    #[inline]
    fn port(&mut self, local: IpAddr, remote: SocketAddr) -> Option<u16> {
        // The host must update the connection's names later even if the path does not open.
        self.output.names = true;
        further_port((self.id, self.registered), self.names, local, remote)
    }

    #[inline]
    fn application(&mut self, endpoint: &mut E) -> bool {
        self.driver.application(endpoint)
    }

    #[inline]
    fn settled(&mut self, endpoint: &E) {
        self.driver.settled(endpoint);
    }
}

/// Assigns a port for a further path of a connection and registers the path's name.
#[cold]
#[inline(never)]
fn further_port(
    (id, registered): (ConnectionId, &mut Registration),
    names: &mut Names,
    local: IpAddr,
    remote: SocketAddr,
) -> Option<u16> {
    let port = names.further(registered.transport, registered.last_port, local, remote)?;
    let tuple = (SocketAddr::new(local, port), remote);
    names.add_tuple(registered.transport, tuple, id);
    registered.tuples.push(tuple);
    registered.last_port = port;
    Some(port)
}

/// Output of one connection for a driver of the whole host.
struct HostOutlet<'a, D> {
    id: ConnectionId,
    driver: &'a mut D,
    /// True if the connection had an event.
    any: bool,
}

impl<E: Endpoint + ?Sized, D: HostDriver> Driver<E> for HostOutlet<'_, D> {
    fn place(&mut self, placement: Placement) {
        self.driver.place(self.id, placement);
    }

    fn forget(&mut self, run: (u64, u32)) {
        self.driver.forget(self.id, run);
    }

    fn transmit(&mut self, packet: Packet) {
        self.driver.transmit(Some(self.id), packet);
    }

    fn event(&mut self, event: Event) {
        self.any = true;
        self.driver.event(self.id, event);
    }

    /// Never called: [`Outlet`] assigns the ports.
    fn port(&mut self, _: IpAddr, _: SocketAddr) -> Option<u16> {
        None
    }

    fn application(&mut self, _: &mut E) -> bool {
        false
    }
}

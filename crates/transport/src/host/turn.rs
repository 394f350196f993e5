//! A connection's turn: what it says goes to its driver, and what of it concerns the host is noted.

use super::connections::Stage;
use super::id::ConnectionId;
use super::names::Names;
use super::protocol::{Core, Transport, Tuple};
use super::{Host, HostDriver};
use crate::drive::{self, Driver};
use crate::endpoint::{Endpoint, Event, Placement};
use core::net::{IpAddr, SocketAddr};
use multipath::time::Time;
use wire::tcp::Flags;
use wire::{Body, Packet};

impl Host {
    /// A connection, for a driver that knows whose a packet is (from [`connection_of`](Self::connection_of), or because
    /// [`handle_packet`](Self::handle_packet) said so) and keeps the connections' timers itself: it tells the endpoint what
    /// happened and calls [`drive_alone`](Self::drive_alone) next.
    #[inline]
    pub fn alone(&mut self, id: ConnectionId) -> Option<&mut (dyn Endpoint + 'static)> {
        self.connections.get_mut(id).map(|slot| slot.core.endpoint_mut())
    }

    /// Empties one connection and nothing else, and then has a look at its endpoint; none if there is no such connection.
    /// What the host says for itself, the driver asks for when it has called `handle_packet`
    /// ([`poll_answer`](Self::poll_answer)).
    #[inline]
    pub fn drive_alone<D: Driver<dyn Endpoint>, R>(
        &mut self,
        now: Time,
        id: ConnectionId,
        driver: &mut D,
        look: impl FnOnce(&(dyn Endpoint + 'static), &mut D) -> R,
    ) -> Option<R> {
        let slot = self.connections.get_mut(id)?;
        let (transport, tuples, names) = (slot.transport, &mut slot.tuples, &mut self.names);
        let mut outlet = Outlet { id, transport, tuples, names, driver, news: News::default() };
        let endpoint = slot.core.endpoint_mut();
        drive::drive(endpoint, now, &mut outlet);
        let (seen, mut news) = (look(endpoint, outlet.driver), outlet.news);
        if transport == Transport::Sctp
            && let Core::Sctp(core) = &slot.core
        {
            // The peer may have begun anew, which no event tells.
            news.names |= core.tag() != slot.association.tag;
        }
        if news.names {
            self.note(now, id, news);
        }
        Some(seen)
    }

    /// Accepts this connection, wherever it stands in the queue of its listener.
    pub fn accept_one(&mut self, id: ConnectionId) {
        let Some(slot) = self.connections.get_mut(id) else { return };
        if let Stage::Complete(at) = slot.stage {
            slot.stage = Stage::Owned;
            if let Some(listener) = self.listeners.get_mut(&at) {
                listener.queue.retain(|waiting| *waiting != id);
            }
        }
    }

    /// The next packet that the host says for itself.
    pub fn poll_answer(&mut self) -> Option<Packet> {
        self.out.pop_front()
    }

    /// Empties a connection that belongs to a driver of the whole host.
    pub(super) fn empty<D: HostDriver>(&mut self, now: Time, id: ConnectionId, driver: &mut D) {
        let Some(slot) = self.connections.get_mut(id) else { return };
        slot.ready = false;
        let (transport, tuples, names) = (slot.transport, &mut slot.tuples, &mut self.names);
        let news = News::default();
        let mut each = Each { id, driver, any: false };
        let mut outlet = Outlet { id, transport, tuples, names, driver: &mut each, news };
        drive::drive(slot.core.endpoint_mut(), now, &mut outlet);
        let news = outlet.news;
        if news.names || each.any {
            self.note(now, id, news);
        }
        if !news.closed {
            self.schedule(id);
        }
    }

    /// What a connection said changes its names or its place.
    #[cold]
    fn note(&mut self, now: Time, id: ConnectionId, news: News) {
        self.rename(id);
        if news.connected {
            self.connected(id);
        }
        if news.closed {
            self.closed(now, id);
        }
    }
}

/// What a connection said that concerns the host.
#[derive(Clone, Copy, Debug, Default)]
struct News {
    /// Its names may have changed, or its place.
    names: bool,
    connected: bool,
    closed: bool,
}

/// Where what a connection says goes.
struct Outlet<'a, D> {
    id: ConnectionId,
    transport: Transport,
    /// The ends of the connection's paths.
    tuples: &'a mut Vec<Tuple>,
    names: &'a mut Names,
    driver: &'a mut D,
    news: News,
}

impl<D: Driver<dyn Endpoint>> Driver<dyn Endpoint> for Outlet<'_, D> {
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
        // Another subflow has a name of its own.
        self.news.names |= matches!(&packet.body, Body::Tcp(segment) if segment.flags.contains(Flags::SYN));
        self.driver.transmit(packet);
    }

    #[inline]
    fn event(&mut self, event: Event) {
        self.news.names |= !matches!(event, Event::Readable | Event::Writable);
        self.news.connected |= event == Event::Connected;
        self.news.closed |= matches!(event, Event::Closed(_));
        self.driver.event(event);
    }

    fn port(&mut self, local: IpAddr, remote: SocketAddr) -> Option<u16> {
        let own = self.tuples.first().map_or(0, |(local, _)| local.port());
        let port = self.names.further(self.transport, own, local, remote)?;
        let tuple = (SocketAddr::new(local, port), remote);
        self.names.add_tuple(self.transport, tuple, self.id);
        self.tuples.push(tuple);
        Some(port)
    }

    #[inline]
    fn application(&mut self, endpoint: &mut (dyn Endpoint + 'static)) -> bool {
        self.driver.application(endpoint)
    }
}

/// One connection of a driver of the whole host.
struct Each<'a, D> {
    id: ConnectionId,
    driver: &'a mut D,
    /// There was an event.
    any: bool,
}

impl<D: HostDriver> Driver<dyn Endpoint> for Each<'_, D> {
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

    /// The host gives ports itself.
    fn port(&mut self, _: IpAddr, _: SocketAddr) -> Option<u16> {
        None
    }

    fn application(&mut self, _: &mut (dyn Endpoint + 'static)) -> bool {
        false
    }
}

//! The part of a testbed on one of two machines.

use super::contact::{Contact, Ended, Identity};
use super::counters::{OfSocket, OfTunnel, TunnelCounters};
use super::ended::{Named, sentence};
use super::message::{Body, Message, Reason, Version};
use super::outer::{Addresses, MAX_PACKET_BYTES, Outer, Sent};
use crate::clock::{Clock, timespec};
use crate::secrets::secrets;
use anabranch_base::time::Duration;
use anabranch_netem::Interface;
use anabranch_scenario::model::{Machines, Tunnel};
use anabranch_scenario::{Scenario, to_toml};
use anabranch_wire::gre::{Gre, protocol_type};
use core::fmt;
use rustix::event::{PollFd, PollFlags, poll};
use sha2::{Digest, Sha256};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Maximum number of packets read from a socket before other work.
const MAX_BATCH: usize = 64;

/// An error that ends a testbed on two machines, or prevents it.
#[derive(Debug)]
#[non_exhaustive]
pub enum PartError {
    /// The scenario has no table of machines.
    NoMachines,
    /// The socket of a tunnel cannot be opened: the link, the addresses, and the reason.
    Socket(String, io::Error),
    /// A sentence: the other machine was taken down.
    PeerDown(String),
    /// A sentence: the machines have no contact, or differ.
    Refused(String),
}

impl fmt::Display for PartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMachines => {
                f.write_str("the scenario has no table [testbed.machines]; add it, or omit --machine")
            }
            Self::Socket(tunnel, error) => write!(f, "{tunnel} cannot be opened: {error}"),
            Self::PeerDown(sentence) | Self::Refused(sentence) => f.write_str(sentence),
        }
    }
}

impl core::error::Error for PartError {}

/// The ends of all tunnels on this machine.
///
/// The caller passes the time of a [`Clock`] that does not depend on the start, and calls [`exchange`](Self::exchange)
/// at least several times a second.
#[derive(Debug)]
pub struct Part {
    machine: usize,
    machines: Machines,
    contact: Contact,
    clock: Clock,
    tunnels: Vec<End>,
    sockets: Vec<Bound>,
    /// The tunnel of each interface whose outgoing direction leads to the other machine.
    tunnel_of: Vec<Option<usize>>,
    /// Whether each interface is on the other machine.
    elsewhere: Vec<bool>,
    buffer: Vec<u8>,
    received: Box<[u8]>,
}

/// One end of a tunnel.
#[derive(Debug)]
struct End {
    named: Named,
    /// This machine's end of the link.
    interface: Interface,
    /// Largest packets to and from the other machine, bytes.
    mtu: [usize; 2],
    key: Option<u32>,
    socket: usize,
    counters: Arc<OfTunnel>,
}

/// A socket, and the tunnels that use it.
#[derive(Debug)]
struct Bound {
    addresses: Addresses,
    outer: Outer,
    counters: Arc<OfSocket>,
}

impl Part {
    /// Opens the tunnels of machine `machine` of a scenario.
    ///
    /// # Errors
    ///
    /// If the scenario has no machines, a socket cannot be opened, or the system has no random numbers.
    pub fn open(scenario: &Scenario, machine: usize) -> Result<Self, PartError> {
        let machines = scenario.machines.clone().ok_or(PartError::NoMachines)?;
        let mut tunnel_of = vec![None; 2 * scenario.links.len()];
        let (mut tunnels, mut sockets): (Vec<End>, Vec<Bound>) = (Vec::new(), Vec::new());
        let mut properties = Vec::new();
        for (index, link) in scenario.links.iter().enumerate() {
            let Some(tunnel) = &link.tunnel else { continue };
            let end = usize::from(machines.of(&link.between[0]) != Some(machine));
            let interface = Interface::new(index, end);
            let addresses = Addresses::of(tunnel, end);
            let socket = socket_of(&mut sockets, addresses).map_err(|error| {
                let Addresses { own, peer, .. } = addresses;
                PartError::Socket(format!("the tunnel of link \"{}\" from {own} to {peer}", link.name), error)
            })?;
            let models = [&link.forward, &link.reverse];
            // The parser refuses longer packets.
            let mtu =
                [models[end], models[1 - end]].map(|model| u16::try_from(model.mtu).unwrap_or(u16::MAX));
            tunnel_of[interface.index()] = Some(tunnels.len());
            properties.push((mtu, tunnel.overhead()));
            let Tunnel { kind, key, .. } = *tunnel;
            let named = Named { link: link.name.clone(), kind, addresses: [addresses.own, addresses.peer] };
            let counters = Arc::default();
            tunnels.push(End { named, interface, mtu: mtu.map(usize::from), key, socket, counters });
        }
        let mut secrets = secrets().map_err(|error| PartError::Socket("the session".to_owned(), error))?;
        let own = Identity {
            session: secrets.next_u64().max(1),
            machine: machine as u8,
            version: Version::own(),
            digest: digest(scenario),
        };
        let clock = Clock::since(0);
        let contact = Contact::new(own, properties.into_iter(), now_ns(clock));
        let (buffer, received) = (Vec::new(), vec![0; MAX_PACKET_BYTES].into());
        let nodes = scenario.links.iter().flat_map(|link| &link.between);
        let elsewhere = nodes.map(|node| machines.of(node) != Some(machine)).collect();
        Ok(Self {
            machine,
            machines,
            contact,
            clock,
            tunnels,
            sockets,
            tunnel_of,
            elsewhere,
            buffer,
            received,
        })
    }

    /// Whether a node belongs to this machine.
    pub fn has(&self, node: &str) -> bool {
        self.machines.of(node) == Some(self.machine)
    }

    /// Whether an interface is on the other machine, at the other end of a tunnel.
    pub fn leads_to(&self, interface: Interface) -> bool {
        self.tunnel_of[interface.opposite().index()].is_some()
    }

    /// Whether the other machine emulates each direction, by [`Interface::index`].
    pub fn elsewhere(&self) -> Vec<bool> {
        self.elsewhere.clone()
    }

    /// The directions between the machines that begin here, by [`Interface::index`].
    pub fn outgoing(&self) -> Vec<bool> {
        self.tunnel_of.iter().map(Option::is_some).collect()
    }

    /// A reader of the counters of all tunnels, for any thread.
    pub fn counters(&self) -> impl Fn() -> Vec<TunnelCounters> + Send + Sync + 'static {
        let of = |end: &End| {
            (
                end.named.link.clone(),
                Arc::clone(&end.counters),
                Arc::clone(&self.sockets[end.socket].counters),
            )
        };
        let all: Vec<_> = self.tunnels.iter().map(of).collect();
        move || all.iter().map(|(link, tunnel, socket)| TunnelCounters::of(link, tunnel, socket)).collect()
    }

    /// The descriptors that become readable when a packet has arrived.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(|socket| socket.outer.fd())
    }

    /// Waits for the other machine for this time at most. Returns the clock of the scenario once both have agreed on its
    /// start and that has come.
    ///
    /// # Errors
    ///
    /// If the machines differ, the outer network does not carry the packets of a link, or the time limit has passed.
    pub fn meet(&mut self, wait: Duration) -> Result<Option<Clock>, PartError> {
        let mut wait = wait;
        if let Some(start_ns) = self.contact.start_ns() {
            let rest = Duration::from_nanos(start_ns.saturating_sub(now_ns(self.clock)));
            if rest == Duration::ZERO {
                return Ok(Some(Clock::since(start_ns)));
            }
            wait = wait.min(rest);
        }
        let mut fds: Vec<_> = self.fds().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // A signal ends the wait early, for the caller.
        let _ = poll(&mut fds, Some(&timespec(wait)));
        // Packets of the other machine that come before the start here are lost.
        self.exchange(|_, _| {})?;
        Ok(None)
    }

    /// Receives packets and passes them to `deliver`, each with the interface at which it arrives; sends the messages
    /// that are due.
    ///
    /// # Errors
    ///
    /// If the other machine has ended or does not answer.
    pub fn exchange(&mut self, mut deliver: impl FnMut(Interface, &[u8])) -> Result<(), PartError> {
        for socket in 0..self.sockets.len() {
            for _ in 0..MAX_BATCH {
                let Bound { outer, counters, .. } = &self.sockets[socket];
                let Some(packet) = outer.receive(&mut self.received) else { break };
                let Ok((header, payload)) = Gre::parse(packet) else {
                    counters.invalid.increment();
                    continue;
                };
                let is_own = |end: &End| end.socket == socket && end.key == header.key;
                let Some(tunnel) = self.tunnels.iter().position(is_own) else {
                    counters.wrong_key.increment();
                    continue;
                };
                let end = &self.tunnels[tunnel];
                match (header.protocol_type, payload.first().map(|first| first >> 4)) {
                    (protocol_type::EXPERIMENTAL, _) => {
                        if !self.contact.receive(tunnel, payload, now_ns(self.clock)) {
                            counters.invalid.increment();
                        }
                    }
                    (protocol_type::IPV4, Some(4)) | (protocol_type::IPV6, Some(6)) => {
                        if payload.len() > end.mtu[1] {
                            end.counters.too_long.increment();
                        } else {
                            end.counters.received.increment();
                            deliver(end.interface, payload);
                        }
                    }
                    _ => counters.invalid.increment(),
                }
            }
        }
        self.contact.advance(now_ns(self.clock));
        self.send_messages();
        self.contact.ended().map_or(Ok(()), |ended| {
            let sentence = sentence(ended, self.machine, &self.names());
            Err(if ended == Ended::PeerDown {
                PartError::PeerDown(sentence)
            } else {
                PartError::Refused(sentence)
            })
        })
    }

    /// Length of the longest packet that leaves by an interface to the other machine, bytes.
    pub fn longest(&self, from: Interface) -> usize {
        self.tunnel_of[from.index()].map_or(0, |tunnel| self.tunnels[tunnel].mtu[0])
    }

    /// Sends an IP packet, which `write` appends to a buffer, from an interface to the other machine.
    pub fn send(&mut self, from: Interface, version: u8, write: impl FnOnce(&mut Vec<u8>)) {
        let Some(tunnel) = self.tunnel_of[from.index()] else { return };
        let of_version = if version == 4 { protocol_type::IPV4 } else { protocol_type::IPV6 };
        let sent = self.send_payload(tunnel, of_version, write);
        let counters = &self.tunnels[tunnel].counters;
        match sent {
            Sent::Whole => counters.sent.increment(),
            Sent::TooLong | Sent::Lost => counters.not_sent.increment(),
        }
    }

    /// Sends the other machine the end of this one: it was taken down, or has failed.
    pub fn end(&mut self, has_failed: bool) {
        if self.contact.ended().is_none() {
            self.contact.end(if has_failed { Reason::Failed } else { Reason::Down });
            self.send_messages();
        }
    }

    fn send_messages(&mut self) {
        for (tunnel, message) in self.contact.take_messages() {
            let sent = self.send_message(tunnel, &message);
            if sent == Sent::TooLong && matches!(message.body, Some(Body::Probe { .. })) {
                self.contact.refused(tunnel);
            }
        }
    }

    fn send_message(&mut self, tunnel: usize, message: &Message) -> Sent {
        let bytes = message.to_bytes();
        self.send_payload(tunnel, protocol_type::EXPERIMENTAL, |out| out.extend_from_slice(&bytes))
    }

    fn send_payload(&mut self, tunnel: usize, protocol_type: u16, write: impl FnOnce(&mut Vec<u8>)) -> Sent {
        let End { key, socket, .. } = self.tunnels[tunnel];
        self.buffer.clear();
        Gre { key, protocol_type }.emit(&mut self.buffer);
        write(&mut self.buffer);
        self.sockets[socket].outer.send(&self.buffer)
    }

    fn names(&self) -> Vec<Named> {
        self.tunnels.iter().map(|end| end.named.clone()).collect()
    }
}

/// The index of the socket with these addresses, which is opened if there is none.
fn socket_of(sockets: &mut Vec<Bound>, addresses: Addresses) -> io::Result<usize> {
    if let Some(index) = sockets.iter().position(|bound| bound.addresses == addresses) {
        return Ok(index);
    }
    let outer = Outer::open(addresses)?;
    sockets.push(Bound { addresses, outer, counters: Arc::default() });
    Ok(sockets.len() - 1)
}

/// SHA-256 of a scenario with all values, including the contents of its traces.
fn digest(scenario: &Scenario) -> [u8; 32] {
    let mut hash = Sha256::new_with_prefix(to_toml(scenario));
    for model in scenario.links.iter().flat_map(|link| [&link.forward, &link.reverse]) {
        hash.update(format!("{:?}{:?}{:?}", model.rate, model.delay, model.loss));
    }
    hash.finalize().into()
}

fn now_ns(clock: Clock) -> u64 {
    clock.now().as_nanos()
}

#[cfg(test)]
#[path = "part_tests.rs"]
mod tests;

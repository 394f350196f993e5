//! Associations of a test on Anabranch's own stack, in UDP datagrams (RFC 6951).

use super::control::REPLY_TIMEOUT;
use super::frame::GREETING_BYTES;
use super::open;
use super::options::FlowOptions;
use super::streams::StreamPlan;
use super::waiter::Waiter;
use crate::clock::Clock;
use crate::meter::flow::Transport;
use crate::network::Network;
use crate::stack::{Association, Error, Listener, Message, Received, Stack, Stop};
use crate::udp::Udp;
use anabranch_endpoint::Address;
use anabranch_host::{Backlog, Limits, Listening, Protocol};
use anabranch_wire::sctp::encapsulation::Ports;
use core::net::SocketAddr;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Largest IP packet of an association, bytes: that of Ethernet. The kernel fragments longer datagrams.
const MTU: u32 = 1500;

/// Payload protocol identifiers of the greeting, of messages, and of the end of a stream.
pub const GREETING_PPID: u32 = 0x616e_6d01;
pub const DATA_PPID: u32 = 0x616e_6d02;
pub const END_PPID: u32 = 0x616e_6d03;

/// SCTP port of the association of the first flow; that of the second flow has the next one.
const FIRST_PORT: u16 = 5210;

/// Time limit for the greeting of an association: several retransmissions.
const GREETING_TIMEOUT: Duration = Duration::from_secs(4);

/// Time in which an association delivers the rest and closes after its flows have ended.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A stack on a UDP socket. When it is dropped, it closes its associations in order if all writers have ended, and aborts
/// them otherwise.
pub struct UdpStack {
    stack: Stack,
    local: SocketAddr,
    /// Number of writers that have not ended.
    writers: AtomicUsize,
}

impl UdpStack {
    /// A stack at this address, with the type of service of these options; port 0 means any.
    ///
    /// # Errors
    ///
    /// If the address cannot be used; the text is a sentence.
    pub fn start(options: &FlowOptions, address: SocketAddr) -> Result<Arc<Self>, String> {
        if matches!(address, SocketAddr::V6(v6) if v6.scope_id() != 0) {
            return Err(format!("SCTP cannot use the link-local address {address}; use another address"));
        }
        let failed = |error: std::io::Error| format!("cannot use the UDP address {address}: {error}");
        let of_socket = FlowOptions { type_of_service: options.type_of_service, ..FlowOptions::default() };
        let opened = open::listening(&of_socket, Transport::Udp, address)?;
        let mut network = Network::new(Clock::new());
        let udp = Udp::of(UdpSocket::from(opened.socket)).map_err(failed)?;
        let local = udp.local();
        network.add(udp, &[Address::new(local.ip(), MTU)]);
        let stack = Stack::start(network, Limits::default()).map_err(failed)?;
        Ok(Arc::new(Self { stack, local, writers: AtomicUsize::new(0) }))
    }

    /// The protocol of an association, with a peer at this UDP port.
    fn protocol(&self, plan: &StreamPlan, remote_port: u16) -> Protocol {
        let ports = Ports { source: self.local.port(), destination: remote_port };
        Protocol::Sctp(Box::new((*plan.config).clone().encapsulation(Some(ports))))
    }
}

impl Drop for UdpStack {
    fn drop(&mut self) {
        let is_finished = *self.writers.get_mut() == 0;
        let stop = if is_finished { Stop::Drain(CLOSE_TIMEOUT) } else { Stop::Abort };
        let begun = Clock::new();
        // A stack that has stopped by itself has no associations left.
        let _ = Waiter::new().wait(self.stack.stop(stop), || begun.elapsed() < 2 * CLOSE_TIMEOUT);
    }
}

/// The SCTP port of the association whose first flow has this index.
const fn port(plan: &StreamPlan) -> u16 {
    FIRST_PORT + plan.first as u16
}

/// A stack that waits for the association of a flow.
pub struct ListeningAssociation {
    stack: Arc<UdpStack>,
    listener: Listener,
}

impl ListeningAssociation {
    /// Waits for the association of this plan.
    ///
    /// # Errors
    ///
    /// If the stack refuses the settings; the text is a sentence.
    pub fn open(stack: Arc<UdpStack>, plan: &StreamPlan) -> Result<Self, String> {
        // The port of the peer is that of its first packet.
        let protocol = stack.protocol(plan, 0);
        let listening = Listening { protocol, port: port(plan), backlog: Backlog::default() };
        let listener = Waiter::new()
            .wait(stack.stack.listen(listening), || true)
            .unwrap_or(Err(Error::Stopped))
            .map_err(|error| format!("cannot listen at {}: {error}", stack.local))?;
        Ok(Self { stack, listener })
    }

    /// The UDP port.
    pub fn port(&self) -> u16 {
        self.stack.local.port()
    }

    /// Waits for the association with this greeting and returns the greeting, while `check` returns `Ok`. Returns the
    /// number of other associations, too.
    ///
    /// # Errors
    ///
    /// The error of `check`, or that of the stack; the text is a sentence.
    pub fn accept(
        self,
        greeting: &[u8; GREETING_BYTES],
        check: &dyn Fn() -> Result<(), String>,
    ) -> Result<(OpenAssociation, u64), String> {
        let waiter = Waiter::new();
        let mut foreign = 0;
        loop {
            let Some(accepted) = waiter.wait(self.listener.accept_association(), || check().is_ok()) else {
                check()?;
                continue;
            };
            let association = accepted.map_err(|error| format!("cannot accept an association: {error}"))?;
            let begun = Clock::new();
            let in_time = || begun.elapsed() < GREETING_TIMEOUT && check().is_ok();
            let received = waiter.wait(association.receive(), in_time);
            if !matches!(received, Some(Ok(Some(first))) if is_greeting(&first, greeting)) {
                foreign += 1;
                continue;
            }
            let open = OpenAssociation { stack: Arc::clone(&self.stack), association };
            if let Some(Ok(())) = waiter.wait(open.association.send(greeting_message(greeting)), in_time) {
                return Ok((open, foreign));
            }
            foreign += 1;
        }
    }
}

fn greeting_message(greeting: &[u8; GREETING_BYTES]) -> Message {
    Message { ppid: GREETING_PPID, ..Message::new(greeting.to_vec()) }
}

fn is_greeting(received: &Received, greeting: &[u8; GREETING_BYTES]) -> bool {
    received.ppid == GREETING_PPID && received.bytes == greeting
}

/// An established association of a test.
pub struct OpenAssociation {
    /// Dropped after the association.
    stack: Arc<UdpStack>,
    association: Association,
}

impl OpenAssociation {
    /// Opens the association of a plan at a UDP address of the server, and waits for its answer to the greeting.
    ///
    /// # Errors
    ///
    /// If there is no answer in time; the text is a sentence.
    pub fn connect(
        stack: Arc<UdpStack>,
        plan: &StreamPlan,
        remote: SocketAddr,
        greeting: &[u8; GREETING_BYTES],
    ) -> Result<Self, String> {
        let failed = |reason: &str| format!("cannot connect to {remote}: {reason}");
        let waiter = Waiter::new();
        let begun = Clock::new();
        let in_time = || begun.elapsed() < REPLY_TIMEOUT;
        let protocol = stack.protocol(plan, remote.port());
        let address = [remote.ip()];
        let association = waiter
            .wait(stack.stack.associate(protocol, &address, port(plan)), in_time)
            .ok_or_else(|| failed("no answer"))?
            .map_err(|error| failed(&error.to_string()))?;
        let greeted = async {
            association.send(greeting_message(greeting)).await?;
            association.receive().await
        };
        match waiter.wait(greeted, in_time) {
            Some(Ok(Some(first))) if is_greeting(&first, greeting) => Ok(Self { stack, association }),
            Some(Ok(_)) => Err(failed("the answer does not belong to this test")),
            Some(Err(error)) => Err(failed(&error.to_string())),
            None => Err(failed("no answer")),
        }
    }

    /// The local UDP address.
    pub fn local(&self) -> SocketAddr {
        self.stack.local
    }

    /// Address and SCTP port of the peer.
    pub fn remote(&self) -> Option<SocketAddr> {
        self.association.remote()
    }

    /// The association.
    pub const fn association(&self) -> &Association {
        &self.association
    }

    /// Records that a writer begins.
    pub fn begin_writing(&self) {
        self.stack.writers.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that a writer has ended, and that all its data has arrived.
    pub fn end_writing(&self) {
        self.stack.writers.fetch_sub(1, Ordering::Relaxed);
    }
}

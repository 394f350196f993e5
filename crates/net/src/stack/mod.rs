//! A host on real packets, for programs: a handle to a thread that runs an [`Engine`](crate::Engine).

mod arrivals;
mod association;
mod bytes;
mod command;
mod error;
mod link;
mod listener;
mod pipe;
mod queue;
mod report;
mod stream;
mod thread;
mod wakers;

pub use association::{Association, Message};
pub use bytes::{AssociationStream, EndBytes, WriteEnd};
pub use command::{Stop, Stopped};
pub use error::Error;
pub use listener::Listener;
pub use pipe::Received;
pub use queue::Queue;
pub use report::ConnectionReport;
pub use stream::Stream;

use crate::device::Device;
use crate::engine::Engine;
use crate::network::Network;
use crate::secrets::{secret_key, secrets};
use anabranch_endpoint::Address;
use anabranch_host::{Limits, Listening, Protocol};
use anabranch_replay::Recording;
use arrivals::Arrivals;
use command::{Command, Commands};
use core::net::IpAddr;
use link::Link;
use pipe::Pipe;
use std::io;
use std::sync::Arc;

/// A host in user space, in a separate thread. Clones are handles to the same host, for any thread.
///
/// The calls are asynchronous and need no particular runtime. Devices that go down, and addresses that the
/// machine loses, are losses and address changes of the connections; the host goes on. The thread ends after
/// [`stop`](Self::stop), or, when all handles, listeners and connections are dropped, after it has finished
/// its connections. A program that ends earlier loses their unsent data.
#[derive(Clone)]
pub struct Stack {
    commands: Arc<Commands>,
}

impl Stack {
    /// Starts a host with these devices, which are followed by `rtnetlink(7)`.
    ///
    /// # Errors
    ///
    /// If the system lacks a thread, descriptor, randomness or `rtnetlink(7)` for the host.
    pub fn start(network: Network, limits: Limits) -> io::Result<Self> {
        let secrets = secrets()?;
        Self::start_with(network, move |network| Ok(Engine::new(network, limits, secrets)))
    }

    /// As [`start`](Self::start), with a recording for [`replay`](anabranch_replay::replay), which ends with the stack. It
    /// contains the key of the connections' secrets, which is new.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), or if the recording cannot be written.
    pub fn start_recorded(network: Network, limits: Limits, recording: Recording) -> io::Result<Self> {
        let key = secret_key()?;
        Self::start_with(network, move |network| Engine::recorded(network, limits, key, recording))
    }

    fn start_with(
        mut network: Network,
        engine: impl FnOnce(Network) -> io::Result<Engine> + Send + 'static,
    ) -> io::Result<Self> {
        network.follow_carriers()?;
        let queue = Queue::new()?;
        let commands = Commands::new(Arc::clone(&queue));
        let name = "anabranch-stack".to_owned();
        let (tell, started) = std::sync::mpsc::channel();
        // An engine stays in the thread in which it was made.
        std::thread::Builder::new().name(name).spawn(move || match engine(network) {
            Ok(engine) => {
                // The caller of `start` waits for this message.
                let _ = tell.send(Ok(()));
                thread::run(queue, engine);
            }
            Err(error) => drop(tell.send(Err(error))),
        })?;
        started.recv().map_err(io::Error::other)??;
        Ok(Self { commands })
    }

    /// Opens a connection of TCP or Multipath TCP to a port of another host, from the first address of the same family.
    ///
    /// # Errors
    ///
    /// If the connection cannot be created, or ends before it is established.
    pub async fn connect(&self, protocol: Protocol, remote: IpAddr, port: u16) -> Result<Stream, Error> {
        if !matches!(protocol, Protocol::Tcp(_) | Protocol::Mptcp(_)) {
            return Err(Error::WrongProtocol);
        }
        Ok(Stream(self.link(protocol, vec![remote], port).await?))
    }

    /// Opens an association with a port of another host that has these addresses; the first one is used first.
    ///
    /// # Errors
    ///
    /// If the connection cannot be created, or ends before it is established.
    pub async fn associate(
        &self,
        protocol: Protocol,
        remote: &[IpAddr],
        port: u16,
    ) -> Result<Association, Error> {
        let send_buffer = send_buffer(&protocol).ok_or(Error::WrongProtocol)?;
        Ok(Association(self.link(protocol, remote.to_vec(), port).await?, send_buffer))
    }

    async fn link(&self, protocol: Protocol, remote: Vec<IpAddr>, port: u16) -> Result<Link, Error> {
        let (pipe, protocol) = (Arc::new(Pipe::default()), Box::new(protocol));
        let given = Arc::clone(&pipe);
        let opening = self.commands.ask(move |reply| Command::Connect {
            protocol,
            remote: (remote, port),
            pipe: given,
            reply,
        });
        let (id, pair) = opening.await??;
        let link = Link::new(pipe, Arc::clone(&self.commands), id, pair);
        link.opened().await?;
        Ok(link)
    }

    /// Listens on a port of all addresses.
    ///
    /// # Errors
    ///
    /// If the port is in use, a setting is invalid, or the protocol is UDP.
    pub async fn listen(&self, listening: Listening) -> Result<Listener, Error> {
        let (transport, port) = (listening.protocol.transport(), listening.port);
        let send_buffer = send_buffer(&listening.protocol).unwrap_or_default();
        if matches!(listening.protocol, Protocol::Udp) {
            return Err(Error::WrongProtocol);
        }
        let arrivals = Arrivals::new(listening.backlog.complete);
        let (given, listening) = (Arc::clone(&arrivals), Box::new(listening));
        self.commands.ask(move |reply| Command::Listen { listening, arrivals: given, reply }).await??;
        Ok(Listener { arrivals, commands: Arc::clone(&self.commands), transport, port, send_buffer })
    }

    /// Adds a device; packets from these addresses leave by it. Connections learn the addresses.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`].
    pub fn add_device(&self, device: impl Device + 'static, addresses: &[Address]) -> Result<(), Error> {
        let sent = self.commands.send(Command::AddDevice(Box::new(device), addresses.to_vec()));
        if sent { Ok(()) } else { Err(Error::Stopped) }
    }

    /// Stops using an address: connections close their paths from it and inform their peers (`REMOVE_ADDR`, ASCONF).
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchAddress`], [`Error::Stopped`].
    pub async fn remove_address(&self, ip: IpAddr) -> Result<(), Error> {
        self.commands.ask(|reply| Command::UseAddress(ip, false, reply)).await?
    }

    /// Uses an address again that was removed.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchAddress`], [`Error::Stopped`].
    pub async fn restore_address(&self, ip: IpAddr) -> Result<(), Error> {
        self.commands.ask(|reply| Command::UseAddress(ip, true, reply)).await?
    }

    /// State and counters of all connections.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`].
    pub async fn reports(&self) -> Result<Vec<ConnectionReport>, Error> {
        self.commands.ask(Command::Reports).await
    }

    /// Stops the host. Listeners are closed and new connections refused at once.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`] if the stack has been stopped before.
    pub async fn stop(&self, stop: Stop) -> Result<Stopped, Error> {
        self.commands.ask(|reply| Command::Stop(stop, Some(reply))).await
    }
}

/// The send buffer of an association, bytes; `None` of other protocols.
fn send_buffer(protocol: &Protocol) -> Option<u64> {
    match protocol {
        Protocol::Sctp(config) => Some(config.send_buffer),
        _ => None,
    }
}

//! UDP of the hosts: receives the datagrams that the kernel redirects to the router (TPROXY), and relays them through the
//! upstream proxy. Each source address and port of a host is a flow with its own stream to the proxy, in which all
//! servers see the same source (endpoint-independent mapping, RFC 4787 §4.1).

use crate::config::{Limits, Udp};
use crate::datagrams::{Datagram, Recent, STATE_TIMEOUT, Side, relay_datagrams};
use crate::error::Error;
use crate::limits::descriptors::max_associations;
use crate::log::RateLimited;
use crate::original_destination;
use crate::sockopt::{receive_original_destinations, set_transparent_v6};
use crate::socks::wire::{Reply, Target, emit_frame};
use crate::upstream::protocols::Upstream;
use crate::upstream::proxy::within_connect_timeout;
use crate::watch;
use core::net::{IpAddr, SocketAddr};
use socket2::{Domain, Socket, Type};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Maximum number of datagrams that wait for a flow.
const MAX_WAITING: usize = 64;
/// Maximum number of servers of a flow.
const MAX_SERVERS: usize = 1024;
/// Maximum number of sockets from which answers are sent, one for each address and port of a server, unless the maximum
/// number of flows is lower.
const MAX_REPLY_SOCKETS: usize = 1024;
/// Length of the receive buffer: more than the longest payload of a UDP datagram, bytes.
const BUFFER_BYTES: usize = 1 << 16;
/// Requested size of the sockets' receive buffers, bytes. The kernel's limit is `net.core.rmem_max`.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// Time after a failed connection to the upstream proxy in which datagrams of this flow are dropped.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Time for which no flow is opened after the upstream proxy has refused UDP.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(60);

/// Rate limit for log lines about upstream proxies that do not relay UDP.
static REFUSED: RateLimited = RateLimited::new();
/// Rate limit for log lines about flows that could not be opened.
static NOT_OPENED: RateLimited = RateLimited::new();
/// Rate limit for log lines about answers that could not be sent.
static NOT_ANSWERED: RateLimited = RateLimited::new();

/// Receives the datagrams that the kernel redirects.
pub struct Interceptor {
    sockets: Vec<UdpSocket>,
    flows: Flows,
}

impl Interceptor {
    /// Opens the sockets on these loopback addresses.
    ///
    /// # Errors
    /// If a port is in use, or the process lacks the capability `CAP_NET_ADMIN`.
    pub fn open(
        addresses: &[SocketAddr],
        (via, udp): (Arc<Upstream>, Udp),
        limits: Limits,
    ) -> Result<Self, Error> {
        let open = |address: &SocketAddr| {
            let listen = || {
                let socket = bind_transparent(*address, false)?;
                socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
                receive_original_destinations(&socket, address.is_ipv6())?;
                UdpSocket::from_std(socket.into())
            };
            listen().map_err(|error| {
                Error::Refused(format!("cannot intercept UDP datagrams at {address}: {error}"))
            })
        };
        let sockets = addresses.iter().map(open).collect::<Result<_, _>>()?;
        let max_flows = max_associations(&limits, Some(udp));
        let replies = Replies(Mutex::new(Recent::new(max_flows.min(MAX_REPLY_SOCKETS), STATE_TIMEOUT)));
        let shared = Shared { via, limits, replies, refused_at: Mutex::default() };
        Ok(Self { sockets, flows: Flows::new(shared, max_flows) })
    }

    /// Relays datagrams; never ends.
    pub async fn run(mut self) {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let number = tokio::select! {
                number = next_readable(&self.sockets) => number,
                Some(ended) = self.flows.tasks.join_next() => {
                    // A flow whose task has failed is removed when its host sends again.
                    if let Ok(host) = ended {
                        self.flows.remove_ended(host);
                    }
                    continue;
                }
            };
            let socket = &self.sockets[number];
            let receive = || original_destination::receive(socket, &mut buffer);
            let Ok((len, host, server)) = socket.try_io(Interest::READABLE, receive) else { continue };
            // A datagram that was sent to the router's port itself has no other destination.
            if !server.ip().is_loopback() {
                let datagram = Datagram { server: Target::Address(server), payload: buffer[..len].to_vec() };
                self.flows.forward(host, datagram);
            }
        }
    }
}

/// Waits until one of the sockets has a datagram; returns its number.
async fn next_readable(sockets: &[UdpSocket]) -> usize {
    let readable = async |number: usize| match sockets.get(number) {
        // An error of the socket is returned by the next read.
        Some(socket) => drop(socket.readable().await),
        None => std::future::pending().await,
    };
    tokio::select! {
        () = readable(0) => 0,
        () = readable(1) => 1,
    }
}

/// Opens a socket with an address that may belong to another host. If it `shares_port`, another program of the router may
/// have a socket with the same port and the unspecified address, as a name server has.
fn bind_transparent(address: SocketAddr, shares_port: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM.nonblocking(), None)?;
    socket.set_reuse_address(shares_port)?;
    if address.is_ipv4() {
        socket.set_ip_transparent_v4(true)?;
    } else {
        socket.set_only_v6(true)?;
        set_transparent_v6(&socket)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

/// State that all flows share.
struct Shared {
    via: Arc<Upstream>,
    limits: Limits,
    replies: Replies,
    /// Time at which the upstream proxy refused UDP last.
    refused_at: Mutex<Option<Instant>>,
}

impl Shared {
    fn is_refused(&self) -> bool {
        let refused_at = *self.refused_at.lock().unwrap_or_else(PoisonError::into_inner);
        refused_at.is_some_and(|at| at.elapsed() < REFUSAL_TIMEOUT)
    }

    fn record_refusal(&self) {
        *self.refused_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

/// The open flows by the host's address and port.
struct Flows {
    shared: Arc<Shared>,
    /// Senders to the tasks of the flows. A flow ends when its sender is dropped.
    open: Recent<SocketAddr, mpsc::Sender<Datagram>>,
    tasks: JoinSet<SocketAddr>,
    max_open: usize,
}

impl Flows {
    fn new(shared: Shared, max_open: usize) -> Self {
        // A flow that was idle for the timeout ends by itself, so the table needs no timeout.
        let open = Recent::new(max_open, Duration::MAX);
        Self { shared: Arc::new(shared), open, tasks: JoinSet::new(), max_open }
    }

    /// Passes a datagram of a host to its flow, which is opened if there is none. If the flow has too many waiting
    /// datagrams, this one is dropped.
    fn forward(&mut self, host: SocketAddr, datagram: Datagram) {
        let now = Instant::now();
        let datagram = match self.open.use_at(&host, now) {
            Some(flow) => match flow.try_send(datagram) {
                Err(TrySendError::Closed(datagram)) => datagram,
                Ok(()) | Err(TrySendError::Full(_)) => return,
            },
            None => datagram,
        };
        if self.shared.is_refused() {
            return;
        }
        self.make_room(host.ip());
        let (sender, uploads) = mpsc::channel(MAX_WAITING);
        // The channel is empty, so there is room for the datagram.
        drop(sender.try_send(datagram));
        self.open.insert(host, sender, now);
        self.tasks.spawn(run_flow(Arc::clone(&self.shared), host, uploads));
    }

    /// Ends a flow if the table is full: of the host with the most flows, the one whose last use is the oldest. So a
    /// host that opens many flows does not end those of other hosts.
    fn make_room(&mut self, for_host: IpAddr) {
        if self.open.len() < self.max_open {
            return;
        }
        let mut counts = BTreeMap::from([(for_host, 1_usize)]);
        for flow in self.open.keys() {
            *counts.entry(flow.ip()).or_default() += 1;
        }
        let busiest = counts.iter().max_by_key(|(_, count)| **count).map(|(host, _)| *host);
        let victim = self.open.keys_by_use().find(|flow| Some(flow.ip()) == busiest).copied();
        victim.map(|flow| self.open.remove(&flow));
    }

    /// Removes a flow whose task has ended, unless it has been opened again since.
    fn remove_ended(&mut self, host: SocketAddr) {
        if self.open.get(&host).is_some_and(mpsc::Sender::is_closed) {
            self.open.remove(&host);
        }
    }
}

/// Opens a flow and relays its datagrams until it was idle for [`STATE_TIMEOUT`]; returns the host's address.
async fn run_flow(shared: Arc<Shared>, host: SocketAddr, uploads: mpsc::Receiver<Datagram>) -> SocketAddr {
    let servers = Recent::new(MAX_SERVERS, STATE_TIMEOUT);
    let mut near = HostSide { host, uploads, servers, shared: Arc::clone(&shared) };
    let opening = shared.via.open_datagrams(|| Ok(near.take_frames()));
    match within_connect_timeout(&shared.limits, opening).await {
        Ok(mut far) => {
            let watched = watch::register("router", host, &"UDP");
            // Ignore the reason of the end: the next datagram opens the flow again.
            drop(relay_datagrams(&mut near, &mut far, &watched.carried, STATE_TIMEOUT).await);
        }
        Err((Reply::CommandNotSupported, reason)) => {
            shared.record_refusal();
            REFUSED.log_line(format_args!("router: {reason}; dropping UDP datagrams of hosts"));
        }
        Err((_, reason)) => {
            NOT_OPENED.log_line(format_args!("router: UDP of {host}: {reason}"));
            sleep(RETRY_INTERVAL).await;
        }
    }
    host
}

/// The host's side of a flow.
struct HostSide {
    host: SocketAddr,
    uploads: mpsc::Receiver<Datagram>,
    /// Servers to which the host has sent recently. Answers are accepted only from their addresses, so that the
    /// upstream proxy cannot send datagrams with other sources to the LAN.
    servers: Recent<IpAddr, ()>,
    shared: Arc<Shared>,
}

impl HostSide {
    fn record(&mut self, datagram: &Datagram) {
        if let Target::Address(server) = datagram.server {
            let now = Instant::now();
            if self.servers.use_at(&server.ip(), now).is_none() {
                self.servers.insert(server.ip(), (), now);
            }
        }
    }

    /// Returns the waiting datagrams as frames.
    fn take_frames(&mut self) -> Vec<u8> {
        let mut frames = Vec::new();
        while let Ok(datagram) = self.uploads.try_recv() {
            self.record(&datagram);
            emit_frame(&datagram.server, &datagram.payload, &mut frames);
        }
        frames
    }
}

impl Side for HostSide {
    async fn receive(&mut self) -> io::Result<Datagram> {
        let datagram = self.uploads.recv().await.ok_or(ErrorKind::UnexpectedEof)?;
        self.record(&datagram);
        Ok(datagram)
    }

    fn send(&mut self, datagram: Datagram) {
        let Target::Address(server) = datagram.server else { return };
        if self.servers.use_at(&server.ip(), Instant::now()).is_none() {
            return;
        }
        if let Err(error) = self.shared.replies.send(server, self.host, &datagram.payload) {
            NOT_ANSWERED.log_line(format_args!("router: UDP from {server} to {}: {error}", self.host));
        }
    }
}

/// Sockets from which answers are sent to hosts, by the server's address and port.
struct Replies(Mutex<Recent<SocketAddr, Socket>>);

impl Replies {
    /// Sends a datagram to a host with the server's address as its source. It is dropped if the LAN has no room for it.
    fn send(&self, server: SocketAddr, host: SocketAddr, payload: &[u8]) -> io::Result<()> {
        let now = Instant::now();
        let mut sockets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sockets.use_at(&server, now).is_none() {
            sockets.expire(now);
            sockets.insert(server, bind_transparent(server, true)?, now);
        }
        let Some(socket) = sockets.use_at(&server, now) else { return Ok(()) };
        match socket.send_to(payload, &host.into()) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }
}

//! The side of another proxy that is reached over several paths. While no path answers, datagrams are sent in the
//! stream that has opened the association.

use super::frame::{Keys, MAX_PATHS};
use super::session::Session;
use crate::datagrams::framed::Framed;
use crate::datagrams::side::{Datagram, Side};
use crate::datagrams::socket::{bind, receive_from};
use crate::log::RateLimited;
use core::future::poll_fn;
use core::net::{IpAddr, SocketAddr};
use core::task::Poll;
use socket2::SockRef;
use std::io;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep_until};

/// Maximum number of datagrams that are read from a socket before others get their turn.
const MAX_IN_A_ROW: usize = 64;
/// Time after which a missing answer on all paths is logged.
const SILENCE: Duration = Duration::from_secs(3);

/// Rate limit for log lines about associations without a path that answers.
static NO_PATH: RateLimited = RateLimited::new();

/// The other proxy, over several paths.
pub struct PathsSide {
    stream: Framed,
    session: Session,
    sockets: Sockets,
    /// Time at which a log line reports that no path has answered.
    silent_at: Option<Instant>,
}

/// The sockets of an association.
enum Sockets {
    /// One socket for each path, from a local address to the far proxy.
    PerPath(Vec<UdpSocket>),
    /// One socket for all paths of a client, and the client's address on each path.
    Shared(UdpSocket, Vec<Option<SocketAddr>>),
}

impl PathsSide {
    /// Creates the side of the far proxy at `far`, with a path from each local address of its family. `stream` is the
    /// stream that has opened the association.
    pub fn of_upstream(stream: Framed, keys: Keys, far: SocketAddr, from: &[IpAddr]) -> Self {
        let open = |from: &IpAddr| {
            let socket = bind((*from, 0).into())?;
            SockRef::from(&socket).connect(&far.into())?;
            Ok::<_, io::Error>(socket)
        };
        let of_family = from.iter().filter(|from| from.is_ipv4() == far.is_ipv4());
        // An address that was removed, or has no route, makes no path.
        let sockets: Vec<_> = of_family.filter_map(|from| open(from).ok()).take(MAX_PATHS).collect();
        let now = Instant::now();
        let session = Session::new(keys, sockets.len(), now);
        Self { stream, session, sockets: Sockets::PerPath(sockets), silent_at: Some(now + SILENCE) }
    }

    /// Creates the side of a client, which sends to `socket`. `stream` is the stream that has opened the association.
    pub fn of_client(stream: Framed, keys: Keys, socket: UdpSocket) -> Self {
        let session = Session::new(keys, 0, Instant::now());
        Self { stream, session, sockets: Sockets::Shared(socket, vec![None; MAX_PATHS]), silent_at: None }
    }

    /// Sends all frames for which there is room on the paths.
    fn transmit(&mut self, now: Instant) {
        while let Some((path, bytes)) = self.session.next_frame(now) {
            self.sockets.send(path, &bytes);
        }
        while let Some(datagram) = self.session.take_unsent() {
            self.stream.send(datagram);
        }
        if self.session.has_usable_path() {
            self.silent_at = None;
        } else if self.silent_at.is_some_and(|at| at <= now) {
            self.silent_at = None;
            NO_PATH.log_line(format_args!(
                "UDP: the far proxy answers over no path; sending datagrams in the stream; check that its firewall accepts UDP"
            ));
        }
    }
}

impl Sockets {
    /// Waits until a socket has a datagram; returns the number of the socket. Never ends without a socket.
    async fn readable(&self) -> usize {
        let all = match self {
            Self::PerPath(sockets) => sockets.as_slice(),
            Self::Shared(socket, _) => core::slice::from_ref(socket),
        };
        // An error of the socket is returned by the next read.
        poll_fn(|context| {
            let ready = all.iter().position(|socket| socket.poll_recv_ready(context).is_ready());
            ready.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Reads a datagram; returns its bytes and its source.
    fn receive(&self, number: usize) -> Option<(Vec<u8>, SocketAddr)> {
        match self {
            Self::PerPath(sockets) => receive_from(sockets.get(number)?).ok(),
            Self::Shared(socket, _) => receive_from(socket).ok(),
        }
    }

    /// Records the source of the newest frame of a path.
    fn record_source(&mut self, path: usize, source: SocketAddr) {
        if let Self::Shared(_, clients) = self {
            clients[path] = Some(source);
        }
    }

    /// Sends a frame. Ignores errors: a frame that the kernel does not send is lost, as on the path.
    fn send(&self, path: usize, bytes: &[u8]) {
        match self {
            Self::PerPath(sockets) => drop(sockets.get(path).map(|socket| SockRef::from(socket).send(bytes))),
            Self::Shared(socket, clients) => {
                drop(clients[path].map(|client| SockRef::from(socket).send_to(bytes, &client.into())));
            }
        }
    }
}

impl Side for PathsSide {
    async fn receive(&mut self) -> io::Result<Datagram> {
        loop {
            let now = Instant::now();
            self.transmit(now);
            if let Some(datagram) = self.session.next_datagram(now) {
                return Ok(datagram);
            }
            let due_at = self.session.due_at().into_iter().chain(self.silent_at).min();
            tokio::select! {
                datagram = self.stream.receive() => return datagram,
                number = self.sockets.readable() => {
                    let now = Instant::now();
                    for _ in 0..MAX_IN_A_ROW {
                        let Some((bytes, source)) = self.sockets.receive(number) else { break };
                        if let Some(path) = self.session.receive(&bytes, now) {
                            self.sockets.record_source(path, source);
                        }
                    }
                }
                () = sleep_until(due_at.unwrap_or(now)), if due_at.is_some() => {}
            }
        }
    }

    fn send(&mut self, datagram: Datagram) {
        if self.session.has_usable_path() {
            self.session.send(datagram);
            self.transmit(Instant::now());
        } else {
            self.stream.send(datagram);
        }
    }
}

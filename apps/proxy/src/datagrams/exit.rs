//! The servers' side of a datagram relay: one UDP socket for each address family, which all servers of a client see as
//! the same source (endpoint-independent mapping, RFC 4787 §4.1). Datagrams to the client are accepted only from
//! addresses to which it has sent one recently (address-dependent filtering, RFC 4787 §5).

use super::STATE_TIMEOUT;
use super::recent::Recent;
use super::side::{Datagram, Side};
use super::socket::{bind, receive_from};
use crate::limits::targets::Targets;
use crate::log::RateLimited;
use crate::socks::wire::Target;
use crate::upstream::connect::Attempts;
use crate::upstream::resolver::{Addresses, Client, Resolver};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use socket2::SockRef;
use std::io;
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep_until};

/// Maximum number of servers of a client, by address.
const MAX_SERVERS: usize = 1024;
/// Maximum number of names of servers of a client.
const MAX_NAMES: usize = 64;
/// Maximum number of payload bytes that wait for the address of one name.
const MAX_WAITING_BYTES: usize = 16 << 10;

/// Rate limit for log lines about denied servers.
static DENIED: RateLimited = RateLimited::new();
/// Rate limit for log lines about names without an address.
static UNKNOWN: RateLimited = RateLimited::new();
/// Rate limit for log lines about sockets that could not be opened.
static NO_SOCKET: RateLimited = RateLimited::new();

/// The servers' side of the relay of one client.
pub struct Exit<'a> {
    targets: &'a Targets,
    resolver: &'a Resolver,
    client: Client,
    /// Sockets of IPv4 and IPv6. They are open while the client has servers.
    sockets: [Option<UdpSocket>; 2],
    /// Servers by address; the value is true if `targets` permits the address.
    servers: Recent<IpAddr, bool>,
    names: Recent<String, Name>,
    lookups: Attempts<'a, (String, io::Result<Addresses>)>,
}

/// State of a server's name.
enum Name {
    /// The look-up is running; contains ports and payloads that wait for it.
    Pending(Vec<(u16, Vec<u8>)>),
    /// The address, and the time of its look-up.
    Known(IpAddr, Instant),
}

impl<'a> Exit<'a> {
    /// Creates the side of a client without servers.
    pub fn new(targets: &'a Targets, resolver: &'a Resolver, client: Client) -> Self {
        Self {
            targets,
            resolver,
            client,
            sockets: [None, None],
            servers: Recent::new(MAX_SERVERS, STATE_TIMEOUT),
            names: Recent::new(MAX_NAMES, STATE_TIMEOUT),
            lookups: Attempts::new(),
        }
    }

    fn send_to(&mut self, server: SocketAddr, payload: &[u8]) {
        let (ip, now) = (server.ip().to_canonical(), Instant::now());
        let is_permitted = self.servers.use_at(&ip, now).copied().unwrap_or_else(|| {
            let is_permitted = self.targets.permit(ip);
            self.servers.insert(ip, is_permitted, now);
            is_permitted
        });
        if !is_permitted {
            return DENIED.log_line(format_args!(
                "UDP to {server}: not permitted: private address or denied; see allow and deny in [socks]"
            ));
        }
        match self.socket(ip.is_ipv6()) {
            // Ignore errors: UDP does not report whether a datagram arrives.
            Ok(socket) => {
                drop(SockRef::from(socket).send_to(payload, &SocketAddr::new(ip, server.port()).into()));
            }
            Err(error) => NO_SOCKET.log_line(format_args!("UDP to {server}: cannot open a socket: {error}")),
        }
    }

    fn socket(&mut self, is_v6: bool) -> io::Result<&UdpSocket> {
        let any: IpAddr = if is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let place = &mut self.sockets[usize::from(is_v6)];
        let socket = match place.take() {
            Some(socket) => socket,
            None => bind((any, 0).into())?,
        };
        Ok(place.insert(socket))
    }

    fn send_by_name(&mut self, name: String, port: u16, payload: Vec<u8>) {
        let now = Instant::now();
        match self.names.use_at(&name, now) {
            Some(Name::Known(ip, since)) if now.saturating_duration_since(*since) < STATE_TIMEOUT => {
                let server = SocketAddr::new(*ip, port);
                return self.send_to(server, &payload);
            }
            Some(Name::Pending(waiting)) => {
                let bytes: usize = waiting.iter().map(|(_, payload)| payload.len()).sum();
                // Each datagram counts as one byte more, so that empty ones are limited as well.
                if bytes + waiting.len() + payload.len() < MAX_WAITING_BYTES {
                    waiting.push((port, payload));
                }
                return;
            }
            _ => {}
        }
        if self.lookups.len() >= MAX_NAMES || payload.len() >= MAX_WAITING_BYTES {
            return;
        }
        self.names.insert(name.clone(), Name::Pending(vec![(port, payload)]), now);
        let (resolver, client) = (self.resolver, self.client.clone());
        self.lookups.add(async move {
            let found = resolver.addresses(Some(client), &name, port).await;
            (name, found)
        });
    }

    /// Stores the result of a look-up, and sends the datagrams that have waited for it.
    fn end_lookup(&mut self, name: String, found: io::Result<Addresses>) {
        let Some(Name::Pending(waiting)) = self.names.remove(&name) else { return };
        let ready = match found {
            Ok(addresses) => addresses.ready,
            Err(error) => return UNKNOWN.log_line(format_args!("UDP to {name}: {error}")),
        };
        let permitted = ready.iter().map(SocketAddr::ip).find(|ip| self.targets.permit(ip.to_canonical()));
        let Some(ip) = permitted.or_else(|| ready.first().map(SocketAddr::ip)) else { return };
        let now = Instant::now();
        self.names.insert(name, Name::Known(ip, now), now);
        for (port, payload) in waiting {
            self.send_to(SocketAddr::new(ip, port), &payload);
        }
    }

    /// Returns the next datagram of a socket; `None` if it is from an address to which the client has not sent recently.
    fn read(&mut self, number: usize) -> Option<Datagram> {
        let socket = self.sockets[number].as_ref()?;
        let (payload, server) = receive_from(socket).ok()?;
        let now = Instant::now();
        self.servers.use_at(&server.ip(), now).filter(|is_permitted| **is_permitted)?;
        Some(Datagram { server: Target::Address(server), payload })
    }

    /// Removes expired servers, and closes the sockets if none is left.
    fn expire(&mut self) {
        let now = Instant::now();
        self.servers.expire(now);
        self.names.expire(now);
        if self.servers.is_empty() {
            self.sockets = [None, None];
        }
    }
}

/// Waits until a socket has a datagram; never ends without a socket.
async fn readable(socket: Option<&UdpSocket>) -> io::Result<()> {
    match socket {
        Some(socket) => socket.readable().await,
        None => std::future::pending().await,
    }
}

impl Side for Exit<'_> {
    async fn receive(&mut self) -> io::Result<Datagram> {
        loop {
            let expiry = self.servers.next_expiry();
            let number = tokio::select! {
                ready = readable(self.sockets[0].as_ref()) => ready.map(|()| 0)?,
                ready = readable(self.sockets[1].as_ref()) => ready.map(|()| 1)?,
                (name, found) = self.lookups.next_ended(), if !self.lookups.is_empty() => {
                    self.end_lookup(name, found);
                    continue;
                }
                () = sleep_until(expiry.unwrap_or_else(Instant::now)), if expiry.is_some() => {
                    self.expire();
                    continue;
                }
            };
            if let Some(datagram) = self.read(number) {
                return Ok(datagram);
            }
        }
    }

    fn send(&mut self, datagram: Datagram) {
        match datagram.server {
            Target::Address(server) => self.send_to(server, &datagram.payload),
            Target::Name(name, port) => self.send_by_name(name, port, datagram.payload),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn targets() -> Targets {
        Targets { allow: vec!["127.0.0.1".parse().expect("a network")], ..Targets::default() }
    }

    fn exit<'a>(targets: &'a Targets, resolver: &'a Resolver) -> Exit<'a> {
        Exit::new(targets, resolver, Client::new(None, Ipv4Addr::LOCALHOST.into()))
    }

    async fn next(exit: &mut Exit<'_>) -> Option<Datagram> {
        tokio::time::timeout(Duration::from_millis(200), exit.receive()).await.ok()?.ok()
    }

    #[tokio::test]
    async fn answers_come_from_permitted_servers_only() {
        let (targets, resolver) = (targets(), Resolver::new(Duration::from_secs(5)));
        let mut exit = exit(&targets, &resolver);
        let server = UdpSocket::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let at = server.local_addr().expect("the socket is bound");
        let question = |server: Target| Datagram { server, payload: b"question".to_vec() };
        exit.send(question(Target::Address(at)));
        exit.send(question(Target::Name("localhost".to_owned(), at.port())));
        // This server is on a loopback address that is not permitted.
        exit.send(question(Target::Address(SocketAddr::new([127, 0, 0, 2].into(), at.port()))));
        let (mut buffer, mut from) = ([0; 16], None);
        for _ in 0..2 {
            let receive = async {
                tokio::select! {
                    received = server.recv_from(&mut buffer) => received.expect("a datagram"),
                    other = exit.receive() => panic!("{other:?}"),
                }
            };
            let (len, source) =
                tokio::time::timeout(Duration::from_secs(20), receive).await.expect("a datagram");
            assert_eq!((&buffer[..len], *from.get_or_insert(source)), (&b"question"[..], source));
        }
        let source = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), from.expect("a datagram").port());
        server.send_to(b"answer", source).await.expect("there is a route");
        let answer = next(&mut exit).await.expect("an answer");
        assert_eq!(answer, Datagram { server: Target::Address(at), payload: b"answer".to_vec() });
        let stranger = UdpSocket::bind("127.0.0.3:0").await.expect("loopback has a free port");
        stranger.send_to(b"unasked", source).await.expect("there is a route");
        assert_eq!(next(&mut exit).await, None);
    }

    #[tokio::test]
    async fn sockets_close_when_servers_expire() {
        let (targets, resolver) = (targets(), Resolver::new(Duration::from_secs(5)));
        let mut exit = exit(&targets, &resolver);
        exit.send(Datagram { server: Target::Address(([127, 0, 0, 1], 9).into()), payload: Vec::new() });
        assert!(exit.sockets[0].is_some() && exit.sockets[1].is_none());
        tokio::time::pause();
        tokio::time::advance(STATE_TIMEOUT).await;
        exit.expire();
        assert!(exit.sockets[0].is_none() && exit.servers.is_empty());
    }
}

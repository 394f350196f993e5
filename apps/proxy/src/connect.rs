//! Connecting to one of several addresses of a host: a later one is tried while an earlier one keeps silent (RFC 8305).

use super::sockopt;
use super::stream::{Transport, open, prepare};
use core::net::{IpAddr, SocketAddr};
use socket2::SockRef;
use std::io;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// An address is given so long before the next is tried as well ("Connection Attempt Delay", RFC 8305 §5).
const HEAD_START: Duration = Duration::from_millis(250);
/// Pairs of addresses that are tried.
const MOST_ATTEMPTS: usize = 8;

/// The largest window that is offered to a server, bytes. What a slow client has not taken would otherwise be the server's whole
/// answer: without it, 35 MB were seen.
const WINDOW: u32 = 4 << 20;

/// Connects to the first of the addresses that answers: from any address of ours, or from these, by turns as well.
///
/// # Errors
/// Why the last one that failed did so; that there is none.
pub async fn connect(
    addresses: &[SocketAddr],
    from: &[IpAddr],
    transport: Transport,
) -> io::Result<TcpStream> {
    let mut pairs = pairs(addresses, from);
    pairs.truncate(MOST_ATTEMPTS);
    attempt_in_order(pairs, transport).await
}

/// Connects to one of some addresses, each from an address of ours if one is given; those that come first have a head start.
///
/// # Errors
/// Why the last one that failed did so; that there is none.
pub async fn attempt_in_order(
    pairs: Vec<(SocketAddr, Option<IpAddr>)>,
    transport: Transport,
) -> io::Result<TcpStream> {
    if let &[(address, from)] = pairs.as_slice() {
        return connect_to(address, from, transport).await;
    }
    let mut left = pairs.into_iter();
    let mut attempts = JoinSet::new();
    let mut failure = io::ErrorKind::HostUnreachable.into();
    loop {
        match left.next() {
            Some((address, from)) => drop(attempts.spawn(connect_to(address, from, transport))),
            None if attempts.is_empty() => return Err(failure),
            None => {}
        }
        tokio::select! {
            Some(ended) = attempts.join_next() => match ended.map_err(io::Error::other).flatten() {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            },
            () = tokio::time::sleep(HEAD_START), if left.len() > 0 => {}
        }
    }
}

/// The attempts, in their order: each address from every address of ours before the next.
fn pairs(addresses: &[SocketAddr], from: &[IpAddr]) -> Vec<(SocketAddr, Option<IpAddr>)> {
    let pairs_of = |to: SocketAddr| {
        let family = from.iter().filter(move |from| from.is_ipv4() == to.is_ipv4());
        let mut pairs: Vec<_> = family.map(|&from| (to, Some(from))).collect();
        if from.is_empty() {
            pairs.push((to, None));
        }
        pairs
    };
    alternate(addresses).into_iter().flat_map(pairs_of).collect()
}

/// The order of the resolver, with the families by turns (RFC 8305 §4).
fn alternate(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut first, mut second): (Vec<_>, Vec<_>) =
        addresses.iter().copied().partition(|address| address.is_ipv6() == first_is_v6);
    first.reverse();
    second.reverse();
    let mut ordered = Vec::with_capacity(addresses.len());
    while !(first.is_empty() && second.is_empty()) {
        ordered.extend(first.pop());
        ordered.extend(second.pop());
    }
    ordered
}

async fn connect_to(
    address: SocketAddr,
    from: Option<IpAddr>,
    transport: Transport,
) -> io::Result<TcpStream> {
    let socket = open(address, transport)?;
    if let Some(from) = from {
        socket.bind(&SocketAddr::new(from, 0).into())?;
    }
    prepare(&SockRef::from(&socket))?;
    if transport == Transport::Tcp {
        sockopt::clamp_window(&socket, WINDOW)?;
    }
    TcpSocket::from_std_stream(socket.into()).connect(address).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let [a, b, c, d] = ["[::1]:1", "[::2]:1", "1.1.1.1:1", "[::3]:1"].map(address);
        assert_eq!(alternate(&[a, b, c, d]), [a, c, b, d]);
        assert!(alternate(&[]).is_empty());
    }

    #[tokio::test]
    async fn the_address_that_answers_is_taken() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = listener.local_addr().unwrap();
        let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
        let stream = connect(&[nobody, there], &[], Transport::Tcp).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), there);
        let refused = connect(&[nobody, nobody], &[], Transport::Tcp).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert!(connect(&[], &[], Transport::Tcp).await.is_err());
        // An address that is not ours is no way, one of the other family none either.
        let from = ["192.0.2.1", "::1", "127.0.0.9"].map(|from| from.parse().unwrap());
        let stream = connect(&[there], &from, Transport::Tcp).await.unwrap();
        assert_eq!(stream.local_addr().unwrap().ip(), from[2]);
    }
}

//! Connects to one of several addresses of a host. While one address does not answer, the next one is tried in parallel
//! (RFC 8305).

use crate::sockopt;
use crate::stream::{StreamOptions, Transport, open, prepare};
use core::net::{IpAddr, SocketAddr};
use core::pin::{Pin, pin};
use core::task::Poll;
use socket2::SockRef;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep_until};

/// Time between the start of an attempt and the start of the next one ("Connection Attempt Delay", RFC 8305 §5).
pub const HEAD_START: Duration = Duration::from_millis(250);
/// Maximum number of address pairs that are tried for one connection.
pub const MAX_ATTEMPTS: usize = 8;

/// Maximum receive window of a connection to a server, bytes. While the client is slow, the window limits the server's
/// data in the kernel's buffers; without the limit, up to 35 MB were measured.
const MAX_WINDOW_BYTES: u32 = 4 << 20;

/// A remote address, and the local address to connect from (`None`: the kernel chooses).
pub type Pair = (SocketAddr, Option<IpAddr>);

/// Connects to the first address that answers. If `from` is not empty, connects from each of these local addresses.
/// `later` is a look-up that is still running; its addresses are added when it ends.
///
/// # Errors
/// The error of the last attempt that failed, or an error that the host has no address.
pub async fn connect(
    addresses: &[SocketAddr],
    later: impl Future<Output = Vec<SocketAddr>>,
    from: &[IpAddr],
    options: StreamOptions,
) -> io::Result<TcpStream> {
    let later = async { pairs(&later.await, from) };
    attempt_in_order(pairs(addresses, from), later, options).await
}

/// Connects to one of several address pairs. Each attempt starts [`HEAD_START`] after the previous one, or when that
/// one fails.
///
/// # Errors
/// The error of the last attempt that failed, or an error that the host has no address.
pub async fn attempt_in_order(
    pairs: Vec<Pair>,
    later: impl Future<Output = Vec<Pair>>,
    options: StreamOptions,
) -> io::Result<TcpStream> {
    let mut candidates = Candidates::new(pairs);
    let (mut attempts, mut later, mut is_later_due) = (Attempts::new(), pin!(later), true);
    let mut failure = io::ErrorKind::HostUnreachable.into();
    loop {
        if let Some((address, from)) = candidates.next_due(attempts.is_empty()) {
            attempts.add(connect_to(address, from, options));
        } else if attempts.is_empty() && !is_later_due {
            return Err(failure);
        }
        tokio::select! {
            ended = attempts.next_ended(), if !attempts.is_empty() => match ended {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    failure = error;
                    candidates.start_next_now();
                }
            },
            more = &mut later, if is_later_due => {
                is_later_due = false;
                candidates.add(more);
            }
            () = sleep_until(candidates.due_at()), if candidates.has_more() => {}
        }
    }
}

/// Address pairs that have not been tried, and the time at which the next attempt may start.
pub struct Candidates {
    left: VecDeque<Pair>,
    due_at: Instant,
    tried: usize,
}

impl Candidates {
    /// Creates the queue from pairs in order of preference.
    pub fn new(pairs: Vec<Pair>) -> Self {
        Self { left: pairs.into(), due_at: Instant::now(), tried: 0 }
    }

    /// Removes and returns the next pair, if the delay since the previous attempt has passed, or if no attempt is
    /// running (`is_idle`).
    pub fn next_due(&mut self, is_idle: bool) -> Option<Pair> {
        if !(self.has_more() && (is_idle || Instant::now() >= self.due_at)) {
            return None;
        }
        self.tried += 1;
        self.due_at = Instant::now() + HEAD_START;
        self.left.pop_front()
    }

    /// Starts the next attempt only after `head_start`, instead of the usual delay.
    pub fn delay_next(&mut self, head_start: Duration) {
        self.due_at = Instant::now() + head_start;
    }

    /// Lets the next attempt start immediately, after an attempt has failed.
    pub fn start_next_now(&mut self) {
        self.due_at = Instant::now();
    }

    /// Inserts further pairs: new and remaining pairs alternate.
    pub fn add(&mut self, more: Vec<Pair>) {
        let mut old = std::mem::take(&mut self.left);
        for pair in more {
            self.left.push_back(pair);
            self.left.extend(old.pop_front());
        }
        self.left.append(&mut old);
    }

    /// Returns the time at which the next attempt may start.
    pub const fn due_at(&self) -> Instant {
        self.due_at
    }

    /// True if another pair may be tried: one is left, and fewer than [`MAX_ATTEMPTS`] have been tried.
    pub fn has_more(&self) -> bool {
        self.tried < MAX_ATTEMPTS && !self.left.is_empty()
    }
}

/// Connection attempts that run concurrently. Dropping this value cancels all of them.
pub struct Attempts<'a, T>(Vec<Pin<Box<dyn Future<Output = T> + Send + 'a>>>);

impl<'a, T> Attempts<'a, T> {
    /// Creates an empty set.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds an attempt.
    pub fn add(&mut self, attempt: impl Future<Output = T> + Send + 'a) {
        self.0.push(Box::pin(attempt));
    }

    /// Returns the number of attempts that are running.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// True if no attempt is running.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Waits until an attempt ends, removes it and returns its output. Cancel-safe.
    pub async fn next_ended(&mut self) -> T {
        core::future::poll_fn(|context| {
            for number in 0..self.0.len() {
                if let Poll::Ready(output) = self.0[number].as_mut().poll(context) {
                    drop(self.0.swap_remove(number));
                    return Poll::Ready(output);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// Lists all address pairs in the order of attempts: each local address with the first remote address, then each with
/// the second, and so on.
pub fn pairs(addresses: &[SocketAddr], from: &[IpAddr]) -> Vec<Pair> {
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

/// Alternates between IPv6 and IPv4, and keeps the resolver's order within each family (RFC 8305 §4).
fn alternate(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let addresses: Vec<_> = addresses.iter().copied().map(canonical).collect();
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut first, mut second): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == first_is_v6);
    first.reverse();
    second.reverse();
    let mut ordered = Vec::new();
    while !(first.is_empty() && second.is_empty()) {
        ordered.extend(first.pop());
        ordered.extend(second.pop());
    }
    ordered
}

/// Converts an IPv4-mapped IPv6 address to its IPv4 address (RFC 4291 §2.5.5.2). Only an IPv4 socket can reach it,
/// because the IPv6 sockets of this program have `IPV6_V6ONLY`.
const fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        // The unchanged address keeps the scope of a link-local address.
        IpAddr::V6(_) => address,
    }
}

/// Connects from a local address to a remote address.
///
/// # Errors
/// If the kernel or the remote host refuses the connection.
pub async fn connect_to(
    address: SocketAddr,
    from: Option<IpAddr>,
    options: StreamOptions,
) -> io::Result<TcpStream> {
    let address = canonical(address);
    let socket = open(address, options.transport)?;
    if let Some(from) = from {
        socket.bind(&SocketAddr::new(from, 0).into())?;
    }
    prepare(&SockRef::from(&socket), options.keep_alive)?;
    if options.transport == Transport::Tcp {
        sockopt::clamp_window(&socket, MAX_WINDOW_BYTES)?;
    }
    TcpSocket::from_std_stream(socket.into()).connect(address).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::future::ready;

    fn options() -> StreamOptions {
        StreamOptions { transport: Transport::Tcp, keep_alive: Duration::from_secs(25) }
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn address_families_alternate() {
        let [a, b, c, d] = ["[::1]:1", "[::2]:1", "1.1.1.1:1", "[::3]:1"].map(address);
        assert_eq!(alternate(&[a, b, c, d]), [a, c, b, d]);
        assert!(alternate(&[]).is_empty());
        assert_eq!(alternate(&[address("[::ffff:1.1.1.1]:1"), a]), [c, a]);
    }

    #[tokio::test]
    async fn first_answering_address_is_taken() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let closed = SocketAddr::from(([127, 0, 0, 1], 1));
        let none = || ready(Vec::new());
        let stream = connect(&[closed, address], none(), &[], options()).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), address);
        let refused = connect(&[closed, closed], none(), &[], options()).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert!(connect(&[], none(), &[], options()).await.is_err());
        // Connecting from a non-local address, or from an address of the other family, fails.
        let from = ["192.0.2.1", "::1", "127.0.0.9"].map(|from| from.parse().unwrap());
        let stream = connect(&[address], none(), &from, options()).await.unwrap();
        assert_eq!(stream.local_addr().unwrap().ip(), from[2]);
    }

    #[tokio::test]
    async fn addresses_resolved_later_are_tried() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let closed = SocketAddr::from(([127, 0, 0, 1], 1));
        for early in [&[][..], &[closed]] {
            let later = async {
                tokio::task::yield_now().await;
                vec![address]
            };
            let stream = connect(early, later, &[], options()).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), address);
        }
    }

    #[tokio::test]
    async fn idle_connections_are_probed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connected = connect_to(address, None, options()).await.unwrap();
        let (accepted, _) = crate::listen::accept(&listener, Duration::from_secs(40)).await.unwrap();
        for (stream, seconds) in [(&connected, 25), (&accepted, 40)] {
            let socket = SockRef::from(stream);
            assert!(socket.keepalive().unwrap());
            assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(seconds));
        }
    }

    #[tokio::test]
    async fn mapped_address_is_reached_by_ipv4() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mapped =
            SocketAddr::new("::ffff:127.0.0.1".parse().unwrap(), listener.local_addr().unwrap().port());
        let from = ["127.0.0.9".parse().unwrap()];
        for from in [&[][..], &from] {
            let stream = connect(&[mapped], ready(Vec::new()), from, options()).await.unwrap();
            assert!(stream.peer_addr().unwrap().is_ipv4());
        }
    }
}

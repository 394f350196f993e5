//! Datagrams in a stream between two Anabranch proxies. Each frame has its length, the server's address and the payload.

use super::side::{Datagram, Side};
use crate::socks::wire;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

/// Maximum number of bytes that wait for room in the stream: 150 ms at 28 Mbit/s. Further datagrams are dropped.
const MAX_UNSENT_BYTES: usize = 512 << 10;
/// The buffer's written bytes are removed once there are this many. A removal moves all bytes behind them, so
/// removals are rare.
const MAX_WRITTEN_BYTES: usize = 128 << 10;
/// Minimum time between two writes. Datagrams of a fast flow are written together, because each write ends with a segment
/// that is not full: a datagram of QUIC and its frame need a full segment and one of some 40 bytes.
const WRITE_INTERVAL: Duration = Duration::from_millis(2);
/// Maximum number of bytes of one read.
const PIECE_BYTES: usize = 16 << 10;

/// A stream of frames.
pub struct Framed {
    stream: Arc<TcpStream>,
    received: Vec<u8>,
    /// Number of received bytes that have been parsed.
    parsed: usize,
    unsent: Vec<u8>,
    /// Number of bytes of `unsent` that have been written.
    written: usize,
    /// Time from which waiting bytes may be written.
    write_at: Instant,
    /// True if the kernel had no room at the last write.
    is_full: bool,
}

impl Framed {
    /// Creates a side from a stream, and the bytes that have already been read from it.
    pub fn new(stream: Arc<TcpStream>, received: Vec<u8>) -> Self {
        Self {
            stream,
            received,
            parsed: 0,
            unsent: Vec::new(),
            written: 0,
            write_at: Instant::now(),
            is_full: false,
        }
    }

    /// Parses the next frame, if it is complete.
    fn next_frame(&mut self) -> io::Result<Option<Datagram>> {
        let rest = &self.received[self.parsed..];
        match wire::frame(rest) {
            Ok(Some((server, payload))) => {
                let datagram = Datagram { server, payload: rest[payload.clone()].to_vec() };
                self.parsed += payload.end;
                Ok(Some(datagram))
            }
            Ok(None) => {
                self.received.drain(..self.parsed);
                self.parsed = 0;
                if self.received.is_empty() {
                    self.received = Vec::new();
                }
                Ok(None)
            }
            Err(malformed) => Err(io::Error::new(ErrorKind::InvalidData, malformed)),
        }
    }

    /// Reads once.
    fn read(&mut self) -> io::Result<()> {
        let mut piece = [0; PIECE_BYTES];
        match self.stream.try_read(&mut piece) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => {
                self.received.extend_from_slice(&piece[..len]);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Writes as many of the waiting bytes as the kernel takes.
    fn write(&mut self) -> io::Result<()> {
        self.write_at = Instant::now() + WRITE_INTERVAL;
        let written = self.stream.try_write(&self.unsent[self.written..]);
        self.written += *written.as_ref().unwrap_or(&0);
        self.is_full = self.written < self.unsent.len();
        if !self.is_full || self.written >= MAX_WRITTEN_BYTES {
            self.unsent.drain(..self.written);
            self.written = 0;
        }
        match written {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Side for Framed {
    async fn receive(&mut self) -> io::Result<Datagram> {
        loop {
            if let Some(datagram) = self.next_frame()? {
                return Ok(datagram);
            }
            tokio::select! {
                ready = self.stream.readable() => { ready?; self.read()?; }
                ready = self.stream.writable(), if self.is_full => { ready?; self.write()?; }
                () = sleep_until(self.write_at), if !self.unsent.is_empty() && !self.is_full => self.write()?,
            }
        }
    }

    fn send(&mut self, datagram: Datagram) {
        if self.unsent.len() - self.written + datagram.payload.len() <= MAX_UNSENT_BYTES {
            wire::emit_frame(&datagram.server, &datagram.payload, &mut self.unsent);
        }
        // Ignore errors: the next call of `receive` returns the error of the stream.
        if !self.is_full && Instant::now() >= self.write_at {
            drop(self.write());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socks::wire::Target;
    use tokio::net::TcpListener;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let near = TcpStream::connect(listener.local_addr().expect("the socket is bound")).await;
        (near.expect("the server listens"), listener.accept().await.expect("a client").0)
    }

    fn datagram(number: usize, len: usize) -> Datagram {
        let payload = (0..len).map(|at| (at * 7 + number) as u8).collect();
        Datagram { server: Target::Address(([192, 0, 2, 1], number as u16).into()), payload }
    }

    #[tokio::test]
    async fn datagrams_cross_a_stream_unchanged() {
        let (near, far) = pair().await;
        let (mut near, mut far) = (Framed::new(near.into(), Vec::new()), Framed::new(far.into(), Vec::new()));
        for (number, len) in [0, 1, 1200, 65_507, 3].into_iter().enumerate() {
            near.send(datagram(number, len));
            let received = tokio::select! {
                received = far.receive() => received.expect("a frame"),
                failed = near.receive() => panic!("{failed:?}"),
            };
            assert_eq!(received, datagram(number, len));
        }
    }

    #[tokio::test]
    async fn full_stream_drops_whole_datagrams() {
        let (near, far) = pair().await;
        let (mut near, mut far) = (Framed::new(near.into(), Vec::new()), Framed::new(far.into(), Vec::new()));
        for number in 0..20_000 {
            near.send(datagram(number, 1200));
            assert!(near.unsent.len() - near.written <= MAX_UNSENT_BYTES + 1200);
        }
        let mut last = None;
        loop {
            let received = tokio::select! {
                received = far.receive() => received.expect("a frame"),
                failed = near.receive() => panic!("{failed:?}"),
                () = tokio::time::sleep(Duration::from_millis(200)) => break,
            };
            let Target::Address(server) = received.server else { panic!("{received:?}") };
            assert_eq!(received, datagram(server.port().into(), 1200));
            assert!(last < Some(server.port()));
            last = Some(server.port());
        }
        assert!(last < Some(19_999));
    }

    #[tokio::test]
    async fn malformed_frame_ends_the_stream() {
        let (near, far) = pair().await;
        let mut far = Framed::new(far.into(), vec![0, 9, 9, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(far.receive().await.expect_err("a malformed frame").kind(), ErrorKind::InvalidData);
        drop(near);
        let (near, far) = pair().await;
        drop(near);
        let mut far = Framed::new(far.into(), Vec::new());
        assert_eq!(far.receive().await.expect_err("the stream has ended").kind(), ErrorKind::UnexpectedEof);
    }
}

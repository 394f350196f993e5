//! Connections of flows that arrive at the control port.

use super::control::REPLY_TIMEOUT;
use super::frame::{GREETING_BYTES, GREETING_MARK};
use crate::clock::Clock;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A greeting of a flow.
type Greeting = [u8; GREETING_BYTES];

/// The beginning of a connection to the control port.
#[derive(Debug)]
pub enum Beginning {
    /// A flow, with its greeting.
    Flow(Greeting),
    /// A client, with the first bytes of its line.
    Client(Vec<u8>),
}

/// Reads the beginning of a connection.
///
/// # Errors
///
/// If the connection ends, or carries nothing in time.
pub fn beginning(mut stream: &TcpStream) -> io::Result<Beginning> {
    let begun = Clock::new();
    let mut bytes = [0; GREETING_BYTES];
    let mut len = 0;
    loop {
        let compared = len.min(GREETING_MARK.len());
        if bytes[..compared] != GREETING_MARK[..compared] {
            return Ok(Beginning::Client(bytes[..len].to_vec()));
        }
        if len == GREETING_BYTES {
            return Ok(Beginning::Flow(bytes));
        }
        let left = REPLY_TIMEOUT.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match stream.read(&mut bytes[len..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => len += read,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The connections for the test that expects some.
#[derive(Clone, Debug, Default)]
pub struct Arrivals(Arc<Mutex<Option<Expected>>>);

#[derive(Debug)]
struct Expected {
    /// The last bytes of the greetings of its flows.
    cookie: u64,
    give: Sender<(Greeting, TcpStream, SocketAddr)>,
}

/// The expected connections of a test, until this value is dropped.
#[derive(Debug)]
pub struct ExpectedFlows {
    arrivals: Arrivals,
    take: Receiver<(Greeting, TcpStream, SocketAddr)>,
    early: BTreeMap<Greeting, (TcpStream, SocketAddr)>,
}

impl Arrivals {
    fn expected(&self) -> MutexGuard<'_, Option<Expected>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Expects the flows of the test with this cookie.
    pub fn expect(&self, cookie: u64) -> ExpectedFlows {
        let (give, take) = channel();
        *self.expected() = Some(Expected { cookie, give });
        ExpectedFlows { arrivals: self.clone(), take, early: BTreeMap::new() }
    }

    /// True if a test expects flows.
    pub fn are_expected(&self) -> bool {
        self.expected().is_some()
    }

    /// Hands a connection to the test that expects it; false if there is none.
    pub fn deliver(&self, greeting: Greeting, stream: TcpStream, remote: SocketAddr) -> bool {
        let expected = self.expected();
        let Some(expected) = expected.as_ref().filter(|test| greeting.ends_with(&test.cookie.to_le_bytes()))
        else {
            return false;
        };
        expected.give.send((greeting, stream, remote)).is_ok()
    }
}

impl ExpectedFlows {
    /// The connection with this greeting; `None` if it does not arrive in time.
    pub fn wait(&mut self, greeting: &Greeting, timeout: Duration) -> Option<(TcpStream, SocketAddr)> {
        if let Some(found) = self.early.remove(greeting) {
            return Some(found);
        }
        match self.take.recv_timeout(timeout) {
            Ok((found, stream, remote)) if found == *greeting => Some((stream, remote)),
            Ok((other, stream, remote)) => {
                self.early.insert(other, (stream, remote));
                None
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }
}

impl Drop for ExpectedFlows {
    fn drop(&mut self) {
        *self.arrivals.expected() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::greeting;
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("the listener is bound");
        let client = TcpStream::connect(address).expect("the listener accepts");
        (client, listener.accept().expect("the connection is accepted").0)
    }

    #[test]
    fn flows_and_clients_differ_by_first_bytes() {
        let (mut flow, arrived) = pair();
        flow.write_all(&greeting(5, 1)).expect("the connection is open");
        assert!(matches!(beginning(&arrived), Ok(Beginning::Flow(found)) if found == greeting(5, 1)));
        let (mut client, arrived) = pair();
        client.write_all(b"{\"").expect("the connection is open");
        assert!(matches!(beginning(&arrived), Ok(Beginning::Client(bytes)) if bytes == b"{\""));
        let (mut half, arrived) = pair();
        half.write_all(b"ab-m").expect("the connection is open");
        drop(half);
        assert_eq!(beginning(&arrived).expect_err("no greeting").kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn connections_reach_the_test_of_their_cookie() {
        let arrivals = Arrivals::default();
        let remote = SocketAddr::from(([127, 0, 0, 1], 1));
        let deliver = |cookie, flow| arrivals.deliver(greeting(cookie, flow), pair().1, remote);
        assert!(!deliver(5, 0), "no test runs");
        let mut flows = arrivals.expect(5);
        assert!(deliver(5, 1) && deliver(5, 0));
        assert!(!deliver(6, 0), "another test");
        let at_once = Duration::from_millis(1);
        assert!(flows.wait(&greeting(5, 0), at_once).is_none(), "the second flow came first");
        assert!(flows.wait(&greeting(5, 0), at_once).is_some());
        assert!(flows.wait(&greeting(5, 1), at_once).is_some());
        drop(flows);
        assert!(!deliver(5, 0));
    }
}

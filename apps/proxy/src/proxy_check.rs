//! Checks that an Anabranch proxy answers on a connection. A SYN+ACK does not prove that: a captive portal or an
//! accelerator on the link may have sent it.

use super::config::{Expected, Protocol};
use super::convert;
use super::socks;
use std::io;
use tokio::net::TcpStream;

/// Sends the first message of the protocol and reads the answer; returns false if the answer is not from an Anabranch
/// proxy.
///
/// # Errors
/// If the connection breaks.
pub async fn probe_proxy(stream: &TcpStream, expected: Expected) -> io::Result<bool> {
    match expected.protocol {
        Protocol::Socks => socks::probe_socks_proxy(stream, expected.has_user).await,
        Protocol::Convert => convert::probe_converter(stream).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{read_some, write_all};
    use tokio::net::TcpListener;

    /// Checks an answer: true if it is from an Anabranch proxy, `None` if the connection ends.
    async fn accepts_answer(protocol: Protocol, has_user: bool, answer: &'static [u8]) -> Option<bool> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let answering = async {
            let (peer, _) = listener.accept().await.unwrap();
            read_some(&peer, &mut Vec::new()).await.unwrap();
            write_all(&peer, answer).await.unwrap();
        };
        let (result, ()) = tokio::join!(probe_proxy(&stream, Expected { protocol, has_user }), answering);
        result.ok()
    }

    #[tokio::test]
    async fn answers_of_other_programs_are_recognised() {
        const PORTAL: &[u8] = b"HTTP/1.1 302 Found\r\n\r\n";
        for (has_user, answer, expected) in [
            (true, &[5, 0x82][..], Some(true)),
            (false, &[5, 0], Some(true)),
            (true, &[5, 0xff], Some(false)),
            (true, PORTAL, Some(false)),
            (true, b"", None),
        ] {
            assert_eq!(accepts_answer(Protocol::Socks, has_user, answer).await, expected, "{answer:?}");
        }
        assert_eq!(accepts_answer(Protocol::Convert, true, b"\x01\x01\x22\x63").await, Some(true));
        assert_eq!(accepts_answer(Protocol::Convert, true, PORTAL).await, Some(false));
        assert_eq!(accepts_answer(Protocol::Convert, true, b"").await, None);
    }
}

//! Whether a proxy of ours answers on a connection. A SYN+ACK alone may be of a portal or an accelerator on the link.

use super::config::{Expected, Protocol};
use super::convert;
use super::socks;
use std::io;
use tokio::net::TcpStream;

/// Sends the beginning of a conversation, and reads the answer; false if it is another program's.
///
/// # Errors
/// If the connection breaks.
pub async fn is_answered(stream: &TcpStream, expected: Expected) -> io::Result<bool> {
    match expected.protocol {
        Protocol::Socks => socks::is_answered(stream, expected.has_user).await,
        Protocol::Convert => convert::is_answered(stream).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{read_some, write_all};
    use tokio::net::TcpListener;

    /// Whether an answer to the probe of a protocol is one of a proxy of ours.
    async fn judged(protocol: Protocol, has_user: bool, answer: &'static [u8]) -> Option<bool> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let answering = async {
            let (peer, _) = listener.accept().await.unwrap();
            read_some(&peer, &mut Vec::new()).await.unwrap();
            write_all(&peer, answer).await.unwrap();
        };
        let (asked, ()) = tokio::join!(is_answered(&stream, Expected { protocol, has_user }), answering);
        asked.ok()
    }

    #[tokio::test]
    async fn answers_of_other_programs_are_recognised() {
        const PORTAL: &[u8] = b"HTTP/1.1 302 Found\r\n\r\n";
        for (has_user, answer, is_ours) in [
            (true, &[5, 0x82][..], Some(true)),
            (false, &[5, 0], Some(true)),
            (true, &[5, 0xff], Some(false)),
            (true, PORTAL, Some(false)),
            (true, b"", None),
        ] {
            assert_eq!(judged(Protocol::Socks, has_user, answer).await, is_ours, "{answer:?}");
        }
        assert_eq!(judged(Protocol::Convert, true, b"\x01\x01\x22\x63").await, Some(true));
        assert_eq!(judged(Protocol::Convert, true, PORTAL).await, Some(false));
        assert_eq!(judged(Protocol::Convert, true, b"").await, None);
    }
}

//! The kernel's counters of a connection and its subflows: `struct tcp_info` (`linux/tcp.h`) and, for Multipath TCP,
//! arrays of these and of addresses (`linux/mptcp.h`, since Linux 5.16).

use crate::sockopt::{self, is_multipath};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use serde::Serialize;
use std::time::Duration;
use tokio::net::TcpStream;

/// Counters of a subflow, or of a TCP connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Subflow {
    /// Local address.
    pub local: SocketAddr,
    /// Remote address.
    pub remote: SocketAddr,
    /// Smoothed round-trip time, µs.
    pub rtt_us: u32,
    /// Bytes sent and acknowledged. Retransmissions of a byte do not count.
    pub sent_bytes: u64,
    /// Received bytes.
    pub received_bytes: u64,
    /// Retransmitted segments.
    pub retransmitted: u32,
}

/// Returns the subflows of a connection. `is_client` is true if this end opened the connection. The result is empty if
/// the kernel returns none, as after the end of the connection.
pub fn subflows(stream: &TcpStream, is_client: bool) -> Vec<Subflow> {
    let mut subflows = read_subflows(stream);
    // The kernel counts the client's SYN as an acknowledged byte.
    for subflow in &mut subflows {
        subflow.sent_bytes = subflow.sent_bytes.saturating_sub(is_client.into());
    }
    subflows
}

/// Returns the number of established subflows of a Multipath TCP connection, and the longest of their round-trip times.
pub fn established(stream: &TcpStream) -> (u32, Duration) {
    let infos = sockopt::subflow_infos(stream).unwrap_or_default();
    let established = entries(&infos).into_iter().filter(|info| info.first() == Some(&ESTABLISHED));
    let round_trips = established.filter_map(|info| u32_at(info, RTT));
    round_trips.fold((0, Duration::ZERO), |(number, longest), round_trip| {
        (number + 1, longest.max(Duration::from_micros(round_trip.into())))
    })
}

fn read_subflows(stream: &TcpStream) -> Vec<Subflow> {
    if is_multipath(stream) {
        let (infos, addresses) = (sockopt::subflow_infos(stream), sockopt::subflow_addresses(stream));
        // If a subflow is opened or closed between the two calls, this sample is wrong, but the next one is correct.
        return match (infos, addresses) {
            (Ok(infos), Ok(addresses)) => parse_subflows(&infos, &addresses),
            _ => Vec::new(),
        };
    }
    let addresses = stream.local_addr().ok().zip(stream.peer_addr().ok());
    let info = sockopt::tcp_info(stream).ok();
    addresses.zip(info).and_then(|(addresses, info)| subflow(addresses, &info)).into_iter().collect()
}

/// Size of `struct mptcp_subflow_data`. This structure contains its own size, the number of subflows, and the size of
/// an array entry in the kernel and in user space.
const HEAD: usize = 16;

/// Returns the array entries that follow `struct mptcp_subflow_data`.
fn entries(bytes: &[u8]) -> Vec<&[u8]> {
    let Some(number) = u32_at(bytes, 4) else { return Vec::new() };
    let Some(size) = u32_at(bytes, 12).map(|size| size as usize).filter(|&size| size > 0) else {
        return Vec::new();
    };
    bytes.get(HEAD..).unwrap_or_default().chunks_exact(size).take(number as usize).collect()
}

fn parse_subflows(infos: &[u8], addresses: &[u8]) -> Vec<Subflow> {
    let (infos, addresses) = (entries(infos), entries(addresses));
    if infos.len() != addresses.len() {
        return Vec::new();
    }
    let one = |(info, both): (&[u8], &[u8])| {
        // An entry consists of two `struct sockaddr_storage`.
        let (local, remote) = both.split_at_checked(both.len() / 2)?;
        subflow((address(local)?, address(remote)?), info)
    };
    infos.into_iter().zip(addresses).filter_map(one).collect()
}

/// Value of `tcpi_state` after the handshake (`TCP_ESTABLISHED`). It is the first byte of `struct tcp_info`.
const ESTABLISHED: u8 = 1;

/// Offsets of `tcpi_rtt`, `tcpi_total_retrans`, `tcpi_bytes_acked` and `tcpi_bytes_received` in `struct tcp_info`. They
/// are the same in all kernel versions.
const RTT: usize = 68;
const RETRANSMITTED: usize = 100;
const ACKNOWLEDGED: usize = 120;
const RECEIVED: usize = 128;

fn subflow((local, remote): (SocketAddr, SocketAddr), info: &[u8]) -> Option<Subflow> {
    // A closed subflow has no address any more.
    if local.ip().is_unspecified() {
        return None;
    }
    Some(Subflow {
        local,
        remote,
        rtt_us: u32_at(info, RTT)?,
        sent_bytes: u64_at(info, ACKNOWLEDGED)?,
        received_bytes: u64_at(info, RECEIVED)?,
        retransmitted: u32_at(info, RETRANSMITTED)?,
    })
}

fn address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    let ip: IpAddr = match family {
        libc::AF_INET => Ipv4Addr::from(*bytes.get(4..)?.first_chunk::<4>()?).into(),
        libc::AF_INET6 => Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{Transport, open};
    use std::io::{Read, Write};

    /// Opens a connection over loopback; returns its two ends.
    fn pair(transport: Transport) -> Option<(TcpStream, std::net::TcpStream)> {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = open(here, transport).ok()?;
        listener.bind(&here.into()).expect("loopback has a free port");
        listener.listen(1).expect("the socket is bound");
        listener.set_nonblocking(false).expect("the socket accepts the option");
        let client = open(here, transport).ok()?;
        client.set_nonblocking(false).expect("the socket accepts the option");
        client.connect(&listener.local_addr().expect("the socket is bound")).expect("the server listens");
        let server: std::net::TcpStream = listener.accept().expect("a client").0.into();
        client.set_nonblocking(true).expect("the socket accepts the option");
        Some((TcpStream::from_std(client.into()).expect("a runtime"), server))
    }

    #[tokio::test]
    async fn kernel_reports_bytes_of_each_subflow() {
        for transport in [Transport::Tcp, Transport::Mptcp] {
            let Some((client, mut server)) = pair(transport) else { continue };
            client.writable().await.expect("the stream is connected");
            client.try_write(&[7; 1000]).expect("the send buffer has room");
            server.read_exact(&mut [0; 1000]).expect("the bytes were written");
            server.write_all(&[7; 500]).expect("the send buffer has room");
            client.readable().await.expect("the stream is connected");
            // The acknowledgement may still be in flight.
            tokio::time::sleep(Duration::from_millis(100)).await;
            server.set_nonblocking(true).expect("the socket accepts the option");
            // The server's end stays open, because the kernel would count its FIN as a byte.
            let server = TcpStream::from_std(server).expect("a runtime");
            let server_subflows = subflows(&server, false);
            assert_eq!(
                (server_subflows[0].sent_bytes, server_subflows[0].received_bytes),
                (500, 1000),
                "{transport:?}"
            );
            let subflows = subflows(&client, true);
            assert_eq!(subflows.len(), 1, "{transport:?}");
            assert_eq!(subflows[0].local, client.local_addr().unwrap());
            assert_eq!(subflows[0].remote, client.peer_addr().unwrap());
            assert_eq!((subflows[0].sent_bytes, subflows[0].received_bytes), (1000, 500), "{transport:?}");
            assert!(subflows[0].rtt_us > 0);
            let subflows_there = u32::from(transport == Transport::Mptcp && is_multipath(&client));
            assert_eq!(established(&client).0, subflows_there, "{transport:?}");
        }
    }

    #[test]
    fn truncated_arrays_are_ignored() {
        assert!(entries(&[0; 15]).is_empty() && parse_subflows(&[0; 400], &[]).is_empty());
        assert!(address(&[2, 0, 1]).is_none());
        let head = |size: u32| [16_u32, 2, size, size].map(u32::to_ne_bytes).concat();
        assert_eq!(entries(&[head(8), vec![0; 15]].concat()).len(), 1);
    }
}

//! The kernel's state of TCP connections and Multipath TCP subflows, from `sock_diag(7)`.

use crate::netlink::{Lists, attributes, word};
use anabranch_netem::{IpVersion, IpVersions};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use rustix::net::{AddressFamily, netlink};
use std::collections::BTreeMap;
use std::io;

/// Message type of requests and replies (`SOCK_DIAG_BY_FAMILY`).
const BY_FAMILY: u16 = 20;
/// Length of `struct inet_diag_req_v2`.
const REQUEST_BYTES: usize = 56;
/// Length of `struct inet_diag_msg`.
const MESSAGE_BYTES: usize = 72;
/// The attribute with `struct tcp_info` or `struct mptcp_info`, and the bit that requests it.
const INFO_ATTRIBUTE: u16 = 2;
const INFO_BIT: u8 = 1 << (INFO_ATTRIBUTE - 1);
/// The nested attributes with the token of the connection at this end: `INET_DIAG_ULP_INFO`, `INET_ULP_INFO_MPTCP` and
/// `MPTCP_SUBFLOW_ATTR_TOKEN_LOC`.
const TOKEN_ATTRIBUTES: [u16; 3] = [19, 3, 2];
/// The attribute of a request for a protocol without an 8-bit number (`INET_DIAG_REQ_PROTOCOL`).
const REQUEST_PROTOCOL: u16 = 3;
const TCP: u8 = 6;
/// `IPPROTO_RAW` means that the protocol is in the attribute.
const PROTOCOL_IN_ATTRIBUTE: u8 = 255;
const MPTCP: u32 = 262;

/// The requested states: those of established connections.
const ESTABLISHED_STATES: u32 = 1 << ESTABLISHED | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;
const ESTABLISHED: u8 = 1;

/// A socket of the kernel.
#[derive(Clone, Debug)]
pub struct Socket {
    /// Local address and port.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// True if the connection is established, false if it is closing.
    pub established: bool,
    /// For a Multipath TCP subflow: the token of its connection at this end, which the kernel shows to an
    /// administrator.
    pub token: Option<u32>,
    /// `struct tcp_info` or `struct mptcp_info`, in this kernel's length.
    info: Vec<u8>,
}

impl Socket {
    /// A field of `N` bytes at an offset of the information, if this kernel has it.
    fn field<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.info.get(at..at + N)?.try_into().ok()
    }

    fn word(&self, at: usize) -> u32 {
        self.field(at).map_or(0, u32::from_ne_bytes)
    }

    fn long(&self, at: usize) -> u64 {
        self.field(at).map_or(0, u64::from_ne_bytes)
    }

    /// The fields of `struct tcp_info` of `linux/tcp.h`.
    pub fn tcp(&self) -> TcpInfo {
        let mss = u64::from(self.word(16));
        let [unacked, sacked, lost, retransmitted] = [24, 28, 32, 36].map(|at| i64::from(self.word(at)));
        TcpInfo {
            rto_us: self.word(8),
            in_flight: (unacked - sacked - lost + retransmitted).max(0) as u64 * mss,
            // Before the first sample the kernel reports zero.
            srtt_us: Some(self.word(68)).filter(|&srtt| srtt > 0),
            // "Infinite" (`TCP_INFINITE_SSTHRESH`) before the first loss.
            ssthresh: Some(self.word(76))
                .filter(|&segments| segments < 0x7fff_ffff)
                .map(|s| u64::from(s) * mss),
            cwnd: u64::from(self.word(80)) * mss,
            retransmissions: self.word(100).into(),
            bytes_received: self.long(128),
            packets: self.word(136).into(),
            data_packets: self.word(156).into(),
            bytes_sent: self.long(200),
            bytes_repeated: self.long(208),
            timeouts: self.field(240).map(|count| u16::from_ne_bytes(count).into()),
            receive_window_limited_us: self.field(176).map(u64::from_ne_bytes),
            send_buffer_limited_us: self.field(184).map(u64::from_ne_bytes),
        }
    }

    /// Every number of `struct tcp_info` that this kernel has, by name.
    pub fn counters_by_name(&self) -> BTreeMap<String, u64> {
        let value = |&(name, at, len): &(&str, usize, usize)| {
            let bytes = self.info.get(at..at + len)?;
            let value = match *bytes {
                [byte] => byte.into(),
                [low, high] => u16::from_ne_bytes([low, high]).into(),
                _ if len == 4 => self.word(at).into(),
                _ => self.long(at),
            };
            Some((name.to_owned(), value))
        };
        TCP_INFO.iter().filter_map(value).collect()
    }

    /// The fields of `struct mptcp_info` of `linux/mptcp.h`.
    pub fn mptcp(&self) -> MptcpInfo {
        MptcpInfo {
            fallback: self.word(8) & 1 != 0,
            retransmissions: self.word(44).into(),
            bytes_retransmitted: self.long(48),
        }
    }
}

/// The state of a TCP connection or of a subflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Retransmission timeout, microseconds.
    pub rto_us: u32,
    /// Bytes in flight (RFC 6675, "pipe").
    pub in_flight: u64,
    /// Smoothed round-trip time, microseconds; `None` before the first sample.
    pub srtt_us: Option<u32>,
    /// Slow-start threshold, bytes; `None` before the first loss.
    pub ssthresh: Option<u64>,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Retransmitted segments.
    pub retransmissions: u64,
    /// Payload bytes received in order.
    pub bytes_received: u64,
    /// Segments sent.
    pub packets: u64,
    /// Segments sent that carried data.
    pub data_packets: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Those of them that had been sent before: on this path, or, by an own stack, on any.
    pub bytes_repeated: u64,
    /// Retransmission timeouts, from Linux 6.7 on.
    pub timeouts: Option<u64>,
    /// Time for which the peer's receive window kept data from being sent (`tcpi_rwnd_limited`), microseconds, from Linux
    /// 4.10 on.
    pub receive_window_limited_us: Option<u64>,
    /// Time limited by the send buffer (`tcpi_sndbuf_limited`).
    pub send_buffer_limited_us: Option<u64>,
}

/// The state of a Multipath TCP connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MptcpInfo {
    /// True if the connection fell back to TCP.
    pub fallback: bool,
    /// Segments that the connection has reinjected.
    pub retransmissions: u64,
    /// Bytes that the connection has reinjected.
    pub bytes_retransmitted: u64,
}

/// The numbers of `struct tcp_info` (`linux/tcp.h`): name, offset and length in bytes.
const TCP_INFO: &[(&str, usize, usize)] = &[
    ("state", 0, 1),
    ("ca_state", 1, 1),
    ("retransmits", 2, 1),
    ("probes", 3, 1),
    ("backoff", 4, 1),
    ("rto", 8, 4),
    ("ato", 12, 4),
    ("snd_mss", 16, 4),
    ("rcv_mss", 20, 4),
    ("unacked", 24, 4),
    ("sacked", 28, 4),
    ("lost", 32, 4),
    ("retrans", 36, 4),
    ("pmtu", 60, 4),
    ("rcv_ssthresh", 64, 4),
    ("rtt", 68, 4),
    ("rttvar", 72, 4),
    ("snd_ssthresh", 76, 4),
    ("snd_cwnd", 80, 4),
    ("advmss", 84, 4),
    ("reordering", 88, 4),
    ("rcv_rtt", 92, 4),
    ("rcv_space", 96, 4),
    ("total_retrans", 100, 4),
    ("pacing_rate", 104, 8),
    ("max_pacing_rate", 112, 8),
    ("bytes_acked", 120, 8),
    ("bytes_received", 128, 8),
    ("segs_out", 136, 4),
    ("segs_in", 140, 4),
    ("notsent_bytes", 144, 4),
    ("min_rtt", 148, 4),
    ("data_segs_in", 152, 4),
    ("data_segs_out", 156, 4),
    ("delivery_rate", 160, 8),
    ("busy_time", 168, 8),
    ("rwnd_limited", 176, 8),
    ("sndbuf_limited", 184, 8),
    ("delivered", 192, 4),
    ("delivered_ce", 196, 4),
    ("bytes_sent", 200, 8),
    ("bytes_retrans", 208, 8),
    ("dsack_dups", 216, 4),
    ("reord_seen", 220, 4),
    ("rcv_ooopack", 224, 4),
    ("snd_wnd", 228, 4),
    ("rcv_wnd", 232, 4),
    ("rehash", 236, 4),
    ("total_rto", 240, 2),
    ("total_rto_recoveries", 242, 2),
    ("total_rto_time", 244, 4),
];

/// Queries the kernel for the sockets in the network namespace of the thread that opened this.
pub struct Diagnostics {
    lists: Lists,
    versions: IpVersions,
}

impl Diagnostics {
    /// Opens the kernel's socket diagnostics for sockets of these versions of IP.
    ///
    /// # Errors
    ///
    /// If the kernel has no socket diagnostics.
    pub fn open(versions: IpVersions) -> io::Result<Self> {
        Ok(Self { lists: Lists::open(Some(netlink::SOCK_DIAG))?, versions })
    }

    /// All established TCP connections and subflows.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn tcp(&mut self) -> io::Result<Vec<Socket>> {
        self.list(TCP, &[])
    }

    /// All established Multipath TCP connections.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn mptcp(&mut self) -> io::Result<Vec<Socket>> {
        let mut attribute = Vec::new();
        attribute.extend_from_slice(&8_u16.to_ne_bytes());
        attribute.extend_from_slice(&REQUEST_PROTOCOL.to_ne_bytes());
        attribute.extend_from_slice(&MPTCP.to_ne_bytes());
        self.list(PROTOCOL_IN_ATTRIBUTE, &attribute)
    }

    fn list(&mut self, protocol: u8, attributes: &[u8]) -> io::Result<Vec<Socket>> {
        let mut found = Vec::new();
        for version in self.versions.all() {
            let family = match version {
                IpVersion::V4 => AddressFamily::INET,
                IpVersion::V6 => AddressFamily::INET6,
            };
            let mut request = vec![family.as_raw() as u8, protocol, INFO_BIT, 0];
            request.extend_from_slice(&ESTABLISHED_STATES.to_ne_bytes());
            request.resize(REQUEST_BYTES, 0);
            request.extend_from_slice(attributes);
            found.extend(self.lists.read((BY_FAMILY, &request), BY_FAMILY, socket)?);
        }
        Ok(found)
    }
}

/// The socket of a message, if it contains information about its state.
fn socket(message: &[u8]) -> Option<Socket> {
    let (head, rest) = message.split_at_checked(MESSAGE_BYTES)?;
    let end = |port: usize, address: usize| {
        let octets: [u8; 16] = core::array::from_fn(|at| head[address + at]);
        let address: IpAddr = if i32::from(head[0]) == i32::from(AddressFamily::INET.as_raw()) {
            Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]).into()
        } else {
            Ipv6Addr::from(octets).to_canonical()
        };
        SocketAddr::new(address, u16::from_be_bytes([head[port], head[port + 1]]))
    };
    let (_, info) = attributes(rest).find(|(kind, _)| *kind == INFO_ATTRIBUTE)?;
    Some(Socket {
        local: end(4, 8),
        remote: end(6, 24),
        established: head[1] == ESTABLISHED,
        token: nested(rest, &TOKEN_ATTRIBUTES).and_then(|token| word(token, 0)),
        info: info.to_vec(),
    })
}

/// The value of an attribute in nested ones, whose types may have the flag `NLA_F_NESTED`.
fn nested<'a>(bytes: &'a [u8], kinds: &[u16]) -> Option<&'a [u8]> {
    const NESTED_FLAG: u16 = 1 << 15;
    kinds.iter().try_fold(bytes, |bytes, wanted| {
        attributes(bytes).find(|(kind, _)| kind & !NESTED_FLAG == *wanted).map(|(_, value)| value)
    })
}

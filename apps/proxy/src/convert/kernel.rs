//! TCP options of connections to servers. The kernel writes the SYN, so this program can choose only some of its
//! options. The kernel does not return the server's SYN+ACK, so this program knows only some of its options.

use super::TcpOption;
use crate::sockopt::{is_multipath, tcp_info};
use crate::stream::Transport;
use tokio::net::TcpStream;

/// Option kinds (registry "TCP Option Kind Numbers").
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const TIMESTAMPS: u8 = 8;
const MPTCP: u8 = 30;

/// Options that the kernel writes into each SYN if the sysctl is on.
const SYSCTLS: [(u8, &str); 3] = [
    (WINDOW_SCALE, "/proc/sys/net/ipv4/tcp_window_scaling"),
    (SACK_PERMITTED, "/proc/sys/net/ipv4/tcp_sack"),
    (TIMESTAMPS, "/proc/sys/net/ipv4/tcp_timestamps"),
];

/// Lists the option kinds that a client can request for the SYN to a server.
pub fn supported() -> Vec<u8> {
    let is_on = |path: &str| std::fs::read_to_string(path).is_ok_and(|value| value.trim() != "0");
    let always = SYSCTLS.iter().filter(|(_, path)| is_on(path)).map(|(kind, _)| *kind);
    always.chain((Transport::multipath() == Transport::Mptcp).then_some(MPTCP)).collect()
}

/// Selects the transport whose SYN contains the requested options. The kernel chooses the values of the options.
///
/// # Errors
/// The kinds of options that the SYN cannot contain, or cannot contain with the requested value.
pub fn select_transport(options: &[TcpOption], default: Transport) -> Result<Transport, Vec<u8>> {
    if options.is_empty() {
        return Ok(default);
    }
    let supported = supported();
    let has = |option: &TcpOption| supported.contains(&option.kind) && option.value.is_empty();
    let mut others: Vec<u8> =
        options.iter().filter(|option| !has(option)).map(|option| option.kind).collect();
    others.sort_unstable();
    others.dedup();
    let requested = options.iter().any(|option| option.kind == MPTCP);
    if others.is_empty() { Ok(if requested { Transport::Mptcp } else { default }) } else { Err(others) }
}

/// Offsets of `tcpi_options` and of the byte with `tcpi_snd_wscale` in `struct tcp_info`, and the bits of
/// `tcpi_options` (`TCPI_OPT_*`).
const OPTIONS_OFFSET: usize = 5;
const WINDOW_SCALES_OFFSET: usize = 6;
const HAS_TIMESTAMPS: u8 = 1;
const HAS_SACK: u8 = 2;
const HAS_WINDOW_SCALE: u8 = 4;

/// Returns the known options of a server's SYN+ACK: the window scale with its value; timestamps and Multipath TCP
/// without their values. The maximum segment size is omitted.
pub fn syn_ack_options(server: &TcpStream) -> Vec<TcpOption> {
    let mut options = tcp_info(server).map_or_else(|_| Vec::new(), |info| parse_tcp_info(&info));
    if is_multipath(server) {
        options.push(TcpOption { kind: MPTCP, value: Vec::new() });
    }
    options
}

fn parse_tcp_info(info: &[u8]) -> Vec<TcpOption> {
    let (Some(&has), Some(&scales)) = (info.get(OPTIONS_OFFSET), info.get(WINDOW_SCALES_OFFSET)) else {
        return Vec::new();
    };
    // The byte order determines which half of the byte contains the first bit field.
    let scale = if cfg!(target_endian = "little") { scales & 0xf } else { scales >> 4 };
    let all = [
        (HAS_WINDOW_SCALE, WINDOW_SCALE, vec![scale]),
        (HAS_SACK, SACK_PERMITTED, Vec::new()),
        (HAS_TIMESTAMPS, TIMESTAMPS, Vec::new()),
    ];
    all.into_iter()
        .filter(|(bit, ..)| has & bit != 0)
        .map(|(_, kind, value)| TcpOption { kind, value })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(kind: u8, value: &[u8]) -> TcpOption {
        TcpOption { kind, value: value.to_vec() }
    }

    #[test]
    fn options_with_values_are_unsupported() {
        assert_eq!(select_transport(&[], Transport::Tcp), Ok(Transport::Tcp));
        assert_eq!(select_transport(&[option(SACK_PERMITTED, &[])], Transport::Tcp), Ok(Transport::Tcp));
        // The request contains Fast Open, and options whose values the client chose. The error lists each kind once.
        let requested =
            [option(34, &[]), option(WINDOW_SCALE, &[7]), option(34, &[1]), option(SACK_PERMITTED, &[])];
        assert_eq!(select_transport(&requested, Transport::Tcp), Err(vec![WINDOW_SCALE, 34]));
        assert!(supported().iter().all(|kind| *kind > 2));
    }

    #[test]
    fn syn_ack_options_are_read_from_tcp_info() {
        let mut info = [0; 104];
        assert_eq!(parse_tcp_info(&info), []);
        assert_eq!(parse_tcp_info(&[]), []);
        info[OPTIONS_OFFSET] = HAS_SACK | HAS_WINDOW_SCALE | HAS_TIMESTAMPS;
        // The peer's scale (7) and the local scale (10).
        info[WINDOW_SCALES_OFFSET] = if cfg!(target_endian = "little") { 0xa7 } else { 0x7a };
        assert_eq!(
            parse_tcp_info(&info),
            [option(WINDOW_SCALE, &[7]), option(SACK_PERMITTED, &[]), option(TIMESTAMPS, &[])]
        );
    }
}

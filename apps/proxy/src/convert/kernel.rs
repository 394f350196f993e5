//! TCP options, as far as a program may ask the kernel for them and learn of them. It writes the SYN, and hands out neither that
//! of a server's answer nor all that stood in it.

use super::TcpOption;
use crate::sockopt::{is_multipath, tcp_info};
use crate::stream::Transport;
use tokio::net::TcpStream;

/// Kinds of options (registry "TCP Option Kind Numbers").
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const TIMESTAMPS: u8 = 8;
const MPTCP: u8 = 30;

/// Options that the kernel writes into each SYN, by its settings.
const SYSCTLS: [(u8, &str); 3] = [
    (WINDOW_SCALE, "/proc/sys/net/ipv4/tcp_window_scaling"),
    (SACK_PERMITTED, "/proc/sys/net/ipv4/tcp_sack"),
    (TIMESTAMPS, "/proc/sys/net/ipv4/tcp_timestamps"),
];

/// The kinds of options that a client can have in a SYN to a server.
pub fn supported() -> Vec<u8> {
    let is_on = |path: &str| std::fs::read_to_string(path).is_ok_and(|value| value.trim() != "0");
    let always = SYSCTLS.iter().filter(|(_, path)| is_on(path)).map(|(kind, _)| *kind);
    always.chain((Transport::multipath() == Transport::Mptcp).then_some(MPTCP)).collect()
}

/// By what a server is reached so that a SYN has these options, whose values are the kernel's to choose.
///
/// # Errors
/// The kinds of those that it cannot have, or not with the value that is asked for.
pub fn transport(options: &[TcpOption], otherwise: Transport) -> Result<Transport, Vec<u8>> {
    if options.is_empty() {
        return Ok(otherwise);
    }
    let supported = supported();
    let has = |option: &TcpOption| supported.contains(&option.kind) && option.value.is_empty();
    let mut others: Vec<u8> =
        options.iter().filter(|option| !has(option)).map(|option| option.kind).collect();
    others.sort_unstable();
    others.dedup();
    let asked = options.iter().any(|option| option.kind == MPTCP);
    if others.is_empty() { Ok(if asked { Transport::Mptcp } else { otherwise }) } else { Err(others) }
}

/// `tcpi_options` and `tcpi_snd_wscale` in `struct tcp_info`, and their bits (`TCPI_OPT_*`).
const AT_OPTIONS: usize = 5;
const AT_WINDOW_SCALES: usize = 6;
const HAS_TIMESTAMPS: u8 = 1;
const HAS_SACK: u8 = 2;
const HAS_WINDOW_SCALE: u8 = 4;

/// The options of the SYN+ACK by which a server has answered, as far as they are known: that of the window's scale is whole,
/// time stamps and Multipath TCP stand without their values, and the maximum segment size is left out.
pub fn answered(server: &TcpStream) -> Vec<TcpOption> {
    let mut options = tcp_info(server).map_or_else(|_| Vec::new(), |info| in_info(&info));
    if is_multipath(server) {
        options.push(TcpOption { kind: MPTCP, value: Vec::new() });
    }
    options
}

fn in_info(info: &[u8]) -> Vec<TcpOption> {
    let (Some(&has), Some(&scales)) = (info.get(AT_OPTIONS), info.get(AT_WINDOW_SCALES)) else {
        return Vec::new();
    };
    // A field of four bits stands where the machine's order of bits has the first.
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
    fn options_are_for_the_kernel_to_write() {
        assert_eq!(transport(&[], Transport::Tcp), Ok(Transport::Tcp));
        assert_eq!(transport(&[option(SACK_PERMITTED, &[])], Transport::Tcp), Ok(Transport::Tcp));
        // Fast Open's, and values that a client chooses; each kind once.
        let asked =
            [option(34, &[]), option(WINDOW_SCALE, &[7]), option(34, &[1]), option(SACK_PERMITTED, &[])];
        assert_eq!(transport(&asked, Transport::Tcp), Err(vec![WINDOW_SCALE, 34]));
        assert!(supported().iter().all(|kind| *kind > 2));
    }

    #[test]
    fn syn_ack_options_are_read_from_tcp_info() {
        let mut info = [0; 104];
        assert_eq!(in_info(&info), []);
        assert_eq!(in_info(&[]), []);
        info[AT_OPTIONS] = HAS_SACK | HAS_WINDOW_SCALE | HAS_TIMESTAMPS;
        // The peer's scale, and ours.
        info[AT_WINDOW_SCALES] = if cfg!(target_endian = "little") { 0xa7 } else { 0x7a };
        assert_eq!(
            in_info(&info),
            [option(WINDOW_SCALE, &[7]), option(SACK_PERMITTED, &[]), option(TIMESTAMPS, &[])]
        );
    }
}

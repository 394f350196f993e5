//! Finds the IP packet in a frame of a link (<https://www.tcpdump.org/linktypes.html>).

/// Link type of Ethernet in captures.
const ETHERNET: u32 = 1;
const PPP: u32 = 9;
const LINUX_COOKED: u32 = 113;
const LINUX_COOKED_2: u32 = 276;
/// Link types of BSD loopback, in the byte order of the capturing host or of the network.
const LOOPBACKS: [u32; 2] = [0, 108];
/// Link types of IP packets without a frame: raw IP by several numbers, IPv4, IPv6.
const RAW: [u32; 5] = [12, 14, 101, 228, 229];

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN_TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const PPPOE_SESSION: u16 = 0x8864;
const MAX_VLAN_TAGS: usize = 4;

/// The IP packet of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// Captured bytes of the IP packet.
    pub bytes: &'a [u8],
    /// Number of bytes of the frame before the IP packet.
    pub skipped: u32,
    /// The interface within a capture of all interfaces (`tcpdump -i any`); 0 for other captures.
    pub interface: u32,
}

/// True if frames of a link type can be parsed.
pub(crate) fn is_known(link: u32) -> bool {
    matches!(link, ETHERNET | PPP | LINUX_COOKED | LINUX_COOKED_2)
        || LOOPBACKS.contains(&link)
        || RAW.contains(&link)
}

/// The IP packet in a frame; `None` if it carries another protocol or is cut before it.
pub(crate) fn ip(link: u32, frame: &[u8]) -> Option<Frame<'_>> {
    let at = |skipped: usize| {
        let bytes = frame.get(skipped..)?;
        matches!(bytes.first()? >> 4, 4 | 6).then_some(Frame { bytes, skipped: skipped as u32, interface: 0 })
    };
    match link {
        ETHERNET => at(behind_ethernet(frame)?),
        LINUX_COOKED => matches!(word(frame, 14)?, IPV4 | IPV6).then(|| at(16))?,
        LINUX_COOKED_2 => {
            let [high, low] = [word(frame, 4)?, word(frame, 6)?];
            let found = matches!(word(frame, 0)?, IPV4 | IPV6).then(|| at(20))??;
            Some(Frame { interface: u32::from(high) << 16 | u32::from(low), ..found })
        }
        PPP => {
            let start = if frame.starts_with(&[0xff, 0x03]) { 2 } else { 0 };
            is_ppp_ip(word(frame, start)?).then(|| at(start + 2))?
        }
        link if LOOPBACKS.contains(&link) => at(4),
        _ => at(0),
    }
}

/// Number of bytes before the IP packet in an Ethernet frame.
fn behind_ethernet(frame: &[u8]) -> Option<usize> {
    let mut at = 12;
    for _ in 0..=MAX_VLAN_TAGS {
        match word(frame, at)? {
            IPV4 | IPV6 => return Some(at + 2),
            PPPOE_SESSION => return is_ppp_ip(word(frame, at + 8)?).then_some(at + 10),
            tag if VLAN_TAGS.contains(&tag) => at += 4,
            _ => return None,
        }
    }
    None
}

/// True if a PPP protocol number is that of IPv4 or IPv6.
const fn is_ppp_ip(protocol: u16) -> bool {
    matches!(protocol, 0x0021 | 0x0057)
}

fn word(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skipped(link: u32, head: &[u8]) -> Option<u32> {
        let frame = [head, &[0x45, 0, 0, 20]].concat();
        ip(link, &frame).map(|found| found.skipped)
    }

    #[test]
    fn frames_of_each_link_type_are_removed() {
        let ethernet = |tail: &[u8]| skipped(ETHERNET, &[&[0; 12], tail].concat());
        assert_eq!(ethernet(&[8, 0]), Some(14));
        assert_eq!(ethernet(&[0x81, 0, 0, 7, 8, 0]), Some(18));
        assert_eq!(ethernet(&[0x88, 0xa8, 0, 1, 0x81, 0, 0, 7, 0x86, 0xdd]), Some(22));
        assert_eq!(ethernet(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 22, 0, 0x21]), Some(22));
        assert_eq!(ethernet(&[8, 6]), None, "ARP");
        assert_eq!(ethernet(&[0x81, 0, 0, 7].repeat(9)), None);
        assert_eq!(skipped(PPP, &[0xff, 3, 0, 0x21]), Some(4));
        assert_eq!(skipped(LINUX_COOKED, &[[0; 14].as_slice(), &[8, 0]].concat()), Some(16));
        assert_eq!(skipped(0, &[2, 0, 0, 0]), Some(4));
        assert_eq!(skipped(101, &[]), Some(0));
        assert_eq!(skipped(101, &[0x15]), None);
    }

    #[test]
    fn captures_of_all_interfaces_name_the_interface() {
        let mut frame = vec![8, 0, 0, 0, 0, 0, 0, 9];
        frame.resize(20, 0);
        frame.extend([0x60, 0]);
        assert_eq!(ip(LINUX_COOKED_2, &frame).map(|found| found.interface), Some(9));
    }

    #[test]
    fn cut_frames_have_no_packet() {
        for link in [ETHERNET, PPP, LINUX_COOKED, LINUX_COOKED_2, 0, 101] {
            for len in 0..4 {
                assert_eq!(ip(link, &[8, 0, 0, 0][..len]), None);
            }
        }
    }
}

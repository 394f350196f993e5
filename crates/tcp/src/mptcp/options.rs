//! Look-up of options in a segment.

use anabranch_wire::tcp::Segment;
use anabranch_wire::tcp::mptcp::{Capable, Control, Join};

/// The usable `MP_CAPABLE` of a segment: of version 1, with HMAC-SHA256.
pub fn capable(segment: &Segment) -> Option<&Capable> {
    segment.options.mptcp.others.iter().find_map(|option| match option {
        Control::Capable(capable) if capable.version == 1 && capable.hmac_sha256 => Some(capable),
        _ => None,
    })
}

/// True if a segment has an `MP_CAPABLE` of another version than that of the handshake, or without HMAC-SHA256.
pub(super) fn has_unusable_capable(segment: &Segment) -> bool {
    let mut options = segment.options.mptcp.others.iter();
    capable(segment).is_none() && options.any(|option| matches!(option, Control::Capable(_)))
}

/// The `MP_CAPABLE` of a SYN that offers this version or a later one. The version in the answer is the one that both
/// ends use (RFC 8684 §3.1).
pub fn offer(segment: &Segment) -> Option<&Capable> {
    segment.options.mptcp.others.iter().find_map(|option| match option {
        Control::Capable(capable) if capable.version >= 1 && capable.hmac_sha256 => Some(capable),
        _ => None,
    })
}

pub(super) fn join(segment: &Segment) -> Option<&Join> {
    segment.options.mptcp.others.iter().find_map(|option| match option {
        Control::Join(join) => Some(join),
        _ => None,
    })
}

/// Returns true if the sender of a segment still uses Multipath TCP: the segment acknowledges data or contains a
/// signal.
pub(super) fn uses_multipath(segment: &Segment) -> bool {
    let options = &segment.options.mptcp;
    options.dss.is_some_and(|dss| dss.data_ack.is_some()) || !options.others.is_empty()
}

pub(super) fn has_multipath(segment: &Segment) -> bool {
    segment.options.mptcp.dss.is_some() || !segment.options.mptcp.others.is_empty()
}

//! Pairs of addresses without a route.

use core::net::IpAddr;

/// Replaces an address of either host by another on the same interface.
pub(crate) fn renumber(pairs: &mut [(IpAddr, IpAddr)], old: IpAddr, new: IpAddr) {
    for ip in pairs.iter_mut().flat_map(|(local, remote)| [local, remote]) {
        if *ip == old {
            *ip = new;
        }
    }
}

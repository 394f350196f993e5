//! Network control: each subflow sends requests to the routers on its way, in an option of the IP header (Becke2014
//! §8.1.2). The format is our own, and experimental.
//!
//! The first packet with data of a subflow carries a request, and later one packet per interval. The option takes a part
//! of the packet's payload. It has no room for records, so routers change only the ways, and the receiver returns nothing.

use super::connection::Connection;
use crate::tcp::segment_of;
use anabranch_base::time::{Duration, Time};
use anabranch_multipath::PathId;
use anabranch_wire::Packet;
use anabranch_wire::ip::network_option::NetworkOption;
use anabranch_wire::sctp::NetworkControl;

impl Connection {
    /// Bytes of payload that the next packet with data of a subflow may have: the option of a request takes some.
    #[inline]
    pub(super) fn segment_limit(&self, now: Time, index: usize) -> u32 {
        let mss = self.subflows[index].block.mss();
        if self.config.network_control.is_none() { mss } else { mss - self.request_len(now, index) }
    }

    #[cold]
    fn request_len(&self, now: Time, index: usize) -> u32 {
        self.request_due(now, index).unwrap_or_default()
    }

    /// Bytes of the request that is due for the next packet of a subflow, if there is one. A packet has room for it
    /// only if it has the same number of data bytes as well.
    fn request_due(&self, now: Time, index: usize) -> Option<u32> {
        let subflow = &self.subflows[index];
        let len = NetworkOption::request_len(subflow.block.local().is_ipv4());
        let is_due = subflow.request_at <= now
            && index < usize::from(NetworkControl::MAX_PATHS)
            && subflow.block.mss() >= 2 * len;
        is_due.then_some(len)
    }

    /// Puts a request into a packet with `len` bytes of new data of a subflow, if one is due and has room.
    pub(super) fn add_request(&mut self, now: Time, (index, len): (usize, u32), packet: &mut Packet) {
        let Some(interval) = self.config.network_control else { return };
        if len > self.segment_limit(now, index) || self.request_due(now, index).is_none() {
            return;
        }
        self.subflows[index].request_at = now + interval;
        let association = *self.requests.association.get_or_insert_with(|| self.random.next_u32());
        self.requests.sent += 1;
        let request = self.request(association, index);
        segment_of(packet).network_option = Some(Box::new(NetworkOption::Request(request)));
    }

    fn request(&self, association: u32, index: usize) -> NetworkControl {
        let most = usize::from(NetworkControl::MAX_PATHS);
        let others = self.subflows.iter().enumerate().take(most);
        let others = others.filter(|&(other, subflow)| other != index && !subflow.is_dead());
        let window = self.congestion.window(PathId(index as u8));
        let kbit_per_s = |srtt: Duration| (8e-3 * window as f64 / srtt.as_secs_f64().max(1e-6)) as u32;
        NetworkControl {
            association,
            path: index as u8,
            paths: self.subflows.len().min(most) as u8,
            wanted_kbit_per_s: self.subflows[index].block.rtt().srtt().map_or(0, kbit_per_s),
            apart_from: others.fold(0, |mask, (other, _)| mask | 1 << other),
            ..NetworkControl::default()
        }
    }

    /// Counts an option of network control that has arrived.
    #[cold]
    pub(super) fn count_network_option(&mut self, option: &NetworkOption) {
        match option {
            NetworkOption::Request(_) => self.requests.received += 1,
            NetworkOption::Invalid(_) => self.requests.ignored += 1,
        }
    }
}

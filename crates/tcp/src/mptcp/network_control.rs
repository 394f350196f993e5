//! Network control: each subflow sends requests to the routers on its path, in an option of the IP header (Becke2014
//! §8.1.2). The format is our own, and experimental.
//!
//! The first packet with data of a subflow carries a request, and later one packet per interval. The option takes a part
//! of the packet's payload. It has no room for records, so routers change only the routes, and the receiver returns nothing.

use super::connection::Connection;
use crate::tcp::segment_of;
use anabranch_base::time::{Duration, Time};
use anabranch_multipath::PathId;
use anabranch_wire::Packet;
use anabranch_wire::ip::network_option::NetworkOption;
use anabranch_wire::ip::option::IpOption;
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
        let Some(taken) = self.request_due(now, index) else { return };
        if len + taken > self.subflows[index].block.mss() {
            return;
        }
        self.subflows[index].request_at = now + interval;
        let association = *self.requests.association.get_or_insert_with(|| self.random.next_u32());
        self.requests.sent += 1;
        let request = self.request(association, index);
        let option = IpOption::NetworkControl(NetworkOption::Request(request));
        segment_of(packet).ip_option = Some(Box::new(option));
    }

    fn request(&self, association: u32, index: usize) -> NetworkControl {
        let others =
            (0..self.subflows.len()).filter(|&other| other != index && !self.subflows[other].is_dead());
        let srtt = self.subflows[index].block.rtt().srtt();
        let rate = (self.congestion.window(PathId(index as u8)), srtt.map(Duration::as_secs_f64));
        NetworkControl::of_path(association, (index, self.subflows.len()), others, rate)
    }

    /// Counts an option of network control that has arrived.
    #[cold]
    pub(super) fn count_network_option(&mut self, option: &IpOption) {
        match option {
            IpOption::NetworkControl(NetworkOption::Request(_)) => self.requests.received += 1,
            IpOption::NetworkControl(NetworkOption::Invalid(_)) => self.requests.ignored += 1,
            IpOption::SourceRoute(_) => {}
        }
    }
}

//! UDP: one datagram for each message that fits.

use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{
    Arrival, Counters, Delivery, Endpoint, Event, Gauge, Held, Limits, NetworkEvent, PathReport, Reason,
    Report, Write,
};
use anabranch_multipath::PathId;
use anabranch_wire::udp::Datagram;
use anabranch_wire::{Body, Content, Ecn, Packet, Payload};
use core::net::SocketAddr;
use std::collections::VecDeque;

/// One end of a UDP flow.
///
/// A write larger than a packet becomes several datagrams. There is no send buffer: written data is sent immediately.
#[derive(Debug)]
pub struct Udp {
    local: SocketAddr,
    remote: SocketAddr,
    payload_max: u32,
    outgoing: VecDeque<Payload>,
    incoming: VecDeque<Delivery>,
    events: VecDeque<Event>,
    written: u64,
    delivered: u64,
    unread: u64,
    counters: Counters,
    closed: bool,
}

impl Udp {
    /// Creates an end that sends IP packets of at most `mtu` bytes.
    pub fn new(local: SocketAddr, remote: SocketAddr, mtu: u32) -> Self {
        let network = if local.is_ipv4() { 20 } else { 40 };
        Self {
            local,
            remote,
            payload_max: mtu.saturating_sub(network + Datagram::HEADER_LEN).max(1),
            outgoing: VecDeque::new(),
            incoming: VecDeque::new(),
            events: VecDeque::new(),
            written: 0,
            delivered: 0,
            unread: 0,
            counters: Counters::default(),
            closed: false,
        }
    }

    fn end(&mut self, reason: Reason) {
        if !self.closed {
            self.closed = true;
            self.events.push_back(Event::Closed(reason));
        }
    }
}

impl Endpoint for Udp {
    fn handle_packet(&mut self, _: Time, packet: Packet, _: &dyn Content) {
        let Body::Udp(datagram) = packet.body else { return };
        let Payload { offset, len } = datagram.payload;
        let len = u64::from(len);
        self.counters.bytes_received += len;
        self.unread += len;
        self.incoming.push_back(Delivery { unordered: true, ..Delivery::bytes(offset, len) });
        self.events.push_back(Event::Readable);
    }

    fn handle_timeout(&mut self, _: Time) {}

    fn poll_transmit(&mut self, _: Time) -> Option<Packet> {
        let payload = self.outgoing.pop_front()?;
        self.counters.packets_sent += 1;
        self.counters.data_packets_sent += 1;
        self.counters.bytes_sent += u64::from(payload.len);
        Some(Packet {
            source: self.local.ip(),
            destination: self.remote.ip(),
            ecn: Ecn::NotEct,
            body: Body::Udp(Datagram {
                source_port: self.local.port(),
                destination_port: self.remote.port(),
                payload,
            }),
        })
    }

    fn next_timeout(&self) -> Option<Time> {
        None
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn connect(&mut self, _: Time) {
        self.events.push_back(Event::Connected);
    }

    fn send_space(&self) -> u64 {
        if self.closed { 0 } else { u64::MAX }
    }

    fn write(&mut self, _: Time, write: Write) -> u64 {
        if self.closed {
            return 0;
        }
        let mut left = write.len;
        while left > 0 {
            let len = left.min(u64::from(self.payload_max));
            self.outgoing.push_back(Payload::new(self.written, len as u32));
            self.written += len;
            left -= len;
        }
        write.len
    }

    fn readable(&self) -> u64 {
        self.unread
    }

    fn read(&mut self, _: Time, _: u64) -> Option<Delivery> {
        let delivery = self.incoming.pop_front()?;
        self.unread -= delivery.len;
        self.delivered += delivery.len;
        Some(delivery)
    }

    fn close(&mut self, _: Time) {
        self.end(Reason::Closed);
    }

    fn abort(&mut self, _: Time) {
        self.outgoing.clear();
        self.end(Reason::Aborted);
    }

    fn handle_network(&mut self, _: Time, _: NetworkEvent) {}

    fn window_update_due(&self) -> bool {
        false
    }

    fn released(&self) -> u64 {
        self.outgoing.front().map_or(self.written, |payload| payload.offset)
    }

    fn report(&self) -> Report {
        Report {
            paths: self.path(PathId(0)).into_iter().collect(),
            arrivals: vec![Arrival {
                local: self.local,
                remote: self.remote,
                new: self.counters.bytes_received,
            }],
            written: self.written,
            delivered: self.delivered,
            receive_buffer: self.unread,
            ..Report::default()
        }
    }

    fn limits(&self, _: Time) -> Limits {
        Limits::default()
    }

    fn path(&self, path: PathId) -> Option<PathReport> {
        (path.index() == 0).then_some(PathReport {
            id: path,
            local: self.local,
            remote: self.remote,
            gateway: None,
            usable: !self.closed,
            backup: false,
            cwnd: 0,
            ssthresh: u64::MAX,
            srtt: None,
            srtt_min: None,
            delivery_rate_max: None,
            rto: Duration::ZERO,
            outstanding: 0,
            mss: self.payload_max,
            grouping: None,
            counters: self.counters,
        })
    }

    fn gauges(&self, each: &mut dyn FnMut(Gauge)) {
        each(Gauge::default());
    }

    fn held(&self) -> Held {
        Held { bytes: self.unread, reordering: 0 }
    }
}

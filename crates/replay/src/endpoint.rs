//! A connection whose calls are recorded.

use super::call::Call;
use super::tape::Tape;
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::{
    Arrival, Delivery, Endpoint, Event, Gauge, Held, NetworkEvent, PathReport, Placement, Report,
    SchedulingDecision, StreamChange, Write,
};
use anabranch_endpoint::{Limits, WantedPath};
use anabranch_host::ConnectionId;
use anabranch_multipath::PathId;
use anabranch_wire::{Content, Packet};
use core::net::{IpAddr, SocketAddr};

/// Records the calls of an application before the connection gets its next one.
///
/// A host drives its connections itself, so the calls of a driver are forwarded without a record.
pub struct RecordedEndpoint<'a> {
    pub endpoint: &'a mut dyn Endpoint,
    pub id: ConnectionId,
    pub tape: &'a mut Tape,
}

impl Endpoint for RecordedEndpoint<'_> {
    fn write(&mut self, now: Time, write: Write) -> u64 {
        let accepted = self.endpoint.write(now, write);
        self.tape.call_at(now, &Call::Write { id: self.id, write, accepted });
        accepted
    }

    fn read(&mut self, now: Time, max: u64) -> Option<Delivery> {
        let delivery = self.endpoint.read(now, max);
        let got = delivery.map(|delivery| delivery.len);
        self.tape.call_at(now, &Call::Read { id: self.id, max, got });
        delivery
    }

    fn change_streams(&mut self, now: Time, change: StreamChange) -> bool {
        let accepted = self.endpoint.change_streams(now, change.clone());
        self.tape.call_at(now, &Call::ChangeStreams { id: self.id, change, accepted });
        accepted
    }

    fn close(&mut self, now: Time) {
        self.tape.call_at(now, &Call::Close(self.id));
        self.endpoint.close(now);
    }

    fn abort(&mut self, now: Time) {
        self.tape.call_at(now, &Call::Abort(self.id));
        self.endpoint.abort(now);
    }

    fn handle_packet(&mut self, now: Time, packet: Packet, content: &dyn Content) {
        self.endpoint.handle_packet(now, packet, content);
    }

    fn poll_placement(&mut self) -> Option<Placement> {
        self.endpoint.poll_placement()
    }

    fn poll_forgotten(&mut self) -> Option<(u64, u32)> {
        self.endpoint.poll_forgotten()
    }

    fn handle_network(&mut self, now: Time, event: NetworkEvent) {
        self.endpoint.handle_network(now, event);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.endpoint.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        self.endpoint.poll_transmit(now)
    }

    fn next_timeout(&self) -> Option<Time> {
        self.endpoint.next_timeout()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.endpoint.poll_event()
    }

    fn connect(&mut self, now: Time) {
        self.endpoint.connect(now);
    }

    fn send_space(&self) -> u64 {
        self.endpoint.send_space()
    }

    fn readable(&self) -> u64 {
        self.endpoint.readable()
    }

    fn window_update_due(&self) -> bool {
        self.endpoint.window_update_due()
    }

    fn fragments(&self) -> &[(u64, u32)] {
        self.endpoint.fragments()
    }

    fn released(&self) -> u64 {
        self.endpoint.released()
    }

    fn port_wanted(&self) -> Option<(IpAddr, SocketAddr)> {
        self.endpoint.port_wanted()
    }

    fn give_port(&mut self, now: Time, port: Option<u16>) {
        self.endpoint.give_port(now, port);
    }

    fn keep_decisions(&mut self) {
        self.endpoint.keep_decisions();
    }

    fn poll_decision(&mut self) -> Option<SchedulingDecision> {
        self.endpoint.poll_decision()
    }

    fn report(&self) -> Report {
        self.endpoint.report()
    }

    fn arrivals(&self) -> Vec<Arrival> {
        self.endpoint.arrivals()
    }

    fn limits(&self, now: Time) -> Limits {
        self.endpoint.limits(now)
    }

    fn wanted_paths(&self) -> Vec<WantedPath> {
        self.endpoint.wanted_paths()
    }

    fn path(&self, path: PathId) -> Option<PathReport> {
        self.endpoint.path(path)
    }

    fn gauges(&self, each: &mut dyn FnMut(Gauge)) {
        self.endpoint.gauges(each);
    }

    fn held(&self) -> Held {
        self.endpoint.held()
    }

    fn held_by_stream(&self) -> &[u64] {
        self.endpoint.held_by_stream()
    }
}

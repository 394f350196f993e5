//! Events of the scenario: changes of links, of the addresses of hosts, and of flows.

use super::Simulation;
use crate::engine::Datapath;
use crate::engine::datapath::EndId;
use crate::host::{Awaited, RECEIVER, SENDER};
use crate::scenario::model::{Event, FlowEvent, LinkEvent, Subject};
use anabranch_base::time::Time;
use anabranch_multipath::scheduler::KnownPath;
use anabranch_netem::{Interface, InterfaceAddress};
use anabranch_scenario::characteristics;
use anabranch_scenario::measure::{AFTER_EVENT_SPAN, MAX_COUNTED_EVENTS};
use core::net::IpAddr;
use std::sync::Arc;

impl Simulation {
    /// Applies an event of the scenario.
    pub(super) fn apply(&mut self, now: Time, subject: &Subject) {
        match subject {
            Subject::Link(event) => self.change_link(now, event),
            Subject::Flow(FlowEvent { flow, change }) => {
                for connection in self.connections_of(*flow) {
                    self.flows[connection].change(now, change, &mut self.world);
                    for side in [SENDER, RECEIVER] {
                        self.turn(now, connection, side);
                    }
                }
            }
        }
    }

    /// The connections of a flow to which its events apply. A flow with arrivals has several.
    fn connections_of(&self, flow: usize) -> Vec<usize> {
        self.arriving_flows
            .of(flow)
            .map_or_else(|| vec![flow], |arriving_flow| arriving_flow.places().collect())
    }

    /// Starts the measurements after an event, before it is applied.
    pub(super) fn measure_after(&mut self, now: Time, event: &Event) {
        let Self { flows, world, controls, .. } = self;
        let (count, last) = controls.begun;
        if last != Some(now) && count < MAX_COUNTED_EVENTS {
            controls.begun = (count + 1, Some(now));
            controls.spans.push_back(now + AFTER_EVENT_SPAN);
            for flow in flows.iter_mut() {
                flow.set_span(true, &world.hosts);
            }
        }
        match &event.subject {
            Subject::Link(link) if event.sets_state(true) => {
                let ends_outage = self.scenario.outage().is_some_and(|outage| outage.up == event.at);
                for flow in flows {
                    if ends_outage {
                        flow.watch_returns(now, Awaited::OutageEnd, &world.hosts);
                    }
                    flow.watch_returns(now, Awaited::Link(link.link), &world.hosts);
                }
            }
            Subject::Link(_) => {}
            Subject::Flow(event) => flows[event.flow].watch_returns(now, Awaited::Flow, &world.hosts),
        }
    }

    fn change_link(&mut self, now: Time, event: &LinkEvent) {
        let interfaces = [Interface::new(event.link, 0), Interface::new(event.link, 1)];
        if event.renumbers {
            self.renumber(now, interfaces);
        }
        let concerned = &interfaces[event.directions.ends()];
        for change in &event.changes {
            let up = |datapath: &mut Datapath| interfaces.map(|interface| datapath.link(interface).is_up());
            let before = up(&mut self.world.datapath);
            for &direction in concerned {
                self.world.datapath.change(now, direction, change);
            }
            let after = up(&mut self.world.datapath);
            // A host has an address while the address's link direction is up.
            for ((interface, before), after) in interfaces.into_iter().zip(before).zip(after) {
                if before != after {
                    self.address_changed(now, interface, after);
                }
            }
        }
    }

    /// Both ends of a link get new addresses. Packets in flight to the old addresses are lost.
    fn renumber(&mut self, now: Time, interfaces: [Interface; 2]) {
        let up = interfaces.map(|interface| self.world.datapath.link(interface).is_up());
        let in_use = || interfaces.into_iter().zip(up).filter(|(_, up)| *up).map(|(interface, _)| interface);
        for interface in in_use() {
            self.address_changed(now, interface, false);
        }
        let addresses = |run: &mut Self| interfaces.map(|interface| run.addresses(interface)).concat();
        let old = addresses(self);
        self.world.datapath.renumber(interfaces[0].link());
        for (old, new) in old.into_iter().zip(addresses(self)) {
            self.world.hosts.renumber(now, old, new);
            self.flows.iter_mut().for_each(|flow| flow.renumber(old, new));
            self.arriving_flows.renumber(old, new);
        }
        for interface in in_use() {
            self.address_changed(now, interface, true);
        }
    }

    /// The present addresses of an interface.
    fn addresses(&mut self, interface: Interface) -> Vec<IpAddr> {
        let generation = self.world.datapath.generation(interface.link());
        let all = self.world.datapath.network().addresses(interface);
        all.map(|address| self.scenario.address_of(address, generation)).collect()
    }

    /// Removes the addresses of links that start in state down from their hosts, before the first event.
    pub(super) fn remove_addresses_of_down_links(&mut self) {
        for direction in 0..self.world.datapath.directions() {
            let interface = Interface(direction as u32);
            let link = self.world.datapath.link(interface);
            let (is_up, mtu) = (link.is_up(), link.mtu());
            let node = self.world.datapath.network().owner(interface);
            if let Some(host) = self.world.hosts.of_node(node).filter(|_| !is_up) {
                for address in self.addresses(interface) {
                    self.world.hosts.address_changed(Time::ZERO, host, (address, mtu), false);
                }
            }
        }
    }

    /// Passes the present characteristics of paths to the connections whose schedulers need them.
    pub(super) fn inform_schedulers(&mut self, now: Time) {
        let is_informed = self.flows_with_characteristics();
        if !is_informed.contains(&true) {
            return;
        }
        let links = self.scenario.links_after(self.controls.event);
        let model = |hop: Interface| {
            let link = &links[hop.link()];
            if hop.end() == 0 { link.forward.clone() } else { link.reverse.clone() }
        };
        let network = self.world.datapath.network();
        let pairs = characteristics::needed_pairs(&self.scenario, network);
        let found = pairs.into_iter().filter_map(|pair| {
            characteristics::of_path(network, pair, model).map(|information| (pair, information))
        });
        let found: Vec<_> = found.collect();
        let known = found.into_iter().map(|([from, to], information)| KnownPath {
            source: self.present_ip(from),
            destination: self.present_ip(to),
            information,
        });
        let known: Arc<[KnownPath]> = known.collect();
        self.world.hosts.set_known_paths(now, &known);
        self.flows.iter_mut().for_each(|flow| flow.set_known_paths(&known));
        self.arriving_flows.set_known_paths(&known);
        for (flow, _) in is_informed.iter().enumerate().filter(|(_, is)| **is && now > Time::ZERO) {
            for side in [SENDER, RECEIVER] {
                self.turn(now, flow, side);
            }
        }
    }

    fn present_ip(&self, address: InterfaceAddress) -> IpAddr {
        self.scenario.address_of(address, self.world.datapath.generation(address.link()))
    }

    /// Whether the scheduler of each connection needs the characteristics of paths.
    fn flows_with_characteristics(&self) -> Vec<bool> {
        let are_needed = |&flow: &usize| characteristics::are_needed(&self.scenario.flows[flow]);
        self.flow_of.iter().map(are_needed).collect()
    }

    /// Notifies a host of an added or removed address, and processes the output of its flows.
    fn address_changed(&mut self, now: Time, interface: Interface, up: bool) {
        let mtu = self.world.datapath.link(interface).mtu();
        let node = self.world.datapath.network().owner(interface);
        let Some(host) = self.world.hosts.of_node(node) else { return };
        for address in self.addresses(interface) {
            self.world.hosts.address_changed(now, host, (address, mtu), up);
        }
        for index in 0..self.flows.len() {
            let ends = self.world.datapath.network().ends(index);
            for side in [SENDER, RECEIVER] {
                if ends[side] == node {
                    self.turn(now, index, side);
                }
            }
        }
    }

    /// Processes the output of an end of a flow after an event.
    fn turn(&mut self, now: Time, flow: usize, side: usize) {
        self.flows[flow].turn(now, side, &mut self.world);
        let end = (2 * flow + side) as EndId;
        self.relays.turn(now, end, &mut self.flows, &mut self.world);
    }
}

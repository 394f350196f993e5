//! Address reconfiguration (RFC 5061), one request at a time. Requests and answers count with authentication only
//! ([`auth`](super::auth)).
//!
//! An end never takes its last address away. Where both ends change theirs at the same time, the last ones may be such
//! that no route connects them; RFC 5061 has no remedy for that, and the association times out.

use super::common::{Core, violation};
use super::config::Paths;
use super::load::Resend;
use super::open::Open;
use super::origin::Origin;
use super::path::{Heartbeat, Reachability};
use super::reconfiguration::{Change, Pending};
use crate::endpoint::{Event, Reason};
use crate::ends::Address;
use core::net::IpAddr;
use multipath::time::Time;
use std::collections::VecDeque;
use wire::sctp::{Asconf, AsconfAck, Cause, Chunk, Parameter};

impl Open {
    /// This end has a new address, which it uses once the peer knows it.
    pub fn address_new(&mut self, core: &mut Core, now: Time, own: Address) {
        if self.extensions.asconf {
            self.asconf.waiting.push_back(Change::Add(own));
            self.send_request(core, now);
        }
    }

    /// This end has lost an address; the last one stays, as nothing could take its place.
    pub fn address_down(&mut self, core: &mut Core, now: Time, address: IpAddr) {
        if !self.extensions.asconf {
            return;
        }
        if core.own_addresses().any(|own| own == address) && core.local.len() > 1 {
            core.local.retain(|own| own.ip != address);
            for at in 0..core.paths.len() {
                if core.paths[at].local.ip() != address {
                    continue;
                }
                match core.config.paths {
                    Paths::Destination => core.change_source(at),
                    Paths::FullMesh => self.remove_path(core, now, at),
                }
            }
            self.outbound.paths_changed(core);
            self.asconf.waiting.push_back(Change::Delete(address));
        }
        self.send_request(core, now);
    }

    /// The peer has restarted: it has just been told all addresses that were in use, and learns of the others.
    pub fn resume_changes(&mut self, core: &mut Core, now: Time, changes: VecDeque<Change>) {
        if self.extensions.asconf {
            self.asconf.waiting = changes;
            self.asconf.waiting.retain(|change| matches!(change, Change::Add(_)));
            self.send_request(core, now);
        }
    }

    fn send_request(&mut self, core: &mut Core, now: Time) {
        if self.asconf.pending.is_some() {
            return;
        }
        let Some(change) = self.asconf.waiting.pop_front() else { return };
        let serial = self.asconf.next;
        self.asconf.next = serial.add(1);
        core.totals.asconf_requests += 1;
        let at = core.preferred();
        self.transmit_request(core, Pending { serial, change, at, due: now + core.timeout_on(at) });
    }

    fn transmit_request(&mut self, core: &mut Core, pending: Pending) {
        let Pending { serial, change, at, .. } = pending;
        self.asconf.pending = Some(pending);
        let correlation = serial.0;
        let parameter = match change {
            Change::Add(own) => Parameter::AddAddress { correlation, address: own.ip },
            Change::Delete(address) => Parameter::DeleteAddress { correlation, address },
        };
        let address = core.paths[at].local.ip();
        let asconf = Asconf { serial, address, parameters: vec![parameter] };
        core.send_control(at, self.peer_tag, Chunk::Asconf(Box::new(asconf)));
    }

    /// T4 has run out: the request goes out again, on another path if there is one (RFC 5061 §5.1.1).
    pub fn handle_asconf_timeout(&mut self, core: &mut Core, now: Time) {
        let Some(pending) = self.asconf.pending.filter(|pending| pending.due <= now) else { return };
        core.paths[pending.at].rtt.back_off();
        core.path_error(now, pending.at);
        core.evacuate();
        let n = core.paths.len();
        let others = (1..=n).map(|step| (pending.at + step) % n);
        let at = others.into_iter().find(|&at| core.paths[at].active()).unwrap_or_else(|| core.preferred());
        self.transmit_request(core, Pending { at, due: now + core.timeout_on(at), ..pending });
    }

    pub fn handle_asconf_ack(&mut self, core: &mut Core, now: Time, ack: &AsconfAck) -> Option<Reason> {
        let Some(pending) = self.asconf.pending.filter(|pending| pending.serial == ack.serial) else {
            // RFC 5061 §5.3: an answer to what was never asked ends the association.
            let never = !ack.serial.before(self.asconf.next);
            return never.then(|| self.refuse(core, Cause::IllegalAsconfAck));
        };
        core.errors = 0;
        self.asconf.pending = None;
        let failed = ack.parameters.iter().any(|p| matches!(p, Parameter::ErrorCause { .. }));
        core.totals.asconf_confirmed += u64::from(!failed);
        if let Change::Add(own) = pending.change
            && !failed
            && !core.own_addresses().any(|known| known == own.ip)
        {
            core.local.push(own);
            if core.config.paths == Paths::FullMesh {
                self.add_pairs(core, now, own.ip);
            }
        }
        self.send_request(core, now);
        None
    }

    /// A new local address makes a pair with every remote one.
    fn add_pairs(&mut self, core: &mut Core, now: Time, local: IpAddr) {
        let mut remotes: Vec<IpAddr> = Vec::new();
        for path in core.paths.iter().filter(|path| path.reachability != Reachability::Removed) {
            if !remotes.contains(&path.remote.ip()) && path.remote.is_ipv4() == local.is_ipv4() {
                remotes.push(path.remote.ip());
            }
        }
        for remote in remotes {
            core.add_path(local, remote);
        }
        self.probe_new(core, now);
    }

    /// Paths that nobody has tried yet get a heartbeat.
    pub fn probe_new(&mut self, core: &mut Core, now: Time) {
        for path in &mut core.paths {
            if path.reachability == Reachability::Unconfirmed && matches!(path.heartbeat, Heartbeat::Off) {
                path.heartbeat = Heartbeat::Idle { due: now };
            }
        }
        self.outbound.paths_changed(core);
    }

    /// Answers the peer's requests (RFC 5061 §5.2).
    pub fn handle_asconf(&mut self, core: &mut Core, now: Time, origin: Origin, asconf: &Asconf) {
        if asconf.serial == self.asconf.expected {
            let mut parameters = Vec::new();
            for parameter in &asconf.parameters {
                if let Some(answer) = self.carry_out(core, now, origin, parameter) {
                    parameters.push(answer);
                }
            }
            self.asconf.expected = asconf.serial.add(1);
            self.asconf.answer = Some(AsconfAck { serial: asconf.serial, parameters });
        } else if asconf.serial.add(1) != self.asconf.expected {
            return;
        }
        if let Some(answer) = self.asconf.answer.clone() {
            core.out.push_back(origin.reply(self.peer_tag, Chunk::AsconfAck(answer)));
        }
    }

    fn carry_out(
        &mut self,
        core: &mut Core,
        now: Time,
        origin: Origin,
        request: &Parameter,
    ) -> Option<Parameter> {
        let meant = |address: &IpAddr| if address.is_unspecified() { origin.source } else { *address };
        let done = |correlation| Some(Parameter::Success { correlation });
        match request {
            Parameter::AddAddress { correlation, address } => {
                core.learn_remote(meant(address));
                self.probe_new(core, now);
                done(*correlation)
            }
            Parameter::DeleteAddress { correlation, address } => {
                // The wildcard means all but the source (RFC 5061 §4.2.2).
                let all = address.is_unspecified();
                let goes = |remote: IpAddr| if all { remote != origin.source } else { remote == *address };
                let mut remotes = core.paths.iter().filter(|p| p.reachability != Reachability::Removed);
                let causes = if *address == origin.source {
                    vec![Cause::DeleteSourceAddress(request.to_bytes())]
                } else if remotes.all(|path| goes(path.remote.ip())) {
                    vec![Cause::DeleteLastAddress(request.to_bytes())]
                } else {
                    for at in 0..core.paths.len() {
                        if goes(core.paths[at].remote.ip()) {
                            self.remove_path(core, now, at);
                        }
                    }
                    return done(*correlation);
                };
                Some(Parameter::ErrorCause { correlation: *correlation, causes })
            }
            Parameter::SetPrimary { correlation, address } => {
                let address = meant(address);
                match core.paths.iter().position(|path| path.remote.ip() == address && path.active()) {
                    Some(at) => {
                        core.primary = at;
                        done(*correlation)
                    }
                    None => Some(Parameter::ErrorCause {
                        correlation: *correlation,
                        causes: vec![violation("the address is not in use")],
                    }),
                }
            }
            _ => None,
        }
    }

    /// A path goes for good; what was in flight on it goes out on the others.
    fn remove_path(&mut self, core: &mut Core, now: Time, at: usize) {
        if core.paths[at].reachability == Reachability::Removed {
            return;
        }
        let path = &mut core.paths[at];
        let id = path.id;
        let was_active = path.active();
        path.reachability = Reachability::Removed;
        (path.heartbeat, path.retransmission_timer, path.recovery) = (Heartbeat::Off, None, None);
        path.suspect = None;
        path.watch.clear();
        let flights = core::mem::take(&mut path.order);
        for flight in flights {
            if self.outbound.sent.live(flight, at as u8) {
                self.outbound.lose(core, flight.tsn, Resend::Timeout);
                core.paths[at].resend.insert(flight.tsn);
            }
        }
        core.congestion.remove_path(id);
        if was_active {
            core.events.push_back(Event::PathDown(id));
        }
        if core.primary == at {
            core.primary = core.preferred();
        }
        core.evacuate();
        core.verify_paths(now, self.peer_tag);
    }
}

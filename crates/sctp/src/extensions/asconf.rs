//! Address reconfiguration (RFC 5061), one request at a time. Requests and responses are accepted only with
//! authentication ([`auth`](super::auth)).
//!
//! An endpoint never deletes its last address. If both endpoints change addresses at the same time, there may
//! be no route between the remaining addresses. RFC 5061 does not solve this case, and the association times
//! out.

use super::address_changes::AddressChange;
use crate::common::{Core, violation};
use crate::config::{Paths, is_routed};
use crate::open::Open;
use crate::origin::Origin;
use crate::path::state::{Heartbeat, Reachability};
use crate::requests::{Pending, Sent};
use crate::totals::RetransmissionReason;
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::{Event, Reason};
use anabranch_endpoint::ends::Address;
use anabranch_wire::sctp::{Asconf, AsconfAck, Cause, Chunk, Parameter};
use core::net::IpAddr;
use std::collections::VecDeque;

impl Open {
    /// The host has a new address. The association uses it after the peer has confirmed it.
    pub fn address_new(&mut self, core: &mut Core, now: Time, own: Address) {
        if !self.extensions.asconf {
            return;
        }
        self.asconf.requests.waiting.push_back(AddressChange::Add(own));
        // No earlier request could leave the host, so a pending one is not waited for.
        if !core.can_send(core.preferred()) {
            self.transmit_request(core, now, core.preferred());
        }
        self.send_request(core, now);
    }

    /// The host has lost an address. The last address is never deleted. If the peer does not support ASCONF, all
    /// addresses are kept, because the interface may return.
    pub fn address_down(&mut self, core: &mut Core, now: Time, address: IpAddr) {
        if !self.extensions.asconf {
            core.interface_down(now, address);
            return;
        }
        if core.own_addresses().any(|own| own == address) && core.local.len() > 1 {
            core.local.retain(|own| own.ip != address);
            for at in 0..core.paths.len() {
                if core.paths[at].local.ip() != address {
                    continue;
                }
                match core.config.paths {
                    Paths::Destination => core.leave_source(now, at),
                    Paths::FullMesh => self.remove_path(core, now, at),
                }
            }
            self.outbound.paths_changed(core);
            self.asconf.requests.waiting.push_back(AddressChange::Delete(address));
        }
        self.send_request(core, now);
    }

    /// Resumes pending changes after a restart of the peer. The handshake has just listed all addresses in use;
    /// requests report the others.
    pub fn resume_changes(&mut self, core: &mut Core, now: Time, changes: VecDeque<AddressChange>) {
        if self.extensions.asconf {
            let added = changes.into_iter().filter(|change| matches!(change, AddressChange::Add(_)));
            self.asconf.requests.waiting = added.collect();
            self.send_request(core, now);
        }
    }

    fn send_request(&mut self, core: &mut Core, now: Time) {
        if self.asconf.requests.begin() {
            core.totals.asconf_requests += 1;
            self.transmit_request(core, now, core.preferred());
        }
    }

    pub fn transmit_request(&mut self, core: &mut Core, now: Time, at: usize) {
        let Some(Pending { serial, change, sent }) = &mut self.asconf.requests.pending else { return };
        *sent = Some(Sent { at, due: now + core.timeout_on(at), what: () });
        let (serial, correlation) = (*serial, serial.0);
        let parameter = match *change {
            AddressChange::Add(own) => Parameter::AddAddress { correlation, address: own.ip },
            AddressChange::Delete(address) => Parameter::DeleteAddress { correlation, address },
        };
        let address = core.paths[at].local.ip();
        let asconf = Asconf { serial, address, parameters: vec![parameter] };
        let source = self.request_source(core, at);
        core.send_control_from(source, at, self.peer_tag, Chunk::Asconf(Box::new(asconf)));
    }

    /// The source of a request on a path: while the path's interface cannot send, a new address that is to be added. The
    /// peer finds the association by its tag, and answers to the source (RFC 5061 §5.2).
    fn request_source(&self, core: &Core, at: usize) -> IpAddr {
        let (own, remote) = (core.paths[at].local.ip(), core.paths[at].remote.ip());
        if core.can_send(at) {
            return own;
        }
        let requests = &self.asconf.requests;
        let changes = requests.pending.iter().map(|pending| &pending.change).chain(&requests.waiting);
        let mut new = changes.filter_map(|change| match change {
            AddressChange::Add(new) => Some(new.ip),
            AddressChange::Delete(_) => None,
        });
        let reaches = |new: &IpAddr| {
            new.is_ipv4() == remote.is_ipv4()
                && is_routed(&core.config, *new, remote)
                && !core.down.contains(new)
        };
        new.rfind(reaches).unwrap_or(own)
    }

    /// Timeout of T4: retransmits the request, over another path if there is one (RFC 5061 §5.1.1).
    pub fn handle_asconf_timeout(&mut self, core: &mut Core, now: Time) {
        let Some(Pending { sent: Some(Sent { at, due, .. }), .. }) = self.asconf.requests.pending else {
            return;
        };
        if due <= now {
            core.request_lost(now, at);
            let next = core.path_after(at, |other| core.paths[other].active());
            self.transmit_request(core, now, next);
        }
    }

    pub fn handle_asconf_ack(&mut self, core: &mut Core, now: Time, ack: &AsconfAck) -> Option<Reason> {
        let requests = &mut self.asconf.requests;
        let Some(pending) = requests.pending.take_if(|pending| pending.serial == ack.serial) else {
            // RFC 5061 §5.3: a response to a request that was never sent ends the association.
            let never = !requests.has_asked(ack.serial);
            return never.then(|| self.refuse(core, Cause::IllegalAsconfAck));
        };
        let failed = ack.parameters.iter().any(|p| matches!(p, Parameter::ErrorCause { .. }));
        core.totals.asconf_confirmed += u64::from(!failed);
        if let AddressChange::Add(own) = pending.change
            && !failed
            && !core.own_addresses().any(|known| known == own.ip)
        {
            core.local.push(own);
            if core.config.paths == Paths::FullMesh {
                self.add_pairs(core, now, own.ip);
            } else {
                self.interface_up(core, now, (own.ip, true));
            }
        }
        self.send_request(core, now);
        None
    }

    /// Adds a path between a new local address and each remote address.
    fn add_pairs(&mut self, core: &mut Core, now: Time, local: IpAddr) {
        let mut remotes: Vec<IpAddr> = Vec::new();
        for path in core.paths.iter().filter(|path| path.reachability != Reachability::Removed) {
            if !remotes.contains(&path.remote.ip()) && path.remote.is_ipv4() == local.is_ipv4() {
                remotes.push(path.remote.ip());
            }
        }
        for remote in remotes {
            if is_routed(&core.config, local, remote) {
                core.add_path(local, remote);
            }
        }
        self.probe_new(core, now);
    }

    /// Sends a heartbeat on each path that has not been probed yet.
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
        if self.asconf.requests.accept(asconf.serial) {
            let mut parameters = Vec::new();
            for parameter in &asconf.parameters {
                if let Some(answer) = self.apply_request(core, now, origin, parameter) {
                    parameters.push(answer);
                }
            }
            self.asconf.answer = Some(AsconfAck { serial: asconf.serial, parameters });
        } else if asconf.serial != self.asconf.requests.accepted() {
            return;
        }
        if let Some(answer) = self.asconf.answer.clone() {
            core.out.push_back(origin.reply(self.peer_tag, Chunk::AsconfAck(answer)));
        }
    }

    fn apply_request(
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
                // The same limits apply as to the addresses in the peer's INIT.
                if core.can_use(meant(address), origin.source) {
                    core.learn_remote(meant(address));
                }
                self.probe_new(core, now);
                done(*correlation)
            }
            Parameter::DeleteAddress { correlation, address } => {
                // The wildcard address stands for all addresses except the source (RFC 5061 §4.2.2).
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

    /// Removes a path permanently; its data in flight is retransmitted on the other paths.
    fn remove_path(&mut self, core: &mut Core, now: Time, at: usize) {
        if core.paths[at].reachability == Reachability::Removed {
            return;
        }
        let path = &mut core.paths[at];
        let id = path.id;
        let was_active = path.active();
        path.reachability = Reachability::Removed;
        (path.heartbeat, path.retransmission_timer, path.recovery) = (Heartbeat::Off, None, None);
        path.suspect = false;
        path.watch.clear();
        let flights = core::mem::take(&mut path.order);
        for flight in flights {
            if self.outbound.sent.live(flight, at as u8) {
                self.outbound.lose(core, flight.tsn, RetransmissionReason::Timeout);
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
        core.move_lost_chunks();
        core.verify_paths(now, self.peer_tag);
    }
}

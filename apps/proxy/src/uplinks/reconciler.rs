//! Makes the rules, routes and endpoints in the kernel equal to the plan.

use super::budget::{Budgets, today};
use super::endpoints::{KernelEndpoint, PathManager};
use super::netlink::Socket;
use super::parts::{Endpoint, FIRST_ID, MAX_ENDPOINTS, NextHop, Parts, Route};
use super::plan::{Plan, Remembered, State, plan, remember};
use super::routing;
use super::view::View;
use crate::config::{Uplink, Uplinks};
use crate::error::Error;
use crate::log;
use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Before this program raises the limit of further subflows, it stores the old limit as the metric of a
/// route: this constant plus the old limit.
const LIMIT_METRIC: u32 = 1000;

/// Keeps the rules, routes and endpoints in the kernel equal to the plan.
#[derive(Debug)]
pub struct Reconciler {
    uplinks: Vec<Uplink>,
    table: u32,
    routes: Socket,
    manager: PathManager,
    budgets: Budgets,
    remembered: Remembered,
    before: View,
    states: BTreeMap<(String, Option<IpAddr>), State>,
    refused: BTreeSet<String>,
    next_id: u8,
    open: BTreeMap<IpAddr, String>,
}

impl Reconciler {
    /// Reads the state of the kernel. Takes over rules, routes and endpoints of an earlier process that was killed.
    ///
    /// # Errors
    ///
    /// If the kernel has no path manager, another program uses the tables, or the volumes of uplinks cannot be read.
    pub fn new(uplinks: Vec<Uplink>, common: &Uplinks) -> Result<Self, Error> {
        let mut routes = Socket::open(None).map_err(unexpected_answer)?;
        let mut manager = PathManager::open().map_err(|error| {
            Error::Refused(format!(
                "the kernel has no path manager for Multipath TCP: {error}; see: anabranch-proxy check"
            ))
        })?;
        let table = *common.table.as_ref();
        let view = View::read(&mut routes, &mut manager).map_err(unexpected_answer)?;
        let tables = table..=table + uplinks.len() as u32;
        if let Some(taken) = view.foreign_tables.iter().find(|taken| tables.contains(taken)) {
            return Err(Error::Refused(format!(
                "table {taken} is in use by another program (see: ip rule; ip route show table {taken}); set another in [uplinks], \
                such as table = {}",
                table + 100
            )));
        }
        let budgets = Budgets::read(&uplinks, common)?;
        let mut remembered = Remembered::new();
        for route in &view.installed.routes {
            if let NextHop::Interface { link, .. } = route.next_hop {
                remembered.insert((link, route.v4), route.next_hop);
            }
        }
        let next_id =
            view.endpoints.iter().map(|known| known.id).max().map_or(FIRST_ID, |id| id.saturating_add(1));
        let (before, states, refused) = (view, BTreeMap::new(), BTreeSet::new());
        let open = BTreeMap::new();
        Ok(Self {
            uplinks,
            table,
            routes,
            manager,
            budgets,
            remembered,
            before,
            states,
            refused,
            next_id,
            open,
        })
    }

    /// Compares the kernel's state with the plan and corrects it; returns true if there was a difference. Uplinks with
    /// addresses in `silent` are considered dead.
    ///
    /// # Errors
    /// If the kernel's answer is unexpected.
    pub fn reconcile(&mut self, silent: &BTreeSet<IpAddr>) -> Result<bool, Error> {
        let view = View::read(&mut self.routes, &mut self.manager).map_err(unexpected_answer)?;
        remember(&mut self.remembered, &self.before, &view);
        self.budgets.count(&self.uplinks, &view.links, today());
        self.budgets.log_changes(&self.uplinks);
        self.budgets.store(false);
        let uplinks: Vec<_> =
            self.uplinks.iter().map(|uplink| (uplink, self.budgets.usage(uplink))).collect();
        let Plan { mut parts, states, open } = plan(&uplinks, self.table, &view, &self.remembered, silent);
        self.open = open;
        let wanted = parts.endpoints.len().min(MAX_ENDPOINTS) as u32;
        let raised = (view.limit < wanted).then_some(wanted);
        // The limit before this program raised it is stored in the kernel, so that it can be restored even if this
        // process is killed.
        let before = self.former_limit(&view).or(raised.map(|_| view.limit));
        let limit_route = |limit| Route {
            v4: true,
            table: self.table,
            next_hop: NextHop::Throw,
            metric: LIMIT_METRIC + limit,
        };
        parts.routes.extend(before.map(limit_route));
        let changed = self.apply(&view, &parts, raised);
        self.log_changed_states(states);
        self.before = view;
        Ok(changed)
    }

    /// Returns the addresses from which packets can be sent, each with its interface. Probes are sent from all of them,
    /// including those from which earlier probes had no answer.
    pub const fn open(&self) -> &BTreeMap<IpAddr, String> {
        &self.open
    }

    /// Removes all rules, routes and endpoints of this program.
    ///
    /// # Errors
    /// If the kernel's answer is unexpected.
    pub fn remove_all(&mut self) -> Result<(), Error> {
        let view = View::read(&mut self.routes, &mut self.manager).map_err(unexpected_answer)?;
        self.budgets.count(&self.uplinks, &view.links, today());
        self.budgets.store(true);
        let before = self.former_limit(&view);
        self.apply(&view, &Parts::default(), before);
        Ok(())
    }

    /// Returns the limit of further subflows before this program raised it, from the route that stores it.
    fn former_limit(&self, view: &View) -> Option<u32> {
        let mut notes = view
            .installed
            .routes
            .iter()
            .filter(|route| route.next_hop == NextHop::Throw && route.table == self.table);
        notes.next()?.metric.checked_sub(LIMIT_METRIC)
    }

    /// Makes the rules, routes and endpoints of this program in the kernel equal to the plan. An endpoint is recognized
    /// by the rule for its address, so endpoints are added after their rules and removed before them.
    fn apply(&mut self, view: &View, planned: &Parts, limit: Option<u32>) -> bool {
        let installed = &view.installed;
        for route in installed.routes.difference(&planned.routes) {
            let removed = routing::remove_route(&mut self.routes, route);
            self.log_refusal(&route.command("del", &|link| view.name(link)), removed.err());
        }
        for route in planned.routes.difference(&installed.routes) {
            let added = routing::add_route(&mut self.routes, route);
            self.log_refusal(&route.command("add", &|link| view.name(link)), added.err());
        }
        for rule in planned.rules.difference(&installed.rules) {
            let added = routing::add_rule(&mut self.routes, rule);
            self.log_refusal(&rule.command("add"), added.err());
        }
        if let Some(limit) = limit {
            let refused = self.manager.set_limit(limit).err();
            self.log_refusal(&format!("ip mptcp limits set subflow {limit}"), refused);
        }
        self.apply_endpoints(view, &planned.endpoints);
        for rule in installed.rules.difference(&planned.rules) {
            let removed = routing::remove_rule(&mut self.routes, rule);
            self.log_refusal(&rule.command("del"), removed.err());
        }
        installed != planned
    }

    /// Adds new endpoints and then removes old ones, so that connections always have a subflow. If an address remains
    /// but its endpoint changes, the endpoint is removed first, because an address can have only one.
    fn apply_endpoints(&mut self, view: &View, planned: &BTreeSet<Endpoint>) {
        let known = |endpoint: &Endpoint| {
            let id = view.id(endpoint.address)?;
            Some(KernelEndpoint { id, endpoint: *endpoint })
        };
        let mut old: Vec<_> = view.installed.endpoints.difference(planned).copied().collect();
        for endpoint in planned.difference(&view.installed.endpoints) {
            let same = old.iter().position(|old| old.address == endpoint.address);
            let Some(same) = same.map(|at| old.swap_remove(at)) else {
                let added = self.add_endpoint(view, *endpoint);
                self.log_refusal(&endpoint.command(0, &|link| view.name(link)), added.err());
                continue;
            };
            let changed = match known(endpoint) {
                Some(known) if same.link == endpoint.link => self.manager.set_backup(known),
                Some(old) => self.manager.remove(old).and_then(|()| self.add_endpoint(view, *endpoint)),
                None => Ok(()),
            };
            self.log_refusal(&endpoint.command(0, &|link| view.name(link)), changed.err());
        }
        for known in old.iter().filter_map(known) {
            let removed = self.manager.remove(known);
            self.log_refusal(&format!("ip mptcp endpoint del id {}", known.id), removed.err());
        }
    }

    /// Adds an endpoint with an unused identifier. Identifiers that were used recently are avoided, because the peer
    /// may still use them.
    fn add_endpoint(&mut self, view: &View, endpoint: Endpoint) -> io::Result<()> {
        let used: BTreeSet<u8> = view.endpoints.iter().map(|known| known.id).collect();
        let after = (self.next_id.max(FIRST_ID)..=u8::MAX).chain(FIRST_ID..=u8::MAX);
        let id = after.into_iter().find(|id| !used.contains(id)).ok_or(io::ErrorKind::QuotaExceeded)?;
        self.next_id = id.checked_add(1).unwrap_or(FIRST_ID);
        self.manager.add(KernelEndpoint { id, endpoint })
    }

    /// Logs that the kernel refuses a command, once until the command succeeds.
    fn log_refusal(&mut self, command: &str, refused: Option<io::Error>) {
        match refused {
            None => drop(self.refused.remove(command)),
            Some(error) => {
                if self.refused.insert(command.to_owned()) {
                    log::log_line(format_args!("uplinks: the kernel refuses: {command}: {error}"));
                }
            }
        }
    }

    /// Logs the states of uplinks that have changed.
    fn log_changed_states(&mut self, states: BTreeMap<(String, Option<IpAddr>), State>) {
        for (place, state) in &states {
            if self.states.get(place) != Some(state) {
                log_state(place, &state.to_string());
            }
        }
        let removed = self.states.keys().filter(|place| !states.contains_key(*place) && place.1.is_some());
        for place in removed {
            log_state(place, "removed");
        }
        self.states = states;
    }
}

fn log_state((name, address): &(String, Option<IpAddr>), state: &str) {
    let address = address.map_or_else(String::new, |address| format!(" {address}"));
    log::log_line(format_args!("uplinks: {name}{address}: {state}"));
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn unexpected_answer(error: io::Error) -> Error {
    Error::Refused(format!("unexpected answer from the kernel: {error}"))
}

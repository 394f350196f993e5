//! Keeps rules, routes and endpoints in the kernel equal to the plan.

use super::budget::{Budgets, today};
use super::endpoints::{Known, PathManager};
use super::netlink::Socket;
use super::parts::{Endpoint, FIRST_ID, MAX_ENDPOINTS, Parts, Route, Way};
use super::plan::{Plan, Remembered, State, plan, remember};
use super::routing;
use super::view::View;
use crate::config::{Uplink, Uplinks};
use crate::error::Error;
use crate::log;
use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// The metric of the route that notes how many further subflows connections might have before: this, and that number.
const NOTE_METRIC: u32 = 1000;

/// All that is known while care is taken.
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
    /// Reads the state of the kernel. The remains of a process that was killed are taken over.
    ///
    /// # Errors
    ///
    /// If the kernel has no path manager, another program uses the tables, or the volumes of uplinks cannot be read.
    pub fn new(uplinks: Vec<Uplink>, common: &Uplinks) -> Result<Self, Error> {
        let mut routes = Socket::open(None).map_err(unanswered)?;
        let mut manager = PathManager::open().map_err(|error| {
            Error::Refused(format!(
                "the kernel has no path manager for Multipath TCP: {error}; see: anabranch-proxy check"
            ))
        })?;
        let table = *common.table.as_ref();
        let view = View::take(&mut routes, &mut manager).map_err(unanswered)?;
        let tables = table..=table + uplinks.len() as u32;
        if let Some(taken) = view.foreign_tables.iter().find(|taken| tables.contains(taken)) {
            return Err(Error::Refused(format!(
                "table {taken} is in use by another program (see: ip rule; ip route show table {taken}); give [uplinks] another, \
                 such as table = {}",
                table + 100
            )));
        }
        let budgets = Budgets::read(&uplinks, common)?;
        let mut remembered = Remembered::new();
        for route in &view.own.routes {
            if let Way::By { link, .. } = route.way {
                remembered.insert((link, route.v4), route.way);
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

    /// Looks, and puts right what is not as it should be; whether there was something. From these addresses nothing gets through.
    ///
    /// # Errors
    /// If the kernel does not answer as it should.
    pub fn reconcile(&mut self, silent: &BTreeSet<IpAddr>) -> Result<bool, Error> {
        let view = View::take(&mut self.routes, &mut self.manager).map_err(unanswered)?;
        remember(&mut self.remembered, &self.before, &view);
        self.budgets.count(&self.uplinks, &view.links, today());
        self.budgets.say(&self.uplinks);
        self.budgets.keep(false);
        let uplinks: Vec<_> =
            self.uplinks.iter().map(|uplink| (uplink, self.budgets.usage(uplink))).collect();
        let Plan { mut parts, states, open } = plan(&uplinks, self.table, &view, &self.remembered, silent);
        self.open = open;
        let wanted = parts.endpoints.len().min(MAX_ENDPOINTS) as u32;
        let raised = (view.limit < wanted).then_some(wanted);
        // The former limit is stored in the kernel, where it outlives this process.
        let before = self.noted(&view).or(raised.map(|_| view.limit));
        let note =
            |limit| Route { v4: true, table: self.table, way: Way::Throw, metric: NOTE_METRIC + limit };
        parts.routes.extend(before.map(note));
        let changed = self.put_right(&view, &parts, raised);
        self.say(states);
        self.before = view;
        Ok(changed)
    }

    /// Addresses from which something may be sent, whether it gets through or not, and their interfaces.
    pub const fn open(&self) -> &BTreeMap<IpAddr, String> {
        &self.open
    }

    /// Removes all that is ours.
    ///
    /// # Errors
    /// If the kernel does not answer as it should.
    pub fn end(&mut self) -> Result<(), Error> {
        let view = View::take(&mut self.routes, &mut self.manager).map_err(unanswered)?;
        self.budgets.count(&self.uplinks, &view.links, today());
        self.budgets.keep(true);
        let before = self.noted(&view);
        self.put_right(&view, &Parts::default(), before);
        Ok(())
    }

    /// The former limit of further subflows.
    fn noted(&self, view: &View) -> Option<u32> {
        let mut notes =
            view.own.routes.iter().filter(|route| route.way == Way::Throw && route.table == self.table);
        notes.next()?.metric.checked_sub(NOTE_METRIC)
    }

    /// Makes our part of the kernel's state equal to the plan. Endpoints are added after the rules that mark them as ours, and
    /// removed before them.
    fn put_right(&mut self, view: &View, should: &Parts, limit: Option<u32>) -> bool {
        let own = &view.own;
        for route in own.routes.difference(&should.routes) {
            let gone = routing::remove_route(&mut self.routes, route);
            self.complain(&route.command("del", &|link| view.name(link)), gone.err());
        }
        for route in should.routes.difference(&own.routes) {
            let added = routing::add_route(&mut self.routes, route);
            self.complain(&route.command("add", &|link| view.name(link)), added.err());
        }
        for rule in should.rules.difference(&own.rules) {
            let added = routing::add_rule(&mut self.routes, rule);
            self.complain(&rule.command("add"), added.err());
        }
        if let Some(limit) = limit {
            let refused = self.manager.set_limit(limit).err();
            self.complain(&format!("ip mptcp limits set subflow {limit}"), refused);
        }
        self.put_endpoints_right(view, &should.endpoints);
        for rule in own.rules.difference(&should.rules) {
            let gone = routing::remove_rule(&mut self.routes, rule);
            self.complain(&rule.command("del"), gone.err());
        }
        own != should
    }

    /// New ones are added before old ones go, so that connections have a subflow throughout, but an address is one endpoint alone.
    fn put_endpoints_right(&mut self, view: &View, should: &BTreeSet<Endpoint>) {
        let known = |endpoint: &Endpoint| {
            let id = view.id(endpoint.address)?;
            Some(Known { id, endpoint: *endpoint })
        };
        let mut old: Vec<_> = view.own.endpoints.difference(should).copied().collect();
        for endpoint in should.difference(&view.own.endpoints) {
            let same = old.iter().position(|old| old.address == endpoint.address);
            let Some(same) = same.map(|at| old.swap_remove(at)) else {
                let added = self.add_endpoint(view, *endpoint);
                self.complain(&endpoint.command(0, &|link| view.name(link)), added.err());
                continue;
            };
            let told = match known(endpoint) {
                Some(known) if same.link == endpoint.link => self.manager.set_backup(known),
                Some(old) => self.manager.remove(old).and_then(|()| self.add_endpoint(view, *endpoint)),
                None => Ok(()),
            };
            self.complain(&endpoint.command(0, &|link| view.name(link)), told.err());
        }
        for known in old.iter().filter_map(known) {
            let gone = self.manager.remove(known);
            self.complain(&format!("ip mptcp endpoint del id {}", known.id), gone.err());
        }
    }

    /// Adds an endpoint by an identifier that none has, and none had just before: the other end may still know it.
    fn add_endpoint(&mut self, view: &View, endpoint: Endpoint) -> io::Result<()> {
        let used: BTreeSet<u8> = view.endpoints.iter().map(|known| known.id).collect();
        let after = (self.next_id.max(FIRST_ID)..=u8::MAX).chain(FIRST_ID..=u8::MAX);
        let id = after.into_iter().find(|id| !used.contains(id)).ok_or(io::ErrorKind::QuotaExceeded)?;
        self.next_id = id.checked_add(1).unwrap_or(FIRST_ID);
        self.manager.add(Known { id, endpoint })
    }

    /// Says once what the kernel refuses.
    fn complain(&mut self, what: &str, refused: Option<io::Error>) {
        match refused {
            None => drop(self.refused.remove(what)),
            Some(error) => {
                if self.refused.insert(what.to_owned()) {
                    log::say(format_args!("uplinks: the kernel refuses: {what}: {error}"));
                }
            }
        }
    }

    /// Says what has become of uplinks, where that is new.
    fn say(&mut self, states: BTreeMap<(String, Option<IpAddr>), State>) {
        for (place, state) in &states {
            if self.states.get(place) != Some(state) {
                say_of(place, &state.to_string());
            }
        }
        let gone = self.states.keys().filter(|place| !states.contains_key(*place) && place.1.is_some());
        for place in gone {
            say_of(place, "gone");
        }
        self.states = states;
    }
}

fn say_of((name, address): &(String, Option<IpAddr>), what: &str) {
    let address = address.map_or_else(String::new, |address| format!(" {address}"));
    log::say(format_args!("uplinks: {name}{address}: {what}"));
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn unanswered(error: io::Error) -> Error {
    Error::Refused(format!("unexpected answer of the kernel: {error}"))
}

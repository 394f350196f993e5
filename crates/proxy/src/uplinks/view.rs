//! State of the machine: interfaces, addresses, default routes, and our own parts.

use super::endpoints::{Known, PathManager};
use super::netlink::Socket;
use super::parts::{FIRST_ID, PROTOCOL, Parts, Route, Way};
use super::routing::{self, Address, Default as Gateway, Link};
use core::net::IpAddr;
use std::io;

/// The state at one time.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Interfaces.
    pub links: Vec<Link>,
    /// Their addresses.
    pub addresses: Vec<Address>,
    /// Default routes that are not ours.
    pub gateways: Vec<Gateway>,
    /// Our own parts.
    pub own: Parts,
    /// Identifiers of all endpoints.
    pub endpoints: Vec<Known>,
    /// Tables in which another program has a rule or a default route.
    pub foreign_tables: Vec<u32>,
    /// Further subflows that a connection may have.
    pub limit: u32,
}

impl View {
    /// Looks.
    ///
    /// # Errors
    /// If the kernel does not answer as it should.
    pub fn take(routes: &mut Socket, manager: &mut PathManager) -> io::Result<Self> {
        let mut view = Self::of_routes(routes)?;
        view.limit = manager.limit()?;
        view.endpoints = manager.endpoints()?;
        let own = view.endpoints.iter().filter(|known| view.is_own(known)).map(|known| known.endpoint);
        view.own.endpoints = own.collect();
        Ok(view)
    }

    /// Reads the state that is visible without root.
    ///
    /// # Errors
    ///
    /// If the kernel's answer is unexpected.
    pub fn of_routes(routes: &mut Socket) -> io::Result<Self> {
        let mut view = Self::of_addresses(routes)?;
        for (rule, table, protocol) in routing::rules(routes)? {
            match rule {
                Some(rule) if protocol == PROTOCOL => drop(view.own.rules.insert(rule)),
                _ => view.foreign_tables.push(table),
            }
        }
        for found in routing::defaults(routes)? {
            let Gateway { v4, table, way, metric, protocol, .. } = found;
            if protocol == PROTOCOL {
                view.own.routes.insert(Route { v4, table, way, metric });
            } else {
                view.foreign_tables.push(table);
                view.gateways.push(found);
            }
        }
        Ok(view)
    }

    /// Looks at interfaces and their addresses.
    ///
    /// # Errors
    /// If the kernel does not answer as it should.
    pub fn of_addresses(socket: &mut Socket) -> io::Result<Self> {
        let (links, addresses) = (routing::links(socket)?, routing::addresses(socket)?);
        Ok(Self { links, addresses, ..Self::default() })
    }

    /// Whether an endpoint is ours: it has an identifier and a rule of ours.
    pub fn is_own(&self, known: &Known) -> bool {
        let address = known.endpoint.address;
        known.id >= FIRST_ID && self.own.rules.iter().any(|rule| rule.from == address)
    }

    /// Whether an address is an endpoint of another program.
    pub fn is_of_others(&self, address: IpAddr) -> bool {
        self.endpoints.iter().any(|known| known.endpoint.address == address && !self.is_own(known))
    }

    /// The name of an interface, or its number if there is none any more.
    pub fn name(&self, link: u32) -> String {
        let found = self.links.iter().find(|other| other.index == link);
        found.map_or_else(|| format!("if{link}"), |link| link.name.clone())
    }

    /// The identifier of an endpoint.
    pub fn id(&self, address: IpAddr) -> Option<u8> {
        self.endpoints.iter().find(|known| known.endpoint.address == address).map(|known| known.id)
    }

    /// The default route of an interface that comes first, of the kernel's table for all packets.
    pub fn gateway(&self, link: u32, v4: bool) -> Option<Gateway> {
        let fits = |found: &&Gateway| {
            let by = matches!(found.way, Way::By { link: other, .. } if other == link);
            by && found.v4 == v4 && found.table == super::parts::MAIN
        };
        self.gateways.iter().filter(fits).min_by_key(|found| found.metric).copied()
    }
}

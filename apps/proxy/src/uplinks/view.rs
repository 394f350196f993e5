//! State of the machine's network, as the kernel reports it.

use super::endpoints::{KernelEndpoint, PathManager};
use super::netlink::Socket;
use super::parts::{FIRST_ID, NextHop, PROTOCOL, Parts, Route};
use super::routing::{self, Address, DefaultRoute as Gateway, Link};
use core::net::IpAddr;
use std::io;

/// State of the machine's network at one time.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Interfaces.
    pub links: Vec<Link>,
    /// Addresses of the interfaces.
    pub addresses: Vec<Address>,
    /// Default routes that belong to other programs.
    pub gateways: Vec<Gateway>,
    /// Rules, routes and endpoints of this program.
    pub installed: Parts,
    /// All endpoints with their identifiers, including those of other programs.
    pub endpoints: Vec<KernelEndpoint>,
    /// Routing tables for which another program has a rule, or in which it has a default route.
    pub foreign_tables: Vec<u32>,
    /// Maximum number of subflows that a connection may have in addition to its first one.
    pub limit: u32,
}

impl View {
    /// Reads the whole state from the kernel.
    ///
    /// # Errors
    /// If the kernel's answer is unexpected.
    pub fn read(routes: &mut Socket, manager: &mut PathManager) -> io::Result<Self> {
        let mut view = Self::of_routes(routes)?;
        view.limit = manager.limit()?;
        view.endpoints = manager.endpoints()?;
        let installed =
            view.endpoints.iter().filter(|known| view.is_of_program(known)).map(|known| known.endpoint);
        view.installed.endpoints = installed.collect();
        Ok(view)
    }

    /// Reads the part of the state that the kernel reports to every user: everything except endpoints and limit.
    ///
    /// # Errors
    ///
    /// If the kernel's answer is unexpected.
    pub fn of_routes(routes: &mut Socket) -> io::Result<Self> {
        let mut view = Self::of_addresses(routes)?;
        for (rule, table, protocol) in routing::rules(routes)? {
            match rule {
                Some(rule) if protocol == PROTOCOL => drop(view.installed.rules.insert(rule)),
                _ => view.foreign_tables.push(table),
            }
        }
        for found in routing::defaults(routes)? {
            let Gateway { v4, table, next_hop, metric, protocol, .. } = found;
            if protocol == PROTOCOL {
                view.installed.routes.insert(Route { v4, table, next_hop, metric });
            } else {
                view.foreign_tables.push(table);
                view.gateways.push(found);
            }
        }
        Ok(view)
    }

    /// Reads interfaces and their addresses.
    ///
    /// # Errors
    /// If the kernel's answer is unexpected.
    pub fn of_addresses(socket: &mut Socket) -> io::Result<Self> {
        let (links, addresses) = (routing::links(socket)?, routing::addresses(socket)?);
        Ok(Self { links, addresses, ..Self::default() })
    }

    /// True if the endpoint belongs to this program: its identifier is in the program's range, and the program has a
    /// rule for its address.
    pub fn is_of_program(&self, known: &KernelEndpoint) -> bool {
        let address = known.endpoint.address;
        known.id >= FIRST_ID && self.installed.rules.iter().any(|rule| rule.from == address)
    }

    /// True if the address is an endpoint of another program.
    pub fn is_of_others(&self, address: IpAddr) -> bool {
        self.endpoints.iter().any(|known| known.endpoint.address == address && !self.is_of_program(known))
    }

    /// Returns the name of an interface, or its number if it no longer exists.
    pub fn name(&self, link: u32) -> String {
        let found = self.links.iter().find(|other| other.index == link);
        found.map_or_else(|| format!("if{link}"), |link| link.name.clone())
    }

    /// Returns the identifier of the endpoint with this address.
    pub fn id(&self, address: IpAddr) -> Option<u8> {
        self.endpoints.iter().find(|known| known.endpoint.address == address).map(|known| known.id)
    }

    /// Returns the default route of an interface that has the lowest metric in the main table.
    pub fn gateway(&self, link: u32, v4: bool) -> Option<Gateway> {
        let fits = |found: &&Gateway| {
            let by = matches!(found.next_hop, NextHop::Interface { link: other, .. } if other == link);
            by && found.v4 == v4 && found.table == super::parts::MAIN
        };
        self.gateways.iter().filter(fits).min_by_key(|found| found.metric).copied()
    }
}

//! The main routing tables of hosts.

use super::flow::Placed;
use super::{Element, LinkIndex, Names, find_link};
use crate::check::{self, Context};
use crate::error::{Fault, Origin, quoted};
use crate::model::{Host, Link, Protocol, Route};
use crate::suggest::remedy;
use crate::table::HOST;
use crate::values::{Checked, Value};
use std::collections::BTreeSet;

/// All tables, in file order.
pub(super) fn hosts(elements: &[Element<'_>], links: &[Link], flows: &[Placed]) -> Result<Vec<Host>, Fault> {
    let around = Surroundings { links, index: LinkIndex::of(links), flows };
    let mut names = Names::of("host");
    let host = |(number, element): (usize, &Element<'_>)| {
        let owner = format!("[[host]] number {}", number + 1);
        let context = Context { owner: &owner, protocol: None, complete: true };
        let values = check::section(element.table, element.origin, &HOST, context)?;
        let name = values.get("name");
        around.connects(name, &owner)?;
        names.add(name.value.text(), Some(name.origin), element.origin)?;
        let mut host = Host { name: name.value.text().to_owned(), default_route: 0, routes: Vec::new() };
        let default = values.get("default_route");
        host.default_route = around.own(&host, (default.value.text(), default.origin), "default_route")?;
        let routes = values.get("routes");
        for pair in routes.value.list() {
            let route = around.route(&host, pair, routes.origin)?;
            host.routes.push(route);
        }
        Ok(host)
    };
    elements.iter().enumerate().map(host).collect()
}

/// What routing tables refer to.
struct Surroundings<'a> {
    links: &'a [Link],
    index: LinkIndex,
    flows: &'a [Placed],
}

impl Surroundings<'_> {
    /// The host is one that connects, over protocols that ask its table.
    fn connects(&self, name: &Checked, owner: &str) -> Result<(), Fault> {
        let own: Vec<_> = self.flows.iter().filter(|placed| placed.flow.from == name.value.text()).collect();
        if own.is_empty() {
            let froms: BTreeSet<_> = self.flows.iter().map(|placed| placed.flow.from.as_str()).collect();
            let remedy =
                remedy(name.value.text(), &froms.into_iter().collect::<Vec<_>>(), "hosts that connect");
            let message =
                format!("name of {owner} is {}, where no flow begins; {remedy}", quoted(name.value.text()));
            return Err(Fault::new(name.origin, message));
        }
        let sctp = |placed: &&&Placed| matches!(placed.flow.protocol, Protocol::Sctp(_));
        own.iter().find(sctp).map_or(Ok(()), |placed| {
            let message = format!(
                "{owner}: flow {} is {}, whose associations choose their addresses themselves; take the table away, or give \
                 the flow another protocol",
                quoted(&placed.flow.name),
                placed.flow.protocol.name()
            );
            Err(Fault::new(name.origin, message))
        })
    }

    fn link(&self, host: &Host, (name, origin): (&str, Origin), key: &str) -> Result<usize, Fault> {
        find_link(self.links, &self.index, name)
            .map_err(|problem| Fault::new(origin, format!("{key} of host {}: {problem}", quoted(&host.name))))
    }

    /// A link of the host itself.
    fn own(&self, host: &Host, named: (&str, Origin), key: &str) -> Result<usize, Fault> {
        let link = self.link(host, named, key)?;
        if self.links[link].between.contains(&host.name) {
            return Ok(link);
        }
        let (owner, shown) = (quoted(&host.name), quoted(named.0));
        let message =
            format!("{key} of host {owner} is {shown}, which does not lead there; name a link of {owner}");
        Err(Fault::new(named.1, message))
    }

    /// A route to an address that a flow of the host may go to.
    fn route(&self, host: &Host, pair: &Value, origin: Origin) -> Result<Route, Fault> {
        let [to, by] = pair.list() else { unreachable!("two by the table of keys") };
        let (shown, owner) = (quoted(to.text()), quoted(&host.name));
        let by = self.own(host, (by.text(), origin), "routes")?;
        let to = self.link(host, (to.text(), origin), "routes")?;
        let mut ends = self.flows.iter().filter(|placed| placed.flow.from == host.name);
        if !ends.any(|placed| self.links[to].between.iter().any(|node| node == placed.flow.meets())) {
            let message = format!(
                "routes of host {owner} lead to {shown}, where no flow from there ends; name a link of a host that one goes to"
            );
            return Err(Fault::new(origin, message));
        }
        if host.routes.iter().any(|route| route.to == to) {
            let message = format!("routes of host {owner} lead to {shown} twice; keep one of them");
            return Err(Fault::new(origin, message));
        }
        Ok(Route { to, by })
    }
}

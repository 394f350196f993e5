//! Settings of routers.

use super::flow::Placed;
use super::{Element, LinkIndex, Names, find_link};
use crate::check::{self, Context};
use crate::choices::{SOURCE_ROUTES, pick};
use crate::error::{Fault, Origin, quoted};
use crate::model::{Link, Route, Router, Scenario};
use crate::suggest::remedy;
use crate::table::ROUTER;
use anabranch_netem::network::BuildError;
use std::collections::BTreeSet;

/// All routers with settings, in file order.
pub(super) fn routers(
    elements: &[Element<'_>],
    links: &[Link],
    flows: &[Placed],
) -> Result<Vec<Router>, Fault> {
    let hosts =
        flows.iter().flat_map(|Placed { flow, .. }| [flow.from.as_str(), flow.meets(), flow.to.as_str()]);
    let network = Surroundings { links, index: LinkIndex::of(links), hosts: hosts.collect() };
    let mut names = Names::of("router");
    let router = |(number, element): (usize, &Element<'_>)| {
        let owner = format!("[[router]] number {}", number + 1);
        let context = Context { owner: &owner, protocol: None, complete: true };
        let values = check::section(element.table, element.origin, &ROUTER, context)?;
        let name = values.get("name");
        network.check_forwards(name.value.text(), &owner, name.origin)?;
        names.add(name.value.text(), Some(name.origin), element.origin)?;
        let name = name.value.text().to_owned();
        let default_route = values.find("default_route").map(|entry| {
            let link = network.own(&name, entry.value.text(), ("default_route", entry.origin))?;
            network.check_onward(&name, link, ("default_route", entry.origin))?;
            Ok(link)
        });
        let mut routes: Vec<Route> = Vec::new();
        let given = values.get("routes");
        for pair in given.value.list() {
            let [to, by] = pair.list() else { unreachable!("the table of keys requires two") };
            let route = network.route(&name, [to.text(), by.text()], given.origin)?;
            if routes.iter().any(|other| other.to == route.to) {
                let (owner, shown) = (quoted(&name), quoted(to.text()));
                let message = format!("routes of router {owner} contain {shown} twice; keep one of them");
                return Err(Fault::new(given.origin, message));
            }
            routes.push(route);
        }
        let ecmp = values.find("ecmp").map(|entry| entry.value.flag());
        let network_control = values.get("network_control").value.flag();
        let default_route = default_route.transpose()?;
        let source_routes = pick(SOURCE_ROUTES, values.text("source_routes"));
        Ok(Router { name, ecmp, default_route, routes, network_control, source_routes })
    };
    elements.iter().enumerate().map(router).collect()
}

/// Checks that the routes send no packet in a circle.
pub(super) fn check_loops(scenario: &Scenario, elements: &[Element<'_>]) -> Result<(), Fault> {
    if scenario.routers.iter().all(|router| router.default_route.is_none() && router.routes.is_empty()) {
        return Ok(());
    }
    let Err(BuildError::Loop { nodes, link }) = scenario.network() else { return Ok(()) };
    let named = scenario.routers.iter().position(|router| nodes.contains(&router.name));
    let origin = named.map_or(Origin::Nowhere, |index| elements[index].origin);
    let shown: Vec<_> = nodes.iter().map(|node| quoted(node)).collect();
    let message = format!(
        "the routes to the addresses of link {} lead in a circle through {}; correct the routes of one of them",
        quoted(&scenario.links[link].name),
        shown.join(", ")
    );
    Err(Fault::new(origin, message))
}

/// Objects to which routes refer.
struct Surroundings<'a> {
    links: &'a [Link],
    index: LinkIndex,
    hosts: BTreeSet<&'a str>,
}

impl Surroundings<'_> {
    fn check_forwards(&self, name: &str, owner: &str, origin: Origin) -> Result<(), Fault> {
        let nodes = self.links.iter().flat_map(|link| &link.between).map(String::as_str);
        let routers: BTreeSet<&str> = nodes.filter(|node| !self.hosts.contains(node)).collect();
        if routers.contains(name) {
            return Ok(());
        }
        let shown = quoted(name);
        let message = if self.hosts.contains(name) {
            format!(
                "name of {owner} is {shown}, a node at the end of a flow, which does not forward; name a router, or use [[host]]"
            )
        } else {
            let routers: Vec<_> = routers.into_iter().collect();
            format!(
                "name of {owner} is {shown}, which no link leads to; {}",
                remedy(name, &routers, "routers")
            )
        };
        Err(Fault::new(origin, message))
    }

    fn link(&self, router: &str, name: &str, (key, origin): (&str, Origin)) -> Result<usize, Fault> {
        find_link(self.links, &self.index, name)
            .map_err(|problem| Fault::new(origin, format!("{key} of router {}: {problem}", quoted(router))))
    }

    /// A link of the router itself.
    fn own(&self, router: &str, name: &str, (key, origin): (&str, Origin)) -> Result<usize, Fault> {
        let link = self.link(router, name, (key, origin))?;
        if self.links[link].between.iter().any(|node| node == router) {
            return Ok(link);
        }
        let (owner, shown) = (quoted(router), quoted(name));
        let message = format!(
            "{key} of router {owner} is {shown}, which is not a link of {owner}; name one of its links"
        );
        Err(Fault::new(origin, message))
    }

    /// Checks that a link of a router leads to another router.
    fn check_onward(&self, router: &str, link: usize, (key, origin): (&str, Origin)) -> Result<(), Fault> {
        let mut ends = self.links[link].between.iter();
        let Some(host) = ends.find(|node| *node != router && self.hosts.contains(node.as_str())) else {
            return Ok(());
        };
        let message = format!(
            "{key} of router {} leads over {} to {}, a node at the end of a flow, which does not forward; name a link to a router",
            quoted(router),
            quoted(&self.links[link].name),
            quoted(host)
        );
        Err(Fault::new(origin, message))
    }

    /// A route to the addresses of hosts at a link.
    fn route(&self, router: &str, [to, by]: [&str; 2], origin: Origin) -> Result<Route, Fault> {
        let place = ("routes", origin);
        let (shown, by) = (quoted(to), self.own(router, by, place)?);
        let to = self.link(router, to, place)?;
        if !self.links[to].between.iter().any(|node| self.hosts.contains(node.as_str())) {
            let message = format!(
                "routes of router {} lead to {shown}, where no host is; name a link of a host",
                quoted(router)
            );
            return Err(Fault::new(origin, message));
        }
        if by != to {
            self.check_onward(router, by, place)?;
        }
        Ok(Route { to, by })
    }
}

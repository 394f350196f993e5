//! Builds the model from checked values, and checks properties of the scenario as a whole.

mod addresses;
mod event;
mod event_flow;
mod event_queue;
mod fit;
mod flow;
mod gateways;
mod host;
mod link;
mod middlebox;
mod router;
mod streams;
mod testbed;
mod topology;
mod workload;

use super::check::{self, Context};
use super::choices::{IP_VERSIONS, pick};
use super::document::{Data, Node, Table};
use super::error::{Fault, Origin, quoted};
use super::model::{Event, Link, Scenario};
use super::suggest::remedy;
use super::table::{HEAD, ROOT};
use super::trace::Source;
use super::values::{Checked, Value};
use anabranch_base::time::{Duration, Time};
use std::collections::BTreeMap;

/// Builds a scenario from the tree of its file.
pub(super) fn scenario(root: &Table, source: Source<'_>) -> Result<Scenario, Fault> {
    let link_defaults = table_of(root.get("link_defaults"), "link_defaults")?;
    let flow_defaults = table_of(root.get("flow_defaults"), "flow_defaults")?;
    let links = tables_of(root, "link")?;
    let flows = tables_of(root, "flow")?;
    let hosts = tables_of(root, "host")?;
    let routers = tables_of(root, "router")?;
    let middleboxes = tables_of(root, "middlebox")?;
    let events = tables_of(root, "event")?;
    for (key, found) in [("link", links.len()), ("flow", flows.len())] {
        if found == 0 {
            return Err(Fault::new(
                Origin::Nowhere,
                format!("the scenario has no {key}; add a [[{key}]] table"),
            ));
        }
    }
    check::known_keys(root, &ROOT, Context::top())?;
    let scalars = root.entries.iter().filter(|entry| HEAD.key(&entry.key, None).is_some());
    let scalars = Table { entries: scalars.cloned().collect() };
    let head = check::section(&scalars, Origin::Nowhere, &HEAD, Context::top())?;
    let duration = head.time("duration");
    let warmup = head.get("warmup");
    if warmup.value.time() >= duration {
        let message = "warmup is not shorter than duration, which leaves no time to measure; reduce it";
        return Err(Fault::new(warmup.origin, message));
    }
    let link_elements = links;
    let mut links = link::links(&link_elements, &link_defaults, source)?;
    let flows = flow::flows(&flows, &flow_defaults, (&links, duration), source)?;
    let ip = pick(IP_VERSIONS, head.text("ip"));
    addresses::links(&link_elements, &mut links, (ip, &flows))?;
    topology::check(&links, &flows)?;
    let hosts = host::hosts(&hosts, &links, &flows)?;
    let router_elements = routers;
    let routers = router::routers(&router_elements, &links, &flows)?;
    let middleboxes = middlebox::middleboxes(&middleboxes, (&links, &flows), source)?;
    let machines = testbed::machines(root.get("testbed"), &links, &link_elements)?;
    fit::links(ip, &links)?;
    fit::scopes(ip, &links, &flows)?;
    fit::check(&links, &flows)?;
    let declared: Vec<_> = flows.iter().map(|placed| placed.flow.clone()).collect();
    let network = event::Network { links: &links, flows: &declared, ip };
    let events = event::events(&events, network, duration, source)?;
    let scenario = Scenario {
        title: head.text("title").to_owned(),
        duration,
        warmup: warmup.value.time(),
        ip,
        ecmp: head.flag("ecmp"),
        offload: head.flag("offload"),
        seed: head.integer("seed"),
        links,
        routers,
        hosts,
        flows: declared,
        middleboxes,
        events,
        machines,
    };
    router::check_loops(&scenario, &router_elements)?;
    host::check_reach(&scenario, &flows)?;
    addresses::check(&scenario, &flows)?;
    gateways::check(&scenario, &flows)?;
    Ok(scenario)
}

/// The events of an order to a running scenario: a link or flow and changes, as in `[[event]]`. The scenario's events
/// up to `at` precede it.
pub(super) fn order(table: &Table, scenario: &Scenario, at: Time) -> Result<Vec<Event>, Fault> {
    let before = scenario.events.partition_point(|event| event.at <= at);
    let Scenario { links, flows, ip, events, .. } = scenario;
    event::order(table, event::Network { links, flows, ip: *ip }, &events[..before], at)
}

/// A table of defaults; empty if there is none.
fn table_of(node: Option<&Node>, key: &str) -> Result<Table, Fault> {
    match node {
        None => Ok(Table::default()),
        Some(Node { data: Data::Table(table), .. }) => Ok(table.clone()),
        Some(node) => {
            let message = format!("{key} is {}; write a table: [{key}]", node.described());
            Err(Fault::new(node.origin, message))
        }
    }
}

/// One table of an array, and the place of its header.
struct Element<'a> {
    table: &'a Table,
    origin: Origin,
}

fn tables_of<'a>(root: &'a Table, key: &str) -> Result<Vec<Element<'a>>, Fault> {
    let Some(node) = root.get(key) else {
        return Ok(Vec::new());
    };
    let wrong = |node: &Node| {
        let message =
            format!("{key} is {}; write each {key} under its own header: [[{key}]]", node.described());
        Fault::new(node.origin, message)
    };
    let Data::List(items) = &node.data else {
        return Err(wrong(node));
    };
    let element = |item: &'a Node| match &item.data {
        Data::Table(table) => Ok(Element { table, origin: item.origin }),
        _ => Err(wrong(item)),
    };
    items.iter().map(element).collect()
}

/// Names with their places, for the detection of duplicates.
struct Names {
    what: &'static str,
    seen: BTreeMap<String, Origin>,
}

impl Names {
    fn of(what: &'static str) -> Self {
        Self { what, seen: BTreeMap::new() }
    }

    /// Adds the name of an element, given or derived from its ends.
    fn add(&mut self, name: &str, given: Option<Origin>, header: Origin) -> Result<(), Fault> {
        let origin = given.unwrap_or(header);
        let Some(first) = self.seen.insert(name.to_owned(), origin) else {
            return Ok(());
        };
        let (what, shown) = (self.what, quoted(name));
        let message = match given {
            Some(_) => {
                format!("two {what}s have the name {shown} (the first on {first}); give each its own name")
            }
            None => format!(
                "a {what} without a name is named after its ends, {shown}, like the one on {first}; give it a name"
            ),
        };
        Err(Fault::new(origin, message))
    }
}

/// The index of the link with this name.
fn find_link(links: &[Link], index: &LinkIndex, name: &str) -> Result<usize, String> {
    index.0.get(name).copied().ok_or_else(|| {
        let names: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
        format!("there is no link {}; {}", quoted(name), remedy(name, &names, "links"))
    })
}

/// Links by name.
struct LinkIndex(BTreeMap<String, usize>);

impl LinkIndex {
    fn of(links: &[Link]) -> Self {
        Self(links.iter().enumerate().map(|(index, link)| (link.name.clone(), index)).collect())
    }
}

/// A duration, or a range: its minimum and its width.
fn spread(entry: &Checked, key: &str, owner: &str) -> Result<(Duration, Duration), Fault> {
    let Value::Table(values) = &entry.value else {
        return Ok((entry.value.time(), Duration::ZERO));
    };
    let uniform = values.get("uniform");
    let [low, high] = uniform.value.list() else { unreachable!("the table of keys requires two") };
    let (low, high) = (low.time(), high.time());
    if low > high {
        let message = format!(
            "{key} of {owner} goes from {} back to {}; give the earlier one first",
            seconds(low),
            seconds(high)
        );
        return Err(Fault::new(uniform.origin, message));
    }
    Ok((low, high.saturating_sub(low)))
}

/// A length of time for messages.
fn seconds(duration: Duration) -> String {
    super::quantity::TIME.written(duration.as_nanos())
}

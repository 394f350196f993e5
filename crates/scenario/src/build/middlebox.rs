//! Middleboxes.

use super::flow::Placed;
use super::link::declared;
use super::{Element, LinkIndex, Source, find_link};
use crate::check::{self, Context};
use crate::error::{Fault, Origin, quoted};
use crate::model::{Link, Middlebox};
use crate::suggest::remedy;
use crate::table::MIDDLEBOX;
use crate::values::Checked;
use anabranch_middlebox::Settings;
use anabranch_netem::keys;
use std::collections::{BTreeMap, BTreeSet};

/// All middleboxes, in file order.
pub(super) fn middleboxes(
    elements: &[Element<'_>],
    (links, flows): (&[Link], &[Placed]),
    source: Source<'_>,
) -> Result<Vec<Middlebox>, Fault> {
    let mut seen: BTreeMap<String, Origin> = BTreeMap::new();
    let index = LinkIndex::of(links);
    let middlebox = |(number, element): (usize, &Element<'_>)| {
        let owner = format!("[[middlebox]] number {}", number + 1);
        let context = Context { owner: &owner, protocol: None, complete: true };
        let values = check::section(element.table, element.origin, &MIDDLEBOX, context)?;
        let node = values.get("node");
        forwards(node, &owner, (links, flows))?;
        let node = node.value.text().to_owned();
        let origin = values.get("node").origin;
        if let Some(first) = seen.insert(node.clone(), origin) {
            let message = format!(
                "{} has a middlebox already (on {first}), and a node can have only one; insert another node",
                quoted(&node)
            );
            return Err(Fault::new(origin, message));
        }
        let kind = values.table("does");
        let settings = declared(kind, anabranch_middlebox::KINDS, source)?;
        let does = Settings::read(kind.kind(), keys::Values(&settings))
            .unwrap_or_else(|mistake| panic!("the table of keys has a middlebox that {}", mistake.problem));
        let mut from = Vec::new();
        if let Some(given) = values.find("from") {
            for link in given.value.list() {
                let place = |problem| Fault::new(given.origin, format!("from of {owner}: {problem}"));
                let found = find_link(links, &index, link.text()).map_err(place)?;
                if !links[found].between.contains(&node) {
                    return Err(place(format!(
                        "the link {} is not a link of {}; name one of its links",
                        quoted(link.text()),
                        quoted(&node)
                    )));
                }
                if from.contains(&found) {
                    return Err(place(format!("{} is listed twice; keep one of them", quoted(link.text()))));
                }
                from.push(found);
            }
        } else if does.has_an_inside() {
            from = inside(&node, links, flows);
        }
        if does.has_an_inside() && from.is_empty() {
            let message = format!("{owner} is a {}; name the links of its inside: from = [..]", kind.kind());
            return Err(Fault::new(element.origin, message));
        }
        if does.has_an_inside()
            && links.iter().enumerate().all(|(at, link)| from.contains(&at) || !link.between.contains(&node))
        {
            let message = format!(
                "from of {owner} names all links of {}, so that none is outside; remove one",
                quoted(&node)
            );
            return Err(Fault::new(values.get("from").origin, message));
        }
        Ok(Middlebox { node, from, does })
    };
    elements.iter().enumerate().map(middlebox).collect()
}

/// The links of a node that lead to sending hosts of flows and to no receiving one.
fn inside(node: &str, links: &[Link], flows: &[Placed]) -> Vec<usize> {
    let ends = |end: fn(&Placed) -> &str| flows.iter().map(end).collect::<BTreeSet<_>>();
    let sending = ends(|placed| &placed.flow.from);
    let mut receiving = ends(|placed| &placed.flow.to);
    receiving.extend(flows.iter().map(|placed| placed.flow.meets()));
    let leads_inside = |&at: &usize| {
        let mut reached = BTreeSet::from([node]);
        let mut next: Vec<&str> = links[at].between.iter().map(String::as_str).collect();
        while let Some(here) = next.pop() {
            // Hosts do not forward.
            if reached.insert(here) && !sending.contains(here) && !receiving.contains(here) {
                let beside = links.iter().map(|link| &link.between);
                let beside = beside.filter(|between| between.iter().any(|end| end == here));
                next.extend(beside.flatten().map(String::as_str));
            }
        }
        !reached.is_disjoint(&sending) && reached.is_disjoint(&receiving)
    };
    (0..links.len())
        .filter(|&at| links[at].between.iter().any(|end| end == node))
        .filter(leads_inside)
        .collect()
}

/// Checks that the node exists and forwards.
fn forwards(node: &Checked, owner: &str, (links, flows): (&[Link], &[Placed])) -> Result<(), Fault> {
    let hosts: BTreeSet<&str> = flows
        .iter()
        .flat_map(|Placed { flow, .. }| [flow.from.as_str(), flow.meets(), flow.to.as_str()])
        .collect();
    let nodes: BTreeSet<&str> = links.iter().flat_map(|link| &link.between).map(String::as_str).collect();
    let name = node.value.text();
    if hosts.contains(name) {
        let message = format!(
            "node of {owner} is {}, a host, which does not forward; insert a separate node",
            quoted(name)
        );
        return Err(Fault::new(node.origin, message));
    }
    if !nodes.contains(name) {
        let forwarding: Vec<_> = nodes.difference(&hosts).copied().collect();
        let remedy = remedy(name, &forwarding, "nodes that forward");
        let message = format!("node of {owner} is {}, which no link leads to; {remedy}", quoted(name));
        return Err(Fault::new(node.origin, message));
    }
    Ok(())
}

//! Links, their directions, queues and loss models.

use super::{Element, Names, Source, spread, testbed};
use crate::check::{self, Context};
use crate::choices::{INTERPOLATIONS, IP_VERSIONS, RATE_FORMATS, SCOPES, STATES, pick};
use crate::document::{Data, Node, Table};
use crate::error::{Fault, Origin, quoted};
use crate::merge::inherit;
use crate::model::{IpVersions, Link, LinkDelay, LinkModel, LinkRate, Loss, Queue, RateTrace, Reorder};
use crate::overrides::name_of;
use crate::table::{LINK, LINK_DEFAULTS};
use crate::trace;
use crate::values::{Checked, Value, Values};
use anabranch_base::time::Duration;
use anabranch_netem::keys::{self, InvalidValues, Kind, Takes};

/// All links, in file order.
pub(super) fn links(
    elements: &[Element<'_>],
    defaults: &Table,
    source: Source<'_>,
) -> Result<Vec<Link>, Fault> {
    let context = Context { owner: "[link_defaults]", protocol: None, complete: false };
    check::section(defaults, Origin::Nowhere, &LINK_DEFAULTS, context)?;
    let mut names = Names::of("link");
    elements
        .iter()
        .enumerate()
        .map(|(index, element)| {
            let (link, name) = link(index, element, defaults, source)?;
            names.add(&link.name, name, element.origin)?;
            Ok(link)
        })
        .collect()
}

/// A link, and the place of its name.
fn link(
    index: usize,
    element: &Element<'_>,
    defaults: &Table,
    source: Source<'_>,
) -> Result<(Link, Option<Origin>), Fault> {
    let owner = match name_of(element.table) {
        Some(name) => format!("link {}", quoted(&name)),
        None => format!("[[link]] number {}", index + 1),
    };
    let context = Context { owner: &owner, protocol: None, complete: true };
    let mut merged = inherit(element.table.clone(), defaults, &LINK, None);
    // The reverse direction is checked together with the values that it inherits from the forward one.
    let reverse = merged.take("reverse").map(|node| reversed(node, &merged, &owner)).transpose()?;
    let values = check::section(&merged, element.origin, &LINK, context)?;
    let between = values.get("between");
    let [first, second] = between.value.list() else { unreachable!("the table of keys requires two") };
    let between_names = [first.text().to_owned(), second.text().to_owned()];
    if between_names[0] == between_names[1] {
        let message = format!("{owner} connects {} to itself; name two nodes", quoted(&between_names[0]));
        return Err(Fault::new(between.origin, message));
    }
    // If the whole queue comes from the defaults, messages name the defaults as its owner.
    let queue_owner = if element.table.get("queue").is_some() || defaults.get("queue").is_none() {
        &owner
    } else {
        "[link_defaults]"
    };
    let forward = model(&values, &owner, queue_owner, source)?;
    let reverse = match reverse {
        Some((values, owner)) => model(&values, &owner, &owner, source)?,
        None => forward.clone(),
    };
    let (ip, addresses) = addresses(&values);
    let name = values.find("name");
    let tunnel =
        values.find("tunnel").map(|entry| testbed::tunnel(entry.value.table(), &owner)).transpose()?;
    let link = Link {
        name: name.map_or_else(|| between_names.join("-"), |name| name.value.text().to_owned()),
        between: between_names,
        ip,
        addresses,
        address_of: None,
        scope: pick(SCOPES, values.text("scope")),
        tunnel,
        forward,
        reverse,
    };
    Ok((link, name.map(|name| name.origin)))
}

/// The versions of IP and the numbers of addresses of a link from its checked values.
fn addresses(values: &Values) -> (Option<IpVersions>, [u8; 2]) {
    let ip = values.find("ip").map(|entry| pick(IP_VERSIONS, entry.value.text()));
    let addresses = match &values.get("addresses").value {
        Value::List(counts) => [counts[0].integer() as u8, counts[1].integer() as u8],
        count => [count.integer() as u8; 2],
    };
    (ip, addresses)
}

/// The checked values of a link's other direction, and its name in messages.
fn reversed(node: Node, forward: &Table, owner: &str) -> Result<(Values, String), Fault> {
    let Node { origin, data: Data::Table(own) } = node else {
        let message = format!("reverse of {owner} is {}; write a table: reverse = {{ … }}", node.described());
        return Err(Fault::new(node.origin, message));
    };
    let owner = format!("the reverse direction of {owner}");
    let context = Context { owner: &owner, protocol: None, complete: true };
    let merged = inherit(own, forward, &LINK_DEFAULTS, None);
    let values = check::section(&merged, origin, &LINK_DEFAULTS, context)?;
    Ok((values, owner))
}

fn model(values: &Values, owner: &str, queue_owner: &str, source: Source<'_>) -> Result<LinkModel, Fault> {
    let mtu = values.integer("mtu") as u32;
    Ok(LinkModel {
        rate: rate(values.get("rate"), owner, source)?,
        delay: delay(values.get("delay"), source)?,
        jitter: values.time("jitter"),
        mtu,
        icmp: values.flag("icmp"),
        overhead: values.integer("overhead") as u32,
        queue: queue(values.table("queue"), mtu, queue_owner, source)?,
        loss: loss(values.table("loss"), owner, source)?,
        reorder: values.find("reorder").and_then(|entry| reorder(entry.value.table())),
        duplicate: values.find("duplicate").map_or(0.0, |entry| entry.value.table().number("rate")),
        up: pick(STATES, values.text("state")),
    })
}

fn rate(entry: &Checked, owner: &str, source: Source<'_>) -> Result<LinkRate, Fault> {
    let Value::Table(values) = &entry.value else {
        return Ok(LinkRate::Constant(entry.value.rate()));
    };
    let trace = values.get("trace");
    let file = trace.value.text().to_owned();
    let content = if pick(RATE_FORMATS, values.text("format")) {
        RateTrace::Rates(trace::series(trace, &trace::RATES, source)?)
    } else {
        RateTrace::Opportunities(trace::opportunities(&file, trace.origin, source)?)
    };
    let (offset, offset_spread) = spread(values.get("offset"), "the trace's offset", owner)?;
    Ok(LinkRate::Trace { file, content, offset, offset_spread })
}

fn delay(entry: &Checked, source: Source<'_>) -> Result<LinkDelay, Fault> {
    let Value::Table(values) = &entry.value else {
        return Ok(LinkDelay::Constant(entry.value.time()));
    };
    let series = trace::series(values.get("trace"), &trace::DELAYS, source)?;
    Ok(LinkDelay::Trace { series, linear: pick(INTERPOLATIONS, values.text("interpolate")) })
}

/// A queue from its checked table; also for events.
pub(super) fn queue(values: &Values, mtu: u32, owner: &str, source: Source<'_>) -> Result<Queue, Fault> {
    let settings = declared(values, anabranch_netem::queue::KINDS, source)?;
    Queue::read(values.kind(), keys::Values(&settings), mtu)
        .map_err(|mistake| inconsistent("queue", values, owner, &mistake))
}

/// A loss model from its checked table; also for events.
pub(super) fn loss(values: &Values, owner: &str, source: Source<'_>) -> Result<Loss, Fault> {
    let settings = declared(values, anabranch_netem::loss::KINDS, source)?;
    Loss::read(values.kind(), keys::Values(&settings))
        .map_err(|mistake| inconsistent("loss", values, owner, &mistake))
}

/// The message for values of a queue or loss model that are valid alone but not together.
fn inconsistent(what: &str, values: &Values, owner: &str, mistake: &InvalidValues) -> Fault {
    let written = |key: &&&str| values.get(key).origin != Origin::Nowhere;
    let [first, ..] = mistake.keys else { panic!("the table of keys has a {what} that {}", mistake.problem) };
    let key = mistake.keys.iter().find(written).unwrap_or(first);
    let message = format!("{what}.{first} of {owner} {}", mistake.problem);
    Fault::new(values.get(key).origin, message)
}

/// The checked values of a kind, converted to the types in which the kind declared its keys.
pub(super) fn declared(
    values: &Values,
    kinds: &[&'static Kind],
    source: Source<'_>,
) -> Result<Vec<(&'static str, keys::Value)>, Fault> {
    let kind = kinds.iter().find(|kind| kind.name == values.kind()).expect("the kind was checked");
    let value = |entry: &Checked| match &entry.value {
        Value::Flag(flag) => Ok(keys::Value::Flag(*flag)),
        Value::Integer(number) => Ok(keys::Value::Integer(*number)),
        Value::Number(number) => Ok(keys::Value::Number(*number)),
        Value::Time(time) => Ok(keys::Value::Time(*time)),
        Value::Rate(rate) => Ok(keys::Value::Rate(*rate)),
        Value::Limit(limit) => Ok(keys::Value::Limit(*limit)),
        Value::List(numbers) => Ok(keys::Value::Ascending(numbers.iter().map(Value::integer).collect())),
        Value::Text(_) => match kind.keys.iter().find(|key| key.name == entry.key).map(|key| &key.takes) {
            Some(Takes::Probabilities { column }) => {
                trace::series(entry, &trace::probabilities(column), source).map(keys::Value::Series)
            }
            Some(Takes::Word(words)) => {
                let word = words.iter().find(|word| word.name == entry.value.text());
                Ok(keys::Value::Word(word.expect("the word was checked").name))
            }
            other => panic!("{other:?} is not text"),
        },
        other => panic!("no kind takes {other:?}"),
    };
    values.entries.iter().map(|entry| Ok((entry.key, value(entry)?))).collect()
}

/// Reordering; `None` for a rate of zero.
pub(super) fn reorder(values: &Values) -> Option<Reorder> {
    let reorder = Reorder { rate: values.number("rate"), delay: values.time("delay") };
    (reorder.rate > 0.0 && reorder.delay > Duration::ZERO).then_some(reorder)
}

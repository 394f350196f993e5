//! Links, their directions, queues and loss models.

use super::{Element, Names, Source};
use crate::check::{self, Context};
use crate::choices::{STATES, pick};
use crate::document::{Data, Node, Table};
use crate::error::{Fault, Origin, quoted};
use crate::merge::inherit;
use crate::model::{Link, LinkModel, LinkRate, Loss, Queue, QueueLimit, Reorder};
use crate::overrides::name_of;
use crate::quantity::{PACKETS, SIZE};
use crate::table::{LINK, LINK_DEFAULTS};
use crate::trace;
use crate::values::{Checked, Value, Values};
use multipath::time::Duration;

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

/// A link, and where its name was written.
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
    // The other direction is checked with what it inherits from this one.
    let reverse = merged.take("reverse").map(|node| reversed(node, &merged, &owner)).transpose()?;
    let values = check::section(&merged, element.origin, &LINK, context)?;
    let between = values.get("between");
    let [first, second] = between.value.list() else { unreachable!("two by the table of keys") };
    let between_names = [first.text().to_owned(), second.text().to_owned()];
    if between_names[0] == between_names[1] {
        let message = format!("{owner} connects {} to itself; name two nodes", quoted(&between_names[0]));
        return Err(Fault::new(between.origin, message));
    }
    let forward = model(&values, &owner, source)?;
    let reverse = match reverse {
        Some((values, owner)) => model(&values, &owner, source)?,
        None => forward.clone(),
    };
    let name = values.find("name");
    let link = Link {
        name: name.map_or_else(|| between_names.join("-"), |name| name.value.text().to_owned()),
        between: between_names,
        forward,
        reverse,
    };
    Ok((link, name.map(|name| name.origin)))
}

/// The checked values of a link's other direction, and what to call it.
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

fn model(values: &Values, owner: &str, source: Source<'_>) -> Result<LinkModel, Fault> {
    let mtu = values.integer("mtu") as u32;
    Ok(LinkModel {
        rate: rate(values.get("rate"), source)?,
        delay: values.time("delay"),
        jitter: values.time("jitter"),
        mtu,
        overhead: values.integer("overhead") as u32,
        queue: queue(values.table("queue"), mtu, owner)?,
        loss: loss(values.table("loss")),
        reorder: values.find("reorder").and_then(|entry| reorder(entry.value.table())),
        up: pick(STATES, values.text("state")),
    })
}

fn rate(entry: &Checked, source: Source<'_>) -> Result<LinkRate, Fault> {
    let Value::Table(values) = &entry.value else {
        return Ok(LinkRate::Constant(entry.value.rate()));
    };
    let trace = values.get("trace");
    let file = trace.value.text().to_owned();
    let opportunities_ms = trace::read(&file, source.file, source.files, trace.origin)?;
    Ok(LinkRate::Trace { file, opportunities_ms })
}

fn queue(values: &Values, mtu: u32, owner: &str) -> Result<Queue, Fault> {
    let entry = values.get("limit");
    let limit = entry.value.limit();
    if let QueueLimit::Bytes(bytes) = limit
        && bytes < u64::from(mtu)
    {
        let message = format!(
            "queue.limit of {owner} is {bytes} bytes, less than one packet of its mtu ({mtu} bytes); make it larger"
        );
        return Err(Fault::new(entry.origin, message));
    }
    if values.kind() == "fifo" {
        return Ok(Queue::Fifo { limit });
    }
    let min = threshold(values.get("min"), limit, owner)?;
    let max = threshold(values.get("max"), limit, owner)?;
    if min >= max {
        let origin = [values.get("min"), values.get("max")].map(|entry| entry.origin);
        let origin = if origin[0] == Origin::Nowhere { origin[1] } else { origin[0] };
        let message =
            format!("queue.min of {owner} must be below its queue.max, but is {min}, and queue.max is {max}");
        return Err(Fault::new(origin, message));
    }
    Ok(Queue::Red {
        limit,
        min,
        max,
        max_p: values.number("max_p"),
        weight: values.number("w_q"),
        ecn: values.flag("ecn"),
    })
}

/// A threshold in the unit of the limit: given in it, or as a share of it.
fn threshold(entry: &Checked, limit: QueueLimit, owner: &str) -> Result<f64, Fault> {
    let (capacity, family) = match limit {
        QueueLimit::Packets(packets) => (packets, &PACKETS),
        QueueLimit::Bytes(bytes) => (bytes, &SIZE),
    };
    let fault = |problem: &str| {
        let (key, limit) = (entry.key, family.written(capacity));
        Fault::new(entry.origin, format!("queue.{key} of {owner} {problem} its queue.limit of {limit}"))
    };
    let given = match entry.value {
        Value::Number(share) => return Ok(share * capacity as f64),
        Value::Limit(given) => given,
        ref other => panic!("the table of keys promised another type than {other:?}"),
    };
    match (given, limit) {
        (QueueLimit::Packets(given), QueueLimit::Packets(_))
        | (QueueLimit::Bytes(given), QueueLimit::Bytes(_)) => {
            if given > capacity {
                return Err(fault("must not exceed"));
            }
            Ok(given as f64)
        }
        _ => Err(fault("must be in the same unit as")),
    }
}

/// A loss model from its checked table; also for events.
pub(super) fn loss(values: &Values) -> Loss {
    match values.kind() {
        "none" => Loss::None,
        "bernoulli" => Loss::Bernoulli { rate: values.number("rate") },
        "gilbert-elliott" => Loss::GilbertElliott {
            to_bad: values.number("to_bad"),
            to_good: values.number("to_good"),
            loss_good: values.number("loss_good"),
            loss_bad: values.number("loss_bad"),
        },
        other => panic!("the table of keys has a loss model {other} that nothing is made of"),
    }
}

/// No reordering is the same as reordering nothing.
fn reorder(values: &Values) -> Option<Reorder> {
    let reorder = Reorder { rate: values.number("rate"), delay: values.time("delay") };
    (reorder.rate > 0.0 && reorder.delay > Duration::ZERO).then_some(reorder)
}

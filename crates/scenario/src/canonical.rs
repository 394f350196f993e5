//! Writes a scenario with every default and inherited value. A result contains this text, so that it can be
//! repeated without the file, the defaults of that version and the overrides.

use super::choices::{DIRECTIONS, DISTRIBUTIONS, FLOW_DIRECTIONS, IP_VERSIONS, SCOPES, STATES, word};
use super::document::{self, Data, Node, Table};
use super::model::{
    Change, Event, Flow, Host, Link, LinkModel, LinkRate, Loss, MessageSize, Middlebox, Protocol, Queue,
    QueueLimit, Scenario, Scope, Workload,
};
use super::quantity::PACKETS;
use super::table::OWN;
use super::written::{self, moment, number, quoted, rate, size, time};
use anabranch_base::time::{Duration, Time};
use anabranch_netem::keys;
use anabranch_settings::key::Place;
use anabranch_settings::policy::Reliability;
use core::fmt::Write;

/// The scenario as TOML that parses to the same scenario.
pub fn to_toml(scenario: &Scenario) -> String {
    let mut text = String::new();
    let head = vec![
        ("title", quoted(&scenario.title)),
        ("duration", time(scenario.duration)),
        ("warmup", time(scenario.warmup)),
        ("ip", quoted(word(IP_VERSIONS, &scenario.ip))),
        ("offload", scenario.offload.to_string()),
        ("seed", scenario.seed.to_string()),
    ];
    lines(&mut text, head);
    for entry in &scenario.links {
        text.push_str("\n[[link]]\n");
        lines(&mut text, link(entry));
    }
    for entry in &scenario.flows {
        text.push_str("\n[[flow]]\n");
        lines(&mut text, flow(entry, &scenario.links));
    }
    for host in &scenario.hosts {
        text.push_str("\n[[host]]\n");
        lines(&mut text, self::host(host, &scenario.links));
    }
    for entry in &scenario.middleboxes {
        text.push_str("\n[[middlebox]]\n");
        lines(&mut text, middlebox(entry, &scenario.links));
    }
    for entry in &scenario.events {
        text.push_str("\n[[event]]\n");
        lines(&mut text, event(entry, &scenario.links));
    }
    text
}

/// The scenario as JSON, with the keys and values of [`to_toml`].
pub fn to_json(scenario: &Scenario) -> serde_json::Value {
    let table = document::read(&to_toml(scenario))
        .unwrap_or_else(|fault| panic!("the written TOML is invalid: {fault:?}"));
    table_json(&table)
}

fn table_json(table: &Table) -> serde_json::Value {
    table.entries.iter().map(|entry| (entry.key.clone(), json(&entry.node))).collect()
}

fn json(node: &Node) -> serde_json::Value {
    match &node.data {
        Data::Text(text) | Data::Moment(text) => text.as_str().into(),
        Data::Integer(number) => (*number).into(),
        Data::Float(number) => (*number).into(),
        Data::Flag(flag) => (*flag).into(),
        Data::List(items) => items.iter().map(json).collect(),
        Data::Table(table) => table_json(table),
    }
}

/// Keys with their values as TOML text.
type Entries = Vec<(&'static str, String)>;

fn lines(text: &mut String, entries: Entries) {
    for (key, value) in entries {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{key} = {value}");
    }
}

fn inline(entries: Entries) -> String {
    let entries: Vec<_> = entries.into_iter().map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{{ {} }}", entries.join(", "))
}

/// A duration, or a range that begins with it.
fn spread(least: Duration, more: Duration) -> String {
    if more == Duration::ZERO {
        return time(least);
    }
    inline(vec![("uniform", format!("[{}, {}]", time(least), time(least + more)))])
}

fn link(link: &Link) -> Entries {
    let between: Vec<_> = link.between.iter().map(|node| quoted(node)).collect();
    let mut entries = vec![("name", quoted(&link.name)), ("between", format!("[{}]", between.join(", ")))];
    // A global scope, the default, is not written: files without the key keep their canonical form.
    if link.scope != Scope::Global {
        entries.push(("scope", quoted(word(SCOPES, &link.scope))));
    }
    let forward = model(&link.forward);
    let mut reverse = model(&link.reverse);
    reverse.retain(|entry| !forward.contains(entry));
    if link.forward.reorder.is_some() && link.reverse.reorder.is_none() {
        reverse.push(("reorder", inline(vec![("rate", "0".into())])));
    }
    entries.extend(forward);
    if !reverse.is_empty() {
        entries.push(("reverse", inline(reverse)));
    }
    entries
}

fn host(host: &Host, links: &[Link]) -> Entries {
    let routes: Vec<_> = host.routes.iter().map(|route| names(&[route.to, route.by], links)).collect();
    vec![
        ("name", quoted(&host.name)),
        ("default_route", quoted(&links[host.default_route].name)),
        ("routes", format!("[{}]", routes.join(", "))),
        ("policy_routing", host.policy_routing.to_string()),
    ]
}

fn middlebox(middlebox: &Middlebox, links: &[Link]) -> Entries {
    let mut entries = vec![("node", quoted(&middlebox.node))];
    if !middlebox.from.is_empty() {
        entries.push(("from", names(&middlebox.from, links)));
    }
    entries.push(("does", kind("kind", middlebox.does.kind(), middlebox.does.values())));
    entries
}

fn model(model: &LinkModel) -> Entries {
    let mut entries = vec![
        (
            "rate",
            match &model.rate {
                LinkRate::Constant(constant) => rate(*constant),
                LinkRate::Trace { file, offset, offset_spread, .. } => {
                    inline(vec![("trace", quoted(file)), ("offset", spread(*offset, *offset_spread))])
                }
            },
        ),
        ("delay", time(model.delay)),
        ("jitter", time(model.jitter)),
        ("mtu", model.mtu.to_string()),
        ("icmp", model.icmp.to_string()),
        ("overhead", model.overhead.to_string()),
        ("queue", queue(&model.queue)),
        ("loss", loss(model.loss)),
        ("state", quoted(word(STATES, &model.up))),
    ];
    if let Some(reorder) = model.reorder {
        entries
            .push(("reorder", inline(vec![("rate", number(reorder.rate)), ("delay", time(reorder.delay))])));
    }
    entries
}

fn queue(queue: &Queue) -> String {
    kind("kind", queue.kind(), queue.values())
}

fn loss(loss: Loss) -> String {
    kind("model", loss.kind(), loss.values())
}

/// A table whose kind is in a tag.
fn kind(tag: &'static str, kind: &keys::Kind, values: Vec<(&'static str, keys::Value)>) -> String {
    let text = |value| match value {
        keys::Value::Flag(flag) => flag.to_string(),
        keys::Value::Integer(integer) => integer.to_string(),
        keys::Value::Number(value) => number(value),
        keys::Value::Time(value) => time(value),
        keys::Value::Rate(value) => rate(value),
        keys::Value::Limit(QueueLimit::Packets(packets)) => quoted(&PACKETS.written(packets)),
        keys::Value::Limit(QueueLimit::Bytes(bytes)) => size(bytes),
    };
    let mut entries = vec![(tag, quoted(kind.name))];
    entries.extend(values.into_iter().map(|(key, value)| (key, text(value))));
    inline(entries)
}

fn flow(flow: &Flow, links: &[Link]) -> Entries {
    let mut entries = vec![
        ("name", quoted(&flow.name)),
        ("from", quoted(&flow.from)),
        ("to", quoted(&flow.to)),
        ("protocol", quoted(flow.protocol.name())),
        ("start", spread(flow.start.since(Time::ZERO), flow.start_spread)),
    ];
    entries.extend(flow.through.iter().map(|host| ("through", quoted(host))));
    entries.extend(flow.stop.map(|stop| ("stop", moment(stop))));
    entries.push(("direction", quoted(word(FLOW_DIRECTIONS, &flow.direction))));
    entries.push(("workload", workload(&flow.workload)));
    entries.extend(flow.mtu.map(|mtu| ("mtu", mtu.to_string())));
    entries.extend(settings(flow, links));
    entries
}

/// The settings of the protocol, and the keys of this crate among them.
fn settings(flow: &Flow, links: &[Link]) -> Entries {
    let kind = flow.protocol.kind();
    let defaults = Protocol::new(kind);
    let mut all: Vec<(&str, Place, Option<String>)> = Vec::new();
    for ((key, value), (_, default)) in flow.protocol.entries().into_iter().zip(defaults.entries()) {
        let omitted = key.place.unless_default && value == default;
        all.push((key.name, key.place, (!omitted).then(|| written::setting(value))));
    }
    for own in OWN.iter().filter(|own| own.key.protocols.contains(kind)) {
        let at = all.iter().position(|(name, ..)| *name == own.before).unwrap_or(all.len());
        all.insert(at, (own.key.name, own.place, self::own(own.key.name, flow, links)));
    }
    all.sort_by_key(|(_, place, _)| *place);
    all.into_iter().filter_map(|(name, _, text)| Some((name, text?))).collect()
}

/// A key of this crate.
fn own(key: &str, flow: &Flow, links: &[Link]) -> Option<String> {
    match (key, &flow.protocol, &flow.initial_path[..]) {
        ("backup", ..) => Some(names(&flow.backup, links)),
        ("ordered", ..) => Some(flow.ordered.to_string()),
        ("initial_path", _, []) => None,
        ("initial_path", Protocol::Sctp(_), &[destination]) => Some(quoted(&links[destination].name)),
        ("initial_path", _, path) => Some(names(path, links)),
        _ => unreachable!("{key} is no key of this crate"),
    }
}

/// A list of links.
fn names(of: &[usize], links: &[Link]) -> String {
    let names: Vec<_> = of.iter().map(|&link| quoted(&links[link].name)).collect();
    format!("[{}]", names.join(", "))
}

fn workload(workload: &Workload) -> String {
    let distribution = |exponential: bool| ("distribution", quoted(word(DISTRIBUTIONS, &exponential)));
    let (kind, mut entries) = match *workload {
        Workload::Saturated { message } => ("saturated", messages(message)),
        Workload::File { size: bytes, message } => {
            let mut entries = vec![("size", size(bytes))];
            entries.extend(messages(message));
            ("file", entries)
        }
        Workload::Rate { rate: offered, message } => {
            ("rate", vec![("rate", rate(offered)), ("message", message_size(message))])
        }
        Workload::OnOff { on, off, exponential, rate: within, message } => {
            let mut entries = vec![("on", time(on)), ("off", time(off)), distribution(exponential)];
            entries.extend(within.map(|within| ("rate", rate(within))));
            entries.push(("message", message_size(message)));
            ("on-off", entries)
        }
        Workload::Messages { message, interval, exponential, count, reliability } => {
            let mut entries = vec![("message", message_size(message)), ("interval", time(interval))];
            entries.push(distribution(exponential));
            entries.extend(count.map(|count| ("count", count.to_string())));
            match reliability {
                Reliability::Lifetime(lifetime) => entries.push(("lifetime", time(lifetime))),
                Reliability::Retransmissions(most) => {
                    entries.push(("max_retransmissions", most.to_string()));
                }
                // A workload has no priorities among its messages.
                Reliability::Full | Reliability::Priority(_) => {}
            }
            ("messages", entries)
        }
        Workload::RequestResponse { request, response, think, exponential, count } => {
            let mut entries = vec![("request", message_size(request)), ("response", message_size(response))];
            entries.extend([("think", time(think)), distribution(exponential)]);
            entries.extend(count.map(|count| ("count", count.to_string())));
            ("request-response", entries)
        }
    };
    entries.insert(0, ("kind", quoted(kind)));
    inline(entries)
}

fn messages(message: Option<MessageSize>) -> Entries {
    message.map(|message| ("message", message_size(message))).into_iter().collect()
}

fn message_size(message: MessageSize) -> String {
    inline(match message {
        MessageSize::Constant(bytes) => return size(bytes),
        MessageSize::Uniform { low, high } => vec![("uniform", format!("[{}, {}]", size(low), size(high)))],
        MessageSize::Exponential { mean } => vec![("exponential", size(mean.round() as u64))],
        MessageSize::Pareto { min, shape, max } => {
            let pareto = vec![("min", size(min)), ("shape", number(shape)), ("max", size(max))];
            vec![("pareto", inline(pareto))]
        }
    })
}

fn event(event: &Event, links: &[Link]) -> Entries {
    let change = |change: &Change| match change {
        Change::State { up } => ("state", quoted(word(STATES, up))),
        Change::Rate(new) => ("rate", rate(*new)),
        Change::Delay(new) => ("delay", time(*new)),
        Change::Loss(new) => ("loss", loss(*new)),
    };
    vec![
        ("at", moment(event.at)),
        ("link", quoted(&links[event.link].name)),
        ("direction", quoted(word(DIRECTIONS, &event.directions))),
        ("set", inline(event.changes.iter().map(change).collect())),
    ]
}

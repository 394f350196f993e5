//! Writes a scenario with every default and inherited value. A result contains this text, so that it can be
//! repeated without the file, the defaults of that version and the overrides.

use super::choices::{
    ADDRESSES, CODECS, DIRECTIONS, DISTRIBUTIONS, FLOW_DIRECTIONS, INTERPOLATIONS, IP_VERSIONS, LENGTHS,
    Lengths, RATE_FORMATS, SCOPES, SOURCE_ROUTES, STACKS, STATES, TUNNEL_KINDS, word,
};
use super::model::{
    Arrivals, Bursts, Change, Distribution, Event, Flow, FlowChange, FlowEvent, Host, HostCost, IpVersion,
    Link, LinkDelay, LinkEvent, LinkModel, LinkRate, Loss, MACHINES, MessageSize, Middlebox, Protocol, Queue,
    QueueLimit, RateTrace, Router, Scenario, Scope, Stack, Subject, Tunnel, Voice, Workload,
};
use super::quantity::PACKETS;
use super::table::OWN;
use super::written::Written::{self, List, Table};
use super::written::{Entries, moment, rate, size, text, time};
use anabranch_base::time::{Duration, Time};
use anabranch_middlebox::source_route::SourceRoutes;
use anabranch_netem::keys;
use anabranch_settings::key::Place;
use anabranch_settings::policy::Reliability;
use core::fmt::Write;

/// The scenario as TOML that parses to the same scenario.
pub fn to_toml(scenario: &Scenario) -> String {
    let mut toml = lines(head(scenario));
    for (name, elements) in tables(scenario) {
        for element in elements {
            let _ = write!(toml, "\n[[{name}]]\n{}", lines(element));
        }
    }
    toml
}

/// The scenario as JSON, with the keys and values of [`to_toml`].
pub fn to_json(scenario: &Scenario) -> serde_json::Value {
    let mut entries = head(scenario);
    let tables = tables(scenario).into_iter().filter(|(_, elements)| !elements.is_empty());
    entries.extend(tables.map(|(name, elements)| (name, List(elements.into_iter().map(Table).collect()))));
    Table(entries).json()
}

/// One direction of a link as JSON, with the keys and values of [`to_toml`].
pub fn link_model_to_json(of: &LinkModel) -> serde_json::Value {
    Table(model(of)).json()
}

fn lines(entries: Entries) -> String {
    let mut toml = String::new();
    for (key, value) in entries {
        // Writing to a string cannot fail.
        let _ = writeln!(toml, "{key} = {}", value.toml());
    }
    toml
}

fn head(scenario: &Scenario) -> Entries {
    let mut entries = vec![
        ("title", text(&scenario.title)),
        ("duration", time(scenario.duration)),
        ("warmup", time(scenario.warmup)),
        ("ip", text(word(IP_VERSIONS, &scenario.ip))),
    ];
    // The default is not written: files without the key keep their canonical form.
    if !scenario.ecmp {
        entries.push(("ecmp", false.into()));
    }
    entries.extend([("offload", scenario.offload.into()), ("seed", scenario.seed.into())]);
    if let Some(machines) = &scenario.machines {
        let nodes = machines.0.iter().map(|nodes| List(nodes.iter().map(text).collect()));
        entries
            .push(("testbed", Table(vec![("machines", Table(MACHINES.into_iter().zip(nodes).collect()))])));
    }
    entries
}

/// The tables of links, flows, hosts, routers, middleboxes and events.
fn tables(scenario: &Scenario) -> [(&'static str, Vec<Entries>); 6] {
    let links = &scenario.links;
    [
        ("link", links.iter().map(|entry| link(entry, links)).collect()),
        ("flow", scenario.flows.iter().map(|entry| flow(entry, links)).collect()),
        ("host", scenario.hosts.iter().map(|entry| host(entry, links)).collect()),
        ("router", scenario.routers.iter().map(|entry| router(entry, links)).collect()),
        ("middlebox", scenario.middleboxes.iter().map(|entry| middlebox(entry, links)).collect()),
        ("event", scenario.events.iter().map(|entry| event(entry, (links, &scenario.flows))).collect()),
    ]
}

/// A duration, or a range that begins with it.
fn spread(least: Duration, more: Duration) -> Written {
    if more == Duration::ZERO {
        return time(least);
    }
    Table(vec![("uniform", List(vec![time(least), time(least + more)]))])
}

fn link(link: &Link, links: &[Link]) -> Entries {
    let between = link.between.iter().map(text).collect();
    let mut entries = vec![("name", text(&link.name)), ("between", List(between))];
    // Defaults are not written: files without the keys keep their canonical form.
    entries.extend(link.ip.map(|ip| ("ip", text(word(IP_VERSIONS, &ip)))));
    match link.addresses {
        [1, 1] => {}
        [one, other] if one == other => entries.push(("addresses", u32::from(one).into())),
        counts => {
            let counts = counts.map(|count| u32::from(count).into()).to_vec();
            entries.push(("addresses", List(counts)));
        }
    }
    entries.extend(link.address_of.map(|shared| ("address_of", text(&links[shared.link].name))));
    // A global scope, the default, is not written: files without the key keep their canonical form.
    if link.scope != Scope::Global {
        entries.push(("scope", text(word(SCOPES, &link.scope))));
    }
    entries.extend(link.tunnel.as_ref().map(tunnel));
    let forward = model(&link.forward);
    let mut reverse = model(&link.reverse);
    reverse.retain(|entry| !forward.contains(entry));
    for entry in &mut reverse {
        state_defaults(entry, [&link.forward, &link.reverse]);
    }
    if link.forward.reorder.is_some() && link.reverse.reorder.is_none() {
        reverse.push(("reorder", Table(vec![("rate", 0_u64.into())])));
    }
    if link.forward.duplicate > 0.0 && link.reverse.duplicate == 0.0 {
        reverse.push(("duplicate", Table(vec![("rate", 0_u64.into())])));
    }
    entries.extend(forward);
    if !reverse.is_empty() {
        entries.push(("reverse", Table(reverse)));
    }
    entries
}

/// Adds the defaults that an entry of the reverse direction omits. Without them the entry would inherit values of the
/// forward direction.
fn state_defaults((key, value): &mut (&'static str, Written), [forward, reverse]: [&LinkModel; 2]) {
    let Table(entries) = value else { return };
    match (*key, &forward.rate, &reverse.rate) {
        ("queue", ..) if forward.queue.kind().name == reverse.queue.kind().name => {
            let inherited = forward.queue.values();
            let mut left_out = reverse.queue.defaults_left_out();
            left_out.retain(|(key, _)| inherited.iter().any(|(other, _)| other == key));
            entries.extend(left_out.into_iter().map(|(key, value)| (key, value_of(value))));
        }
        (
            "rate",
            LinkRate::Trace { content: RateTrace::Rates(_), .. },
            LinkRate::Trace { content: RateTrace::Opportunities(_), .. },
        ) => entries.push(("format", text(word(RATE_FORMATS, &false)))),
        _ => {}
    }
}

fn tunnel(of: &Tunnel) -> (&'static str, Written) {
    let mut entries = vec![
        ("kind", text(word(TUNNEL_KINDS, &of.kind))),
        ("local", text(of.local.to_string())),
        ("remote", text(of.remote.to_string())),
    ];
    entries.extend(of.key.map(|key| ("key", key.into())));
    ("tunnel", Table(entries))
}

fn host(host: &Host, links: &[Link]) -> Entries {
    let routes = host.routes.iter().map(|route| names(&[route.to, route.by], links)).collect();
    let mut entries = vec![("name", text(&host.name))];
    entries.extend(host.default_route.map(|link| ("default_route", text(&links[link].name))));
    entries.extend([("routes", List(routes)), ("policy_routing", host.policy_routing.into())]);
    // The default is not written: files without the key keep their canonical form.
    if !host.mptcp {
        entries.push(("mptcp", false.into()));
    }
    if !host.gateways.is_empty() {
        let gateway = |hops: &Vec<String>| match hops.as_slice() {
            [hop] => text(hop),
            hops => List(hops.iter().map(text).collect()),
        };
        entries.push(("gateways", List(host.gateways.iter().map(gateway).collect())));
    }
    entries.extend(host.cost.map(|cost| ("cost", cost_of(cost))));
    entries
}

fn cost_of(HostCost { packet, byte, gap, backlog }: HostCost) -> Written {
    let backlog = text(PACKETS.written(backlog));
    Table(vec![("packet", time(packet)), ("byte", time(byte)), ("gap", time(gap)), ("backlog", backlog)])
}

fn router(router: &Router, links: &[Link]) -> Entries {
    let routes = router.routes.iter().map(|route| names(&[route.to, route.by], links)).collect();
    let mut entries = vec![("name", text(&router.name))];
    entries.extend(router.ecmp.map(|ecmp| ("ecmp", ecmp.into())));
    entries.push(("routes", List(routes)));
    entries.extend(router.default_route.map(|link| ("default_route", text(&links[link].name))));
    entries.extend(router.network_control.then(|| ("network_control", true.into())));
    if router.source_routes != SourceRoutes::default() {
        entries.push(("source_routes", text(word(SOURCE_ROUTES, &router.source_routes))));
    }
    entries
}

fn middlebox(middlebox: &Middlebox, links: &[Link]) -> Entries {
    let mut entries = vec![("node", text(&middlebox.node))];
    if !middlebox.from.is_empty() {
        entries.push(("from", names(&middlebox.from, links)));
    }
    entries.push(("does", kind("kind", middlebox.does.kind(), middlebox.does.values())));
    entries
}

/// One direction of a link, by key.
pub(super) fn model(model: &LinkModel) -> Entries {
    let mut entries = vec![
        (
            "rate",
            match &model.rate {
                LinkRate::Constant(constant) => rate(*constant),
                LinkRate::Trace { file, content, offset, offset_spread } => {
                    let mut entries = vec![("trace", text(file))];
                    // The default is not written: files without the key keep their canonical form.
                    if matches!(content, RateTrace::Rates(_)) {
                        entries.push(("format", text(word(RATE_FORMATS, &true))));
                    }
                    entries.push(("offset", spread(*offset, *offset_spread)));
                    Table(entries)
                }
            },
        ),
        (
            "delay",
            match &model.delay {
                LinkDelay::Constant(delay) => time(*delay),
                LinkDelay::Trace { series, linear } => {
                    let interpolate = text(word(INTERPOLATIONS, linear));
                    Table(vec![("trace", text(series.file())), ("interpolate", interpolate)])
                }
            },
        ),
        ("jitter", time(model.jitter)),
        ("mtu", model.mtu.into()),
        ("icmp", model.icmp.into()),
        ("overhead", model.overhead.into()),
        ("queue", queue(&model.queue)),
        ("loss", loss(&model.loss)),
        ("state", text(word(STATES, &model.up))),
    ];
    if let Some(reorder) = model.reorder {
        entries.push(("reorder", Table(vec![("rate", reorder.rate.into()), ("delay", time(reorder.delay))])));
    }
    if model.duplicate > 0.0 {
        entries.push(("duplicate", Table(vec![("rate", model.duplicate.into())])));
    }
    entries
}

fn queue(queue: &Queue) -> Written {
    kind("kind", queue.kind(), queue.values())
}

fn loss(loss: &Loss) -> Written {
    kind("model", loss.kind(), loss.values())
}

/// A table whose kind is in a tag.
fn kind(tag: &'static str, kind: &keys::Kind, values: Vec<(&'static str, keys::Value)>) -> Written {
    let mut entries = vec![(tag, text(kind.name))];
    entries.extend(values.into_iter().map(|(key, value)| (key, value_of(value))));
    Table(entries)
}

fn value_of(value: keys::Value) -> Written {
    match value {
        keys::Value::Flag(flag) => flag.into(),
        keys::Value::Integer(integer) => integer.into(),
        keys::Value::Number(value) => value.into(),
        keys::Value::Time(value) => time(value),
        keys::Value::Rate(value) => rate(value),
        keys::Value::Limit(QueueLimit::Packets(packets)) => text(PACKETS.written(packets)),
        keys::Value::Limit(QueueLimit::Bytes(bytes)) => size(bytes),
        keys::Value::Ascending(numbers) => List(numbers.iter().map(|&number| number.into()).collect()),
        keys::Value::Word(word) => text(word),
        keys::Value::Series(series) => text(series.file()),
    }
}

fn flow(flow: &Flow, links: &[Link]) -> Entries {
    let mut entries = vec![
        ("name", text(&flow.name)),
        ("from", text(&flow.from)),
        ("to", text(&flow.to)),
        ("protocol", text(flow.protocol.name())),
        ("start", spread(flow.start.since(Time::ZERO), flow.start_spread)),
    ];
    entries.extend(flow.through.iter().map(|host| ("through", text(host))));
    entries.extend(flow.stop.map(|stop| ("stop", moment(stop))));
    entries.push(("direction", text(word(FLOW_DIRECTIONS, &flow.direction))));
    entries.push(("workload", workload(&flow.workload)));
    if let Some(Voice { codec, playout }) = flow.voice {
        entries.extend([("voice", text(word(CODECS, &codec))), ("playout", time(playout))]);
    }
    entries.extend(stacks(flow).map(|stacks| ("stack", stacks)));
    entries.extend(flow.mtu.map(|mtu| ("mtu", mtu.into())));
    entries.extend(settings(flow, links));
    entries
}

/// The stacks of a flow whose stacks differ from the world's.
fn stacks(flow: &Flow) -> Option<Written> {
    let word = |stack: Stack| text(word(STACKS, &stack));
    match flow.stacks {
        [None, None] => None,
        [Some(from), Some(to)] if from == to => Some(word(from)),
        [from, to] => {
            let ends = [("from", from), ("to", to)].into_iter();
            Some(Table(ends.filter_map(|(end, stack)| Some((end, word(stack?)))).collect()))
        }
    }
}

/// The settings of the protocol, and the keys of flows that this crate declares.
fn settings(flow: &Flow, links: &[Link]) -> Entries {
    let kind = flow.protocol.kind();
    let defaults = Protocol::new(kind);
    let mut all: Vec<(&str, Place, Option<Written>)> = Vec::new();
    for ((key, value), (_, default)) in flow.protocol.entries().into_iter().zip(defaults.entries()) {
        let omitted = key.place.unless_default && value == default;
        all.push((key.name, key.place, (!omitted).then(|| value.into())));
    }
    for own in OWN.iter().filter(|own| own.key.protocols.contains(kind)) {
        let at = all.iter().position(|(name, ..)| *name == own.before).unwrap_or(all.len());
        all.insert(at, (own.key.name, own.place, self::own(own.key.name, flow, links)));
    }
    all.sort_by_key(|(_, place, _)| *place);
    all.into_iter().filter_map(|(name, _, value)| Some((name, value?))).collect()
}

/// The value of a key that this crate defines, not a protocol.
fn own(key: &str, flow: &Flow, links: &[Link]) -> Option<Written> {
    match (key, &flow.protocol, &flow.initial_path[..]) {
        ("backup", ..) => Some(names(&flow.backup, links)),
        ("ordered", ..) => Some(flow.ordered.into()),
        ("initial_path", _, []) => None,
        ("initial_path", Protocol::Sctp(_), &[destination]) => {
            Some(text(name_with(&links[destination], flow.initial_version)))
        }
        ("initial_path", _, path) => {
            Some(List(path.iter().map(|&link| text(name_with(&links[link], flow.initial_version))).collect()))
        }
        _ => unreachable!("{key} is no key of this crate"),
    }
}

/// The name of a link, with a version of IP if there is one.
fn name_with(link: &Link, version: Option<IpVersion>) -> String {
    format!("{}{}", link.name, version.map_or("", IpVersion::suffix))
}

/// A list of links.
fn names(of: &[usize], links: &[Link]) -> Written {
    List(of.iter().map(|&link| text(&links[link].name)).collect())
}

fn workload(workload: &Workload) -> Written {
    let distribution = |exponential: bool| ("distribution", text(word(DISTRIBUTIONS, &exponential)));
    let (kind, mut entries) = match workload {
        Workload::Saturated { message } => ("saturated", messages(message.as_ref())),
        Workload::File { size: bytes, message, arrivals } => {
            let mut entries = vec![("size", message_size(bytes))];
            entries.extend(messages(message.as_ref()));
            if let Some(Arrivals { mean_interval, exponential, count, max_open }) = arrivals {
                let mut keys = vec![("mean_interval", time(*mean_interval)), distribution(*exponential)];
                keys.extend(count.map(|count| ("count", count.into())));
                keys.push(("max_open", (*max_open).into()));
                entries.push(("arrivals", Table(keys)));
            }
            ("file", entries)
        }
        Workload::Rate { rate: offered, message } => {
            ("rate", vec![("rate", rate(*offered)), ("message", message_size(message))])
        }
        Workload::Recorded(recording) => ("recorded", vec![("file", text(&recording.file))]),
        Workload::OnOff { bursts, rate: within, message } => {
            let mut entries = bursts_entries(bursts);
            entries.extend(within.as_ref().map(|within| ("rate", rate(*within))));
            entries.push(("message", message_size(message)));
            ("on-off", entries)
        }
        Workload::Messages { message, interval, exponential, count, reliability } => {
            let mut entries = vec![("message", message_size(message)), ("interval", time(*interval))];
            entries.push(distribution(*exponential));
            entries.extend(count.map(|count| ("count", count.into())));
            match reliability {
                Reliability::Lifetime(lifetime) => entries.push(("lifetime", time(*lifetime))),
                Reliability::Retransmissions(most) => {
                    entries.push(("max_retransmissions", u32::from(*most).into()));
                }
                // A workload has no priorities among its messages.
                Reliability::Full | Reliability::Priority(_) => {}
            }
            ("messages", entries)
        }
        Workload::RequestResponse { request, response, think, exponential, count } => {
            let mut entries = vec![("request", message_size(request)), ("response", message_size(response))];
            entries.extend([("think", time(*think)), distribution(*exponential)]);
            entries.extend(count.map(|count| ("count", count.into())));
            ("request-response", entries)
        }
    };
    entries.insert(0, ("kind", text(kind)));
    Table(entries)
}

fn bursts_entries(bursts: &Bursts) -> Entries {
    match bursts {
        Bursts::Drawn { on, off, distribution } => {
            let (lengths, shape) = match distribution {
                Distribution::Constant => (Lengths::Constant, None),
                Distribution::Exponential => (Lengths::Exponential, None),
                Distribution::Pareto { shape } => (Lengths::Pareto, Some(*shape)),
            };
            let mut entries = vec![("on", time(*on)), ("off", time(*off))];
            entries.push(("distribution", text(word(LENGTHS, &lengths))));
            entries.extend(shape.map(|shape| ("shape", shape.into())));
            entries
        }
        Bursts::Periods(periods) => {
            let period = |[start, end]: &[Time; 2]| List(vec![moment(*start), moment(*end)]);
            vec![("periods", List(periods.iter().map(period).collect()))]
        }
    }
}

fn messages(message: Option<&MessageSize>) -> Entries {
    message.into_iter().map(|message| ("message", message_size(message))).collect()
}

fn message_size(message: &MessageSize) -> Written {
    Table(match message {
        MessageSize::Listed(list) => vec![("file", text(&list.file))],
        MessageSize::Constant(bytes) => return size(*bytes),
        MessageSize::Uniform { low, high } => vec![("uniform", List(vec![size(*low), size(*high)]))],
        MessageSize::Exponential { mean } => vec![("exponential", size(mean.round() as u64))],
        MessageSize::Pareto { min, shape, max } => {
            let pareto = vec![("min", size(*min)), ("shape", (*shape).into()), ("max", size(*max))];
            vec![("pareto", Table(pareto))]
        }
    })
}

fn event(event: &Event, (links, flows): (&[Link], &[Flow])) -> Entries {
    let at = ("at", moment(event.at));
    match &event.subject {
        Subject::Link(LinkEvent { link, directions, renumbers, changes }) => {
            let address = renumbers.then(|| ("address", text(word(ADDRESSES, renumbers))));
            vec![
                at,
                ("link", text(&links[*link].name)),
                ("direction", text(word(DIRECTIONS, directions))),
                ("set", Table(changes.iter().map(change).chain(address).collect())),
            ]
        }
        Subject::Flow(FlowEvent { flow, change }) => {
            let set = match change {
                FlowChange::Backup(backup) => ("backup", names(backup, links)),
                FlowChange::Primary(link, version) => ("primary", text(name_with(&links[*link], *version))),
            };
            vec![at, ("flow", text(&flows[*flow].name)), ("set", Table(vec![set]))]
        }
    }
}

/// The key and the value of a change.
pub(super) fn change(change: &Change) -> (&'static str, Written) {
    match change {
        Change::State { up } => ("state", text(word(STATES, up))),
        Change::Rate(new) => ("rate", rate(*new)),
        Change::Delay(new) => ("delay", time(*new)),
        Change::Jitter(new) => ("jitter", time(*new)),
        Change::Loss(new) => ("loss", loss(new)),
        Change::Reorder(new) => {
            // A rate of zero ends the reordering; its delay has no effect.
            let (rate, delay) = new.map_or((0.0, Duration::from_millis(1)), |new| (new.rate, new.delay));
            ("reorder", Table(vec![("rate", rate.into()), ("delay", time(delay))]))
        }
        // A key that is left out would be completed from the present queue.
        Change::Queue(new) => {
            ("queue", kind("kind", new.kind(), [new.values(), new.defaults_left_out()].concat()))
        }
    }
}

/// The values of a queue in the notation of scenarios, with thresholds as shares of the limit.
pub(super) fn queue_by_share(of: &Queue) -> Written {
    kind("kind", of.kind(), of.values_by_share())
}

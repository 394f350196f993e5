//! Writes a scenario with every default and inherited value. A result contains this text, so that it can be
//! repeated without the file, the defaults of that version and the overrides.

use super::choices::{
    COUPLINGS, DIRECTIONS, DISTRIBUTIONS, FLOW_DIRECTIONS, IMMEDIATE_SACKS, IP_VERSIONS, PENALISATIONS,
    RECOVERIES, RETRANSMISSIONS, SACK_PATHS, SCOPES, SCTP_PATHS, SLOW_STARTS, SPLITTING_ON, SPLITTINGS,
    STATES, STREAM_SCHEDULERS, SYN_RETRANSMISSIONS, word,
};
use super::document::{self, Data, Node, Table};
use super::model::{
    Buffer, Change, Common, Event, Flow, Host, Link, LinkModel, LinkRate, Loss, MessageSize, Middlebox,
    Mptcp, Protocol, Queue, QueueLimit, Scenario, Scope, Sctp, Tcp, Workload,
};
use super::quantity::{PACKETS, RATE, SIZE, TIME};
use anabranch_base::time::{Duration, Time};
use anabranch_multipath::congestion::{Couple, Rules, SlowStart};
use anabranch_netem::keys;
use anabranch_settings::policy::{Penalisation, Reliability, SynRetransmission};
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

fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

fn time(duration: Duration) -> String {
    quoted(&TIME.written(duration.as_nanos()))
}

fn moment(at: Time) -> String {
    time(at.since(Time::ZERO))
}

fn rate(rate: anabranch_base::units::Rate) -> String {
    quoted(&RATE.written(rate.bits_per_second()))
}

fn size(bytes: u64) -> String {
    quoted(&SIZE.written(bytes))
}

fn buffer(buffer: Buffer) -> String {
    match buffer {
        Buffer::Bytes(bytes) => size(bytes),
        Buffer::Auto => quoted("auto"),
    }
}

/// A duration, or a range that begins with it.
fn spread(least: Duration, more: Duration) -> String {
    if more == Duration::ZERO {
        return time(least);
    }
    inline(vec![("uniform", format!("[{}, {}]", time(least), time(least + more)))])
}

/// The shortest text that parses to the same number.
fn number(number: f64) -> String {
    format!("{number:?}")
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
    entries.extend(flow.common.mtu.map(|mtu| ("mtu", mtu.to_string())));
    if flow.protocol != Protocol::Udp {
        entries.extend(common(&flow.common));
    }
    match &flow.protocol {
        Protocol::Udp => {}
        Protocol::Tcp(settings) => entries.extend(tcp(settings, links)),
        Protocol::Mptcp { tcp: subflow, mptcp } => {
            entries.extend(tcp(subflow, links));
            entries.extend([
                ("scheduler", quoted(mptcp.scheduler.name)),
                ("paths", quoted(&mptcp.paths.to_string())),
                ("opportunistic_retransmission", mptcp.opportunistic_retransmission.to_string()),
                ("penalisation", penalisation(mptcp.penalisation)),
                ("dss_checksum", mptcp.dss_checksum.to_string()),
                ("backup", names(&mptcp.backup, links)),
            ]);
            entries.extend(start_up(mptcp.mechanisms_in_start_up));
            entries.extend(syn_retransmission(mptcp));
        }
        Protocol::Sctp(settings) => entries.extend(sctp(settings, links)),
    }
    entries
}

fn common(common: &Common) -> Entries {
    let mut entries = vec![
        ("congestion", quoted(common.congestion.entry.name)),
        ("send_buffer", buffer(common.send_buffer)),
        ("receive_buffer", buffer(common.receive_buffer)),
        ("rto_initial", time(common.rto_initial)),
        ("rto_min", time(common.rto_min)),
        ("rto_max", time(common.rto_max)),
        ("ecn", common.ecn.to_string()),
    ];
    // Omitted where it is the default.
    let slow_start = common.congestion.options.slow_start;
    if slow_start != SlowStart::Rfc {
        entries.push(("slow_start", quoted(word(SLOW_STARTS, &slow_start))));
    }
    let couple = common.congestion.options.couple;
    if couple != Couple::All {
        entries.push(("couple", quoted(word(COUPLINGS, &couple))));
    }
    entries
}

/// Mechanisms that wait for the end of start-up; omitted without that, so that files without the key keep
/// their canonical form.
fn start_up(mechanisms: bool) -> Option<(&'static str, String)> {
    (!mechanisms).then(|| ("mechanisms_in_start_up", "false".into()))
}

fn penalisation(of: Penalisation) -> String {
    match of {
        Penalisation::Never => "false".into(),
        Penalisation::Weaker => "true".into(),
        Penalisation::Any => quoted(word(PENALISATIONS, &of)),
    }
}

/// Omitted where the floor is the protocol's own, so that files without the key keep their canonical form.
fn ssthresh_floor(packets: u32, rules: Rules) -> Option<(&'static str, String)> {
    (packets != rules.floor()).then(|| ("ssthresh_floor", packets.to_string()))
}

/// Omitted where SYNs are repeated on their own pair, so that files without the key keep their canonical
/// form.
fn syn_retransmission(mptcp: &Mptcp) -> Entries {
    let mut entries = Vec::new();
    if mptcp.syn_retransmission != SynRetransmission::Single {
        let choice = word(SYN_RETRANSMISSIONS, &mptcp.syn_retransmission);
        entries.push(("syn_retransmission", quoted(choice)));
    }
    if mptcp.syn_pairs != Mptcp::default().syn_pairs {
        entries.push(("syn_pairs", mptcp.syn_pairs.to_string()));
    }
    entries
}

/// A list of links.
fn names(of: &[usize], links: &[Link]) -> String {
    let names: Vec<_> = of.iter().map(|&link| quoted(&links[link].name)).collect();
    format!("[{}]", names.join(", "))
}

fn tcp(tcp: &Tcp, links: &[Link]) -> Entries {
    let mut entries = vec![
        ("delayed_ack", tcp.delayed_ack.map_or_else(|| "false".into(), time)),
        ("initial_window", tcp.initial_window.to_string()),
        ("abc_limit", tcp.abc_limit.map_or_else(|| "false".into(), |segments| segments.to_string())),
        ("whole_packets", tcp.whole_packets.to_string()),
        ("recovery", quoted(word(RECOVERIES, &tcp.recovery))),
        ("timestamps", tcp.timestamps.to_string()),
        ("nagle", tcp.nagle.to_string()),
        ("keepalive", tcp.keepalive.map_or_else(|| "false".into(), time)),
    ];
    entries.extend(ssthresh_floor(tcp.ssthresh_floor, Rules::Tcp));
    if let Some(timeout) = tcp.user_timeout {
        entries.push(("user_timeout", time(timeout)));
    }
    if !tcp.initial_path.is_empty() {
        entries.push(("initial_path", names(&tcp.initial_path, links)));
    }
    entries
}

fn sctp(sctp: &Sctp, links: &[Link]) -> Entries {
    let mut entries = vec![
        ("scheduler", quoted(sctp.scheduler.name)),
        ("paths", quoted(word(SCTP_PATHS, &sctp.paths))),
        ("nr_sack", sctp.nr_sack.to_string()),
        ("buffer_splitting", quoted(word(SPLITTINGS, &sctp.splitting.sides))),
        ("splitting_on", quoted(word(SPLITTING_ON, &sctp.splitting.on))),
        ("chunk_rescheduling", sctp.chunk_rescheduling.map_or_else(|| "false".into(), number)),
        ("ordered", sctp.ordered.to_string()),
        ("streams", sctp.streams.to_string()),
        ("sack_delay", time(sctp.sack_delay)),
        ("immediate_sack", quoted(word(IMMEDIATE_SACKS, &sctp.immediate_sack))),
        ("sack_path", quoted(word(SACK_PATHS, &sctp.sack_path))),
        ("retransmission", quoted(word(RETRANSMISSIONS, &sctp.retransmission))),
        ("stream_scheduler", quoted(word(STREAM_SCHEDULERS, &sctp.stream_scheduler))),
        ("i_data", sctp.i_data.to_string()),
        ("asconf", sctp.asconf.to_string()),
        ("pmtu_discovery", sctp.pmtu_discovery.to_string()),
        ("udp_encapsulation", sctp.udp_encapsulation.to_string()),
        ("heartbeat_interval", sctp.heartbeat_interval.map_or_else(|| "false".into(), time)),
        ("path_max_retrans", sctp.path_max_retrans.to_string()),
        (
            "potentially_failed_threshold",
            sctp.potentially_failed_threshold.map_or_else(|| "false".into(), |errors| errors.to_string()),
        ),
        ("tail_loss_probe", sctp.tail_loss_probe.to_string()),
        ("association_max_retrans", sctp.association_max_retrans.to_string()),
        ("init_max_retrans", sctp.init_max_retrans.to_string()),
        ("max_burst", sctp.max_burst.map_or_else(|| "false".into(), |packets| packets.to_string())),
        ("overshoot", sctp.overshoot.to_string()),
        ("abc_limit", sctp.abc_limit.map_or_else(|| "false".into(), |packets| packets.to_string())),
    ];
    entries.extend(ssthresh_floor(sctp.ssthresh_floor, Rules::Sctp));
    // As it was before there was the key.
    if !sctp.nagle {
        entries.push(("nagle", "false".into()));
    }
    if sctp.cmt {
        entries.push(("penalisation", sctp.penalisation.to_string()));
        entries.extend(start_up(sctp.mechanisms_in_start_up));
    }
    match sctp.initial_path[..] {
        [] => {}
        [destination] => entries.push(("initial_path", quoted(&links[destination].name))),
        _ => entries.push(("initial_path", names(&sctp.initial_path, links))),
    }
    entries
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

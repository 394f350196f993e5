//! The network of a run as JSON: nodes, links with their present values, flows and events.

use anabranch_base::time::Time;
use anabranch_sim::scenario::model::{
    Directions, Flow, LinkDelay, LinkModel, LinkRate, QueueLimit, Scenario,
};
use anabranch_sim::{Simulation, scenario};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The network of a run.
pub(crate) fn describe(run: &mut Simulation) -> Value {
    let sample = run.sample();
    let scenario = run.scenario();
    let paths = sample.flows.into_iter().map(|flow| {
        flow.paths
            .into_iter()
            .map(|path| json!({ "name": path.name, "links": path.links }))
            .collect::<Vec<_>>()
    });
    let written = scenario::to_json(scenario);
    let flows = scenario.flows.iter().zip(paths).enumerate();
    let flows: Vec<_> =
        flows.map(|(at, (declared, paths))| flow(declared, &written["flow"][at], &paths)).collect();
    let links = scenario.links_after(run.events_done());
    let links = links.iter().map(|link| {
        json!({
            "name": link.name,
            "ends": link.between,
            "forward": direction(&link.forward),
            "reverse": direction(&link.reverse),
        })
    });
    json!({
        "title": scenario.title,
        "duration_ns": scenario.duration.as_nanos(),
        "warmup_ns": scenario.warmup.as_nanos(),
        // A number of JSON is exact to 2^53 in a page.
        "seed": run.seed().to_string(),
        "over": run.is_over(),
        "nodes": nodes(scenario),
        "links": links.collect::<Vec<_>>(),
        "flows": flows,
        "events": events(scenario, &written["event"]),
    })
}

/// All nodes, in the order of the links.
fn nodes(scenario: &Scenario) -> Vec<Value> {
    let hosts =
        scenario.flows.iter().flat_map(|flow| [Some(&flow.from), Some(&flow.to), flow.through.as_ref()]);
    let hosts: BTreeSet<_> = hosts.flatten().collect();
    let mut seen = BTreeSet::new();
    let names = scenario.links.iter().flat_map(|link| &link.between).filter(|&name| seen.insert(name));
    let node = |name: &String| {
        let here = scenario.middleboxes.iter().find(|middlebox| middlebox.node == *name);
        let kind = here.map(|middlebox| middlebox.does.kind().name);
        json!({ "name": name, "host": hosts.contains(name), "middlebox": kind })
    };
    names.map(node).collect()
}

/// A direction of a link: the keys of scenarios, and numbers.
fn direction(model: &LinkModel) -> Value {
    let written = scenario::link_model_to_json(model);
    let rate = match &model.rate {
        LinkRate::Constant(rate) => Some(rate.bits_per_second()),
        LinkRate::Trace { .. } => None,
    };
    let (packets, bytes) = match model.queue.limit() {
        QueueLimit::Packets(packets) => (Some(packets), None),
        QueueLimit::Bytes(bytes) => (None, Some(bytes)),
    };
    let delay = match &model.delay {
        LinkDelay::Constant(delay) => Some(delay.as_nanos()),
        LinkDelay::Trace { .. } => None,
    };
    json!({
        "up": model.up,
        "rate_bps": rate,
        "delay_ns": delay,
        "jitter_ns": model.jitter.as_nanos(),
        "mtu": model.mtu,
        "queue": written["queue"],
        "queue_limit_packets": packets,
        "queue_limit_bytes": bytes,
        "loss": written["loss"],
        "reorder": written["reorder"],
    })
}

fn flow(declared: &Flow, written: &Value, paths: &[Value]) -> Value {
    let direction = match declared.direction {
        Directions::Both => "both",
        Directions::Forward => "forward",
        Directions::Reverse => "reverse",
    };
    json!({
        "name": declared.name,
        "from": declared.from,
        "to": declared.to,
        "through": declared.through,
        "protocol": declared.protocol.name(),
        "congestion": declared.protocol.congestion().map(|choice| choice.entry.name),
        "scheduler": written["scheduler"],
        "direction": direction,
        "start_ns": declared.start.since(Time::ZERO).as_nanos(),
        "paths": paths,
    })
}

/// The events as in the canonical scenario, with their times as numbers.
fn events(of: &Scenario, written: &Value) -> Vec<Value> {
    let written = written.as_array().into_iter().flatten();
    let event = |(event, written): (&scenario::model::Event, &Value)| {
        json!({
            "at_ns": event.at.as_nanos(),
            "link": written["link"],
            "flow": written["flow"],
            "direction": written["direction"],
            "set": written["set"],
        })
    };
    of.events.iter().zip(written).map(event).collect()
}

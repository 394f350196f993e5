//! The result of a flow with arrivals: one for all its connections.

use crate::host::{ArrivingFlow, Flow, FlowEnvironment, Totals};
use crate::scenario::model;
use crate::scenario::result::{FlowResult, Measured, Quantiles};
use anabranch_base::time::Time;
use std::collections::BTreeMap;

/// The result, without the slowdown.
pub(super) fn flow(
    (declared, direction): (&model::Flow, Option<String>),
    (arriving_flow, flows): (&ArrivingFlow, &[Flow]),
    world: &FlowEnvironment,
    measured: &Measured,
) -> FlowResult {
    let totals = arriving_flow.totals(flows, world);
    let [delivered_before, sent_before] = arriving_flow.before();
    let start = arriving_flow.start().min(measured.until);
    FlowResult {
        name: declared.name.clone(),
        from: declared.from.clone(),
        to: declared.to.clone(),
        through: None,
        protocol: declared.protocol.name().to_owned(),
        direction,
        congestion: declared.protocol.congestion().map(|choice| choice.entry.name.to_owned()),
        start_s: start.since(Time::ZERO).as_secs_f64(),
        state: if arriving_flow.is_over() { "closed" } else { "open" }.to_owned(),
        fallback: false,
        goodput_bps: measured.rate(totals.delivered - delivered_before),
        throughput_bps: measured.rate(totals.sent - sent_before),
        delivered_bytes: totals.delivered,
        written_bytes: totals.written,
        setup_s: None,
        completion_s: None,
        delivery_delay_s: Quantiles::of(&arriving_flow.delays(flows)),
        reverse_goodput_bps: None,
        reverse_delivered_bytes: None,
        reverse_written_bytes: None,
        reverse_delivery_delay_s: None,
        answers: None,
        response_time_s: None,
        lost_share: None,
        duplicated_share: None,
        jitter_s: None,
        r_factor: None,
        mos: None,
        arrived: Some(totals.arrived),
        unfinished: Some(totals.arrived - totals.refused - totals.finished),
        refused: Some(totals.refused),
        completion_time_s: Quantiles::of(arriving_flow.completions()),
        slowdown: None,
        recovery_s: None,
        recovered_share: None,
        gap_s: None,
        gap_delivered_bytes: None,
        repeated_share: None,
        reordering_buffer_bytes: None,
        receive_buffer_bytes: None,
        limited_s: BTreeMap::new(),
        missed_bytes: BTreeMap::new(),
        blocked_s: BTreeMap::new(),
        buffer_blocked_s: BTreeMap::new(),
        counters: counters(totals),
        streams: Vec::new(),
        paths: Vec::new(),
        paths_wanted: Some(Vec::new()),
    }
}

/// The counters of the protocol, and those that other flows have for each path.
fn counters(totals: Totals) -> BTreeMap<String, u64> {
    let of_paths = [("retransmissions", totals.retransmissions), ("timeouts", totals.timeouts)];
    let all = totals.counters.into_iter().chain(of_paths);
    all.map(|(name, count)| (name.to_owned(), count)).collect()
}

//! Completion times in an idle network, with which those of a flow with arrivals are compared.

use super::{RunOptions, Simulation};
use crate::host::ArrivingFlow;
use crate::scenario::Scenario;
use crate::scenario::model::{Loss, MessageSize, Workload};
use crate::scenario::result::Quantiles;
use anabranch_base::time::{Duration, Time};
use anabranch_netem::loss::none;
use std::collections::BTreeMap;

/// The first step of a run alone; each further one doubles the time.
const FIRST_STEP: Duration = Duration::from_millis(10);

/// Slowdown of the sampled connections of a flow with arrivals: their completion times relative to those of the same files
/// alone in the network. `None` without such a connection.
pub(super) fn slowdown(
    scenario: &Scenario,
    flow: usize,
    arriving_flow: &ArrivingFlow,
    seed: u64,
) -> Option<Quantiles> {
    let alone = alone(scenario, flow);
    let mut known: BTreeMap<u64, Option<Duration>> = BTreeMap::new();
    let relative = |&(size, completion): &(u64, Duration)| {
        let idle = known.entry(size).or_insert_with(|| completion_of(size, &alone, seed));
        idle.map(|idle| completion.as_secs_f64() / idle.as_secs_f64())
    };
    Quantiles::of_values(arriving_flow.sample().iter().filter_map(relative).collect())
}

/// The scenario with this flow only, without events and losses.
fn alone(scenario: &Scenario, flow: usize) -> Scenario {
    let mut alone = scenario.clone();
    alone.flows = vec![scenario.flows[flow].clone()];
    (alone.warmup, alone.events) = (Duration::ZERO, Vec::new());
    for model in alone.links.iter_mut().flat_map(|link| [&mut link.forward, &mut link.reverse]) {
        model.loss = Loss::None(none::None);
    }
    let flow = &mut alone.flows[0];
    (flow.start, flow.start_spread, flow.stop) = (Time::ZERO, Duration::ZERO, None);
    alone
}

/// Completion time of a file of this size; `None` if the scenario ends before.
fn completion_of(size: u64, alone: &Scenario, seed: u64) -> Option<Duration> {
    let mut scenario = alone.clone();
    if let Workload::File { size: own, arrivals, .. } = &mut scenario.flows[0].workload {
        (*own, *arrivals) = (MessageSize::Constant(size), None);
    }
    let mut run =
        Simulation::new(scenario, &RunOptions { seed: Some(seed), ..RunOptions::default() }).ok()?;
    let mut step = FIRST_STEP;
    while !run.is_over() {
        run.step_until(Time::ZERO + step).ok()?;
        if let Some(at) = run.flows()[0].completed() {
            return Some(at.since(Time::ZERO));
        }
        step = step.saturating_mul(2);
    }
    None
}

//! Fault runs: random networks, faults and settings under every protocol. In every case, each byte must be
//! delivered once and in order: the simulator checks each delivery of each run and panics otherwise. No flow
//! may stall once the faults have ended, and no buffer may exceed its setting.

use super::cases::{Case, case};
use anabranch_sim::scenario::model::{Change, Event, Flow, Link, Protocol, Scenario};
use anabranch_sim::scenario::result::{FlowResult, PathResult};
use anabranch_sim::{RunOptions, RunResult, Simulation};
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};

/// The result of a case, and the maximum number of packets in flight.
fn run(case: &Case, options: &RunOptions) -> (RunResult, usize) {
    let mut simulation =
        Simulation::new(case.scenario.clone(), options).expect("the case is a valid scenario");
    simulation.run(&mut |_| true).expect("the run is not stopped");
    let packets = simulation.datapath().packets_high_water();
    (simulation.result(), packets)
}

/// Returns true if no route connects the remaining addresses, because each end has removed the address of a
/// link that was down (ASCONF). This is the one case in which an association may end early, see
/// `sctp/asconf.rs`. About one case in a hundred thousand ends so.
fn is_stranded(flow: &FlowResult, declared: &Flow) -> bool {
    // A path whose address was removed has no congestion window.
    let is_lost = |path: &PathResult| path.cwnd_bytes == 0 || path.links.is_empty();
    let asconf = matches!(&declared.protocol, Protocol::Sctp(settings) if settings.asconf);
    asconf && flow.paths.iter().any(|path| path.cwnd_bytes == 0) && flow.paths.iter().all(is_lost)
}

/// Returns true if the far end may have removed all addresses with a route, although the result does not show
/// this: links of both hosts went down, and each path lost a link. The result has the near end's paths only,
/// which stay usable if the far end's request never arrives.
fn may_strand_the_other_end(flow: &FlowResult, declared: &Flow, scenario: &Scenario) -> bool {
    let is_down = |change: &Change| matches!(change, Change::State { up: false });
    let fell = |link: &Link| {
        let events = scenario.events.iter().filter_map(Event::of_link);
        let mut own = events.filter(|event| scenario.links[event.link].name == link.name);
        own.any(|event| event.changes.iter().any(is_down))
    };
    let fallen: Vec<&Link> = scenario.links.iter().filter(|link| fell(link)).collect();
    let at_both = [&declared.from, &declared.to]
        .iter()
        .all(|host| fallen.iter().any(|link| link.between.contains(host)));
    let lost_one = |path: &PathResult| fallen.iter().any(|link| path.links.contains(&link.name));
    let asconf = matches!(&declared.protocol, Protocol::Sctp(settings) if settings.asconf);
    asconf && at_both && flow.paths.iter().all(lost_one)
}

/// Properties that must hold for every run.
fn check_case(case: &Case) -> Result<(), TestCaseError> {
    let (result, packets) = run(case, &RunOptions { check_wire: true, ..RunOptions::default() });
    for (flow, declared) in result.flows.iter().zip(&case.scenario.flows) {
        // The sender respects the window, except for one packet in flight on each path.
        let [_, receive_buffer] = declared.protocol.buffers().expect("every case has a connection");
        let limit = receive_buffer
            + 1500 * (flow.paths.len() as u64 + 2)
            + super::cases::incomplete_message_bytes(declared);
        let most = flow.receive_buffer_bytes.expect("a simulation reports this buffer").max;
        prop_assert!(most <= limit, "{} holds {most} B in a receive buffer of {limit} B", flow.name);
        if is_stranded(flow, declared) {
            continue;
        }
        prop_assert_eq!(flow.delivered_bytes, case.size, "{} stalled: {:#?}", flow.name, flow);
        if may_strand_the_other_end(flow, declared, &case.scenario) {
            continue;
        }
        if let Some(delivered) = flow.reverse_delivered_bytes {
            prop_assert_eq!(
                delivered,
                case.size,
                "{} stalled in the reverse direction: {:#?}",
                flow.name,
                flow
            );
        }
        let completed = flow.completion_s.unwrap_or(f64::INFINITY);
        prop_assert!(completed.is_finite(), "{} delivered all and did not finish: {:#?}", flow.name, flow);
    }
    prop_assert!(packets <= case.packets_limit(), "{packets} packets in flight");
    let (step_by_step, _) = run(case, &RunOptions { in_order: true, ..RunOptions::default() });
    prop_assert!(step_by_step == result, "checking or lookahead changed the run");
    Ok(())
}

/// Seeds of cases that failed before; they are run first.
const REGRESSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/proptest-regressions/faults.txt");

/// Checks `cases` random cases.
fn check_cases(cases: u32, protocol: impl Strategy<Value = Protocol>) {
    let mut runner = TestRunner::new(Config {
        cases,
        max_shrink_iters: 2000,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(REGRESSIONS))),
        ..Config::default()
    });
    if let Err(failure) = runner.run(&case(protocol), |case| check_case(&case)) {
        panic!("{failure}");
    }
}

#[test]
fn tcp_delivers_under_faults() {
    check_cases(1000, super::cases::tcp());
}

#[test]
fn mptcp_delivers_under_faults() {
    check_cases(1500, super::cases::mptcp());
}

#[test]
fn sctp_delivers_under_faults() {
    check_cases(1500, super::cases::sctp());
}

//! Fault runs: random networks, faults and settings under every protocol. Whatever happens, every byte must be delivered
//! once and in order (the simulator checks each delivery of each run and panic otherwise), no flow may stall once
//! the faults are over, and no buffer may outgrow its setting.

mod cases;

use anabranch_sim::scenario::model::{Flow, Protocol};
use anabranch_sim::scenario::result::{FlowResult, PathResult};
use anabranch_sim::{RunOptions, RunResult, Simulation};
use cases::{Case, case};
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};

/// What came out of a case, and the largest number of packets on the way.
fn run(case: &Case, options: &RunOptions) -> (RunResult, usize) {
    let mut simulation = Simulation::new(&case.scenario, options).expect("the case is a valid scenario");
    simulation.run(&mut |_| true).expect("nothing stops the run");
    let packets = simulation.datapath().packets_high_water();
    (simulation.result(), packets)
}

/// Each end has taken away the address of a link that was down (ASCONF), and no route connects what the two of them are
/// left with: the one case in which an association may end before its time, as `sctp/asconf.rs` says. About one case in a
/// hundred thousand.
fn is_stranded(flow: &FlowResult, declared: &Flow) -> bool {
    // A path whose address was taken away has no congestion window.
    let is_lost = |path: &PathResult| path.cwnd_bytes == 0 || path.links.is_empty();
    let asconf = matches!(&declared.protocol, Protocol::Sctp(settings) if settings.asconf);
    asconf && flow.paths.iter().any(|path| path.cwnd_bytes == 0) && flow.paths.iter().all(is_lost)
}

/// What must hold of a run, whatever went wrong in it.
fn judge(case: &Case) -> Result<(), TestCaseError> {
    let (result, packets) = run(case, &RunOptions { check_wire: true, ..RunOptions::default() });
    for (flow, declared) in result.flows.iter().zip(&case.scenario.flows) {
        // The sender keeps to the window; each path may have a packet on the way that exceeds it.
        let limit = declared.common.receive_buffer.most()
            + 1500 * (flow.paths.len() as u64 + 2)
            + cases::begun(declared);
        let most = flow.receive_buffer_bytes.expect("a simulation knows it").max;
        prop_assert!(most <= limit, "{} holds {most} B in a receive buffer of {limit} B", flow.name);
        if is_stranded(flow, declared) {
            continue;
        }
        prop_assert_eq!(flow.delivered_bytes, case.size, "{} stalled: {:#?}", flow.name, flow);
        if let Some(delivered) = flow.reverse_delivered_bytes {
            prop_assert_eq!(delivered, case.size, "{} stalled on the way back: {:#?}", flow.name, flow);
        }
        let completed = flow.completion_s.unwrap_or(f64::INFINITY);
        prop_assert!(completed.is_finite(), "{} delivered all and did not finish: {:#?}", flow.name, flow);
    }
    prop_assert!(packets <= case.packets_limit(), "{packets} packets on the way");
    let (step_by_step, _) = run(case, &RunOptions { in_order: true, ..RunOptions::default() });
    prop_assert!(step_by_step == result, "checking, or what was done ahead of its time, changed the run");
    Ok(())
}

/// Seeds of cases that failed once; they are run first.
const REGRESSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults.proptest-regressions");

/// Judges so many random cases.
fn judge_all(cases: u32, protocol: impl Strategy<Value = Protocol>) {
    let mut runner = TestRunner::new(Config {
        cases,
        max_shrink_iters: 2000,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(REGRESSIONS))),
        ..Config::default()
    });
    if let Err(failure) = runner.run(&case(protocol), |case| judge(&case)) {
        panic!("{failure}");
    }
}

#[test]
fn tcp_delivers() {
    judge_all(1000, cases::tcp());
}

#[test]
fn mptcp_delivers() {
    judge_all(1500, cases::mptcp());
}

#[test]
fn sctp_delivers() {
    judge_all(1500, cases::sctp());
}

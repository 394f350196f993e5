//! Fault runs: random networks, faults and settings under every protocol. Whatever happens, every byte must be delivered
//! once and in order (the simulator's books check each delivery of each run and panic otherwise), no flow may stall once
//! the faults are over, and no buffer may outgrow its setting.

mod cases;

use cases::{Case, QUIET, case};
use multipath::time::{Duration, Time};
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};
use sim::scenario::model::Protocol;
use sim::{RunOptions, RunResult, Simulation};
use std::cell::Cell;
use transport::Reason;

/// What came out of a case.
struct Outcome {
    result: RunResult,
    /// The largest number of packets on the way.
    packets: usize,
    /// Per flow: when an end gave up first because nobody answered it.
    gave_up: Vec<Option<Time>>,
}

fn run(case: &Case, check_wire: bool) -> Outcome {
    let options = RunOptions { check_wire, ..RunOptions::default() };
    let mut simulation = Simulation::new(&case.scenario, &options).expect("the case is a valid scenario");
    simulation.run(&mut |_| true).expect("nothing stops the run");
    let timed_out =
        |ended: &Option<(Time, Reason)>| ended.filter(|end| end.1 == Reason::TimedOut).map(|end| end.0);
    let gave_up =
        simulation.flows().iter().map(|flow| flow.ended.iter().filter_map(timed_out).min()).collect();
    let packets = simulation.fabric().packets_high_water();
    Outcome { result: simulation.result(), packets, gave_up }
}

/// The longest retransmission timeout.
const RTO_MAX: Duration = Duration::from_secs(60);

/// What must hold of a run, whatever went wrong in it. Returns how many flows gave up because of the faults, which SCTP
/// does after ten errors in a row (RFC 9260 §8.1; the last one shows a timeout later) and before it is open after eight
/// attempts on pairs of addresses, of which many may be unconnected; TCP is far more patient.
fn judge(case: &Case) -> Result<usize, TestCaseError> {
    let Outcome { result, packets, gave_up } = run(case, true);
    let impatient = |flow: usize| {
        matches!(case.scenario.flows[flow].protocol, Protocol::Sctp(_))
            && gave_up[flow]
                .is_some_and(|at| at <= Time::ZERO + QUIET + RTO_MAX || result.flows[flow].written_bytes == 0)
    };
    let mut lost = 0;
    for (index, (flow, declared)) in result.flows.iter().zip(&case.scenario.flows).enumerate() {
        // The sender keeps to the window; each path may have a packet on the way that exceeds it.
        let limit = declared.common.receive_buffer + 1500 * (flow.paths.len() as u64 + 2);
        let most = flow.receive_buffer_bytes.max;
        prop_assert!(most <= limit, "{} holds {most} B in a receive buffer of {limit} B", flow.name);
        if impatient(index) {
            lost += 1;
            continue;
        }
        prop_assert_eq!(flow.delivered_bytes, case.size, "{} stalled, {:?}: {:#?}", flow.name, gave_up, flow);
        let completed = flow.completion_s.unwrap_or(f64::INFINITY);
        prop_assert!(completed.is_finite(), "{} delivered all and did not finish: {:#?}", flow.name, flow);
    }
    prop_assert!(packets <= case.packets_limit(), "{packets} packets on the way");
    if case.scenario.seed.is_multiple_of(8) {
        let unchecked = run(case, false).result;
        prop_assert_eq!(&unchecked.digest, &result.digest, "the check changed the run");
    }
    Ok(lost)
}

/// Seeds of cases that failed once; they are run first.
const REGRESSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults.proptest-regressions");

/// Judges so many random cases; at most one flow in ten may give up.
fn judge_all(cases: u32, protocol: impl Strategy<Value = Protocol>) {
    let given_up = Cell::new(0);
    let mut runner = TestRunner::new(Config {
        cases,
        max_shrink_iters: 2000,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(REGRESSIONS))),
        ..Config::default()
    });
    let outcome = runner.run(&case(protocol), |case| {
        given_up.set(given_up.get() + judge(&case)?);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    assert!(given_up.get() * 10 <= cases as usize, "{} flows of {cases} cases gave up", given_up.get());
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

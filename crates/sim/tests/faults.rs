//! Fault runs: random networks, faults and settings under every protocol. Whatever happens, every byte must be delivered
//! once and in order (the simulator's books check each delivery of each run and panic otherwise), no flow may stall once
//! the faults are over, and no buffer may outgrow its setting.

mod cases;

use cases::{Case, QUIET, case};
use multipath::time::Time;
use proptest::prelude::*;
use proptest::test_runner::Config;
use sim::{RunOptions, RunResult, Simulation};

/// Runs a case to its end; the result and the largest number of packets on the way.
fn run(case: &Case, check_wire: bool) -> (RunResult, usize) {
    let options = RunOptions { check_wire, ..RunOptions::default() };
    let mut simulation = Simulation::new(&case.scenario, &options).expect("the case is a valid scenario");
    simulation.run(&mut |_| true).expect("nothing stops the run");
    let packets = simulation.fabric().packets_high_water();
    (simulation.result(), packets)
}

/// What must hold of a run, whatever went wrong in it.
fn judge(case: &Case) -> Result<(), TestCaseError> {
    let (result, packets) = run(case, true);
    for (flow, declared) in result.flows.iter().zip(&case.scenario.flows) {
        let size = case.size;
        prop_assert_eq!(flow.delivered_bytes, size, "{} stalled: {:#?}", flow.name, flow);
        let completed = flow.completion_s.unwrap_or(f64::INFINITY);
        prop_assert!(completed.is_finite(), "{} delivered all and did not finish: {:#?}", flow.name, flow);
        let limit = declared.common.receive_buffer + 2 * 1500;
        let most = flow.receive_buffer_bytes.max;
        prop_assert!(most <= limit, "{} holds {most} B in a receive buffer of {limit} B", flow.name);
    }
    prop_assert!(packets <= case.packets_limit(), "{packets} packets on the way");
    if case.scenario.seed % 8 == 0 {
        let (unchecked, _) = run(case, false);
        prop_assert_eq!(&unchecked.digest, &result.digest, "the check changed the run");
    }
    Ok(())
}

fn config(cases: u32) -> Config {
    Config { cases, max_shrink_iters: 2000, ..Config::default() }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn tcp_delivers(case in case(cases::tcp())) {
        judge(&case)?;
    }
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn mptcp_delivers(case in case(cases::mptcp())) {
        judge(&case)?;
    }
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn sctp_delivers(case in case(cases::sctp())) {
        judge(&case)?;
    }
}

#[test]
fn faults_end_in_time() {
    let ends = Time::ZERO + QUIET;
    assert!(ends < Time::ZERO + cases::DURATION);
}

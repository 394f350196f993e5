//! A congestion control outside the table: AIMD that keeps 70 % of the window after a loss, on two disjoint paths.
//!
//! An [`Algorithm`] is the arithmetic; [`Controller`] adds slow start, recovery, timeouts and idle restarts. Run it with
//! `cargo run --release -p anabranch-sim --example own_control`.

use anabranch_multipath::congestion::{Ack, Algorithm, Choice, Controller, Entry, Group, Options, Signal};
use anabranch_sim::{RunOptions, presets, run};

/// AIMD: adds one packet per round trip, and keeps 70 % of the window after a loss.
#[derive(Debug)]
struct Gentle;

impl Algorithm for Gentle {
    const NAME: &'static str = "gentle";
    const PER_WINDOW: bool = true;
    type State = ();

    fn avoidance(&mut self, group: &mut Group<()>, at: usize, _: &Ack) -> f64 {
        group.path(at).mss as f64
    }

    fn threshold(&self, group: &Group<()>, at: usize) -> u64 {
        let path = group.path(at);
        (path.cwnd * 7 / 10).max(path.floor())
    }
}

static GENTLE: Entry = Entry {
    name: Gentle::NAME,
    aliases: &[],
    summary: "one packet per round trip, 70 % of the window on loss",
    source: "this example",
    coupled: false,
    signal: Signal::Loss,
    build: &|_| Box::new(Controller::new(Gentle)),
};

fn main() -> Result<(), anabranch_sim::RunError> {
    for entry in [presets::congestion("reno").entry, &GENTLE] {
        let mut scenario = presets::disjoint(20, 2, presets::mptcp(), "reno");
        let congestion =
            scenario.flows[0].protocol.congestion_mut().expect("Multipath TCP has a congestion control");
        *congestion = Choice { entry, options: Options::default() };
        let result = run(&scenario, &RunOptions::default())?;
        let goodput_mbit = result.flows[0].goodput_bps / 1e6;
        println!("{:>7}: {goodput_mbit:.1} Mbit/s over two paths of 10 Mbit/s", entry.name);
        assert!(goodput_mbit > 17.0, "both paths are nearly full");
    }
    Ok(())
}

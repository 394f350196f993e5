//! A scheduler outside the table: always the path with the largest free window, beside the default of Multipath TCP.
//!
//! Run it with `cargo run --release -p anabranch-sim --example own_scheduler`.

use anabranch_multipath::scheduler::{Decision, Entry, Offer, PathState, Scheduler, eligible};
use anabranch_scenario::model::Protocol;
use anabranch_sim::{RunOptions, presets, run};
use anabranch_tcp::mptcp;

/// The eligible path with the most free window.
#[derive(Debug)]
struct Roomiest;

impl Scheduler for Roomiest {
    fn name(&self) -> &'static str {
        MOST_FREE_WINDOW.name
    }

    fn select(&mut self, offer: &Offer, paths: &[PathState]) -> Decision {
        let room = |path: &&PathState| path.cwnd.saturating_sub(path.outstanding);
        let candidates = paths.iter().filter(|path| !offer.is_empty() && eligible(path, paths));
        candidates.max_by_key(room).map_or(Decision::Wait, |path| Decision::Send(path.id))
    }
}

static MOST_FREE_WINDOW: Entry = Entry {
    name: "roomiest",
    summary: "the path with the most free window",
    source: "this example",
    wants_rates: false,
    places: false,
    wants_information: false,
    build: &|| Box::new(Roomiest),
};

fn main() -> Result<(), anabranch_sim::RunError> {
    for scheduler in [presets::scheduler("lowest-rtt"), &MOST_FREE_WINDOW] {
        let protocol = Protocol::Mptcp(mptcp::Config::default().scheduler(scheduler));
        let result = run(&presets::disjoint(20, 2, protocol, "lia"), &RunOptions::default())?;
        let goodput_mbit = result.flows[0].goodput_bps / 1e6;
        println!("{:>10}: {goodput_mbit:.1} Mbit/s over two paths of 10 Mbit/s", scheduler.name);
        assert!(goodput_mbit > 15.0, "both paths carry data");
    }
    Ok(())
}

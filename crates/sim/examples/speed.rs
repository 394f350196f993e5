//! Speed of the simulator: `speed [flows] [seconds] [Mbit/s]` runs this number of TCP flows over a bottleneck
//! of this rate per flow (default 50 Mbit/s).

fn main() -> Result<(), anabranch_sim::RunError> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().unwrap_or(2));
    let flows = arguments.next().unwrap_or(2);
    let seconds = arguments.next().unwrap_or(300);
    let rate = flows * arguments.next().unwrap_or(50);
    let scenario = anabranch_sim::presets::dumbbell(seconds, flows as usize, rate, rate);
    #[expect(clippy::disallowed_methods, reason = "the clock measures the run and does not affect it")]
    let start = std::time::Instant::now();
    let result = anabranch_sim::run(&scenario, &anabranch_sim::RunOptions::default())?;
    let wall_s = start.elapsed().as_secs_f64();
    let bottleneck = &result.links[0];
    println!(
        "{flows} flows, {seconds} s: wall {:.3} s, {:.0} k bottleneck packets/s, {:.2} M events/s, digest {}",
        wall_s,
        bottleneck.packets as f64 / wall_s / 1e3,
        result.events.unwrap_or_default() as f64 / wall_s / 1e6,
        result.digest.unwrap_or_default(),
    );
    println!(
        "utilisation {:.4}, drops {:?}, jain {:?}",
        bottleneck.utilisation, bottleneck.drops_by_cause, result.jain
    );
    for flow in result.flows.iter().take(3) {
        let path = &flow.paths[0];
        println!(
            "{} {:.2} Mbit/s, retransmissions {}, timeouts {}, cwnd {:.0}, srtt {:?}, delay {:?}",
            flow.name,
            flow.goodput_bps / 1e6,
            path.retransmissions,
            path.timeouts.unwrap_or_default(),
            path.cwnd_mean_bytes,
            path.srtt_mean_s,
            flow.delivery_delay_s,
        );
    }
    Ok(())
}

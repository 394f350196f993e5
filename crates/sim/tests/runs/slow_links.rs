//! Slow links with long queues and losses: a connection of Multipath TCP survives as long as one of TCP, and has at most
//! twice as many timeouts.

use anabranch_base::rng::Rng;
use anabranch_sim::RunOptions;
use anabranch_sim::scenario;
use anabranch_sim::scenario::result::FlowResult;

/// One link, and a flow for `seconds`.
fn alone(protocol: &str, seconds: f64, link: &str) -> FlowResult {
    let text = format!(
        "title = \"slow\"\nduration = \"{seconds} s\"\n\
         [[link]]\nname = \"l\"\nbetween = [\"S\", \"D\"]\n{link}\n\
         [[flow]]\nname = \"F\"\nfrom = \"S\"\nto = \"D\"\nprotocol = \"{protocol}\"\n"
    );
    let scenario = scenario::parse(&text, "slow.toml", &[]).unwrap_or_else(|e| panic!("{e}\n{text}"));
    anabranch_sim::run(&scenario, &RunOptions::default()).unwrap().flows.remove(0)
}

fn timeouts(flow: &FlowResult) -> u64 {
    flow.paths.iter().map(|path| path.timeouts.unwrap()).sum()
}

/// 4 kbit/s to 1 Mbit/s, queues of 5 to 300 packets, losses of 0 to 5 %.
fn random_link(rng: &mut Rng) -> (f64, String) {
    let kbps = 4.0 * (rng.unit() * 250_f64.ln()).exp();
    let queue = 5 + rng.below(296);
    let loss = [0.0, 0.002, 0.01, 0.05][rng.below(4) as usize];
    let delay = 5 + rng.below(300);
    let link = format!(
        "rate = \"{kbps:.3} kbit/s\"\ndelay = \"{delay} ms\"\n\
         queue = {{ kind = \"fifo\", limit = \"{queue} packets\" }}\nloss = {{ model = \"bernoulli\", rate = {loss} }}"
    );
    // Long enough for a few thousand packets, but at most an hour.
    ((3000.0 * 12.0 / kbps).clamp(60.0, 3600.0), link)
}

#[test]
fn mptcp_survives_slow_links_as_long_as_tcp() {
    let mut rng = Rng::new(20_261_125);
    let mut total = [0; 2];
    for _ in 0..80 {
        let (seconds, link) = random_link(&mut rng);
        let [tcp, mptcp] = ["tcp", "mptcp"].map(|protocol| alone(protocol, seconds, &link));
        assert!(mptcp.state == "open" || tcp.state != "open", "{link}: {} after {seconds} s", mptcp.state);
        let both = [timeouts(&tcp), timeouts(&mptcp)];
        // Small numbers differ by chance, because the two runs lose different segments.
        assert!(both[1] <= 2 * both[0] + 8, "{link}: {both:?}");
        total = [total[0] + both[0], total[1] + both[1]];
    }
    assert!(total[0] > 100 && total[1] <= 2 * total[0], "{total:?}");
}

/// A path without losses whose round-trip time is longer than the maximum retransmission timeout.
#[test]
fn connection_survives_a_round_trip_of_minutes() {
    let link = "rate = \"5 kbit/s\"\ndelay = \"50 ms\"\nqueue = { kind = \"fifo\", limit = \"100 packets\" }";
    let [tcp, mptcp] = ["tcp", "mptcp"].map(|protocol| alone(protocol, 1500.0, link));
    assert_eq!((&*tcp.state, &*mptcp.state), ("open", "open"));
    assert!(mptcp.goodput_bps > 0.95 * tcp.goodput_bps, "{} and {}", mptcp.goodput_bps, tcp.goodput_bps);
    assert!(timeouts(&mptcp) <= 2 * timeouts(&tcp), "{} and {}", timeouts(&mptcp), timeouts(&tcp));
}

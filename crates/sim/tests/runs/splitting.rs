//! A middlebox that splits segments: acknowledgements end within sent segments and cause no additional timeouts.

use anabranch_base::rng::Rng;
use anabranch_sim::RunOptions;
use anabranch_sim::scenario;

/// A link behind a node that splits segments into pieces, or does not.
struct Case {
    protocol: &'static str,
    recovery: &'static str,
    rate: f64,
    delay: u64,
    /// Bytes.
    queue: u64,
}

impl Case {
    /// Number of timeouts in 20 s, with segments split to `pieces` bytes or not split.
    fn timeouts(&self, pieces: Option<u64>) -> u64 {
        let Self { protocol, recovery, rate, delay, queue } = self;
        let split = pieces.map_or_else(String::new, |size| {
            format!("[[middlebox]]\nnode = \"R\"\ndoes = {{ kind = \"split\", size = {size} }}\n")
        });
        let text = format!(
            "title = \"split\"\nduration = \"20 s\"\n\
             [[link]]\nname = \"a\"\nbetween = [\"S\", \"R\"]\nrate = \"100 Mbit/s\"\ndelay = \"1 ms\"\n\
             [[link]]\nname = \"l\"\nbetween = [\"R\", \"D\"]\nrate = \"{rate} Mbit/s\"\ndelay = \"{delay} ms\"\n\
             queue = {{ kind = \"fifo\", limit = \"{queue} B\" }}\n{split}\
             [[flow]]\nname = \"F\"\nfrom = \"S\"\nto = \"D\"\nprotocol = \"{protocol}\"\nrecovery = \"{recovery}\"\n"
        );
        let scenario = scenario::parse(&text, "split.toml", &[]).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let flow = anabranch_sim::run(&scenario, &RunOptions::default()).unwrap().flows.remove(0);
        flow.paths.iter().map(|path| path.timeouts.unwrap()).sum()
    }

    /// Splitting costs no timeout.
    fn check(&self, pieces: &[u64]) {
        let Self { protocol, recovery, rate, delay, queue } = self;
        let whole = self.timeouts(None);
        for &pieces in pieces {
            let split = self.timeouts(Some(pieces));
            assert!(
                split <= whole,
                "{protocol}, {recovery}, {rate} Mbit/s, {delay} ms, {queue} B, pieces of {pieces}: {split} for {whole}"
            );
        }
    }
}

/// The two recoveries with SACK. RFC 6675 alone, the third, sends retransmissions in bursts and has a timeout for each lost
/// one; their number varies by chance.
const RECOVERIES: [&str; 2] = ["prr", "rack"];

#[test]
fn splitting_at_any_size_causes_no_timeout() {
    for protocol in ["tcp", "mptcp"] {
        for recovery in RECOVERIES {
            let case = Case { protocol, recovery, rate: 10.0, delay: 20, queue: 150_000 };
            case.check(&[100, 250, 500, 724, 1000, 1400]);
        }
    }
}

#[test]
fn splitting_on_random_links_causes_no_timeout() {
    let mut rng = Rng::new(20_261_125);
    for _ in 0..30 {
        let protocol = ["tcp", "mptcp"][rng.below(2) as usize];
        let case = Case {
            protocol,
            recovery: RECOVERIES[rng.below(2) as usize],
            rate: 1.0 + rng.unit() * 11.0,
            delay: 2 + rng.below(50),
            queue: 30_000 + rng.below(150_000),
        };
        case.check(&[100 + rng.below(1301)]);
    }
}

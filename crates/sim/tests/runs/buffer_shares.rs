//! CMT-SCTP with its default division of the buffers where a division could stop an association: buffers of a few packets,
//! many paths, a path that falls silent or becomes slower, and acknowledgements that free no send buffer.

use anabranch_sim::RunOptions;
use anabranch_sim::scenario;

/// Rate in Mbit/s and delay in ms of each path.
type Paths = &'static [(f64, u32)];

const FAST_FIRST: Paths = &[(10.0, 5), (1.0, 200)];
const SLOW_FIRST: Paths = &[(1.0, 200), (10.0, 5)];
const EIGHT: Paths =
    &[(10.0, 5), (1.0, 200), (4.0, 30), (0.5, 400), (8.0, 60), (2.0, 10), (6.0, 100), (3.0, 15)];

/// A flow over paths that share no link.
struct Case {
    paths: Paths,
    /// Size of the send buffer and of the receive buffer, bytes.
    buffer: u32,
    /// Keys of the flow.
    keys: &'static str,
    /// A path and its change at 6 s, as a table of keys.
    event: Option<(usize, &'static str)>,
}

impl Case {
    /// Goodput from 8 s to 20 s over some of the paths, Mbit/s.
    fn goodput(&self, protocol: &str, paths: &[usize]) -> f64 {
        let Self { buffer, keys, .. } = self;
        let mut parts = vec![format!(
            "duration = \"20 s\"\nwarmup = \"8 s\"\n[[flow]]\nname = \"F\"\nfrom = \"S\"\nto = \"D\"\n\
             protocol = \"{protocol}\"\nsend_buffer = \"{buffer} B\"\nreceive_buffer = \"{buffer} B\"\n{keys}\n"
        )];
        for &at in paths {
            let (rate, delay) = self.paths[at];
            parts.push(format!(
                "[[link]]\nname = \"path-{at}\"\nbetween = [\"S\", \"D\"]\nrate = \"{rate} Mbit/s\"\n\
                 delay = \"{delay} ms\"\nqueue = {{ kind = \"fifo\", limit = \"100 packets\" }}\n"
            ));
        }
        if let Some((at, change)) = self.event.filter(|(at, _)| paths.contains(at)) {
            parts.push(format!("[[event]]\nat = \"6 s\"\nlink = \"path-{at}\"\nset = {{ {change} }}\n"));
        }
        let text = parts.concat();
        let scenario = scenario::parse(&text, "shares.toml", &[]).unwrap_or_else(|e| panic!("{e}\n{text}"));
        anabranch_sim::run(&scenario, &RunOptions::default()).unwrap().flows[0].goodput_bps / 1e6
    }

    /// The goodput over all paths is at least this share of that of SCTP over the best one, so the association does not stop.
    fn reaches(&self, least: f64) {
        let all: Vec<usize> = (0..self.paths.len()).collect();
        let best = all.iter().map(|&at| self.goodput("sctp", &[at])).fold(0.0, f64::max);
        let found = self.goodput("cmt-sctp", &all);
        let Self { paths, buffer, keys, event } = self;
        println!("{found:.2} of {best:.2} Mbit/s: {} paths, {buffer} B, {keys}, {event:?}", paths.len());
        assert!(
            found >= least * best,
            "{found} of {best} Mbit/s: {} paths, {buffer} B, {keys}, {event:?}",
            paths.len()
        );
    }
}

const NR_SACK_OFF: &str = "nr_sack = false";
const RENEGES: &str = "nr_sack = false\nrenege = 0.5";
const UNORDERED: &str = "ordered = false";

#[test]
fn small_shares_do_not_stop_an_association() {
    for paths in [FAST_FIRST, SLOW_FIRST, EIGHT] {
        for buffer in [6_000, 12_000, 60_000, 400_000] {
            for keys in ["", NR_SACK_OFF, RENEGES, UNORDERED] {
                Case { paths, buffer, keys, event: None }.reaches(0.9);
            }
        }
    }
}

/// Cases of two paths, of which the fast one (0) or the slow one (1) changes.
fn changes(change: &'static str, changed: usize) -> impl Iterator<Item = Case> {
    [6_000, 60_000, 400_000].into_iter().flat_map(move |buffer| {
        let event = Some((changed, change));
        ["", RENEGES, UNORDERED].map(|keys| Case { paths: FAST_FIRST, buffer, keys, event })
    })
}

#[test]
fn dead_path_does_not_stop_an_association() {
    for changed in [0, 1] {
        changes("state = \"down\"", changed).for_each(|case| case.reaches(0.5));
    }
}

/// The shares use the shortest round trip since the start, which is 10 ms on the fast path also after its delay has grown to
/// 400 ms. That costs up to three fifths of the better path, but the association goes on.
#[test]
fn longer_path_does_not_stop_an_association() {
    changes("delay = \"400 ms\"", 0).for_each(|case| case.reaches(0.3));
    changes("delay = \"400 ms\"", 1).for_each(|case| case.reaches(0.9));
}

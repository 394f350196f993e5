//! A link that comes up carries data within a second, wherever it is in the network and after any kind of
//! outage.

use anabranch_base::rng::Rng;
use anabranch_sim::RunOptions;
use anabranch_sim::scenario;
use anabranch_sim::scenario::result::FlowResult;

/// Position of the link that comes up: between the two hosts, or at a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Direct,
    Sender,
    Receiver,
    Middle,
}

/// Kind of the outage before: down from the start by its state, by an event at the start, or repeatedly after it has
/// carried data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    State,
    Event,
    Flaps(usize),
}

const PLACES: [Place; 4] = [Place::Direct, Place::Sender, Place::Receiver, Place::Middle];

/// The link "late" next to a path that is up, with data in one direction or both.
#[derive(Clone, Copy, Debug)]
struct Case {
    place: Place,
    before: Before,
    direction: &'static str,
    /// One-way delay, ms.
    delay: u64,
    /// Time at which the link comes up and stays up, ms.
    up: u64,
}

impl Case {
    fn network(self) -> String {
        let state = if self.before == Before::State { "state = \"down\"" } else { "" };
        let link = |name: &str, [a, b]: [&str; 2], delay: u64, more: &str| {
            format!(
                "[[link]]\nname = \"{name}\"\nbetween = [\"{a}\", \"{b}\"]\ndelay = \"{delay} ms\"\n{more}\n"
            )
        };
        let late = |ends| link("late", ends, self.delay, state);
        let links = match self.place {
            Place::Direct => vec![link("early", ["S", "D"], self.delay, ""), late(["S", "D"])],
            Place::Sender => vec![
                link("early", ["S", "R"], self.delay, ""),
                late(["S", "R"]),
                link("shared", ["R", "D"], 1, "rate = \"100 Mbit/s\""),
            ],
            Place::Receiver => vec![
                link("shared", ["S", "R"], 1, "rate = \"100 Mbit/s\""),
                link("early", ["R", "D"], self.delay, ""),
                late(["R", "D"]),
            ],
            Place::Middle => vec![
                link("early", ["S", "D"], self.delay, ""),
                link("first", ["S", "R"], 1, ""),
                late(["R", "Q"]),
                link("last", ["Q", "D"], 1, ""),
            ],
        };
        links.concat()
    }

    /// Changes of the link: time in ms, and whether the link is up from then on.
    fn changes(self) -> Vec<(u64, bool)> {
        match self.before {
            Before::State => vec![(self.up, true)],
            Before::Event => vec![(0, false), (self.up, true)],
            Before::Flaps(times) => {
                let part = self.up / (2 * times as u64 + 1);
                let flap = |n: u64| [(part * (2 * n + 1), false), (part * (2 * n + 2), true)];
                let mut all: Vec<_> = (0..times as u64).flat_map(flap).collect();
                all.last_mut().expect("the link goes down and up").0 = self.up;
                all
            }
        }
    }

    /// The flow in the second after the link has come up.
    fn run(self) -> FlowResult {
        let event = |(at, up): (u64, bool)| {
            let state = if up { "up" } else { "down" };
            format!("[[event]]\nat = \"{at} ms\"\nlink = \"late\"\nset = {{ state = \"{state}\" }}\n")
        };
        let text = format!(
            "title = \"late\"\nwarmup = \"{} ms\"\nduration = \"{} ms\"\n\
             [link_defaults]\nrate = \"5 Mbit/s\"\n{}{}\
             [[flow]]\nname = \"F\"\nfrom = \"S\"\nto = \"D\"\nprotocol = \"mptcp\"\ndirection = \"{}\"\n",
            self.up,
            self.up + 1000,
            self.network(),
            self.changes().into_iter().map(event).collect::<String>(),
            self.direction,
        );
        let scenario = scenario::parse(&text, "late.toml", &[]).unwrap_or_else(|e| panic!("{e}\n{text}"));
        anabranch_sim::run(&scenario, &RunOptions::default()).unwrap().flows.remove(0)
    }

    /// Checks that some path over the link carries data within a second.
    fn check(self) {
        let flow = self.run();
        let mut paths = flow.paths.iter().filter(|path| path.links.iter().any(|link| link == "late"));
        assert!(paths.any(|path| path.throughput_bps > 0.0), "{self:?}: {flow:?}");
    }
}

#[test]
fn late_link_carries_data_within_a_second() {
    for place in PLACES {
        for before in [Before::State, Before::Event, Before::Flaps(1), Before::Flaps(3)] {
            for direction in ["forward", "reverse"] {
                Case { place, before, direction, delay: 10, up: 16_000 }.check();
            }
        }
    }
}

#[test]
fn late_path_carries_data_within_a_second() {
    let mut rng = Rng::new(20_261_125);
    let mut below = |limit: u64| rng.below(limit);
    for _ in 0..200 {
        let place = PLACES[below(4) as usize];
        let before = match below(4) {
            0 => Before::State,
            1 => Before::Event,
            flaps => Before::Flaps(1 + (flaps * below(3)) as usize),
        };
        let direction = ["forward", "reverse", "both"][below(3) as usize];
        let delay = 2 + below(60);
        Case { place, before, direction, delay, up: 500 + below(20_000) }.check();
    }
}

/// The only link of the hosts comes up late, so the SYN of the connection waits for it.
#[test]
fn first_working_link_carries_data_within_a_second() {
    for protocol in ["mptcp", "tcp"] {
        let text = format!(
            "title = \"first\"\nwarmup = \"16 s\"\nduration = \"17 s\"\n\
             [[link]]\nname = \"l\"\nbetween = [\"S\", \"D\"]\nrate = \"5 Mbit/s\"\ndelay = \"10 ms\"\nstate = \"down\"\n\
             [[event]]\nat = \"16 s\"\nlink = \"l\"\nset = {{ state = \"up\" }}\n\
             [[flow]]\nname = \"F\"\nfrom = \"S\"\nto = \"D\"\nprotocol = \"{protocol}\"\n"
        );
        let scenario = scenario::parse(&text, "first.toml", &[]).unwrap_or_else(|e| panic!("{e}"));
        let flow = anabranch_sim::run(&scenario, &RunOptions::default()).unwrap().flows.remove(0);
        assert!(flow.goodput_bps > 1e6 && !flow.fallback, "{protocol}: {flow:?}");
    }
}

/// The first of two links to a router is down: the connection begins on the second.
#[test]
fn connection_begins_on_a_link_that_is_up() {
    let text = "title = \"begin\"\nduration = \"2 s\"\n\
         [link_defaults]\nrate = \"5 Mbit/s\"\ndelay = \"10 ms\"\n\
         [[link]]\nname = \"a\"\nbetween = [\"S\", \"R\"]\nstate = \"down\"\n\
         [[link]]\nname = \"b\"\nbetween = [\"S\", \"R\"]\n\
         [[link]]\nname = \"c\"\nbetween = [\"R\", \"D\"]\n\
         [[flow]]\nname = \"F\"\nfrom = \"S\"\nto = \"D\"\nprotocol = \"mptcp\"\n";
    let scenario = scenario::parse(text, "begin.toml", &[]).unwrap_or_else(|e| panic!("{e}"));
    let flow = anabranch_sim::run(&scenario, &RunOptions::default()).unwrap().flows.remove(0);
    assert!(flow.goodput_bps > 4e6, "{flow:?}");
}

/// All links of both hosts go down and come up again: Multipath TCP continues within a second in every case in which TCP
/// continues.
#[test]
fn mptcp_survives_outages_that_tcp_survives() {
    for outage in [40, 160, 400, 500] {
        let back = 10 + outage;
        let event = |link: &str, at: u64, state: &str| {
            format!("[[event]]\nat = \"{at} s\"\nlink = \"{link}\"\nset = {{ state = \"{state}\" }}\n")
        };
        let run = |protocol: &str, links: &[&str], until: u64| {
            let link = |name: &&str| {
                let between = "between = [\"S\", \"D\"]\nrate = \"2 Mbit/s\"\ndelay = \"20 ms\"";
                let events = event(name, 10, "down") + &event(name, back, "up");
                format!("[[link]]\nname = \"{name}\"\n{between}\n{events}")
            };
            let text = format!(
                "title = \"outage\"\nwarmup = \"{back} s\"\nduration = \"{until} s\"\n{}\
                 [[flow]]\nname = \"F\"\nfrom = \"S\"\nto = \"D\"\nprotocol = \"{protocol}\"\n",
                links.iter().map(link).collect::<String>()
            );
            let scenario =
                scenario::parse(&text, "outage.toml", &[]).unwrap_or_else(|e| panic!("{e}\n{text}"));
            anabranch_sim::run(&scenario, &RunOptions::default()).unwrap().flows.remove(0)
        };
        assert_eq!(run("tcp", &["l"], back + 70).state, "open", "{outage} s");
        for links in [&["l"][..], &["l", "m"], &["l", "m", "n"]] {
            let flow = run("mptcp", links, back + 1);
            assert!(flow.state == "open" && flow.goodput_bps > 0.0, "{outage} s, {links:?}: {flow:?}");
        }
    }
}

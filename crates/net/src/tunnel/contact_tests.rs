//! Two ends, and a network between them that delays, loses and forges messages.

use super::*;
use proptest::prelude::*;

const STEP_NS: u64 = SECOND_NS / 100;

fn identity(machine: u8) -> Identity {
    Identity { session: 70 + u64::from(machine), machine, version: Version::own(), digest: [7; 32] }
}

/// Two ends of tunnels whose clocks differ by an hour.
struct Pair {
    ends: [Contact; 2],
    /// One-way delay, and the longest message that arrives.
    delay_ns: u64,
    longest: usize,
    /// Messages on the way: time of arrival, receiving end, tunnel and bytes.
    way: Vec<(u64, usize, usize, Vec<u8>)>,
    now_ns: u64,
}

const OFFSETS_NS: [u64; 2] = [5, 3600 * SECOND_NS];

impl Pair {
    fn new(own: [Identity; 2], mtu: [[u16; 2]; 2]) -> Self {
        let end = |at: usize| Contact::new(own[at], [(mtu[at], 36)].into_iter(), OFFSETS_NS[at]);
        Self { ends: [end(0), end(1)], delay_ns: 2 * STEP_NS, longest: 65_535, way: Vec::new(), now_ns: 0 }
    }

    fn usual() -> Self {
        Self::new([identity(0), identity(1)], [[1500, 1400], [1400, 1500]])
    }

    /// Passes the time of one step; `arrives` decides which messages do.
    fn step(&mut self, mut arrives: impl FnMut(usize) -> bool) {
        self.now_ns += STEP_NS;
        let (due, later) =
            core::mem::take(&mut self.way).into_iter().partition(|(at, ..)| *at <= self.now_ns);
        self.way = later;
        let due: Vec<(u64, usize, usize, Vec<u8>)> = due;
        for (_, to, tunnel, bytes) in due {
            self.ends[to].receive(tunnel, &bytes, self.now_ns + OFFSETS_NS[to]);
        }
        for (from, offset_ns) in OFFSETS_NS.into_iter().enumerate() {
            self.ends[from].advance(self.now_ns + offset_ns);
            for (tunnel, message) in self.ends[from].take_messages() {
                let bytes = message.to_bytes();
                if bytes.len() <= self.longest && arrives(from) {
                    self.way.push((self.now_ns + self.delay_ns, 1 - from, tunnel, bytes));
                }
            }
        }
    }

    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * SECOND_NS / STEP_NS {
            self.step(|_| true);
        }
    }

    /// The agreed starts by the network's clock.
    fn starts_ns(&self) -> [Option<u64>; 2] {
        [0, 1].map(|at| self.ends[at].start_ns().map(|start_ns| start_ns - OFFSETS_NS[at]))
    }

    fn ended(&self) -> [Option<Ended>; 2] {
        self.ends.each_ref().map(Contact::ended)
    }
}

#[test]
fn ends_agree_on_the_start() {
    let mut pair = Pair::usual();
    pair.run(2);
    let [Some(first_ns), Some(other_ns)] = pair.starts_ns() else { panic!("{:?}", pair.ended()) };
    assert!(first_ns.abs_diff(other_ns) <= STEP_NS, "{first_ns} and {other_ns}");
    assert!(first_ns < 2 * SECOND_NS);
    pair.run(60);
    assert_eq!(pair.ended(), [None; 2]);
}

#[test]
fn differing_ends_are_refused() {
    let mtus = [[1500, 1400], [1400, 1500]];
    let other = |change: &dyn Fn(&mut Identity)| {
        let mut own = identity(1);
        change(&mut own);
        let mut pair = Pair::new([identity(0), own], mtus);
        pair.run(2);
        pair.ended()
    };
    assert_eq!(other(&|own| own.digest[31] = 0), [Some(Ended::Scenario); 2]);
    assert_eq!(other(&|own| own.machine = 0), [Some(Ended::SameMachine); 2]);
    let [one, two] = other(&|own| own.version = Version::of("0.1"));
    assert_eq!(one, Some(Ended::Version(Version::of("0.1"))));
    assert_eq!(two, Some(Ended::Version(Version::own())));
    let mut pair = Pair::new([identity(0), identity(1)], [[1500, 1400], [1400, 1499]]);
    pair.run(2);
    let ended = Ended::Mtu { tunnel: 0, own: [1500, 1400], other: [1499, 1400] };
    assert_eq!(pair.ended()[0], Some(ended));
    assert!(matches!(pair.ended()[1], Some(Ended::Mtu { own: [1400, 1499], other: [1400, 1500], .. })));
}

#[test]
fn short_outer_mtu_is_measured() {
    let mut pair = Pair::usual();
    // The network carries 1499 bytes: too few for the 1500 of the first end, enough for the 1400 of the
    // other.
    pair.longest = 1499;
    pair.run(20);
    let ended = |is_outgoing| Ended::OuterMtu { tunnel: 0, carried: 1535, needed: 1536, is_outgoing };
    assert_eq!(pair.ended(), [Some(ended(true)), Some(ended(false))]);
    assert_eq!(pair.starts_ns(), [None; 2]);
    let mut pair = Pair::usual();
    pair.longest = 1500;
    pair.run(2);
    assert_eq!(pair.ended(), [None; 2]);
}

#[test]
fn lost_contact_ends_both() {
    let mut pair = Pair::usual();
    pair.run(10);
    for _ in 0..SECOND_NS * 35 / 10 / STEP_NS {
        pair.step(|_| false);
    }
    assert_eq!(pair.ended(), [Some(Ended::Lost { tunnel: 0 }); 2]);
    // The network loses the messages of one direction only.
    let mut pair = Pair::usual();
    pair.run(10);
    for _ in 0..SECOND_NS * 35 / 10 / STEP_NS {
        pair.step(|from| from == 0);
    }
    assert_eq!(pair.ended(), [Some(Ended::Lost { tunnel: 0 }), Some(Ended::PeerLost { tunnel: 0 })]);
}

#[test]
fn short_outage_is_survived() {
    let mut pair = Pair::usual();
    for round in 0..10 {
        pair.run(2);
        for _ in 0..SECOND_NS * 27 / 10 / STEP_NS {
            pair.step(|from| from == round % 2);
        }
    }
    assert_eq!(pair.ended(), [None; 2]);
}

#[test]
fn absent_end_is_reported_after_a_minute() {
    let mut alone = Contact::new(identity(0), [([1500; 2], 28)].into_iter(), 0);
    for second in 0..=60 {
        alone.advance(second * SECOND_NS);
        assert_eq!(alone.ended(), None);
    }
    alone.advance(61 * SECOND_NS);
    assert_eq!(alone.ended(), Some(Ended::NoStart { tunnel: 0, heard: false }));
}

#[test]
fn deliberate_end_is_reported_to_the_peer() {
    let mut pair = Pair::usual();
    pair.run(2);
    pair.ends[1].end(Reason::Down);
    pair.run(1);
    assert_eq!(pair.ended()[0], Some(Ended::PeerDown));
}

#[test]
fn restarted_end_does_not_take_over() {
    let mut pair = Pair::usual();
    pair.run(2);
    let own = Identity { session: 99, ..identity(1) };
    pair.ends[1] = Contact::new(own, [([1400, 1500], 36)].into_iter(), pair.now_ns + OFFSETS_NS[1]);
    pair.run(5);
    assert_eq!(pair.ended()[0], Some(Ended::Lost { tunnel: 0 }));
    assert_eq!(
        (pair.ended()[1], pair.ends[1].start_ns()),
        (None, None),
        "it waits for a new start of the other end"
    );
}

fn body() -> impl Strategy<Value = Option<Body>> {
    let status = (any::<[u8; 32]>(), 0..3_u8, any::<[u16; 2]>(), any::<[u64; 3]>(), any::<Option<i64>>())
        .prop_map(|(digest, machine, mtu, [sent_ns, echo_ns, held_ns], start_ns)| {
            Body::Status(Status {
                digest,
                machine,
                mtu,
                has_probed: true,
                sent_ns,
                echo_ns,
                held_ns,
                start_ns,
            })
        });
    let reason = prop_oneof![
        Just(Reason::Down),
        Just(Reason::Refused),
        Just(Reason::Lost),
        Just(Reason::Failed),
        any::<[u32; 2]>().prop_map(|[carried, needed]| Reason::OuterMtu { carried, needed }),
    ];
    prop_oneof![
        1 => Just(None),
        4 => status.prop_map(Some),
        1 => (40..2000_u16).prop_map(|length| Some(Body::Probe { length })),
        1 => any::<u16>().prop_map(|length| Some(Body::Probed { length })),
        2 => reason.prop_map(|reason| Some(Body::End(reason))),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    // The forger does not know the sessions of both ends.
    (100..200_u64, 0..60_u64, any::<[u8; 16]>(), body()).prop_map(|(session, receiver, version, body)| {
        Message { session, receiver, version: Version::of(&String::from_utf8_lossy(&version)), body }
    })
}

proptest! {
    #[test]
    fn messages_round_trip(message in message()) {
        prop_assert_eq!(Message::parse(&message.to_bytes()), Some(message));
    }

    #[test]
    fn random_bytes_do_not_panic(mut bytes: Vec<u8>, message in message(), cut: usize, at: usize, byte: u8) {
        Message::parse(&bytes);
        let mut damaged = message.to_bytes();
        let at = at % damaged.len();
        damaged[at] = byte;
        damaged.truncate(cut % (2 * damaged.len()));
        Message::parse(&damaged);
        bytes.splice(0..0, *b"ABTM\x01\x01\x00\x00");
        Message::parse(&bytes);
    }

    /// Messages of a sender that does not know the sessions neither prevent the start nor end the testbed.
    #[test]
    fn forged_messages_change_nothing(forged in prop::collection::vec((0..400_u64, 0..2_usize, message()), 1..60)) {
        let mut pair = Pair::usual();
        for step in 0..600 {
            for (_, to, message) in forged.iter().filter(|(at, ..)| *at == step) {
                let now_ns = pair.now_ns + OFFSETS_NS[*to];
                pair.ends[*to].receive(0, &message.to_bytes(), now_ns);
            }
            pair.step(|_| true);
        }
        prop_assert_eq!(pair.ended(), [None; 2]);
        let [Some(first_ns), Some(other_ns)] = pair.starts_ns() else { panic!("no start") };
        prop_assert!(first_ns.abs_diff(other_ns) <= STEP_NS);
        prop_assert!(first_ns < 2 * SECOND_NS);
    }

    /// Valid messages of any content, as of a peer with errors, do not panic, and cause few messages.
    #[test]
    fn wrong_peer_does_not_panic(wrong in prop::collection::vec((body(), 0..2_000_000_000_u64), 1..200)) {
        let mut end = Contact::new(identity(1), [([1400, 1500], 36)].into_iter(), 0);
        let mut now_ns = 0;
        for (body, passed_ns) in wrong {
            now_ns += passed_ns;
            let message = Message { session: 70, receiver: 71, version: Version::own(), body };
            end.receive(0, &message.to_bytes(), now_ns);
            end.advance(now_ns);
            prop_assert!(end.take_messages().len() <= 12);
        }
    }

    #[test]
    fn losses_delay_the_start_only(lost in prop::collection::vec(prop::bool::weighted(0.05), 4000)) {
        let mut pair = Pair::usual();
        let mut losses = lost.into_iter();
        for _ in 0..2000 {
            pair.step(|_| !losses.next().unwrap_or(false));
        }
        let [Some(first_ns), Some(other_ns)] = pair.starts_ns() else { panic!("{:?}", pair.ended()) };
        prop_assert!(first_ns.abs_diff(other_ns) <= STEP_NS);
    }
}

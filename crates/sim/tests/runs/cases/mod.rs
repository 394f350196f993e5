//! Random scenarios for the fault runs, built of plain values so that they shrink.

pub mod text;

use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;
use anabranch_multipath::congestion::Signal;
use anabranch_netem::loss::bernoulli::Bernoulli;
use anabranch_netem::loss::bit_errors::BitErrors;
use anabranch_netem::loss::gilbert_elliott::GilbertElliott;
use anabranch_netem::loss::none;
use anabranch_netem::queue::{codel, fifo, fq_codel, red};
use anabranch_settings::key::{Key, Takes};
use anabranch_settings::protocols::Protocols;
use anabranch_settings::setting::Value;
use anabranch_sim::presets;
use anabranch_sim::scenario::model::{
    Change, Directions, Event, Flow, Link, LinkEvent, LinkModel, Loss, MessageSize, Protocol, Queue,
    QueueLimit, Reorder, Scenario, Scope, Subject, Workload,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Time at which faults have ended: from then on, links are up and lose no packets.
pub const FAULTS_END: Duration = Duration::from_secs(30);

/// Simulated time in which every flow must finish. It allows for maximum retransmission timeouts after the
/// faults, also on paths that fail repeatedly, and for the slowest transfer, a hundred thousand messages of a
/// byte.
const RUN_DURATION: Duration = Duration::from_secs(1000);

/// A scenario with faults.
#[derive(Clone, Debug)]
pub struct Case {
    pub scenario: Scenario,
    /// Bytes that each flow transfers.
    pub size: u64,
}

impl Case {
    /// Maximum number of packets in flight: every flow's buffers, in small packets, and as many
    /// acknowledgements and probes.
    pub fn packets_limit(&self) -> usize {
        let buffered: u64 = self
            .scenario
            .flows
            .iter()
            .filter_map(|flow| flow.protocol.buffers())
            .map(|[send, receive]| send + receive)
            .sum();
        (buffered / 100) as usize + 5000
    }
}

/// Bytes that a receiver has to accept beyond its buffer: with I-DATA each stream may have an incomplete message,
/// which can be read only after its last fragment has been accepted.
pub fn incomplete_message_bytes(flow: &Flow) -> u64 {
    match &flow.protocol {
        Protocol::Sctp(settings) if settings.i_data => u64::from(settings.streams) * MAX_MESSAGE_BYTES,
        _ => 0,
    }
}

/// The largest message, bytes: two packets.
const MAX_MESSAGE_BYTES: u64 = 2900;

/// Removes settings that the protocol's control does not support: windows that follow a model count no packets.
fn without_unsupported(mut protocol: Protocol) -> Protocol {
    if protocol.congestion().is_some_and(|choice| choice.entry.signal == Signal::Model)
        && protocol.get("whole_packets").is_some()
    {
        protocol.put("whole_packets", Value::Flag(false)).expect("a key of the protocol");
    }
    if protocol.get("network_control") == Some(Value::Flag(false)) && protocol.get("information").is_some() {
        protocol.put("information", Value::Word("scenario")).expect("a key of the protocol");
    }
    protocol
}

/// A case of flows with this protocol.
pub fn case(protocol: impl Strategy<Value = Protocol>) -> impl Strategy<Value = Case> {
    let mtu = option::weighted(0.1, Just(576_u32));
    let rest = (option::weighted(0.3, message()), 0_u64..2000, direction());
    let flows = vec((protocol, mtu, any::<bool>(), vec(0_usize..5, 0..2), rest), 1..=2);
    let shape = (topology(), vec(event(), 0..8), any::<u64>());
    (shape, flows, 1_u64..150_000).prop_map(|((links, events, seed), flows, size)| {
        let links: Vec<Link> = links;
        let place = |(link, event): (Index, Event)| match event.subject {
            Subject::Link(change) => {
                let change = LinkEvent { link: link.index(links.len()), ..change };
                Event { subject: Subject::Link(change), ..event }
            }
            Subject::Flow(_) => event,
        };
        let events = events.into_iter().map(place);
        let mut events: Vec<Event> = events.chain(end_of_faults(links.len())).collect();
        events.sort_by_key(|event| event.at);
        let flows = flows.into_iter().enumerate().map(|(number, (protocol, mtu, ordered, backup, rest))| {
            let (message, start, direction) = rest;
            Flow {
                name: format!("F{number}"),
                protocol,
                mtu,
                ordered,
                backup,
                start: Time::ZERO + Duration::from_millis(start),
                start_spread: Duration::ZERO,
                direction,
                workload: Workload::File { size: MessageSize::Constant(size), message, arrivals: None },
                ..presets::udp("", ["S", "D"], 0)
            }
        });
        let flows = flows.collect();
        let scenario =
            Scenario { duration: RUN_DURATION, seed, events, ..presets::scenario(1, links, flows) };
        Case { scenario, size }
    })
}

/// Usually one direction.
fn direction() -> impl Strategy<Value = Directions> {
    prop_oneof![
        2 => Just(Directions::Forward),
        1 => Just(Directions::Reverse),
        1 => Just(Directions::Both),
    ]
}

/// All links come up and stop losing packets.
fn end_of_faults(links: usize) -> impl Iterator<Item = Event> {
    (0..links).map(|link| {
        Event::link(
            Time::ZERO + FAULTS_END,
            (link, Directions::Both),
            vec![
                Change::State { up: true },
                Change::Loss(Loss::None(none::None)),
                Change::Rate(Rate::from_bits_per_second(1_000_000)),
                Change::Delay(Duration::from_millis(20)),
            ],
        )
    })
}

/// One path, paths side by side, or paths that cross.
fn topology() -> impl Strategy<Value = Vec<Link>> {
    let link = || (model(), model());
    let direct = vec(link(), 1..=3).prop_map(|models| links(models, |_| ["S", "D"]));
    let shared = vec(link(), 3..=5).prop_map(|models| {
        links(models, |number| [["R", "Q"], ["S", "R"], ["Q", "D"], ["S", "R"], ["Q", "D"]][number])
    });
    let crossed = vec(link(), 5).prop_map(|models| {
        links(models, |number| [["S", "R"], ["S", "Q"], ["R", "Q"], ["R", "D"], ["Q", "D"]][number])
    });
    let disjoint = vec(link(), 4)
        .prop_map(|models| links(models, |number| [["S", "R"], ["S", "Q"], ["R", "D"], ["Q", "D"]][number]));
    prop_oneof![direct, shared, crossed, disjoint]
}

fn links(models: Vec<(LinkModel, LinkModel)>, between: impl Fn(usize) -> [&'static str; 2]) -> Vec<Link> {
    let link = |(number, (forward, reverse)): (usize, (LinkModel, LinkModel))| Link {
        name: format!("link{number}"),
        between: between(number).map(String::from),
        ip: None,
        addresses: [1; 2],
        address_of: None,
        scope: Scope::Global,
        tunnel: None,
        forward,
        reverse,
    };
    models.into_iter().enumerate().map(link).collect()
}

prop_compose! {
    fn model()(
        rate in rate(),
        delay in 0_u64..150,
        jitter in prop_oneof![3 => Just(0_u64), 1 => 0_u64..30],
        mtu in prop_oneof![3 => Just(1500_u32), 1 => 576_u32..1500],
        queue in queue(),
        loss in loss(),
        reorder in option::weighted(0.3, (0.0..0.3, 1_u64..80)),
        duplicate in prop_oneof![4 => Just(0.0), 1 => 0.0..0.2],
    ) -> LinkModel {
        LinkModel {
            jitter: Duration::from_millis(jitter),
            mtu,
            queue,
            loss,
            reorder: reorder.map(|(rate, delay)| Reorder { rate, delay: Duration::from_millis(delay) }),
            duplicate,
            ..LinkModel::new(rate, Duration::from_millis(delay))
        }
    }
}

/// A rate from 200 kbit/s to 100 Mbit/s, with equal probability of every order of magnitude.
fn rate() -> impl Strategy<Value = Rate> {
    (1.0_f64..500.0, 0.0_f64..1.0)
        .prop_map(|(scale, exponent)| Rate::from_bits_per_second((200_000.0 * scale.powf(exponent)) as u64))
}

fn queue() -> impl Strategy<Value = Queue> {
    let limit = prop_oneof![
        (1_u64..60).prop_map(QueueLimit::Packets),
        (1500_u64..90_000).prop_map(QueueLimit::Bytes),
    ];
    (limit, 0..10_u8, any::<bool>()).prop_map(|(limit, kind, ecn)| match kind {
        0..6 => Queue::Fifo(fifo::Settings { limit }),
        6 => Queue::Codel(codel::Settings { limit, law: law(ecn) }),
        7 => Queue::FqCodel(fq_codel::Settings { limit, law: law(ecn), flows: 8, quantum: 1514 }),
        _ => {
            let (QueueLimit::Packets(most) | QueueLimit::Bytes(most)) = limit;
            let (min, max) = (0.3 * most as f64, 0.9 * most as f64);
            Queue::Red(red::Settings {
                limit,
                min,
                max,
                max_p: 0.1,
                weight: 0.02,
                gentle: most % 2 == 0,
                ecn,
            })
        }
    })
}

/// The control law of CoDel with its default parameters.
fn law(ecn: bool) -> codel::Law {
    codel::Law { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn }
}

fn loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        4 => Just(Loss::None(none::None)),
        4 => (0.0..0.3).prop_map(|rate| Loss::Bernoulli(Bernoulli { rate })),
        1 => (0.0..1e-4).prop_map(|rate| Loss::BitErrors(BitErrors { rate })),
        2 => (0.001..0.1, 0.1..1.0, 0.1..1.0).prop_map(|(to_bad, to_good, loss_bad)| {
            Loss::GilbertElliott(GilbertElliott { to_bad, to_good, loss_good: 0.0, loss_bad })
        }),
    ]
}

/// An event before [`FAULTS_END`], for the link selected by the index.
fn event() -> impl Strategy<Value = (Index, Event)> {
    let change = prop_oneof![
        3 => Just(Change::State { up: false }),
        3 => Just(Change::State { up: true }),
        1 => rate().prop_map(Change::Rate),
        1 => (0_u64..300).prop_map(|millis| Change::Delay(Duration::from_millis(millis))),
        1 => loss().prop_map(Change::Loss),
        1 => (0_u64..40).prop_map(|millis| Change::Jitter(Duration::from_millis(millis))),
        2 => queue().prop_map(Change::Queue),
        1 => (0_u64..40).prop_map(|millis| {
            let delay = Duration::from_millis(millis);
            Change::Reorder((millis > 0).then_some(Reorder { rate: 0.1, delay }))
        }),
    ];
    let directions = select(vec![Directions::Both, Directions::Forward, Directions::Reverse]);
    let event =
        (0_u64..FAULTS_END.as_millis(), directions, change).prop_map(|(millis, directions, change)| {
            Event::link(Time::ZERO + Duration::from_millis(millis), (0, directions), vec![change])
        });
    (any::<Index>(), event)
}

/// A size from two packets to more than any transfer.
fn buffer() -> impl Strategy<Value = u64> {
    prop_oneof![3000_u64..10_000, 10_000_u64..300_000]
}

fn message() -> impl Strategy<Value = MessageSize> {
    prop_oneof![
        (1..MAX_MESSAGE_BYTES).prop_map(MessageSize::Constant),
        (1_u64..1000, 0_u64..1900).prop_map(|(low, more)| MessageSize::Uniform { low, high: low + more }),
    ]
}

/// Values of settings with which every case finishes in time. A setting without values keeps its default.
const NARROWED: &[(&str, &[&str])] = &[
    ("rto_initial", &["1 s"]),
    ("rto_min", &["10 ms", "200 ms", "1 s"]),
    ("rto_max", &["60 s", "20 s", "40 s"]),
    ("keepalive", &["false", "10 s", "20 s"]),
    ("user_timeout", &[]),
    ("heartbeat_interval", &["30 s"]),
    // Limits that the faults cannot reach, so that an endpoint gives up only if it has stalled. SYNs over
    // several pairs are repeated in a shorter time than the faults last.
    ("association_max_retrans", &["1000"]),
    ("init_max_retrans", &["1000"]),
    ("syn_retransmission", &["single"]),
    // A chunk that the receiver discards is sent again after a timeout, which may have been doubled up to a minute.
    ("renege", &[]),
];

/// A protocol with any value of each of its settings.
fn settings(kind: Protocols) -> impl Strategy<Value = Protocol> {
    let varied: Vec<_> =
        Protocol::new(kind).entries().into_iter().filter_map(|(key, _)| varied(key)).collect();
    varied.prop_map(move |values| {
        let mut protocol = Protocol::new(kind);
        for (name, value) in values {
            protocol.put(name, value).unwrap_or_else(|problem| panic!("{problem}"));
        }
        without_unsupported(protocol)
    })
}

/// A strategy for one value of a key; `None` if the default is used.
fn varied(key: &'static Key) -> Option<BoxedStrategy<(&'static str, Value)>> {
    let values = match (NARROWED.iter().find(|(name, _)| *name == key.name), key.takes) {
        (Some((_, [])), _) => return None,
        (Some((_, texts)), _) => {
            let read =
                |text: &&str| key.takes.read(text).unwrap_or_else(|problem| panic!("{text} {problem}"));
            select(texts.iter().map(read).collect::<Vec<_>>()).boxed()
        }
        (None, Takes::Buffer) => buffer().prop_map(Value::Size).boxed(),
        (None, takes) => select(takes.samples()).boxed(),
    };
    Some(values.prop_map(|value| (key.name, value)).boxed())
}

/// TCP with any settings.
pub fn tcp() -> impl Strategy<Value = Protocol> {
    settings(Protocols::TCP)
}

/// Multipath TCP with any settings.
pub fn mptcp() -> impl Strategy<Value = Protocol> {
    settings(Protocols::MPTCP)
}

/// SCTP and CMT-SCTP with any settings.
pub fn sctp() -> impl Strategy<Value = Protocol> {
    prop_oneof![settings(Protocols::SCTP), settings(Protocols::CMT_SCTP)]
}

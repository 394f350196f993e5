//! Random scenarios for the fault runs, built of plain values so that they shrink.

pub mod text;

use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;
use anabranch_multipath::buffer::{Sides, Splitting, SplittingOn};
use anabranch_multipath::congestion::{ALGORITHMS, Choice, Couple, Options, Signal, SlowStart};
use anabranch_multipath::path_manager;
use anabranch_multipath::scheduler::SCHEDULERS;
use anabranch_netem::loss::bernoulli::Bernoulli;
use anabranch_netem::loss::gilbert_elliott::GilbertElliott;
use anabranch_netem::loss::none;
use anabranch_netem::queue::{codel, fifo, fq_codel, red};
use anabranch_settings::policy::{
    ImmediateSack, Penalisation, Recovery, RetransmissionPath, SackPath, SctpPaths, StreamScheduler,
};
use anabranch_sim::presets;
use anabranch_sim::scenario::model::{
    Buffer, Change, Common, Directions, Event, Flow, Link, LinkModel, LinkRate, Loss, MessageSize, Mptcp,
    Protocol, Queue, QueueLimit, Reorder, Scenario, Scope, Sctp, Tcp, Workload,
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
const DURATION: Duration = Duration::from_secs(1000);

/// The longest retransmission timeout.
pub const RTO_MAX: Duration = Duration::from_secs(60);

/// A scenario with faults.
#[derive(Clone, Debug)]
pub struct Case {
    pub scenario: Scenario,
    /// Bytes that each flow sends.
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
            .map(|f| f.common.send_buffer.most() + f.common.receive_buffer.most())
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

/// The protocol without settings that its control does not support: windows that follow a model count no
/// packets.
fn without_unsupported(mut protocol: Protocol, common: &Common) -> Protocol {
    if let Protocol::Tcp(tcp) | Protocol::Mptcp { tcp, .. } = &mut protocol {
        tcp.whole_packets &= common.congestion.entry.signal != Signal::Model;
    }
    protocol
}

/// A case of flows with this protocol.
pub fn case(protocol: impl Strategy<Value = Protocol>) -> impl Strategy<Value = Case> {
    let flows = vec((common(), option::weighted(0.3, message()), 0_u64..2000, direction()), 1..=2);
    let shape = (topology(), vec(event(), 0..8), any::<u64>());
    (shape, flows, protocol, 1_u64..150_000).prop_map(|((links, events, seed), flows, protocol, size)| {
        let links: Vec<Link> = links;
        let place = |(link, event): (Index, Event)| Event { link: link.index(links.len()), ..event };
        let events = events.into_iter().map(place);
        let mut events: Vec<Event> = events.chain(end_of_faults(links.len())).collect();
        events.sort_by_key(|event| event.at);
        let flows = flows.into_iter().enumerate().map(|(number, (common, message, start, direction))| Flow {
            name: format!("F{number}"),
            protocol: without_unsupported(protocol.clone(), &common),
            common,
            start: Time::ZERO + Duration::from_millis(start),
            start_spread: Duration::ZERO,
            direction,
            workload: Workload::File { size, message },
            ..presets::udp("", ["S", "D"], 0)
        });
        let flows = flows.collect();
        let scenario = Scenario { duration: DURATION, seed, events, ..presets::scenario(1, links, flows) };
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
    (0..links).map(|link| Event {
        at: Time::ZERO + FAULTS_END,
        link,
        directions: Directions::Both,
        changes: vec![
            Change::State { up: true },
            Change::Loss(Loss::None(none::None)),
            Change::Rate(Rate::from_bits_per_second(1_000_000)),
            Change::Delay(Duration::from_millis(20)),
        ],
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
        scope: Scope::Global,
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
    ) -> LinkModel {
        LinkModel {
            rate: LinkRate::Constant(rate),
            delay: Duration::from_millis(delay),
            jitter: Duration::from_millis(jitter),
            mtu,
            overhead: 0,
            queue,
            loss,
            reorder: reorder.map(|(rate, delay)| Reorder { rate, delay: Duration::from_millis(delay) }),
            icmp: true,
            up: true,
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
            Queue::Red(red::Settings { limit, min, max, max_p: 0.1, weight: 0.02, ecn })
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
    ];
    let directions = select(vec![Directions::Both, Directions::Forward, Directions::Reverse]);
    let event =
        (0_u64..FAULTS_END.as_millis(), directions, change).prop_map(|(millis, directions, change)| Event {
            at: Time::ZERO + Duration::from_millis(millis),
            link: 0,
            directions,
            changes: vec![change],
        });
    (any::<Index>(), event)
}

prop_compose! {
    fn common()(
        send in buffer(),
        receive in buffer(),
        entry in select(ALGORITHMS.iter().collect::<Vec<_>>()),
        coupled in any::<bool>(),
        shared in any::<bool>(),
        mtu in option::weighted(0.1, Just(576_u32)),
        rto_min in select(vec![10_u64, 200, 1000]),
        rto_max in prop_oneof![4 => Just(RTO_MAX), 1 => (20_u64..60).prop_map(Duration::from_secs)],
        ecn in any::<bool>(),
    ) -> Common {
        Common {
            congestion: Choice {
                entry,
                options: Options {
                    slow_start: if coupled { SlowStart::Coupled } else { SlowStart::Rfc },
                    couple: if shared { Couple::Shared } else { Couple::All },
                },
            },
            send_buffer: Buffer::Bytes(send),
            receive_buffer: Buffer::Bytes(receive),
            mtu,
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_millis(rto_min),
            rto_max,
            ecn,
        }
    }
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

prop_compose! {
    fn tcp_settings()(
        delayed_ack in option::weighted(0.8, 1_u64..200),
        initial_window in 1_u32..12,
        abc_limit in option::of(1_u32..4),
        ssthresh_floor in 1_u32..6,
        whole_packets in any::<bool>(),
        recovery in select(vec![Recovery::Sack, Recovery::Prr, Recovery::Rack]),
        timestamps in any::<bool>(),
        nagle in any::<bool>(),
        keepalive in option::of(10_u64..30),
    ) -> Tcp {
        let delayed_ack = delayed_ack.map(Duration::from_millis);
        let keepalive = keepalive.map(Duration::from_secs);
        let user_timeout = None;
        Tcp { delayed_ack, initial_window, abc_limit, ssthresh_floor, whole_packets, recovery, timestamps, nagle, keepalive, user_timeout, initial_path: Vec::new() }
    }
}

/// TCP with any settings.
pub fn tcp() -> impl Strategy<Value = Protocol> {
    tcp_settings().prop_map(Protocol::Tcp)
}

/// Multipath TCP with any settings.
pub fn mptcp() -> impl Strategy<Value = Protocol> {
    let schedulers = select(SCHEDULERS.iter().collect::<Vec<_>>());
    let paths = select(vec!["default", "fullmesh", "disjoint", "ndiffports:2", "ndiffports:3"]);
    let backup = vec(0_usize..5, 0..2);
    (tcp_settings(), schedulers, paths, any::<[bool; 4]>(), backup).prop_map(
        |(
            tcp,
            scheduler,
            paths,
            [opportunistic_retransmission, penalisation, mechanisms_in_start_up, dss_checksum],
            backup,
        )| {
            let mptcp = Mptcp {
                syn_retransmission: Mptcp::default().syn_retransmission,
                syn_pairs: Mptcp::default().syn_pairs,
                scheduler,
                paths: path_manager::parse(paths).expect("a path manager of the table"),
                opportunistic_retransmission,
                penalisation: if penalisation { Penalisation::Any } else { Penalisation::Weaker },
                mechanisms_in_start_up,
                dss_checksum,
                backup,
            };
            Protocol::Mptcp { tcp, mptcp }
        },
    )
}

/// SCTP and CMT-SCTP with any settings.
pub fn sctp() -> impl Strategy<Value = Protocol> {
    let schedulers = SCHEDULERS.iter().filter(|entry| entry.takes_turns());
    let schedulers = select(schedulers.collect::<Vec<_>>());
    let splitting = (
        select(vec![Sides::None, Sides::Sender, Sides::Receiver, Sides::Both]),
        select(vec![SplittingOn::Outstanding, SplittingOn::Buffered]),
        option::weighted(0.3, 0.1..0.9),
    );
    let immediate = select(vec![ImmediateSack::Never, ImmediateSack::End, ImmediateSack::Window]);
    let messages = (any::<bool>(), 1_u16..5, 0_u64..250, immediate);
    let policies = (
        select(vec![
            RetransmissionPath::Alternate,
            RetransmissionPath::Same,
            RetransmissionPath::LargestSsthresh,
            RetransmissionPath::LargestWindow,
            RetransmissionPath::LowestRtt,
        ]),
        select(vec![StreamScheduler::Fcfs, StreamScheduler::RoundRobin, StreamScheduler::Fair]),
        option::weighted(0.7, 1_u32..8),
        0_u32..6,
        option::weighted(0.7, 0_u32..3),
    );
    let newer = (any::<[bool; 5]>(), option::of(1_u32..9));
    (any::<[bool; 7]>(), schedulers, any::<bool>(), splitting, messages, policies, newer).prop_map(
        |(
            [cmt, nr_sack, i_data, asconf, pmtu_discovery, udp_encapsulation, overshoot],
            scheduler,
            fullmesh,
            splitting,
            messages,
            policies,
            ([tail_loss_probe, nearest, penalisation, early, nagle], abc_limit),
        )| {
            let (ordered, streams, sack_delay, immediate_sack) = messages;
            let (retransmission, stream_scheduler, max_burst, path_max_retrans, suspicion) = policies;
            let (sides, on, chunk_rescheduling) = splitting;
            Protocol::Sctp(Sctp {
                cmt,
                scheduler,
                paths: if fullmesh { SctpPaths::FullMesh } else { SctpPaths::Destination },
                initial_path: Vec::new(),
                nr_sack,
                splitting: Splitting { sides, on },
                chunk_rescheduling,
                penalisation: penalisation && cmt,
                mechanisms_in_start_up: early || !cmt,
                ordered,
                streams,
                sack_delay: Duration::from_millis(sack_delay),
                immediate_sack,
                sack_path: if nearest { SackPath::Nearest } else { SackPath::Last },
                retransmission,
                stream_scheduler,
                i_data,
                asconf,
                pmtu_discovery,
                udp_encapsulation,
                heartbeat_interval: Some(Duration::from_secs(30)),
                path_max_retrans,
                potentially_failed_threshold: suspicion,
                // More errors than the faults can cause: an endpoint that ends its association has stalled.
                association_max_retrans: 1000,
                init_max_retrans: 1000,
                max_burst,
                overshoot,
                nagle,
                tail_loss_probe,
                abc_limit,
                ssthresh_floor: 4,
            })
        },
    )
}

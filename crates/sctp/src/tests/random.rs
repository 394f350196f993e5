//! Random associations with random faults: no data is lost, duplicated or stuck, and the counters agree.

use super::pair::{A, App, B, Link, Net, Settings, address, at_ms, ms, secrets};
use crate::{Paths, RetransmissionPath, StreamScheduler};
use anabranch_base::rng::Rng;
use anabranch_endpoint::endpoint::{Endpoint, NetworkEvent, Reliability};
use anabranch_multipath::buffer::{Rescheduling, Sides, Splitting, SplittingOn};
use anabranch_multipath::{congestion, scheduler};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Fault {
    rate_kbits: u64,
    delay_ms: u64,
    queue: u64,
    loss: f64,
    duplicate: f64,
    jitter_ms: u64,
    /// Time and duration of an outage of the link, ms.
    outage: Option<(u64, u64)>,
}

#[derive(Clone, Debug)]
struct Switches {
    cmt: bool,
    dac: bool,
    nr_sack: bool,
    i_data: bool,
    nagle: bool,
    overshoot: bool,
    /// The first end is informed when a link goes down or comes up, and sends an ASCONF. (If both were
    /// informed, they could end up with addresses that no link connects, and no ASCONF could get through.)
    asconf: bool,
    fullmesh: bool,
    burst: Option<u32>,
    control: usize,
    scheduler: usize,
    streams: usize,
    retransmission: usize,
    splitting: (usize, usize),
    rescheduling: usize,
    /// Messages may be abandoned: by age, by retransmissions, by priority, or not at all, cyclically.
    partial: bool,
}

#[derive(Clone, Debug)]
struct Load {
    messages: Vec<(u64, u16, bool)>,
    back: Vec<(u64, u16, bool)>,
    send_buffer: u64,
    receive_buffer: u64,
    seed: u64,
}

fn fault() -> impl Strategy<Value = Fault> {
    let outage = prop::option::weighted(0.3, (0_u64..6_000, 500_u64..10_000));
    (100_u64..20_000, 0_u64..150, 3_u64..100, 0.0..0.3_f64, 0.0..0.1_f64, 0_u64..60, outage).prop_map(
        |(rate_kbits, delay_ms, queue, loss, duplicate, jitter_ms, outage)| {
            // Half of the links are without faults.
            let faulty = loss > 0.15;
            Fault {
                rate_kbits,
                delay_ms,
                queue,
                loss: if faulty { (loss - 0.15) * 2.0 } else { 0.0 },
                duplicate: if faulty { duplicate } else { 0.0 },
                jitter_ms: if faulty { jitter_ms } else { 0 },
                outage,
            }
        },
    )
}

fn switches() -> impl Strategy<Value = Switches> {
    let bits = prop::array::uniform9(any::<bool>());
    let burst = prop_oneof![Just(None), Just(Some(4)), Just(Some(1))];
    let choices = (0..congestion::ALGORITHMS.len(), 0..scheduler::SCHEDULERS.len(), 0_usize..3, 0_usize..5);
    (bits, burst, choices, (0_usize..4, 0_usize..2), 0_usize..4).prop_map(
        |(
            [cmt, dac, nr_sack, i_data, nagle, fullmesh, overshoot, asconf, partial],
            burst,
            choices,
            splitting,
            rescheduling,
        )| {
            let (control, scheduler, streams, retransmission) = choices;
            Switches {
                cmt,
                dac,
                nr_sack,
                i_data,
                nagle,
                overshoot,
                asconf,
                fullmesh,
                burst,
                control,
                scheduler,
                streams,
                retransmission,
                splitting,
                rescheduling,
                partial,
            }
        },
    )
}

fn load() -> impl Strategy<Value = Load> {
    let message = (prop_oneof![1_u64..200, 500_u64..1_500, 1_400_u64..9_000], 0_u16..4, any::<bool>());
    let sizes = (9_000_u64..60_000, prop_oneof![1_500_u64..20_000, 20_000_u64..100_000]);
    (
        prop::collection::vec(message.clone(), 1..150),
        prop::collection::vec(message, 0..20),
        sizes,
        any::<u64>(),
    )
        .prop_map(|(messages, back, (send_buffer, receive_buffer), seed)| Load {
            messages,
            back,
            send_buffer,
            receive_buffer,
            seed,
        })
}

fn apply(config: &mut Settings, switches: &Switches, load: &Load, end: usize) {
    config.cmt = switches.cmt;
    config.dac = switches.dac;
    config.nr_sack = switches.nr_sack;
    config.i_data = switches.i_data;
    config.nagle = switches.nagle;
    config.overshoot = switches.overshoot;
    config.asconf = switches.asconf;
    config.partial_reliability = switches.partial;
    config.paths = if switches.fullmesh { Paths::FullMesh } else { Paths::Destination };
    config.max_burst = switches.burst;
    let entry = &congestion::ALGORITHMS[switches.control];
    config.congestion = congestion::Choice { entry, options: congestion::Options::default() };
    let schedule = &scheduler::SCHEDULERS[switches.scheduler];
    if !schedule.places {
        config.scheduler = schedule;
    }
    config.stream_scheduler = [
        StreamScheduler::Fcfs,
        StreamScheduler::RoundRobin,
        StreamScheduler::RoundRobinPacket,
        StreamScheduler::Priority,
        StreamScheduler::Fair,
        StreamScheduler::WeightedFair,
    ][switches.streams];
    config.retransmission = [
        RetransmissionPath::Alternate,
        RetransmissionPath::Same,
        RetransmissionPath::LargestSsthresh,
        RetransmissionPath::LargestWindow,
        RetransmissionPath::LowestRtt,
    ][switches.retransmission];
    let sides = |i: usize| [Sides::None, Sides::Sender, Sides::Receiver, Sides::Both][i];
    config.splitting = Splitting {
        sides: sides(switches.splitting.0),
        on: [SplittingOn::Outstanding, SplittingOn::Buffered][switches.splitting.1],
    };
    config.rescheduling = Rescheduling { sides: sides(switches.rescheduling), threshold: 0.3 };
    config.streams = 4;
    config.send_buffer = load.send_buffer;
    config.receive_buffer = load.receive_buffer;
    config.rto.min = ms(200);
    config.rto.max = ms(3_000);
    // No association times out: the property under test is that all data arrives.
    config.association_max_retrans = 1_000;
    config.init_max_retrans = 1_000;
    config.path_max_retrans = 3;
    config.heartbeat_interval = Some(ms(1_000));
    config.secrets = secrets(end, load.seed as u8);
}

fn run(faults: &[Fault], switches: &Switches, load: &Load) {
    let links = faults.iter().map(|fault| Link {
        rate: fault.rate_kbits * 1000,
        delay: ms(fault.delay_ms),
        queue: fault.queue,
        loss: fault.loss,
        duplicate: fault.duplicate,
        jitter: ms(fault.jitter_ms),
        up: true,
    });
    let mut net = Net::new(links.collect(), |end, config| apply(config, switches, load, end));
    net.rng = Rng::new(load.seed);
    net.apps[A] = App::sends(load.messages.iter().copied());
    net.apps[B] = App::sends(load.back.iter().copied());
    if switches.partial {
        for app in &mut net.apps {
            app.reliability = limits();
        }
    }
    net.connect();
    let mut changes: Vec<(u64, usize, bool)> = Vec::new();
    for (link, fault) in faults.iter().enumerate() {
        if let Some((from, len)) = fault.outage {
            changes.extend([(from, link, false), (from + len, link, true)]);
        }
    }
    changes.sort_unstable();
    for (at, link, up) in changes {
        net.run_until(at_ms(at));
        net.links[link].up = up;
        net.ends[A].handle_network(net.now, NetworkEvent::address(address(A, link), 1500, up));
        net.drain();
    }
    net.run_to_end(at_ms(3_000_000));
    assert!(net.complete(), "stuck at {:?}: {:#?}", net.now, net.ends.each_ref().map(Endpoint::report));
    net.check(A);
    net.check(B);
    let (a, b) = (net.ends[A].report(), net.ends[B].report());
    if !switches.partial {
        assert_eq!((a.delivered, b.delivered), (b.written, a.written));
        assert_eq!((a.reordering_buffer, b.reordering_buffer), (0, 0));
    }
    // All outstanding data is acknowledged by then; after that both endpoints hold no data.
    net.run_until(net.now + ms(60_000));
    for end in [A, B] {
        let report = net.ends[end].report();
        assert_eq!(report.send_buffer, 0);
        assert!(report.paths.iter().all(|path| path.outstanding == 0 && (path.cwnd >= 1 || !path.usable)));
        let acked: u64 = report.paths.iter().map(|path| path.counters.bytes_acked).sum();
        if switches.partial {
            let counted =
                net.extra(end, "messages_abandoned_sent") + net.extra(end, "messages_abandoned_unsent");
            assert_eq!(counted, net.apps[end].abandoned.len() as u64);
            assert!(
                net.apps[end].fragments.is_empty() && report.reordering_buffer == 0,
                "nothing is left over"
            );
            assert!(net.apps[end].parts.is_empty());
        } else {
            // With copies, several paths may have delivered the same bytes.
            let copied: u64 = report.paths.iter().map(|path| path.counters.bytes_repeated.copy).sum();
            assert!((report.written..=report.written + copied).contains(&acked), "{acked}");
        }
    }
}

/// Reliabilities of every kind, with several limits.
fn limits() -> Vec<Reliability> {
    vec![
        Reliability::Lifetime(ms(150)),
        Reliability::Full,
        Reliability::Retransmissions(0),
        Reliability::Priority(7),
        Reliability::Retransmissions(2),
        Reliability::Priority(1),
        Reliability::Lifetime(ms(2_000)),
    ]
}

/// More than a thousand cases in every test run; `PROPTEST_CASES` sets another number.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1_500)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        max_shrink_iters: 2_000,
        // A failure prints its whole input; a case worth keeping becomes a separate test.
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn everything_arrives_once(
        faults in prop::collection::vec(fault(), 1..4),
        switches in switches(),
        load in load(),
    ) {
        run(&faults, &switches, &load);
    }
}

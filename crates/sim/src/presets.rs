//! Scenarios built in code, for benchmarks and tests.

use crate::scenario::model::{
    Directions, Flow, Link, LinkModel, MessageSize, Protocol, Queue, QueueLimit, Scenario, Scope, Workload,
};
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;
use anabranch_multipath::buffer::{Rescheduling, Splitting};
use anabranch_multipath::{congestion, scheduler};
use anabranch_netem::IpVersions;
use anabranch_netem::queue::fifo;
use anabranch_sctp::{self as sctp, SackPath};
use anabranch_tcp::{mptcp, tcp};

/// A link model of `mbit` Mbit/s and `delay_ms` milliseconds, with a queue of `queue` packets.
pub fn wire(mbit: u64, delay_ms: u64, queue: u64) -> LinkModel {
    LinkModel {
        queue: Queue::Fifo(fifo::Settings { limit: QueueLimit::Packets(queue) }),
        ..LinkModel::new(Rate::from_bits_per_second(mbit * 1_000_000), Duration::from_millis(delay_ms))
    }
}

/// A link with the same model in both directions.
pub fn link(name: &str, between: [&str; 2], model: LinkModel) -> Link {
    Link {
        name: name.into(),
        between: between.map(String::from),
        ip: None,
        addresses: [1; 2],
        address_of: None,
        scope: Scope::Global,
        tunnel: None,
        forward: model.clone(),
        reverse: model,
    }
}

/// A UDP flow of 1000-byte datagrams.
pub fn udp(name: &str, between: [&str; 2], mbit: u64) -> Flow {
    Flow {
        name: name.into(),
        from: between[0].into(),
        to: between[1].into(),
        through: None,
        protocol: Protocol::Udp,
        mtu: None,
        initial_path: Vec::new(),
        initial_version: None,
        backup: Vec::new(),
        stacks: [None; 2],
        ordered: false,
        start: Time::ZERO,
        start_spread: Duration::ZERO,
        stop: None,
        direction: Directions::Forward,
        workload: Workload::Rate {
            rate: Rate::from_bits_per_second(mbit * 1_000_000),
            message: MessageSize::Constant(1000),
        },
        voice: None,
    }
}

/// A saturated flow of a protocol with this congestion control, which is ignored for a protocol without one.
///
/// # Panics
/// If there is no such control.
pub fn saturated(name: &str, between: [&str; 2], mut protocol: Protocol, congestion: &str) -> Flow {
    if let Some(choice) = protocol.congestion_mut() {
        *choice = self::congestion(congestion);
    }
    Flow { protocol, workload: Workload::Saturated { message: None }, ..udp(name, between, 0) }
}

/// TCP with default settings.
pub fn tcp() -> tcp::Config {
    tcp::Config::default()
}

/// Multipath TCP with default settings, which use all pairs of addresses.
pub fn mptcp() -> Protocol {
    Protocol::Mptcp(mptcp::Config::default())
}

/// SCTP, or CMT-SCTP without buffer splitting, with the retransmission timeouts of TCP.
pub fn sctp(cmt: bool) -> Protocol {
    let config = if cmt { sctp::Config::for_cmt() } else { sctp::Config::default() };
    Protocol::Sctp(Box::new(
        config
            .rto(tcp().rto)
            .nr_sack(true)
            .splitting(Splitting::default())
            .rescheduling(Rescheduling::default())
            .sack_path(SackPath::default())
            .tail_loss_probe(false),
    ))
}

/// Saturated TCP flows, each with access links of 1 Gbit/s and 1 ms, over one bottleneck of 10 ms.
pub fn dumbbell(seconds: u64, flows: usize, bottleneck_mbit: u64, queue: u64) -> Scenario {
    let mut links = vec![link("bottleneck", ["R1", "R2"], wire(bottleneck_mbit, 10, queue))];
    let mut all = Vec::new();
    for number in 0..flows {
        let (source, sink) = (format!("S{number}"), format!("D{number}"));
        links.push(link(&format!("left{number}"), [&source, "R1"], wire(1000, 1, 1000)));
        links.push(link(&format!("right{number}"), ["R2", &sink], wire(1000, 1, 1000)));
        all.push(saturated(&format!("F{number}"), [&source, &sink], Protocol::Tcp(tcp()), "reno"));
    }
    scenario(seconds, links, all)
}

/// A saturated flow over disjoint paths of 10 Mbit/s and 1 ms, each with a queue of 100 packets.
pub fn disjoint(seconds: u64, paths: usize, protocol: Protocol, congestion: &str) -> Scenario {
    let mut links = Vec::new();
    for number in 0..paths {
        let (left, right) = (format!("L{number}"), format!("R{number}"));
        links.push(link(&format!("left{number}"), ["S", &left], wire(1000, 0, 1000)));
        links.push(link(&format!("path{number}"), [&left, &right], wire(10, 1, 100)));
        links.push(link(&format!("right{number}"), [&right, "D"], wire(1000, 0, 1000)));
    }
    scenario(seconds, links, vec![saturated("F", ["S", "D"], protocol, congestion)])
}

/// The congestion control with this name, with default options.
///
/// # Panics
/// If no congestion control has this name.
pub fn congestion(name: &str) -> congestion::Choice {
    congestion::Choice::find(name).expect("a control of the table")
}

/// The scheduler called `name`.
///
/// # Panics
/// If no scheduler has this name.
pub fn scheduler(name: &str) -> &'static scheduler::Entry {
    scheduler::find(name).expect("a scheduler of the table")
}

/// A scenario without events.
pub fn scenario(seconds: u64, links: Vec<Link>, flows: Vec<Flow>) -> Scenario {
    Scenario {
        title: "test".into(),
        duration: Duration::from_secs(seconds),
        warmup: Duration::ZERO,
        ip: IpVersions::V4,
        ecmp: true,
        offload: true,
        seed: 1,
        links,
        routers: Vec::new(),
        hosts: Vec::new(),
        middleboxes: Vec::new(),
        flows,
        events: Vec::new(),
        machines: None,
    }
}

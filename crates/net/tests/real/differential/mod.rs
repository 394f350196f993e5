//! Random schedules of applications and of the network give the same bytes and the same end states on this stack and on
//! Linux: both ends on Linux over loopback, and each end in turn on this stack, over TUN with losses and outages.
//!
//! `ANABRANCH_DIFFERENTIAL=NUMBER` runs that number of schedules instead of a few.

mod ends;
mod lossy;
mod schedule;

use super::kernel::connection;
use super::ours;
use anabranch_host::{Backlog, Limits, Listening, Protocol};
use anabranch_multipath::path_manager;
use anabranch_net::{Stack, Stop};
use anabranch_settings::{mptcp, tcp};
use anabranch_testkit::namespace::{Need, ip, machine_has, within};
use anabranch_testkit::peer::listener;
use core::net::{Ipv4Addr, SocketAddr};
use ends::{End, Outcome, Progress, State, block_on, within_time};
use lossy::Lossy;
use schedule::Schedule;
use std::time::Duration;

/// Number of schedules for each protocol, unless the environment has another one.
const SCHEDULES: u64 = 4;
const PORT: u16 = 5001;

fn protocol(multipath: bool) -> Protocol {
    if !multipath {
        return Protocol::Tcp(tcp::Config::default());
    }
    let path_manager = path_manager::parse("fullmesh").expect("listed");
    Protocol::Mptcp(mptcp::Config::default().path_manager(path_manager))
}

/// Both ends on Linux, over loopback.
fn on_kernel(schedule: &Schedule, multipath: bool) -> [Outcome; 2] {
    let progress = Progress::new();
    let end = |side| End { schedule, side, progress: &progress };
    let address = (Ipv4Addr::LOCALHOST, PORT).into();
    let listener = listener(multipath, address);
    std::thread::scope(|scope| {
        let accepting = scope.spawn(|| end(1).on_kernel(listener.accept().expect("a connection").0));
        let connecting = end(0).on_kernel(connection(multipath, address));
        [connecting, accepting.join().expect("the end is done")]
    })
}

/// A stack on two interfaces that lose packets as scheduled.
fn own_stack(schedule: &Schedule, multipath: bool) -> Stack {
    let paths = if multipath { 2 } else { 1 };
    let network = ours::network_of(false, paths, |path, tun| Lossy::new(tun, schedule, path.into()));
    if multipath {
        super::mptcp::routes();
        ip("mptcp endpoint add 10.0.1.1 dev tun1 signal subflow");
    }
    Stack::start(network, Limits::default()).expect("a thread")
}

/// One end on this stack, the other one on Linux.
fn mixed(schedule: &Schedule, multipath: bool, own: usize) -> [Outcome; 2] {
    let stack = own_stack(schedule, multipath);
    let progress = Progress::new();
    let end = |side| End { schedule, side, progress: &progress };
    let (machine, here) = (ours::address(false, 0, 1), ours::address(false, 0, 2));
    let (listens, listening) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let kernel = if own == 0 {
            let listener = listener(multipath, SocketAddr::new(machine, PORT));
            scope.spawn(move || end(1).on_kernel(listener.accept().expect("a connection").0))
        } else {
            scope.spawn(move || {
                listening.recv().expect("this stack listens");
                end(0).on_kernel(connection(multipath, SocketAddr::new(here, PORT)))
            })
        };
        let ours = block_on(async {
            let stream = if own == 0 {
                within_time(stack.connect(protocol(multipath), machine, PORT)).await.expect("Linux listens")
            } else {
                let backlog = Backlog::default();
                let listening = Listening { protocol: protocol(multipath), port: PORT, backlog };
                let listener = stack.listen(listening).await.expect("the port is free");
                listens.send(()).expect("the other end waits");
                within_time(listener.accept()).await.expect("Linux connects")
            };
            let outcome = end(own).on_own(stream).await;
            stack.stop(Stop::Drain(Duration::from_secs(5))).await.expect("the stack runs");
            outcome
        });
        let kernel = kernel.join().expect("the end is done");
        if own == 0 { [ours, kernel] } else { [kernel, ours] }
    })
}

/// Compares all pairs of stacks with the first numbers of schedules.
fn compare(multipath: bool) {
    let schedules = std::env::var("ANABRANCH_DIFFERENTIAL");
    let schedules = schedules.map_or(SCHEDULES, |number| number.parse().expect("a number of schedules"));
    let name = if multipath { "mptcp" } else { "tcp" };
    for number in 0..schedules {
        let schedule = Schedule::random(number);
        let expected = [0, 1].map(|end| Outcome {
            read: schedule.scripts[1 - end].bytes(),
            state: match schedule.aborts {
                None => State::Finished,
                Some(aborts) if aborts == end => State::Aborted,
                Some(_) => State::Reset,
            },
        });
        for own in [None, Some(0), Some(1)] {
            let schedule = schedule.clone();
            within(&format!("differential-{name}-{number}"), move || {
                let found = match own {
                    None => on_kernel(&schedule, multipath),
                    Some(own) => mixed(&schedule, multipath, own),
                };
                assert_eq!(found, expected, "schedule {number}, own stack at {own:?}: {schedule:?}");
            });
        }
    }
}

#[test]
fn tcp_and_linux_agree_on_random_schedules() {
    if machine_has(&[Need::Namespaces, Need::Tun]) {
        compare(false);
    }
}

#[test]
fn mptcp_and_linux_agree_on_random_schedules() {
    if machine_has(&[Need::Namespaces, Need::Tun, Need::Mptcp]) {
        compare(true);
    }
}

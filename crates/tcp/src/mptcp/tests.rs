//! Behaviour of a Multipath TCP connection, end to end.

use super::{Config, Connection};
use crate::tcp::{self, Recovery};
use anabranch_base::rng::Rng;
use anabranch_base::time::Duration;
use anabranch_endpoint::endpoint::{Endpoint, Event, NetworkEvent, Reason, Write};
use anabranch_endpoint::{Address, Ends, Secrets};
use anabranch_multipath::congestion::{ALGORITHMS, Choice};
use anabranch_multipath::path_manager;
use anabranch_multipath::scheduler;
use anabranch_settings::policy::{Penalisation, SynRetransmission};
use anabranch_testkit::harness::{Pair, Wire};
use anabranch_wire::tcp::mptcp::Control;
use anabranch_wire::tcp::{Flags, Segment};
use anabranch_wire::{Body, Packet};
use core::net::{IpAddr, Ipv4Addr};
use proptest::prelude::*;
use std::collections::BTreeSet;

pub(super) const A: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 2, 0, 1))];
pub(super) const B: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 1, 0, 2)), IpAddr::V4(Ipv4Addr::new(10, 2, 0, 2))];

#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub congestion: &'static str,
    pub scheduler: &'static str,
    pub paths: String,
    pub tcp: tcp::Config,
    pub mtu: u32,
    pub opportunistic: bool,
    pub penalisation: Penalisation,
    pub mechanisms_in_start_up: bool,
    pub checksum: bool,
    pub syn_retransmission: SynRetransmission,
    pub unroutable: Vec<(IpAddr, IpAddr)>,
    pub backup: [bool; 2],
    pub network_control: Option<Duration>,
    pub source_routes: Vec<Vec<Ipv4Addr>>,
    pub seed: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            congestion: "lia",
            scheduler: "lowest-rtt",
            paths: "fullmesh".into(),
            tcp: tcp::Config::default(),
            mtu: 1500,
            opportunistic: false,
            penalisation: Penalisation::Never,
            mechanisms_in_start_up: true,
            checksum: false,
            syn_retransmission: SynRetransmission::Single,
            unroutable: Vec::new(),
            backup: [false, false],
            network_control: None,
            source_routes: Vec::new(),
            seed: 1,
        }
    }
}

impl Setup {
    pub fn config(&self) -> Config {
        let congestion = Choice::find(self.congestion).expect("listed");
        Config::default()
            .tcp(self.tcp.clone().congestion(congestion))
            .scheduler(scheduler::find(self.scheduler).expect("listed"))
            .path_manager(path_manager::parse(&self.paths).expect("listed"))
            .opportunistic_retransmission(self.opportunistic)
            .penalisation(self.penalisation)
            .mechanisms_in_start_up(self.mechanisms_in_start_up)
            .checksum(self.checksum)
            .syn_retransmission(self.syn_retransmission)
            .unroutable(self.unroutable.clone())
            .network_control(self.network_control)
            .source_routes(self.source_routes.clone())
    }

    fn addresses(&self, ips: &[IpAddr]) -> Vec<Address> {
        let address = |(i, &ip): (usize, &IpAddr)| Address { ip, mtu: self.mtu, backup: self.backup[i] };
        ips.iter().enumerate().map(address).collect()
    }

    pub fn ends(&self) -> (Connection, Connection) {
        let secrets = Secrets::simulated(&mut Rng::new(self.seed));
        let server = Ends::listening(self.addresses(&B), 5001);
        let client =
            Ends { local: self.addresses(&A), local_port: 40_000, remote: vec![B[0]], remote_port: 5001 };
        let client = Connection::connecting(self.config(), &client, secrets.fork("client"));
        (client, Connection::listening(self.config(), &server, secrets.fork("server")))
    }

    /// Two disjoint paths; packets between the cross pairs are lost.
    pub fn pair(&self, first: Wire, second: Wire) -> Pair<Connection> {
        let (client, server) = self.ends();
        Pair::new(client, server, &[(A[0], B[0], first), (A[1], B[1], second)], self.seed)
    }

    pub fn disjoint() -> Self {
        Self { paths: "disjoint".into(), ..Self::default() }
    }
}

pub(super) fn tcp(packet: &Packet) -> &Segment {
    match &packet.body {
        Body::Tcp(segment) => segment,
        other => panic!("not TCP: {other:?}"),
    }
}

pub(super) fn extra(pair: &Pair<Connection>, end: usize, name: &str) -> u64 {
    let report = pair.ends[end].report();
    report.extra.iter().find(|(n, _)| *n == name).map_or_else(|| panic!("no {name}"), |(_, v)| *v)
}

/// Bytes delivered on each path of an end.
fn shares(pair: &Pair<Connection>) -> Vec<u64> {
    pair.ends[1].report().arrivals.iter().map(|arrival| arrival.new).collect()
}

#[test]
fn two_paths_carry_one_stream_and_everything_closes() {
    let mut pair = Setup::disjoint().pair(Wire::new(10), Wire::new(20));
    assert!(pair.send_file(3_000_000, 20.0), "{:?}", pair.sinks[1].delivered);
    let seconds = pair.now.as_secs_f64();
    pair.ends[1].close(pair.now);
    pair.run_until(seconds + 3.0);
    let shares = shares(&pair);
    assert_eq!(shares.iter().sum::<u64>(), 3_000_000);
    assert!(shares.len() == 2 && shares.iter().all(|&s| s > 1_000_000), "{shares:?}");
    for end in 0..2 {
        assert!(
            pair.sinks[end].events.contains(&Event::Closed(Reason::Closed)),
            "{end}: {:?}",
            pair.ends[end]
        );
    }
    // One path would need 1.2 ms for each of 2100 packets, which is 2.5 s.
    assert!(seconds < 1.7, "{seconds}");
}

#[test]
fn options_fit_into_every_segment() {
    for checksum in [false, true] {
        let mut pair =
            Setup { checksum, ..Setup::disjoint() }.pair(Wire::new(10), Wire { loss: 0.02, ..Wire::new(20) });
        assert!(pair.send_file(1_000_000, 60.0));
        let mut bytes = Vec::new();
        for (_, _, packet) in &pair.log {
            assert!(tcp(packet).options.wire_len() <= 40, "{packet:?}");
            assert!(packet.wire_len() <= 1500, "{packet:?}");
            anabranch_wire::check(packet, &mut bytes).expect("a sent packet can be parsed");
        }
        assert_eq!(extra(&pair, 1, "checksum_failures"), 0);
    }
}

#[test]
fn path_managers_open_their_number_of_paths() {
    let mesh = [(A[0], B[0]), (A[0], B[1]), (A[1], B[0]), (A[1], B[1])];
    for (paths, expected) in [("default", 1), ("fullmesh", 4), ("disjoint", 2), ("ndiffports:3", 3)] {
        let setup = Setup { paths: paths.into(), ..Setup::default() };
        let mut pair = setup.pair(Wire::new(10), Wire::new(10));
        for (a, b) in mesh {
            pair.wires.insert((a, b), Wire::new(10));
            pair.wires.insert((b, a), Wire::new(10));
        }
        assert!(pair.send_file(2_000_000, 20.0));
        assert_eq!(shares(&pair).iter().filter(|&&s| s > 0).count(), expected, "{paths}");
        let ports: BTreeSet<u16> = pair.sent(0, |p| Some(tcp(p).source_port)).into_iter().collect();
        assert_eq!(ports.len(), expected, "{paths}");
    }
}

#[test]
fn peer_without_mptcp_causes_fallback_to_tcp() {
    // A middlebox removes the options from SYNs of one direction.
    for strip_from in [0, 1] {
        let setup = Setup::disjoint();
        let mut pair = setup.pair(Wire::new(10), Wire::new(10));
        pair.stripping = Some(strip_from);
        assert!(pair.send_file(500_000, 20.0), "{:?}", pair.ends);
        assert!(pair.ends[0].report().fallback && pair.ends[1].report().fallback);
        pair.ends[1].close(pair.now);
        pair.run_until(pair.now.as_secs_f64() + 1.0);
        assert!(pair.sinks[1].events.contains(&Event::Closed(Reason::Closed)));
    }
}

#[test]
fn goodput_follows_failure_and_return_of_a_path() {
    for informed in [true, false] {
        let mut pair = Setup::disjoint().pair(Wire::new(10), Wire::new(20));
        pair.keep_log = false;
        pair.run_until(0.2);
        let down = |pair: &mut Pair<Connection>, up: bool| {
            for (pair_of, wire) in &mut pair.wires {
                if pair_of.0 == A[1] || pair_of.1 == A[1] {
                    wire.up = up;
                }
            }
            if informed {
                pair.ends[0].handle_network(pair.now, NetworkEvent::address(A[1], 1500, up));
            }
        };
        let fill = |pair: &mut Pair<Connection>, until: f64| {
            let before = pair.sinks[1].delivered;
            while pair.now.as_secs_f64() < until {
                pair.ends[0].write(pair.now, Write::bytes(1_000_000));
                if !pair.step(anabranch_base::time::Time::from_secs_f64(until)) {
                    break;
                }
            }
            (pair.sinks[1].delivered - before) as f64 * 8.0
        };
        fill(&mut pair, 3.0);
        let both = fill(&mut pair, 6.0) / 3.0;
        down(&mut pair, false);
        fill(&mut pair, 8.0);
        let one = fill(&mut pair, 11.0) / 3.0;
        down(&mut pair, true);
        fill(&mut pair, if informed { 13.0 } else { 19.0 });
        let again = fill(&mut pair, 24.0) / (24.0 - if informed { 13.0 } else { 19.0 });
        assert!(both > 17e6 && one > 8.5e6 && one < 10e6 && again > 16e6, "{informed}: {both} {one} {again}");
        assert_eq!(pair.ends[0].report().paths.len(), 2, "a path keeps its identifier");
    }
}

#[test]
fn a_backup_path_waits_until_it_is_needed() {
    let mut pair = Setup { backup: [false, true], ..Setup::disjoint() }.pair(Wire::new(10), Wire::new(10));
    assert!(pair.send_file(1_000_000, 20.0));
    assert_eq!(shares(&pair), [1_000_000, 0]);
    let mut pair = Setup { backup: [false, true], ..Setup::disjoint() }.pair(Wire::new(10), Wire::new(10));
    pair.run_until(0.2);
    pair.ends[0].write(pair.now, Write::bytes(500_000));
    pair.run_until(0.3);
    pair.wires.iter_mut().filter(|(k, _)| k.0 == A[0] || k.1 == A[0]).for_each(|(_, w)| w.up = false);
    assert!(pair.run_while(10.0, |p| p.sinks[1].delivered < 500_000));
    assert!(shares(&pair)[1] > 200_000);
}

#[test]
fn a_fast_close_resets_the_other_side() {
    let mut pair = Setup::disjoint().pair(Wire::new(10), Wire::new(10));
    pair.run_until(0.1);
    pair.ends[0].write(pair.now, Write::bytes(100_000));
    pair.run_until(0.3);
    pair.ends[0].abort(pair.now);
    pair.run_until(0.5);
    assert!(pair.sinks[1].events.contains(&Event::Closed(Reason::Reset)));
    let closes = pair.sent(0, |p| {
        let options = &tcp(p).options.mptcp.others;
        options.iter().any(|o| matches!(o, Control::FastClose { .. })).then(|| tcp(p).flags)
    });
    assert_eq!(closes.len(), 2);
    assert!(closes.iter().all(|f| f.contains(Flags::RST)));
}

fn damage(packet: &mut Packet) {
    packet.settle(&anabranch_wire::Pattern);
    if let Body::Tcp(segment) = &mut packet.body
        && !segment.payload.is_empty()
    {
        segment.payload.offset ^= 1;
    }
}

fn damage_on_the_second_path(packet: &mut Packet) {
    if packet.source == A[1] {
        damage(packet);
    }
}

/// A transfer while a middlebox changes bytes.
fn damaged(paths: &str, tampering: fn(&mut Packet)) -> Pair<Connection> {
    let setup = Setup { checksum: true, paths: paths.into(), scheduler: "round-robin", ..Setup::default() };
    let mut pair = setup.pair(Wire::new(10), Wire::new(10));
    (pair.tampering, pair.damaged) = (Some(tampering), true);
    pair.send_file(200_000, 20.0);
    pair.run_until(pair.now.as_secs_f64() + 0.1);
    pair
}

#[test]
fn damage_on_one_path_ends_that_path_only() {
    let pair = damaged("disjoint", damage_on_the_second_path);
    assert_eq!(pair.sinks[1].delivered, 200_000);
    assert!(!pair.ends[0].report().fallback && !pair.ends[1].report().fallback);
    assert!(extra(&pair, 1, "checksum_failures") > 0);
    let fails = pair.sent(1, |p| {
        let fail = tcp(p).options.mptcp.others.iter().any(|o| matches!(o, Control::Fail { .. }));
        fail.then(|| (p.source, tcp(p).flags.contains(Flags::RST)))
    });
    assert!(!fails.is_empty() && fails.iter().all(|fail| *fail == (B[1], true)), "{fails:?}");
    assert_eq!(shares(&pair), [200_000, 0]);
}

#[test]
fn damage_on_the_only_path_causes_fallback() {
    let mut pair = damaged("default", damage);
    assert_eq!(pair.sinks[1].delivered, 200_000);
    assert!(pair.ends[0].report().fallback && pair.ends[1].report().fallback);
    assert_eq!(extra(&pair, 1, "checksum_failures"), 1);
    pair.ends[1].close(pair.now);
    pair.run_until(pair.now.as_secs_f64() + 3.0);
    assert!(pair.sinks[1].events.contains(&Event::Closed(Reason::Closed)), "{:?}", pair.ends[1]);
}

#[test]
fn a_forged_join_is_reset() {
    let mut pair = Setup::disjoint().pair(Wire::new(10), Wire::new(10));
    pair.run_until(0.1);
    pair.ends[0].write(pair.now, Write::bytes(10_000));
    pair.run_until(0.2);
    // Replays the join's SYN with another token.
    let join = |p: &Packet| {
        let syn = tcp(p).flags == Flags::SYN;
        (syn && tcp(p).options.mptcp.others.iter().any(|o| matches!(o, Control::Join(_)))).then(|| p.clone())
    };
    let mut forged = pair.sent(0, join).pop_back().expect("a join was made");
    let Body::Tcp(segment) = &mut forged.body else { panic!() };
    segment.source_port = 50_000;
    let Control::Join(anabranch_wire::tcp::mptcp::Join::Syn { token, .. }) =
        &mut segment.options.mptcp.others[0]
    else {
        panic!()
    };
    *token ^= 1;
    pair.ends[1].handle_packet(pair.now, forged, &anabranch_wire::Pattern);
    let answer = pair.ends[1].poll_transmit(pair.now).expect("an answer");
    assert!(tcp(&answer).flags.contains(Flags::RST));
    assert_eq!(pair.ends[1].report().paths.len(), 2);
}

#[test]
fn redundant_scheduler_sends_all_data_on_both_paths() {
    let mut pair = Setup { scheduler: "redundant", ..Setup::disjoint() }.pair(Wire::new(10), Wire::new(12));
    assert!(pair.send_file(300_000, 20.0));
    let sent: Vec<u64> = pair.ends[0].report().paths.iter().map(|p| p.counters.bytes_sent).collect();
    assert!(sent.iter().all(|&s| s > 200_000), "{sent:?}");
}

#[test]
fn opportunistic_retransmission_frees_blocked_window() {
    let run = |opportunistic| {
        let tcp = tcp::Config::default().receive_buffer(60_000);
        let scheduler = "round-robin"; // fills the slow path as far as possible
        let penalisation = if opportunistic { Penalisation::Weaker } else { Penalisation::Never };
        let setup = Setup { scheduler, tcp, opportunistic, penalisation, ..Setup::disjoint() };
        let slow = Wire { serialisation: Duration::from_millis(12), ..Wire::new(200) };
        let mut pair = setup.pair(Wire::new(5), slow);
        assert!(pair.send_file(2_000_000, 100.0));
        (
            pair.now.as_secs_f64(),
            extra(&pair, 0, "opportunistic_retransmissions"),
            extra(&pair, 0, "penalisations"),
        )
    };
    let (slow, none, _) = run(false);
    let (fast, some, penalised) = run(true);
    assert_eq!(none, 0);
    assert!(some > 0 && penalised > 0 && fast < slow, "{fast} {slow} {some}");
}

/// The path that holds up the buffer carries nearly all of the data. Only `Penalisation::Any`, the variant of the
/// publication, penalises it.
#[test]
fn path_carrying_more_is_penalised_only_with_any() {
    let penalised = |penalisation| {
        let tcp = tcp::Config::default().receive_buffer(60_000);
        let setup =
            Setup { opportunistic: true, penalisation, scheduler: "round-robin", tcp, ..Setup::disjoint() };
        let narrow = Wire { serialisation: Duration::from_millis(20), ..Wire::new(1) };
        let mut pair = setup.pair(narrow, Wire::new(60));
        assert!(pair.send_file(2_000_000, 100.0));
        extra(&pair, 0, "penalisations")
    };
    let found = [Penalisation::Never, Penalisation::Weaker, Penalisation::Any].map(penalised);
    assert!(found[0] == 0 && found[1] < found[2], "{found:?}");
}

/// With both mechanisms disabled in start-up, neither acts until the fast path's window of 60 kB equals the buffer.
#[test]
fn mechanisms_wait_for_the_end_of_start_up() {
    let tcp = tcp::Config::default().receive_buffer(60_000);
    let setup = Setup {
        opportunistic: true,
        penalisation: Penalisation::Weaker,
        mechanisms_in_start_up: false,
        scheduler: "round-robin",
        tcp,
        ..Setup::disjoint()
    };
    let slow = Wire { serialisation: Duration::from_millis(12), ..Wire::new(200) };
    let mut pair = setup.pair(Wire::new(5), slow);
    pair.run_until(0.1);
    pair.ends[0].write(pair.now, Write::bytes(2_000_000));
    let mut early = false;
    for tick in 11..2000 {
        pair.run_until(f64::from(tick) / 100.0);
        let sender = &pair.ends[0];
        if !sender.start_up.is_over() {
            assert_eq!(
                extra(&pair, 0, "opportunistic_retransmissions") + extra(&pair, 0, "penalisations"),
                0
            );
            let windows: Vec<u64> = sender.states.iter().map(|path| path.cwnd).collect();
            assert!(windows[0] < 60_000, "{windows:?}");
            early = true;
        }
    }
    assert!(early && pair.ends[0].start_up.is_over());
    assert!(extra(&pair, 0, "opportunistic_retransmissions") > 0);
}

#[test]
fn sender_stops_at_closed_window_and_probes_it() {
    let tcp = tcp::Config::default().receive_buffer(30_000);
    let mut pair = Setup { tcp, ..Setup::disjoint() }.pair(Wire::new(10), Wire::new(10));
    pair.reading = false;
    pair.run_until(0.1);
    pair.ends[0].write(pair.now, Write::bytes(200_000));
    pair.run_until(3.0);
    assert!(pair.ends[1].readable() <= 30_000 && pair.ends[1].readable() > 28_000);
    pair.reading = true;
    assert!(pair.run_while(20.0, |p| p.sinks[1].delivered < 200_000), "{:?}", pair.ends[0]);
}

#[test]
fn both_sequence_numbers_wrap_in_a_long_transfer() {
    // 12 GB over two paths exceed the range of four bytes, both on each subflow and in the `DATA_ACK`s.
    let mut setup = Setup::disjoint();
    (setup.mtu, setup.seed) = (65_535, 5);
    setup.tcp.abc_limit = Some(1);
    let wire = |delay| Wire {
        serialisation: Duration::from_micros(50),
        loss: 0.0005,
        reorder: 0.001,
        ..Wire::new(delay)
    };
    let mut pair = setup.pair(wire(1), wire(1));
    pair.keep_log = false;
    assert!(pair.send_file(12_000_000_000, 1000.0), "{:?}", pair.sinks[1].delivered);
    assert!(shares(&pair).iter().all(|&share| share > 4_300_000_000), "{:?}", shares(&pair));
}

#[derive(Clone, Debug)]
struct Faults {
    setup: Setup,
    size: u64,
    wires: [(f64, f64, f64, u64, u64); 2],
    flaps: Vec<(u64, usize, bool)>,
}

fn faults() -> impl Strategy<Value = Faults> {
    let names: Vec<&'static str> = ALGORITHMS.iter().map(|e| e.name).collect();
    let schedulers: Vec<&'static str> = scheduler::SCHEDULERS.iter().map(|e| e.name).collect();
    let paths = ["default", "fullmesh", "disjoint", "ndiffports:2", "ndiffports:4"];
    let recoveries = [Recovery::Sack, Recovery::Prr, Recovery::Rack];
    let setup = (
        (prop::sample::select(names), prop::sample::select(schedulers), prop::sample::select(paths.to_vec())),
        (prop::sample::select(recoveries.to_vec()), any::<[bool; 6]>(), 4_000_u64..300_000, any::<u64>()),
    )
        .prop_map(|((congestion, scheduler, paths), (recovery, flags, receive_buffer, seed))| Setup {
            congestion,
            scheduler,
            paths: paths.into(),
            tcp: tcp::Config::default()
                .recovery(recovery)
                .receive_buffer(receive_buffer)
                .sack(flags[0])
                .timestamps(flags[1])
                .retries(40)
                .syn_retries(40),
            opportunistic: flags[2],
            penalisation: [Penalisation::Never, Penalisation::Weaker, Penalisation::Any][seed as usize % 3],
            mechanisms_in_start_up: flags[3],
            checksum: flags[4],
            syn_retransmission: SynRetransmission::Single,
            unroutable: Vec::new(),
            backup: [false, flags[5]],
            mtu: 1500,
            network_control: (seed % 4 == 0).then_some(Duration::from_millis(50)),
            source_routes: Vec::new(),
            seed,
        });
    let wire = (0.0..0.3_f64, 0.0..0.3_f64, 0.0..0.1_f64, 1_u64..60, 2_u64..100);
    let flap = (100_u64..20_000, 0_usize..2, any::<bool>());
    (setup, 1_u64..300_000, [wire.clone(), wire], prop::collection::vec(flap, 0..6))
        .prop_map(|(setup, size, wires, flaps)| Faults { setup, size, wires, flaps })
}

/// Runs a transfer through faults; afterwards all data must have arrived.
fn survive(faults: &Faults) -> Result<(), TestCaseError> {
    let wire = |&(loss, reorder, duplicate, delay, queue): &(f64, f64, f64, u64, u64)| Wire {
        queue,
        loss,
        reorder,
        duplicate,
        ..Wire::new(delay)
    };
    let mut pair = faults.setup.pair(wire(&faults.wires[0]), wire(&faults.wires[1]));
    pair.keep_log = false;
    let mut flaps = faults.flaps.clone();
    flaps.sort_unstable();
    // Each outage lasts two seconds; the client is notified of some of them.
    let mut changes: Vec<(f64, usize, bool, bool)> = Vec::new();
    for (at, path, told) in flaps {
        changes.push((at as f64 / 1e3, path, false, told));
        changes.push((at as f64 / 1e3 + 2.0, path, true, told));
    }
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (at, path, up, told) in changes {
        if pair.send_file(faults.size, at) {
            break;
        }
        for (ends, wire) in &mut pair.wires {
            if ends.0 == A[path] || ends.1 == A[path] {
                wire.up = up;
            }
        }
        if told {
            pair.ends[0].handle_network(pair.now, NetworkEvent::address(A[path], 1500, up));
        }
    }
    let done = pair.send_file(faults.size, 20_000.0);
    prop_assert!(done, "{} of {} at {:?}", pair.sinks[1].delivered, faults.size, pair.now);
    prop_assert_eq!(extra(&pair, 1, "checksum_failures"), 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn bytes_arrive_once_and_in_order_despite_faults(faults in faults()) {
        survive(&faults)?;
    }
}

#[test]
fn late_address_gets_a_separate_path() {
    let mut pair = Setup::default().pair(Wire::new(10), Wire::new(10));
    let third = IpAddr::V4(Ipv4Addr::new(10, 3, 0, 1));
    for (from, to) in [(third, B[0]), (B[0], third)] {
        pair.wires.insert((from, to), Wire::new(5));
    }
    assert!(!pair.send_file(2_000_000, 0.5));
    pair.ends[0].handle_network(pair.now, NetworkEvent::address(third, 1000, true));
    assert!(pair.send_file(2_000_000, 20.0));
    let paths = pair.ends[0].report().paths;
    let path = paths.iter().find(|path| path.local.ip() == third && path.counters.bytes_acked > 0);
    // MTU 1000, less 40 bytes of headers, 12 of timestamps and 24 of a DSS.
    assert_eq!(path.expect("the path carried data").mss, 924, "{paths:?}");
}

#[test]
fn narrowed_path_retransmits_pieces_with_new_mappings() {
    for checksum in [false, true] {
        let tcp_config = tcp::Config::default().receive_buffer(60_000).abc_limit(Some(1));
        let setup = Setup { checksum, tcp: tcp_config, ..Setup::disjoint() };
        let mut pair = setup.pair(Wire::new(10), Wire::new(20));
        assert!(!pair.send_file(2_000_000, 0.4));
        pair.settle();
        let last =
            pair.log.iter().rev().find(|(_, end, p)| *end == 0 && p.source == A[0] && p.wire_len() == 1500);
        let packet = &last.expect("data on the first path").2;
        let quote = anabranch_endpoint::Quote {
            local: core::net::SocketAddr::new(packet.source, tcp(packet).source_port),
            remote: core::net::SocketAddr::new(packet.destination, tcp(packet).destination_port),
            number: tcp(packet).seq.0,
            initiate_tag: None,
        };
        pair.filter = Some(Box::new(|_, p| p.source == A[0] && p.wire_len() > 800));
        pair.ends[0].handle_network(pair.now, NetworkEvent::PacketTooBig { quote, mtu: 800 });
        assert!(pair.send_file(2_000_000, 20.0), "{}", pair.sinks[1].delivered);
        let paths = pair.ends[0].report().paths;
        assert_eq!((paths[0].mss, paths[1].mss), (724, 1424));
        assert_eq!(extra(&pair, 1, "checksum_failures"), 0);
        assert_eq!(paths[0].counters.timeouts, 0);
    }
}

#[test]
fn tcp_window_holds_one_longer_segment_after_fallback() {
    // Two SYNs are lost, so the third is of plain TCP, and the initial window is one segment.

    let config = tcp::Config::default().timestamps(false);
    let mut pair = Setup { tcp: config, ..Setup::disjoint() }.pair(Wire::new(10), Wire::new(10));
    pair.filter = Some(Box::new(|number, _| number < 2));
    assert!(pair.send_file(1437, 100.0));
    let syns = pair.sent(0, |p| tcp(p).flags.contains(Flags::SYN).then(|| tcp(p).options.mptcp.is_empty()));
    assert_eq!(syns, [false, false, true]);
    assert!(pair.ends.iter().all(|end| end.report().fallback));
}

//! SCTP flows of tests between two meters: streams, order, reliability, and one UDP port.
#![cfg(target_os = "linux")]

use anabranch_net::meter::remote::{Document, Failure, FlowOptions, Plan, Server, Source, run};
use std::net::SocketAddr;

const SCTP: &str = "from = \"client\"\nto = \"server\"\nprotocol = \"sctp\"\n";
const FILE: &str = "workload = { kind = \"file\", size = \"3 MB\", message = \"1400 B\" }";

fn server() -> Server {
    Server::start(SocketAddr::from(([127, 0, 0, 1], 0))).expect("loopback has a free port")
}

/// A test of these flows, each given by its keys and options.
fn plan(duration: &str, flows: &[(&str, FlowOptions)]) -> Plan {
    let head = format!(
        "title = \"test\"\nduration = \"{duration}\"\n[[link]]\nbetween = [\"client\", \"server\"]\nrate = \"1 Gbit/s\"\n"
    );
    let tables =
        flows.iter().enumerate().map(|(at, (flow, _))| format!("[[flow]]\nname = \"flow-{at}\"\n{flow}\n"));
    let scenario = tables.fold(head, |text, table| text + &table);
    let options = flows.iter().map(|(_, options)| options.clone()).collect();
    Plan { scenario, interval_s: 0.25, options, ..Plan::default() }
}

fn tested(server: &Server, plan: Plan) -> Result<Document, Failure> {
    run(("127.0.0.1", server.address().port()), &Source::default(), plan, &mut |_| true)
}

/// Buffers of an association that hold less than the receive buffer of its UDP socket.
fn small_buffers() -> FlowOptions {
    FlowOptions { send_buffer: Some(100_000), receive_buffer: Some(100_000), ..FlowOptions::default() }
}

fn sctp(more: &str) -> String {
    format!("{SCTP}{more}")
}

#[test]
fn file_arrives_in_sequence_in_both_directions() {
    let flow = sctp(&format!("direction = \"both\"\n{FILE}"));
    let document = tested(&server(), plan("20 s", &[(&flow, small_buffers())])).unwrap();
    let [flow] = document.flows.as_slice() else { panic!("one flow") };
    assert!(document.duration_s < 15.0, "a completed file ends the test: {}", document.duration_s);
    assert_eq!(flow.protocol, "sctp");
    assert_eq!(flow.congestion, [Some("reno".to_owned()), Some("reno".to_owned())]);
    for way in &flow.ways {
        // 2,142 messages of 1,400 bytes and one of 1,200.
        assert_eq!((way.read.bytes, way.read.messages, way.written.messages), (3_000_000, 2143, 2143));
        assert_eq!((way.read.reordered, way.written.unordered, way.lost_messages), (0, 0, None));
        assert!(
            way.read.completed_s.is_some_and(|at| at <= document.duration_s),
            "{:?}",
            way.read.completed_s
        );
        assert!(way.read.delay_s.is_some_and(|delay| delay.mean > 0.0));
    }
    assert!(flow.subflows.iter().all(|path| path.cwnd_bytes > 0 && path.remote.starts_with("127.0.0.1:")));
}

#[test]
fn flows_are_streams_of_one_association() {
    let in_first = FlowOptions { association: Some(7), ..small_buffers() };
    let saturated = sctp("workload = { kind = \"saturated\", message = \"20 kB\" }");
    let rate = sctp("workload = { kind = \"rate\", rate = \"1 Mbit/s\", message = \"500 B\" }");
    let asks = sctp(
        "workload = { kind = \"request-response\", request = \"9 B\", response = \"5 kB\", count = 20 }",
    );
    let flows = [
        (&*saturated, in_first.clone()),
        (&*rate, small_buffers()),
        (&*rate, in_first.clone()),
        (&*asks, in_first),
    ];
    let document = tested(&server(), plan("2 s", &flows)).unwrap();
    let paths = |at: usize| {
        let subflows = document.flows[at].subflows.iter();
        subflows.map(|path| path.remote.clone()).collect::<std::collections::BTreeSet<_>>()
    };
    // The first flow of an association has its paths. SCTP ports are 5210 and the index of that flow.
    assert_eq!(paths(0).into_iter().collect::<Vec<_>>(), ["127.0.0.1:5210"]);
    assert_eq!(paths(1).into_iter().collect::<Vec<_>>(), ["127.0.0.1:5211"]);
    assert!(paths(2).is_empty() && paths(3).is_empty());
    for flow in &document.flows {
        assert!(flow.ways.iter().all(|way| way.read.bytes > 0), "{}", flow.name);
    }
    let asks = &document.flows[3];
    assert!(asks.answers.is_some_and(|answers| answers > 0 && asks.ways[1].read.bytes >= 5000 * answers));
}

#[test]
fn fractions_choose_order_and_reliability() {
    let options = FlowOptions { unordered: 0.9, unreliable: 0.3, rtx_trials: Some(1), ..small_buffers() };
    let messages =
        sctp("workload = { kind = \"messages\", message = \"300 B\", interval = \"200 us\", count = 2000 }");
    let written = || {
        let document = tested(&server(), plan("20 s", &[(&messages, options.clone())])).unwrap();
        let way = &document.flows[0].ways[0];
        assert_eq!((way.written.messages, way.read.messages), (2000, 2000), "loopback loses nothing");
        assert_eq!((way.lost_messages, way.open_messages), (Some(0), Some(0)));
        (way.written.unordered, way.written.unreliable)
    };
    let (unordered, unreliable) = written();
    assert!((1760..=1840).contains(&unordered), "three standard deviations are 40: {unordered}");
    assert!((540..=660).contains(&unreliable), "three standard deviations are 61: {unreliable}");
    assert_eq!(written(), (unordered, unreliable), "the seed determines the choice");
}

#[test]
fn single_port_carries_associations_and_datagrams() {
    let udp = "from = \"client\"\nto = \"server\"\nprotocol = \"udp\"\n\
               workload = { kind = \"rate\", rate = \"1 Mbit/s\", message = \"500 B\" }";
    let saturated = sctp("workload = { kind = \"saturated\", message = \"1400 B\" }");
    let server = server();
    let port = server.address().port();
    let flows = [
        (&*saturated, small_buffers()),
        (udp, FlowOptions::default()),
        (&*saturated, small_buffers()),
        (udp, FlowOptions::default()),
    ];
    for _ in 0..2 {
        let test = Plan { single_port: true, ..plan("1 s", &flows) };
        let mut ends = Vec::new();
        let document = run(("127.0.0.1", port), &Source::default(), test, &mut |event| {
            if let Some(anabranch_net::meter::remote::Event::Start(found)) = event {
                ends = found;
            }
            true
        })
        .unwrap();
        assert!(ends.iter().all(|[_, remote]| *remote == format!("127.0.0.1:{port}")), "{ends:?}");
        assert!(document.flows.iter().all(|flow| flow.ways[0].read.bytes > 0));
    }
}

#[test]
fn contradictory_options_of_associations_are_refused() {
    let saturated = sctp("workload = { kind = \"saturated\" }");
    let refusal = |options: &[FlowOptions]| {
        let flows: Vec<_> = options.iter().map(|options| (&*saturated, options.clone())).collect();
        plan("1 s", &flows).test().expect_err("a contradiction")
    };
    let default = FlowOptions::default;
    for (options, says) in [
        (FlowOptions { unordered: 1.5, ..default() }, "the fraction of unordered messages is 1.5"),
        (FlowOptions { unreliable: f64::NAN, ..default() }, "the fraction of unreliable messages is NaN"),
        (FlowOptions { rtx_trials: Some(3), ..default() }, "need unreliable messages"),
        (
            FlowOptions { unreliable: 1.0, rtx_trials: Some(3), rtx_timeout_ms: Some(9), ..default() },
            "exclude each other",
        ),
        (
            FlowOptions { congestion: Some("nosuch".to_owned()), ..default() },
            "with sctp use one of reno, cubic",
        ),
        (FlowOptions { receive_buffer: Some(2000), ..default() }, "has 4096 to 67108864 bytes, but not 2000"),
        (FlowOptions { send_buffer: Some(1 << 40), ..default() }, "but not 1099511627776"),
        (
            FlowOptions { mss: Some(1000), ..default() },
            "a maximum segment size is an option of tcp and mptcp",
        ),
    ] {
        let found = refusal(&[options]);
        assert!(found.contains(says), "{found}");
    }
    let [first, second] = [None, Some("cubic".to_owned())].map(|congestion| FlowOptions {
        association: Some(1),
        congestion,
        ..default()
    });
    assert!(refusal(&[first, second]).contains("must be those of flow \"flow-0\" in the same association"));
    let tcp = saturated.replace("sctp", "tcp");
    let of_tcp =
        |options: FlowOptions| plan("1 s", &[(&tcp, options)]).test().expect_err("an option of sctp");
    assert!(of_tcp(FlowOptions { association: Some(1), ..default() }).contains("is an option of sctp"));
    assert!(of_tcp(FlowOptions { unordered: 0.5, ..default() }).contains("is an option of sctp"));
}

//! Tests between two meters over loopback, and misbehaving peers.
#![cfg(target_os = "linux")]

use anabranch_net::meter::remote::{Document, Event, Failure, FlowOptions, Plan, Server, Source, run};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

fn server() -> Server {
    Server::start(SocketAddr::from(([127, 0, 0, 1], 0))).expect("loopback has a free port")
}

/// A test of these flows, each given by its keys.
fn plan(duration: &str, flows: &[&str]) -> Plan {
    let head = format!(
        "title = \"test\"\nduration = \"{duration}\"\n[[link]]\nbetween = [\"client\", \"server\"]\nrate = \"1 Gbit/s\"\n"
    );
    let flows = flows.iter().map(|flow| format!("[[flow]]\n{flow}\n"));
    Plan {
        scenario: flows.fold(head, |text, flow| text + &flow),
        interval_s: 0.25,
        keep_delays: true,
        ..Plan::default()
    }
}

const FORWARD: &str = "from = \"client\"\nto = \"server\"\nprotocol = \"tcp\"\n";

fn tested(server: &Server, plan: Plan) -> Result<Document, Failure> {
    run(("127.0.0.1", server.address().port()), &Source::default(), plan, &mut |_| true)
}

#[test]
fn every_message_is_counted_with_its_delay() {
    let server = server();
    let messages =
        "workload = { kind = \"messages\", message = \"300 B\", interval = \"50 us\", count = 10000 }";
    let document = tested(&server, plan("8 s", &[&format!("{FORWARD}{messages}")])).unwrap();
    assert!(document.one_clock);
    let [flow] = document.flows.as_slice() else { panic!("one flow") };
    let [way] = flow.ways.as_slice() else { panic!("one way") };
    assert_eq!((way.written.messages, way.read.messages, way.read.bytes), (10_000, 10_000, 3_000_000));
    assert_eq!(way.read.delays.len(), 10_000);
    let delay = way.read.delay_s.expect("both ends share a clock");
    assert!(delay.mean > 0.0 && delay.p50 <= delay.p99, "{delay:?}");
    assert!(way.read.completed_s.is_some_and(|at| (0.4..8.0).contains(&at)), "{:?}", way.read.completed_s);
    assert_eq!(way.read.intervals.iter().sum::<u64>(), 3_000_000);
    assert_eq!(way.read.foreign, 0);
}

#[test]
fn test_uses_the_requested_source_address() {
    let server = server();
    let short = || plan("500 ms", &[&format!("{FORWARD}workload = {{ kind = \"saturated\" }}")]);
    let from = |address: [u8; 4]| {
        let source = Source { addresses: vec![IpAddr::from(address)], ..Source::default() };
        run(("127.0.0.1", server.address().port()), &source, short(), &mut |_| true)
    };
    let document = from([127, 0, 0, 9]).unwrap();
    let locals: Vec<&str> = document.flows[0].subflows.iter().map(|subflow| &*subflow.local).collect();
    assert!(!locals.is_empty() && locals.iter().all(|local| local.starts_with("127.0.0.9:")), "{locals:?}");
    let Err(Failure::Peer(reason)) = from([192, 0, 2, 77]) else { panic!("no host has that address") };
    assert!(reason.contains("cannot reach"), "{reason}");
}

#[test]
fn all_workloads_and_directions_run_concurrently() {
    let server = server();
    let reverse = "from = \"server\"\nto = \"client\"\n";
    let flows = [
        format!("name = \"saturated\"\n{FORWARD}workload = {{ kind = \"saturated\" }}"),
        format!("name = \"back\"\n{reverse}protocol = \"tcp\"\nworkload = {{ kind = \"saturated\" }}"),
        format!(
            "name = \"both\"\n{FORWARD}direction = \"both\"\nworkload = {{ kind = \"file\", size = \"200 kB\" }}"
        ),
        format!(
            "name = \"asks\"\n{FORWARD}workload = {{ kind = \"request-response\", request = {{ uniform = [\"1 B\", \
             \"90 B\"] }}, response = \"5 kB\", count = 3 }}"
        ),
        format!(
            "name = \"bursts\"\n{FORWARD}workload = {{ kind = \"on-off\", on = \"200 ms\", off = \"100 ms\", \
             rate = \"1 Mbit/s\", message = {{ exponential = \"100 B\" }} }}"
        ),
        format!(
            "name = \"datagrams\"\n{reverse}protocol = \"udp\"\n\
             workload = {{ kind = \"rate\", rate = \"2 Mbit/s\", message = \"900 B\" }}"
        ),
    ];
    let flows: Vec<&str> = flows.iter().map(String::as_str).collect();
    let document = tested(&server, plan("1 s", &flows)).unwrap();
    let ways = |name: &str| &document.flows.iter().find(|flow| flow.name == name).expect("a flow").ways;
    // The goodput depends on the machine, so the test requires only that data arrives in either direction.
    for name in ["saturated", "back"] {
        assert!(ways(name)[0].read.bytes > 0 && ways(name)[0].goodput_bps > 0.0, "{name}");
    }
    assert_eq!(ways("back")[0].direction, "server-to-client");
    assert_eq!(ways("both").iter().map(|way| way.read.bytes).collect::<Vec<_>>(), [200_000; 2]);
    let asks = document.flows.iter().find(|flow| flow.name == "asks").expect("a flow");
    assert_eq!((asks.answers, asks.ways[1].read.bytes), (Some(3), 15_000));
    assert!(asks.response_time_s.is_some());
    assert!(ways("bursts")[0].read.messages > 0);
    let datagrams = &ways("datagrams")[0];
    assert!(datagrams.read.messages > 0, "{datagrams:?}");
    let (lost, open) = (datagrams.lost_messages.unwrap(), datagrams.open_messages.unwrap());
    assert_eq!(datagrams.read.messages + lost + open, datagrams.written.messages, "{datagrams:?}");
    assert_eq!(ways("saturated")[0].lost_messages, None);
    let saturated = &document.flows[0];
    assert!(saturated.congestion[0].is_some() && !saturated.subflows.is_empty());
    assert!(saturated.subflows.iter().all(|subflow| subflow.cwnd_bytes > 0));
    // The server accepts the next test.
    assert!(tested(&server, plan("0.3 s", &flows[..1])).is_ok());
}

/// The server's reply to a line.
fn reply(server: &Server, line: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).expect("the server listens");
    stream.write_all(line.as_bytes()).expect("the server reads");
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).expect("the server replies");
    answer
}

#[test]
fn invalid_clients_are_refused_and_server_continues() {
    let server = server();
    assert!(reply(&server, "GET / HTTP/1.1\r\n\r\n").contains("received an invalid message"));
    let old = "{\"hello\":{\"protocol\":0,\"version\":\"0.0.1\",\"boot\":\"\"}}\n";
    assert!(reply(&server, old).contains("install the same version on both machines"));
    assert!(reply(&server, "\"connected\"\n").contains("expected a greeting"));
    // A client that disconnects at once.
    drop(TcpStream::connect(server.address()).expect("the server listens"));
    let texts: Vec<_> =
        (0..4).filter_map(|_| server.poll(Duration::from_secs(8))).map(|news| news.text).collect();
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert!(texts.iter().any(|text| text.contains("closed the connection")), "{texts:?}");
    assert!(
        tested(&server, plan("0.2 s", &[&format!("{FORWARD}workload = {{ kind = \"saturated\" }}")])).is_ok()
    );
}

#[test]
fn slow_clients_do_not_block_others() {
    let server = server();
    let mut slow: Vec<_> =
        (0..32).map(|_| TcpStream::connect(server.address()).expect("the server listens")).collect();
    for _ in 0..8 {
        for stream in &mut slow {
            stream.write_all(b" ").expect("the server reads");
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    // One more client is refused with a reason.
    let mut last = TcpStream::connect(server.address()).expect("the server listens");
    let mut answer = String::new();
    last.read_to_string(&mut answer).expect("the server replies");
    assert!(answer.contains("too many clients"), "{answer}");
    let texts: Vec<_> = (0..32).filter_map(|_| server.poll(Duration::from_secs(8))).collect();
    assert!(texts.iter().all(|news| news.text.contains("sent nothing in time")), "{texts:?}");
    assert_eq!(texts.len(), 32);
    let saturated = format!("{FORWARD}workload = {{ kind = \"saturated\" }}");
    assert!(tested(&server, plan("0.2 s", &[&saturated])).is_ok());
}

#[test]
fn second_client_is_refused_disconnect_ends_test() {
    let server = server();
    let saturated = format!("{FORWARD}workload = {{ kind = \"saturated\" }}");
    let mut refused = None;
    let mut looked = false;
    let first = run(
        ("127.0.0.1", server.address().port()),
        &Source::default(),
        plan("1 s", &[&saturated]),
        &mut |_| {
            if !looked {
                looked = true;
                refused = tested(&server, plan("1 s", &[&saturated])).err();
            }
            true
        },
    );
    assert!(first.is_ok());
    assert!(matches!(&refused, Some(Failure::Peer(reason)) if reason.contains("busy")), "{refused:?}");
    // A client that disconnects during its test.
    let proxied = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = proxied.local_addr().expect("the listener is bound").port();
    let to = server.address();
    let relay = std::thread::spawn(move || {
        let (mut client, _) = proxied.accept().expect("the client connects");
        let mut server = TcpStream::connect(to).expect("the server listens");
        let mut lines = BufReader::new(server.try_clone().expect("a copy"));
        let mut from_client = BufReader::new(client.try_clone().expect("a copy"));
        // Greeting, plan and start are forwarded; then the connection is cut.
        for _ in 0..3 {
            let mut line = String::new();
            from_client.read_line(&mut line).expect("the client sends");
            server.write_all(line.as_bytes()).expect("the server reads");
            line.clear();
            if lines.get_ref().set_read_timeout(Some(Duration::from_millis(300))).is_ok() {
                // The start has no reply.
                let _ = lines.read_line(&mut line);
                let ready = line.contains("ready");
                client.write_all(line.as_bytes()).expect("the client reads");
                if ready {
                    line.clear();
                    let _ = lines.read_line(&mut line);
                    client.write_all(line.as_bytes()).expect("the client reads");
                }
            }
        }
    });
    let cut = run(("127.0.0.1", port), &Source::default(), plan("30 s", &[&saturated]), &mut |_| true);
    relay.join().expect("the relay ends");
    assert!(
        matches!(&cut, Err(Failure::Peer(reason)) if reason.contains("closed the connection")),
        "{cut:?}"
    );
    let texts: Vec<_> = (0..3).filter_map(|_| server.poll(Duration::from_secs(3))).collect();
    assert!(texts.iter().any(|news| !news.ended && news.text.contains("closed the connection")), "{texts:?}");
    assert!(tested(&server, plan("0.2 s", &[&saturated])).is_ok());
}

#[test]
fn client_errors_are_one_sentence() {
    let saturated = format!("{FORWARD}workload = {{ kind = \"saturated\" }}");
    let nobody = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("the listener is bound").port()
    };
    let reason = |failure: Result<Document, Failure>| failure.expect_err("the test fails").to_string();
    let refused =
        reason(run(("127.0.0.1", nobody), &Source::default(), plan("1 s", &[&saturated]), &mut |_| true));
    assert!(refused.contains("there is no meter server at"), "{refused}");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("the listener is bound").port();
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the client connects");
        stream.read_exact(&mut [0; 20]).expect("a greeting");
        stream.write_all(b"220 mail.example ESMTP\r\n").expect("the client reads");
    });
    let mail =
        reason(run(("127.0.0.1", port), &Source::default(), plan("1 s", &[&saturated]), &mut |_| true));
    other.join().expect("the other server ends");
    assert!(mail.contains("does not answer like a meter"), "{mail}");
    let server = server();
    let options = vec![FlowOptions { congestion: Some("nosuch".to_owned()), ..FlowOptions::default() }];
    let control = Plan { options, ..plan("1 s", &[&saturated]) };
    assert!(reason(tested(&server, control)).contains("the congestion control nosuch"));
    let unknown = plan("1 s", &[&format!("{FORWARD}workload = {{ kind = \"satrated\" }}")]);
    assert!(matches!(tested(&server, unknown), Err(Failure::Plan(_))));
}

#[test]
fn clients_of_single_port_wait_their_turn() {
    let server = server();
    let single = || {
        let saturated = format!("{FORWARD}workload = {{ kind = \"saturated\" }}");
        Plan { single_port: true, ..plan("500 ms", &[&saturated]) }
    };
    let port = server.address().port();
    let (waited, begun) = (std::sync::Mutex::new(Vec::new()), std::sync::Mutex::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let tested = run(("127.0.0.1", port), &Source::default(), single(), &mut |event| {
                    match event {
                        Some(Event::Waiting(ahead)) => waited.lock().expect("no panic").push(ahead),
                        Some(Event::Start(ends)) => {
                            *begun.lock().expect("no panic") += 1;
                            assert!(ends[0][1].ends_with(&format!(":{port}")), "{ends:?}");
                        }
                        _ => {}
                    }
                    true
                });
                assert!(tested.expect("the test runs").flows[0].ways[0].read.bytes > 0);
            });
        }
    });
    let waited = waited.into_inner().expect("no panic");
    assert_eq!(begun.into_inner().expect("no panic"), 3);
    assert!(waited.contains(&1) && waited.iter().all(|ahead| [1, 2].contains(ahead)), "{waited:?}");
}

#[test]
fn connection_without_a_test_is_refused() {
    let server = server();
    let mut stray = TcpStream::connect(server.address()).expect("the server listens");
    stray.write_all(b"ab-m\0\0\0\0\x07\0\0\0\0\0\0\0").expect("the server reads");
    assert_eq!(stray.read(&mut [0; 1]).expect("the server closes"), 0);
    let news = server.poll(Duration::from_secs(5)).expect("an event");
    assert!(news.text.contains("a connection that belongs to no test"), "{}", news.text);
}

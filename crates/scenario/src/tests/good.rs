//! Valid scenarios and their models.

use super::super::model::*;
use super::super::{InputError, parse, parse_with, to_toml};
use super::{EVERYTHING, files};
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;
use anabranch_middlebox::source_route::SourceRoutes;
use anabranch_multipath::buffer::{Rescheduling, Sides};
use anabranch_multipath::congestion::{Couple, SlowStart};
use anabranch_netem::loss::bernoulli::Bernoulli;
use anabranch_netem::loss::none;
use anabranch_netem::queue::{fifo, red};
use anabranch_settings::policy::{Information, Recovery};
use anabranch_settings::protocols::{PROTOCOLS, Protocols};
use std::fmt::Write as _;
use std::path::Path;

const DESIGN: &str = include_str!("design.toml");
const BASE: &str = include_str!("base.toml");

fn with(text: &str, sets: &[(&str, &str)]) -> Result<Scenario, InputError> {
    let sets: Vec<_> = sets.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    parse(text, "folder/s.toml", &sets)
}

fn mbit(rate: u64) -> LinkRate {
    LinkRate::Constant(Rate::from_bits_per_second(rate * 1_000_000))
}

#[test]
fn design_example_has_the_expected_model() {
    let scenario = with(DESIGN, &[]).unwrap();
    assert_eq!(scenario.title, "Half bottleneck");
    assert_eq!(scenario.duration, Duration::from_secs(320));
    assert_eq!(scenario.warmup, Duration::from_secs(20));
    let queue = Queue::Fifo(fifo::Settings { limit: QueueLimit::Packets(100) });
    assert_eq!(scenario.links[0].forward.queue, queue);
    assert_eq!(scenario.links[0].forward.rate, mbit(1000));
    let beta = &scenario.links[2];
    assert_eq!((beta.name.as_str(), &beta.between), ("beta", &["R3".to_owned(), "R4".to_owned()]));
    assert_eq!(beta.forward.rate, mbit(10));
    assert_eq!(beta.reverse.rate, mbit(1));
    assert_eq!(beta.reverse.delay, Duration::from_millis(1).into());
    assert_eq!(beta.forward.loss, Loss::Bernoulli(Bernoulli { rate: 0.001 }));
    let red = Queue::Red(red::Settings {
        limit: QueueLimit::Packets(100),
        min: 30.0,
        max: 90.0,
        max_p: 0.1,
        weight: 0.002,
        gentle: false,
        ecn: false,
    });
    assert_eq!(beta.forward.queue, red);
    let flow = &scenario.flows[0];
    let Protocol::Mptcp(mptcp) = &flow.protocol else { panic!("{flow:?}") };
    assert_eq!((mptcp.tcp.congestion.entry.name, mptcp.tcp.send_buffer), ("lia", 1_000_000));
    assert_eq!((mptcp.scheduler.name, mptcp.path_manager.entry.name), ("lowest-rtt", "fullmesh"));
    let event =
        Event::link(Time::from_secs_f64(60.0), (2, Directions::Both), vec![Change::State { up: false }]);
    assert_eq!(scenario.events, [event]);
}

#[test]
fn smallest_scenario_of_the_reference_page_parses() {
    let page = include_str!("../reference_intro.md");
    let text = page.split("```").find_map(|block| block.strip_prefix("toml\n")).unwrap();
    let scenario = with(text, &[]).unwrap();
    assert_eq!((scenario.links.len(), scenario.flows.len()), (1, 1));
}

#[test]
fn missing_keys_have_the_defaults_of_the_protocol() {
    let text = "duration = \"1 s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\n\
                [[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"tcp\"\n";
    let scenario = with(text, &[]).unwrap();
    assert_eq!(scenario.links[0].name, "a-b");
    assert_eq!(scenario.seed, 1);
    let flow = &scenario.flows[0];
    assert_eq!(flow.name, "a-b");
    assert_eq!(flow.workload, Workload::Saturated { message: None });
    for entry in PROTOCOLS.iter().filter(|entry| entry.value != Protocols::UDP) {
        let scenario = with(&text.replace("\"tcp\"", &format!("\"{}\"", entry.name)), &[]).unwrap();
        assert_eq!(scenario.flows[0].protocol, Protocol::new(entry.value));
    }
}

#[test]
fn tables_inherit_key_by_key() {
    let scenario = super::everything();
    let [first, second, third, _, _] = scenario.links.as_slice() else { panic!("five links") };
    let red = |packets: u64, min: f64, max: f64, ecn: bool| {
        let limit = QueueLimit::Packets(packets);
        Queue::Red(red::Settings { limit, min, max, max_p: 0.05, weight: 0.002, gentle: ecn, ecn })
    };
    assert_eq!(first.forward.queue, red(60, 10.0, 0.77 * 60.0, true));
    // A queue of another kind inherits the common keys.
    assert_eq!(first.reverse.queue, Queue::Fifo(fifo::Settings { limit: QueueLimit::Packets(60) }));
    assert_eq!((first.forward.up, first.reverse.up), (false, true));
    assert_eq!(first.reverse.reorder, None);
    assert_eq!(first.forward.reorder, Some(Reorder { rate: 0.01, delay: Duration::from_millis(5) }));
    assert_eq!(second.forward.queue, Queue::Fifo(fifo::Settings { limit: QueueLimit::Bytes(1 << 20) }));
    assert_eq!(second.forward.loss, Loss::None(none::None));
    let Queue::Red(red::Settings { limit, min, .. }) = third.forward.queue else { panic!("{third:?}") };
    assert_eq!((limit, min), (QueueLimit::Bytes(300_000), 90_000.0));
    assert_eq!((third.forward.mtu, third.forward.overhead), (9000, 38));
}

#[test]
fn flow_defaults_apply_to_flows_with_the_key() {
    let scenario = super::everything();
    let [tcp, many, cmt, single, datagrams, asks, proxied] = scenario.flows.as_slice() else {
        panic!("seven flows")
    };
    assert_eq!((proxied.through.as_deref(), proxied.meets(), asks.meets()), (Some("P"), "P", "B"));
    assert!(proxied.begins_on([1, 3]), "the flow's first path ends at its proxy");
    let Protocol::Tcp(settings) = &tcp.protocol else { panic!("{tcp:?}") };
    assert_eq!(settings.congestion.entry.name, "reno", "an alias is replaced by the name");
    assert_eq!(settings.rto.min, Duration::from_millis(300));
    assert_eq!(
        (settings.delayed_ack, settings.recovery, settings.abc_limit),
        (None, Recovery::Sack, Some(2))
    );
    let arrivals = Arrivals {
        mean_interval: Duration::from_millis(50),
        exponential: false,
        count: Some(1000),
        max_open: 7,
    };
    assert_eq!(tcp.workload.arrivals(), Some(arrivals));
    assert_eq!((tcp.start, tcp.stop), (Time::from_secs_f64(0.25), Some(Time::from_secs_f64(50.0))));
    let Protocol::Mptcp(mptcp) = &many.protocol else { panic!("{many:?}") };
    let subflow = &mptcp.tcp;
    assert_eq!(many.initial_path, [1]);
    assert_eq!((settings.ssthresh_floor, subflow.ssthresh_floor), (4, 2), "lia has a separate floor");
    assert_eq!((mptcp.scheduler.name, many.backup.as_slice()), ("weighted", [1].as_slice()));
    assert_eq!(subflow.congestion.entry.name, "lia");
    assert_eq!(subflow.congestion.options.slow_start, SlowStart::Coupled);
    assert_eq!(subflow.congestion.options.couple, Couple::Shared);
    let Protocol::Sctp(sctp) = &cmt.protocol else { panic!("{cmt:?}") };
    assert_eq!(sctp.congestion.options.couple, Couple::All, "only mptcp has the key");
    assert!(sctp.cmt && !sctp.nr_sack);
    assert_eq!(sctp.rescheduling, Rescheduling { sides: Sides::Both, threshold: 0.75 });
    assert_eq!(cmt.initial_path, [1]);
    assert_eq!(
        cmt.workload,
        Workload::Saturated { message: Some(MessageSize::Uniform { low: 500, high: 1452 }) }
    );
    let Protocol::Sctp(sctp) = &single.protocol else { panic!("{single:?}") };
    assert_eq!((sctp.cmt, sctp.splitting.sides, sctp.scheduler.name), (false, Sides::None, "weighted"));
    assert_eq!(sctp.congestion.options.slow_start, SlowStart::Rfc, "the protocol has no coupled control");
    let call = Voice { codec: Codec::G729, playout: Duration::from_millis(80) };
    assert_eq!((datagrams.voice, tcp.voice), (Some(call), None));
    assert_eq!((&datagrams.protocol, datagrams.direction), (&Protocol::Udp, Directions::Both));
    assert_eq!((tcp.direction, asks.direction), (Directions::Forward, Directions::Reverse));
    let requests = Workload::RequestResponse {
        request: MessageSize::Uniform { low: 200, high: 1_000 },
        response: MessageSize::Pareto { min: 1_000, shape: 1.2, max: 1_000_000 },
        think: Duration::from_millis(50),
        exponential: true,
        count: Some(12),
    };
    assert_eq!(asks.workload, requests);
}

#[test]
fn workloads_come_from_files() {
    let sets = |value: &str| [("flow.call.workload".to_owned(), value.to_owned())];
    let read = |value: &str| parse_with(BASE, "s.toml", &sets(value), &files).unwrap();
    let recorded = read(r#"{ kind = "recorded", file = "messages.csv" }"#);
    let messages = vec![(Duration::ZERO, 160), (Duration::from_millis(20), 7)];
    let recording = Recording { file: "messages.csv".into(), messages };
    assert_eq!(recorded.flows[1].workload, Workload::Recorded(recording.into()));
    let listed = read(r#"{ kind = "rate", rate = "1 Mbit/s", message = { file = "sizes.csv" } }"#);
    let Workload::Rate { message, .. } = &listed.flows[1].workload else { panic!("a rate") };
    let list = SizeList { file: "sizes.csv".into(), sizes: vec![100, 7] };
    assert_eq!(*message, MessageSize::Listed(list.into()));
    for scenario in [recorded, listed] {
        assert_eq!(parse_with(&to_toml(&scenario), "again.toml", &[], &files).as_ref(), Ok(&scenario));
    }
}

#[test]
fn bursts_have_times_or_lengths() {
    let sets = |value: &str| {
        [("flow.call.workload".to_owned(), format!("{{ kind = \"on-off\", rate = \"1 Mbit/s\", {value} }}"))]
    };
    let bursts = |value: &str| {
        let scenario = parse(BASE, "s.toml", &sets(value)).unwrap();
        assert_eq!(parse(&to_toml(&scenario), "again.toml", &[]).as_ref(), Ok(&scenario));
        match &scenario.flows[1].workload {
            Workload::OnOff { bursts, .. } => bursts.clone(),
            other => panic!("{other:?}"),
        }
    };
    let [on, off] = [2, 1].map(Duration::from_secs);
    let pareto = |shape| Bursts::Drawn { on, off, distribution: Distribution::Pareto { shape } };
    let lengths = "on = \"2 s\", off = \"1 s\", distribution = \"pareto\"";
    assert_eq!(bursts(lengths), pareto(1.5));
    assert_eq!(bursts(&format!("{lengths}, shape = 2")), pareto(2.0));
    let times = [[1.0, 5.0], [5.0, 6.5]].map(|period| period.map(Time::from_secs_f64));
    assert_eq!(
        bursts("periods = [[\"1 s\", \"5 s\"], [\"5 s\", \"6500 ms\"]]"),
        Bursts::Periods(times.into())
    );
}

#[test]
fn events_renumber_links_and_change_flows() {
    let scenario = super::everything();
    let subject = |at: usize| scenario.events[at].subject.clone();
    let up = vec![Change::State { up: true }];
    let renumbered = LinkEvent { link: 1, directions: Directions::Both, renumbers: true, changes: up };
    assert_eq!(subject(2), Subject::Link(renumbered));
    let flow = |name: &str| scenario.flows.iter().position(|flow| flow.name == name).unwrap();
    let of = |flow, change| Subject::Flow(FlowEvent { flow, change });
    assert_eq!(subject(3), of(flow("many"), FlowChange::Backup(Vec::new())));
    assert_eq!(subject(4), of(flow("cmt"), FlowChange::Primary(0, None)));
}

fn of_link(event: &Event) -> &LinkEvent {
    event.of_link().expect("the event changes a link")
}

#[test]
fn events_repeat_and_are_sorted() {
    let scenario = super::everything();
    let moments: Vec<_> = scenario.events.iter().map(|event| event.at.as_secs_f64()).collect();
    assert_eq!(moments, [1.0, 2.0, 3.0, 3.0, 4.0, 42.0, 82.0]);
    assert_eq!(of_link(&scenario.events[0]).directions, Directions::Reverse);
    let changes = [
        Change::State { up: true },
        Change::Rate(Rate::from_bits_per_second(1_000_000)),
        Change::Delay(Duration::ZERO),
        Change::Loss(Loss::Bernoulli(Bernoulli { rate: 0.5 })),
    ];
    assert_eq!(of_link(&scenario.events[6]).changes, changes);
}

#[test]
fn traces_are_found_relative_to_the_scenario() {
    let text = EVERYTHING;
    let asked = std::cell::RefCell::new(Vec::new());
    let files = |path: &Path| {
        asked.borrow_mut().push(path.to_owned());
        files(path).map(|text| text.replace("0\n1\n1\n7\n", "1\n3\n"))
    };
    let scenario = parse_with(text, "some/folder/s.toml", &[], &files).unwrap();
    assert_eq!(asked.into_inner()[0], Path::new("some/folder/lte.mahi"));
    let expected = LinkRate::Trace {
        file: "lte.mahi".into(),
        content: RateTrace::Opportunities([1, 3].into()),
        offset: Duration::ZERO,
        offset_spread: Duration::ZERO,
    };
    assert_eq!(scenario.links[1].forward.rate, expected);
}

#[test]
fn overrides_equal_values_in_the_file() {
    let scenario = with(
        BASE,
        &[
            ("link.wifi.rate", "5 Mbit/s"),
            ("link.cellular.loss.rate", "0.5"),
            ("link.core.queue", "{ kind = \"fifo\", limit = \"7 packets\" }"),
            ("link_defaults.queue.limit", "\"9 packets\""),
            ("link.wifi.reverse.delay", "7ms"),
            ("flow.download.congestion", "lia"),
            ("flow.download.delayed_ack", "false"),
            ("event.0.at", "21 s"),
            ("title", "2024"),
            ("seed", "7"),
            ("duration", "22 s"),
        ],
    )
    .unwrap();
    assert_eq!(scenario.links[0].forward.rate, mbit(5));
    assert_eq!(scenario.links[0].reverse.delay, Duration::from_millis(7).into());
    assert_eq!(
        scenario.links[0].forward.queue,
        Queue::Fifo(fifo::Settings { limit: QueueLimit::Packets(9) })
    );
    assert_eq!(scenario.links[1].forward.loss, Loss::Bernoulli(Bernoulli { rate: 0.5 }));
    assert_eq!(
        scenario.links[2].forward.queue,
        Queue::Fifo(fifo::Settings { limit: QueueLimit::Packets(7) })
    );
    assert_eq!(scenario.flows[0].protocol.congestion().unwrap().entry.name, "lia");
    assert_eq!(scenario.events[0].at, Time::from_secs_f64(21.0));
    assert_eq!((scenario.title.as_str(), scenario.seed), ("2024", 7));
}

#[test]
fn middleboxes_and_hosts_are_overridden_by_name() {
    let base = BASE.replace("[[flow]]\nname = \"download\"", "[[middlebox]]\nnode = \"router\"\ndoes = { kind = \"strip-options\" }\n\n[[host]]\nname = \"phone\"\ndefault_route = \"wifi\"\n\n[[flow]]\nname = \"download\"");
    let from = ("middlebox.router.from", "[\"wifi\"]");
    let sets = [("middlebox.router.does.kind", "nat"), from, ("host.phone.default_route", "cellular")];
    let scenario = with(&base, &sets).unwrap();
    assert_eq!(scenario.middleboxes[0].does.kind().name, "nat");
    let declared = with(&base, &[("middlebox.router.does", "{ kind = \"nat\" }"), sets[1], sets[2]]).unwrap();
    assert_eq!(to_toml(&scenario), to_toml(&declared));
    let names =
        |links: &[usize]| links.iter().map(|&at| scenario.links[at].name.as_str()).collect::<Vec<_>>();
    // The server sends the download and receives the call, so the links of the inside must be named.
    assert_eq!(names(&scenario.middleboxes[0].from), ["wifi"]);
    let message = with(&base, &[("middlebox.ruoter.does.kind", "nat")]).unwrap_err().to_string();
    assert!(message.ends_with("there is no middlebox \"ruoter\"; did you mean \"router\"?"), "{message}");
}

#[test]
fn inside_of_a_nat_leads_to_sending_hosts() {
    let link = |a: &str, b: &str| format!("[[link]]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"1 Mbit/s\"\n");
    let flow =
        |from: &str, to: &str| format!("[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nprotocol = \"tcp\"\n");
    // The link from S to D bypasses the middlebox.
    let links =
        [("S", "M"), ("M", "R"), ("R", "D"), ("S", "D"), ("T", "M")].map(|(a, b)| link(a, b)).concat();
    let text = format!(
        "duration = \"1 s\"\n{links}{}[[middlebox]]\nnode = \"M\"\ndoes = {{ kind = \"nat\" }}\n",
        flow("S", "D") + &flow("T", "D")
    );
    assert_eq!(with(&text, &[]).unwrap().middleboxes[0].from, [0, 4]);
    let both = with(&(text + &flow("D", "S") + &flow("D", "T")), &[]).unwrap_err().to_string();
    assert!(both.ends_with("is a nat; name the links of its inside: from = [..]"), "{both}");
}

#[test]
fn routers_forward_and_hosts_do_not() {
    let links = |list: &[(&str, &str)]| {
        let link =
            |(a, b): &(&str, &str)| format!("[[link]]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"1 Mbit/s\"\n");
        list.iter().map(link).collect::<String>()
    };
    let flow =
        |from: &str, to: &str| format!("[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nprotocol = \"tcp\"\n");
    let head = "duration = \"1 s\"\n";
    let reaches = |text: String| with(&format!("{head}{text}"), &[]).is_ok();
    assert!(reaches(links(&[("a", "r"), ("r", "s"), ("s", "b")]) + &flow("a", "b")));
    assert!(!reaches(links(&[("a", "h"), ("h", "b")]) + &flow("a", "b") + &flow("a", "h")));
    assert!(reaches(links(&[("a", "h"), ("h", "b"), ("a", "b")]) + &flow("a", "b") + &flow("a", "h")));
}

#[test]
fn large_scenarios_are_parsed() {
    let head =
        "duration = \"1 s\"\n[link_defaults]\nrate = \"1 Gbit/s\"\n[[link]]\nbetween = [\"l\", \"r\"]\n";
    let pair = |host: usize| {
        format!(
            "[[link]]\nbetween = [\"s{host}\", \"l\"]\n[[link]]\nbetween = [\"r\", \"d{host}\"]\n\
             [[flow]]\nfrom = \"s{host}\"\nto = \"d{host}\"\nprotocol = \"tcp\"\n"
        )
    };
    let text: Vec<_> = std::iter::once(head.to_owned()).chain((0..5_000).map(pair)).collect();
    let text = text.concat();
    let scenario = with(&text, &[]).unwrap();
    assert_eq!((scenario.links.len(), scenario.flows.len()), (10_001, 5_000));
}

/// Every kind of queue and loss model, each with its defaults or the examples of its table.
#[test]
fn every_queue_and_loss_model_can_be_written() {
    use anabranch_netem::keys::{Default, Kind};
    let table = |tag: &str, kind: &Kind| {
        let required = kind.keys.iter().filter_map(|key| match key.default {
            Default::Required(example) => Some(format!(", {} = {example}", key.name)),
            Default::Is(_) => None,
        });
        format!("{{ {tag} = \"{}\"{} }}", kind.name, required.collect::<String>())
    };
    for kind in anabranch_netem::queue::KINDS {
        let scenario = with(BASE, &[("link.core.queue", &table("kind", kind))]).unwrap();
        let link = scenario.links.iter().find(|link| link.name == "core").unwrap();
        assert_eq!(link.forward.queue.kind().name, kind.name);
        assert_eq!(parse(&to_toml(&scenario), "again.toml", &[]).as_ref(), Ok(&scenario));
    }
    for kind in anabranch_netem::loss::KINDS {
        let sets = [("link.core.loss".to_owned(), table("model", kind))];
        let scenario = parse_with(BASE, "s.toml", &sets, &files).unwrap();
        let link = scenario.links.iter().find(|link| link.name == "core").unwrap();
        assert_eq!(link.forward.loss.kind().name, kind.name);
        assert_eq!(parse_with(&to_toml(&scenario), "again.toml", &[], &files).as_ref(), Ok(&scenario));
    }
}

#[test]
fn defaults_before_inherited_values_are_written() {
    let files = |path: &Path| match path.extension().and_then(|end| end.to_str()) {
        Some("csv") => Ok("0,8e6\n1,0\n".to_owned()),
        _ => Ok("1\n3\n".to_owned()),
    };
    let rate = r#"{ trace = "a.csv", format = "rate" }"#;
    let reverse = r#"{ rate = { trace = "b.mahi", format = "mahimahi" }, queue = { gentle = false } }"#;
    let sets = [
        ("link.core.rate", rate),
        ("link.core.queue", r#"{ kind = "red", gentle = true }"#),
        ("link.core.reverse", reverse),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let events = "\n[[event]]\nat = \"1 s\"\nlink = \"core\"\nset = { queue = { gentle = true } }\n\
                  [[event]]\nat = \"2 s\"\nlink = \"core\"\nset = { queue = { gentle = false } }\n";
    let scenario = parse_with(&format!("{BASE}{events}"), "s.toml", &sets, &files).unwrap();
    assert_eq!(parse_with(&to_toml(&scenario), "again.toml", &[], &files).as_ref(), Ok(&scenario));
}

#[test]
fn random_starts_and_offsets_are_parsed() {
    let text =
        EVERYTHING.replace("start = \"0.25 s\"", "start = { uniform = [\"0.25 s\", \"2 s\"] }").replace(
            "{ trace = \"lte.mahi\" }",
            "{ trace = \"lte.mahi\", offset = { uniform = [\"1 s\", \"9 s\"] } }",
        );
    let files = |path: &Path| files(path).map(|text| text.replace("0\n1\n1\n7\n", "1\n3\n"));
    let scenario = parse_with(&text, "scenario.toml", &[], &files).unwrap();
    let flow = &scenario.flows[0];
    assert_eq!((flow.start, flow.start_spread), (Time::from_secs_f64(0.25), Duration::from_millis(1750)));
    let LinkRate::Trace { offset, offset_spread, .. } = &scenario.links[1].forward.rate else {
        panic!("the link follows a trace")
    };
    assert_eq!((*offset, *offset_spread), (Duration::from_secs(1), Duration::from_secs(8)));
    let again = parse_with(&to_toml(&scenario), "scenario.toml", &[], &files).unwrap();
    assert_eq!(again, scenario, "the canonical form round-trips");
}

#[test]
fn event_cannot_change_the_rate_of_a_trace() {
    let event = |direction: &str| {
        format!(
            "{EVERYTHING}\n[[event]]\nat = \"5 s\"\nlink = \"A-R-2\"\n{direction}\nset = {{ rate = \"1 Mbit/s\" }}\n"
        )
    };
    let error = parse_with(&event(""), "scenario.toml", &[], &files).unwrap_err();
    assert!(error.message.contains("sets the rate of link \"A-R-2\", which follows a trace"), "{error}");
    let one_way = event("direction = \"reverse\"").replace(
        "rate = { trace = \"lte.mahi\" }",
        "rate = { trace = \"lte.mahi\" }\nreverse = { rate = \"2 Mbit/s\" }",
    );
    assert!(parse_with(&one_way, "scenario.toml", &[], &files).is_ok(), "the other direction has a rate");
}

#[test]
fn outage_spans_first_down_to_last_up() {
    let event = |at: &str, link: &str, state: &str| {
        format!("\n[[event]]\nat = \"{at}\"\nlink = \"{link}\"\nset = {{ state = \"{state}\" }}\n")
    };
    let outage = |events: &[String]| {
        // In the base scenario "wifi" goes down at 20 s.
        with(&format!("{BASE}{}", events.concat()), &[]).unwrap().outage()
    };
    let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
    assert_eq!(outage(&[]), None, "the link stays down");
    assert_eq!(outage(&[event("10 s", "core", "up")]), None, "the event precedes the outage");
    let events = [event("25 s", "wifi", "up"), event("22 s", "core", "down"), event("30 s", "core", "up")];
    let found = outage(&events).unwrap();
    assert_eq!((found.down, found.up), (at(20), at(30)));
}

#[test]
fn flow_through_a_proxy_has_two_connections() {
    let link = "\n[[link]]\nname = \"far\"\nbetween = [\"router\", \"P\"]\nrate = \"1 Mbit/s\"\n";
    let scenario = with(&format!("{BASE}{link}"), &[("flow.download.through", "P")]).unwrap();
    assert_eq!(scenario.flows[0].meets(), "P");
    assert_eq!(scenario.connections(), [["server", "P"], ["phone", "server"], ["P", "phone"]]);
}

#[test]
fn recordings_of_rate_delay_and_loss_are_parsed() {
    let scenario = super::everything();
    let [_, _, third, fourth, _] = scenario.links.as_slice() else { panic!("five links") };
    let LinkRate::Trace { content: RateTrace::Rates(rates), offset, .. } = &third.forward.rate else {
        panic!("{third:?}")
    };
    let seconds = |value| Duration::from_millis(value);
    assert_eq!((rates.file(), *offset), ("rates.csv", seconds(250)));
    assert_eq!(rates.points(), [(seconds(0), 0.25), (seconds(500), 1.0), (seconds(2000), 0.0)]);
    let LinkDelay::Trace { series, linear: true } = &fourth.forward.delay else { panic!("{fourth:?}") };
    assert_eq!((series.points()[1].1, fourth.forward.delay.min()), (1e6, Duration::ZERO));
    let Loss::Trace(loss) = &fourth.forward.loss else { panic!("{fourth:?}") };
    assert_eq!(loss.series.steps().collect::<Vec<_>>(), [0.25, 1.0]);
    let Loss::List(list) = &fourth.reverse.loss else { panic!("{fourth:?}") };
    assert_eq!((list.packets.as_ref(), list.data_only), ([1, 7].as_slice(), true));
    assert_eq!((fourth.forward.duplicate, fourth.reverse.duplicate), (0.01, 0.0));
}

#[test]
fn event_cannot_change_the_delay_of_a_trace() {
    let event = "\n[[event]]\nat = \"5 s\"\nlink = \"R-P\"\nset = { delay = \"1 ms\" }\n";
    let error = parse_with(&format!("{EVERYTHING}{event}"), "scenario.toml", &[], &files).unwrap_err();
    assert!(error.message.contains("sets the delay of link \"R-P\", which follows a trace"), "{error}");
    let one_way = event.replace("set", "direction = \"reverse\"\nset");
    assert!(parse_with(&format!("{EVERYTHING}{one_way}"), "scenario.toml", &[], &files).is_ok());
}

#[test]
fn event_may_set_a_rate_of_zero() {
    let event = "\n[[event]]\nat = \"5 s\"\nlink = \"wifi\"\nset = { rate = \"0 Mbit/s\" }\n";
    let scenario = with(&format!("{BASE}{event}"), &[]).unwrap();
    assert_eq!(of_link(&scenario.events[0]).changes, [Change::Rate(Rate::from_bits_per_second(0))]);
    assert_eq!(parse(&to_toml(&scenario), "again.toml", &[]).as_ref(), Ok(&scenario));
}

/// Hosts a and b at routers R1 and R2, which two links and a third router connect.
const ROUTED: &str = "duration = \"1 s\"\n[link_defaults]\nrate = \"1 Mbit/s\"\n\
    [[link]]\nname = \"a\"\nbetween = [\"A\", \"R1\"]\n[[link]]\nname = \"b\"\nbetween = [\"R2\", \"B\"]\n\
    [[link]]\nname = \"p\"\nbetween = [\"R1\", \"R2\"]\n[[link]]\nname = \"q\"\nbetween = [\"R1\", \"R2\"]\n\
    [[link]]\nname = \"x\"\nbetween = [\"R1\", \"R3\"]\n[[link]]\nname = \"y\"\nbetween = [\"R3\", \"R2\"]\n\
    [[flow]]\nfrom = \"A\"\nto = \"B\"\nprotocol = \"tcp\"\n";

#[test]
fn routers_are_parsed_and_round_trip() {
    let router = "[[router]]\nname = \"R1\"\necmp = false\nroutes = [[\"b\", \"x\"], [\"a\", \"a\"]]\n\
                  [[router]]\nname = \"R2\"\ndefault_route = \"q\"\nnetwork_control = true\n";
    let scenario = with(&format!("{ROUTED}{router}"), &[("ecmp", "false")]).unwrap();
    let routes = vec![Route { to: 1, by: 4 }, Route { to: 0, by: 0 }];
    let first = Router {
        name: "R1".into(),
        ecmp: Some(false),
        default_route: None,
        routes,
        network_control: false,
        source_routes: SourceRoutes::Drop,
    };
    let second = Router {
        name: "R2".into(),
        ecmp: None,
        default_route: Some(3),
        routes: Vec::new(),
        network_control: true,
        source_routes: SourceRoutes::Drop,
    };
    assert_eq!((scenario.ecmp, scenario.routers.as_slice()), (false, [first, second].as_slice()));
    assert_eq!(parse(&to_toml(&scenario), "again.toml", &[]).as_ref(), Ok(&scenario));
    assert!(with(ROUTED, &[]).unwrap().ecmp, "routers choose by default");
    assert!(!to_toml(&with(ROUTED, &[]).unwrap()).contains("ecmp"));
}

#[test]
fn wrong_routers_are_refused() {
    for (router, expected) in [
        (
            "name = \"A\"",
            "name of [[router]] number 1 is \"A\", a node at the end of a flow, which does not forward; name a router, or use [[host]]",
        ),
        (
            "name = \"R4\"",
            "name of [[router]] number 1 is \"R4\", which no link leads to; did you mean \"R1\"?",
        ),
        (
            "name = \"R3\"\nroutes = [[\"b\", \"q\"]]",
            "routes of router \"R3\" is \"q\", which is not a link of \"R3\"; name one of its links",
        ),
        ("name = \"R3\"\ndefault_route = \"z\"", "default_route of router \"R3\": there is no link \"z\""),
        (
            "name = \"R1\"\nnetwork_control = 1",
            "network_control of [[router]] number 1 is the number 1; write true or false",
        ),
        (
            "name = \"R1\"\nroutes = [[\"p\", \"q\"]]",
            "routes of router \"R1\" lead to \"p\", where no host is; name a link of a host",
        ),
        (
            "name = \"R1\"\nroutes = [[\"b\", \"a\"]]",
            "routes of router \"R1\" leads over \"a\" to \"A\", a node at the end of a flow, which does not forward",
        ),
        (
            "name = \"R1\"\nroutes = [[\"b\", \"p\"], [\"b\", \"q\"]]",
            "routes of router \"R1\" contain \"b\" twice; keep one of them",
        ),
        (
            "name = \"R1\"\ndefault_route = \"x\"\n[[router]]\nname = \"R3\"\nroutes = [[\"b\", \"x\"]]",
            "the routes to the addresses of link \"b\" lead in a circle through \"R1\", \"R3\"; correct the routes of one of them",
        ),
    ] {
        let error = with(&format!("{ROUTED}[[router]]\n{router}\n"), &[]).unwrap_err();
        assert!(error.line.is_some(), "{error}");
        let message = error.message;
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn network_control_is_parsed_and_round_trips() {
    let cmt = ROUTED.replace("\"tcp\"", "\"cmt-sctp\"");
    let keys = "scheduler = \"nca\"\ninformation = \"chunk\"\nnetwork_control = \"200 ms\"\n";
    let scenario = with(&format!("{cmt}{keys}"), &[]).unwrap();
    let Protocol::Sctp(config) = &scenario.flows[0].protocol else { panic!("an association") };
    assert_eq!(config.network_control, Some(Duration::from_millis(200)));
    assert_eq!(config.information, Information::Chunk);
    assert_eq!(parse(&to_toml(&scenario), "again.toml", &[]).as_ref(), Ok(&scenario));
    let of = |value: &str| {
        let scenario = with(&format!("{cmt}network_control = {value}\n"), &[]).unwrap();
        let Protocol::Sctp(config) = &scenario.flows[0].protocol else { panic!("an association") };
        config.network_control
    };
    assert_eq!((of("true"), of("false")), (Some(Duration::from_secs(1)), None));
    assert!(!to_toml(&with(&cmt, &[]).unwrap()).contains("network_control"));
    let mptcp = ROUTED.replace("\"tcp\"", "\"mptcp\"");
    let scenario = with(&format!("{mptcp}network_control = \"200 ms\"\n"), &[]).unwrap();
    let Protocol::Mptcp(config) = &scenario.flows[0].protocol else { panic!("a connection") };
    assert_eq!(config.network_control, Some(Duration::from_millis(200)));
    assert_eq!(parse(&to_toml(&scenario), "again.toml", &[]).as_ref(), Ok(&scenario));
}

#[test]
fn wrong_network_control_is_refused() {
    for (protocol, keys, expected) in [
        (
            "cmt-sctp",
            "network_control = \"0 s\"",
            "network_control of flow \"A-B\" is \"0 s\", but must be greater than 0; write for example \"20 ms\"",
        ),
        (
            "mptcp",
            "network_control = \"0 s\"",
            "network_control of flow \"A-B\" is \"0 s\", but must be greater than 0; write for example \"20 ms\"",
        ),
        (
            "tcp",
            "network_control = true",
            "flow \"A-B\" is tcp, which does not take \"network_control\"; only mptcp, cmt-sctp flows do",
        ),
        (
            "sctp",
            "network_control = true",
            "flow \"A-B\" is sctp, which does not take \"network_control\"; only mptcp, cmt-sctp flows do",
        ),
        (
            "mptcp",
            "information = \"chunk\"",
            "flow \"A-B\" is mptcp, which does not take \"information\"; only cmt-sctp flows do",
        ),
        (
            "cmt-sctp",
            "information = \"chunks\"",
            "information of flow \"A-B\" is \"chunks\"; did you mean \"chunk\"?",
        ),
        (
            "cmt-sctp",
            "information = \"chunk\"",
            "information of flow \"A-B\" is \"chunk\", which needs network_control; set network_control = \"1 s\", or write \"scenario\"",
        ),
    ] {
        let text = ROUTED.replace("\"tcp\"", &format!("\"{protocol}\""));
        let error = with(&format!("{text}{keys}\n"), &[]).unwrap_err();
        assert!(error.line.is_some(), "{error}");
        assert_eq!(error.message, expected);
    }
}

/// The queues of the events of a link with `queue`, each with its time in seconds and its direction.
fn queues_of_events(queue: &str, events: &[(&str, &str)]) -> Vec<(f64, Directions, String)> {
    let mut text = format!(
        "duration = \"10 s\"\n[[link]]\nname = \"L\"\nbetween = [\"A\", \"B\"]\nrate = \"1 Mbit/s\"\nqueue = {queue}\n\
         reverse = {{ queue = {{ limit = \"30 packets\" }} }}\n\
         [[flow]]\nfrom = \"A\"\nto = \"B\"\nprotocol = \"tcp\"\n"
    );
    for (at, rest) in events {
        writeln!(text, "[[event]]\nat = \"{at}\"\nlink = \"L\"\n{rest}").expect("a string takes any text");
    }
    let scenario = with(&text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(with(&to_toml(&scenario), &[]).unwrap(), scenario);
    let queue = |event: &Event| match &of_link(event).changes[..] {
        [Change::Queue(queue)] => format!("{} {}", queue.kind().name, queue.limit()),
        other => panic!("{other:?}"),
    };
    scenario
        .events
        .iter()
        .map(|event| (event.at.as_secs_f64(), of_link(event).directions, queue(event)))
        .collect()
}

#[test]
fn new_queue_is_completed_from_the_present_one() {
    use Directions::{Both, Forward, Reverse};
    let found = queues_of_events(
        "{ kind = \"codel\", limit = \"50 packets\" }",
        &[
            // This event is later in the file, but earlier in time.
            ("3 s", "direction = \"forward\"\nset = { queue = { target = \"9 ms\" } }"),
            ("1 s", "set = { queue = { limit = \"20 packets\" } }"),
            ("2 s", "set = { queue = { kind = \"fifo\" } }\ndirection = \"reverse\""),
            ("4 s", "every = \"5 s\"\nset = { queue = { kind = \"fq-codel\", flows = 7 } }"),
            ("5 s", "set = { queue = { limit = \"70 packets\" } }\ndirection = \"reverse\""),
        ],
    );
    let expected = [
        (1.0, Both, "codel 20 packets"),
        (2.0, Reverse, "fifo 20 packets"),
        (3.0, Forward, "codel 20 packets"),
        // The target differs between the directions.
        (4.0, Forward, "fq-codel 20 packets"),
        (4.0, Reverse, "fq-codel 20 packets"),
        (5.0, Reverse, "fq-codel 70 packets"),
        (9.0, Forward, "fq-codel 20 packets"),
        (9.0, Reverse, "fq-codel 70 packets"),
    ];
    assert_eq!(found, expected.map(|(at, direction, queue)| (at, direction, queue.to_owned())));
}

#[test]
fn thresholds_of_a_new_limit_keep_their_share() {
    let text = "{ kind = \"red\", limit = \"100 packets\", min = \"20 packets\", max = 0.9 }";
    let found = queues_of_events(
        text,
        &[("1 s", "direction = \"forward\"\nset = { queue = { limit = \"40 packets\" } }")],
    );
    assert_eq!(found, [(1.0, Directions::Forward, "red 40 packets".to_owned())]);
}

#[test]
fn firewall_and_host_without_mptcp_round_trip() {
    let tables = "[[middlebox]]\nnode = \"router\"\nfrom = [\"wifi\"]\n\
                  does = { kind = \"firewall\", udp_timeout = \"30 s\", answer = \"icmp\", limit = 10 }\n\n\
                  [[host]]\nname = \"phone\"\nmptcp = false\n\n[[event]]\nat = \"9 s\"\nlink = \"wifi\"\n\
                  set = { reorder = { rate = 0, delay = \"1 ms\" } }\n\n[[event]]";
    let scenario = with(&BASE.replacen("[[event]]", tables, 1), &[]).unwrap();
    let settings = anabranch_middlebox::firewall::Settings {
        tcp_timeout: Duration::from_secs(7440),
        udp_timeout: Duration::from_secs(30),
        answer: anabranch_middlebox::firewall::Answer::Icmp,
        limit: 10,
    };
    assert_eq!(scenario.middleboxes[0].does, anabranch_middlebox::Settings::Firewall(settings));
    let host = Host {
        name: "phone".into(),
        default_route: None,
        routes: Vec::new(),
        policy_routing: true,
        gateways: Vec::new(),
        mptcp: false,
        cost: None,
    };
    assert_eq!(scenario.hosts, [host]);
    assert!(!scenario.has_mptcp("phone") && scenario.has_mptcp("server"));
    assert_eq!(parse(&to_toml(&scenario), "again.toml", &[]).as_ref(), Ok(&scenario));
    let defaults = with(&to_toml(&scenario).replace("mptcp = false", "mptcp = true"), &[]).unwrap();
    assert!(!to_toml(&defaults).contains("mptcp = "));
}

#[test]
fn cost_of_a_host_round_trips() {
    let host = |cost: &str| {
        let tables = format!("[[host]]\nname = \"phone\"\ncost = {cost}\n\n[[event]]");
        let scenario = with(&BASE.replacen("[[event]]", &tables, 1), &[]).unwrap();
        assert_eq!(parse(&to_toml(&scenario), "again.toml", &[]).as_ref(), Ok(&scenario));
        scenario.hosts[0].cost
    };
    let (packet, byte, gap) = (Duration::from_micros(5), Duration::ZERO, Duration::from_nanos(200));
    let cost = HostCost { packet, byte, gap, backlog: 1000 };
    assert_eq!(host("{ packet = \"5 us\", gap = \"0.2 us\" }"), Some(cost));
    let byte = Duration::from_nanos(8);
    assert_eq!(
        host("{ packet = \"5 us\", byte = \"8 ns\", gap = \"200 ns\", backlog = \"7 packets\" }"),
        Some(HostCost { byte, backlog: 7, ..cost })
    );
    // Packets that take no time need no processor.
    assert_eq!(host("{ packet = \"0 us\", backlog = \"1 packets\" }"), None);
    assert_eq!(host("{}"), None);
    let set = with(
        &BASE.replacen("[[event]]", "[[host]]\nname = \"phone\"\n\n[[event]]", 1),
        &[("host.phone.cost.gap", "1 us")],
    );
    assert_eq!(set.unwrap().hosts[0].cost.map(|cost| cost.gap), Some(Duration::from_micros(1)));
}

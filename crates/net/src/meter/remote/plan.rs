//! The plan of a test, which both ends get.

use super::options::FlowOptions;
use super::streams::StreamPlan;
use crate::meter::flow::{MAX_DATAGRAM_BYTES, Transport, applications, sizes};
use crate::meter::schedule::Schedule;
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_scenario::Scenario;
use anabranch_scenario::model::Protocol;
use anabranch_scenario::workload::Application;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The host of a plan's scenario that is the client.
pub const CLIENT: &str = "client";
/// The host of a plan's scenario that is the server.
pub const SERVER: &str = "server";

/// Message size of workloads without one, bytes.
const DEFAULT_MESSAGE_BYTES: u64 = 128 << 10;

/// Maximum duration of a test: a week.
const MAX_DURATION: Duration = Duration::from_secs(7 * 24 * 3600);

/// Maximum number of flows of a test.
const MAX_FLOWS: usize = 128;

/// Minimum sampling interval, seconds.
const MIN_INTERVAL_S: f64 = 0.01;

/// Maximum number of intervals of a test.
const MAX_INTERVALS: f64 = (1 << 20) as f64;

/// A test, as the client describes it to the server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Plan {
    /// A scenario with flows between the hosts `client` and `server`: protocols, workloads, directions,
    /// duration and warm-up. Its links are not used.
    pub scenario: String,
    /// Sampling interval, seconds.
    pub interval_s: f64,
    /// Keep the delay of every message.
    pub keep_delays: bool,
    /// All connections go to the control port; the client waits for the tests of others.
    #[serde(default)]
    pub single_port: bool,
    /// Options of the scenario's flows, in order; missing ones are the default.
    #[serde(default)]
    pub options: Vec<FlowOptions>,
}

/// A flow of a test.
#[derive(Clone, Debug)]
pub struct PlannedFlow {
    /// Name.
    pub name: String,
    /// Type of the flow's sockets.
    pub transport: Transport,
    /// The writing applications of client and server.
    pub applications: [Option<Application>; 2],
    /// Time at which the flow starts.
    pub start: Time,
    /// Number of the flow in the results.
    pub id: u32,
    /// Times at which the flow is on; `None` for always.
    pub schedule: Option<Schedule>,
    /// Options of the flow.
    pub options: FlowOptions,
    /// The stream of an SCTP flow.
    pub stream: Option<StreamPlan>,
}

/// A valid plan.
#[derive(Clone, Debug)]
pub struct Test {
    /// Flows, in order.
    pub flows: Vec<PlannedFlow>,
    /// Time at which measuring begins.
    pub warmup: Time,
    /// Time at which measuring ends.
    pub until: Time,
    /// Sampling interval.
    pub interval: Duration,
    /// All connections go to the control port.
    pub single_port: bool,
}

impl Plan {
    /// Checks the plan.
    ///
    /// # Errors
    ///
    /// If the plan is invalid; the text is a sentence.
    pub fn test(&self) -> Result<Test, String> {
        let nothing_from_disk = |_: &std::path::Path| Err("a test must not read files".to_owned());
        let scenario = anabranch_scenario::parse_with(&self.scenario, "the plan", &[], &nothing_from_disk)
            .map_err(|error| error.message)?;
        if scenario.duration > MAX_DURATION {
            return Err("a test takes at most a week; reduce its duration".to_owned());
        }
        if scenario.flows.len() > MAX_FLOWS {
            return Err(format!("a test has at most {MAX_FLOWS} flows; start a second test"));
        }
        if !(MIN_INTERVAL_S..=MAX_DURATION.as_secs_f64()).contains(&self.interval_s) {
            return Err(format!("the interval must be at least {MIN_INTERVAL_S} s; increase it"));
        }
        let intervals = scenario.duration.as_secs_f64() / self.interval_s;
        if intervals > MAX_INTERVALS {
            return Err(format!(
                "a test has at most {MAX_INTERVALS} intervals, but this one has {intervals:.0}; increase the interval"
            ));
        }
        let rng = Rng::new(scenario.seed);
        if self.options.len() > scenario.flows.len() {
            return Err("the plan has options for more flows than the test has".to_owned());
        }
        let mut flows: Vec<PlannedFlow> = Vec::new();
        for at in 0..scenario.flows.len() {
            let options = self.options.get(at).cloned().unwrap_or_default();
            let next = flow(&scenario, at, options, &rng)?;
            match flows.last_mut() {
                Some(before) if next.options.shares_connection => before.share(next)?,
                _ => flows.push(next),
            }
        }
        assign_ids(&mut flows)?;
        assign_streams(&mut flows)?;
        Ok(Test {
            flows,
            warmup: Time::ZERO + scenario.warmup,
            until: Time::ZERO + scenario.duration,
            interval: Duration::from_nanos((self.interval_s * 1e9) as u64),
            single_port: self.single_port,
        })
    }
}

impl Test {
    /// Indices of the flows in the order in which they connect: associations last, so that sockets of other UDP flows at
    /// the same port have their peers before.
    pub fn connection_order(&self) -> Vec<usize> {
        let mut order: Vec<_> = (0..self.flows.len()).collect();
        order.sort_by_key(|&at| self.flows[at].stream.is_some());
        order
    }
}

impl PlannedFlow {
    /// True if this flow, whose index is `at`, is the first one of its association.
    pub fn is_first_stream(&self, at: usize) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.first == at)
    }

    /// True if messages of this flow can be lost.
    pub fn is_lossy(&self) -> bool {
        self.transport == Transport::Udp || self.options.unreliable > 0.0
    }

    /// Lets the application of another flow write over this connection, in the other direction.
    fn share(&mut self, other: Self) -> Result<(), String> {
        if self.transport != other.transport {
            return Err(format!(
                "flow \"{}\": only two flows of one protocol can share a connection",
                self.name
            ));
        }
        for (own, shared) in self.applications.iter_mut().zip(other.applications) {
            if own.is_some() && shared.is_some() {
                return Err(format!(
                    "flow \"{}\": two flows that share a connection must have opposite directions",
                    self.name
                ));
            }
            *own = own.take().or(shared);
        }
        Ok(())
    }
}

/// Gives each flow the number of its options, or the least that is free.
fn assign_ids(flows: &mut [PlannedFlow]) -> Result<(), String> {
    let mut taken = std::collections::BTreeSet::new();
    for flow in flows.iter() {
        if let Some(id) = flow.options.id.filter(|&id| !taken.insert(id)) {
            return Err(format!("flow \"{}\": another flow has the id {id}, too", flow.name));
        }
    }
    let mut next = 0;
    for flow in flows {
        flow.id = flow.options.id.unwrap_or_else(|| {
            while !taken.insert(next) {
                next += 1;
            }
            next
        });
    }
    Ok(())
}

/// Makes flows with the same number the streams of one association, in their order; other SCTP flows have separate
/// associations.
///
/// # Errors
///
/// If the flows of an association have different options for it; the text is a sentence.
fn assign_streams(flows: &mut [PlannedFlow]) -> Result<(), String> {
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut first_of: BTreeMap<u32, usize> = BTreeMap::new();
    for (at, flow) in flows.iter().enumerate().filter(|(_, flow)| flow.stream.is_some()) {
        let first = flow.options.association.map_or(at, |number| *first_of.entry(number).or_insert(at));
        members.entry(first).or_default().push(at);
        if common_options(&flow.options) != common_options(&flows[first].options) {
            return Err(format!(
                "flow \"{}\": congestion control, buffers, nodelay and type of service must be those of flow \"{}\" in the \
                 same association",
                flow.name, flows[first].name
            ));
        }
    }
    for (first, members) in members {
        let streams = members.len() as u16;
        for (stream, at) in members.into_iter().enumerate() {
            if let Some(plan) = &mut flows[at].stream {
                (plan.first, plan.stream, plan.config.streams) = (first, stream as u16, streams);
            }
        }
    }
    Ok(())
}

/// The options that apply to a whole association.
fn common_options(options: &FlowOptions) -> impl PartialEq + '_ {
    (
        options.congestion.as_deref(),
        (options.send_buffer, options.receive_buffer),
        options.nagle,
        options.type_of_service,
    )
}

fn flow(scenario: &Scenario, at: usize, options: FlowOptions, rng: &Rng) -> Result<PlannedFlow, String> {
    let declared = &scenario.flows[at];
    let ends = [declared.from.as_str(), declared.to.as_str()];
    if ends != [CLIENT, SERVER] && ends != [SERVER, CLIENT] {
        return Err(format!(
            "flow \"{}\" is from {} to {}, but a test is between {CLIENT} and {SERVER}",
            declared.name, ends[0], ends[1]
        ));
    }
    if let Some(proxy) = &declared.through {
        return Err(format!(
            "flow \"{}\" uses the proxy {proxy}, but a test is between {CLIENT} and {SERVER}; remove \"through\"",
            declared.name
        ));
    }
    if declared.workload.arrivals().is_some() {
        return Err(format!(
            "flow \"{}\" has arrivals, but a test has one connection; remove them",
            declared.name
        ));
    }
    let transport = match &declared.protocol {
        Protocol::Tcp(_) => Transport::Tcp,
        Protocol::Mptcp(_) => Transport::Mptcp,
        Protocol::Sctp(_) => Transport::Sctp,
        Protocol::Udp => Transport::Udp,
    };
    let longest = sizes(&declared.workload).1.min(options.max_message.unwrap_or(u64::MAX));
    if transport == Transport::Udp && longest > MAX_DATAGRAM_BYTES {
        return Err(format!(
            "flow \"{}\": a datagram has at most {MAX_DATAGRAM_BYTES} bytes; shorten the messages",
            declared.name
        ));
    }
    let named = |reason: String| format!("flow \"{}\": {reason}", declared.name);
    let schedule = options.check(transport).map_err(named)?;
    let rng = rng.fork(&format!("flow.{}", declared.name));
    let stream = match &declared.protocol {
        Protocol::Sctp(config) => Some(StreamPlan::new(config, &options, &rng).map_err(named)?),
        _ => None,
    };
    // An association has to have room for further messages while one is sent.
    let room = stream.as_ref().map_or(u64::MAX, |stream| stream.config.send_buffer / 4);
    let mut applications = applications(declared, &rng, Some(DEFAULT_MESSAGE_BYTES.min(room)));
    if ends[0] == SERVER {
        applications.reverse();
    }
    Ok(PlannedFlow {
        name: options.description.clone().unwrap_or_else(|| declared.name.clone()),
        transport,
        applications,
        start: declared.drawn_start(&rng),
        id: 0,
        schedule,
        options,
        stream,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::remote::options::OnOff;

    fn plan(flow: &str) -> Plan {
        let scenario = format!(
            "title = \"test\"\nduration = \"2 s\"\n[[link]]\nbetween = [\"client\", \"server\"]\nrate = \"1 Gbit/s\"\n\
             [[flow]]\n{flow}\n"
        );
        Plan { scenario, interval_s: 1.0, ..Plan::default() }
    }

    fn plan_error(flow: &str) -> String {
        plan(flow).test().expect_err(flow)
    }

    #[test]
    fn from_and_direction_determine_the_writers() {
        let saturated = "protocol = \"tcp\"\nworkload = { kind = \"saturated\" }";
        for (ends, writes) in [
            ("from = \"client\"\nto = \"server\"", [true, false]),
            ("from = \"server\"\nto = \"client\"", [false, true]),
            ("from = \"client\"\nto = \"server\"\ndirection = \"reverse\"", [false, true]),
            ("from = \"client\"\nto = \"server\"\ndirection = \"both\"", [true, true]),
        ] {
            let test = plan(&format!("{ends}\n{saturated}")).test().unwrap();
            let [flow] = test.flows.as_slice() else { panic!("one flow") };
            assert_eq!(flow.applications.each_ref().map(Option::is_some), writes, "{ends}");
            assert_eq!(test.until, Time::ZERO + Duration::from_secs(2));
        }
    }

    #[test]
    fn errors_of_plans_are_one_sentence() {
        let ends = "from = \"client\"\nto = \"server\"\n";
        let rate = "workload = { kind = \"rate\", rate = \"1 Mbit/s\", message = \"70 kB\" }";
        assert!(plan_error(&format!("{ends}protocol = \"udp\"\n{rate}")).contains("a datagram has at most"));
        let other =
            "from = \"client\"\nto = \"proxy\"\nprotocol = \"tcp\"\nworkload = { kind = \"saturated\" }";
        assert!(plan_error(other).contains("proxy"));
        let long = Plan {
            interval_s: 0.0,
            ..plan(&format!("{ends}protocol = \"tcp\"\nworkload = {{ kind = \"saturated\" }}"))
        };
        assert!(long.test().expect_err("no interval").contains("interval"));
        let mut many = plan(&format!("{ends}protocol = \"tcp\"\nworkload = {{ kind = \"saturated\" }}"));
        many.scenario = many.scenario.replace("2 s", "518400 s");
        many.interval_s = 0.01;
        assert!(many.test().expect_err("51,840,000 intervals").contains("at most 1048576 intervals"));
    }

    #[test]
    fn associations_are_planned_like_connections() {
        let ends = "from = \"client\"\nto = \"server\"\nworkload = { kind = \"saturated\" }\n";
        let flow = |protocol: &str| {
            plan(&format!("{ends}protocol = \"{protocol}\"")).test().unwrap().flows.remove(0)
        };
        let (sctp, tcp) = (flow("sctp"), flow("tcp"));
        assert_eq!((sctp.transport, sctp.transport.name()), (Transport::Sctp, "sctp"));
        assert_eq!(
            sctp.applications.each_ref().map(Option::is_some),
            tcp.applications.each_ref().map(Option::is_some)
        );
        assert_eq!(sctp.start, tcp.start);
    }

    const SATURATED: &str = "protocol = \"tcp\"\nworkload = { kind = \"saturated\" }\n";

    fn both(options: Vec<FlowOptions>) -> Result<Test, String> {
        let ends = "from = \"client\"\nto = \"server\"\n";
        let flows =
            format!("{ends}{SATURATED}[[flow]]\nname = \"back\"\n{ends}direction = \"reverse\"\n{SATURATED}");
        Plan { options, ..plan(&flows) }.test()
    }

    #[test]
    fn flows_share_a_connection_in_both_directions() {
        let shared = FlowOptions { shares_connection: true, ..FlowOptions::default() };
        let flows = both(vec![FlowOptions::default(), shared.clone()]).unwrap().flows;
        let [flow] = flows.as_slice() else { panic!("one connection") };
        assert!(flow.applications.iter().all(Option::is_some));
        let ends = "from = \"client\"\nto = \"server\"\n";
        let same = plan(&format!("{ends}{SATURATED}[[flow]]\nname = \"second\"\n{ends}{SATURATED}"));
        let same = Plan { options: vec![FlowOptions::default(), shared], ..same };
        assert!(
            same.test()
                .unwrap_err()
                .contains("two flows that share a connection must have opposite directions")
        );
    }

    #[test]
    fn ids_are_unique_and_default_to_free_numbers() {
        let with = |id| FlowOptions { id, ..FlowOptions::default() };
        let ids =
            |options| both(options).map(|test| test.flows.iter().map(|flow| flow.id).collect::<Vec<_>>());
        assert_eq!(ids(vec![with(None), with(Some(0))]), Ok(vec![1, 0]));
        assert_eq!(ids(vec![]), Ok(vec![0, 1]));
        assert!(ids(vec![with(Some(7)), with(Some(7))]).unwrap_err().contains("the id 7, too"));
    }

    #[test]
    fn options_foreign_to_the_protocol_are_refused() {
        let rate = "workload = { kind = \"rate\", rate = \"1 Mbit/s\", message = \"70 kB\" }";
        let udp = plan(&format!("from = \"client\"\nto = \"server\"\nprotocol = \"udp\"\n{rate}"));
        let error = |options: FlowOptions| Plan { options: vec![options], ..udp.clone() }.test();
        let split = FlowOptions { max_message: Some(1400), ..FlowOptions::default() };
        assert!(error(split).is_ok(), "datagrams of 1,400 B carry messages of 70 kB");
        let mss = FlowOptions { mss: Some(1000), max_message: Some(1400), ..FlowOptions::default() };
        assert!(error(mss).unwrap_err().contains("a maximum segment size is an option of tcp and mptcp"));
        let on_off = OnOff { times_s: vec![3.0, 1.0], repeats: false };
        let back = FlowOptions { on_off: Some(on_off), max_message: Some(9), ..FlowOptions::default() };
        assert!(error(back).unwrap_err().contains("must ascend"));
    }
}

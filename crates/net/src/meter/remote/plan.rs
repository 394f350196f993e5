//! What a test does, in the words that both ends get.

use crate::meter::flow::{LONGEST_DATAGRAM, Transport, applications, sizes};
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_scenario::Scenario;
use anabranch_scenario::model::{Directions, Protocol};
use anabranch_scenario::workload::Application;
use serde::{Deserialize, Serialize};

/// The host of a plan's scenario that asks for the test.
pub const CLIENT: &str = "client";
/// The host of a plan's scenario that is asked.
pub const SERVER: &str = "server";

/// Messages of workloads that do not say a size, bytes.
const WHOLE: u64 = 128 << 10;

/// The longest test, a week.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// The most flows of a test.
const MOST_FLOWS: usize = 128;

/// The shortest interval between two looks.
const SHORTEST_INTERVAL: f64 = 0.01;

/// A test, as the client tells the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// A scenario whose flows lie between the hosts `client` and `server`: protocols, workloads, directions, duration and
    /// warm-up. Of its links nothing is used.
    pub scenario: String,
    /// Congestion control of all connections; `None` leaves it to the kernels.
    pub congestion: Option<String>,
    /// Socket buffers, bytes; `None` leaves them to the kernels.
    pub buffer: Option<u64>,
    /// Collect small segments (Nagle's algorithm).
    pub nagle: bool,
    /// Time between two looks, seconds.
    pub interval_s: f64,
    /// Keep the delay of every message.
    pub keep_delays: bool,
}

/// A flow of a test.
#[derive(Clone, Debug)]
pub struct PlannedFlow {
    /// Name.
    pub name: String,
    /// Which sockets.
    pub transport: Transport,
    /// What the client and what the server writes.
    pub applications: [Option<Application>; 2],
    /// When it starts.
    pub start: Time,
}

/// A plan that can be carried out.
#[derive(Clone, Debug)]
pub struct Test {
    /// Flows, in order.
    pub flows: Vec<PlannedFlow>,
    /// When measuring begins.
    pub warmup: Time,
    /// When it ends.
    pub until: Time,
    /// Time between two looks.
    pub interval: Duration,
}

impl Plan {
    /// What is to be done.
    ///
    /// # Errors
    /// What is wrong with it: a sentence.
    pub fn test(&self) -> Result<Test, String> {
        let nothing_from_disk = |_: &std::path::Path| Err("a test reads no files".to_owned());
        let scenario = anabranch_scenario::parse_with(&self.scenario, "the plan", &[], &nothing_from_disk)
            .map_err(|error| error.message)?;
        if scenario.duration > LONGEST {
            return Err("a test takes a week at most; make it shorter".to_owned());
        }
        if scenario.flows.len() > MOST_FLOWS {
            return Err(format!("a test has at most {MOST_FLOWS} flows; start another one beside it"));
        }
        if !(SHORTEST_INTERVAL..=LONGEST.as_secs_f64()).contains(&self.interval_s) {
            return Err(format!("the interval is from {SHORTEST_INTERVAL} s on; make it longer"));
        }
        let rng = Rng::new(scenario.seed);
        let flows: Result<_, String> =
            (0..scenario.flows.len()).map(|at| flow(&scenario, at, &rng)).collect();
        Ok(Test {
            flows: flows?,
            warmup: Time::ZERO + scenario.warmup,
            until: Time::ZERO + scenario.duration,
            interval: Duration::from_nanos((self.interval_s * 1e9) as u64),
        })
    }
}

fn flow(scenario: &Scenario, at: usize, rng: &Rng) -> Result<PlannedFlow, String> {
    let declared = &scenario.flows[at];
    let ends = [declared.from.as_str(), declared.to.as_str()];
    if ends != [CLIENT, SERVER] && ends != [SERVER, CLIENT] {
        return Err(format!(
            "flow \"{}\" goes from {} to {}, but a test is between {CLIENT} and {SERVER}",
            declared.name, ends[0], ends[1]
        ));
    }
    if let Some(proxy) = &declared.through {
        return Err(format!(
            "flow \"{}\" goes through {proxy}, but a test is between {CLIENT} and {SERVER}; leave \"through\" out",
            declared.name
        ));
    }
    let transport = match &declared.protocol {
        Protocol::Tcp(_) => Transport::Tcp,
        Protocol::Mptcp { .. } => Transport::Mptcp,
        Protocol::Sctp(_) => Transport::Sctp,
        Protocol::Udp => Transport::Udp,
    };
    if transport == Transport::Udp && sizes(&declared.workload).1 > LONGEST_DATAGRAM {
        return Err(format!(
            "flow \"{}\": no datagram is longer than {LONGEST_DATAGRAM} bytes; make the messages shorter",
            declared.name
        ));
    }
    if transport == Transport::Sctp && declared.direction == Directions::Both {
        return Err(format!(
            "flow \"{}\": an association that one end closes is closed for both; take two flows",
            declared.name
        ));
    }
    let rng = rng.fork(&format!("flow.{}", declared.name));
    let mut applications = applications(declared, &rng, Some(WHOLE));
    if ends[0] == SERVER {
        applications.reverse();
    }
    Ok(PlannedFlow {
        name: declared.name.clone(),
        transport,
        applications,
        start: declared.drawn_start(&rng),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(flow: &str) -> Plan {
        let scenario = format!(
            "title = \"test\"\nduration = \"2 s\"\n[[link]]\nbetween = [\"client\", \"server\"]\nrate = \"1 Gbit/s\"\n\
             [[flow]]\n{flow}\n"
        );
        Plan { scenario, congestion: None, buffer: None, nagle: false, interval_s: 1.0, keep_delays: false }
    }

    fn refused(flow: &str) -> String {
        plan(flow).test().expect_err(flow)
    }

    #[test]
    fn the_host_that_writes_decides_who_writes() {
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
    fn what_no_test_can_do_is_one_sentence() {
        let ends = "from = \"client\"\nto = \"server\"\n";
        let rate = "workload = { kind = \"rate\", rate = \"1 Mbit/s\", message = \"70 kB\" }";
        assert!(refused(&format!("{ends}protocol = \"udp\"\n{rate}")).contains("no datagram is longer"));
        let other =
            "from = \"client\"\nto = \"proxy\"\nprotocol = \"tcp\"\nworkload = { kind = \"saturated\" }";
        assert!(refused(other).contains("proxy"));
        let long = Plan {
            interval_s: 0.0,
            ..plan(&format!("{ends}protocol = \"tcp\"\nworkload = {{ kind = \"saturated\" }}"))
        };
        assert!(long.test().expect_err("no interval").contains("interval"));
        let mutual = "direction = \"both\"\nworkload = { kind = \"saturated\" }";
        assert!(refused(&format!("{ends}protocol = \"sctp\"\n{mutual}")).contains("take two flows"));
    }

    #[test]
    fn an_association_is_planned_as_a_connection_is() {
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
}

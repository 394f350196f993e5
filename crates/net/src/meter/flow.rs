//! A flow of a scenario as sockets see it.

use core::fmt;
use core::net::SocketAddr;
use multipath::rng::Rng;
use multipath::time::Time;
use netem::Network;
use scenario::Scenario;
use scenario::model::{self, Directions, MessageSize, Protocol, Workload};
use scenario::workload::Application;

/// The first flow's port; each has one of its own, by which the kernel's connections are told apart.
const FIRST_PORT: u16 = 5001;

/// Longest UDP payload in IPv4, bytes.
const LONGEST_DATAGRAM: u64 = 65_507;

/// Bytes of a datagram that say which it is and when it was made.
pub const DATAGRAM_HEADER: usize = 16;

/// A flow that cannot be run on sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowError {
    /// Name of the flow.
    pub flow: String,
    /// What is wrong, in one sentence.
    pub reason: String,
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flow \"{}\": {}", self.flow, self.reason)
    }
}

impl core::error::Error for FlowError {}

/// Which sockets a flow uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// Multipath TCP.
    Mptcp,
    /// UDP.
    Udp,
}

/// A flow.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Which sockets.
    pub transport: Transport,
    /// Where it comes from; the port is any.
    pub local: SocketAddr,
    /// Where it goes.
    pub remote: SocketAddr,
    /// The name of the congestion control in the kernel.
    pub congestion: &'static str,
    /// Bytes; `None` leaves it to the kernel.
    pub send_buffer: Option<usize>,
    /// Bytes; `None` leaves it to the kernel.
    pub receive_buffer: Option<usize>,
    /// Send small segments at once.
    pub no_delay: bool,
    /// When it starts.
    pub start: Time,
    /// What writes.
    pub application: Application,
}

/// The flows of a scenario.
///
/// # Errors
/// Which of them no socket can carry, and why.
pub fn flows(scenario: &Scenario, network: &mut Network, seed: u64) -> Result<Vec<Flow>, FlowError> {
    let rng = Rng::new(seed);
    let most = usize::from(u16::MAX - FIRST_PORT);
    let flow = |(index, declared): (usize, &model::Flow)| {
        let failed = |reason: String| FlowError { flow: declared.name.clone(), reason };
        if index >= most {
            return Err(failed(format!("a kernel's run has at most {most} flows")));
        }
        let transport = transport(declared).map_err(failed)?;
        let (from, to) =
            network.connected_pairs(index).next().expect("a network connects the hosts of every flow");
        let stop = declared.stop.unwrap_or(Time::MAX);
        // As in a simulation: the same messages at the same times.
        let rng = rng.fork(&format!("flow.{}", declared.name));
        let (start, rng) = (declared.drawn_start(&rng), rng.fork("application"));
        let common = &declared.common;
        Ok(Flow {
            transport,
            local: SocketAddr::new(from.address(scenario.ip), 0),
            remote: SocketAddr::new(to.address(scenario.ip), FIRST_PORT + index as u16),
            congestion: common.congestion.entry.name,
            send_buffer: size(common.send_buffer),
            receive_buffer: size(common.receive_buffer),
            no_delay: !matches!(&declared.protocol, Protocol::Tcp(tcp) | Protocol::Mptcp { tcp, .. } if tcp.nagle),
            start,
            application: Application::new(&declared.workload, [start, stop], None, &rng),
        })
    };
    scenario.flows.iter().enumerate().map(flow).collect()
}

fn size(buffer: model::Buffer) -> Option<usize> {
    match buffer {
        model::Buffer::Bytes(bytes) => Some(bytes as usize),
        model::Buffer::Auto => None,
    }
}

fn transport(declared: &model::Flow) -> Result<Transport, String> {
    if declared.direction != Directions::Forward
        || matches!(declared.workload, Workload::RequestResponse { .. })
    {
        return Err("only the sending host writes in a kernel's run; make it direction = \"forward\" without requests, or \
                    run it in the simulation"
            .to_owned());
    }
    match &declared.protocol {
        Protocol::Tcp(_) => Ok(Transport::Tcp),
        Protocol::Mptcp { .. } => Ok(Transport::Mptcp),
        Protocol::Sctp(_) => {
            Err("there is no SCTP over the kernel's sockets here; use tcp, mptcp or udp, or run it in the \
             simulation"
                .to_owned())
        }
        Protocol::Udp => {
            let (smallest, largest) = sizes(&declared.workload);
            if smallest < DATAGRAM_HEADER as u64 {
                Err(format!(
                    "datagrams carry {DATAGRAM_HEADER} bytes of their own; make the smallest message at least that long"
                ))
            } else if largest > LONGEST_DATAGRAM {
                Err(format!("no datagram is longer than {LONGEST_DATAGRAM} bytes; make the messages shorter"))
            } else {
                Ok(Transport::Udp)
            }
        }
    }
}

/// The smallest and the largest message of a workload.
fn sizes(workload: &Workload) -> (u64, u64) {
    let message = match *workload {
        Workload::Saturated { message } | Workload::File { message, .. } => message,
        Workload::Rate { message, .. }
        | Workload::OnOff { message, .. }
        | Workload::Messages { message, .. }
        | Workload::RequestResponse { request: message, .. } => Some(message),
    };
    match message {
        Some(MessageSize::Constant(size)) => (size, size),
        Some(MessageSize::Uniform { low, high }) => (low, high),
        None | Some(MessageSize::Exponential { .. }) => (1, u64::MAX),
        Some(MessageSize::Pareto { min, max, .. }) => (min, max),
    }
}

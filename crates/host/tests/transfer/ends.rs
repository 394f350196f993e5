//! The two ends of a transfer.

use anabranch_base::rng::Rng;
use anabranch_endpoint::{Endpoint, Secrets};
use anabranch_multipath::{congestion, path_manager, scheduler};
use anabranch_sctp as sctp;
use anabranch_sctp::Association;
use anabranch_settings::policy::Penalisation;
use anabranch_tcp::{mptcp, tcp};
use anabranch_testkit::paths::Paths;

/// Transport protocol of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Mptcp {
        checksum: bool,
    },
    Sctp {
        i_data: bool,
        encapsulated: bool,
    },
    /// Accepts user data only with authentication (RFC 4895).
    SctpAuthenticated {
        i_data: bool,
    },
    CmtSctp {
        i_data: bool,
    },
}

/// Protocol, paths and buffers of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub protocol: Protocol,
    pub ipv6: bool,
    /// Number of paths, with one address of each end on each; TCP uses the first.
    pub paths: u8,
    pub mtu: u32,
    pub send_buffer: u64,
    pub receive_buffer: u64,
    /// Maximum number of packets that an end handles before it answers: more than one is a driver that is late, and that
    /// lets packets with data of SCTP wait for those behind them.
    pub together: u8,
}

impl Settings {
    pub const fn new(protocol: Protocol) -> Self {
        let paths = match protocol {
            Protocol::Tcp | Protocol::Sctp { .. } | Protocol::SctpAuthenticated { .. } => 1,
            Protocol::Mptcp { .. } | Protocol::CmtSctp { .. } => 2,
        };
        let (send_buffer, receive_buffer) = (1_000_000, 1_000_000);
        Self { protocol, ipv6: false, paths, mtu: 1500, send_buffer, receive_buffer, together: 1 }
    }

    fn tcp(&self) -> tcp::Config {
        tcp::Config::default()
            .congestion(congestion::Choice::find("cubic").expect("listed"))
            .send_buffer(self.send_buffer)
            .receive_buffer(self.receive_buffer)
            .retries(30)
            .syn_retries(30)
    }

    fn mptcp(&self, checksum: bool) -> mptcp::Config {
        mptcp::Config::default()
            .tcp(self.tcp())
            .scheduler(scheduler::find("lowest-rtt").expect("listed"))
            .path_manager(path_manager::parse("fullmesh").expect("listed"))
            .opportunistic_retransmission(true)
            .penalisation(Penalisation::Weaker)
            .mechanisms_in_start_up(true)
            .checksum(checksum)
    }

    fn sctp(&self) -> sctp::Config {
        let congestion = congestion::Choice::find("reno").expect("listed");
        sctp::Config::new(congestion, scheduler::find("round-robin").expect("listed"))
            .send_buffer(self.send_buffer)
            .receive_buffer(self.receive_buffer)
            .streams(4)
            .association_max_retrans(30)
            .path_max_retrans(30)
            .init_max_retrans(30)
    }
}

/// Both ends, the connecting one first.
pub fn make(settings: &Settings, rng: &Rng) -> [Box<dyn Endpoint>; 2] {
    let secrets = Secrets::simulated(&mut rng.fork("secrets"));
    let paths = Paths { ipv6: settings.ipv6, count: settings.paths, mtu: settings.mtu };
    let [near, far] = paths.ends();
    let [ours, theirs] = [secrets.fork("near"), secrets.fork("far")];
    match settings.protocol {
        Protocol::Tcp => [
            Box::new(tcp::Connection::connecting(settings.tcp(), &near, ours)),
            Box::new(tcp::Connection::listening(settings.tcp(), &far, theirs)),
        ],
        Protocol::Mptcp { checksum } => [
            Box::new(mptcp::Connection::connecting(settings.mptcp(checksum), &near, ours)),
            Box::new(mptcp::Connection::listening(settings.mptcp(checksum), &far, theirs)),
        ],
        Protocol::Sctp { i_data, .. }
        | Protocol::SctpAuthenticated { i_data }
        | Protocol::CmtSctp { i_data } => {
            let mut config = settings.sctp().i_data(i_data);
            if let Protocol::Sctp { encapsulated: true, .. } = settings.protocol {
                config.encapsulation = Some(anabranch_wire::sctp::encapsulation::Ports::default());
            }
            config.authenticate_data = matches!(settings.protocol, Protocol::SctpAuthenticated { .. });
            if let Protocol::CmtSctp { .. } = settings.protocol {
                config = config.with_cmt();
            }
            let near = Association::connecting(config.clone(), &near, ours).expect("good settings");
            let far = Association::listening(config, &far, theirs).expect("good settings");
            [Box::new(near), Box::new(far)]
        }
    }
}

//! Two Multipath TCP hosts that the test drives itself, for situations that no scenario creates: a middlebox,
//! damaged packets, an abort.

use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::drive::Collected;
use anabranch_endpoint::{Address, Endpoint, Ends, Secrets, Write};
use anabranch_multipath::congestion::Choice;
use anabranch_multipath::path_manager;
use anabranch_multipath::scheduler;
use anabranch_settings::policy::Penalisation;
use anabranch_tcp::{mptcp, tcp};
use anabranch_wire::BoxedIfSet;
use anabranch_wire::{Body, Packet, pcapng};
use core::net::{IpAddr, Ipv4Addr};
use std::collections::VecDeque;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

const ONE_WAY_DELAY: Duration = Duration::from_millis(10);

/// Treatment of a packet in the network.
pub type Middlebox = fn(&mut Packet);

/// Removes every option of Multipath TCP.
pub fn strip(packet: &mut Packet) {
    if let Body::Tcp(segment) = &mut packet.body {
        segment.options.mptcp = BoxedIfSet::default();
    }
}

/// Changes the payload of packets on the second path.
pub fn damage(packet: &mut Packet) {
    packet.settle(&anabranch_wire::Pattern);
    if let Body::Tcp(segment) = &mut packet.body
        && packet.source == ip(0, 1)
        && segment.options.mptcp.dss.is_some()
    {
        segment.payload.offset += 1;
    }
}

pub struct Hosts {
    now: Time,
    ends: [mptcp::Connection; 2],
    on_the_way: VecDeque<(Time, usize, Packet)>,
    middlebox: Option<Middlebox>,
    writer: pcapng::Writer<BufWriter<File>>,
    interface: pcapng::Interface,
}

fn ip(end: u8, path: u8) -> IpAddr {
    Ipv4Addr::new(10, path, end, 1).into()
}

impl Hosts {
    /// Two hosts with two paths between them; the capture is taken at the first.
    pub fn new(name: &str, middlebox: Option<Middlebox>) -> (Self, PathBuf) {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tshark-{name}.pcapng"));
        let file = BufWriter::new(File::create(&path).expect("a file"));
        let mut writer = pcapng::Writer::new(file).expect("a header");
        let interface = writer.add_interface("client").expect("an interface");
        let config = mptcp::Config::default()
            .tcp(tcp::Config::default().congestion(Choice::find("lia").expect("listed")))
            .scheduler(scheduler::find("round-robin").expect("listed"))
            .path_manager(path_manager::parse("disjoint").expect("listed"))
            .opportunistic_retransmission(true)
            .penalisation(Penalisation::Weaker)
            .mechanisms_in_start_up(true)
            .checksum(true);
        let addresses = |end| [0, 1].map(|path| Address::new(ip(end, path), 1500)).to_vec();
        let (local, remote) = (addresses(0), vec![ip(1, 0)]);
        let client = Ends { local, local_port: 40_000, remote, remote_port: 5001 };
        let mut client = mptcp::Connection::connecting(config.clone(), &client, Secrets::new([1; 32]));
        let server = Ends::listening(addresses(1), 5001);
        let server = mptcp::Connection::listening(config, &server, Secrets::new([2; 32]));
        client.connect(Time::ZERO);
        let on_the_way = VecDeque::new();
        let mut hosts =
            Self { now: Time::ZERO, ends: [client, server], on_the_way, middlebox, writer, interface };
        hosts.exchange_packets();
        (hosts, path)
    }

    fn record(&mut self, packet: &Packet) {
        self.writer.packet(self.interface.at(self.now.as_nanos()), packet).expect("a packet");
    }

    fn exchange_packets(&mut self) {
        for end in [0, 1] {
            for mut packet in Collected::from(&mut self.ends[end], self.now).packets {
                if end == 0 {
                    self.record(&packet);
                }
                if let Some(middlebox) = self.middlebox {
                    middlebox(&mut packet);
                }
                self.on_the_way.push_back((self.now + ONE_WAY_DELAY, 1 - end, packet));
            }
            while self.ends[end].read(self.now, u64::MAX).is_some() {}
        }
    }

    /// Runs the hosts for `millis` milliseconds.
    pub fn run(&mut self, millis: u64) {
        let until = self.now + Duration::from_millis(millis);
        loop {
            let arrival = self.on_the_way.front().map(|(at, ..)| *at);
            let timers = self.ends.iter().filter_map(Endpoint::next_timeout);
            let Some(next) = timers.chain(arrival).min().filter(|&at| at <= until) else { break };
            self.now = self.now.max(next);
            if arrival == Some(next) {
                let (_, end, packet) = self.on_the_way.pop_front().expect("a packet is in flight");
                if end == 0 {
                    self.record(&packet);
                }
                self.ends[end].handle_packet(self.now, packet, &anabranch_wire::Pattern);
            } else {
                self.ends.iter_mut().for_each(|end| end.handle_timeout(self.now));
            }
            self.exchange_packets();
        }
        self.now = until;
    }

    /// Lets the client write `bytes` bytes.
    pub fn write(&mut self, bytes: u64) {
        self.ends[0].write(self.now, Write::bytes(bytes));
        self.exchange_packets();
    }

    /// Lets the client abort the connection.
    pub fn abort(&mut self) {
        self.ends[0].abort(self.now);
        self.exchange_packets();
    }

    /// True if both sides fell back to plain TCP.
    pub fn fell_back(&self) -> bool {
        self.ends.iter().all(|end| end.report().fallback)
    }

    /// Closes the capture; returns the number of its packets.
    pub fn finish(self) -> u64 {
        self.writer.finish().expect("the end");
        self.ends[1].report().delivered
    }
}

//! Our SCTP and usrsctp's, over UDP on the loopback interface.

use super::application::Load;
use super::namespace::{Need, machine_has, within};
use super::ours::{self, BYTES, Role};
use super::usrsctp;
use core::net::{IpAddr, Ipv4Addr};
use multipath::{congestion, scheduler};
use net::{Clock, Network, Udp};
use transport::Address;
use transport::host::Protocol;
use transport::sctp::Config;
use wire::sctp::encapsulation::Ports;

const NEEDS: [Need; 2] = [Need::Namespaces, Need::Usrsctp];

/// usrsctp lives on the standard port at the address that it knows by itself, we beside it.
const THEIRS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const OURS: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const THEIR_UDP: u16 = 9899;
const OUR_UDP: u16 = 9900;

fn protocol(i_data: bool, theirs: u16) -> Protocol {
    let congestion = congestion::Choice::find("reno").expect("listed");
    Protocol::Sctp(Box::new(Config {
        streams: 4,
        i_data,
        encapsulation: Some(Ports { source: OUR_UDP, destination: theirs }),
        ..Config::new(congestion, scheduler::find("round-robin").expect("listed"))
    }))
}

/// Whole and fragmented messages, ordered and not.
const LOAD: Load = Load::Messages { bytes: BYTES, lengths: (1, 20_000), streams: 4, unordered: 0.5 };

fn network() -> Network {
    let mut network = Network::new(Clock::new());
    let udp = Udp::bind((OURS, OUR_UDP).into()).expect("a socket of the loopback interface");
    network.add(udp, &[Address::new(OURS, 1500)]);
    network
}

fn connects(i_data: bool) {
    let arguments = format!("listen {} {THEIRS} 7 {THEIR_UDP} 0.0.0.0 0 0", u8::from(i_data));
    let peer = usrsctp::start(&arguments, BYTES);
    let side = ours::start(network(), protocol(i_data, THEIR_UDP), LOAD, Role::Connect(THEIRS, 7));
    side.finish().check(&peer.done());
}

fn accepts(i_data: bool) {
    // The port that the peer sends from is for us to learn: nobody is at port 1.
    let side = ours::start(network(), protocol(i_data, 1), LOAD, Role::Accept(7));
    let arguments = format!("connect {} {THEIRS} 8 {THEIR_UDP} {OURS} 7 {OUR_UDP}", u8::from(i_data));
    let peer = usrsctp::start(&arguments, BYTES);
    side.finish().check(&peer.done());
}

#[test]
fn we_connect() {
    if machine_has(&NEEDS) {
        within("sctp-connects", || connects(false));
    }
}

#[test]
fn we_accept() {
    if machine_has(&NEEDS) {
        within("sctp-accepts", || accepts(false));
    }
}

#[test]
fn we_connect_with_i_data() {
    if machine_has(&NEEDS) {
        within("sctp-idata-connects", || connects(true));
    }
}

#[test]
fn we_accept_with_i_data() {
    if machine_has(&NEEDS) {
        within("sctp-idata-accepts", || accepts(true));
    }
}

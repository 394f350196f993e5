//! UDP encapsulation with an address translator on the path (RFC 6951).

use super::pair::{A, App, B, Link, Net, at_ms, body, bulk};
use anabranch_wire::Body;
use anabranch_wire::sctp::encapsulation::Ports;
use core::cell::Cell;
use std::rc::Rc;

const UDP_PORT: u16 = 9899;

fn ports(packet: &mut anabranch_wire::Packet) -> &mut Ports {
    let Body::Sctp(body) = &mut packet.body else { unreachable!("it is SCTP") };
    body.udp.as_mut().expect("the packet is in UDP")
}

/// The translator changes A's port, and changes it again later. B sends to the source port of A's last packet.
#[test]
fn peer_port_is_learnt_and_updated() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |end, config| {
        // B learns that encapsulation is used.
        config.encapsulation = (end == A).then(Ports::default);
    });
    let outside = Rc::new(Cell::new(40_000));
    let port = Rc::clone(&outside);
    let delivered = Rc::new(Cell::new(0));
    let count = Rc::clone(&delivered);
    net.filter = Some(Box::new(move |_, from, packet| {
        assert!(packet.wire_len() <= 1500);
        let ports = ports(packet);
        if from == A {
            assert_eq!((ports.source, ports.destination), (UDP_PORT, UDP_PORT));
            ports.source = port.get();
            return true;
        }
        assert_eq!(ports.source, UDP_PORT);
        // Packets to the old port are dropped.
        let through = ports.destination == port.get();
        ports.destination = UDP_PORT;
        count.set(count.get() + u32::from(through));
        through
    }));
    net.apps = [(); 2].map(|()| App::sends(bulk(2_000, 1_400)));
    net.connect();
    net.run_until(at_ms(1_000));
    assert!(delivered.get() > 100);
    outside.set(50_000);
    net.run_to_end(at_ms(60_000));
    net.check(A);
    net.check(B);
}

/// A datagram with a wrong tag does not change the port.
#[test]
fn wrong_tag_does_not_change_the_port() {
    let mut net = Net::new(vec![Link::new(10, 5)], |_, config| config.encapsulation = Some(Ports::default()));
    let copy = Rc::new(Cell::new(None));
    let kept = Rc::clone(&copy);
    net.filter = Some(Box::new(move |_, from, packet| {
        if from == A {
            kept.set(Some(packet.clone()));
        } else {
            assert_eq!(ports(packet).destination, UDP_PORT);
        }
        true
    }));
    net.apps[B] = App::sends(bulk(500, 1_400));
    net.connect();
    net.run_until(at_ms(200));
    let mut forged = copy.take().expect("A has sent something");
    ports(&mut forged).source = 666;
    let tag = body(&forged).verification_tag;
    let Body::Sctp(body) = &mut forged.body else { unreachable!("it is SCTP") };
    body.verification_tag = tag.wrapping_add(1);
    net.inject(B, forged);
    net.run_to_end(at_ms(60_000));
    net.check(B);
}

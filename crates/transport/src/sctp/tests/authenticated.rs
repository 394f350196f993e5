//! User data that is taken with authentication only (RFC 4895).

use super::pair::{A, App, B, Link, Net, Settings, at_ms, body, ms};
use crate::endpoint::{Endpoint, Reason};
use crate::sctp::auth::USER_DATA;
use core::cell::Cell;
use std::rc::Rc;
use wire::sctp::{Chunk, Parameter, Sack, SackFlags, Shutdown, kind};
use wire::seq::Serial;
use wire::{Body, Packet};

/// Packets of both ends: how many carry something of theirs behind an AUTH, and the longest.
type Seen = Rc<Cell<([u32; 2], [u32; 2])>>;

/// An association in which these ends take user data with authentication only, and messages both ways.
fn transfer(wants: [bool; 2], mut change: impl FnMut(usize, &mut Settings)) -> (Net, Seen) {
    let mut net = Net::new(vec![Link::new(10, 10)], |end, config| {
        (config.authenticate_data, config.asconf) = (wants[end], true);
        (config.nagle, config.streams) = (false, 4);
        change(end, config);
    });
    let seen = Seen::default();
    let log = Rc::clone(&seen);
    net.filter = Some(Box::new(move |_, from, packet| {
        let chunks = &body(packet).chunks;
        let (mut sealed, mut longest) = log.get();
        let auth = chunks.iter().position(|chunk| matches!(chunk, Chunk::Auth(_)));
        let wanted = |chunk: &Chunk| USER_DATA.contains(&chunk.kind());
        if let Some(first) = chunks.iter().position(wanted) {
            assert_eq!(auth.is_some_and(|at| at < first), wants[1 - from], "{packet:?}");
            sealed[from] += u32::from(auth.is_some());
        }
        longest[from] = longest[from].max(packet.wire_len());
        log.set((sealed, longest));
        true
    }));
    net.apps[A] = App::sends((0..60).map(|i| (3_000 + i * 100, (i % 4) as u16, i % 3 == 0)));
    net.apps[B] = App::sends((0..40).map(|i| (700 + i * 100, (i % 4) as u16, false)));
    (net, seen)
}

#[test]
fn user_data_goes_behind_a_code_that_the_packet_has_room_for() {
    for (wants, i_data) in
        [([true, true], false), ([true, true], true), ([false, true], false), ([false; 2], true)]
    {
        let (mut net, seen) = transfer(wants, |_, config| {
            (config.i_data, config.nr_sack, config.partial_reliability) = (i_data, i_data, true);
        });
        net.links[0].loss = 0.03;
        net.connect();
        net.run_to_end(at_ms(60_000));
        net.check(A);
        net.check(B);
        let (sealed, longest) = seen.get();
        assert_eq!(sealed.map(|count| count > 40), [wants[1], wants[0]], "{sealed:?}");
        assert!(longest.iter().all(|&len| len <= 1500) && longest[A] > 1496, "{longest:?}");
        assert_eq!((net.extra(A, "forgeries"), net.extra(B, "forgeries")), (0, 0));
    }
}

/// Of a peer that wants its data authenticated, what comes without a code or with a wrong one is not there.
#[test]
fn what_is_not_authenticated_is_not_there() {
    let (mut net, _) = transfer([true, true], |_, _| {});
    net.connect();
    net.run_until(at_ms(500));
    net.check(A);
    let kept: Rc<Cell<Option<Packet>>> = Rc::default();
    let keep = Rc::clone(&kept);
    net.filter = Some(Box::new(move |_, from, packet| {
        let data = body(packet).chunks.iter().any(|chunk| chunk.payload().is_some());
        if from == A && data {
            keep.set(Some(packet.clone()));
        }
        !(from == A && data)
    }));
    let before = (net.apps[B].read.len(), net.ends[B].report().delivered);
    net.apps[A].outbox.push_back((400, 1, false));
    net.drain();
    let mut genuine = kept.take().expect("it has left");
    genuine.settle(&wire::Pattern);
    let forged = |change: fn(&mut Vec<Chunk>)| {
        let mut packet = genuine.clone();
        let Body::Sctp(body) = &mut packet.body else { panic!("SCTP") };
        change(body.chunks.list());
        // What stands in the packet is what is read of it.
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        Packet::parse(&bytes).expect("as it was written")
    };
    let sack = |chunks: &mut Vec<Chunk>| {
        let cumulative_tsn = Serial(77);
        *chunks =
            vec![Chunk::Sack(Sack { cumulative_tsn, a_rwnd: 0, flags: SackFlags::NONE, ..Sack::default() })];
    };
    for packet in [
        forged(|chunks| chunks.retain(|chunk| !matches!(chunk, Chunk::Auth(_)))),
        forged(|chunks| chunks.reverse()),
        forged(|chunks| {
            let Some(Chunk::Data(data)) = chunks.last_mut() else { panic!("DATA") };
            data.ppid ^= 1;
        }),
        forged(sack),
        // It acknowledges as well, and an end that believed it would close in order what has not arrived.
        forged(|chunks| *chunks = vec![Chunk::Shutdown(Shutdown { cumulative_tsn: Serial(77) })]),
    ] {
        net.inject(B, packet);
    }
    assert_eq!((net.apps[B].read.len(), net.ends[B].report().delivered), before);
    assert_eq!((net.extra(B, "forgeries"), net.closed(B)), (2, None));
    net.filter = None;
    net.run_until(net.now + ms(5_000));
    net.check(A);
}

/// The peer may want the cookie authenticated, too, and an ABORT, which is the last that leaves.
#[test]
fn what_is_sent_before_and_after_an_association_has_a_code_if_the_peer_wants_it() {
    let mut net = Net::new(vec![Link::new(10, 10)], |_, config| config.asconf = true);
    let seen: Rc<Cell<Vec<u8>>> = Rc::default();
    let log = Rc::clone(&seen);
    net.filter = Some(Box::new(move |_, from, packet| {
        let Body::Sctp(body) = &mut packet.body else { panic!("SCTP") };
        let mut all = log.take();
        for chunk in body.chunks.iter_mut().filter(|_| from == B) {
            if let Chunk::InitAck(init) = chunk {
                for parameter in &mut init.parameters {
                    if let Parameter::ChunkList(kinds) = parameter {
                        *kinds = [kind::COOKIE_ECHO, kind::ABORT].into();
                    }
                }
            }
        }
        all.extend(body.chunks.iter().filter(|_| from == A).map(Chunk::kind));
        // The other end, whose list this is not, makes other codes.
        body.chunks.list().retain(|chunk| !matches!(chunk, Chunk::Auth(_)));
        log.set(all);
        true
    }));
    net.connect();
    net.run_until(at_ms(500));
    assert!(net.ends[A].established());
    net.ends[A].abort(net.now);
    net.drain();
    assert_eq!(seen.take(), [kind::INIT, kind::AUTH, kind::COOKIE_ECHO, kind::AUTH, kind::ABORT]);
    assert_eq!(net.closed(A), Some(Reason::Aborted));
}

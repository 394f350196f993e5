//! The functions of the interface in the order in which packetdrill calls them, with a peer that this test plays.

use super::table::TABLE;
use super::{machine, packetdrill_interface_init};
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::{Flags, Segment};
use anabranch_wire::{Body, Ecn, Packet, Payload};
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::{null, null_mut};
use std::thread;

const HERE: [u8; 4] = [192, 168, 0, 1];
const PEER: [u8; 4] = [192, 0, 2, 1];

/// Creates the machine of this process.
fn create(flags: &core::ffi::CStr) {
    let mut table = MaybeUninit::uninit();
    // SAFETY: the flags end with a zero byte, and the function fills the table.
    unsafe { packetdrill_interface_init(flags.as_ptr(), table.as_mut_ptr()) };
}

/// The next segment, with the virtual time at which it was sent, in microseconds.
fn receive() -> (Segment, i64) {
    let (mut bytes, mut len, mut micros) = (vec![0_u8; 2000], 2000_usize, 0);
    let result = (TABLE.netdev_receive)(null_mut(), bytes.as_mut_ptr().cast(), &raw mut len, &raw mut micros);
    assert_eq!(result, 0);
    match Packet::parse(&bytes[..len]).expect("a packet").body {
        Body::Tcp(segment) => (segment, micros),
        other => panic!("not TCP: {other:?}"),
    }
}

fn send(segment: Segment) {
    let (source, destination) = (PEER.into(), HERE.into());
    let packet = Packet { source, destination, ecn: Ecn::NotEct, body: Body::Tcp(segment) };
    let mut bytes = Vec::new();
    packet.emit(&mut bytes);
    assert_eq!((TABLE.netdev_send)(null_mut(), bytes.as_ptr().cast(), bytes.len()), 0);
}

fn clock() -> i64 {
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
    assert_eq!((TABLE.gettimeofday)(null_mut(), &raw mut time, null_mut()), 0);
    time.tv_sec * 1_000_000 + time.tv_usec
}

fn sleep(micros: u32) {
    assert_eq!((TABLE.usleep)(null_mut(), micros), 0);
}

fn socket() -> i32 {
    (TABLE.socket)(null_mut(), libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP)
}

fn write(fd: i32, bytes: &[u8]) -> isize {
    (TABLE.write)(null_mut(), fd, bytes.as_ptr().cast(), bytes.len())
}

fn read(fd: i32, max: usize) -> Vec<u8> {
    let mut bytes = vec![0; max];
    let len = (TABLE.read)(null_mut(), fd, bytes.as_mut_ptr().cast::<c_void>(), max);
    bytes.truncate(usize::try_from(len).expect("data or the end"));
    bytes
}

/// A port of this machine, as the C structure of an address.
fn address(ip: [u8; 4], port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(ip) },
        sin_zero: [0; 8],
    }
}

/// The answer of the peer to the segment `to`: everything of it is acknowledged.
fn answer(to: &Segment, seq: u32, flags: Flags) -> Segment {
    Segment {
        source_port: to.destination_port,
        destination_port: to.source_port,
        seq: Serial(seq),
        ack: to.seq.add(to.sequence_len()),
        flags,
        window: 10_000,
        ..Segment::default()
    }
}

#[test]
fn interface_carries_a_connection_each_way() {
    create(c"192.168.0.1,mtu=1500");
    connect();
    accept();
}

/// Opens a connection without blocking, writes, waits for a retransmission, and closes.
fn connect() {
    let fd = socket();
    assert_eq!((TABLE.fcntl)(null_mut(), fd, libc::F_SETFL, i64::from(libc::O_NONBLOCK)), 0);
    let peer = address(PEER, 8080);
    let opened = (TABLE.connect)(null_mut(), fd, (&raw const peer).cast(), 16);
    assert_eq!(opened, -1);
    let (syn, _) = receive();
    assert_eq!((syn.flags, syn.options.mss), (Flags::SYN, Some(1460)));
    send(answer(&syn, 1_000, Flags::SYN | Flags::ACK));
    let (ack, _) = receive();
    assert_eq!((ack.flags, ack.ack), (Flags::ACK, Serial(1_001)));

    // 536 bytes is the segment of a peer that names none. Two segments end with PSH, as a run of Linux does.
    assert_eq!(write(fd, &[7; 1_072]), 1_072);
    let sent = [receive().0, receive().0];
    assert_eq!(sent.each_ref().map(|segment| segment.payload.len), [536, 536]);
    assert!(sent[1].flags.contains(Flags::PSH));
    let before = clock();
    send(answer(&sent[0], 1_001, Flags::ACK));
    // The peer has no SACK, so the second segment is retransmitted after a timeout of at least 200 ms.
    let (again, micros) = receive();
    assert_eq!((again.seq, again.payload.len), (sent[1].seq, 536));
    assert!((200_000..1_500_000).contains(&(micros - before)), "{}", micros - before);
    send(answer(&again, 1_001, Flags::ACK));
    assert_eq!((TABLE.close)(null_mut(), fd), 0);
    assert!(receive().0.flags.contains(Flags::FIN));
}

/// Accepts a connection and reads by blocking calls of another thread, at the virtual times of their results.
fn accept() {
    let fd = socket();
    let local = address([0; 4], 80);
    assert_eq!((TABLE.bind)(null_mut(), fd, (&raw const local).cast(), 16), 0);
    assert_eq!((TABLE.listen)(null_mut(), fd, 1), 0);
    let start = clock();
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let accepted = (TABLE.accept)(null_mut(), fd, null_mut(), null_mut());
            let at = clock() - start;
            let bytes = read(accepted, 100);
            (accepted, at, bytes, clock() - start)
        });
        await_call();
        sleep(100_000);
        let syn = Segment { source_port: 9, destination_port: 80, flags: Flags::SYN, ..Segment::default() };
        send(syn);
        let (syn_ack, _) = receive();
        send(answer(&syn_ack, 1, Flags::ACK));
        await_call();
        sleep(100_000);
        let data = Segment { payload: Payload::new(0, 10), ..answer(&syn_ack, 1, Flags::ACK) };
        send(data);
        let (accepted, accepted_at, bytes, read_at) = reader.join().expect("no panic");
        let expected: Vec<_> = (0..10).map(Payload::byte).collect();
        assert_eq!(bytes, expected);
        assert_eq!((accepted_at / 1_000, read_at / 1_000), (100, 200));
        assert_info(accepted);
    });
    assert_eq!((TABLE.connect)(null_mut(), socket(), null(), 0), -1);
}

/// Waits until the other thread's call waits, before virtual time passes.
fn await_call() {
    while !machine().expect("the machine was created").has_waiting_call() {
        thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// The window that `TCP_INFO` has at its known place is the initial one: ten segments.
fn assert_info(fd: i32) {
    let (mut info, mut len) = ([0_u8; 104], 104);
    let result = {
        let out = info.as_mut_ptr().cast();
        (TABLE.getsockopt)(null_mut(), fd, libc::IPPROTO_TCP, libc::TCP_INFO, out, &raw mut len)
    };
    assert_eq!((result, len), (0, 104));
    assert_eq!(u32::from_ne_bytes(info[80..84].try_into().expect("four bytes")), 10);
}

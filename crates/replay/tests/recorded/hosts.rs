//! Two recorded hosts in virtual time, with a lossy network between them.

use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{Address, Bytes, Event, Placement, Socket, Write};
use anabranch_host::{Backlog, ConnectionId, HostDriver, Limits, Listening, Protocol};
use anabranch_replay::{PayloadDriver, RecordedHost, Recording};
use anabranch_wire::{Buffer, Packet, Payload};
use core::net::IpAddr;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

/// A recording in memory.
#[derive(Clone, Default)]
pub struct Memory(pub Arc<Mutex<Vec<u8>>>);

impl io::Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One-way delay of a path; the second one is longer.
const DELAYS: [Duration; 2] = [Duration::from_millis(7), Duration::from_millis(20)];
/// Interval of the applications' turns.
const TURN: Duration = Duration::from_millis(5);

/// The task of two hosts.
#[derive(Clone, Debug)]
pub struct Task {
    pub protocol: Protocol,
    /// Bytes that each end writes.
    pub bytes: [u64; 2],
    /// Share of packets that are lost.
    pub loss: f64,
    /// The first path of the client is lost and restored at these times.
    pub outage: Option<[Time; 2]>,
    /// The client aborts at this time.
    pub abort: Option<Time>,
    pub seed: u64,
    pub has_data: bool,
}

/// A host with its connection and the network that it sends to.
struct End {
    host: RecordedHost,
    bytes: BTreeMap<ConnectionId, Bytes>,
    id: Option<ConnectionId>,
    /// Bytes that are not written yet.
    left: u64,
    read: Vec<u8>,
    closed: bool,
    over: bool,
    out: Vec<Vec<u8>>,
}

struct Outlet<'a> {
    end: (&'a mut BTreeMap<ConnectionId, Bytes>, &'a mut Vec<Vec<u8>>, &'a mut bool),
    arrived: &'a [u8],
}

impl PayloadDriver for Outlet<'_> {
    fn fill(&self, connection: Option<ConnectionId>, payload: Payload, out: &mut [u8]) {
        if let Some(bytes) = connection.and_then(|id| self.end.0.get(&id)) {
            bytes.fill(payload, out);
        }
    }
}

impl HostDriver for Outlet<'_> {
    fn place(&mut self, connection: ConnectionId, placement: Placement) {
        self.end.0.entry(connection).or_default().place(placement, Buffer(self.arrived));
    }

    fn forget(&mut self, connection: ConnectionId, run: (u64, u32)) {
        self.end.0.entry(connection).or_default().fragments.forget(run);
    }

    fn transmit(&mut self, connection: Option<ConnectionId>, packet: Packet) {
        let mut bytes = Vec::new();
        packet.emit_with(&mut bytes, |payload, out| self.fill(connection, payload, out));
        self.end.1.push(bytes);
    }

    fn event(&mut self, _: ConnectionId, event: Event) {
        *self.end.2 |= matches!(event, Event::Closed(_));
    }
}

impl End {
    fn new(number: u8, task: &Task, memory: &Memory) -> Self {
        let addresses = (0..2).map(|path| Address::new(ip(path, number), 1500)).collect();
        let recording = Recording { out: Box::new(memory.clone()), has_data: task.has_data };
        let host = RecordedHost::recorded(addresses, Limits::default(), [number; 32], recording);
        Self {
            host: host.expect("memory takes bytes"),
            bytes: BTreeMap::new(),
            id: None,
            left: task.bytes[usize::from(number)],
            read: Vec::new(),
            closed: false,
            over: false,
            out: Vec::new(),
        }
    }

    fn drive(&mut self, now: Time, arrived: &[u8]) {
        let mut outlet = Outlet { end: (&mut self.bytes, &mut self.out, &mut self.over), arrived };
        self.host.drive(now, &mut outlet);
    }

    /// Lets the application write and read, in parts that `rng` draws.
    fn turn(&mut self, now: Time, rng: &mut Rng) {
        if self.id.is_none() {
            self.id = [anabranch_host::Transport::Tcp, anabranch_host::Transport::Sctp]
                .into_iter()
                .find_map(|transport| self.host.accept(transport, 7));
        }
        let Some(id) = self.id else { return };
        let bytes = self.bytes.entry(id).or_default();
        let (left, read, closed) = (&mut self.left, &mut self.read, &mut self.closed);
        self.host.with_endpoint(id, |endpoint| {
            bytes.release(endpoint);
            let mut socket = Socket { endpoint, bytes, now };
            let len = (rng.next_u64() % 9000).min(*left);
            let written = socket.bytes.sent.written();
            let some: Vec<u8> = (written..written + len).map(Payload::byte).collect();
            if len > 0 {
                let write = Write { unordered: len % 3 == 0, ppid: len as u32, ..Write::bytes(0) };
                *left -= socket.write(&some, write) as u64;
            } else if *left == 0 && !*closed && written > 0 {
                socket.close();
                *closed = true;
            }
            if !rng.next_u64().is_multiple_of(4) {
                while socket.read(20_000, read).is_some() {}
            }
        });
        self.host.record_data(id, &self.bytes[&id].sent);
    }
}

/// Address of a host on a path.
pub fn ip(path: u8, host: u8) -> IpAddr {
    [10, path, 0, host + 1].into()
}

/// The result of a run: the recordings of both hosts, and the bytes that each has read.
pub struct Recorded {
    pub recordings: [Vec<u8>; 2],
    pub read: [Vec<u8>; 2],
    pub sent: [usize; 2],
}

/// Runs two hosts until both have ended, or for a minute.
pub fn run(task: &Task) -> Recorded {
    let memories = [Memory::default(), Memory::default()];
    let mut ends = [0, 1].map(|number| End::new(number, task, &memories[usize::from(number)]));
    let mut rng = Rng::new(task.seed);
    let listening = Listening { protocol: task.protocol.clone(), port: 7, backlog: Backlog::default() };
    ends[1].host.listen(listening).expect("the port is free");
    let remote = match &task.protocol {
        Protocol::Sctp(_) => vec![ip(0, 1), ip(1, 1)],
        _ => vec![ip(0, 1)],
    };
    ends[0].id = ends[0].host.connect(Time::ZERO, &task.protocol, (&remote, 7)).ok();
    let mut flight: BTreeMap<(Time, u64), (usize, Vec<u8>)> = BTreeMap::new();
    let (mut number, mut sent) = (0, [0; 2]);
    let mut now = Time::ZERO;
    let mut turn = Time::ZERO;
    let mut events: Vec<_> = task.outage.iter().flatten().zip([false, true]).collect();
    let mut abort = task.abort;
    loop {
        for (from, end) in ends.iter_mut().enumerate() {
            end.drive(now, &[]);
            sent[from] += end.out.len();
            for packet in end.out.drain(..) {
                number += 1;
                let path = usize::from(packet[17] % 2);
                if rng.unit() >= task.loss {
                    flight.insert((now + DELAYS[path], number), (1 - from, packet));
                }
            }
        }
        if now > Time::from_secs_f64(60.0) || ends.iter().all(|end| end.over) && flight.is_empty() {
            break;
        }
        let timers = ends.iter().filter_map(|end| end.host.next_timeout());
        let arrival = flight.keys().next().map(|(at, _)| *at);
        now = now.max(timers.chain(arrival).chain([turn]).min().expect("a turn"));
        while let Some(entry) = flight.first_entry().filter(|entry| entry.key().0 <= now) {
            let (to, bytes) = entry.remove();
            let packet = Packet::parse(&bytes).expect("the other end wrote a valid packet");
            ends[to].host.handle_packet(now, packet, Buffer(&bytes));
            ends[to].drive(now, &bytes);
        }
        for end in ends.iter_mut().filter(|end| end.host.next_timeout().is_some_and(|due| due <= now)) {
            end.host.handle_timeout(now);
        }
        if events.first().is_some_and(|(at, _)| **at <= now) {
            if events.remove(0).1 {
                ends[0].host.add_address(now, Address::new(ip(0, 0), 1500));
            } else {
                ends[0].host.remove_address(now, ip(0, 0));
            }
        }
        if let Some(id) = ends[0].id.filter(|_| abort.is_some_and(|at| at <= now)) {
            abort = None;
            ends[0].host.with_endpoint(id, |endpoint| endpoint.abort(now));
        }
        if turn <= now {
            turn = now + TURN;
            for end in &mut ends {
                end.turn(now, &mut rng);
            }
        }
    }
    for end in &mut ends {
        if let Some(id) = end.id {
            end.host.forget(now, id);
        }
        end.drive(now, &[]);
        end.host.finish_recording().expect("memory takes bytes");
    }
    let recordings = memories.map(|memory| memory.0.lock().expect("no panic").clone());
    Recorded { recordings, read: ends.map(|end| end.read), sent }
}

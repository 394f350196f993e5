//! Two engines in one thread, with a link in memory.
#![cfg(target_os = "linux")]

use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{Address, Event, Secrets, Socket, Write};
use anabranch_host::{Backlog, Limits, Listening, Protocol};
use anabranch_net::{Application, Clock, Engine, Memory, Network};
use std::cell::RefCell;
use std::rc::Rc;

/// Calls of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Turn,
    Rest,
}

/// An application that writes messages, reads those of the other end, and records its calls.
struct Recorder {
    calls: Rc<RefCell<Vec<Call>>>,
    read: Rc<RefCell<Vec<u8>>>,
    unsent: Vec<Vec<u8>>,
}

impl Application for Recorder {
    fn event(&mut self, _: Event) {}

    fn turn(&mut self, socket: &mut Socket<'_>) -> bool {
        self.calls.borrow_mut().push(Call::Turn);
        let mut any = false;
        while let Some(message) = self.unsent.last_mut()
            && socket.write_message(message, Write::bytes(0)) > 0
        {
            self.unsent.pop();
            any = true;
        }
        while socket.read(u64::MAX, &mut self.read.borrow_mut()).is_some() {
            any = true;
        }
        any
    }

    fn rest(&mut self) {
        self.calls.borrow_mut().push(Call::Rest);
    }
}

fn engine(host: u8, end: Memory) -> Engine {
    let mut network = Network::new(Clock::new());
    network.add(end, &[Address::new([10, 0, 0, host].into(), 1500)]);
    Engine::new(network, Limits::default(), Secrets::new([host; 32]))
}

/// A transfer takes some milliseconds.
const END_TIME: Time = Time::from_nanos(60_000_000_000);

/// Two engines, of which the first sends messages over SCTP to a [`Recorder`] at the second.
struct Pair {
    engines: [Engine; 2],
    calls: Rc<RefCell<Vec<Call>>>,
    read: Rc<RefCell<Vec<u8>>>,
}

impl Pair {
    fn new(mut messages: Vec<Vec<u8>>) -> Self {
        let [near, far] = Memory::pair().expect("descriptors");
        let mut engines = [engine(1, near), engine(2, far)];
        let protocol = Protocol::Sctp(Box::default());
        let (calls, read) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(Vec::new())));
        let mut accepted =
            Some(Recorder { calls: Rc::clone(&calls), read: Rc::clone(&read), unsent: Vec::new() });
        let listening = Listening { protocol: protocol.clone(), port: 7, backlog: Backlog::default() };
        let acceptor = move || -> Box<dyn Application> { Box::new(accepted.take().expect("one client")) };
        engines[1].listen(listening, Box::new(acceptor)).expect("the port is free");
        messages.reverse();
        let writer = Recorder { calls: Rc::default(), read: Rc::default(), unsent: messages };
        engines[0].connect(&protocol, (&[[10, 0, 0, 2].into()], 7), writer).expect("a free port");
        Self { engines, calls, read }
    }

    /// One step of either engine.
    fn step(&mut self) {
        for engine in &mut self.engines {
            let limit = engine.now() + Duration::from_millis(1);
            engine.settle();
            engine.step(limit, None).expect("the kernel waits");
        }
        assert!(self.engines[0].now() < END_TIME, "{} bytes", self.read.borrow().len());
    }

    fn has_rested(&self) -> bool {
        self.calls.borrow().last() == Some(&Call::Rest)
    }
}

#[test]
fn application_rests_when_no_packet_is_left() {
    // Short messages, and long ones that are sent from their buffers.
    let messages: Vec<Vec<u8>> = (0..40_u8).rev().map(|n| vec![n; 1 + 400 * usize::from(n)]).collect();
    let expected = messages.concat();
    let mut pair = Pair::new(messages);
    let mut steps = 0;
    while pair.read.borrow().len() < expected.len() || !pair.has_rested() {
        pair.step();
        steps += 1;
    }
    assert!(*pair.read.borrow() == expected);
    let calls = pair.calls.borrow();
    let rests = calls.iter().filter(|&&call| call == Call::Rest).count();
    assert!(rests <= steps && !calls.windows(2).any(|two| two == [Call::Rest; 2]), "{calls:?}");
}

#[test]
fn application_rests_in_the_step_of_a_single_packet() {
    let mut pair = Pair::new(vec![vec![1]]);
    while pair.read.borrow().is_empty() {
        pair.step();
    }
    assert!(pair.has_rested(), "{:?}", pair.calls.borrow());
}

//! Runs the emulated network by the machine's clock.

use super::capture::Tap;
use super::control::{Control, Order};
use super::device::{Port, Scratch};
use super::error::OpenError;
use super::fragments::fragments;
use super::lateness::Lateness;
use super::middleboxes::Translations;
use super::network::{Arrived, EmulatedNetwork};
use super::packet::RawPacket;
use super::segments::Train;
use super::stack_port::{FlowEnd, Receiver, StackDevice, StackPort};
use crate::clock::{Clock, prefer_this_thread, timespec};
use crate::namespace::Namespace;
use crate::stack::Queue;
use crate::tunnel::Part;
use anabranch_base::time::{Duration, Time};
use anabranch_netem::Interface;
use anabranch_scenario::Scenario;
use anabranch_scenario::result::capture::{self, Mistake};
use anabranch_scenario::result::{
    DIRECTIONS, INTERVAL, LatenessResult, LinkResult, MiddleboxResult, RouterResult, Subject, Table,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Maximum number of packets read from a host before the next host is served.
const MAX_BATCH: usize = 64;

/// Packets that arrive within this time are passed to a host as one: the usual interrupt moderation of
/// network cards.
const COALESCE_TIME: Duration = Duration::from_micros(50);

/// Maximum duration of a sleep, so that the emulator notices a stop.
const MAX_SLEEP: Duration = Duration::from_millis(50);

/// The interface between the emulator and a host.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// The host's interface.
    pub interface: Interface,
    /// The network namespace of the host.
    pub namespace: Namespace,
    /// The name of the interface in that namespace.
    pub device: String,
}

/// Settings of the emulator.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Before an event is due, the emulator polls the clock for this long instead of sleeping: more exact,
    /// but it uses a whole core.
    pub spin: Duration,
    /// Folder for the lengths of the queues over time.
    pub trace: Option<PathBuf>,
    /// The link ends and flows to capture, and the file.
    pub pcap: Option<capture::Settings>,
}

/// Results of the emulator.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Directions of links, in the order of the scenario.
    pub links: Vec<LinkResult>,
    /// Middleboxes, in the order of the scenario.
    pub middleboxes: Vec<MiddleboxResult>,
    /// Results of routers with source routes.
    pub routers: Vec<RouterResult>,
    /// Delays of packets after their due time.
    pub lateness: LatenessResult,
    /// Packets to addresses without a route.
    pub unreachable: u64,
}

/// A scenario's network between interfaces of hosts, ready to run.
pub struct Emulator {
    scenario: Arc<Scenario>,
    network: EmulatedNetwork,
    attachments: Vec<Attachment>,
    ports: Vec<Port>,
    /// Next train for the host of each port, and the arrival time of its first packet.
    trains: Vec<(Time, Train)>,
    /// Port of each interface that belongs to a host.
    port_of: Vec<Option<usize>>,
    /// Ports of Anabranch's own stacks, each with its interface.
    stacks: Vec<(Interface, StackPort)>,
    /// Port of Anabranch's own stack at each interface.
    stack_of: Vec<Option<usize>>,
    /// The tunnels to the other machine of a testbed.
    part: Option<Part>,
    settings: Settings,
    lateness: Lateness,
    trace: Option<Trace>,
    /// Changes that a program requests during the run.
    orders: Arc<Queue<Order>>,
    /// Buffers for packets read from a host, and for arrivals.
    packets: Vec<RawPacket>,
    arrived: Vec<Arrived>,
    /// Packets that hosts lost before the start, because the queues of their interfaces were full.
    lost_before: u64,
}

impl Emulator {
    /// Creates the interfaces. They are down and have no addresses, until configured.
    ///
    /// # Errors
    ///
    /// The interface that cannot be created, or the file that cannot be written, and the reason.
    pub fn open(
        scenario: Arc<Scenario>,
        seed: u64,
        attachments: Vec<Attachment>,
        settings: Settings,
    ) -> Result<Self, OpenError> {
        let mut network = EmulatedNetwork::new(&scenario, seed)
            .map_err(|error| ("the network".to_owned(), io::Error::other(error.to_string())))?;
        if let Some(settings) = &settings.pcap {
            network.start_capture(Tap::create(settings, &scenario).map_err(|mistake| match mistake {
                Mistake::Unknown(sentence) => OpenError::Unknown(sentence),
                Mistake::File(error) => OpenError::Capture(settings.file.clone(), error),
            })?);
        }
        let mut port_of = vec![None; 2 * scenario.links.len()];
        let mut ports = Vec::with_capacity(attachments.len());
        let mut offloads = true;
        for (at, attachment) in attachments.iter().enumerate() {
            let Attachment { interface, namespace, device } = attachment;
            let link = &scenario.links[interface.link()];
            let model = [&link.forward, &link.reverse][interface.end()];
            let open = |offloads| Port::open(namespace, device, model.mtu as u16, offloads);
            // If the kernel lacks offloads, opening the first port fails, and all ports are opened without them.
            let port = match open(offloads) {
                Err(_) if ports.is_empty() => {
                    offloads = false;
                    open(offloads)
                }
                port => port,
            };
            ports.push(port.map_err(|error| (format!("the interface {device}"), error))?);
            port_of[interface.index()] = Some(at);
        }
        let trace = settings.trace.as_deref().map(|folder| Trace::create(folder, &scenario)).transpose();
        let trace = trace.map_err(|(path, error)| (path.display().to_string(), error))?;
        let orders = Queue::new().map_err(|error| ("the queue of changes".to_owned(), error))?;
        let lateness = Lateness::default();
        let trains = ports.iter().map(|_| (Time::ZERO, Train::default())).collect();
        let mut emulator = Self {
            scenario,
            network,
            attachments,
            trains,
            ports,
            stack_of: vec![None; port_of.len()],
            port_of,
            stacks: Vec::new(),
            part: None,
            settings,
            lateness,
            trace,
            orders,
            packets: Vec::new(),
            arrived: Vec::new(),
            lost_before: 0,
        };
        emulator.lost_before = emulator.lost();
        Ok(emulator)
    }

    /// Addresses and ports that translators change during the run.
    pub fn translations(&self) -> Translations {
        self.network.translations()
    }

    /// Attaches own stacks to interfaces of hosts, for these ends of flows. Returns their devices, in the order of the
    /// interfaces.
    ///
    /// # Errors
    ///
    /// If the process has no free descriptor.
    pub fn attach_stacks(&mut self, ends: BTreeMap<u32, Vec<FlowEnd>>) -> io::Result<Vec<StackDevice>> {
        let mut devices = Vec::with_capacity(ends.len());
        for (interface, ends) in ends {
            let interface = Interface(interface);
            let Some(port) = self.port_of[interface.index()] else { continue };
            let (stack, device) = StackPort::new(interface, self.ports[port].index(), ends)?;
            self.stack_of[interface.index()] = Some(self.stacks.len());
            self.stacks.push((interface, stack));
            devices.push(device);
        }
        Ok(devices)
    }

    /// Connects the network with that of another machine, which emulates the directions of links that begin there.
    pub fn join(&mut self, part: Part) {
        self.network.set_departures(part.outgoing());
        self.part = Some(part);
    }

    /// The tunnels to the other machine.
    pub const fn part(&mut self) -> Option<&mut Part> {
        self.part.as_mut()
    }

    /// Runs in a separate thread until `until`, or until it is stopped.
    pub fn start(mut self, clock: Clock, until: Time) -> Running {
        let elsewhere = self.part.as_ref().map(Part::elsewhere).unwrap_or_default();
        let control = Arc::new(Control::new(&self.scenario, elsewhere, (clock, Arc::clone(&self.orders))));
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let (tell, id) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            // The calling thread waits for this message.
            let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get());
            let result = self.run(clock, until, &told);
            self.orders.close();
            let outcome = self.outcome(clock.now().min(until));
            result.and(outcome)
        });
        let id = id.recv().unwrap_or_default();
        Running { stop, thread, id, control }
    }

    fn run(&mut self, clock: Clock, until: Time, stop: &AtomicBool) -> io::Result<()> {
        let result = self.run_until(clock, until, stop);
        if let Some(part) = &mut self.part {
            part.end(result.is_err());
        }
        match self.network.take_capture() {
            // A failed or stopped run leaves no capture.
            Some(tap) if result.is_ok() && !stop.load(Ordering::Relaxed) => tap.finish(),
            _ => result,
        }
    }

    fn run_until(&mut self, clock: Clock, until: Time, stop: &AtomicBool) -> io::Result<()> {
        prefer_this_thread();
        let mut scratch = Scratch::new();
        // Events exactly at the end do not belong to the run.
        let last = Time::from_nanos(until.as_nanos().saturating_sub(1));
        loop {
            let now = clock.now();
            if now >= until {
                return self.process_events(clock, last);
            }
            if stop.load(Ordering::Relaxed) || self.network.is_tap_broken() {
                return Ok(());
            }
            self.process_events(clock, now)?;
            self.carry_out_orders(clock, last)?;
            self.trace(now)?;
            for port in self.wait(clock, until)? {
                self.receive_from_host(port, clock, (last, &mut scratch))?;
            }
            self.receive_from_stacks(clock, last)?;
            self.receive_from_machine(clock, last)?;
        }
    }

    /// Applies the changes of links that callers have requested.
    fn carry_out_orders(&mut self, clock: Clock, last: Time) -> io::Result<()> {
        for Order { events, applied } in self.orders.take() {
            let now = clock.now().min(last);
            self.process_events(clock, now)?;
            for event in &events {
                self.network.apply(now, event);
            }
            // Ignore errors: the caller no longer waits.
            let _ = applied.send(now);
        }
        Ok(())
    }

    /// Passes the output of a host to the network.
    fn receive_from_host(
        &mut self,
        port: usize,
        clock: Clock,
        (last, scratch): (Time, &mut Scratch),
    ) -> io::Result<()> {
        let from = self.attachments[port].interface;
        let mut packets = core::mem::take(&mut self.packets);
        for _ in 0..MAX_BATCH {
            let Self { ports, network, .. } = self;
            let received =
                ports[port].receive(scratch, || network.buffer(), |packet| packets.push(packet))?;
            if !received {
                break;
            }
            let now = clock.now().min(last);
            self.process_events(clock, now)?;
            for packet in packets.drain(..) {
                self.network.send_packet(now, from, packet);
            }
        }
        self.packets = packets;
        Ok(())
    }

    /// Passes the output of Anabranch's own stacks to the network.
    fn receive_from_stacks(&mut self, clock: Clock, last: Time) -> io::Result<()> {
        for at in 0..self.stacks.len() {
            let (from, stack) = &self.stacks[at];
            let (from, packets) = (*from, stack.take());
            if packets.is_empty() {
                continue;
            }
            let now = clock.now().min(last);
            self.process_events(clock, now)?;
            for packet in packets {
                self.network.send(now, from, packet);
            }
        }
        Ok(())
    }

    /// Passes the packets of another machine to the network.
    fn receive_from_machine(&mut self, clock: Clock, last: Time) -> io::Result<()> {
        let Self { part: Some(part), network, .. } = self else { return Ok(()) };
        let mut received = Vec::new();
        let exchanged = part.exchange(|at, packet| {
            let mut bytes = network.buffer();
            bytes.extend_from_slice(packet);
            received.push((at.opposite(), bytes));
        });
        exchanged.map_err(|error| io::Error::new(io::ErrorKind::ConnectionAborted, error))?;
        if received.is_empty() {
            return Ok(());
        }
        let now = clock.now().min(last);
        self.process_events(clock, now)?;
        let mut arrived = core::mem::take(&mut self.arrived);
        for (direction, bytes) in received {
            self.network.arrive(now, direction, bytes, &mut |packet| arrived.push(packet));
        }
        self.deliver(clock, arrived)
    }

    /// Processes events until `now`, and delivers arrivals.
    fn process_events(&mut self, clock: Clock, now: Time) -> io::Result<()> {
        if self.network.next_timeout().is_none_or(|due| due > now) {
            return Ok(());
        }
        let mut arrived = core::mem::take(&mut self.arrived);
        self.network.advance(now, &mut |packet: Arrived| arrived.push(packet));
        self.deliver(clock, arrived)
    }

    /// Delivers arrivals to hosts and to the other machine.
    fn deliver(&mut self, clock: Clock, mut arrived: Vec<Arrived>) -> io::Result<()> {
        for Arrived { at, to, packet } in arrived.drain(..) {
            if let Some(part) = self.part.as_mut().filter(|part| part.leads_to(to)) {
                self.lateness.add(at, clock.now());
                send_to_machine(part, to.opposite(), &packet);
                self.network.recycle(packet.into_bytes());
                continue;
            }
            let Some(port) = self.port_of[to.index()] else {
                self.network.recycle(packet.into_bytes());
                continue;
            };
            self.lateness.add(at, clock.now());
            if let Some(stack) = self.stack_of[to.index()] {
                let (_, stack) = &self.stacks[stack];
                let receiver = stack.receiver(&packet);
                if receiver != Receiver::Kernel {
                    stack.deliver(&packet);
                }
                if receiver == Receiver::Stack {
                    self.network.recycle(packet.into_bytes());
                    continue;
                }
            }
            self.add_to_train(port, at, packet)?;
        }
        self.arrived = arrived;
        for port in 0..self.trains.len() {
            self.send_train(port)?;
        }
        Ok(())
    }

    /// Adds a packet to the train for its host. If the packet does not fit the train, the train is sent first.
    fn add_to_train(&mut self, port: usize, at: Time, packet: RawPacket) -> io::Result<()> {
        let (since, train) = &mut self.trains[port];
        let refused = if train.is_empty() || at.since(*since) <= COALESCE_TIME {
            if train.is_empty() {
                *since = at;
            }
            train.push(packet).err()
        } else {
            Some(packet)
        };
        let Some(packet) = refused else { return Ok(()) };
        self.send_train(port)?;
        self.add_to_train(port, at, packet)
    }

    /// Sends a host its train.
    fn send_train(&mut self, port: usize) -> io::Result<()> {
        let Self { trains, ports, network, .. } = self;
        let (_, train) = &mut trains[port];
        if train.is_empty() {
            return Ok(());
        }
        let sent = ports[port].send(train);
        train.drain().for_each(|packet| network.recycle(packet.into_bytes()));
        sent
    }

    /// Waits until a host has sent something or an event is due; returns the hosts that may have sent.
    fn wait(&self, clock: Clock, until: Time) -> io::Result<Vec<usize>> {
        let due = self.network.next_timeout().map_or(until, |due| due.min(until));
        let sleep = due.since(clock.now()).saturating_sub(self.settings.spin).min(MAX_SLEEP);
        let stacks = self.stacks.iter().map(|(_, stack)| stack.fd());
        let tunnels = self.part.iter().flat_map(Part::fds);
        let fds = self.ports.iter().map(Port::fd).chain(stacks).chain([self.orders.fd()]).chain(tunnels);
        let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match poll(&mut fds, Some(&timespec(sleep))) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready: Vec<_> = (0..fds.len()).filter(|&port| !fds[port].revents().is_empty()).collect();
        if ready.is_empty() {
            while due.since(clock.now()) > Duration::ZERO && due.since(clock.now()) <= self.settings.spin {
                core::hint::spin_loop();
            }
        }
        ready.retain(|&port| port < self.ports.len());
        Ok(ready)
    }

    fn trace(&mut self, now: Time) -> io::Result<()> {
        let Some(trace) = self.trace.as_mut().filter(|trace| trace.next <= now) else { return Ok(()) };
        trace.sample(now, &mut self.network).map_err(with_path)
    }

    fn outcome(&mut self, now: Time) -> io::Result<Outcome> {
        if let Some(mut trace) = self.trace.take() {
            trace.table.finish().map_err(with_path)?;
        }
        Ok(Outcome {
            links: self.network.links(now, &self.scenario),
            middleboxes: self.network.middleboxes(),
            routers: self.network.routers(),
            lateness: self.lateness.result(self.lost().saturating_sub(self.lost_before)),
            unreachable: self.network.unreachable(),
        })
    }

    /// Packets that hosts lost before the emulator read them, because the queues of their interfaces were full.
    fn lost(&self) -> u64 {
        let mut by_namespace: BTreeMap<&Path, (&Namespace, Vec<&str>)> = BTreeMap::new();
        for Attachment { namespace, device, .. } in &self.attachments {
            by_namespace.entry(namespace.path()).or_insert((namespace, Vec::new())).1.push(device);
        }
        let lost = by_namespace.values().map(|(namespace, devices)| {
            // A removed namespace has no counters.
            let text = namespace.run(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
            transmit_drops(&text.unwrap_or_default(), devices)
        });
        lost.sum::<u64>() + self.stacks.iter().map(|(_, stack)| stack.lost()).sum::<u64>()
    }
}

/// Sends a packet that has reached the end of a direction to the machine there, in fragments if it is too long.
fn send_to_machine(part: &mut Part, from: Interface, packet: &RawPacket) {
    let longest = part.longest(from);
    if packet.bytes().len() <= longest {
        return part.send(from, packet.version(), |out| packet.append_finished(out));
    }
    for fragment in fragments(packet, longest) {
        part.send(from, packet.version(), |out| out.extend_from_slice(&fragment));
    }
}

/// Adds the file's path to an error.
fn with_path((path, error): (PathBuf, io::Error)) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The sum of the transmit drops of some devices in `/proc/net/dev`.
fn transmit_drops(text: &str, devices: &[&str]) -> u64 {
    let of = |line: &str| {
        let (device, counters) = line.split_once(':')?;
        let counter = counters.split_whitespace().nth(11)?;
        devices.contains(&device.trim()).then(|| counter.parse::<u64>().ok())?
    };
    text.lines().filter_map(of).sum()
}

/// An emulator that runs.
pub struct Running {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<Outcome>>,
    id: i32,
    control: Arc<Control>,
}

impl Running {
    /// Access to the links of the emulator, to change them while it runs.
    pub fn control(&self) -> Arc<Control> {
        Arc::clone(&self.control)
    }

    /// The number of the emulator's thread, for setting its priority.
    pub const fn thread_id(&self) -> i32 {
        self.id
    }

    /// True if the emulator has ended, for example because the interface of a host was removed.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Stops the emulator if it still runs, and waits for its end.
    ///
    /// # Errors
    ///
    /// If an interface was removed meanwhile.
    ///
    /// # Panics
    /// If the emulator did.
    pub fn finish(self, now: bool) -> io::Result<Outcome> {
        self.stop.store(now, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Writes the lengths of the queues over time.
struct Trace {
    table: Table,
    names: Vec<String>,
    next: Time,
}

impl Trace {
    fn create(folder: &Path, scenario: &Scenario) -> Result<Self, (PathBuf, io::Error)> {
        std::fs::create_dir_all(folder).map_err(|error| (folder.to_owned(), error))?;
        let directions = |link: &str| DIRECTIONS.map(|direction| format!("{link},{direction}"));
        let names = scenario.links.iter().flat_map(|link| directions(&link.name)).collect();
        Ok(Self { table: Table::create(folder, "queues.csv", Table::QUEUES)?, names, next: Time::ZERO })
    }

    fn sample(&mut self, now: Time, network: &mut EmulatedNetwork) -> Result<(), (PathBuf, io::Error)> {
        for (index, (packets, bytes)) in network.queued(now).enumerate() {
            let subject = Subject { index, names: &self.names[index] };
            self.table.row(now, subject, &[Some(packets), Some(bytes)])?;
        }
        self.next = now + INTERVAL;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::transmit_drops;

    #[test]
    fn transmit_drops_are_read_from_proc_net_dev() {
        let text = "Inter-|   Receive  | Transmit\n face |bytes packets errs drop fifo frame compressed multicast|\
                    bytes packets errs drop fifo colls carrier compressed\n\
                    \x20   lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  alpha: 1 2 3 4 5 6 7 8 9 10 11 70 13 14 15 16\n";
        assert_eq!(transmit_drops(text, &["alpha"]), 70);
        assert_eq!(transmit_drops(text, &["alpha", "lo"]), 82);
        assert_eq!(transmit_drops("", &["alpha"]), 0);
    }
}

//! Associations over simulated links.

use super::*;
use crate::socks::wire::Target;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const MS: Duration = Duration::from_millis(1);
const PAYLOAD_BYTES: usize = 1200;

fn datagram(number: u64) -> Datagram {
    let mut payload = vec![0; PAYLOAD_BYTES];
    payload[..8].copy_from_slice(&number.to_be_bytes());
    Datagram { server: Target::Address(([192, 0, 2, 1], 443).into()), payload }
}

fn number_of(datagram: &Datagram) -> u64 {
    u64::from_be_bytes(datagram.payload[..8].try_into().expect("eight bytes"))
}

/// One direction of a link: a rate, a delay, a queue of 100 packets, and random losses.
struct Link {
    bytes_per_s: f64,
    delay: Duration,
    /// One packet in this number is lost; none if 0.
    loses_one_in: u64,
    is_down: bool,
    free_at: Instant,
    under_way: VecDeque<(Instant, Vec<u8>)>,
    rng: SplitMix64,
}

impl Link {
    fn new(mbit_per_s: f64, delay_ms: u32, loses_one_in: u64, now: Instant) -> Self {
        Self {
            bytes_per_s: mbit_per_s * 125_000.0,
            delay: delay_ms * MS,
            loses_one_in,
            is_down: false,
            free_at: now,
            under_way: VecDeque::new(),
            rng: SplitMix64::seed_from_u64(1),
        }
    }

    fn send(&mut self, bytes: Vec<u8>, now: Instant) {
        let time = Duration::from_secs_f64((bytes.len() + 28) as f64 / self.bytes_per_s);
        let start = self.free_at.max(now);
        let is_lost = self.loses_one_in > 0 && self.rng.next_u64().is_multiple_of(self.loses_one_in);
        if start - now <= 100 * time && !is_lost && !self.is_down {
            self.free_at = start + time;
            self.under_way.push_back((self.free_at + self.delay, bytes));
        }
    }

    fn arrived(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.under_way.front().filter(|(at, _)| *at <= now)?;
        self.under_way.pop_front().map(|(_, bytes)| bytes)
    }
}

/// Two proxies, and two links in each direction.
struct Network {
    ends: [Session; 2],
    /// Links by direction (from the first end, from the second) and path.
    links: [[Link; 2]; 2],
    now: Instant,
    received: Vec<(Duration, u64)>,
}

impl Network {
    fn new(loses_one_in: u64) -> Self {
        let now = Instant::now();
        let (client, far) = ([1; 16], [2; 16]);
        let near = Session::new(Keys::of_client(b"secret", &client, &far), 2, now);
        let other = Session::new(Keys::of_upstream(b"secret", &client, &far), 0, now);
        let links =
            [0, 1].map(|_| [Link::new(20.0, 10, loses_one_in, now), Link::new(10.0, 50, loses_one_in, now)]);
        Self { ends: [near, other], links, now, received: Vec::new() }
    }

    /// Makes a path fail, or work again, in both directions.
    fn set_down(&mut self, path: usize, is_down: bool) {
        for direction in &mut self.links {
            direction[path].is_down = is_down;
        }
    }

    /// Lets a millisecond pass; datagrams that arrive at the first end are stored.
    fn step(&mut self, begin: Instant) {
        self.now += MS;
        for (from, to) in [(0, 1), (1, 0)] {
            for path in 0..2 {
                while let Some(bytes) = self.links[from][path].arrived(self.now) {
                    self.ends[to].receive(&bytes, self.now);
                }
            }
        }
        for end in 0..2 {
            while let Some(datagram) = self.ends[end].next_datagram(self.now) {
                if end == 0 {
                    self.received.push((self.now - begin, number_of(&datagram)));
                }
            }
            while let Some((path, bytes)) = self.ends[end].next_frame(self.now) {
                self.links[end][path].send(bytes, self.now);
            }
        }
    }

    /// Sends datagrams from the second end at this rate for this time; returns the number sent.
    fn download(&mut self, mbit_per_s: f64, seconds: u32) -> u64 {
        let (begin, mut sent) = (self.now, 0);
        while self.now < begin + seconds * 1000 * MS {
            let due = (self.now - begin).as_secs_f64() * mbit_per_s * 125_000.0 / PAYLOAD_BYTES as f64;
            while (sent as f64) < due {
                sent += 1;
                self.ends[1].send(datagram(sent));
            }
            self.step(begin);
        }
        sent
    }

    fn rate(&self, from_s: u64, to_s: u64) -> f64 {
        let span = Duration::from_secs(from_s)..Duration::from_secs(to_s);
        let count = self.received.iter().filter(|(at, _)| span.contains(at)).count();
        (count * PAYLOAD_BYTES * 8) as f64 / 1e6 / (to_s - from_s) as f64
    }
}

#[test]
fn datagrams_fill_both_paths_in_order() {
    let mut network = Network::new(0);
    network.download(40.0, 10);
    // The links carry 30 Mbit/s, of which the frames' overhead of 69 bytes leaves 28.4.
    let rate = network.rate(3, 10);
    assert!(rate > 27.5, "{rate}");
    let disordered = network.received.windows(2).filter(|pair| pair[0].1 > pair[1].1).count();
    // Some are late while the queues of the links fill.
    assert!(disordered * 50 < network.received.len(), "{disordered}");
}

#[test]
fn slow_flow_uses_only_the_faster_path() {
    let mut network = Network::new(0);
    let sent = network.download(2.0, 3);
    assert!(network.received.len() as u64 > sent - 10);
    assert!(network.received.windows(2).all(|pair| pair[0].1 < pair[1].1));
    let used = network.ends[1].paths.iter().map(|path| path.reports[1] > 20).collect::<Vec<_>>();
    assert!(used[0] && !used[1], "{used:?}");
}

#[test]
fn lost_datagrams_are_neither_repeated_nor_awaited() {
    let mut network = Network::new(100);
    let sent = network.download(4.0, 10);
    let numbers: Vec<_> = network.received.iter().map(|(_, number)| *number).collect();
    let lost = sent - numbers.len() as u64;
    assert!((sent / 300..sent / 40).contains(&lost), "{lost} of {sent}");
    let mut once = numbers.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), numbers.len());
}

#[test]
fn failed_path_is_left_and_used_again() {
    let mut network = Network::new(0);
    network.download(15.0, 2);
    network.set_down(0, true);
    network.received.clear();
    network.download(8.0, 5);
    let rate = network.rate(2, 5);
    assert!(rate > 7.5, "{rate}");
    assert!(!network.ends[1].paths[0].is_alive && network.ends[1].has_usable_path());
    network.set_down(0, false);
    network.received.clear();
    network.download(15.0, 5);
    let rate = network.rate(3, 5);
    assert!(rate > 14.0, "{rate}");
    network.set_down(0, true);
    network.set_down(1, true);
    network.download(1.0, 2);
    assert!(!network.ends[1].has_usable_path());
    // Waiting datagrams are handed back, so that they can be sent in the stream.
    network.ends[1].send(datagram(1));
    assert_eq!(
        std::iter::from_fn(|| network.ends[1].take_unsent()).last().map(|last| number_of(&last)),
        Some(1)
    );
}

/// A repeated frame has no effect, whatever its source.
#[test]
fn repeated_frame_is_dropped() {
    let mut network = Network::new(0);
    network.download(1.0, 1);
    // All frames under way arrive.
    network.download(0.0, 1);
    network.ends[1].send(datagram(7));
    let now = network.now;
    let (path, bytes) = network.ends[1].next_frame(now).expect("a frame");
    assert_eq!(network.ends[0].receive(&bytes, now), Some(path));
    assert_eq!(network.ends[0].receive(&bytes, now), None);
    assert_eq!(std::iter::from_fn(|| network.ends[0].next_datagram(now)).count(), 1);
    let probe_at = now + KEEP_ALIVE_INTERVAL;
    let (path, probe) = network.ends[0].next_frame(probe_at).expect("a probe");
    assert_eq!(network.ends[1].receive(&probe, probe_at), Some(path));
    assert_eq!(network.ends[1].receive(&probe, probe_at), None);
    assert_eq!(network.ends[1].receive(&[0; 100], probe_at), None);
}

//! Probes over each uplink, because a path may be dead although the interface has a carrier.

use super::netlink::Socket;
use super::routing;
use crate::config::ProbeTarget;
use crate::proxy_check::probe_proxy;
use core::net::{IpAddr, SocketAddr};
use socket2::SockRef;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::time::Duration;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// Number of probes in the time `dead_after`.
const PROBES_PER_DEAD_AFTER: u32 = 3;
/// Interval of probes while the uplinks are idle. It is longer, because the traffic of probes may cost money.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);
/// With at least this number of bytes between two checks, the uplinks count as in use. A probe takes about 400 bytes
/// per uplink.
const MIN_USE_BYTES: u64 = 5_000;
/// Maximum time to wait for an answer. The kernel sends three SYNs in this time.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Answer time that is assumed until the first answer arrives.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of latest answers that are stored. The median of their times is the usual answer time.
const MAX_ANSWERS: usize = 7;
/// Number of answers after which a dead uplink is alive again. A single answer is not enough, because it may be a late
/// one.
const ANSWERS_TO_RECOVER: u32 = 2;

/// State of the probes from one local address.
#[derive(Debug)]
struct ProbedAddress {
    interface: String,
    /// Time of the first probe since the last answer; `None` if no probe is unanswered.
    first_unanswered_at: Option<Instant>,
    /// Times that the latest answers took.
    took: VecDeque<Duration>,
    /// Time at which the uplink was found dead, and the number of answers since then; `None` while it is alive.
    silent: Option<(Instant, u32)>,
}

impl ProbedAddress {
    const fn new(interface: String) -> Self {
        Self { interface, first_unanswered_at: None, took: VecDeque::new(), silent: None }
    }

    fn record_probe(&mut self, now: Instant) {
        self.first_unanswered_at.get_or_insert(now);
    }

    fn record_answer(&mut self, took: Duration) {
        self.first_unanswered_at = None;
        if self.took.len() == MAX_ANSWERS {
            self.took.pop_front();
        }
        self.took.push_back(took);
        if let Some((_, answers)) = &mut self.silent {
            *answers += 1;
        }
    }

    /// Returns the time without an answer after which the uplink is considered dead: `dead_after`, or twice the usual
    /// answer time if that is longer, as behind a full queue.
    fn answer_timeout(&self, dead_after: Duration) -> Duration {
        let mut took: Vec<_> = self.took.iter().copied().collect();
        took.sort_unstable();
        let usual = took.get(took.len() / 2).copied().unwrap_or(FIRST_ANSWER_TIMEOUT);
        dead_after.max(usual.saturating_mul(2))
    }

    /// Updates the state; returns true if it changed.
    fn update(&mut self, now: Instant, dead_after: Duration) -> bool {
        let answer_timeout = self.answer_timeout(dead_after);
        match (self.silent, self.first_unanswered_at) {
            (None, Some(first_unanswered_at))
                if now.duration_since(first_unanswered_at) >= answer_timeout =>
            {
                self.silent = Some((now, 0));
                self.took.clear();
                true
            }
            (Some((_, answers)), _) if answers >= ANSWERS_TO_RECOVER => {
                self.silent = None;
                true
            }
            _ => false,
        }
    }

    /// True if the next answers may change the state.
    fn is_in_doubt(&self) -> bool {
        self.silent.map_or(self.first_unanswered_at.is_some(), |(_, answers)| answers > 0)
    }
}

/// Local address and answer time of a probe that has ended; the time is `None` if there was no answer.
type Ended = (IpAddr, Option<Duration>);

/// Probes over all uplinks.
#[derive(Debug)]
pub struct Probes {
    targets: Vec<ProbeTarget>,
    dead_after: Duration,
    links: Socket,
    address_state: BTreeMap<IpAddr, ProbedAddress>,
    running: JoinSet<Ended>,
    check_at: Instant,
    probe_at: Instant,
    /// Sum of the byte counters of all links at the last check.
    carried: u64,
}

impl Probes {
    /// Creates probes of these targets. An uplink without an answer for `dead_after` is considered dead.
    ///
    /// # Errors
    ///
    /// If no netlink socket can be opened.
    pub fn new(targets: Vec<ProbeTarget>, dead_after: Duration) -> io::Result<Self> {
        let now = Instant::now();
        let links = Socket::open(None)?;
        let (address_state, running) = (BTreeMap::new(), JoinSet::new());
        Ok(Self {
            targets,
            dead_after,
            links,
            address_state,
            running,
            check_at: now,
            probe_at: now,
            carried: 0,
        })
    }

    /// Sets the local addresses, and their interfaces, from which probes are sent from now on.
    pub fn watch(&mut self, addresses: &BTreeMap<IpAddr, String>) {
        self.address_state
            .retain(|from, address_state| addresses.get(from) == Some(&address_state.interface));
        for (from, interface) in addresses {
            if self.targets.iter().any(|to| to.address.is_ipv4() == from.is_ipv4()) {
                self.address_state.entry(*from).or_insert_with(|| ProbedAddress::new(interface.clone()));
            }
        }
    }

    /// Returns the addresses of uplinks that are considered dead.
    pub fn silent(&self) -> BTreeSet<IpAddr> {
        let silent =
            |(address, address_state): (&IpAddr, &ProbedAddress)| address_state.silent.map(|_| *address);
        self.address_state.iter().filter_map(silent).collect()
    }

    /// Waits until an uplink is found dead or alive again. Cancel-safe.
    pub async fn changed(&mut self) {
        loop {
            tokio::select! {
                () = sleep_until(self.check_at) => self.send_due_probes(Instant::now()),
                Some(ended) = self.running.join_next() => {
                    if let Ok((address, Some(took))) = ended && let Some(address_state) = self.address_state.get_mut(&address) {
                        address_state.record_answer(took);
                    }
                }
            }
            let (now, dead_after) = (Instant::now(), self.dead_after);
            let mut changed = false;
            for address_state in self.address_state.values_mut() {
                changed |= address_state.update(now, dead_after);
            }
            if changed {
                return;
            }
        }
    }

    /// Sends probes if they are due.
    fn send_due_probes(&mut self, now: Instant) {
        self.check_at = now + self.dead_after / PROBES_PER_DEAD_AFTER;
        // If the kernel's counters cannot be read, the uplinks count as in use.
        let carried = routing::links(&mut self.links)
            .map_or(u64::MAX, |links| links.iter().map(|link| link.carried).fold(0, u64::wrapping_add));
        let in_use = carried.wrapping_sub(self.carried) >= MIN_USE_BYTES;
        self.carried = carried;
        if in_use || now >= self.probe_at || self.address_state.values().any(ProbedAddress::is_in_doubt) {
            self.probe_at = now + IDLE_INTERVAL;
            for (&from, address_state) in &mut self.address_state {
                address_state.record_probe(now);
                for &to in self.targets.iter().filter(|to| to.address.is_ipv4() == from.is_ipv4()) {
                    self.running.spawn(probe(address_state.interface.clone(), from, to));
                }
            }
        }
    }
}

/// Probes a target: opens a connection and resets it. From an Anabranch proxy, only a valid answer counts, because a
/// captive portal may send the SYN+ACK. From other targets, a refusal of the connection counts as well. The socket is
/// bound to the interface, as subflows of an endpoint are, so that other routes have no influence.
async fn probe(interface: String, from: IpAddr, ProbeTarget { address: to, expected }: ProbeTarget) -> Ended {
    let begin = Instant::now();
    let connect = async {
        let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.bind_device(Some(interface.as_bytes()))?;
        socket.bind(SocketAddr::new(from, 0))?;
        let stream = socket.connect(to).await?;
        SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
        match expected {
            Some(expected) => probe_proxy(&stream, expected).await,
            None => Ok(true),
        }
    };
    let answered = match timeout(PROBE_TIMEOUT, connect).await {
        Ok(Err(error)) => error.kind() == io::ErrorKind::ConnectionRefused,
        Ok(Ok(is_valid)) => is_valid,
        Err(_) => false,
    };
    (from, answered.then(|| begin.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns the time `millis` milliseconds after `begin`.
    fn after(begin: Instant, millis: u64) -> Instant {
        begin + Duration::from_millis(millis)
    }

    #[test]
    fn silence_begins_with_first_unanswered_probe() {
        let (begin, mut address_state) = (Instant::now(), ProbedAddress::new(String::new()));
        for round in 0..10 {
            address_state.record_probe(after(begin, 300 * round));
            address_state.record_answer(Duration::from_millis(20));
        }
        for (millis, silent) in
            [(3_000, false), (3_300, false), (3_999, false), (4_000, true), (4_300, false)]
        {
            address_state.record_probe(after(begin, millis));
            assert_eq!(address_state.update(after(begin, millis), SECOND), silent, "{millis}");
        }
        assert!(address_state.silent.is_some() && !address_state.is_in_doubt());
        address_state.record_answer(Duration::from_millis(20));
        assert!(!address_state.update(after(begin, 5_000), SECOND) && address_state.is_in_doubt());
        address_state.record_answer(Duration::from_millis(20));
        assert!(address_state.update(after(begin, 5_300), SECOND) && address_state.silent.is_none());
    }

    #[test]
    fn link_with_long_delays_is_not_dead() {
        let (begin, mut address_state) = (Instant::now(), ProbedAddress::new(String::new()));
        // The first probe has no answer yet.
        address_state.record_probe(begin);
        assert!(!address_state.update(after(begin, 1_900), SECOND));
        for took in [20, 1_500, 1_400, 30, 1_600] {
            address_state.record_answer(Duration::from_millis(took));
        }
        assert_eq!(address_state.answer_timeout(SECOND), Duration::from_millis(2_800));
        address_state.record_probe(after(begin, 5_000));
        assert!(
            !address_state.update(after(begin, 7_700), SECOND)
                && address_state.update(after(begin, 7_800), SECOND)
        );
    }

    #[tokio::test]
    async fn refusal_counts_as_answer() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = listener.local_addr().unwrap();
        let from = target.ip();
        let answers =
            async |interface: &str, from| probe(interface.to_owned(), from, target.into()).await.1.is_some();
        assert!(answers("lo", from).await);
        drop(listener);
        assert!(answers("lo", from).await);
        // Probes from an address that is not local, and over an interface that does not exist, fail.
        assert!(!answers("lo", "192.0.2.1".parse().unwrap()).await && !answers("none-such", from).await);
    }
}

//! Probes over each uplink: a link may be dead further on while its carrier is up.

use super::netlink::Socket;
use super::routing;
use crate::config::ProbeTarget;
use crate::proxy_check::is_answered;
use core::net::{IpAddr, SocketAddr};
use socket2::SockRef;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::time::Duration;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// Questions in the time after which silence means that nothing gets through.
const PROBES_PER_SILENCE: u32 = 3;
/// Interval of probes while the uplinks are idle: their traffic may cost money.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);
/// Bytes from one look to the next that count as use. A probe takes about 400 on each uplink.
const MIN_USE_BYTES: u64 = 5_000;
/// An answer is waited for no longer: the kernel asks three times in this time.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for the first answer.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Answers whose median counts as the usual time.
const MAX_ANSWERS: usize = 7;
/// So many answers, and an uplink carries again: one alone may have been on its way for long.
const ANSWERS_TO_RECOVER: u32 = 2;

/// Results of the probes from an address.
#[derive(Debug)]
struct Watched {
    interface: String,
    /// Time of the first probe without an answer.
    asked: Option<Instant>,
    /// How long the last answers took.
    took: VecDeque<Duration>,
    /// Since when nothing gets through, and how many answers have come nevertheless.
    silent: Option<(Instant, u32)>,
}

impl Watched {
    const fn new(interface: String) -> Self {
        Self { interface, asked: None, took: VecDeque::new(), silent: None }
    }

    fn asked(&mut self, now: Instant) {
        self.asked.get_or_insert(now);
    }

    fn answered(&mut self, took: Duration) {
        self.asked = None;
        if self.took.len() == MAX_ANSWERS {
            self.took.pop_front();
        }
        self.took.push_back(took);
        if let Some((_, answers)) = &mut self.silent {
            *answers += 1;
        }
    }

    /// For how long an answer may be missing: where they take long, as behind a full queue, there is silence before the first.
    fn patience(&self, dead_after: Duration) -> Duration {
        let mut took: Vec<_> = self.took.iter().copied().collect();
        took.sort_unstable();
        let usual = took.get(took.len() / 2).copied().unwrap_or(FIRST_ANSWER_TIMEOUT);
        dead_after.max(usual.saturating_mul(2))
    }

    /// Draws the conclusion; true if it is a new one.
    fn judge(&mut self, now: Instant, dead_after: Duration) -> bool {
        let patience = self.patience(dead_after);
        match (self.silent, self.asked) {
            (None, Some(asked)) if now.duration_since(asked) >= patience => {
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

    /// Something is under way that the next answers decide.
    fn is_in_doubt(&self) -> bool {
        self.silent.map_or(self.asked.is_some(), |(_, answers)| answers > 0)
    }
}

/// An answer, or that there was none.
type Ended = (IpAddr, Option<Duration>);

/// The questions that are asked.
#[derive(Debug)]
pub struct Probes {
    targets: Vec<ProbeTarget>,
    dead_after: Duration,
    links: Socket,
    watched: BTreeMap<IpAddr, Watched>,
    under_way: JoinSet<Ended>,
    look_at: Instant,
    ask_at: Instant,
    /// Bytes of all links at the last look.
    carried: u64,
}

impl Probes {
    /// Probes these targets. An uplink without an answer for `dead_after` counts as dead.
    ///
    /// # Errors
    ///
    /// If the kernel has no socket for it.
    pub fn new(targets: Vec<ProbeTarget>, dead_after: Duration) -> io::Result<Self> {
        let now = Instant::now();
        let links = Socket::open(None)?;
        let (watched, under_way) = (BTreeMap::new(), JoinSet::new());
        Ok(Self { targets, dead_after, links, watched, under_way, look_at: now, ask_at: now, carried: 0 })
    }

    /// Asks from these addresses of interfaces from now on.
    pub fn watch(&mut self, addresses: &BTreeMap<IpAddr, String>) {
        self.watched.retain(|from, watched| addresses.get(from) == Some(&watched.interface));
        for (from, interface) in addresses {
            if self.targets.iter().any(|to| to.address.is_ipv4() == from.is_ipv4()) {
                self.watched.entry(*from).or_insert_with(|| Watched::new(interface.clone()));
            }
        }
    }

    /// The addresses from which nothing gets through.
    pub fn silent(&self) -> BTreeSet<IpAddr> {
        let silent = |(address, watched): (&IpAddr, &Watched)| watched.silent.map(|_| *address);
        self.watched.iter().filter_map(silent).collect()
    }

    /// Waits until an address falls silent or answers again. Cancel-safe.
    pub async fn changed(&mut self) {
        loop {
            tokio::select! {
                () = sleep_until(self.look_at) => self.look(Instant::now()),
                Some(ended) = self.under_way.join_next() => {
                    if let Ok((address, Some(took))) = ended && let Some(watched) = self.watched.get_mut(&address) {
                        watched.answered(took);
                    }
                }
            }
            let (now, dead_after) = (Instant::now(), self.dead_after);
            let mut changed = false;
            for watched in self.watched.values_mut() {
                changed |= watched.judge(now, dead_after);
            }
            if changed {
                return;
            }
        }
    }

    /// Asks, if it is time to.
    fn look(&mut self, now: Instant) {
        self.look_at = now + self.dead_after / PROBES_PER_SILENCE;
        // If the counters cannot be read, the uplinks count as used.
        let carried = routing::links(&mut self.links)
            .map_or(u64::MAX, |links| links.iter().map(|link| link.carried).fold(0, u64::wrapping_add));
        let in_use = carried.wrapping_sub(self.carried) >= MIN_USE_BYTES;
        self.carried = carried;
        if in_use || now >= self.ask_at || self.watched.values().any(Watched::is_in_doubt) {
            self.ask_at = now + IDLE_INTERVAL;
            for (&from, watched) in &mut self.watched {
                watched.asked(now);
                for &to in self.targets.iter().filter(|to| to.address.is_ipv4() == from.is_ipv4()) {
                    self.under_way.spawn(ask(watched.interface.clone(), from, to));
                }
            }
        }
    }
}

/// Begins a connection and resets it. A proxy of ours has to give a valid answer on it, since a SYN+ACK may be of a portal. A
/// refusal is an answer, too. Packets leave by the interface whatever the routes are, as those of subflows do whose endpoint has
/// one.
async fn ask(interface: String, from: IpAddr, ProbeTarget { address: to, expected }: ProbeTarget) -> Ended {
    let begin = Instant::now();
    let connect = async {
        let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.bind_device(Some(interface.as_bytes()))?;
        socket.bind(SocketAddr::new(from, 0))?;
        let stream = socket.connect(to).await?;
        SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
        match expected {
            Some(expected) => is_answered(&stream, expected).await,
            None => Ok(true),
        }
    };
    let answered = match timeout(PROBE_TIMEOUT, connect).await {
        Ok(Err(error)) => error.kind() == io::ErrorKind::ConnectionRefused,
        Ok(Ok(is_answered)) => is_answered,
        Err(_) => false,
    };
    (from, answered.then(|| begin.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn after(begin: Instant, millis: u64) -> Instant {
        begin + Duration::from_millis(millis)
    }

    #[test]
    fn silence_begins_with_first_unanswered_probe() {
        let (begin, mut watched) = (Instant::now(), Watched::new(String::new()));
        for round in 0..10 {
            watched.asked(after(begin, 300 * round));
            watched.answered(Duration::from_millis(20));
        }
        for (millis, silent) in
            [(3_000, false), (3_300, false), (3_999, false), (4_000, true), (4_300, false)]
        {
            watched.asked(after(begin, millis));
            assert_eq!(watched.judge(after(begin, millis), SECOND), silent, "{millis}");
        }
        assert!(watched.silent.is_some() && !watched.is_in_doubt());
        watched.answered(Duration::from_millis(20));
        assert!(!watched.judge(after(begin, 5_000), SECOND) && watched.is_in_doubt());
        watched.answered(Duration::from_millis(20));
        assert!(watched.judge(after(begin, 5_300), SECOND) && watched.silent.is_none());
    }

    #[test]
    fn a_link_of_long_delays_is_not_silent_for_that() {
        let (begin, mut watched) = (Instant::now(), Watched::new(String::new()));
        // Nothing is known yet.
        watched.asked(begin);
        assert!(!watched.judge(after(begin, 1_900), SECOND));
        for took in [20, 1_500, 1_400, 30, 1_600] {
            watched.answered(Duration::from_millis(took));
        }
        assert_eq!(watched.patience(SECOND), Duration::from_millis(2_800));
        watched.asked(after(begin, 5_000));
        assert!(!watched.judge(after(begin, 7_700), SECOND) && watched.judge(after(begin, 7_800), SECOND));
    }

    #[tokio::test]
    async fn refusal_counts_as_answer() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = listener.local_addr().unwrap();
        let from = there.ip();
        let answers =
            async |interface: &str, from| ask(interface.to_owned(), from, there.into()).await.1.is_some();
        assert!(answers("lo", from).await);
        drop(listener);
        assert!(answers("lo", from).await);
        // An address that is not ours, and an interface that is not there.
        assert!(!answers("lo", "192.0.2.1".parse().unwrap()).await && !answers("none-such", from).await);
    }
}

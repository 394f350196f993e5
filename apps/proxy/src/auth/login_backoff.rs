//! Delays login attempts after failures, to slow down password guessing. Attempts from one address run one after
//! another, with increasing delays. A second limit applies to the failures from all addresses together. A user who has
//! recently logged in from an address is not delayed by failures of other users at this address.

use crate::network::Network;
use core::net::IpAddr;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Delay after the first failure; it doubles with each further failure.
const FIRST_DELAY: Duration = Duration::from_millis(250);
/// Maximum delay between two attempts.
const MAX_DELAY: Duration = Duration::from_secs(30);
/// The failure counts of an address are reset at this time after its last failure.
const FAILURE_LIFETIME: Duration = Duration::from_secs(600);
/// Maximum number of stored sources. When it is exceeded, the source with the earliest next attempt is removed.
const MAX_SOURCES: usize = 4096;
/// Prefix length of a site's IPv6 network (RFC 6177), and the number of its /64 networks with failures from which the whole
/// site is delayed. A site has 65,536 /64 networks.
const SITE_BITS: u8 = 48;
const GUESSING_SOURCES_PER_LEVEL: usize = 16;
/// Maximum number of failures from all sources without delay, and the interval after which one more is permitted.
const MAX_FREE: u32 = 100;
const FREE_INTERVAL: Duration = Duration::from_millis(100);
/// Time after a successful login during which the user is known at this source.
const KNOWN_TIME: Duration = Duration::from_secs(3600);
/// Maximum number of stored pairs of user and source. When it is exceeded, the pair with the oldest successful login is
/// removed.
const MAX_KNOWN: usize = 4096;
/// Maximum delay between two attempts of a known user.
const MAX_KNOWN_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of users per source whose failures are counted separately.
const MAX_NAMES: usize = 8;

#[derive(Default)]
struct FailureCounts {
    /// Consecutive failures of each user name, including names that do not exist.
    by_user: BTreeMap<Vec<u8>, u32>,
    /// Failures of users beyond [`MAX_NAMES`].
    others: u32,
}

impl FailureCounts {
    fn total(&self) -> u32 {
        self.by_user.values().fold(self.others, |sum, &wrong| sum.saturating_add(wrong))
    }

    /// Counts a failed login of a user.
    fn count(&mut self, user: &[u8]) {
        let full = self.by_user.len() >= MAX_NAMES && !self.by_user.contains_key(user);
        let wrong = if full { &mut self.others } else { self.by_user.entry(user.to_vec()).or_default() };
        *wrong = wrong.saturating_add(1);
    }
}

struct Source {
    wrong: FailureCounts,
    /// Time of the last failure.
    last: Instant,
    /// Earliest time of the next attempt.
    next: Instant,
}

/// A user who logged in from a source.
struct Known {
    /// Time of the last successful login.
    right: Instant,
    /// Failures since the last successful login.
    wrong: u32,
    /// Earliest time of the next attempt.
    next: Instant,
}

/// A permitted login attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledAttempt {
    /// Earliest time of the attempt.
    pub at: Instant,
    /// True if the attempt is counted as a failure in the limit for all sources until it succeeds.
    is_counted: bool,
}

/// Delays of sources and sites with failures.
#[derive(Default)]
pub struct Penalties {
    known: BTreeMap<(Network, Vec<u8>), Known>,
    /// Time at which the limit for all sources is full again. Each counted attempt moves it by [`FREE_INTERVAL`].
    budget_full_at: Option<Instant>,
    sources: BTreeMap<Network, Source>,
    /// Earliest time of the next attempt, for sites with failures from many sources.
    sites: BTreeMap<Network, Instant>,
}

impl Penalties {
    /// Schedules an attempt of a user from an address; `None` if it could not start before `deadline`. Concurrent
    /// attempts are scheduled one after another, before their results are known.
    pub fn schedule_attempt(
        &mut self,
        address: IpAddr,
        user: &[u8],
        now: Instant,
        deadline: Instant,
    ) -> Option<ScheduledAttempt> {
        let pair = (Network::of_host(address), user.to_vec());
        if let Some(known) = self.known.get_mut(&pair).filter(|known| known.is_valid(now)) {
            let at = known.next.max(now);
            if at > now && at >= deadline {
                return None;
            }
            if known.wrong > 0 {
                known.next = at + delay_after(known.wrong).min(MAX_KNOWN_DELAY);
            }
            return Some(ScheduledAttempt { at, is_counted: false });
        }
        let guessing_site = self.guessing_site(address, now);
        let site = guessing_site.and_then(|(site, _)| self.sites.get(&site).copied());
        let source = self.sources.get_mut(&Network::of_host(address)).filter(|source| source.is_known(now));
        let free = self.budget_full_at.and_then(|total| total.checked_sub(MAX_FREE * FREE_INTERVAL));
        let scheduled =
            source.iter().map(|source| source.next).chain(site).chain(free).fold(now, Instant::max);
        if scheduled > now && scheduled >= deadline {
            return None;
        }
        if let Some(source) = source {
            source.next = scheduled + delay_after(source.wrong.total());
        }
        if let Some((site, level)) = guessing_site {
            self.sites.retain(|_, next| now.saturating_duration_since(*next) < FAILURE_LIFETIME);
            self.sites.insert(site, scheduled + delay_after(level));
        }
        self.budget_full_at =
            Some(self.budget_full_at.map_or(scheduled, |total| total.max(scheduled)) + FREE_INTERVAL);
        Some(ScheduledAttempt { at: scheduled, is_counted: true })
    }

    /// Ends an attempt that did not fail: it no longer counts as a failure in the limit for all sources.
    pub fn release(&mut self, scheduled: ScheduledAttempt) {
        if scheduled.is_counted {
            self.budget_full_at = self.budget_full_at.and_then(|total| total.checked_sub(FREE_INTERVAL));
        }
    }

    /// Returns the site of an address and its delay level, if many of the site's sources have failures.
    fn guessing_site(&self, address: IpAddr, now: Instant) -> Option<(Network, u32)> {
        let address = address.to_canonical();
        let site = Some(Network::of(address, SITE_BITS)).filter(|_| address.is_ipv6())?;
        let has_failures = |(network, source): &(&Network, &Source)| {
            site.contains(network.address()) && source.is_known(now)
        };
        let level = self.sources.iter().filter(has_failures).count() / GUESSING_SOURCES_PER_LEVEL;
        (level > 0).then_some((site, level as u32))
    }

    /// Records a failed login of a user from an address; returns the number of failures of this address.
    pub fn record_failure(&mut self, address: IpAddr, user: &[u8], now: Instant) -> u32 {
        if let Some(known) = self.known.get_mut(&(Network::of_host(address), user.to_vec())) {
            known.wrong = known.wrong.saturating_add(1);
            known.next = known.next.max(now + delay_after(known.wrong).min(MAX_KNOWN_DELAY));
        }
        self.sources.retain(|_, source| source.is_known(now));
        if self.sources.len() >= MAX_SOURCES {
            let first =
                self.sources.iter().min_by_key(|(_, source)| source.next).map(|(&network, _)| network);
            first.and_then(|first| self.sources.remove(&first));
        }
        let fresh = Source { wrong: FailureCounts::default(), last: now, next: now };
        let source = self.sources.entry(Network::of_host(address)).or_insert(fresh);
        source.wrong.count(user);
        source.last = now;
        let total = source.wrong.total();
        source.next = source.next.max(now + delay_after(total));
        total
    }

    /// Records a successful login of a user from an address, and removes this user's failures. Failures of other users stay:
    /// otherwise a client with one valid password could guess other passwords without delay.
    pub fn record_success(&mut self, address: IpAddr, user: &[u8], now: Instant) {
        let network = Network::of_host(address);
        self.remember(network, user, now);
        let Some(source) = self.sources.get_mut(&network) else { return };
        let forgiven = source.wrong.by_user.remove(user).is_some();
        match source.wrong.total() {
            0 => drop(self.sources.remove(&network)),
            left if forgiven => source.next = source.next.min(now + delay_after(left)),
            _ => {}
        }
    }
}

impl Penalties {
    /// Stores that a user has logged in from a source.
    fn remember(&mut self, network: Network, user: &[u8], now: Instant) {
        let pair = (network, user.to_vec());
        if self.known.len() >= MAX_KNOWN && !self.known.contains_key(&pair) {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.right).map(|(pair, _)| pair.clone());
            oldest.and_then(|oldest| self.known.remove(&oldest));
        }
        self.known.insert(pair, Known { right: now, wrong: 0, next: now });
    }
}

impl Known {
    fn is_valid(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.right) < KNOWN_TIME
    }
}

impl Source {
    fn is_known(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) < FAILURE_LIFETIME
    }
}

fn delay_after(wrong: u32) -> Duration {
    FIRST_DELAY.saturating_mul(1 << wrong.saturating_sub(1).min(16)).min(MAX_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: &[u8] = b"alice";
    const HERE: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 1));

    /// Schedules an attempt with a late deadline, and returns its time.
    fn attempt_time_of(penalties: &mut Penalties, user: &[u8], address: IpAddr, now: Instant) -> Instant {
        penalties
            .schedule_attempt(address, user, now, now + 2 * MAX_DELAY)
            .expect("the deadline is late enough")
            .at
    }

    fn attempt_time(penalties: &mut Penalties, address: IpAddr, now: Instant) -> Instant {
        attempt_time_of(penalties, USER, address, now)
    }

    #[test]
    fn known_user_is_not_delayed_by_others() {
        let (mut penalties, now) = (Penalties::default(), Instant::now());
        penalties.record_success(HERE, USER, now);
        for _ in 0..65 {
            penalties.record_failure(HERE, b"bob", now);
            assert_eq!(attempt_time(&mut penalties, HERE, now), now);
            penalties.record_success(HERE, USER, now);
        }
        assert_eq!(attempt_time_of(&mut penalties, b"bob", HERE, now), now + MAX_DELAY);
        // The user is not known at another address.
        let other = IpAddr::from([192, 0, 2, 2]);
        penalties.record_failure(other, b"bob", now);
        assert!(attempt_time(&mut penalties, other, now) > now);
        // Failures of the known user cause a delay of at most MAX_KNOWN_DELAY.
        for _ in 0..20 {
            penalties.record_failure(HERE, USER, now);
        }
        assert_eq!(attempt_time(&mut penalties, HERE, now), now + MAX_KNOWN_DELAY);
        let later = now + KNOWN_TIME;
        penalties.record_failure(HERE, b"bob", later);
        assert!(attempt_time(&mut penalties, HERE, later) > later);
        for number in 0..MAX_KNOWN as u32 + 100 {
            penalties.record_success(IpAddr::V4(core::net::Ipv4Addr::from_bits(number)), USER, later);
        }
        assert_eq!(penalties.known.len(), MAX_KNOWN);
    }

    #[test]
    fn guesses_of_all_sources_are_limited() {
        let (mut penalties, now) = (Penalties::default(), Instant::now());
        let source = |number: u32| IpAddr::V4(core::net::Ipv4Addr::from_bits(0x0a00_0000 + number));
        let deadline = now + Duration::from_secs(10);
        let times: Vec<_> = (0..3000)
            .filter_map(|number| {
                let scheduled = penalties.schedule_attempt(source(number), USER, now, deadline)?;
                penalties.record_failure(source(number), USER, scheduled.at);
                Some(scheduled.at)
            })
            .collect();
        let within = |time| times.iter().filter(|&&scheduled| scheduled < now + time).count() as u32;
        assert_eq!(within(FREE_INTERVAL), MAX_FREE + 1);
        assert_eq!(within(Duration::from_secs(10)), 2 * MAX_FREE);
        // Successful logins do not count.
        let mut penalties = Penalties::default();
        for number in 0..3000 {
            let scheduled = penalties
                .schedule_attempt(source(number), USER, now, deadline)
                .expect("the first attempt is scheduled");
            assert_eq!(scheduled.at, now);
            penalties.release(scheduled);
        }
    }

    #[test]
    fn wrong_passwords_increase_delay_until_a_right_one() {
        let (mut penalties, mut now) = (Penalties::default(), Instant::now());
        assert_eq!(attempt_time(&mut penalties, HERE, now), now);
        for (wrong, millis) in [(1, 250), (2, 500), (3, 1000), (4, 2000)] {
            assert_eq!(penalties.record_failure(HERE, USER, now), wrong);
            let scheduled = attempt_time(&mut penalties, HERE, now);
            assert_eq!(scheduled, now + Duration::from_millis(millis));
            now = scheduled;
        }
        for _ in 0..40 {
            penalties.record_failure(HERE, USER, now);
        }
        assert_eq!(attempt_time(&mut penalties, HERE, now), now + MAX_DELAY);
        penalties.record_success(HERE, USER, now);
        assert_eq!(attempt_time(&mut penalties, HERE, now), now);
    }

    #[test]
    fn concurrent_attempts_queue_within_deadline() {
        let (mut penalties, now) = (Penalties::default(), Instant::now());
        penalties.record_failure(HERE, USER, now);
        let deadline = now + Duration::from_secs(2);
        let times: Vec<_> = (0..100)
            .filter_map(|_| penalties.schedule_attempt(HERE, USER, now, deadline))
            .map(|scheduled| scheduled.at)
            .collect();
        assert_eq!(times.len(), 7);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == FIRST_DELAY), "{times:?}");
        assert_eq!(attempt_time(&mut penalties, HERE, now), deadline);
    }

    #[test]
    fn valid_user_is_delayed_for_guessing_others() {
        let (mut penalties, mut now) = (Penalties::default(), Instant::now());
        for guess in 1..=6 {
            assert_eq!(penalties.record_failure(HERE, b"bob", now), guess);
            penalties.record_success(HERE, USER, now);
            let scheduled = attempt_time_of(&mut penalties, b"bob", HERE, now);
            assert_eq!(scheduled, now + delay_after(guess));
            now = scheduled;
        }
        // Failures of a mistyped name expire, although no login with this name succeeds.
        now += FAILURE_LIFETIME;
        assert_eq!(attempt_time(&mut penalties, HERE, now), now);
        for number in 0..40_u8 {
            penalties.record_failure(HERE, &[number], now);
            penalties.record_success(HERE, &[number % 4], now);
        }
        let source = &penalties.sources[&Network::of_host(HERE)];
        assert!(source.wrong.by_user.len() <= MAX_NAMES && source.wrong.total() > 20);
    }

    #[test]
    fn attempts_of_a_site_are_limited() {
        let (mut penalties, now) = (Penalties::default(), Instant::now());
        let deadline = now + Duration::from_secs(10);
        let attempts = (0..2000_u16).filter(|number| {
            let address = core::net::Ipv6Addr::new(0x2001, 0xdb8, 7, *number, 0, 0, 0, 1).into();
            let scheduled = penalties.schedule_attempt(address, USER, now, deadline);
            if scheduled.is_some() {
                penalties.record_failure(address, USER, now);
            }
            scheduled.is_some()
        });
        // These attempts run without delay, the following ones with increasing delays.
        assert!((GUESSING_SOURCES_PER_LEVEL..4 * GUESSING_SOURCES_PER_LEVEL).contains(&attempts.count()));
        let other = "2001:db8:8::1".parse().expect("an address");
        assert_eq!(attempt_time(&mut penalties, other, now), now);
        let forgotten = now + FAILURE_LIFETIME + MAX_DELAY;
        assert_eq!(
            attempt_time(&mut penalties, "2001:db8:7::1".parse().expect("an address"), forgotten),
            forgotten
        );
    }

    #[test]
    fn hosts_are_distinguished_and_forgotten() {
        let (mut penalties, now) = (Penalties::default(), Instant::now());
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        penalties.record_failure(address("2001:db8::1"), USER, now);
        assert!(attempt_time(&mut penalties, address("2001:db8::2"), now) > now);
        assert_eq!(attempt_time(&mut penalties, address("2001:db8:0:1::1"), now), now);
        assert_eq!(attempt_time(&mut penalties, HERE, now), now);
        let later = now + FAILURE_LIFETIME + MAX_DELAY;
        penalties.record_failure(HERE, USER, later);
        assert_eq!(penalties.sources.len(), 1);
        for number in 0..MAX_SOURCES as u32 + 100 {
            penalties.record_failure(IpAddr::V4(core::net::Ipv4Addr::from_bits(number)), USER, later);
        }
        assert_eq!(penalties.sources.len(), MAX_SOURCES);
    }
}

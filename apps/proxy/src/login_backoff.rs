//! Guessing passwords is slowed: after wrong ones, the tries from an address come one after another, ever slower. Wrong ones
//! from all addresses together are limited, too. A user who logged in from an address of late does not wait for the others
//! there.

use super::network::Network;
use core::net::IpAddr;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// The wait after the first wrong password, which doubles with each.
const FIRST: Duration = Duration::from_millis(250);
/// The longest wait between two tries.
const MAX_DELAY: Duration = Duration::from_secs(30);
/// Time after the last wrong password until the counts of an address start from zero.
const FORGOTTEN: Duration = Duration::from_secs(600);
/// Sources that are remembered; of more, the one whose turn comes first is forgotten.
const MAX_SOURCES: usize = 4096;
/// Prefix length of a site's IPv6 network (RFC 6177), and the number of its /64 with wrong passwords from which all of the site
/// has to wait. A site has 65,536 of them.
const SITE_BITS: u8 = 48;
const CROWD: usize = 16;
/// Wrong passwords that may come from all sources at once, and the interval after which one more may.
const MAX_FREE: u32 = 100;
const FREE_INTERVAL: Duration = Duration::from_millis(100);
/// Time for which a user is known at a source after a right password.
const KNOWN_TIME: Duration = Duration::from_secs(3600);
/// Users at their sources that are remembered; of more, the one whose right password is oldest is forgotten.
const MAX_KNOWN: usize = 4096;
/// The longest wait between two tries of a known user.
const MAX_KNOWN_DELAY: Duration = Duration::from_secs(1);
/// Users whose wrong passwords are counted apart for each source.
const MAX_NAMES: usize = 8;

#[derive(Default)]
struct Wrong {
    /// Wrong passwords in a row for each user, whether there is one of that name or not.
    of: BTreeMap<Vec<u8>, u32>,
    /// Those for users beyond [`MAX_NAMES`].
    others: u32,
}

impl Wrong {
    fn all(&self) -> u32 {
        self.of.values().fold(self.others, |sum, &wrong| sum.saturating_add(wrong))
    }

    fn count(&mut self, user: &[u8]) {
        let full = self.of.len() >= MAX_NAMES && !self.of.contains_key(user);
        let wrong = if full { &mut self.others } else { self.of.entry(user.to_vec()).or_default() };
        *wrong = wrong.saturating_add(1);
    }
}

struct Source {
    wrong: Wrong,
    /// When the last of them came.
    last: Instant,
    /// When the next try may be made.
    next: Instant,
}

/// A user who logged in from a source.
struct Known {
    /// When the last right password came.
    right: Instant,
    /// Wrong ones since.
    wrong: u32,
    /// When the next try may be made.
    next: Instant,
}

/// A try that may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// When it may be made.
    pub at: Instant,
    /// It counts as one of all sources, until it proves right.
    is_counted: bool,
}

/// Sources with wrong passwords.
#[derive(Default)]
pub struct Penalties {
    known: BTreeMap<(Network, Vec<u8>), Known>,
    /// When all tries that were counted have been compensated, one each [`FREE_INTERVAL`].
    compensated: Option<Instant>,
    sources: BTreeMap<Network, Source>,
    /// When the next try may be made from anywhere in sites of many sources.
    sites: BTreeMap<Network, Instant>,
}

impl Penalties {
    /// A try for a user from an address: when it may be made; never, if that is not before `deadline`. Tries that come together
    /// get turns one after another, whether they will be right or wrong.
    pub fn turn(&mut self, address: IpAddr, user: &[u8], now: Instant, deadline: Instant) -> Option<Turn> {
        let pair = (Network::of_host(address), user.to_vec());
        if let Some(known) = self.known.get_mut(&pair).filter(|known| known.is_valid(now)) {
            let at = known.next.max(now);
            if at > now && at >= deadline {
                return None;
            }
            if known.wrong > 0 {
                known.next = at + wait(known.wrong).min(MAX_KNOWN_DELAY);
            }
            return Some(Turn { at, is_counted: false });
        }
        let crowd = self.crowd(address, now);
        let site = crowd.and_then(|(site, _)| self.sites.get(&site).copied());
        let source = self.sources.get_mut(&Network::of_host(address)).filter(|source| source.is_known(now));
        let free = self.compensated.and_then(|all| all.checked_sub(MAX_FREE * FREE_INTERVAL));
        let turn = source.iter().map(|source| source.next).chain(site).chain(free).fold(now, Instant::max);
        if turn > now && turn >= deadline {
            return None;
        }
        if let Some(source) = source {
            source.next = turn + wait(source.wrong.all());
        }
        if let Some((site, level)) = crowd {
            self.sites.retain(|_, next| now.saturating_duration_since(*next) < FORGOTTEN);
            self.sites.insert(site, turn + wait(level));
        }
        self.compensated = Some(self.compensated.map_or(turn, |all| all.max(turn)) + FREE_INTERVAL);
        Some(Turn { at: turn, is_counted: true })
    }

    /// A try was not wrong, and does not count among those of all sources.
    pub fn release(&mut self, turn: Turn) {
        if turn.is_counted {
            self.compensated = self.compensated.and_then(|all| all.checked_sub(FREE_INTERVAL));
        }
    }

    /// The site of an address, and for how many wrong passwords it pays, if many of its sources have tried some.
    fn crowd(&self, address: IpAddr, now: Instant) -> Option<(Network, u32)> {
        let address = address.to_canonical();
        let site = Some(Network::of(address, SITE_BITS)).filter(|_| address.is_ipv6())?;
        let guessed = |(network, source): &(&Network, &Source)| {
            site.contains(network.address()) && source.is_known(now)
        };
        let level = self.sources.iter().filter(guessed).count() / CROWD;
        (level > 0).then_some((site, level as u32))
    }

    /// A password for a user from an address was wrong; returns how many have been from there.
    pub fn wrong(&mut self, address: IpAddr, user: &[u8], now: Instant) -> u32 {
        if let Some(known) = self.known.get_mut(&(Network::of_host(address), user.to_vec())) {
            known.wrong = known.wrong.saturating_add(1);
            known.next = known.next.max(now + wait(known.wrong).min(MAX_KNOWN_DELAY));
        }
        self.sources.retain(|_, source| source.is_known(now));
        if self.sources.len() >= MAX_SOURCES {
            let first =
                self.sources.iter().min_by_key(|(_, source)| source.next).map(|(&network, _)| network);
            first.and_then(|first| self.sources.remove(&first));
        }
        let fresh = Source { wrong: Wrong::default(), last: now, next: now };
        let source = self.sources.entry(Network::of_host(address)).or_insert(fresh);
        source.wrong.count(user);
        source.last = now;
        let all = source.wrong.all();
        source.next = source.next.max(now + wait(all));
        all
    }

    /// A password for a user from an address was right: wrong ones for that user are forgiven. Those for others are not, or who
    /// has one password could try as many as he likes.
    pub fn right(&mut self, address: IpAddr, user: &[u8], now: Instant) {
        let network = Network::of_host(address);
        self.remember(network, user, now);
        let Some(source) = self.sources.get_mut(&network) else { return };
        let forgiven = source.wrong.of.remove(user).is_some();
        match source.wrong.all() {
            0 => drop(self.sources.remove(&network)),
            left if forgiven => source.next = source.next.min(now + wait(left)),
            _ => {}
        }
    }
}

impl Penalties {
    /// Remembers that a user has logged in from a source.
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
        now.saturating_duration_since(self.last) < FORGOTTEN
    }
}

fn wait(wrong: u32) -> Duration {
    FIRST.saturating_mul(1 << wrong.saturating_sub(1).min(16)).min(MAX_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: &[u8] = b"alice";
    const HERE: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 1));

    /// When a try of a user that has time may be made.
    fn turn_of(penalties: &mut Penalties, user: &[u8], address: IpAddr, now: Instant) -> Instant {
        penalties.turn(address, user, now, now + 2 * MAX_DELAY).expect("there is time").at
    }

    fn turn(penalties: &mut Penalties, address: IpAddr, now: Instant) -> Instant {
        turn_of(penalties, USER, address, now)
    }

    #[test]
    fn known_user_does_not_wait_for_guesses_of_others() {
        let (mut penalties, now) = (Penalties::default(), Instant::now());
        penalties.right(HERE, USER, now);
        for _ in 0..65 {
            penalties.wrong(HERE, b"bob", now);
            assert_eq!(turn(&mut penalties, HERE, now), now);
            penalties.right(HERE, USER, now);
        }
        assert_eq!(turn_of(&mut penalties, b"bob", HERE, now), now + MAX_DELAY);
        // Another address of that user is not known.
        let other = IpAddr::from([192, 0, 2, 2]);
        penalties.wrong(other, b"bob", now);
        assert!(turn(&mut penalties, other, now) > now);
        // Guesses of the known user are slowed, but not so much that the right password finds no turn.
        for _ in 0..20 {
            penalties.wrong(HERE, USER, now);
        }
        assert_eq!(turn(&mut penalties, HERE, now), now + MAX_KNOWN_DELAY);
        let later = now + KNOWN_TIME;
        penalties.wrong(HERE, b"bob", later);
        assert!(turn(&mut penalties, HERE, later) > later);
        for number in 0..MAX_KNOWN as u32 + 100 {
            penalties.right(IpAddr::V4(core::net::Ipv4Addr::from_bits(number)), USER, later);
        }
        assert_eq!(penalties.known.len(), MAX_KNOWN);
    }

    #[test]
    fn many_sources_have_few_guesses_together() {
        let (mut penalties, now) = (Penalties::default(), Instant::now());
        let source = |number: u32| IpAddr::V4(core::net::Ipv4Addr::from_bits(0x0a00_0000 + number));
        let deadline = now + Duration::from_secs(10);
        let turns: Vec<_> = (0..3000)
            .filter_map(|number| {
                let turn = penalties.turn(source(number), USER, now, deadline)?;
                penalties.wrong(source(number), USER, turn.at);
                Some(turn.at)
            })
            .collect();
        let within = |time| turns.iter().filter(|&&turn| turn < now + time).count() as u32;
        assert_eq!(within(FREE_INTERVAL), MAX_FREE + 1);
        assert_eq!(within(Duration::from_secs(10)), 2 * MAX_FREE);
        // Right passwords do not count.
        let mut penalties = Penalties::default();
        for number in 0..3000 {
            let turn = penalties.turn(source(number), USER, now, deadline).expect("it is the first");
            assert_eq!(turn.at, now);
            penalties.release(turn);
        }
    }

    #[test]
    fn wrong_passwords_increase_delay_until_a_right_one() {
        let (mut penalties, mut now) = (Penalties::default(), Instant::now());
        assert_eq!(turn(&mut penalties, HERE, now), now);
        for (wrong, millis) in [(1, 250), (2, 500), (3, 1000), (4, 2000)] {
            assert_eq!(penalties.wrong(HERE, USER, now), wrong);
            let turn = turn(&mut penalties, HERE, now);
            assert_eq!(turn, now + Duration::from_millis(millis));
            now = turn;
        }
        for _ in 0..40 {
            penalties.wrong(HERE, USER, now);
        }
        assert_eq!(turn(&mut penalties, HERE, now), now + MAX_DELAY);
        penalties.right(HERE, USER, now);
        assert_eq!(turn(&mut penalties, HERE, now), now);
    }

    #[test]
    fn concurrent_tries_queue_up_within_their_deadline() {
        let (mut penalties, now) = (Penalties::default(), Instant::now());
        penalties.wrong(HERE, USER, now);
        let deadline = now + Duration::from_secs(2);
        let turns: Vec<_> =
            (0..100).filter_map(|_| penalties.turn(HERE, USER, now, deadline)).map(|turn| turn.at).collect();
        assert_eq!(turns.len(), 7);
        assert!(turns.windows(2).all(|pair| pair[1] - pair[0] == FIRST), "{turns:?}");
        assert_eq!(turn(&mut penalties, HERE, now), deadline);
    }

    #[test]
    fn valid_user_is_delayed_for_guessing_others() {
        let (mut penalties, mut now) = (Penalties::default(), Instant::now());
        for guess in 1..=6 {
            assert_eq!(penalties.wrong(HERE, b"bob", now), guess);
            penalties.right(HERE, USER, now);
            let turn = turn_of(&mut penalties, b"bob", HERE, now);
            assert_eq!(turn, now + wait(guess));
            now = turn;
        }
        // A name that was mistyped is forgotten in time, though it is never logged in by.
        now += FORGOTTEN;
        assert_eq!(turn(&mut penalties, HERE, now), now);
        for number in 0..40_u8 {
            penalties.wrong(HERE, &[number], now);
            penalties.right(HERE, &[number % 4], now);
        }
        let source = &penalties.sources[&Network::of_host(HERE)];
        assert!(source.wrong.of.len() <= MAX_NAMES && source.wrong.all() > 20);
    }

    #[test]
    fn site_has_no_more_tries_than_a_network() {
        let (mut penalties, now) = (Penalties::default(), Instant::now());
        let deadline = now + Duration::from_secs(10);
        let tries = (0..2000_u16).filter(|number| {
            let address = core::net::Ipv6Addr::new(0x2001, 0xdb8, 7, *number, 0, 0, 0, 1).into();
            let turn = penalties.turn(address, USER, now, deadline);
            if turn.is_some() {
                penalties.wrong(address, USER, now);
            }
            turn.is_some()
        });
        // So many at once, and then one after another, ever slower.
        assert!((CROWD..4 * CROWD).contains(&tries.count()));
        let other = "2001:db8:8::1".parse().expect("an address");
        assert_eq!(turn(&mut penalties, other, now), now);
        let forgotten = now + FORGOTTEN + MAX_DELAY;
        assert_eq!(turn(&mut penalties, "2001:db8:7::1".parse().expect("an address"), forgotten), forgotten);
    }

    #[test]
    fn hosts_are_distinguished_and_forgotten() {
        let (mut penalties, now) = (Penalties::default(), Instant::now());
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        penalties.wrong(address("2001:db8::1"), USER, now);
        assert!(turn(&mut penalties, address("2001:db8::2"), now) > now);
        assert_eq!(turn(&mut penalties, address("2001:db8:0:1::1"), now), now);
        assert_eq!(turn(&mut penalties, HERE, now), now);
        let later = now + FORGOTTEN + MAX_DELAY;
        penalties.wrong(HERE, USER, later);
        assert_eq!(penalties.sources.len(), 1);
        for number in 0..MAX_SOURCES as u32 + 100 {
            penalties.wrong(IpAddr::V4(core::net::Ipv4Addr::from_bits(number)), USER, later);
        }
        assert_eq!(penalties.sources.len(), MAX_SOURCES);
    }
}

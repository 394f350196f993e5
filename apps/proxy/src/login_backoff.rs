//! Guessing passwords is slowed: after wrong ones, the tries from an address come one after another, ever slower.

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

/// Sources with wrong passwords.
#[derive(Default)]
pub struct Penalties {
    sources: BTreeMap<Network, Source>,
    /// When the next try may be made from anywhere in sites of many sources.
    sites: BTreeMap<Network, Instant>,
}

impl Penalties {
    /// A try from an address: when it may be made; never, if that is not before `deadline`. Tries that come together get turns
    /// one after another, whether they will be right or wrong.
    pub fn turn(&mut self, address: IpAddr, now: Instant, deadline: Instant) -> Option<Instant> {
        let crowd = self.crowd(address, now);
        let site = crowd.and_then(|(site, _)| self.sites.get(&site).copied());
        let source = self.sources.get_mut(&Network::of_host(address)).filter(|source| source.is_known(now));
        let turn = source.iter().map(|source| source.next).chain(site).fold(now, Instant::max);
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
        Some(turn)
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
        let Some(source) = self.sources.get_mut(&network) else { return };
        let forgiven = source.wrong.of.remove(user).is_some();
        match source.wrong.all() {
            0 => drop(self.sources.remove(&network)),
            left if forgiven => source.next = source.next.min(now + wait(left)),
            _ => {}
        }
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

    /// When a try that has time may be made.
    fn turn(penalties: &mut Penalties, address: IpAddr, now: Instant) -> Instant {
        penalties.turn(address, now, now + 2 * MAX_DELAY).expect("there is time")
    }

    #[test]
    fn wrong_passwords_cost_ever_more_time_and_a_right_one_ends_it() {
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
    fn tries_at_once_queue_up_and_those_without_time_take_no_place() {
        let (mut penalties, now) = (Penalties::default(), Instant::now());
        penalties.wrong(HERE, USER, now);
        let deadline = now + Duration::from_secs(2);
        let turns: Vec<_> = (0..100).filter_map(|_| penalties.turn(HERE, now, deadline)).collect();
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
            let turn = turn(&mut penalties, HERE, now);
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
            let turn = penalties.turn(address, now, deadline);
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
    fn hosts_are_told_apart_and_forgotten() {
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

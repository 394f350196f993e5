//! Guessing passwords is slowed: after wrong ones, the tries from an address come one after another, ever slower.

use super::network::Network;
use core::net::IpAddr;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// The wait after the first wrong password, which doubles with each.
const FIRST: Duration = Duration::from_millis(250);
/// The longest wait between two tries.
const LONGEST: Duration = Duration::from_secs(30);
/// So long after the last try an address begins anew.
const FORGOTTEN: Duration = Duration::from_secs(600);
/// Sources that are remembered; of more, the one whose turn comes first is forgotten.
const MOST: usize = 4096;

struct Source {
    wrong: u32,
    /// When the next try may be made.
    next: Instant,
}

/// Who has tried wrong passwords.
#[derive(Default)]
pub struct Penalties {
    sources: BTreeMap<Network, Source>,
}

/// Whom an address is counted with: hosts have a /64 of IPv6 addresses to choose from.
fn source(address: IpAddr) -> Network {
    match address.to_canonical() {
        v4 @ IpAddr::V4(_) => Network::of(v4, 32),
        v6 @ IpAddr::V6(_) => Network::of(v6, 64),
    }
}

impl Penalties {
    /// A try from an address: when it may be made; never, if that is not before `deadline`. Tries that come together get turns
    /// one after another, whether they will be right or wrong.
    pub fn turn(&mut self, address: IpAddr, now: Instant, deadline: Instant) -> Option<Instant> {
        let Some(source) = self.sources.get_mut(&source(address)) else { return Some(now) };
        let turn = source.next.max(now);
        if turn >= deadline {
            return None;
        }
        source.next = turn + wait(source.wrong);
        Some(turn)
    }

    /// A password from an address was wrong; returns how many have been in a row.
    pub fn wrong(&mut self, address: IpAddr, now: Instant) -> u32 {
        self.sources.retain(|_, source| now.saturating_duration_since(source.next) < FORGOTTEN);
        if self.sources.len() >= MOST {
            let first =
                self.sources.iter().min_by_key(|(_, source)| source.next).map(|(&network, _)| network);
            first.and_then(|first| self.sources.remove(&first));
        }
        let source = self.sources.entry(source(address)).or_insert(Source { wrong: 0, next: now });
        source.wrong = source.wrong.saturating_add(1);
        source.next = source.next.max(now + wait(source.wrong));
        source.wrong
    }

    /// A password from an address was right.
    pub fn right(&mut self, address: IpAddr) {
        self.sources.remove(&source(address));
    }
}

fn wait(wrong: u32) -> Duration {
    FIRST.saturating_mul(1 << wrong.saturating_sub(1).min(16)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 1));

    /// When a try that has time may be made.
    fn turn(penalties: &mut Penalties, address: IpAddr, now: Instant) -> Instant {
        penalties.turn(address, now, now + 2 * LONGEST).expect("there is time")
    }

    #[test]
    fn wrong_passwords_cost_ever_more_time_and_a_right_one_ends_it() {
        let (mut penalties, mut now) = (Penalties::default(), Instant::now());
        assert_eq!(turn(&mut penalties, HERE, now), now);
        for (wrong, millis) in [(1, 250), (2, 500), (3, 1000), (4, 2000)] {
            assert_eq!(penalties.wrong(HERE, now), wrong);
            let turn = turn(&mut penalties, HERE, now);
            assert_eq!(turn, now + Duration::from_millis(millis));
            now = turn;
        }
        for _ in 0..40 {
            penalties.wrong(HERE, now);
        }
        assert_eq!(turn(&mut penalties, HERE, now), now + LONGEST);
        penalties.right(HERE);
        assert_eq!(turn(&mut penalties, HERE, now), now);
    }

    #[test]
    fn tries_at_once_queue_up_and_those_without_time_take_no_place() {
        let (mut penalties, now) = (Penalties::default(), Instant::now());
        penalties.wrong(HERE, now);
        let deadline = now + Duration::from_secs(2);
        let turns: Vec<_> = (0..100).filter_map(|_| penalties.turn(HERE, now, deadline)).collect();
        assert_eq!(turns.len(), 7);
        assert!(turns.windows(2).all(|pair| pair[1] - pair[0] == FIRST), "{turns:?}");
        assert_eq!(turn(&mut penalties, HERE, now), deadline);
    }

    #[test]
    fn hosts_are_told_apart_and_forgotten() {
        let (mut penalties, now) = (Penalties::default(), Instant::now());
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        penalties.wrong(address("2001:db8::1"), now);
        assert!(turn(&mut penalties, address("2001:db8::2"), now) > now);
        assert_eq!(turn(&mut penalties, address("2001:db8:0:1::1"), now), now);
        assert_eq!(turn(&mut penalties, HERE, now), now);
        let later = now + FORGOTTEN + LONGEST;
        penalties.wrong(HERE, later);
        assert_eq!(penalties.sources.len(), 1);
        for number in 0..MOST as u32 + 100 {
            penalties.wrong(IpAddr::V4(core::net::Ipv4Addr::from_bits(number)), later);
        }
        assert_eq!(penalties.sources.len(), MOST);
    }
}

//! Open connections by site: when all places are taken, the site with the most of them makes room for others.

use super::network::Network;
use core::net::IpAddr;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Prefix lengths of a site: a /24 of IPv4, a /48 of IPv6 (RFC 6177).
const SITE_BITS: [u8; 2] = [24, 48];

/// How far a client has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Its request is not complete.
    Handshake,
    /// It is served without a log-in.
    Served,
    /// It has logged in, and makes no room for others.
    LoggedIn,
}

#[derive(Debug)]
struct Occupant {
    site: Network,
    stage: Stage,
    dismissed: Arc<Notify>,
}

#[derive(Default)]
struct Table {
    next: u64,
    all: BTreeMap<u64, Occupant>,
    /// The connections of each site at each stage.
    of_site: BTreeMap<(Stage, Network), BTreeSet<u64>>,
}

/// Open connections.
#[derive(Clone, Default)]
pub struct Occupants(Arc<Mutex<Table>>);

/// A connection among them, until it is dropped.
pub struct Seat {
    occupants: Occupants,
    number: u64,
    dismissed: Arc<Notify>,
}

fn site(address: IpAddr) -> Network {
    let address = address.to_canonical();
    Network::of(address, SITE_BITS[usize::from(address.is_ipv6())])
}

impl Occupants {
    /// A connection from an address, whose request is not complete.
    pub fn seat(&self, address: IpAddr) -> Seat {
        let dismissed = Arc::new(Notify::new());
        let occupant =
            Occupant { site: site(address), stage: Stage::Handshake, dismissed: Arc::clone(&dismissed) };
        let mut table = self.lock();
        let number = table.next;
        table.next += 1;
        table.insert(number, occupant);
        drop(table);
        Seat { occupants: self.clone(), number, dismissed }
    }

    /// Dismisses a connection in favour of one from an address; false if none may be. Connections without a complete request go
    /// first, then those without a log-in of a site that has more of them than the site of the address.
    pub fn make_room(&self, address: IpAddr) -> bool {
        let mut table = self.lock();
        let own = table.of_site.get(&(Stage::Served, site(address))).map_or(0, BTreeSet::len);
        let served = || table.largest(Stage::Served).filter(|(count, _)| *count > own + 1);
        let Some((_, victim)) = table.largest(Stage::Handshake).or_else(served) else { return false };
        if let Some(occupant) = table.remove(victim) {
            occupant.dismissed.notify_one();
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn insert(&mut self, number: u64, occupant: Occupant) {
        self.of_site.entry((occupant.stage, occupant.site)).or_default().insert(number);
        self.all.insert(number, occupant);
    }

    fn remove(&mut self, number: u64) -> Option<Occupant> {
        let occupant = self.all.remove(&number)?;
        let key = (occupant.stage, occupant.site);
        if let Some(numbers) = self.of_site.get_mut(&key) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.of_site.remove(&key);
            }
        }
        Some(occupant)
    }

    /// The number of connections of the site with the most at this stage, and its oldest one.
    fn largest(&self, stage: Stage) -> Option<(usize, u64)> {
        let sites = self.of_site.iter().filter(|((of, _), _)| *of == stage);
        let counted = sites.filter_map(|(_, numbers)| Some((numbers.len(), Reverse(*numbers.first()?))));
        counted.max().map(|(count, Reverse(oldest))| (count, oldest))
    }
}

impl Seat {
    /// Its request is complete; it has logged in, or needs no log-in.
    pub fn admit(&self, has_logged_in: bool) {
        let mut table = self.occupants.lock();
        if let Some(occupant) = table.remove(self.number) {
            let stage = if has_logged_in { Stage::LoggedIn } else { Stage::Served };
            table.insert(self.number, Occupant { stage, ..occupant });
        }
    }

    /// Waits until it has to make room for another one.
    pub async fn dismissed(&self) {
        self.dismissed.notified().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.occupants.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    async fn is_dismissed(seat: &Seat) -> bool {
        tokio::select! {
            biased;
            () = seat.dismissed() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn oldest_handshake_of_the_largest_site_goes_first() {
        let occupants = Occupants::default();
        let seat = |text: &str| occupants.seat(address(text));
        let others = [seat("198.51.100.1"), seat("192.0.2.1"), seat("192.0.2.2")];
        others[1].admit(false);
        let crowd = [seat("2001:db8:7::1"), seat("2001:db8:7:1::1"), seat("2001:db8:7:ffff::1")];
        assert!(occupants.make_room(address("203.0.113.1")));
        assert!(is_dismissed(&crowd[0]).await && !is_dismissed(&crowd[1]).await);
        for seat in &others {
            assert!(!is_dismissed(seat).await);
        }
        drop((others, crowd));
        assert!(!occupants.make_room(address("203.0.113.1")));
        assert!(occupants.lock().all.is_empty() && occupants.lock().of_site.is_empty());
    }

    #[tokio::test]
    async fn clients_with_a_log_in_keep_their_places() {
        let occupants = Occupants::default();
        let admitted = |text: &str, has_logged_in| {
            let seat = occupants.seat(address(text));
            seat.admit(has_logged_in);
            seat
        };
        let users: Vec<_> = (0..9).map(|_| admitted("192.0.2.1", true)).collect();
        assert!(!occupants.make_room(address("203.0.113.1")));
        let strangers: Vec<_> = (0..3).map(|_| admitted("198.51.100.1", false)).collect();
        // A site makes no room for one that has as many.
        let equal: Vec<_> = (0..2).map(|_| admitted("203.0.113.1", false)).collect();
        assert!(!occupants.make_room(address("203.0.113.2")));
        assert!(occupants.make_room(address("192.0.2.2")));
        assert!(is_dismissed(&strangers[0]).await);
        for seat in users.iter().chain(&equal).chain(&strangers[1..]) {
            assert!(!is_dismissed(seat).await);
        }
    }
}

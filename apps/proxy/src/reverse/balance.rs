//! Order in which the servers of a reverse proxy are tried for a client. The first one is the server that the
//! configured method chooses. The others follow, in case the first does not answer.

use crate::config::Balance;
use crate::network::Network;
use core::cmp::Ordering as Order;
use core::net::{IpAddr, SocketAddr};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

/// An address of a server.
#[derive(Debug)]
pub struct Endpoint {
    /// The address.
    pub address: SocketAddr,
    /// Share of the clients. An endpoint of weight 0 gets clients only if no other endpoint is healthy.
    weight: u16,
    is_up: AtomicBool,
    /// Number of connections, including those that are being opened.
    open: AtomicUsize,
    /// Credit of the endpoint in the smooth weighted round robin, see [`take_turn`].
    credit: AtomicI64,
}

/// A connection that counts for its endpoint until it is dropped.
#[derive(Debug)]
pub struct OpenConnection(Arc<Endpoint>);

impl Endpoint {
    /// Creates an endpoint, which is considered healthy until a check fails.
    pub const fn new(address: SocketAddr, weight: u16) -> Self {
        Self {
            address,
            weight,
            is_up: AtomicBool::new(true),
            open: AtomicUsize::new(0),
            credit: AtomicI64::new(0),
        }
    }

    /// True if the last check was successful.
    pub fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    /// Sets the result of a check; returns the earlier one.
    pub fn set_up(&self, is_up: bool) -> bool {
        self.is_up.swap(is_up, Ordering::Relaxed)
    }

    /// Counts a connection.
    pub fn open(self: &Arc<Self>) -> OpenConnection {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(self))
    }

    /// Returns the rank for the order: 0 for healthy endpoints with a weight, 1 for healthy ones of weight 0, 2 for all
    /// others, which may have recovered.
    fn rank(&self) -> u8 {
        match (self.is_up(), self.weight) {
            (true, 1..) => 0,
            (true, 0) => 1,
            (false, _) => 2,
        }
    }

    /// Compares the numbers of open connections per unit of weight.
    fn compare_load(&self, other: &Self) -> Order {
        let open = |endpoint: &Self| endpoint.open.load(Ordering::Relaxed) as u64;
        let weight = |endpoint: &Self| u64::from(endpoint.weight.max(1));
        (open(self) * weight(other)).cmp(&(open(other) * weight(self)))
    }

    /// Returns the endpoint's score for a client: an exponential variate of rate `weight`, computed from a hash of
    /// client and address. The endpoint with the lowest score is chosen, so each is chosen with a probability in
    /// proportion to its weight. The choice for a client changes only if the chosen endpoint fails or a new one has a
    /// lower score (rendezvous hashing).
    fn score(&self, client: Network) -> f64 {
        let hash = Sha256::digest(format!("{client} {}", self.address));
        let bits = hash.iter().take(8).fold(0, |bits: u64, byte| bits << 8 | u64::from(*byte));
        // The values are from 2^-53 to 1, so that the logarithm is finite.
        let uniform = ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        uniform.ln().abs() / f64::from(self.weight.max(1))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns all endpoints in the order in which they are tried for a client. The caller must not run two calls at a
/// time, and must count the connection of one client before the call for the next.
pub fn order(balance: Balance, endpoints: &[Arc<Endpoint>], client: IpAddr) -> Vec<Arc<Endpoint>> {
    let mut order = endpoints.to_vec();
    let by_rank = |a: &Arc<Endpoint>, b: &Arc<Endpoint>| a.rank().cmp(&b.rank());
    match balance {
        Balance::First => order.sort_by(by_rank),
        Balance::RoundRobin => {
            order.sort_by(by_rank);
            put_turn_first(&mut order, by_rank);
        }
        Balance::LeastConnections => {
            let by_load = |a: &Arc<Endpoint>, b: &Arc<Endpoint>| by_rank(a, b).then(a.compare_load(b));
            order.sort_by(by_load);
            put_turn_first(&mut order, by_load);
        }
        Balance::Source => {
            let client = Network::of_host(client);
            order.sort_by_cached_key(|endpoint| endpoint.score(client).to_bits());
            order.sort_by(by_rank);
        }
    }
    order
}

/// Rotates the endpoints that compare equal to the first one, so that the endpoint whose turn it is comes first.
fn put_turn_first(order: &mut [Arc<Endpoint>], compare: impl Fn(&Arc<Endpoint>, &Arc<Endpoint>) -> Order) {
    let equal = order.iter().take_while(|endpoint| compare(&order[0], endpoint).is_eq()).count();
    let turn = take_turn(&order[..equal]);
    order[..equal].rotate_left(turn);
}

/// Returns the position of the endpoint whose turn it is (smooth weighted round robin): each endpoint's credit grows by
/// its weight. The endpoint with the largest credit gets the turn, and its credit falls by the sum of the weights. So
/// the credits always add up to 0.
fn take_turn(endpoints: &[Arc<Endpoint>]) -> usize {
    let weight = |endpoint: &Arc<Endpoint>| i64::from(endpoint.weight.max(1));
    let (mut turn, mut largest) = (0, i64::MIN);
    for (number, endpoint) in endpoints.iter().enumerate() {
        let credit = endpoint.credit.fetch_add(weight(endpoint), Ordering::Relaxed) + weight(endpoint);
        if credit > largest {
            (turn, largest) = (number, credit);
        }
    }
    if let Some(endpoint) = endpoints.get(turn) {
        endpoint.credit.fetch_sub(endpoints.iter().map(weight).sum(), Ordering::Relaxed);
    }
    turn
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn endpoints(weights: &[u16]) -> Vec<Arc<Endpoint>> {
        let endpoint = |(number, &weight): (usize, &u16)| {
            Arc::new(Endpoint::new(SocketAddr::from(([192, 0, 2, number as u8 + 1], 443)), weight))
        };
        weights.iter().enumerate().map(endpoint).collect()
    }

    fn client(number: u32) -> IpAddr {
        core::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    /// Returns the last octets of the addresses, in the order for one client.
    fn octets(balance: Balance, endpoints: &[Arc<Endpoint>], of: IpAddr) -> Vec<u8> {
        let octet = |endpoint: Arc<Endpoint>| match endpoint.address.ip() {
            IpAddr::V4(v4) => v4.octets()[3],
            IpAddr::V6(_) => unreachable!("all have IPv4"),
        };
        order(balance, endpoints, of).into_iter().map(octet).collect()
    }

    fn choices(balance: Balance, endpoints: &[Arc<Endpoint>], count: u32) -> Vec<u8> {
        (0..count).map(|number| octets(balance, endpoints, client(number))[0]).collect()
    }

    fn shares(choices: Vec<u8>) -> BTreeMap<u8, u32> {
        let mut shares = BTreeMap::new();
        for choice in choices {
            *shares.entry(choice).or_default() += 1;
        }
        shares
    }

    #[test]
    fn empty_list_of_endpoints_is_accepted() {
        for balance in [Balance::First, Balance::RoundRobin, Balance::LeastConnections, Balance::Source] {
            assert!(order(balance, &[], client(0)).is_empty());
        }
    }

    #[test]
    fn first_healthy_server_is_chosen() {
        let servers = endpoints(&[1, 1, 1]);
        assert_eq!(octets(Balance::First, &servers, client(0)), [1, 2, 3]);
        servers[0].set_up(false);
        assert_eq!(octets(Balance::First, &servers, client(0)), [2, 3, 1]);
    }

    /// With the weights 5, 1 and 1, the sequence is that of nginx's documentation: a a b a c a a.
    #[test]
    fn weighted_turns_are_spread() {
        assert_eq!(choices(Balance::RoundRobin, &endpoints(&[5, 1, 1]), 7), [1, 1, 2, 1, 3, 1, 1]);
        assert_eq!(choices(Balance::RoundRobin, &endpoints(&[1, 1, 1]), 6), [1, 2, 3, 1, 2, 3]);
        assert_eq!(octets(Balance::RoundRobin, &endpoints(&[1, 2, 1]), client(0)), [2, 3, 1]);
    }

    #[test]
    fn weightless_and_failed_servers_come_last() {
        let servers = endpoints(&[0, 1, 2]);
        for balance in [Balance::RoundRobin, Balance::LeastConnections, Balance::Source] {
            assert!(choices(balance, &servers, 30).iter().all(|choice| *choice != 1), "{balance:?}");
            assert_eq!(octets(balance, &servers, client(0))[2], 1);
        }
        servers[2].set_up(false);
        assert_eq!(choices(Balance::RoundRobin, &servers, 3), [2, 2, 2]);
        servers[1].set_up(false);
        for balance in [Balance::RoundRobin, Balance::LeastConnections, Balance::Source] {
            assert_eq!(octets(balance, &servers, client(0))[0], 1, "{balance:?}");
        }
    }

    /// With 4, 1 and 0 connections and weights of 3, 1 and 1, the loads are 4/3, 1 and 0.
    #[test]
    fn least_loaded_server_is_chosen() {
        let servers = endpoints(&[3, 1, 1]);
        let held: Vec<_> = [0, 0, 0, 0, 1].map(|number: usize| servers[number].open()).into();
        assert_eq!(octets(Balance::LeastConnections, &servers, client(0)), [3, 2, 1]);
        let more = servers[2].open();
        // Servers 2 and 3 have equal loads, so they take turns.
        let chosen = choices(Balance::LeastConnections, &servers, 4);
        assert_eq!(shares(chosen), BTreeMap::from([(2, 2), (3, 2)]));
        drop((held, more));
        assert!(servers.iter().all(|server| server.open.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn open_connections_follow_the_weights() {
        let servers = endpoints(&[1, 2, 5]);
        let held: Vec<_> = (0..80)
            .map(|number| order(Balance::LeastConnections, &servers, client(number))[0].open())
            .collect();
        let open: Vec<_> = servers.iter().map(|server| server.open.load(Ordering::Relaxed)).collect();
        assert_eq!(open, [10, 20, 50]);
        drop(held);
    }

    #[test]
    fn thousand_requests_are_split_within_five_percent() {
        for balance in [Balance::RoundRobin, Balance::LeastConnections] {
            let shares = shares(choices(balance, &endpoints(&[1, 1, 1]), 1000));
            assert!(
                shares.len() == 3 && shares.values().all(|share| (317..=350).contains(share)),
                "{shares:?}"
            );
        }
    }

    /// With 30,000 clients, the standard deviation of a share is below 0.3 percentage points.
    #[test]
    fn source_spreads_clients_by_weight() {
        let shares = shares(choices(Balance::Source, &endpoints(&[1, 2, 3]), 30_000));
        for (octet, expected) in [(1, 5000), (2, 10_000), (3, 15_000)] {
            assert!(shares[&octet].abs_diff(expected) < 400, "{shares:?}");
        }
    }

    #[test]
    fn source_keeps_its_server() {
        let servers = endpoints(&[1, 1, 1]);
        let before: Vec<_> =
            (0..100).map(|number| octets(Balance::Source, &servers, client(number))).collect();
        servers[1].set_up(false);
        for (number, before) in before.iter().enumerate() {
            let after = octets(Balance::Source, &servers, client(number as u32));
            let remaining: Vec<_> = before.iter().copied().filter(|octet| *octet != 2).collect();
            assert_eq!(after, [&remaining[..], &[2]].concat());
        }
        // The addresses of an IPv6 /64 belong to one client.
        let [one, other] = ["2001:db8::1", "2001:db8::ffff"].map(|text| text.parse().expect("an address"));
        assert_eq!(octets(Balance::Source, &servers, one), octets(Balance::Source, &servers, other));
    }
}

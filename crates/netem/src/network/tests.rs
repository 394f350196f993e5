use super::*;

fn network(
    links: &[(&'static str, &'static str)],
    flows: &[(&'static str, &'static str)],
) -> Result<Network, BuildError> {
    let pairs = |list: &[(&'static str, &'static str)]| list.iter().map(|&(a, b)| [a, b]).collect::<Vec<_>>();
    Network::new((&pairs(links), &[]), &pairs(flows), &[], &Forwarding::default())
}

/// The first IPv4 address of an interface.
const fn v4(interface: Interface) -> InterfaceAddress {
    InterfaceAddress::first(interface, IpVersion::V4)
}

/// A route between first IPv4 addresses as names of nodes.
fn names(network: &mut Network, from: Interface, to: Interface) -> Option<String> {
    let route = network.route(v4(from), v4(to))?;
    let mut names = vec![network.nodes()[network.owner(from)].name.clone()];
    for hop in route {
        names.push(network.nodes()[network.owner(hop.opposite())].name.clone());
    }
    Some(names.join(" "))
}

#[test]
fn addresses_and_interfaces_are_one_to_one() {
    let v4 = |link, end| Interface::new(link, end).address(IpVersion::V4).to_string();
    assert_eq!([v4(0, 0), v4(0, 1), v4(300, 1)], ["10.0.0.1", "10.0.0.2", "10.0.4.178"]);
    assert_eq!(v4(MAX_LINKS - 1, 1), "10.255.255.254");
    let v6 = |link, end| Interface::new(link, end).address(IpVersion::V6).to_string();
    assert_eq!([v6(0, 0), v6(300, 1)], ["2001:db8::1", "2001:db8:0:12c::2"]);
    assert_eq!(v6(MAX_LINKS - 1, 1), "2001:db8:3f:ffff::2");
    for number in [0, 1, 2, 77, 2 * MAX_LINKS as u32 - 1] {
        for version in [IpVersion::V4, IpVersion::V6] {
            let address = Interface(number).address(version);
            assert_eq!(Interface::of_address(address), Some(Interface(number)), "{address}");
        }
    }
    let others = ["10.0.0.0", "10.0.0.3", "9.255.255.255", "11.0.0.1", "2001:db8::", "2001:db8::3"];
    for other in others.iter().chain(&["2001:db8:4000::1", "2001:db9::1", "::1", "2001:db8::1:0:0:1"]) {
        assert_eq!(Interface::of_address(other.parse().unwrap()), None, "{other}");
    }
}

#[test]
fn generations_of_addresses_are_one_to_one() {
    let text = |generation, version| {
        InterfaceAddress::first(Interface::new(300, 1), version).ip(generation).to_string()
    };
    assert_eq!([text(0, IpVersion::V4), text(1, IpVersion::V4)], ["10.0.4.178", "100.64.68.178"]);
    assert_eq!([text(0, IpVersion::V6), text(1, IpVersion::V6)], ["2001:db8:0:12c::2", "2001:db8:40:12c::2"]);
    let last = Interface::new(MAX_RENUMBERED_LINKS - 1, 1);
    assert_eq!(v4(last).ip(u8::MAX).to_string(), "100.127.255.254");
    for interface in [Interface(0), Interface(1), Interface(77), last] {
        for generation in [0, 1, 2, u8::MAX] {
            for version in [IpVersion::V4, IpVersion::V6] {
                let address = InterfaceAddress::first(interface, version).ip(generation);
                assert_eq!(Interface::with_generation(address), Some((interface, generation)), "{address}");
            }
        }
    }
    for other in ["100.64.0.1", "100.63.255.255", "100.128.0.1", "100.64.64.3", "fe80::40:0:0:1"] {
        assert_eq!(Interface::of_address(other.parse().unwrap()), None, "{other}");
    }
}

#[test]
fn route_is_shortest_path_with_first_link() {
    let links =
        [("S", "A"), ("A", "B"), ("B", "C"), ("A", "X"), ("X", "C"), ("A", "Y"), ("Y", "C"), ("C", "D")];
    let mut network = network(&links, &[("S", "D")]).unwrap();
    let (s, d) = (Interface::new(0, 0), Interface::new(7, 1));
    assert_eq!(names(&mut network, s, d).unwrap(), "S A B C D");
    assert_eq!(names(&mut network, d, s).unwrap(), "D C B A S");
}

#[test]
fn routers_reach_the_interfaces_of_hosts() {
    let mut network = network(&[("S", "A"), ("A", "B"), ("B", "D")], &[("S", "D")]).unwrap();
    let [s, a, b] = [Interface::new(0, 0), Interface::new(0, 1), Interface::new(1, 1)];
    let nodes = [s, a, b].map(|interface| network.owner(interface));
    assert_eq!(network.route_from(nodes[1], v4(s), FlowHash::default()), Some(vec![a]));
    assert_eq!(network.route_from(nodes[2], v4(s), FlowHash::default()), Some(vec![b, a]));
    assert_eq!(network.route_from(nodes[0], v4(s), FlowHash::default()), None, "a host is no router");
}

#[test]
fn longer_route_is_not_used() {
    let links = [("S", "A"), ("A", "B"), ("B", "C"), ("A", "C"), ("C", "D")];
    let mut network = network(&links, &[("S", "D")]).unwrap();
    assert_eq!(names(&mut network, Interface::new(0, 0), Interface::new(4, 1)).unwrap(), "S A C D");
}

#[test]
fn packet_arrives_by_link_of_its_destination() {
    // Both of D's links are connected to routers that have a link between them: four pairs, each with a
    // different route.
    let links = [("S", "R1"), ("S", "R2"), ("R1", "R2"), ("R1", "D"), ("R2", "D")];
    let mut network = network(&links, &[("S", "D")]).unwrap();
    let (s1, s2) = (Interface::new(0, 0), Interface::new(1, 0));
    let (d1, d2) = (Interface::new(3, 1), Interface::new(4, 1));
    assert_eq!(names(&mut network, s1, d1).unwrap(), "S R1 D");
    assert_eq!(names(&mut network, s1, d2).unwrap(), "S R1 R2 D");
    assert_eq!(names(&mut network, s2, d1).unwrap(), "S R2 R1 D");
    assert_eq!(names(&mut network, s2, d2).unwrap(), "S R2 D");
    assert_eq!(network.connected_pairs(0).count(), 4);
}

#[test]
fn disjoint_paths_do_not_cross() {
    let links = [("S", "R1"), ("S", "R2"), ("R1", "D"), ("R2", "D")];
    let mut network = network(&links, &[("S", "D")]).unwrap();
    let pairs: Vec<_> = network.connected_pairs(0).collect();
    assert_eq!(
        pairs,
        [
            [v4(Interface::new(0, 0)), v4(Interface::new(2, 1))],
            [v4(Interface::new(1, 0)), v4(Interface::new(3, 1))],
        ]
    );
}

#[test]
fn parallel_links_are_separate_routes() {
    let mut network = network(&[("S", "D"), ("S", "D")], &[("S", "D")]).unwrap();
    let pairs: Vec<_> = network.connected_pairs(0).collect();
    assert_eq!(
        pairs,
        [
            [v4(Interface::new(0, 0)), v4(Interface::new(0, 1))],
            [v4(Interface::new(1, 0)), v4(Interface::new(1, 1))],
        ]
    );
}

#[test]
fn hosts_do_not_forward() {
    let links = [("S", "H"), ("H", "D"), ("H", "E")];
    let error = network(&links, &[("S", "D"), ("H", "E")]).unwrap_err();
    let hosts = Box::new(["S".to_owned(), "D".to_owned()]);
    assert_eq!(error, BuildError::Unreachable { flow: 0, hosts });
    assert!(network(&links, &[("S", "D")]).is_ok());
}

#[test]
fn errors_name_the_problem() {
    let error = network(&[("S", "D")], &[("S", "D"), ("S", "Q")]).unwrap_err();
    assert_eq!(error, BuildError::NoLink { flow: 1, host: "Q".into() });
    assert_eq!(error.to_string(), "no link connects the host \"Q\"");
    let error = network(&[("S", "D")], &[("S", "S")]).unwrap_err();
    assert_eq!(error, BuildError::SameHost { flow: 0, host: "S".into() });
    let error = network(&[("S", "A"), ("B", "D")], &[("S", "D")]).unwrap_err();
    assert!(error.to_string().starts_with("no route connects \"S\" and \"D\""), "{error}");
}

/// Hosts S and D at routers R1 and R2, which have this number of links between them.
fn parallel(ways: usize, seed: u64) -> Network {
    let mut links = vec![["S", "R1"], ["R2", "D"]];
    links.extend(std::iter::repeat_n(["R1", "R2"], ways));
    let forwarding = Forwarding { ecmp: true, seed, routers: Vec::new() };
    Network::new((&links, &[]), &[["S", "D"]], &[], &forwarding).unwrap()
}

/// The hash of a TCP flow with this source port.
fn flow(port: u16) -> FlowHash {
    let address = |end: u8| [10, 0, 0, end].into();
    FlowHash::new([address(1), address(6)], 6, Some([port, 5001]))
}

#[test]
fn flows_spread_evenly_over_equal_paths() {
    let (s, d) = (Interface::new(0, 0), Interface::new(1, 1));
    for ways in 2..=4 {
        let mut network = parallel(ways, 1);
        assert!(network.has_alternatives());
        let mut counts = vec![0_u32; ways];
        for port in 10_000..20_000 {
            let route = network.route_of([v4(s), v4(d)], flow(port)).unwrap();
            assert_eq!(network.route_of([v4(s), v4(d)], flow(port)).unwrap(), route, "a flow keeps its path");
            counts[route[1].link() - 2] += 1;
        }
        let equal = 10_000.0 / ways as f64;
        assert!(counts.iter().all(|&count| (f64::from(count) / equal - 1.0).abs() < 0.05), "{counts:?}");
    }
}

#[test]
fn seed_and_fragments_change_the_choice() {
    let (s, d) = (Interface::new(0, 0), Interface::new(1, 1));
    let choices = |seed| {
        let mut network = parallel(2, seed);
        (1..200)
            .map(|port| network.route_of([v4(s), v4(d)], flow(port)).unwrap()[1].link())
            .collect::<Vec<_>>()
    };
    assert_ne!(choices(1), choices(2));
    let address = |end: u8| [10, 0, 0, end].into();
    let without_ports = FlowHash::new([address(1), address(6)], 6, None);
    assert_ne!(without_ports, flow(7));
}

#[test]
fn routers_choose_independently() {
    // Two choices of two routes each: all four paths are used.
    let links = [["S", "A"], ["A", "B"], ["A", "B"], ["B", "C"], ["B", "C"], ["C", "D"]];
    let forwarding = Forwarding { ecmp: true, seed: 1, routers: Vec::new() };
    let mut network = Network::new((&links, &[]), &[["S", "D"]], &[], &forwarding).unwrap();
    let (s, d) = (Interface::new(0, 0), Interface::new(5, 1));
    let mut counts = BTreeMap::new();
    for port in 10_000..20_000 {
        *counts.entry(network.route_of([v4(s), v4(d)], flow(port)).unwrap()).or_insert(0_u32) += 1;
    }
    assert_eq!(counts.len(), 4);
    assert!(counts.values().all(|count| (2300..2700).contains(count)), "{counts:?}");
    let hops: Vec<usize> = network.hops(v4(s), v4(d)).into_iter().map(Interface::link).collect();
    assert_eq!(hops, [0, 1, 2, 3, 4, 5]);
    assert_eq!(network.steps(v4(s), v4(d)).len(), 1 + 2 + 4 + 2);
}

#[test]
fn router_without_ecmp_takes_the_first_link() {
    let links = [["S", "A"], ["A", "B"], ["A", "B"], ["B", "D"]];
    let router = RouterTable { name: "A", ecmp: false, default: None, routes: Vec::new() };
    let forwarding = Forwarding { ecmp: true, seed: 1, routers: vec![router] };
    let mut network = Network::new((&links, &[]), &[["S", "D"]], &[], &forwarding).unwrap();
    let (s, d) = (Interface::new(0, 0), Interface::new(3, 1));
    assert!((1..100).all(|port| network.route_of([v4(s), v4(d)], flow(port)).unwrap()[1].link() == 1));
    // In the other direction, the router can choose between equally short paths.
    assert!(network.has_alternatives());
    assert!((1..100).any(|port| network.route_of([v4(d), v4(s)], flow(port)).unwrap()[1].link() == 2));
}

/// A ring of four routers, each with a host.
const RING: [[&str; 2]; 8] =
    [["A", "B"], ["B", "C"], ["C", "D"], ["D", "A"], ["a", "A"], ["b", "B"], ["c", "C"], ["d", "D"]];

#[test]
fn routes_override_shortest_paths() {
    let table = |name, routes: &[[usize; 2]]| RouterTable {
        name,
        ecmp: true,
        default: None,
        routes: routes.to_vec(),
    };
    // Packets to b and c go around the ring in one direction.
    let routers = vec![table("A", &[[5, 3], [6, 3]]), table("D", &[[5, 2], [6, 2]]), table("C", &[[5, 1]])];
    let forwarding = Forwarding { ecmp: true, seed: 1, routers };
    let mut network = Network::new((&RING, &[]), &[["a", "b"], ["c", "d"]], &[], &forwarding).unwrap();
    let [a, b, c, d] = [4, 5, 6, 7].map(|link| Interface::new(link, 0));
    assert_eq!(names(&mut network, a, b).unwrap(), "a A D C B b");
    assert_eq!(names(&mut network, a, c).unwrap(), "a A D C c");
    assert_eq!(names(&mut network, b, a).unwrap(), "b B A a");
    assert_eq!(names(&mut network, c, d).unwrap(), "c C D d");
}

#[test]
fn default_route_applies_to_hosts_elsewhere() {
    let table = |name, default| RouterTable { name, ecmp: true, default: Some(default), routes: Vec::new() };
    // All packets travel around the ring in one direction, to the router of their destination.
    let routers = vec![table("A", 3), table("D", 2), table("C", 1), table("B", 0)];
    let forwarding = Forwarding { ecmp: true, seed: 1, routers };
    let mut network = Network::new((&RING, &[]), &[["a", "b"], ["c", "d"]], &[], &forwarding).unwrap();
    let [a, b, c, d] = [4, 5, 6, 7].map(|link| Interface::new(link, 0));
    assert_eq!(names(&mut network, a, b).unwrap(), "a A D C B b");
    assert_eq!(names(&mut network, a, c).unwrap(), "a A D C c");
    assert_eq!(names(&mut network, d, a).unwrap(), "d D C B A a");
    assert_eq!(names(&mut network, c, d).unwrap(), "c C B A D d");
    let forwarding = Forwarding { ecmp: true, seed: 1, routers: vec![table("A", 3)] };
    let error = Network::new((&RING, &[]), &[["a", "b"], ["c", "d"]], &[], &forwarding).unwrap_err();
    let BuildError::Loop { nodes, .. } = error else { panic!("{error}") };
    assert_eq!(nodes, ["A", "D"], "D takes one of two equally short paths back over A");
}

#[test]
fn loops_are_refused() {
    let table = |name, routes: &[[usize; 2]]| RouterTable {
        name,
        ecmp: true,
        default: None,
        routes: routes.to_vec(),
    };
    let routers = vec![table("A", &[[6, 0]]), table("B", &[[6, 0]])];
    let forwarding = Forwarding { ecmp: true, seed: 1, routers };
    let error = Network::new((&RING, &[]), &[["a", "c"]], &[], &forwarding).unwrap_err();
    assert_eq!(error, BuildError::Loop { nodes: vec!["A".into(), "B".into()], link: 6 });
    assert_eq!(error.to_string(), "the routes of A, B send packets in a circle");
}

#[test]
fn long_line_of_routers_is_checked() {
    // With this number of routers, a recursive search would overflow the stack.
    const ROUTERS: usize = 20_000;
    let names: Vec<String> = (0..=ROUTERS + 1).map(|number| format!("n{number}")).collect();
    let links: Vec<_> = names.windows(2).map(|pair| [pair[0].as_str(), pair[1].as_str()]).collect();
    let ends = [names[0].as_str(), names[ROUTERS + 1].as_str()];
    let table = |routes| RouterTable { name: "n1", ecmp: true, default: None, routes };
    let build = |routes| {
        let forwarding = Forwarding { ecmp: true, seed: 1, routers: vec![table(routes)] };
        Network::new((&links, &[]), &[ends], &[], &forwarding)
    };
    let mut network = build(vec![[ROUTERS, 1]]).unwrap();
    let (first, last) = (Interface::new(0, 0), Interface::new(ROUTERS, 1));
    assert_eq!(network.route(v4(first), v4(last)).unwrap().len(), ROUTERS + 1);
}

/// The addresses of a link that carries these versions.
fn of(versions: IpVersions) -> LinkAddresses {
    LinkAddresses { versions, ..LinkAddresses::default() }
}

#[test]
fn further_addresses_are_one_to_one() {
    let text = |number, version, generation| {
        InterfaceAddress { interface: Interface::new(300, 1), version, number }.ip(generation).to_string()
    };
    assert_eq!(text(1, IpVersion::V4, 0), "172.16.37.130");
    assert_eq!(text(15, IpVersion::V4, 0), "172.16.37.158");
    assert_eq!(text(1, IpVersion::V6, 0), "2001:db8:0:12c::1:2");
    assert_eq!(text(15, IpVersion::V6, 1), "2001:db8:40:12c::f:2");
    let last = Interface::new(MAX_RENUMBERED_LINKS - 1, 1);
    for (number, generation) in
        (0..MAX_ADDRESSES).flat_map(|n| (0..=MAX_FURTHER_GENERATION).map(move |g| (n, g)))
    {
        for version in [IpVersion::V4, IpVersion::V6] {
            for interface in [Interface(0), Interface(1), Interface(77), last] {
                let address = InterfaceAddress { interface, version, number };
                let ip = address.ip(generation);
                assert_eq!(InterfaceAddress::with_generation(ip), Some((address, generation)), "{ip}");
            }
        }
    }
    for other in
        ["172.16.0.0", "172.16.0.31", "172.15.255.255", "172.32.0.1", "2001:db8::10:1", "2001:db8::1:3"]
    {
        assert_eq!(Interface::of_address(other.parse().unwrap()), None, "{other}");
    }
}

#[test]
fn routes_use_links_of_their_version() {
    // The short route carries IPv4 only.
    let links = [["S", "A"], ["A", "B"], ["A", "C"], ["C", "B"], ["B", "D"]];
    let addresses =
        [IpVersions::Both, IpVersions::V4, IpVersions::V6, IpVersions::Both, IpVersions::Both].map(of);
    let mut network = Network::new((&links, &addresses), &[["S", "D"]], &[], &Forwarding::default()).unwrap();
    let [s, d] = [Interface::new(0, 0), Interface::new(4, 1)];
    assert_eq!(names(&mut network, s, d).unwrap(), "S A B D");
    let v6 = |interface| InterfaceAddress::first(interface, IpVersion::V6);
    let hops: Vec<usize> = network.route(v6(s), v6(d)).unwrap().into_iter().map(Interface::link).collect();
    assert_eq!(hops, [0, 2, 3, 4]);
    let pairs: Vec<_> = network.connected_pairs(0).collect();
    assert_eq!(pairs, [[v4(s), v4(d)], [v6(s), v6(d)]]);
    let error = Network::new(
        (&[["S", "A"], ["A", "D"]], &[of(IpVersions::V4), of(IpVersions::V6)]),
        &[["S", "D"]],
        &[],
        &Forwarding::default(),
    );
    assert!(matches!(error, Err(BuildError::Unreachable { .. })));
}

#[test]
fn override_applies_to_versions_of_its_link() {
    let links = [["S", "A"], ["A", "B"], ["A", "B"], ["B", "D"]];
    let addresses = [IpVersions::Both, IpVersions::Both, IpVersions::V4, IpVersions::Both].map(of);
    let router = RouterTable { name: "A", ecmp: false, default: None, routes: vec![[3, 2]] };
    let forwarding = Forwarding { ecmp: true, seed: 1, routers: vec![router] };
    let mut network = Network::new((&links, &addresses), &[["S", "D"]], &[], &forwarding).unwrap();
    let by = |network: &mut Network, version| {
        let [s, d] =
            [Interface::new(0, 0), Interface::new(3, 1)].map(|i| InterfaceAddress::first(i, version));
        network.route(s, d).unwrap()[1].link()
    };
    assert_eq!((by(&mut network, IpVersion::V4), by(&mut network, IpVersion::V6)), (2, 1));
}

#[test]
fn shared_address_has_the_nearest_route() {
    // S has two links; D has one address on both of its links.
    let links = [["S", "A"], ["S", "B"], ["A", "B"], ["A", "D"], ["B", "D"]];
    let mut addresses = [of(IpVersions::V4); 5];
    addresses[4].of = [None, Some(Interface::new(3, 1))];
    let mut network = Network::new((&links, &addresses), &[["S", "D"]], &[], &Forwarding::default()).unwrap();
    let [s1, s2, d] = [Interface::new(0, 0), Interface::new(1, 0), Interface::new(3, 1)];
    let pairs: Vec<_> = network.connected_pairs(0).collect();
    assert_eq!(pairs, [[v4(s1), v4(d)], [v4(s2), v4(d)]]);
    assert_eq!(names(&mut network, s1, d).unwrap(), "S A D");
    assert_eq!(names(&mut network, s2, d).unwrap(), "S B D");
    assert_eq!(names(&mut network, d, s1).unwrap(), "D A S");
    assert_eq!(names(&mut network, d, s2).unwrap(), "D B S");
    assert!(network.leads_to(Interface::new(4, 0), v4(d)));
    assert!(!network.has_alternatives());
}

#[test]
fn router_chooses_among_links_of_a_shared_address() {
    let links = [["S", "A"], ["A", "D"], ["A", "D"]];
    let mut addresses = [of(IpVersions::V4); 3];
    addresses[2].of = [None, Some(Interface::new(1, 1))];
    let forwarding = Forwarding { ecmp: true, seed: 1, routers: Vec::new() };
    let mut network = Network::new((&links, &addresses), &[["S", "D"]], &[], &forwarding).unwrap();
    assert!(network.has_alternatives());
    let [s, d] = [Interface::new(0, 0), Interface::new(1, 1)].map(v4);
    let last: std::collections::BTreeSet<usize> =
        (1..100).map(|port| network.route_of([s, d], flow(port)).unwrap()[1].link()).collect();
    assert_eq!(last.into_iter().collect::<Vec<_>>(), [1, 2]);
    assert_eq!(network.hops(s, d).len(), 3);
}

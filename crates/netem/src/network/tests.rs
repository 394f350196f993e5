use super::*;

fn network(
    links: &[(&'static str, &'static str)],
    flows: &[(&'static str, &'static str)],
) -> Result<Network, BuildError> {
    let pairs = |list: &[(&'static str, &'static str)]| list.iter().map(|&(a, b)| [a, b]).collect::<Vec<_>>();
    Network::new(&pairs(links), &pairs(flows), &[])
}

/// A route as names of nodes.
fn names(network: &mut Network, from: Interface, to: Interface) -> Option<String> {
    let route = network.route(from, to)?;
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
    for other in others.iter().chain(&["2001:db8:40::1", "2001:db9::1", "::1", "2001:db8::1:0:0:1"]) {
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
    assert_eq!(network.route_from(nodes[1], s), Some(vec![a]));
    assert_eq!(network.route_from(nodes[2], s), Some(vec![b, a]));
    assert_eq!(network.route_from(nodes[0], s), None, "a host is no router");
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
        [(Interface::new(0, 0), Interface::new(2, 1)), (Interface::new(1, 0), Interface::new(3, 1)),]
    );
}

#[test]
fn parallel_links_are_separate_routes() {
    let mut network = network(&[("S", "D"), ("S", "D")], &[("S", "D")]).unwrap();
    let pairs: Vec<_> = network.connected_pairs(0).collect();
    assert_eq!(
        pairs,
        [(Interface::new(0, 0), Interface::new(0, 1)), (Interface::new(1, 0), Interface::new(1, 1)),]
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

//! Multipath TCP of this stack and of Linux, over two TUN interfaces.

use super::kernel;
use super::ours::{self, BYTES, Done, Role};
use anabranch_endpoint::Socket;
use anabranch_host::Protocol;
use anabranch_multipath::{congestion, path_manager, scheduler};
use anabranch_settings::policy::Penalisation;
use anabranch_tcp::{mptcp, tcp};
use anabranch_testkit::application::Load;
use anabranch_testkit::namespace::{Need, counter, ip, machine_has, set, within};

const NEEDS: [Need; 3] = [Need::Namespaces, Need::Tun, Need::Mptcp];

const LOAD: Load = Load::Stream { bytes: BYTES };

fn protocol(checksum: bool) -> Protocol {
    Protocol::Mptcp(
        mptcp::Config::default()
            .tcp(tcp::Config::default().congestion(congestion::Choice::find("lia").expect("listed")))
            .scheduler(scheduler::find("round-robin").expect("listed"))
            .path_manager(path_manager::parse("fullmesh").expect("listed"))
            .opportunistic_retransmission(false)
            .penalisation(Penalisation::Never)
            .mechanisms_in_start_up(true)
            .checksum(checksum),
    )
}

/// The kernel sends packets with a source address of path `i` by interface `i`, and accepts packets from any.
pub fn routes() {
    for path in 0..2 {
        ip(&format!("rule add from 10.0.{path}.1 table {}", 101 + path));
        ip(&format!("route add default dev tun{path} table {}", 101 + path));
    }
    ip("mptcp limits set subflow 4 add_addr_accepted 4");
}

/// True until two paths have carried data in both directions, since the kernel may join late.
fn lacks_a_path(socket: &mut Socket<'_>) -> bool {
    used_path_count(&ours::bytes_by_path(&socket.endpoint.report())) < 2
}

fn used_path_count(carried: &[(u64, u64)]) -> usize {
    carried.iter().filter(|&&(sent, received)| sent > BYTES / 100 && received > 0).count()
}

/// Checks that both paths carried data, by the counters of this stack and of the kernel, and that neither end fell back to
/// TCP.
fn check(done: &Done, peer: kernel::Done) {
    done.check(&peer.join().expect("the peer succeeds"));
    assert!(!done.report.fallback, "{:#?}", done.report);
    let carried = done.bytes_by_path();
    assert!(used_path_count(&carried) >= 2, "two subflows: {carried:?}");
    for name in ["MPCapableFallbackACK", "MPCapableFallbackSYNACK", "DataCsumErr", "MPFailTx", "MPRstTx"] {
        assert_eq!(counter("MPTcpExt", name), 0, "{name}");
    }
}

fn connects(checksum: bool) {
    if checksum {
        set("net.mptcp.checksum_enabled", "1");
    }
    let network = ours::network(false, 2);
    routes();
    // The kernel announces its second address.
    ip("mptcp endpoint add 10.0.1.1 dev tun1 signal");
    let machine = ours::address(false, 0, 1);
    let peer = kernel::listen(true, (machine, 5001).into(), BYTES);
    let role = (Role::Connect(machine, 5001), lacks_a_path as ours::Meanwhile);
    let done = ours::start_with(network, protocol(checksum), LOAD, role).finish();
    check(&done, peer);
    assert!(counter("MPTcpExt", "MPJoinAckRx") >= 1, "the kernel received the joins of this stack");
    assert!(counter("MPTcpExt", "AddAddrTx") >= 1, "the kernel announced its second address");
}

fn accepts(checksum: bool, role: Role) {
    if checksum {
        set("net.mptcp.checksum_enabled", "1");
    }
    let network = ours::network(false, 2);
    routes();
    ip("mptcp endpoint add 10.0.1.1 dev tun1 subflow");
    let side = ours::start_with(network, protocol(checksum), LOAD, (role, lacks_a_path));
    let peer = kernel::connect(true, (ours::address(false, 0, 2), 5001).into(), BYTES);
    let done = side.finish();
    check(&done, peer);
    assert!(counter("MPTcpExt", "MPJoinSynAckRx") >= 1, "the kernel joined us");
}

#[test]
fn mptcp_connects_to_linux() {
    if machine_has(&NEEDS) {
        within("mptcp-connects", || connects(false));
    }
}

#[test]
fn mptcp_accepts_from_linux() {
    if machine_has(&NEEDS) {
        within("mptcp-accepts", || accepts(false, Role::Accept(5001)));
    }
}

#[test]
fn mptcp_connects_to_linux_with_checksums() {
    if machine_has(&NEEDS) {
        within("mptcp-sum-connects", || connects(true));
    }
}

#[test]
fn mptcp_accepts_from_linux_with_checksums() {
    if machine_has(&NEEDS) {
        within("mptcp-sum-accepts", || accepts(true, Role::Accept(5001)));
    }
}

#[test]
fn mptcp_connects_to_linux_by_a_cookie() {
    if machine_has(&NEEDS) {
        within("mptcp-their-cookie", || {
            set("net.ipv4.tcp_syncookies", "2");
            connects(false);
            assert!(counter("TcpExt", "SyncookiesRecv") >= 1, "Linux has sent a cookie");
        });
    }
}

#[test]
fn mptcp_accepts_from_linux_by_a_cookie() {
    if machine_has(&NEEDS) {
        within("mptcp-cookie", || accepts(false, Role::AcceptByCookie(5001)));
    }
}

#[test]
fn mptcp_accepts_by_a_cookie_with_checksums() {
    if machine_has(&NEEDS) {
        within("mptcp-sum-cookie", || accepts(true, Role::AcceptByCookie(5001)));
    }
}

//! Streams of TCP and Multipath TCP.

use super::hosts::{data, ip, linked, listening, run};
use anabranch_endpoint::{Event, Reason};
use anabranch_host::{Backlog, Listening, Protocol};
use anabranch_multipath::{PathId, path_manager};
use anabranch_net::{Error, Stack, Stop, Stream};
use anabranch_settings::{mptcp, tcp};
use core::net::IpAddr;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

const SERVER: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 2));

fn mptcp() -> Protocol {
    let path_manager = path_manager::parse("disjoint").expect("listed");
    Protocol::Mptcp(mptcp::Config::default().path_manager(path_manager))
}

fn tcp() -> Protocol {
    Protocol::Tcp(tcp::Config::default())
}

/// A connection between two hosts: its two ends.
async fn connected(hosts: &[Stack; 2], protocol: Protocol) -> [Stream; 2] {
    let listener = hosts[1].listen(listening(protocol.clone())).await.expect("the port is free");
    let client = hosts[0].connect(protocol, SERVER, 7).await.expect("the server listens");
    let server = listener.accept().await.expect("the listener lives");
    assert_eq!(client.remote(), server.local());
    [client, server]
}

#[test]
fn streams_carry_bytes_both_ways_over_two_paths() {
    run(async {
        let hosts = linked(2);
        let [mut client, mut server] = connected(&hosts, mptcp()).await;
        let sent = data(3_000_000);
        let transfer = |mut stream: Stream, sent: Vec<u8>| async move {
            let mut read = Vec::new();
            let (mut from, mut to) = tokio::io::split(&mut stream);
            let write = async {
                to.write_all(&sent).await.expect("the peer reads");
                to.shutdown().await.expect("the peer reads");
            };
            tokio::join!(write, async { from.read_to_end(&mut read).await.expect("the peer writes") });
            (read, stream.ended().await, stream.report().await.expect("the last report"))
        };
        client.write_all(b"x").await.expect("the peer reads");
        assert_eq!(server.read_u8().await.expect("a byte"), b'x');
        // Both directions, each with other data.
        let reversed: Vec<u8> = sent.iter().rev().copied().collect();
        let ends = tokio::join!(transfer(client, sent.clone()), transfer(server, reversed.clone()));
        let ((to_client, closed, report), (to_server, also_closed, _)) = ends;
        assert!(to_client == reversed && to_server == sent);
        assert_eq!([closed, also_closed], [Reason::Closed; 2]);
        let used = report.paths.iter().filter(|path| path.counters.bytes_sent > 100_000).count();
        assert!(used == 2 && !report.fallback, "{report:?}");
    });
}

#[test]
fn writer_waits_for_a_reader_that_does_not_read() {
    run(async {
        let hosts = linked(1);
        let buffers = tcp::Config::default().send_buffer(100_000).receive_buffer(100_000);
        let [mut client, mut server] = connected(&hosts, Protocol::Tcp(buffers)).await;
        let sent = data(3_000_000);
        let mut written = 0;
        while let Ok(len) = timeout(Duration::from_millis(300), client.write(&sent[written..])).await {
            written += len.expect("the connection lives");
        }
        // Two queues of 256 KiB between stacks and handles, the send buffer and the receive buffer.
        let most = 2 * (256 << 10) + 200_000;
        assert!((300_000..=most).contains(&written), "{written}");
        let rest = async {
            client.write_all(&sent[written..]).await.expect("the peer reads");
            client.shutdown().await.expect("the peer reads");
        };
        let mut read = Vec::new();
        let ((), len) = tokio::join!(rest, server.read_to_end(&mut read));
        assert!(len.expect("the peer writes") == sent.len() && read == sent);
    });
}

#[test]
fn data_stays_readable_after_the_connection_has_ended() {
    run(async {
        let hosts = linked(1);
        let [mut client, mut server] = connected(&hosts, tcp()).await;
        client.shutdown().await.expect("the peer reads");
        // More than the queue of the handle holds, less than the receive buffer.
        let sent = data(2_000_000);
        server.write_all(&sent).await.expect("the peer reads");
        server.shutdown().await.expect("the peer reads");
        assert_eq!(server.ended().await, Reason::Closed);
        assert_eq!(client.ended().await, Reason::Closed);
        let mut read = Vec::new();
        client.read_to_end(&mut read).await.expect("the data has arrived");
        assert!(read == sent);
    });
}

#[test]
fn connection_to_a_port_without_listener_is_refused() {
    run(async {
        let [client, server] = linked(1);
        let refused = client.connect(tcp(), SERVER, 9).await.map(|_| ());
        assert_eq!(refused, Err(Error::Ended(Reason::Refused)));
        let kind = io::Error::from(refused.expect_err("refused")).kind();
        assert_eq!(kind, io::ErrorKind::ConnectionRefused);
        let _listener = server.listen(listening(tcp())).await.expect("the port is free");
        let twice = server.listen(listening(tcp())).await.map(|_| ());
        assert_eq!(twice.expect_err("in use").to_string(), "port 7 is in use");
        let wrong = client.associate(tcp(), &[SERVER], 7).await.map(|_| ());
        assert_eq!(wrong, Err(Error::WrongProtocol));
    });
}

#[test]
fn abort_resets_the_other_end() {
    run(async {
        let hosts = linked(1);
        let [client, mut server] = connected(&hosts, mptcp()).await;
        client.abort();
        assert_eq!(client.ended().await, Reason::Aborted);
        let error = server.read_u8().await.expect_err("reset");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(server.ended().await, Reason::Reset);
    });
}

#[test]
fn stop_drains_written_data() {
    run(async {
        let hosts = linked(1);
        let [mut client, mut server] = connected(&hosts, tcp()).await;
        client.write_all(&data(200_000)).await.expect("there is room");
        let read = async {
            let mut read = Vec::new();
            server.read_to_end(&mut read).await.expect("the peer writes");
            server.shutdown().await.expect("the peer lives");
            read
        };
        let (stopped, read) = tokio::join!(hosts[0].stop(Stop::Drain(Duration::from_secs(10))), read);
        assert_eq!(stopped.expect("the stack runs").aborted, 0);
        assert!(read == data(200_000));
        assert_eq!(hosts[0].stop(Stop::Abort).await.map(|_| ()), Err(Error::Stopped));
        let refused = hosts[0].connect(tcp(), SERVER, 7).await.map(|_| ());
        assert_eq!(refused, Err(Error::Stopped));
    });
}

#[test]
fn stop_aborts_what_does_not_drain_in_time() {
    run(async {
        let hosts = linked(1);
        let [client, mut server] = connected(&hosts, tcp()).await;
        // The server does not close.
        let stopped = hosts[0].stop(Stop::Drain(Duration::from_millis(200))).await.expect("the stack runs");
        assert_eq!(stopped.aborted, 1);
        assert_eq!(client.ended().await, Reason::Aborted);
        assert_eq!(server.read(&mut [0; 8]).await.expect("the peer has closed before"), 0);
        assert_eq!(server.ended().await, Reason::Reset);
    });
}

#[test]
fn full_backlog_delays_connections_and_loses_none() {
    run(async {
        let hosts = linked(1);
        let backlog = Backlog { complete: 2, incomplete: 256 };
        let listening = Listening { protocol: tcp(), port: 7, backlog };
        let listener = hosts[1].listen(listening).await.expect("the port is free");
        let client = async |n: u8| {
            let mut stream = hosts[0].connect(tcp(), SERVER, 7).await.expect("the server listens");
            stream.write_all(&[n]).await.expect("the peer reads");
            stream.shutdown().await.expect("the peer reads");
            stream
        };
        let clients =
            async { tokio::join!(client(0), client(1), client(2), client(3), client(4), client(5)) };
        let server = async {
            sleep(Duration::from_millis(200)).await;
            let mut seen = Vec::new();
            for _ in 0..6 {
                let mut stream = listener.accept().await.expect("the listener lives");
                seen.push(stream.read_u8().await.expect("a byte"));
                assert_eq!(stream.read(&mut [0; 8]).await.expect("the end"), 0);
            }
            seen.sort_unstable();
            seen
        };
        let (_, seen) = tokio::join!(clients, server);
        assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
    });
}

#[test]
fn removed_address_ends_its_paths_and_returns() {
    run(async {
        let hosts = linked(2);
        let [mut client, mut server] = connected(&hosts, mptcp()).await;
        let usable = async |count: usize| {
            while client
                .report()
                .await
                .expect("the stack runs")
                .paths
                .iter()
                .filter(|path| path.usable)
                .count()
                != count
            {
                sleep(Duration::from_millis(5)).await;
            }
        };
        usable(2).await;
        hosts[0].remove_address(ip(1, 1)).await.expect("the address is known");
        usable(1).await;
        let unknown = hosts[0].remove_address(ip(9, 9)).await;
        assert_eq!(unknown, Err(Error::NoSuchAddress));
        hosts[0].restore_address(ip(1, 1)).await.expect("the address is known");
        usable(2).await;
        for expected in [Event::PathUp(PathId(0)), Event::PathUp(PathId(1)), Event::PathDown(PathId(1))] {
            assert_eq!(client.event().await, Some(expected));
        }
        client.write_all(b"still here").await.expect("the peer reads");
        let mut read = [0; 10];
        server.read_exact(&mut read).await.expect("the peer writes");
        assert_eq!(&read, b"still here");
    });
}

#[test]
fn priority_of_a_path_holds_at_both_ends() {
    run(async {
        let hosts = linked(2);
        let [client, server] = connected(&hosts, mptcp()).await;
        let backups = async |stream: &Stream| {
            let paths = stream.report().await.expect("the stack runs").paths;
            paths.iter().filter(|path| path.usable).map(|path| path.backup).collect::<Vec<_>>()
        };
        let shows = async |expected: &[bool]| {
            while backups(&client).await != expected || backups(&server).await != expected {
                sleep(Duration::from_millis(5)).await;
            }
        };
        shows(&[false, false]).await;
        client.set_backup(PathId(1), true).await.expect("the path exists");
        shows(&[false, true]).await;
        // The other end makes the path a regular one again.
        server.set_backup(PathId(1), false).await.expect("the path exists");
        shows(&[false, false]).await;
        sleep(Duration::from_millis(700)).await;
        shows(&[false, false]).await;
        assert_eq!(client.set_backup(PathId(7), true).await, Err(Error::NoSuchPath));
    });
}

//! Recordings of stacks, and their replay.

use super::hosts::{cmt, data, ip, listening, loopback, networks, over_udp_network, run};
use anabranch_host::{Limits, Protocol};
use anabranch_multipath::path_manager;
use anabranch_net::{Message, Network, Stack, Stop, create_recording};
use anabranch_replay::{Recording, replay};
use anabranch_settings::mptcp;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Stacks of these networks with recordings in files.
fn recorded(name: &str, networks: [Network; 2], has_data: bool) -> ([Stack; 2], [PathBuf; 2]) {
    let mut ends = 0..2;
    let files = [(); 2].map(|()| {
        let end = ends.next().unwrap_or_default();
        std::env::temp_dir().join(format!("anabranch-stack-{name}-{end}-{}", std::process::id()))
    });
    let mut names = files.iter();
    let stacks = networks.map(|network| {
        let out = create_recording(names.next().expect("two")).expect("a file");
        let recording = Recording { out: Box::new(out), has_data };
        Stack::start_recorded(network, Limits::default(), recording).expect("a thread")
    });
    (stacks, files)
}

/// Stops both stacks; the replay of each sends the same packets.
async fn assert_repeated(stacks: [Stack; 2], files: [PathBuf; 2]) {
    for (stack, file) in stacks.iter().zip(files) {
        let stopped = stack.stop(Stop::Drain(Duration::from_secs(5))).await.expect("the stack runs");
        stopped.recording.expect("the disk has room");
        let outcome = replay(File::open(&file).expect("the recording exists")).expect("a whole recording");
        std::fs::remove_file(file).expect("ours");
        assert_eq!(outcome.difference, None);
        assert!(outcome.counts.sent > 10 && outcome.counts.arrivals > 10, "{outcome:?}");
    }
}

#[test]
fn multipath_stream_is_repeated() {
    let path_manager = path_manager::parse("fullmesh").expect("listed");
    let protocol = Protocol::Mptcp(mptcp::Config::default().path_manager(path_manager).checksum(true));
    run(async {
        for has_data in [false, true] {
            let (hosts, files) = recorded("mptcp", networks(2), has_data);
            let listener = hosts[1].listen(listening(protocol.clone())).await.expect("the port is free");
            let mut client =
                hosts[0].connect(protocol.clone(), ip(0, 2), 7).await.expect("the server listens");
            let mut server = listener.accept().await.expect("the listener lives");
            let sent = data(300_000);
            let mut read = Vec::new();
            let (written, end) = tokio::join!(
                async {
                    client.write_all(&sent).await?;
                    client.shutdown().await
                },
                server.read_to_end(&mut read)
            );
            written.and(end.map(drop)).expect("the connection lives");
            assert!(read == sent);
            server.shutdown().await.expect("the connection lives");
            client.ended().await;
            assert_repeated(hosts, files).await;
        }
    });
}

#[test]
fn association_over_udp_is_repeated() {
    run(async {
        let ends = [loopback(91, 0), loopback(91, 1)];
        let networks = ends.map(|addresses| over_udp_network(&addresses));
        let (hosts, files) = recorded("sctp", networks, true);
        let protocol = cmt(|_| {});
        let listener = hosts[1].listen(listening(protocol.clone())).await.expect("the port is free");
        let client = hosts[0].associate(protocol, &ends[1], 7).await.expect("the server listens");
        let server = listener.accept_association().await.expect("the listener lives");
        for len in [1, 3000, 60_000] {
            let message = Message { ppid: 9, unordered: len == 3000, ..Message::new(data(len)) };
            client.send(message).await.expect("the association lives");
            let received = server.receive().await.expect("the association lives").expect("a message");
            assert!(received.bytes == data(len));
        }
        client.close();
        client.ended().await;
        assert_repeated(hosts, files).await;
    });
}

//! Associations of CMT-SCTP over UDP.

use super::hosts::{cmt, data, listening, loopback, over_udp, run};
use anabranch_endpoint::{Reason, Reliability};
use anabranch_multipath::PathId;
use anabranch_net::{Association, Error, Message, Stack, Stop};
use anabranch_settings::sctp;
use std::time::Duration;

/// An association over two paths: the hosts, and its two ends.
async fn associated(test: u8, change: fn(&mut sctp::Config)) -> ([Stack; 2], [Association; 2]) {
    let hosts = [0, 1].map(|end| over_udp(&loopback(test, end)));
    let listener = hosts[1].listen(listening(cmt(change))).await.expect("the port is free");
    let client = hosts[0].associate(cmt(change), &loopback(test, 1), 7).await.expect("the server listens");
    let server = listener.accept_association().await.expect("the listener lives");
    (hosts, [client, server])
}

#[test]
fn messages_keep_their_attributes() {
    run(async {
        let (hosts, [client, server]) = associated(1, |config| config.streams = 3).await;
        let lengths = [1, 1_000, 5_000, 70_000];
        for (at, len) in (0..).zip(lengths) {
            let message = Message {
                bytes: data(len),
                stream: at % 3,
                ppid: 100 + u32::from(at),
                unordered: false,
                reliability: Reliability::Full,
            };
            client.send(message).await.expect("the peer receives");
        }
        let mut seen = Vec::new();
        for _ in lengths {
            let message = server.receive().await.expect("in order").expect("a message");
            assert!(message.bytes == data(message.bytes.len()) && !message.more && !message.unordered);
            seen.push((message.ppid, message.stream, message.bytes.len()));
        }
        seen.sort_unstable();
        assert_eq!(seen, [(100, 0, 1), (101, 1, 1_000), (102, 2, 5_000), (103, 0, 70_000)]);
        client.close();
        assert_eq!(server.receive().await, Ok(None));
        assert_eq!([client.ended().await, server.ended().await], [Reason::Closed; 2]);
        assert!(hosts[0].reports().await.expect("the stack runs").is_empty());
    });
}

#[test]
fn impossible_messages_are_refused() {
    run(async {
        let (_hosts, [client, server]) = associated(2, |config| config.send_buffer = 50_000).await;
        assert_eq!(client.send(Message::new(Vec::new())).await, Err(Error::EmptyMessage));
        let large = client.send(Message::new(vec![0; 50_001])).await;
        assert_eq!(large, Err(Error::MessageTooLarge { len: 50_001, send_buffer: 50_000 }));
        client.send(Message { stream: 5, ..Message::new(vec![1]) }).await.expect("the error follows");
        let mut refused = Ok(());
        while refused.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
            refused = client.send(Message::new(vec![2])).await;
        }
        assert_eq!(refused, Err(Error::NoSuchStream { stream: 5, streams: 1 }));
        client.send(Message::new(vec![2])).await.expect("later messages are valid");
        let message = server.receive().await.expect("in order").expect("a message");
        assert_eq!(message.bytes, [2]);
    });
}

#[test]
fn two_paths_carry_a_large_transfer() {
    run(async {
        let (hosts, [client, server]) = associated(3, |_| {}).await;
        let sent = data(3_000_000);
        let send = async {
            for part in sent.chunks(30_000) {
                client.send(Message::new(part.to_vec())).await.expect("the peer receives");
            }
            client.close();
        };
        let receive = async {
            let mut read = Vec::new();
            while let Some(message) = server.receive().await.expect("in order") {
                read.extend(message.bytes);
            }
            read
        };
        let ((), read) = tokio::join!(send, receive);
        assert!(read == sent);
        assert_eq!(client.ended().await, Reason::Closed);
        let report = client.report().await.expect("the last report");
        assert_eq!(
            report.paths.iter().filter(|path| path.counters.bytes_sent > 500_000).count(),
            2,
            "{report:?}"
        );
        let stopped = hosts[0].stop(Stop::Drain(Duration::from_secs(1))).await.expect("the stack runs");
        assert_eq!(stopped.aborted, 0);
    });
}

#[test]
fn primary_path_changes() {
    run(async {
        let (_hosts, [client, _server]) = associated(4, |_| {}).await;
        while client.set_primary(PathId(1)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(client.set_primary(PathId(9)).await, Err(Error::NoSuchPath));
    });
}

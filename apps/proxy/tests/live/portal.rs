//! A link on which a program other than the far proxy accepts connections: a captive portal, accelerator or firewall.

use super::program::{EVENT_TIMEOUT, Program, connect, echo, exchange, server};
use super::socks::{OPEN_CONFIG, through};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// Behaviour of the program on the first link.
#[derive(Clone, Copy, Debug)]
enum Portal {
    /// The portal sends an answer of another protocol.
    Answers,
    /// The portal sends no answer.
    IsSilent,
    /// The portal closes the connection immediately.
    Closes,
    /// The portal resets the connection immediately.
    Resets,
}

/// Local address from which connections use the first link, which has a portal.
const FIRST: [u8; 4] = [127, 0, 0, 2];

/// Starts a server that stands for the network: it acts as a portal for connections over the first link, and forwards
/// others to the far proxy.
fn network(far: SocketAddr, portal: Portal) -> SocketAddr {
    server("127.0.0.1:0", move |mut stream| {
        if stream.peer_addr().is_ok_and(|peer| peer.ip() == IpAddr::from(FIRST)) {
            match portal {
                Portal::Answers => drop(stream.write_all(b"HTTP/1.1 302 Found\r\n\r\n")),
                Portal::IsSilent => {}
                Portal::Closes => return,
                Portal::Resets => {
                    socket2::SockRef::from(&stream)
                        .set_linger(Some(Duration::ZERO))
                        .expect("TCP has the option");
                    return;
                }
            }
            // Waits until the client closes the connection.
            drop(std::io::copy(&mut stream, &mut std::io::sink()));
            return;
        }
        let far = TcpStream::connect(far).expect("the server listens");
        let (mut up, mut to_far) = (stream.try_clone().expect("a copy"), far.try_clone().expect("a copy"));
        std::thread::spawn(move || {
            drop(std::io::copy(&mut up, &mut to_far));
            drop(to_far.shutdown(Shutdown::Write));
        });
        drop(std::io::copy(&mut &far, &mut &stream));
        drop(stream.shutdown(Shutdown::Write));
    })
}

fn pass_portals(command: &str) {
    let user = "name = \"alice\"\npassword = \"secret\"\n";
    let open = OPEN_CONFIG.replace("socks", command);
    let far = Program::start(command, &format!("{open}[[{command}.user]]\n{user}"), 1);
    let target = echo("127.0.0.1:0");
    for portal in [Portal::Answers, Portal::IsSilent, Portal::Closes, Portal::Resets] {
        let proxy = network(far.address(), portal);
        let via = format!(
            "[socks.via]\nproxy = \"{proxy}\"\nprotocol = \"{command}\"\nuser = {{ name = \"alice\", password = \"secret\" }}\n\
             from = [\"127.0.0.2\", \"127.0.0.3\"]\n"
        );
        let near = Program::start("socks", &format!("[socks]\nlisten = [\"127.0.0.1:0\"]\n{via}"), 1);
        for request in 0..3 {
            let stream = through(&near, target);
            assert_eq!(&exchange::<5>(&stream, b"hello"), b"hello", "{portal:?} {request}");
        }
        near.line("gives no valid answer from 127.0.0.2");
    }
}

#[test]
fn socks_passes_portals() {
    pass_portals("socks");
}

#[test]
fn convert_passes_portals() {
    pass_portals("convert");
}

/// A connection that only probes the proxy is not logged.
#[test]
fn greeting_alone_is_not_logged() {
    let far = Program::start(
        "socks",
        &format!("{OPEN_CONFIG}[[socks.user]]\nname = \"alice\"\npassword = \"secret\"\n"),
        1,
    );
    let stream = connect(far.address());
    assert_eq!(exchange(&stream, &[5, 1, 0x82]), [5, 0x82]);
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("TCP has the option");
    drop(stream);
    let stream = connect(far.address());
    stream.set_read_timeout(Some(EVENT_TIMEOUT)).expect("a timeout can be set");
    (&stream).write_all(&[9, 9]).expect("the peer reads");
    drop((&stream).read(&mut [0]));
    let line = far.line("127.0.0.1: ");
    assert!(line.contains("not a version of SOCKS"), "{line}");
}

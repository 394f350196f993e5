//! Programs and sockets that are peers of this project's stack.

use core::net::{IpAddr, SocketAddr};
use rustix::net::{AddressFamily, Protocol, SocketType};
use std::net::TcpListener;
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A stream socket of TCP or Multipath TCP (`IPPROTO_MPTCP`).
pub fn socket(address: IpAddr, multipath: bool) -> OwnedFd {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let protocol = multipath.then(|| Protocol::from_raw(NonZeroU32::new(262).expect("not zero")));
    rustix::net::socket(family, SocketType::STREAM, protocol).expect("the kernel supports the protocol")
}

/// A socket that listens on an address.
pub fn listener(multipath: bool, local: SocketAddr) -> TcpListener {
    let socket = socket(local.ip(), multipath);
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true).expect("a TCP socket has this option");
    rustix::net::bind(&socket, &local).expect("the address belongs to the machine");
    rustix::net::listen(&socket, 1).expect("a bound socket can listen");
    TcpListener::from(socket)
}

/// Builds the program around usrsctp from its source into a folder; `None` if it cannot be built.
pub fn build_usrsctp(source: &str, folder: &str) -> Option<PathBuf> {
    let program = Path::new(folder).join("usrsctp-peer");
    // Built under a separate name: another run of the tests may be using the program.
    let new = program.with_extension(std::process::id().to_string());
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-Wall", "-Wextra", "-Werror", source, "-o"]).arg(&new);
    let built = cc.args(["-lusrsctp", "-lpthread"]).status();
    let built = built.is_ok_and(|status| status.success()) && std::fs::rename(new, &program).is_ok();
    built.then_some(program)
}

/// A running program with pipes. It is stopped when this value is dropped.
pub struct Running(pub Child);

impl Running {
    /// Starts a program.
    pub fn start(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(piped.spawn().expect("the program was just built"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        drop(self.0.kill().and_then(|()| self.0.wait()));
    }
}

//! A client of Multipath TCP on two new TUN interfaces: sends a request and prints the answer. As root:
//!
//! ```sh
//! cargo run -p anabranch-net --example mptcp_client -- 10.99.0.1 80
//! ```

#[cfg(target_os = "linux")]
mod linux {
    use anabranch_endpoint::Address;
    use anabranch_host::{Limits, Protocol};
    use anabranch_net::{Clock, Network, Stack, Stop, Tun};
    use anabranch_tcp::mptcp;
    use core::net::IpAddr;
    use std::error::Error;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::main(flavor = "current_thread")]
    pub async fn main() -> Result<(), Box<dyn Error>> {
        let mut arguments = std::env::args().skip(1);
        let server: IpAddr = arguments.next().ok_or("the address of the server is missing")?.parse()?;
        let port = arguments.next().ok_or("the port of the server is missing")?.parse()?;

        // On each interface the kernel has the address .1 and this program .2.
        let mut network = Network::new(Clock::new());
        for path in 0..2 {
            let [kernel, own] = [1, 2].map(|host| IpAddr::from([10, 99, path, host]));
            network.add(Tun::new(&format!("ana{path}"), (kernel, 24), 1500)?, &[Address::new(own, 1500)]);
        }
        let stack = Stack::start(network, Limits::default())?;

        let protocol = Protocol::Mptcp(mptcp::Config::default());
        let mut stream = stack.connect(protocol, server, port).await?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
        stream.shutdown().await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        println!("{}", String::from_utf8_lossy(&answer));
        for path in stream.report().await?.paths {
            println!("{} to {}: {} bytes received", path.local, path.remote, path.counters.bytes_received);
        }
        stack.stop(Stop::Drain(Duration::from_secs(5))).await?;
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("mptcp_client: TUN interfaces need Linux");
    std::process::exit(1);
}

//! Errors of networks.

use core::fmt;

/// The reason why links and flows do not form a network. Flows are given by their index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// There are more links than addresses.
    TooManyLinks {
        /// Number of links.
        links: usize,
    },
    /// A flow ends at a host without a link.
    NoLink {
        /// The flow.
        flow: usize,
        /// Name of the host.
        host: String,
    },
    /// A flow has the same host at both ends.
    SameHost {
        /// The flow.
        flow: usize,
        /// The host.
        host: String,
    },
    /// No route connects the hosts of a flow.
    Unreachable {
        /// The flow.
        flow: usize,
        /// Sending and receiving host.
        hosts: Box<[String; 2]>,
    },
    /// The tables of routers send packets in a circle.
    Loop {
        /// The routers, in order.
        nodes: Vec<String>,
        /// Index of the link with the destination's address.
        link: usize,
    },
    /// An end of a link has the addresses of another link, but the driver of the network gives each interface its own.
    SharedAddresses {
        /// The link.
        link: String,
    },
    /// A link has link-local addresses, but the driver of the network cannot distinguish addresses by link.
    LinkLocal {
        /// The link.
        link: String,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyLinks { links } => {
                write!(f, "there are {links} links, but addresses for only {}", super::MAX_LINKS)
            }
            Self::NoLink { host, .. } => write!(f, "no link connects the host \"{host}\""),
            Self::SameHost { host, .. } => write!(f, "the flow goes from the host \"{host}\" to itself"),
            Self::LinkLocal { link } => {
                write!(
                    f,
                    "the addresses of link \"{link}\" are link-local, which only the simulator supports"
                )
            }
            Self::SharedAddresses { link } => {
                write!(
                    f,
                    "link \"{link}\" has the addresses of another link, which only the simulator supports"
                )
            }
            Self::Loop { nodes, .. } => {
                write!(f, "the routes of {} send packets in a circle", nodes.join(", "))
            }
            Self::Unreachable { hosts, .. } => {
                let [from, to] = hosts.as_ref();
                write!(
                    f,
                    "no route connects \"{from}\" and \"{to}\" (a node at the end of a flow does not forward)"
                )
            }
        }
    }
}

impl core::error::Error for BuildError {}

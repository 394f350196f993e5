//! What can be wrong with a network.

use core::fmt;

/// Why links and flows do not make a network. Flows are given by their index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// More links than there are addresses for.
    TooManyLinks {
        /// How many there are.
        links: usize,
    },
    /// A flow ends at a host that no link leads to.
    NoLink {
        /// The flow.
        flow: usize,
        /// The host.
        host: String,
    },
    /// A flow goes from a host to itself.
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
    /// A link's addresses are good for that link only, and whoever sets the network up cannot say which link an address is on.
    LinkLocal {
        /// The link.
        link: String,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyLinks { links } => {
                write!(f, "{links} links are too many: there are addresses for {}", super::MAX_LINKS)
            }
            Self::NoLink { host, .. } => write!(f, "no link leads to the host \"{host}\""),
            Self::SameHost { host, .. } => write!(f, "the flow goes from the host \"{host}\" to itself"),
            Self::LinkLocal { link } => {
                write!(f, "the addresses of link \"{link}\" are link-local, which the simulator alone has")
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

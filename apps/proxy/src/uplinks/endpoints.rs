//! Endpoints and limits of the kernel's path manager, over `genetlink(7)`. The numbers are from `linux/mptcp.h`
//! (`linux/mptcp_pm.h`) and `linux/genetlink.h`.

use super::netlink::{Attributes, Message, Socket};
use super::parts::Endpoint;
use super::routing::octets;
use core::net::IpAddr;
use rustix::net::netlink::GENERIC;
use std::io;

/// The generic netlink family that describes families (`GENL_ID_CTRL`), and its attributes.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// Length of `struct genlmsghdr`.
const HEADER: usize = 4;

/// Command `MPTCP_PM_CMD_ADD_ADDR`.
const ADD: u8 = 1;
/// Command `MPTCP_PM_CMD_DEL_ADDR`.
const DELETE: u8 = 2;
/// Command `MPTCP_PM_CMD_GET_ADDR`.
const GET: u8 = 3;
/// Command `MPTCP_PM_CMD_SET_LIMITS`.
const SET_LIMITS: u8 = 5;
/// Command `MPTCP_PM_CMD_GET_LIMITS`.
const GET_LIMITS: u8 = 6;
/// Command `MPTCP_PM_CMD_SET_FLAGS`.
const SET_FLAGS: u8 = 7;

/// Attribute `MPTCP_PM_ATTR_ADDR`.
const ADDRESS: u16 = 1;
/// Attribute `MPTCP_PM_ATTR_RCV_ADD_ADDRS`.
const ACCEPTED: u16 = 2;
/// Attribute `MPTCP_PM_ATTR_SUBFLOWS`.
const SUBFLOWS: u16 = 3;

/// Attributes nested in `ADDRESS`.
const FAMILY: u16 = 1;
const ID: u16 = 2;
const V4: u16 = 3;
const V6: u16 = 4;
const FLAGS: u16 = 6;
const LINK: u16 = 7;

/// Flag `MPTCP_PM_ADDR_FLAG_SUBFLOW`.
const SUBFLOW: u32 = 1 << 1;
/// Flag `MPTCP_PM_ADDR_FLAG_BACKUP`.
const BACKUP: u32 = 1 << 2;
/// Flag of an endpoint that the kernel created for the source address of a subflow. Adding an endpoint with this
/// address replaces it.
const IMPLICIT: u32 = 1 << 4;

/// An endpoint of the kernel's path manager with its identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelEndpoint {
    /// Identifier of the endpoint.
    pub id: u8,
    /// Settings of the endpoint.
    pub endpoint: Endpoint,
}

/// A connection to the kernel's path manager.
#[derive(Debug)]
pub struct PathManager {
    socket: Socket,
    family: u16,
}

impl PathManager {
    /// Opens a connection to the path manager of this network namespace.
    ///
    /// # Errors
    /// If the kernel has no path manager.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::open(Some(GENERIC))?;
        let query = Message::new(CONTROL, &[GET_FAMILY, 1, 0, 0]).with(FAMILY_NAME, b"mptcp_pm\0");
        let answer = socket.one(query)?;
        let id = answer.attributes(HEADER)?.get(FAMILY_ID).and_then(|id| id.try_into().ok());
        let family = id.map(u16::from_ne_bytes).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { socket, family })
    }

    /// Lists all endpoints except implicit ones, which the kernel created itself.
    ///
    /// # Errors
    ///
    /// If the kernel refuses, as it does without root.
    pub fn endpoints(&mut self) -> io::Result<Vec<KernelEndpoint>> {
        let found = self.socket.list(&self.message(GET))?;
        let mut endpoints = Vec::new();
        for message in &found {
            let attributes = message.attributes(HEADER)?;
            let inside = Attributes::parse(attributes.get(ADDRESS).unwrap_or_default())?;
            endpoints.extend(parse_endpoint(&inside));
        }
        Ok(endpoints)
    }

    /// Adds an endpoint.
    ///
    /// # Errors
    /// If the kernel refuses, because the address is already an endpoint or the limit of endpoints is reached.
    pub fn add(&mut self, known: KernelEndpoint) -> io::Result<()> {
        self.execute(ADD, known)
    }

    /// Removes an endpoint; the kernel closes its subflows.
    ///
    /// # Errors
    /// If the endpoint does not exist, or the kernel refuses.
    pub fn remove(&mut self, known: KernelEndpoint) -> io::Result<()> {
        self.execute(DELETE, known)
    }

    /// Sets or clears the backup flag of an endpoint and of its subflows, as `known` contains it.
    ///
    /// # Errors
    ///
    /// If there is no such endpoint, or the kernel refuses.
    pub fn set_backup(&mut self, known: KernelEndpoint) -> io::Result<()> {
        self.execute(SET_FLAGS, known)
    }

    /// Returns the maximum number of subflows that a connection may have in addition to its first one.
    ///
    /// # Errors
    /// If the kernel's answer is unexpected.
    pub fn limit(&mut self) -> io::Result<u32> {
        Ok(self.limits()?.1)
    }

    /// Sets the maximum number of subflows that a connection may have in addition to its first one.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_limit(&mut self, subflows: u32) -> io::Result<()> {
        let (accepted, _) = self.limits()?;
        let limits = self.message(SET_LIMITS).with_u32(ACCEPTED, accepted).with_u32(SUBFLOWS, subflows);
        self.socket.execute(limits, 0)
    }

    /// Returns both limits of the path manager: that of accepted addresses, and that of further subflows.
    fn limits(&mut self) -> io::Result<(u32, u32)> {
        let answer = self.socket.one(self.message(GET_LIMITS))?;
        let attributes = answer.attributes(HEADER)?;
        let both = attributes.u32(ACCEPTED).zip(attributes.u32(SUBFLOWS));
        both.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn message(&self, command: u8) -> Message {
        Message::new(self.family, &[command, 1, 0, 0])
    }

    fn execute(&mut self, command: u8, known: KernelEndpoint) -> io::Result<()> {
        let message = self.message(command).with_nested(ADDRESS, &encode_endpoint(known));
        self.socket.execute(message, 0)
    }
}

fn encode_endpoint(KernelEndpoint { id, endpoint }: KernelEndpoint) -> Message {
    let Endpoint { address, link, backup } = endpoint;
    let (family, kind): (u16, _) = if address.is_ipv4() { (2, V4) } else { (10, V6) };
    Message::new(0, &[])
        .with(FAMILY, &family.to_ne_bytes())
        .with(ID, &[id])
        .with(kind, &octets(address))
        .with_u32(FLAGS, SUBFLOW | if backup { BACKUP } else { 0 })
        .with_u32(LINK, link)
}

fn parse_endpoint(attributes: &Attributes<'_>) -> Option<KernelEndpoint> {
    let address: IpAddr = attributes.ip(V4).or_else(|| attributes.ip(V6))?;
    let flags = attributes.u32(FLAGS).unwrap_or_default();
    let endpoint =
        Endpoint { address, link: attributes.u32(LINK).unwrap_or_default(), backup: flags & BACKUP != 0 };
    let id = *attributes.get(ID)?.first()?;
    (flags & IMPLICIT == 0).then_some(KernelEndpoint { id, endpoint })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_survive_encoding() {
        for (address, backup) in [("192.0.2.1", true), ("2001:db8::1", false)] {
            let endpoint = Endpoint { address: address.parse().unwrap(), link: 7, backup };
            let expected = KernelEndpoint { id: 200, endpoint };
            let message = encode_endpoint(expected);
            assert_eq!(parse_endpoint(&message.attributes(0).unwrap()), Some(expected));
        }
        let implicit =
            Message::new(0, &[]).with(ID, &[1]).with(V4, &[192, 0, 2, 1]).with_u32(FLAGS, IMPLICIT);
        assert_eq!(parse_endpoint(&implicit.attributes(0).unwrap()), None);
    }
}

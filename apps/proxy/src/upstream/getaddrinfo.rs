//! `getaddrinfo(3)` for one address family. The standard library queries both families together, and returns only when
//! both answers have arrived.

#![expect(unsafe_code, reason = "getaddrinfo(3) and its list of results")]

use core::net::SocketAddr;
use socket2::SockAddr;
use std::ffi::{CStr, CString};
use std::io::{self, ErrorKind};

/// An address family, which determines the type of DNS record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4, A records.
    V4,
    /// IPv6, AAAA records.
    V6,
}

/// Looks up the addresses of a host in one family. Blocks until the system's resolver has answered.
///
/// # Errors
/// `HostUnreachable` with the resolver's reason if there is no address.
pub fn look_up(name: &str, port: u16, family: Family) -> io::Result<Vec<SocketAddr>> {
    let name = CString::new(name)
        .map_err(|_| io::Error::new(ErrorKind::HostUnreachable, "the name contains a zero byte"))?;
    // SAFETY: `addrinfo` consists of numbers and pointers, for which zero is a valid value.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    hints.ai_family = match family {
        Family::V4 => libc::AF_INET,
        Family::V6 => libc::AF_INET6,
    };
    hints.ai_socktype = libc::SOCK_STREAM;
    let mut first = std::ptr::null_mut();
    // SAFETY: `name` ends in a zero byte, `hints` is initialized, and `first` is a valid place for the result.
    let status =
        unsafe { libc::getaddrinfo(name.as_ptr(), std::ptr::null(), &raw const hints, &raw mut first) };
    if status != 0 {
        return Err(error(status));
    }
    let (mut addresses, mut entry) = (Vec::new(), first);
    while !entry.is_null() {
        // SAFETY: `freeaddrinfo` below frees the entries; until then they are valid.
        let info = unsafe { &*entry };
        addresses.extend(address(info, port));
        entry = info.ai_next;
    }
    // SAFETY: `getaddrinfo` allocated the list, and no reference into the list exists any more.
    unsafe { libc::freeaddrinfo(first) };
    Ok(addresses)
}

fn error(status: i32) -> io::Error {
    if status == libc::EAI_SYSTEM {
        return io::Error::new(ErrorKind::HostUnreachable, io::Error::last_os_error());
    }
    // SAFETY: the text is static, and ends in a zero byte.
    let text = unsafe { CStr::from_ptr(libc::gai_strerror(status)) };
    io::Error::new(ErrorKind::HostUnreachable, format!("no address: {}", text.to_string_lossy()))
}

fn address(info: &libc::addrinfo, port: u16) -> Option<SocketAddr> {
    let len = info.ai_addrlen;
    if info.ai_addr.is_null() || len as usize > size_of::<libc::sockaddr_storage>() {
        return None;
    }
    // SAFETY: `ai_addr` points to `ai_addrlen` bytes, which fit into the storage.
    let copied = unsafe {
        SockAddr::try_init(|storage, storage_len| {
            std::ptr::copy_nonoverlapping(info.ai_addr.cast::<u8>(), storage.cast::<u8>(), len as usize);
            *storage_len = len;
            Ok(())
        })
    };
    let mut address = copied.ok()?.1.as_socket()?;
    address.set_port(port);
    Some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_has_its_addresses() {
        assert_eq!(look_up("127.0.0.1", 80, Family::V4).unwrap(), ["127.0.0.1:80".parse().unwrap()]);
        assert_eq!(look_up("::1", 80, Family::V6).unwrap(), ["[::1]:80".parse().unwrap()]);
        for (name, family) in
            [("127.0.0.1", Family::V6), ("no-such-host.invalid", Family::V4), ("a\0b", Family::V4)]
        {
            assert_eq!(look_up(name, 80, family).unwrap_err().kind(), ErrorKind::HostUnreachable, "{name}");
        }
    }
}

//! Socket options.

use crate::Errno;
use crate::machine::Machine;
use crate::socket::State;
use anabranch_base::time::Duration;
use anabranch_endpoint::Endpoint;

/// Bounds of `TCP_MAXSEG` (Linux: `TCP_MIN_MSS`, `MAX_TCP_WINDOW`).
const SEGMENT: core::ops::RangeInclusive<i32> = 88..=32_767;

/// `TCP_CC_INFO` of `linux/tcp.h`.
const TCP_CC_INFO: i32 = 26;
/// Length of the value of `SO_MEMINFO`: nine numbers.
const MEMINFO_LEN: usize = 36;

impl Machine {
    /// Sets an option of a socket. Settings apply to the next connection of the socket, and `TCP_USER_TIMEOUT` to its
    /// present one, too.
    ///
    /// # Errors
    /// `ENOPROTOOPT` for an unknown option, `EINVAL` for an invalid value.
    pub fn set_option(&mut self, fd: i32, option: (i32, i32), value: i32) -> Result<(), Errno> {
        if value < 0 {
            return Err(libc::EINVAL);
        }
        self.set(fd, option, value)?;
        if self.of(fd)?.state == State::Listening { self.listen_again(fd) } else { Ok(()) }
    }

    fn set(&mut self, fd: i32, option: (i32, i32), value: i32) -> Result<(), Errno> {
        let socket = self.of(fd)?;
        match option {
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => socket.config.nagle = value == 0,
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) if SEGMENT.contains(&value) => {
                socket.max_segment = Some(value as u32);
            }
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => return Err(libc::EINVAL),
            (libc::IPPROTO_TCP, libc::TCP_SYNCNT) => socket.config.syn_retries = value as u32,
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => {
                let timeout = (value > 0).then(|| Duration::from_millis(value as u64));
                socket.config.user_timeout = timeout;
                let (state, now) = (socket.state, self.now);
                if let State::Connected(id) = state
                    && let Some(core) = self.host.core_mut(id)
                {
                    core.set_user_timeout(now, timeout);
                }
            }
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => {
                socket.config.keepalive = Some(Duration::from_secs(value as u64));
            }
            // Linux keeps twice the value, for its own structures.
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => keep(&mut socket.kept, option, value.saturating_mul(2)),
            (libc::SOL_SOCKET, libc::SO_REUSEADDR | libc::SO_RCVBUF | libc::SO_KEEPALIVE) => {
                keep(&mut socket.kept, option, value);
            }
            _ => return Err(libc::ENOPROTOOPT),
        }
        Ok(())
    }

    /// Sets `SO_LINGER`: with `on` and no time, `close` aborts.
    ///
    /// # Errors
    /// `EBADF` without such a socket.
    pub fn set_linger(&mut self, fd: i32, on: bool, seconds: i32) -> Result<(), Errno> {
        self.of(fd)?.lingers = on && seconds == 0;
        Ok(())
    }

    /// The value of an option, as bytes.
    ///
    /// # Errors
    /// `ENOPROTOOPT` for an unknown option.
    pub fn option(&mut self, fd: i32, option: (i32, i32)) -> Result<Vec<u8>, Errno> {
        let socket = self.of(fd)?;
        let number = |value: i32| Ok(value.to_ne_bytes().to_vec());
        let (state, max) = (socket.state, socket.max_segment);
        match (option, state) {
            ((libc::IPPROTO_TCP, libc::TCP_INFO), State::Connected(id)) => Ok(self.info(id)),
            ((libc::IPPROTO_TCP, libc::TCP_NODELAY), _) => number(i32::from(!socket.config.nagle)),
            ((libc::IPPROTO_TCP, libc::TCP_MAXSEG), State::Connected(id)) => {
                let report = self.host.endpoint(id).map(Endpoint::report);
                let mss = report.and_then(|report| report.paths.first().map(|path| path.mss as i32));
                number(mss.unwrap_or_default())
            }
            ((libc::IPPROTO_TCP, libc::TCP_MAXSEG), _) => number(max.map_or(536, |max| max as i32)),
            ((libc::SOL_SOCKET, libc::SO_ERROR), State::Connected(id)) => {
                number(self.connections.entry(id).or_default().error.take().unwrap_or(0))
            }
            ((libc::SOL_SOCKET, libc::SO_ERROR), _) => number(0),
            // No congestion control has further values.
            ((libc::IPPROTO_TCP, TCP_CC_INFO), _) => Ok(Vec::new()),
            ((libc::SOL_SOCKET, libc::SO_MEMINFO), _) => Ok(vec![0; MEMINFO_LEN]),
            _ => match socket.kept.iter().find(|(kept, _)| *kept == option) {
                Some((_, value)) => number(*value),
                None => Err(libc::ENOPROTOOPT),
            },
        }
    }

    /// Bytes that `read` would return (`SIOCINQ`).
    ///
    /// # Errors
    /// `ENOTCONN` without a connection.
    pub fn readable(&mut self, fd: i32) -> Result<u64, Errno> {
        let id = self.connection(fd)?;
        Ok(self.host.endpoint(id).map_or(0, Endpoint::readable))
    }

    /// Written bytes that the peer has not acknowledged (`SIOCOUTQ`).
    ///
    /// # Errors
    /// `ENOTCONN` without a connection.
    pub fn unacknowledged(&mut self, fd: i32) -> Result<u64, Errno> {
        let id = self.connection(fd)?;
        Ok(self.host.endpoint(id).map_or(0, |endpoint| endpoint.report().send_buffer))
    }
}

fn keep(kept: &mut Vec<((i32, i32), i32)>, option: (i32, i32), value: i32) {
    kept.retain(|(other, _)| *other != option);
    kept.push((option, value));
}

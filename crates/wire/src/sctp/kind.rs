//! Chunk type numbers.

/// `DATA`.
pub const DATA: u8 = 0;
/// `INIT`.
pub const INIT: u8 = 1;
/// `INIT ACK`.
pub const INIT_ACK: u8 = 2;
/// `SACK`.
pub const SACK: u8 = 3;
/// `HEARTBEAT`.
pub const HEARTBEAT: u8 = 4;
/// `HEARTBEAT ACK`.
pub const HEARTBEAT_ACK: u8 = 5;
/// `ABORT`.
pub const ABORT: u8 = 6;
/// `SHUTDOWN`.
pub const SHUTDOWN: u8 = 7;
/// `SHUTDOWN ACK`.
pub const SHUTDOWN_ACK: u8 = 8;
/// `ERROR`.
pub const ERROR: u8 = 9;
/// `COOKIE ECHO`.
pub const COOKIE_ECHO: u8 = 10;
/// `COOKIE ACK`.
pub const COOKIE_ACK: u8 = 11;
/// `ECNE`.
pub const CONGESTION_ECHO: u8 = 12;
/// `CWR`.
pub const CONGESTION_REDUCED: u8 = 13;
/// `SHUTDOWN COMPLETE`.
pub const SHUTDOWN_COMPLETE: u8 = 14;
/// `AUTH`.
pub const AUTH: u8 = 0x0f;
/// `NR-SACK`.
pub const NR_SACK: u8 = 0x10;
/// `I-DATA`.
pub const I_DATA: u8 = 0x40;
/// `ASCONF ACK`.
pub const ASCONF_ACK: u8 = 0x80;
/// `RE-CONFIG`.
pub const RECONFIG: u8 = 0x82;
/// `PAD`.
pub const PAD: u8 = 0x84;
/// Network control; experimental.
pub const NETWORK_CONTROL: u8 = 190;
/// `FORWARD TSN`.
pub const FORWARD_TSN: u8 = 0xc0;
/// `ASCONF`.
pub const ASCONF: u8 = 0xc1;
/// `I-FORWARD-TSN`.
pub const I_FORWARD_TSN: u8 = 0xc2;

//! Properties that hold for any input. The fuzz targets and the smoke test run the same functions.

pub mod convert;
pub mod first_bytes;
pub mod socks;

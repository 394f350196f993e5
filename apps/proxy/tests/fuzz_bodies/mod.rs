//! What must hold of any bytes that strangers send. The fuzz targets and the smoke test run the same functions.

pub mod convert;
pub mod socks;

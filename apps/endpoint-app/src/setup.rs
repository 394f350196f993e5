//! Creates the protocol and the network devices that the arguments request.

use crate::arguments::Arguments;
use crate::error::Error;
use anabranch_host::Protocol;
use anabranch_net::{DevicesError, Network, create_recording};
use anabranch_replay::Recording;
use anabranch_settings::protocol::Protocol as Settings;
use anabranch_wire::sctp::encapsulation::Ports;

/// Creates the protocol with its settings.
///
/// # Errors
///
/// One sentence, if a key or its value is wrong.
pub fn protocol(arguments: &Arguments) -> Result<Protocol, Error> {
    let mut settings = Settings::new(arguments.protocol);
    // Any network may drop long packets without an ICMP error.
    match &mut settings {
        Settings::Tcp(config) => config.black_hole_detection = true,
        Settings::Mptcp(config) => config.tcp.black_hole_detection = true,
        Settings::Sctp(_) | Settings::Udp => {}
    }
    for (key, value) in &arguments.settings {
        settings
            .set(key, value)
            .map_err(|problem| Error::Input(format!("--set {key}={value}: {problem}")))?;
    }
    if let Settings::Sctp(config) = &mut settings
        && !arguments.devices.udp.is_empty()
    {
        config.encapsulation =
            Some(Ports { source: arguments.devices.udp_port, destination: arguments.peer_udp_port });
    }
    Ok(settings.into())
}

/// Creates the network devices, and the capture file if one is requested.
///
/// # Errors
///
/// One sentence, if the machine refuses one of them.
pub fn network(arguments: &Arguments) -> Result<Network, Error> {
    arguments.devices.open().map_err(|error| match error {
        DevicesError::Capture(file, error) => Error::Input(format!("--pcap {}: {error}", file.display())),
        error => Error::Refused(error.to_string()),
    })
}

/// Creates the file of the recording if one is requested.
///
/// # Errors
///
/// One sentence, if the file cannot be written.
pub fn recording(arguments: &Arguments) -> Result<Option<Recording>, Error> {
    let Some(file) = &arguments.record else { return Ok(None) };
    let refused = |error| Error::Input(format!("--record {}: {error}", file.display()));
    let out = Box::new(create_recording(file).map_err(refused)?);
    Ok(Some(Recording { out, has_data: arguments.record_data }))
}

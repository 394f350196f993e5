//! The table of congestion controls that can be loaded into the kernel.

use crate::Error;

/// A congestion control that can be loaded into the kernel.
#[derive(Debug)]
pub struct Control {
    /// Name in scenarios.
    pub name: &'static str,
    /// Name in the kernel, for `sysctl`, `TCP_CONGESTION` and `ss`. It is the name in scenarios with underscores
    /// instead of hyphens, because BPF permits at most 15 letters, digits and underscores.
    pub kernel_name: &'static str,
    /// Description in one line.
    pub summary: &'static str,
    pub(crate) object: &'static [u8],
}

macro_rules! control {
    ($name:literal, $summary:literal) => {
        control!($name, $name, $summary)
    };
    ($name:literal, $kernel_name:literal, $summary:literal) => {
        Control {
            name: $name,
            kernel_name: $kernel_name,
            summary: $summary,
            object: include_bytes!(concat!("../bpf/objects/", $name, ".bpf.o")),
        }
    };
}

/// All congestion controls that can be loaded into the kernel.
pub static CONTROLS: &[Control] = &[
    control!("lia", "linked increases: together as aggressive as one TCP on the best path"),
    control!("olia", "opportunistic linked increases: moves window to the best paths"),
    control!("balia", "balanced linked adaptation: between LIA's friendliness and OLIA's responsiveness"),
    control!(
        "cmt-rpv1",
        "cmt_rpv1",
        "growth shared by slow-start thresholds, loss takes half of the total window"
    ),
    control!("cmt-rpv2", "cmt_rpv2", "growth shared by rates, loss takes half of the total rate"),
    control!("wvegas", "delay-based: a backlog of ten packets, shared by rates"),
];

/// Returns the congestion control with this name in scenarios or in the kernel.
///
/// # Errors
///
/// If no congestion control has this name.
pub fn find(name: &str) -> Result<&'static Control, Error> {
    CONTROLS.iter().find(|control| control.name == name || control.kernel_name == name).ok_or_else(|| {
        let names: Vec<_> = CONTROLS.iter().map(|control| control.name).collect();
        Error::Input(format!("unknown control {name}; the controls are {}", names.join(", ")))
    })
}

/// Settings with which a congestion control is loaded; they apply to all its connections. `struct settings` in
/// `bpf/path.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Minimum threshold after a loss, packets.
    pub floor: u32,
    /// True if slow start is coupled as well; only for `lia`.
    pub coupled_start: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { floor: 2, coupled_start: false }
    }
}

/// Length of the version after the settings, bytes, including the final zero.
const VERSION_BYTES: usize = 24;

impl Settings {
    /// Length of the constants in a compiled object: settings and version.
    pub(crate) const LENGTH: usize = 8 + VERSION_BYTES;

    /// Encodes the constants of a compiled object, with the version of this loader.
    pub(crate) fn encode(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..4].copy_from_slice(&self.floor.to_ne_bytes());
        bytes[4..8].copy_from_slice(&u32::from(self.coupled_start).to_ne_bytes());
        let version = env!("CARGO_PKG_VERSION").as_bytes();
        let length = version.len().min(VERSION_BYTES - 1);
        bytes[8..8 + length].copy_from_slice(&version[..length]);
        bytes
    }

    /// Decodes settings and the loader's version; `None` if the data has another length.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, String)> {
        let (floor, rest) = bytes.split_first_chunk::<4>()?;
        let (coupled, version) = rest.split_first_chunk::<4>()?;
        let end = version.iter().position(|&byte| byte == 0)?;
        let settings =
            Self { floor: u32::from_ne_bytes(*floor), coupled_start: u32::from_ne_bytes(*coupled) != 0 };
        Some((settings, String::from_utf8_lossy(&version[..end]).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_settings_round_trip() {
        let settings = Settings { floor: 1, coupled_start: true };
        let found = Settings::decode(&settings.encode());
        assert_eq!(found, Some((settings, env!("CARGO_PKG_VERSION").to_owned())));
        assert_eq!(Settings::decode(&[0; 7]), None);
    }

    #[test]
    fn names_fit_the_kernel() {
        for control in CONTROLS {
            assert_eq!(control.kernel_name, control.name.replace('-', "_"));
            assert!(control.kernel_name.len() < 16, "{}", control.name);
        }
    }
}

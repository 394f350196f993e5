//! Loads compiled objects into the kernel.

use crate::{Control, Error, Settings, log};
use libbpf_rs::{MapType, Object, ObjectBuilder};

/// Loads the BPF programs of a congestion control, with these settings, without registering them.
///
/// # Errors
///
/// If the kernel refuses the programs; the error contains the log of the kernel's verifier.
pub fn load(control: &Control, settings: Settings) -> Result<Object, Error> {
    with_constants(control.name, control.object, &settings.encode())
}

/// Loads an object after replacing its constants (.rodata) by `constants`.
///
/// # Errors
///
/// If the kernel refuses the object; the error contains the log of the kernel's verifier.
pub fn with_constants(name: &str, object: &[u8], constants: &[u8]) -> Result<Object, Error> {
    log::begin();
    let refused = |error: libbpf_rs::Error| Error::Refused(log::explain(name, &error));
    // Names in the kernel consist only of letters, digits and underscores.
    let mut open = ObjectBuilder::default()
        .name(name.replace('-', "_"))
        .map_err(refused)?
        .open_memory(object)
        .map_err(refused)?;
    for mut map in open.maps_mut() {
        if map.name().to_string_lossy().ends_with(".rodata") {
            map.set_initial_value(constants).map_err(refused)?;
        }
    }
    open.load().map_err(refused)
}

/// True if a map of an object contains the operations of a congestion control.
pub fn is_operations(kind: MapType) -> bool {
    kind == MapType::StructOps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;

    /// Loads lia after replacing some bytes of its object; returns the resulting error.
    fn changed(from: &[u8], to: &[u8]) -> Option<String> {
        assert_eq!(from.len(), to.len());
        if let Err(error) = crate::machine::check() {
            anabranch_testkit::machine::skip(error);
            return None;
        }
        let lia = find("lia").expect("lia is in the table");
        let mut object = lia.object.to_vec();
        let at = object
            .windows(from.len())
            .position(|bytes| bytes == from)
            .expect("the object contains the bytes");
        object[at..at + from.len()].copy_from_slice(to);
        let error = with_constants("lia", &object, &Settings::default().encode())
            .expect_err("the kernel refuses the object");
        Some(error.to_string())
    }

    // Both checks are in one test, because all threads share the log of libbpf.
    #[test]
    fn controls_are_verified_and_errors_explained() {
        if crate::machine::check().is_ok() {
            for control in crate::CONTROLS {
                load(control, Settings::default()).expect("the verifier accepts the control");
            }
        }
        let Some(log) = changed(b"\0conn_list\0", b"\0conn_tree\0") else { return };
        assert!(log.contains("a structure whose layout") && log.contains("conn_tree"), "{log}");
        let Some(log) = changed(b"GPL\0", b"XXX\0") else { return };
        assert!(log.contains("verifier refuses lia") && log.contains("GPL"), "{log}");
    }
}

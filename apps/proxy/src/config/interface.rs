//! Names of network interfaces in the configuration file.

/// Maximum length of an interface name in bytes: `IFNAMSIZ` without the terminating zero byte.
const MAX_NAME_BYTES: usize = 15;

/// True if `name` is a valid name of an interface.
pub fn is_interface_name(name: &str) -> bool {
    let letters = |letter: char| letter.is_ascii_alphanumeric() || "._-@:".contains(letter);
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.chars().all(letters)
}

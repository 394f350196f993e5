//! Names of interfaces in the file.

/// Longest name of an interface (`IFNAMSIZ` less the zero behind it), bytes.
const MAX_NAME_BYTES: usize = 15;

/// Whether an interface may be called so.
pub fn is_interface(name: &str) -> bool {
    let letters = |letter: char| letter.is_ascii_alphanumeric() || "._-@:".contains(letter);
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.chars().all(letters)
}

//! Unpredictable secrets.

use anabranch_endpoint::Secrets;
use std::io;

/// A source of secrets with a random key of the operating system.
///
/// # Errors
///
/// If the system has no random numbers.
pub fn secrets() -> io::Result<Secrets> {
    secret_key().map(Secrets::new)
}

/// A random key of the operating system.
///
/// # Errors
///
/// If the system has no random numbers.
pub fn secret_key() -> io::Result<[u8; 32]> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    #[test]
    fn secrets_differ() {
        let mut drawn = [(); 2].map(|()| super::secrets().expect("the system has randomness").next_u64());
        drawn.sort_unstable();
        assert_ne!(drawn[0], drawn[1]);
    }
}

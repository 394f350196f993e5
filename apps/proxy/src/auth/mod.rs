//! Logins: passwords, proofs of passwords, and the delay after wrong ones.

pub mod login;
pub mod login_backoff;
pub mod password_proof;

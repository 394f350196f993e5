//! Settings of the protocols: plain data, separate from the protocols that use them.
//!
//! For authors of drivers and of descriptions of experiments. Read [`tcp::Config`], [`mptcp::Config`] and
//! [`sctp::Config`]; the protocols' crates re-export them. A setting is declared once: as a field with its default and,
//! if experiments may vary it, its [`Key`](key::Key). From the keys come the settings of scenarios, their
//! documents, and [`Table::set`](row::Table::set), which reads a text:
//!
//! ```
//! use anabranch_settings::row::Table;
//! use anabranch_settings::tcp;
//!
//! let mut config = tcp::Config::default();
//! config.set("abc_limit", "2")?;
//! config.set("delayed_ack", "10 ms")?;
//! assert_eq!(config.abc_limit, Some(2));
//! let problem = config.set("abc_limt", "2").expect_err("the key is misspelt");
//! assert_eq!(problem, "there is no setting \"abc_limt\"; did you mean \"abc_limit\"?");
//! # Ok::<(), String>(())
//! ```
//!
//! [`policy`] has the choices that a protocol implements, and [`protocol::Protocol`] the settings of any one protocol.

pub mod key;
pub mod mptcp;
pub mod policy;
pub mod protocol;
pub mod protocols;
pub mod quantity;
pub mod row;
pub mod sctp;
pub mod setting;
mod shared;
pub mod suggest;
pub mod tcp;
pub mod text;
mod unroutable;
pub mod words;

#[cfg(test)]
mod tests;

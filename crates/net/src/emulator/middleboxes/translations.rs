//! Addresses and ports that translators have changed, for the measurement of connections.

use super::tcp_source;
use anabranch_wire::Packet;
use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Maps the outside addresses and ports of TCP connections to the inside ones. Clones share the map.
#[derive(Clone, Debug, Default)]
pub struct Translations(Arc<Mutex<BTreeMap<SocketAddr, SocketAddr>>>);

impl Translations {
    /// Records that a segment has got another source.
    pub(super) fn add(&self, translated: &Packet, original: &Packet) {
        let Some((outer, inner)) = tcp_source(translated).zip(tcp_source(original)) else { return };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(outer, inner);
    }

    /// The address and port before all translations.
    pub fn original(&self, mut end: SocketAddr) -> SocketAddr {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Each translator on the way may have changed the source once.
        for _ in 0..map.len() {
            match map.get(&end) {
                Some(&inner) => end = inner,
                None => break,
            }
        }
        end
    }
}

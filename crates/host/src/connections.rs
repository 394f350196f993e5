//! The connections of a host, each under an identifier that is never used again.

use super::id::ConnectionId;
use super::names::AssociationNames;
use super::protocol::{Core, Transport, Tuple};
use anabranch_base::time::Time;
use core::num::NonZeroU32;

/// The owner of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The listener, during the handshake.
    Handshake((Transport, u16)),
    /// The listener, after the handshake and before the application accepts it.
    Complete((Transport, u16)),
    /// The application.
    Owned,
    /// Neither a listener nor the application owns the connection: it is removed when it has ended.
    Orphan,
}

/// A connection and the host's data about it.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) core: Core,
    pub(super) registered: Registration,
}

/// The host's data about a connection.
#[derive(Debug)]
pub(super) struct Registration {
    /// Transport whose ports the connection uses.
    pub(super) transport: Transport,
    pub(super) stage: Stage,
    /// The keys of the connection in the table of address and port tuples.
    pub(super) tuples: Vec<Tuple>,
    /// Local port of the connection's newest path.
    pub(super) last_port: u16,
    pub(super) token: Option<u32>,
    pub(super) association: AssociationNames,
    /// Time of the connection's entry in the heap of timers.
    pub(super) timer: Time,
    /// True if the connection is in the queue of connections to drive.
    pub(super) ready: bool,
    pub(super) closed: bool,
}

impl Slot {
    pub(super) fn new(core: Core, stage: Stage) -> Self {
        let registered = Registration {
            transport: core.transport(),
            stage,
            tuples: Vec::new(),
            last_port: 0,
            token: None,
            association: AssociationNames::default(),
            timer: Time::MAX,
            ready: false,
            closed: false,
        };
        Self { core, registered }
    }
}

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    slots: Vec<(NonZeroU32, Option<Box<Slot>>)>,
    free: Vec<u32>,
}

impl Connections {
    pub(super) const fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, slot: Slot) -> ConnectionId {
        let slot = Some(Box::new(slot));
        if let Some(at) = self.free.pop() {
            let place = &mut self.slots[at as usize];
            place.1 = slot;
            return ConnectionId { slot: at, generation: place.0 };
        }
        self.slots.push((NonZeroU32::MIN, slot));
        ConnectionId { slot: self.slots.len() as u32 - 1, generation: NonZeroU32::MIN }
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&Slot> {
        let (generation, slot) = self.slots.get(id.slot as usize)?;
        slot.as_deref().filter(|_| *generation == id.generation)
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Slot> {
        let (generation, slot) = self.slots.get_mut(id.slot as usize)?;
        slot.as_deref_mut().filter(|_| *generation == id.generation)
    }

    pub(super) fn remove(&mut self, id: ConnectionId) {
        if self.get(id).is_some() {
            let place = &mut self.slots[id.slot as usize];
            place.0 = place.0.checked_add(1).unwrap_or(NonZeroU32::MIN);
            place.1 = None;
            self.free.push(id.slot);
        }
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = ConnectionId> {
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, (_, slot))| slot.is_some())
            .map(|(at, (generation, _))| ConnectionId { slot: at as u32, generation: *generation })
    }

    /// Connections in a handshake at a listener.
    pub(super) fn waiting_at(&self, at: (Transport, u16)) -> impl Iterator<Item = ConnectionId> {
        self.ids()
            .filter(move |id| self.get(*id).is_some_and(|slot| slot.registered.stage == Stage::Handshake(at)))
    }
}

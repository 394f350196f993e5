//! Identifiers of the ends of flows.

/// Number of an end of a flow: twice the flow's index, plus one for the receiving end.
pub type EndId = u32;

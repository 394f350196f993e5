//! What the ends of flows are called where packets go to them.

/// One end of a flow: twice the flow's index, plus one for the receiving end.
pub type EndId = u32;

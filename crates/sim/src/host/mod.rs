//! Hosts: the endpoints of each flow, their applications, and measurements.

mod applications;
mod arrivals;
mod build;
mod delivery;
mod flow;
mod fragments;
mod hosts;
mod meters;
mod ports;
mod protocols;
mod relay;
mod returns;
mod side;
mod template;
mod write_times;

pub use applications::{Applications, State, Transfer};
pub use arrivals::{ArrivingFlow, ArrivingFlows, Totals};
pub use build::{Built, FlowError, Setup, flows};
pub use delivery::{Access, DeliveryChecker, Service, StreamDeliveries};
pub use flow::{End, Flow, Parts};
pub use hosts::{FlowEnvironment, HostId, Hosts};
pub use meters::{Baseline, Meters, PathMeter, Repetitions};
pub use relay::{Legs, Relays};
pub use returns::{Awaited, Returns, Watches};
pub use side::{RECEIVER, SENDER};
pub use template::Template;

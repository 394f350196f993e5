//! Rates, delays and losses of links and paths, as the scheduler `nca` gets them.

use crate::model::{Flow, LinkDelay, LinkModel, LinkRate, Loss, RateTrace, Scenario};
use anabranch_base::time::Duration;
use anabranch_base::units::Rate;
use anabranch_multipath::scheduler::{LinkInformation, PathInformation};
use anabranch_netem::{Interface, InterfaceAddress, Network, Series};
use anabranch_settings::policy::Information;
use anabranch_settings::protocol::Protocol;

/// Bytes that a link may send at each time of a trace in Mahimahi's format.
const OPPORTUNITY_BYTES: f64 = 1500.0;

/// True if the scheduler of a flow needs the characteristics of its paths.
pub fn are_needed(flow: &Flow) -> bool {
    let scheduler = match &flow.protocol {
        Protocol::Mptcp(config) => config.scheduler,
        Protocol::Sctp(config) if config.cmt && config.information == Information::Scenario => {
            config.scheduler
        }
        _ => return false,
    };
    scheduler.wants_information
}

/// The characteristics of the path from one interface to another over these links; `None` without a route.
pub fn of_path(
    network: &mut Network,
    [from, to]: [InterfaceAddress; 2],
    model: impl Fn(Interface) -> LinkModel,
) -> Option<PathInformation> {
    let models: Vec<_> = network.route(from, to)?.into_iter().map(model).collect();
    let mtu = models.iter().map(|model| model.mtu).min()?;
    PathInformation::of_links(models.iter().map(|model| of_link(model, mtu)), mtu)
}

/// The interfaces between which the connections of flows that need characteristics may send, in both directions.
pub fn needed_pairs(scenario: &Scenario, network: &mut Network) -> Vec<[InterfaceAddress; 2]> {
    let flows = scenario.flows.iter().chain(scenario.proxied().map(|(_, flow)| flow));
    let mut pairs: Vec<[InterfaceAddress; 2]> = Vec::new();
    for (index, _) in flows.enumerate().filter(|(_, flow)| are_needed(flow)) {
        pairs.extend(network.connected_pairs(index).flat_map(|[near, far]| [[near, far], [far, near]]));
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// The means of a link's direction for packets of `mtu` bytes.
fn of_link(model: &LinkModel, mtu: u32) -> LinkInformation {
    let delay = match &model.delay {
        LinkDelay::Constant(delay) => *delay,
        LinkDelay::Trace { series, .. } => Duration::from_nanos(mean(series) as u64),
    };
    let rate = match &model.rate {
        LinkRate::Constant(rate) => *rate,
        LinkRate::Trace { content: RateTrace::Opportunities(moments), .. } => {
            let period_s = moments.last().map_or(1.0, |&ms| ms as f64 / 1e3);
            Rate::from_bits_per_second((8.0 * OPPORTUNITY_BYTES * moments.len() as f64 / period_s) as u64)
        }
        LinkRate::Trace { content: RateTrace::Rates(series), .. } => {
            Rate::from_bits_per_second(mean(series) as u64)
        }
    };
    let jitter = Duration::from_nanos(model.jitter.as_nanos() / 2);
    LinkInformation { rate, delay: delay + jitter, loss: loss_share(&model.loss, mtu) }
}

/// Mean of the steps of a series over its period.
fn mean(series: &Series) -> f64 {
    let points = series.points();
    let lasting = |pair: &[(Duration, f64)]| pair[0].1 * pair[1].0.saturating_sub(pair[0].0).as_secs_f64();
    points.windows(2).map(lasting).sum::<f64>() / series.period().as_secs_f64()
}

/// Share of packets that a model loses, in the long run; none for a list of single packets.
fn loss_share(loss: &Loss, mtu: u32) -> f64 {
    match loss {
        Loss::None(_) | Loss::List(_) => 0.0,
        Loss::Bernoulli(model) => model.rate,
        Loss::GilbertElliott(model) => {
            let changes = model.to_bad + model.to_good;
            let bad = if changes > 0.0 { model.to_bad / changes } else { 0.0 };
            (1.0 - bad) * model.loss_good + bad * model.loss_bad
        }
        Loss::Periodic(model) => 1.0 / model.every as f64,
        Loss::BitErrors(model) => 1.0 - libm::pow(1.0 - model.rate, 8.0 * f64::from(mtu)),
        Loss::Trace(model) => mean(&model.series),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_the_characteristics_of_their_links() {
        let text = "duration = \"1 s\"\n[[link]]\nname = \"a\"\nbetween = [\"A\", \"R\"]\nrate = \"100 Mbit/s\"\n\
            delay = \"1 ms\"\nloss = { model = \"gilbert-elliott\", to_bad = 0.01, to_good = 0.04, loss_bad = 0.5 }\n\
            [[link]]\nname = \"b\"\nbetween = [\"R\", \"B\"]\nrate = \"8 Mbit/s\"\ndelay = \"20 ms\"\njitter = \"4 ms\"\n\
            loss = { model = \"periodic\", every = 10 }\nreverse = { rate = \"1 Mbit/s\", loss = { model = \"none\" } }\n\
            [[flow]]\nfrom = \"A\"\nto = \"B\"\nprotocol = \"mptcp\"\nscheduler = \"nca\"\n";
        let scenario = crate::parse(text, "test.toml", &[]).unwrap();
        let mut network = scenario.network().unwrap();
        let pairs = needed_pairs(&scenario, &mut network);
        let model = |hop: Interface| {
            let link = &scenario.links[hop.link()];
            if hop.end() == 0 { link.forward.clone() } else { link.reverse.clone() }
        };
        let found: Vec<_> =
            pairs.into_iter().map(|pair| of_path(&mut network, pair, model).unwrap()).collect();
        let path = |rate, delay_us, loss_per_billion| PathInformation {
            rate: Rate::from_bits_per_second(rate),
            delay: Duration::from_micros(delay_us),
            loss_per_billion,
        };
        // Losses of 10 % on each link, half of the jitter, and the transmission of 1,500 bytes.
        assert_eq!(found, [path(8_000_000, 24_500, 190_000_000), path(1_000_000, 35_000, 100_000_000)]);
    }
}

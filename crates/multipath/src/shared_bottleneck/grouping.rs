//! Groups paths whose statistics are similar (RFC 8382 §3.3.1).

use super::statistics::Summary;
use super::{P_D, P_F, P_L, P_MAD, P_S};
use crate::PathId;

/// Groups the paths that pass a bottleneck, one group for each bottleneck. Divides them by oscillation, then by
/// variability, by skewness, and by losses if these are frequent (§3.3.1, steps 2 to 5). A path without a bottleneck is
/// in no group.
///
/// Each division sorts the paths and cuts between neighbours that differ too much. So the first and the last path of a
/// group may differ by more than the threshold.
pub fn group(paths: &[(PathId, Summary)]) -> Vec<Vec<PathId>> {
    let at_bottleneck: Vec<_> = paths.iter().filter(|(_, summary)| summary.bottleneck).copied().collect();
    let mut groups = vec![at_bottleneck];
    groups = divide(groups, |summary| summary.frequency, |_| P_F);
    groups = divide(groups, |summary| summary.variability, |highest| P_MAD * highest);
    groups = divide(groups, |summary| summary.skewness, |_| P_S);
    groups =
        divide(groups, |summary| summary.loss, |highest| if highest > P_L { P_D * highest } else { 1.0 });
    let names = |group: Vec<(PathId, Summary)>| group.into_iter().map(|(path, _)| path).collect();
    groups.into_iter().filter(|group| !group.is_empty()).map(names).collect()
}

/// Divides each group, sorted from the highest value to the lowest, between neighbours whose difference is at least the
/// `threshold` for the higher value.
fn divide(
    groups: Vec<Vec<(PathId, Summary)>>,
    value: impl Fn(&Summary) -> f64,
    threshold: impl Fn(f64) -> f64,
) -> Vec<Vec<(PathId, Summary)>> {
    let mut divided = Vec::new();
    for mut group in groups {
        group.sort_by(|(a, x), (b, y)| value(y).total_cmp(&value(x)).then(a.cmp(b)));
        let alike = |pair: &[(PathId, Summary)]| {
            let (higher, lower) = (value(&pair[0].1), value(&pair[1].1));
            higher - lower < threshold(higher)
        };
        let mut from = 0;
        for at in 1..group.len() {
            if !alike(&group[at - 1..=at]) {
                divided.push(group[from..at].to_vec());
                from = at;
            }
        }
        divided.push(group[from..].to_vec());
    }
    divided
}

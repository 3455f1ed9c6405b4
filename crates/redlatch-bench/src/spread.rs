//! Many noisy figures as three: the median, and where the middle 80 % lie.

use serde::Serialize;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) p10: f64,
    pub(crate) median: f64,
    pub(crate) p90: f64,
}

impl Spread {
    /// `None` if there are no figures.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let [p10, median, p90] = quantiles([10, 50, 90], figures)?;
        Some(Self { p10, median, p90 })
    }

    /// The figures of one series over those of another, round by round.
    pub(crate) fn of_ratios(
        figures: impl IntoIterator<Item = Option<f64>>,
        base: impl IntoIterator<Item = Option<f64>>,
    ) -> Option<Self> {
        let pairs = figures.into_iter().zip(base);
        Self::of(pairs.filter_map(|(figure, base)| Some(figure? / base?)))
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2}–{:.2})", self.median, self.p10, self.p90)
    }
}

/// The figures at these percentages; `None` if there are no figures.
pub(crate) fn quantiles<const N: usize>(
    percent: [usize; N],
    figures: impl IntoIterator<Item = f64>,
) -> Option<[f64; N]> {
    let mut sorted: Vec<f64> = figures.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some(percent.map(|percent| sorted[(sorted.len() * percent / 100).min(last)]))
}

#[expect(clippy::cast_precision_loss, reason = "a hundred days in nanoseconds stay below 2^53")]
pub(crate) fn number(n: u64) -> f64 {
    n as f64
}

pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> Option<f64> {
    Some(Spread::of(figures)?.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wild_figure_moves_neither_median_nor_p90() {
        let calm = (1..=20).map(f64::from);
        let wild = (1..=19).map(f64::from).chain([1e9]);

        assert_eq!(Spread::of(calm), Spread::of(wild));
        assert_eq!(median((1..=20).map(f64::from)), Some(11.0));
    }

    #[test]
    fn few_figures_are_all_within_the_spread() {
        let few = [5.0, 1.0, 2.0, 4.0, 3.0];

        assert_eq!(Spread::of(few), Some(Spread { p10: 1.0, median: 3.0, p90: 5.0 }));
    }

    #[test]
    fn ratios_pair_up_by_round_and_skip_rounds_without_a_figure() {
        let ratios =
            Spread::of_ratios([Some(2.0), None, Some(8.0)], [Some(1.0), Some(5.0), Some(4.0)]);

        assert_eq!(ratios, Some(Spread { p10: 2.0, median: 2.0, p90: 2.0 }));
    }

    #[test]
    fn no_figures_have_no_spread() {
        assert_eq!(Spread::of([]), None);
    }
}

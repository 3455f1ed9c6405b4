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
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |percent: usize| sorted[(sorted.len() * percent / 100).min(last)];
        Some(Self { p10: at(10), median: at(50), p90: at(90) })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wild_figure_moves_neither_median_nor_p90() {
        let calm = (1..=20).map(f64::from);
        let wild = (1..=19).map(f64::from).chain([1e9]);

        assert_eq!(Spread::of(calm), Spread::of(wild));
        assert_eq!(Spread::of((1..=20).map(f64::from)).map(|s| s.median), Some(11.0));
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

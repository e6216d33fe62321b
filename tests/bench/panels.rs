//! Which curves stand in one panel.

use crate::{
    curves::{self, Bounds, Curve, Mark, Panel},
    quality::{Estimate, Quality},
    sweep::{DRAFT_ALONE, EXACT, Point, SAMPLINGS, SEQUENCE_CASCADE, TOKEN_CASCADE},
};

/// Panels of one sampling, from the top.
const FAMILIES: [(&str, &[&str]); 5] = [
    ("Cascades by probability", &["chow", "diff", "opt"]),
    ("Cascades by entropy or log-loss", &["chow-log", "diff-log", "opt-log"]),
    ("Cascades by token", &["token-v1", "token-v2", "token-v3"]),
    ("Relaxed acceptance", &["lossy", "lossy-tuned", "mentored"]),
    ("Without a coin", &["bild", "oracle-diff", TOKEN_CASCADE]),
];
const COIN: &str = "a coin for each token";

/// Excess loss in five rows and divergence in one, a column for each sampling.
pub fn svg(points: &[Point], measured: &[Quality]) -> String {
    let views = [0, 1].map(|sampling| View { points, measured, sampling });
    let mut panels = Vec::new();
    for (family, names) in FAMILIES {
        for view in &views {
            panels.push(view.panel(family, "excess loss, nats per token", names, |quality| quality.excess));
        }
    }
    for view in &views {
        let names = ["opt", "token-v3", "oracle-diff"];
        panels.push(view.panel("Divergence", "TV(law, p)", &names, |quality| quality.divergence));
    }
    curves::svg(&panels)
}

struct View<'a> {
    points: &'a [Point],
    measured: &'a [Quality],
    sampling: usize,
}

impl View<'_> {
    fn panel(&self, family: &str, up: &'static str, names: &[&'static str], of: fn(&Quality) -> Estimate) -> Panel {
        // The ends of every trade: the exact rule, and the draft model's own text.
        let coin = [EXACT, DRAFT_ALONE].map(|name| self.marks(name, of)).concat();
        let mut curves = vec![Curve { name: COIN, points: coin }];
        curves.extend(names.iter().map(|&name| Curve { name, points: self.marks(name, of) }));
        Panel {
            title: format!("{family}, {}", SAMPLINGS[self.sampling].0),
            across: "rejected, per judged draft",
            up,
            bounds: self.bounds(of),
            curves,
        }
    }

    /// The points of a rule, by how much they reject.
    fn marks(&self, name: &str, of: fn(&Quality) -> Estimate) -> Vec<Mark> {
        let mut marks: Vec<Mark> = (self.points.iter().zip(self.measured))
            .filter(|(point, _)| point.sampling == self.sampling && point.name == name)
            .map(|(_, quality)| Mark { x: quality.expected().value, y: of(quality).value, error: of(quality).error })
            .collect();
        marks.sort_by(|a, b| a.x.total_cmp(&b.x));
        marks
    }

    /// Of all points of the sampling, so that panels of one column compare.
    fn bounds(&self, of: fn(&Quality) -> Estimate) -> Bounds {
        let shown = |name: &str| name != SEQUENCE_CASCADE;
        let heights = (self.points.iter().zip(self.measured))
            .filter(|(point, _)| point.sampling == self.sampling && shown(point.name))
            .map(|(_, quality)| of(quality));
        let (low, high) = heights.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), height| {
            (low.min(height.value - height.error), high.max(height.value + height.error))
        });
        // Ticks at tenths.
        Bounds { x: (0.0, 1.0), y: ((10.0 * low).floor() / 10.0, (10.0 * high).ceil() / 10.0) }
    }
}

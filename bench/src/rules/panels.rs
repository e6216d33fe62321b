//! Which curves stand in one panel.

use crate::{
    rules::quality::Quality,
    rules::sweep::{BILD_WITH_FALLBACK, DRAFT_ALONE, EXACT, Point, SAMPLINGS, SEQUENCE_CASCADE, TOKEN_CASCADE},
};
use outrider_papers::report::{
    curves::{self, Bounds, Curve, Mark, Panel},
    estimate::Estimate,
};

/// Panels of one sampling, from the top: what they show, up to which rejection rate, and of which rules.
const FAMILIES: [(&str, f64, [&str; 3]); 5] = [
    ("Cascades by probability", 0.35, ["chow", "diff", "opt"]),
    ("Cascades by entropy", 0.35, ["chow-log", "diff-log", "opt-log"]),
    ("Cascades by token", 0.35, ["token-v1", "token-v2", "token-v3"]),
    ("Others", 0.35, ["lossy", "mentored", "bild-star"]),
    ("Without a random draw", 1.0, ["bild", "oracle-diff", TOKEN_CASCADE]),
];
/// Between ticks, of which there are five above the lowest.
const STEPS: [f64; 6] = [0.05, 0.06, 0.1, 0.2, 0.3, 0.4];
const RANDOM_DRAW: &str = "a random draw for each token";

/// Excess loss and divergence against rejections, and BiLD's excess loss against passes; a column for each sampling.
pub fn svg(points: &[Point], measured: &[Quality]) -> String {
    let views = [0, 1].map(|sampling| View { points, measured, sampling });
    let mut panels = Vec::new();
    for (family, most, names) in FAMILIES {
        for view in &views {
            panels.push(view.panel(family, "excess loss, nats per token", most, names, |quality| quality.excess));
        }
    }
    for view in &views {
        let names = ["opt", "token-v3", "oracle-diff"];
        panels.push(view.panel("Divergence", "TV(distribution, p)", 0.7, names, |quality| quality.divergence));
    }
    panels.extend(views.iter().map(View::of_passes));
    curves::svg(&panels)
}

struct View<'a> {
    points: &'a [Point],
    measured: &'a [Quality],
    sampling: usize,
}

impl View<'_> {
    fn panel(
        &self,
        family: &str,
        up: &'static str,
        most: f64,
        names: [&'static str; 3],
        of: fn(&Quality) -> Estimate,
    ) -> Panel {
        // The ends of every trade: the exact rule, and the draft model's own text.
        let draw = [EXACT, DRAFT_ALONE].map(|name| self.marks(name, of)).concat();
        let mut curves = vec![Curve { name: RANDOM_DRAW.to_owned(), points: draw }];
        curves.extend(names.map(|name| Curve { name: name.to_owned(), points: self.marks(name, of) }));
        Panel {
            title: format!("{family}, {}", SAMPLINGS[self.sampling].0),
            across: "rejected, per judged draft",
            up,
            bounds: Bounds { x: (0.0, most), y: self.heights(of) },
            curves,
        }
    }

    /// BiLD with its fallback, whose rounds end where the draft model is unsure, against rounds of four drafts:
    /// rejections say little of it, the target's passes all. What they are compared with is bild-star.
    fn of_passes(&self) -> Panel {
        let excess: fn(&Quality) -> Estimate = |quality| quality.excess;
        let passes = |name: &str| Curve {
            name: name.to_owned(),
            points: self.of_rule(name).map(|quality| mark(quality.passes, excess(quality))).collect(),
        };
        let names = ["bild-star", "bild"].into_iter().chain(BILD_WITH_FALLBACK.map(|(name, _)| name));
        Panel {
            title: format!("BiLD by passes, {}", SAMPLINGS[self.sampling].0),
            across: "passes of the target, per token",
            up: "excess loss, nats per token",
            bounds: Bounds { x: (0.0, 1.0), y: self.heights(excess) },
            curves: names.map(passes).collect(),
        }
    }

    /// What a rule gave, by its parameter.
    fn of_rule(&self, name: &str) -> impl Iterator<Item = &Quality> {
        (self.points.iter().zip(self.measured))
            .filter(move |(point, _)| point.sampling == self.sampling && point.name == name)
            .map(|(_, quality)| quality)
    }

    /// The same as points of a curve.
    fn marks(&self, name: &str, of: fn(&Quality) -> Estimate) -> Vec<Mark> {
        self.of_rule(name).map(|quality| mark(quality.expected().value, of(quality))).collect()
    }

    /// Of all points of the sampling, so that panels of one column compare.
    fn heights(&self, of: fn(&Quality) -> Estimate) -> (f64, f64) {
        let shown = |name: &str| name != SEQUENCE_CASCADE;
        let heights = (self.points.iter().zip(self.measured))
            .filter(|(point, _)| point.sampling == self.sampling && shown(point.name))
            .map(|(_, quality)| of(quality));
        let (low, high) = heights.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), height| {
            (low.min(height.value - height.error), high.max(height.value + height.error))
        });
        // A whole number of steps from zero.
        let range = |step: f64| ((low / step).floor() * step, ((low / step).floor() + 5.0) * step);
        STEPS.map(range).into_iter().find(|range| range.1 >= high).unwrap_or((low, high))
    }
}

fn mark(x: f64, height: Estimate) -> Mark {
    Mark { x, y: height.value, error: height.error }
}

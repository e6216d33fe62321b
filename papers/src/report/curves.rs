//! Curves as SVG, beside the bars of [`chart`](super::chart): small panels with each name written at its curve.

use std::fmt::Write;

use super::chart::{COLOURS, WIDTH, document, text};

/// A pair of axes with its curves.
#[derive(Debug)]
pub struct Panel {
    /// Title above the panel.
    pub title: String,
    /// Label below the horizontal axis.
    pub across: &'static str,
    /// Label above the vertical axis, with the unit.
    pub up: &'static str,
    /// Ranges of both axes.
    pub bounds: Bounds,
    /// Curves in the order of their colours; the first, grey and dashed, is the one that the others are compared with.
    pub curves: Vec<Curve>,
}

/// Ranges of the two axes of a panel.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Range of the horizontal axis.
    pub x: (f64, f64),
    /// Range of the vertical axis.
    pub y: (f64, f64),
}

/// Points joined by lines.
#[derive(Debug)]
pub struct Curve {
    /// Name written beside the curve.
    pub name: String,
    /// Points from left to right.
    pub points: Vec<Mark>,
}

/// A point, with the standard error of its height.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    /// Horizontal position.
    pub x: f64,
    /// Height of the point.
    pub y: f64,
    /// Standard error of the height.
    pub error: f64,
}

const COLUMNS: usize = 2;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 38.0;
/// Ticks of an axis, at most.
const TICKS: f64 = 6.0;
/// Width and height of a letter.
const LETTER: (f64, f64) = (5.8, 11.0);

/// One picture of all panels, two a row.
pub fn svg(panels: &[Panel]) -> String {
    let mut out = String::from(
        "<style>.axis { stroke: #8888; fill: none } .curve { fill: none; stroke-width: 1.6 } .error { stroke-width: 1; \
         stroke-opacity: 0.45 }</style>\n",
    );
    for (row, panels) in panels.chunks(COLUMNS).enumerate() {
        for (column, panel) in panels.iter().enumerate() {
            let frame = Frame {
                left: WIDTH / COLUMNS as f64 * column as f64 + LEFT,
                top: HEIGHT * row as f64 + TOP,
                width: WIDTH / COLUMNS as f64 - LEFT - RIGHT,
                height: HEIGHT - TOP - BOTTOM,
                bounds: panel.bounds,
            };
            panel.draw(&mut out, &frame);
        }
    }
    document(HEIGHT * panels.len().div_ceil(COLUMNS) as f64, &out)
}

/// Position of a panel in the picture.
struct Frame {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    bounds: Bounds,
}

impl Frame {
    fn place(&self, x: f64, y: f64) -> (f64, f64) {
        let share = |value: f64, (low, high): (f64, f64)| (value - low) / (high - low);
        let bounds = self.bounds;
        (self.left + self.width * share(x, bounds.x), self.top + self.height * (1.0 - share(y, bounds.y)))
    }

    /// Returns true if a box around a place lies inside.
    fn holds(&self, (x, y): (f64, f64), (width, height): (f64, f64)) -> bool {
        x - width / 2.0 >= self.left
            && x + width / 2.0 <= self.left + self.width
            && y - height / 2.0 >= self.top
            && y + height / 2.0 <= self.top + self.height
    }
}

/// Round numbers of a range, a step of 1, 2 or 5 times a power of ten apart, each as it is written.
fn ticks((low, high): (f64, f64)) -> Vec<(f64, String)> {
    let least = (high - low) / TICKS;
    if !least.is_normal() {
        return Vec::new();
    }
    let power = 10f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0].map(|times| times * power).into_iter().find(|step| *step >= least);
    let step = step.unwrap_or(10.0 * power);
    let digits = (-step.log10().floor()).max(0.0) as usize;
    let (first, last) = ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
    let tick = |index: i64| (index as f64 * step, format!("{:.digits$}", index as f64 * step));
    (first..=last).map(tick).collect()
}

impl Panel {
    fn draw(&self, out: &mut String, frame: &Frame) {
        let &Frame { left, top, width, height, bounds } = frame;
        text(out, left, top - 22.0, "font-size=\"13\"", &self.title);
        text(out, left - 34.0, top - 6.0, "font-size=\"10\"", self.up);
        text(out, left + width / 2.0, top + height + 30.0, "text-anchor=\"middle\" font-size=\"10\"", self.across);
        // Writing to a string cannot fail.
        let _ = writeln!(out, "<path class=\"axis\" d=\"M{left} {top}v{height}h{width}\"/>");
        for (x, written) in ticks(bounds.x) {
            let (across, floor) = (frame.place(x, bounds.y.0).0, top + height);
            let _ = writeln!(out, "<path class=\"axis\" d=\"M{across:.1} {floor}v3\"/>");
            text(out, across, floor + 14.0, "text-anchor=\"middle\" font-size=\"9\"", &written);
        }
        for (y, written) in ticks(bounds.y) {
            let up = frame.place(bounds.x.0, y).1;
            let _ = writeln!(out, "<path class=\"axis\" d=\"M{left} {up:.1}h-3\"/>");
            text(out, left - 5.0, up + 3.0, "text-anchor=\"end\" font-size=\"9\"", &written);
        }
        let mut taken = Vec::new();
        for curve in &self.curves {
            curve.trace(frame, &mut taken);
        }
        for (curve, colour) in self.curves.iter().zip(COLOURS) {
            curve.draw(out, frame, colour);
        }
        for (curve, colour) in self.curves.iter().zip(COLOURS) {
            curve.label(out, frame, colour, &mut taken);
        }
    }
}

impl Curve {
    fn places(&self, frame: &Frame) -> Vec<(f64, f64)> {
        self.points.iter().map(|mark| frame.place(mark.x, mark.y)).collect()
    }

    /// Adds the places that the curve covers, a few units apart.
    fn trace(&self, frame: &Frame, taken: &mut Vec<(f64, f64)>) {
        taken.extend(self.places(frame).first());
        for pair in self.places(frame).windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let steps = ((to.0 - from.0).hypot(to.1 - from.1) / 3.0).ceil().max(1.0) as u16;
            taken.extend((0..=steps).map(|step| {
                let share = f64::from(step) / f64::from(steps);
                (from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1))
            }));
        }
    }

    fn draw(&self, out: &mut String, frame: &Frame, colour: &str) {
        let places = self.places(frame);
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        let reference = colour == COLOURS[0];
        let dash = if reference { " stroke-dasharray=\"4 3\"" } else { "" };
        let _ = writeln!(out, "<path class=\"curve\" stroke=\"{colour}\"{dash} d=\"M{}\"/>", path.join("L"));
        for (mark, (x, y)) in self.points.iter().zip(places) {
            let (_, low) = frame.place(mark.x, mark.y - mark.error);
            let (_, high) = frame.place(mark.x, mark.y + mark.error);
            let _ = writeln!(out, "<path class=\"error\" stroke=\"{colour}\" d=\"M{x:.1} {low:.1}V{high:.1}\"/>");
            let _ = writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.4\" fill=\"{colour}\"/>");
        }
    }

    /// Writes the name beside the curve, where it covers least.
    fn label(&self, out: &mut String, frame: &Frame, colour: &str, taken: &mut Vec<(f64, f64)>) {
        let size = (LETTER.0 * self.name.chars().count() as f64, LETTER.1);
        let mut anchors = Vec::new();
        self.trace(frame, &mut anchors);
        let candidates = anchors.iter().flat_map(|&(x, y)| {
            let (aside, above) = (size.0 / 2.0 + 7.0, size.1 / 2.0 + 5.0);
            [(aside, 0.0), (-aside, 0.0), (0.0, above), (0.0, -above), (aside, above), (-aside, -above)]
                .map(|(dx, dy)| (x + dx, y + dy))
        });
        let covered = |place: &(f64, f64)| {
            let inside = |other: &&(f64, f64)| {
                (other.0 - place.0).abs() < size.0 / 2.0 + 3.0 && (other.1 - place.1).abs() < size.1 / 2.0 + 2.0
            };
            taken.iter().filter(inside).count()
        };
        let best = candidates.filter(|&place| frame.holds(place, size)).min_by_key(covered);
        let Some((x, y)) = best else { return };
        let style = format!("text-anchor=\"middle\" style=\"fill:{colour}\"");
        text(out, x, y + 4.0, &style, &self.name);
        // A name covers its whole box, for names to come.
        for dx in -4..=4i8 {
            for dy in -1..=1i8 {
                taken.push((x + f64::from(dx) * size.0 / 8.0, y + f64::from(dy) * size.1 / 2.0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let written = |range| ticks(range).into_iter().map(|(_, written)| written).collect::<Vec<_>>();
        assert_eq!(written((0.0, 64.0)), ["0", "20", "40", "60"]);
        assert_eq!(written((0.0, 1.27)), ["0.0", "0.5", "1.0"]);
        assert_eq!(written((0.7, 0.9)), ["0.70", "0.75", "0.80", "0.85", "0.90"]);
        assert_eq!(written((-3.0, 0.0)), ["-3.0", "-2.5", "-2.0", "-1.5", "-1.0", "-0.5", "0.0"]);
        assert_eq!(written((1.0, 1.0)), [""; 0]);
    }
}

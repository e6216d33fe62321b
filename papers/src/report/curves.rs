//! Curves as SVG, beside the bars of [`chart`](super::chart): small panels with standard errors.

use plotters::prelude::{ChartBuilder, Circle, Color, DashedLineSeries, ErrorBar, LineSeries};

use super::plot::{self, Area, COLOURS, Drawn, GREY, SMALL, style};

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
    /// Name of the curve for the legend.
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
const HEIGHT: u32 = 290;
/// Space for the numbers and names of the axes, in pixels.
const BELOW: u32 = 34;
const BESIDE: u32 = 50;
/// Numbers of an axis, at most.
const TICKS: usize = 6;

/// One picture of all panels, two a row.
pub fn svg(panels: &[Panel]) -> String {
    picture(panels, false)
}

/// One picture of panels whose curves come in pairs: both of one colour, the second one dashed.
pub fn svg_of_pairs(panels: &[Panel]) -> String {
    picture(panels, true)
}

fn picture(panels: &[Panel], in_pairs: bool) -> String {
    let rows = panels.len().div_ceil(COLUMNS);
    plot::picture(HEIGHT * rows as u32, |root| {
        panels.iter().zip(root.split_evenly((rows, COLUMNS))).try_for_each(|(panel, area)| panel.draw(&area, in_pairs))
    })
}

impl Panel {
    fn draw(&self, area: &Area<'_>, in_pairs: bool) -> Drawn {
        let look = |index: usize| match in_pairs {
            true => (COLOURS[index / 2 % COLOURS.len()], index % 2 == 1),
            false => (COLOURS[index % COLOURS.len()], index == 0),
        };
        let mut names = Vec::new();
        for (index, curve) in self.curves.iter().enumerate() {
            let (colour, is_dashed) = look(index);
            names.push((&curve.name[..], colour, is_dashed && in_pairs));
        }
        let area = plot::headed(area, &self.title, &names)?;
        let Bounds { x, y } = self.bounds;
        if !(x.1 - x.0).is_normal() || !(y.1 - y.0).is_normal() {
            return Ok(());
        }
        let mut builder = ChartBuilder::on(&area);
        builder.margin(8).x_label_area_size(BELOW).y_label_area_size(BESIDE);
        let mut chart = builder.build_cartesian_2d(x.0..x.1, y.0..y.1)?;
        let mut mesh = chart.configure_mesh();
        mesh.x_labels(TICKS).y_labels(TICKS).x_desc(self.across).y_desc(self.up).axis_style(GREY);
        mesh.x_label_formatter(&plot::number).y_label_formatter(&plot::number);
        mesh.label_style(style(SMALL)).axis_desc_style(style(SMALL + 1));
        mesh.bold_line_style(GREY.mix(0.2)).light_line_style(GREY.mix(0.0)).draw()?;
        for (index, curve) in self.curves.iter().enumerate() {
            let (colour, is_dashed) = look(index);
            let points = || curve.points.iter().map(|mark| (mark.x, mark.y));
            let line = colour.stroke_width(2);
            match is_dashed {
                true => chart.draw_series(DashedLineSeries::new(points(), 5, 4, line))?,
                false => chart.draw_series(LineSeries::new(points(), line))?,
            };
            let with_error = curve.points.iter().filter(|mark| mark.error > 0.0);
            chart.draw_series(with_error.map(|&Mark { x, y, error }| {
                ErrorBar::new_vertical(x, y - error, y, y + error, colour.mix(0.6).filled(), 5)
            }))?;
            // Bars of errors have a point of their own.
            let exact = curve.points.iter().filter(|mark| mark.error <= 0.0);
            chart.draw_series(exact.map(|mark| Circle::new((mark.x, mark.y), 3, colour.filled())))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panel_has_its_names_round_numbers_and_points() {
        let curve = |name: &str, error: f64| Curve {
            name: name.to_owned(),
            points: [(0.0, 0.2), (32.0, 0.5), (64.0, 1.0)].map(|(x, y)| Mark { x, y, error }).into(),
        };
        let bounds = Bounds { x: (0.0, 64.0), y: (0.0, 1.27) };
        let curves = vec![curve("the target", 0.0), curve("k-sqs", 0.1)];
        let panel = Panel { title: "rate".to_owned(), across: "K", up: "share", bounds, curves };
        let picture = svg(&[panel]);
        for text in ["rate", "K", "share", "the target", "k-sqs", "20", "40", "60"] {
            assert!(picture.contains(&format!(">\n{text}\n<")), "{text} in {picture}");
        }
        assert_eq!(picture.matches("<circle").count(), 6);
    }

    #[test]
    fn a_panel_without_extent_has_a_title_alone() {
        let bounds = Bounds { x: (1.0, 1.0), y: (0.0, 1.0) };
        let panel = Panel { title: "rate".to_owned(), across: "K", up: "share", bounds, curves: Vec::new() };
        assert!(svg(&[panel]).contains("rate"));
    }
}

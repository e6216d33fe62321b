//! Bar charts as SVG, with values above bars that are wide enough, and standard errors where there are any.

use plotters::{
    prelude::{ChartBuilder, Color, EmptyElement, ErrorBar, RGBColor, Rectangle, Text},
    style::text_anchor::{HPos, Pos, VPos},
};

use super::plot::{self, Area, COLOURS, Drawn, GREY, LETTER, SMALL, WIDTH, style};

/// Groups of bars, one bar a series.
#[derive(Debug, Default)]
pub struct Chart {
    /// Title of the chart, with the unit.
    pub title: String,
    /// Names of the bars of a group.
    pub series: Vec<&'static str>,
    /// Names of the groups with their values.
    pub groups: Vec<(String, Vec<f64>)>,
    /// Standard errors of the values, in the same order; empty if there are none.
    pub errors: Vec<Vec<f64>>,
}

const HEIGHT: u32 = 270;
/// Space for names of groups below the axis, and for numbers beside it, in pixels.
const BELOW: u32 = 42;
const BESIDE: u32 = 44;
/// Colour of errors on bars of any colour.
const DARK: RGBColor = RGBColor(0x55, 0x55, 0x55);
/// Most lines of a group's name.
const LINES: usize = 3;

/// One picture of all charts, one below the other.
pub fn svg(charts: &[Chart]) -> String {
    plot::picture(HEIGHT * charts.len() as u32, |root| {
        charts.iter().zip(root.split_evenly((charts.len(), 1))).try_for_each(|(chart, area)| chart.draw(&area))
    })
}

/// One picture of one chart.
pub fn single(title: &str, series: &[&'static str], groups: Vec<(String, Vec<f64>)>) -> String {
    svg(&[Chart { title: title.to_owned(), series: series.to_vec(), groups, ..Chart::default() }])
}

impl Chart {
    fn draw(&self, area: &Area<'_>) -> Drawn {
        let names = self.series.iter().zip(COLOURS).map(|(name, colour)| (*name, colour, false));
        let area = plot::headed(area, &self.title, &names.collect::<Vec<_>>())?;
        let values = || self.groups.iter().flat_map(|(_, values)| values).filter(|value| value.is_finite());
        let errors = self.errors.iter().flatten().copied().fold(0.0, f64::max);
        let largest = values().copied().fold(0.0, f64::max) + errors;
        if largest <= 0.0 {
            return Ok(());
        }
        let count = self.groups.len();
        let mut builder = ChartBuilder::on(&area);
        builder.margin(6).x_label_area_size(BELOW).y_label_area_size(BESIDE);
        let mut chart = builder.build_cartesian_2d(0.0..count as f64, 0.0..1.12 * largest)?;
        let mut mesh = chart.configure_mesh();
        mesh.y_label_formatter(&plot::number);
        mesh.disable_x_mesh().x_labels(0).y_labels(5).axis_style(GREY).label_style(style(SMALL));
        mesh.bold_line_style(GREY.mix(0.25)).light_line_style(GREY.mix(0.0)).draw()?;
        let bar = 0.86 / self.series.len().max(1) as f64;
        let width = f64::from(WIDTH - BESIDE) / count.max(1) as f64 * bar;
        let has_labels = values().all(|&value| f64::from(LETTER) * label(value).len() as f64 <= width);
        let letters = (((WIDTH - BESIDE) as i32 / LETTER) as usize / count.max(1)).max(4);
        for (index, (name, values)) in self.groups.iter().enumerate() {
            let start = index as f64 + 0.07;
            for ((series, &value), colour) in
                values.iter().enumerate().zip(COLOURS).filter(|((_, value), _)| value.is_finite())
            {
                let (left, right) = (start + bar * (series as f64 + 0.04), start + bar * (series as f64 + 0.96));
                let middle = (left + right) / 2.0;
                chart.draw_series([Rectangle::new([(left, 0.0), (right, value)], colour.filled())])?;
                let error = self.errors.get(index).and_then(|errors| errors.get(series)).copied().unwrap_or(0.0);
                if error > 0.0 {
                    let ends = (value - error, value + error);
                    chart.draw_series([ErrorBar::new_vertical(middle, ends.0, value, ends.1, DARK.filled(), 5)])?;
                }
                if !has_labels {
                    continue;
                }
                let above = style(SMALL - 1).pos(Pos::new(HPos::Center, VPos::Bottom));
                let text = EmptyElement::at((middle, value + error)) + Text::new(label(value), (0, -2), above);
                chart.draw_series([text])?;
            }
            let below = style(SMALL).pos(Pos::new(HPos::Center, VPos::Top));
            for (line, text) in wrapped(name, letters).into_iter().enumerate() {
                let place = (0, 6 + 12 * line as i32);
                let text = EmptyElement::at((index as f64 + 0.5, 0.0)) + Text::new(text, place, below.clone());
                chart.plotting_area().draw(&text)?;
            }
        }
        Ok(())
    }
}

/// A value as it stands above a bar.
fn label(value: f64) -> String {
    plot::number(&if value < 10.0 { (100.0 * value).round() / 100.0 } else { value.round() })
}

/// Lines of at most `letters` letters, broken at spaces; the last one ends with … if there is more.
fn wrapped(name: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in name.split(' ') {
        match lines.last_mut().filter(|line| line.chars().count() + 1 + word.chars().count() <= letters) {
            Some(line) => *line = format!("{line} {word}"),
            None => lines.push(word.to_owned()),
        }
    }
    if lines.len() > LINES {
        lines.truncate(LINES);
        lines[LINES - 1].push('…');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_groups_are_broken_at_spaces() {
        assert_eq!(wrapped("scheme k-sqs, support-size 8", 14), ["scheme k-sqs,", "support-size 8"]);
        assert_eq!(wrapped("a b c d", 1), ["a", "b", "c…"]);
    }

    #[test]
    fn every_finite_value_has_its_bar_and_number() {
        let groups = vec![("one".to_owned(), vec![1.25, f64::NAN]), ("two".to_owned(), vec![20.0, 3.0])];
        let errors = vec![vec![0.5, 0.0], vec![0.0, 0.0]];
        let chart = Chart { title: "title".to_owned(), series: vec!["first", "second"], groups, errors };
        let picture = svg(&[chart]);
        for text in ["title", "first", "second", "one", "two", "1.25", "20", "3"] {
            assert!(picture.contains(&format!(">\n{text}\n<")), "{text} in {picture}");
        }
        assert_eq!(picture.matches("</svg>").count(), 1);
    }
}

//! Results of settings: cells with intervals, the best of several, and a chart.

use std::collections::BTreeSet;

use outrider_codec::frame::SamplingParameters;
use outrider_speculation::session::edge::Mode;
use serde_json::{Value, json};

use crate::report::{
    bootstrap::{Interval, interval},
    chart::{self, Chart},
    curves::{self, Bounds, Curve, Mark, Panel},
};

/// A setting of drafting and sampling.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Name of the setting: the options that differ between settings.
    pub name: String,
    /// All options that the user gave in several values, each with its value here.
    pub options: Vec<(String, String)>,
    /// Parameters of drafting.
    pub mode: Mode,
    /// Sampling of both models.
    pub sampling: SamplingParameters,
}

/// Level of the intervals of one setting.
pub const LEVEL: f64 = 0.95;
/// Bars that a chart has room for.
const MOST_BARS: usize = 12;
/// Place of the speed-up among the cells; that of quality follows.
pub const SPEED_UP: usize = 4;

/// A number with its interval.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Measured {
    /// The measured number itself.
    pub value: f64,
    /// The interval of 95 %, if there is one.
    pub interval: Option<Interval>,
}

/// Results of a setting.
pub struct Row<'a> {
    /// The measured setting.
    pub setting: &'a Setting,
    /// Cells of the table's row.
    pub cells: Vec<Measured>,
    /// Speed-up and quality in each drawing of prompts.
    pub drawn: Vec<[f64; 2]>,
}

impl Row<'_> {
    /// Speed-up over the target alone.
    pub fn speed_up(&self) -> Measured {
        self.cells[SPEED_UP]
    }
}

impl Measured {
    /// One standard error: an interval of 95 % has nearly four.
    fn error(&self) -> f64 {
        self.interval.map_or(0.0, |interval| (interval.high - interval.low) / 3.92)
    }

    pub fn told(&self, digits: usize) -> String {
        match self.interval {
            _ if !self.value.is_finite() => "–".to_owned(),
            Some(interval) => format!("{:.digits$} {interval:.digits$}", self.value),
            None => format!("{:.digits$}", self.value),
        }
    }
}

/// The best setting by a quantity, corrected for the choice among all.
pub struct Best {
    quantity: &'static str,
    /// Index of the setting.
    index: usize,
    measured: Measured,
    /// Indices of settings whose difference to the best cannot be distinguished from zero.
    equals: Vec<usize>,
}

impl Best {
    /// The best by the drawn quantity at `index`; `None` if no setting has a number.
    pub fn of(rows: &[Row<'_>], index: usize, quantity: &'static str) -> Option<Self> {
        let value = |row: &Row<'_>| row.cells[SPEED_UP + index].value;
        let numbered = rows.iter().enumerate().filter(|(_, row)| value(row).is_finite());
        let (best, found) = numbered.max_by(|a, b| value(a.1).total_cmp(&value(b.1)))?;
        let level = 1.0 - (1.0 - LEVEL) / rows.len() as f64;
        let equals = |other: &usize| {
            let differences = found.drawn.iter().zip(&rows[*other].drawn).map(|(own, other)| own[index] - other[index]);
            *other != best && interval(differences, level).is_none_or(|interval| interval.low <= 0.0)
        };
        let interval = interval(found.drawn.iter().map(|drawn| drawn[index]), level);
        let measured = Measured { value: value(found), interval };
        Some(Self { quantity, index: best, measured, equals: (0..rows.len()).filter(equals).collect() })
    }

    pub fn told(&self, rows: &[Row<'_>]) -> String {
        let name = |index: &usize| rows[*index].setting.name.as_str();
        let equals = match self.equals.len() {
            0 => "All others are worse".to_owned(),
            count if count + 1 == rows.len() => "None of the others can be told apart from it".to_owned(),
            _ => format!("Not told apart from it: {}", self.equals.iter().map(name).collect::<Vec<_>>().join("; ")),
        };
        format!(
            "\nBest of {} settings by {}: {}, {}, with an interval that holds for all settings at once (95 %, \
             Bonferroni). {equals}, by paired differences at the same level.\n",
            rows.len(),
            self.quantity,
            name(&self.index),
            self.measured.told(3),
        )
    }

    pub fn numbers(&self, rows: &[Row<'_>]) -> Value {
        let name = |index: &usize| rows[*index].setting.name.as_str();
        json!({
            "by": self.quantity, "setting": name(&self.index), "measured": self.measured,
            "notToldApart": self.equals.iter().map(name).collect::<Vec<_>>(),
        })
    }
}

/// Speed-up over the option that has the most numbers, a curve for each choice of the others; or bars.
pub fn picture(rows: &[Row<'_>]) -> String {
    let number = |row: &Row<'_>, at: usize| row.setting.options[at].1.parse::<f64>().ok();
    let options = rows.first().map_or(0, |row| row.setting.options.len());
    let different = |at: &usize| {
        let numbers: Option<BTreeSet<u64>> = rows.iter().map(|row| number(row, *at).map(f64::to_bits)).collect();
        numbers.map_or(0, |numbers| numbers.len())
    };
    let Some(axis) = (0..options).max_by_key(different).filter(|axis| different(axis) > 2) else {
        let shown = || rows.iter().take(MOST_BARS);
        return chart::svg(&[Chart {
            title: "speed-up over the target alone".to_owned(),
            series: vec!["speed-up"],
            groups: shown().map(|row| (row.setting.name.clone(), vec![row.speed_up().value])).collect(),
            errors: shown().map(|row| vec![row.speed_up().error()]).collect(),
        }]);
    };
    let mut curves: Vec<Curve> = Vec::new();
    for row in rows {
        let others = row.setting.options.iter().enumerate().filter(|(at, _)| *at != axis);
        let name = others.map(|(_, (name, value))| format!("{name} {value}")).collect::<Vec<_>>().join(", ");
        let (x, cell) = (number(row, axis).unwrap_or_default(), row.speed_up());
        let mark = Mark { x, y: cell.value, error: cell.error() };
        match curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.points.push(mark),
            None => curves.push(Curve { name, points: vec![mark] }),
        }
    }
    let marks = || curves.iter().flat_map(|curve| &curve.points);
    let bounds = Bounds {
        x: (marks().map(|mark| mark.x).fold(0.0, f64::min), marks().map(|mark| mark.x).fold(f64::MIN, f64::max)),
        y: (0.0, marks().map(|mark| mark.y + mark.error).fold(1.0, f64::max)),
    };
    let alone = [bounds.x.0, bounds.x.1].map(|x| Mark { x, y: 1.0, error: 0.0 });
    curves.insert(0, Curve { name: "target alone".to_owned(), points: alone.into() });
    let title = format!("speed-up by {}", rows[0].setting.options[axis].0);
    curves::svg(&[Panel { title, across: "value of the option", up: "speed-up", bounds, curves }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::bootstrap::values;

    /// Three settings: one that is fast, one with the same texts, and one that is slower by more than chance.
    #[test]
    fn the_best_of_several_has_a_wider_interval_and_names_its_equals() {
        let sampling = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };
        let setting =
            |name: &str| Setting { name: name.to_owned(), options: Vec::new(), mode: Mode::CloudOnly, sampling };
        let settings = ["first", "second", "third"].map(setting);
        let row = |(setting, scale): (_, f64)| {
            let time = |prompt: usize| vec![4.0, scale * (1.0 + 0.2 * (prompt * 7 % 5) as f64)];
            let samples: Vec<_> = (0..30).map(time).collect();
            let drawn = values(&samples, |sums| [sums[0] / sums[1], f64::NAN]);
            let total: f64 = samples.iter().map(|sample| sample[1]).sum();
            let interval = interval(drawn.iter().map(|drawn| drawn[0]), LEVEL);
            Row { setting, cells: vec![Measured { value: 4.0 * 30.0 / total, interval }; 6], drawn }
        };
        let rows: Vec<_> = settings.iter().zip([1.0, 1.0, 1.5]).map(row).collect();
        let best = Best::of(&rows, 0, "speed-up").unwrap();
        let (own, corrected) = (rows[best.index].cells[SPEED_UP].interval.unwrap(), best.measured.interval.unwrap());
        assert!(corrected.low < own.low && corrected.high > own.high, "{corrected} and {own}");
        assert_eq!(best.equals, [1 - best.index]);
        assert!(best.told(&rows).contains("Best of 3 settings by speed-up"));
        assert!(picture(&rows).starts_with("<svg"));
    }
}

//! Statistics of repeated measurements.

use std::fmt;

use serde_json::Value;

/// Median and range of repeated measurements of one thing.
#[derive(Debug, Clone, Copy)]
pub struct Samples {
    pub median: f64,
    pub lowest: f64,
    pub highest: f64,
}

impl Samples {
    /// Summarises measurements; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let (&lowest, &highest) = (values.first()?, values.last()?);
        let median =
            if values.len().is_multiple_of(2) { (values[middle - 1] + values[middle]) / 2.0 } else { values[middle] };
        Some(Self { median, lowest, highest })
    }

    /// Converts times to rates: units of `work` per unit of time.
    pub fn rate(self, work: f64) -> Self {
        Self { median: work / self.median, lowest: work / self.highest, highest: work / self.lowest }
    }
}

/// `median [lowest–highest]`, with three digits.
impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { median, lowest, highest } = self;
        write!(f, "{} [{}–{}]", digits(*median), digits(*lowest), digits(*highest))
    }
}

/// Formats a number with about three digits.
pub fn digits(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// The values in ascending order.
pub fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The elements, if it is an array.
pub fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

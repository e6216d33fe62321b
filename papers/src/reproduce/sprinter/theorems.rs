//! Sequential approximate verification (Zhong et al.): Figures 5 and 6.

use serde_json::json;

use super::super::table::{markdown, row};
use crate::report::{
    curves::{self, Bounds, Curve, Mark, Panel},
    files::Report,
};
use crate::theory::{
    sprinter::GateRates,
    tables::{ACCEPTABLE, DRAFT_TIME, FALSE_POSITIVE_RATES},
};

pub fn figure5() -> Report {
    report("E[N], tokens until the target is asked", &|gate| gate.expected_passed(ACCEPTABLE))
}

pub fn figure6() -> Report {
    report("E[T], seconds until the target is asked", &|gate| gate.expected_stopping_time(ACCEPTABLE, DRAFT_TIME))
}

fn report(shows: &'static str, expected: &dyn Fn(&GateRates) -> f64) -> Report {
    let rates: Vec<f64> = (0..=10).map(|tenths| f64::from(tenths) / 10.0).collect();
    let at = |true_positive, false_positive| expected(&GateRates { true_positive, false_positive });
    let rows: Vec<_> = rates
        .iter()
        .map(|&rate| {
            let [perfect, other] = FALSE_POSITIVE_RATES.map(|other| at(rate, other));
            row(rate, [perfect, other, other - perfect].map(|value| format!("{value:.3}")))
        })
        .collect();
    let curve = |&other: &f64| Curve {
        name: format!("η_FP = {other}"),
        points: rates.iter().map(|&rate| Mark { x: rate, y: at(rate, other), error: 0.0 }).collect(),
    };
    let most = FALSE_POSITIVE_RATES.map(|other| at(1.0, other)).into_iter().fold(0.0, f64::max);
    let panel = Panel {
        title: shows.to_owned(),
        across: "η_TP",
        up: "",
        bounds: Bounds { x: (0.0, 1.0), y: (0.0, most) },
        curves: FALSE_POSITIVE_RATES.iter().map(curve).collect(),
    };
    let numbers = rates.iter().map(
        |&rate| json!({ "truePositiveRate": rate, "expected": FALSE_POSITIVE_RATES.map(|other| at(rate, other)) }),
    );
    Report {
        text: format!(
            "{shows}, at r = {ACCEPTABLE} acceptable drafts in a row and {DRAFT_TIME} s a draft (Theorems 3.1 to \
            3.4). The paper draws it.\n\n"
        ) + &markdown(&row("η_TP", ["η_FP = 0", "η_FP = 0.5", "gap"]), &rows),
        numbers: numbers.collect(),
        svg: Some(curves::svg(&[panel])),
    }
}

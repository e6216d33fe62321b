//! Rules that `promtool check metrics` holds a text of metrics to, and those of OpenMetrics on counters and units.

use std::collections::{BTreeMap, BTreeSet};

/// Parts of names that stand for a unit that is not a base unit, or abbreviate one.
const POOR_UNITS: [&str; 22] = [
    "milliseconds",
    "microseconds",
    "nanoseconds",
    "minutes",
    "hours",
    "days",
    "kilobytes",
    "megabytes",
    "gigabytes",
    "kibibytes",
    "mebibytes",
    "bits",
    "percent",
    "ms",
    "us",
    "ns",
    "sec",
    "s",
    "b",
    "kb",
    "mb",
    "gb",
];

/// Types, which belong to no name.
const TYPES: [&str; 4] = ["counter", "gauge", "histogram", "summary"];

#[derive(Default)]
struct Family<'t> {
    help: Option<&'t str>,
    kind: Option<&'t str>,
    unit: Option<&'t str>,
    samples: usize,
}

/// Violations of the rules in a text of metrics.
pub(crate) fn violations(text: &str) -> Vec<String> {
    let (mut families, mut found) = (BTreeMap::<&str, Family>::new(), Vec::new());
    let mut series = BTreeSet::new();
    for line in text.lines() {
        if let Some(described) = line.strip_prefix("# ") {
            let mut words = described.splitn(3, ' ');
            let (keyword, name, rest) = (words.next(), words.next().unwrap_or_default(), words.next());
            match keyword {
                Some("HELP") => families.entry(name).or_default().help = rest,
                Some("TYPE") => families.entry(name).or_default().kind = rest,
                Some("UNIT") => families.entry(name).or_default().unit = rest,
                Some("EOF") if text.ends_with("# EOF\n") => {}
                _ => found.push(format!("{line:?} is not a line of metrics")),
            }
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap_or_default();
        if value.parse::<f64>().is_err() {
            found.push(format!("{line:?} has no value"));
        }
        if !series.insert(sample) {
            found.push(format!("{sample} appears twice"));
        }
        let name = sample.split('{').next().unwrap_or_default();
        let family = [""; 1].into_iter().chain(["_total", "_sum", "_count", "_bucket"]);
        let family = family.filter_map(|suffix| name.strip_suffix(suffix)).find(|name| families.contains_key(name));
        match family.and_then(|name| families.get_mut(name)) {
            None => found.push(format!("{name} has no TYPE")),
            Some(family) => {
                family.samples += 1;
                let is_counter = family.kind == Some("counter");
                if is_counter != name.ends_with("_total") {
                    found.push(format!("{name} is a {:?}: counters, and only they, end with _total", family.kind));
                }
                let has_parts = ["_sum", "_count", "_bucket"].iter().any(|part| name.ends_with(part));
                if has_parts != (family.kind == Some("histogram")) {
                    found.push(format!("{name} is a {:?}", family.kind));
                }
                if sample.contains("le=\"") != name.ends_with("_bucket") {
                    found.push(format!("{sample}: the label le belongs to buckets"));
                }
            }
        }
    }
    for (name, Family { help, kind, unit, samples }) in families {
        let parts: Vec<&str> = name.split('_').collect();
        if help.is_none_or(|help| help.trim().len() < 10) {
            found.push(format!("{name} has no HELP"));
        }
        if kind.is_none() || samples == 0 && kind != Some("counter") && kind != Some("gauge") {
            found.push(format!("{name} has no samples or no TYPE"));
        }
        if !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_') {
            found.push(format!("{name} is not in snake case"));
        }
        if let Some(part) = parts.iter().find(|part| POOR_UNITS.contains(part) || TYPES.contains(part)) {
            found.push(format!("{name} has {part} in its name"));
        }
        for base in ["seconds", "bytes"] {
            if parts.contains(&base) && parts.last() != Some(&base) {
                found.push(format!("{name}: the unit comes last"));
            }
        }
        if unit.is_some_and(|unit| parts.last() != Some(&unit)) {
            found.push(format!("{name} does not end with its unit {unit:?}"));
        }
    }
    found
}

#[test]
fn each_rule_finds_its_violation() {
    let sound = "# HELP a_seconds Time of something.\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n\
                 a_seconds_sum 1\na_seconds_count 1\na_seconds_bucket{le=\"+Inf\"} 1\n# EOF\n";
    assert_eq!(violations(sound), Vec::<String>::new());
    let described = |name: &str, kind: &str, sample: &str| {
        format!("# HELP {name} Something that is counted.\n# TYPE {name} {kind}\n{sample} 1\n# EOF\n")
    };
    for text in [
        described("a", "counter", "a"),
        described("a", "gauge", "a_total"),
        described("a_ms", "gauge", "a_ms"),
        described("a_gauge", "gauge", "a_gauge"),
        described("aB", "gauge", "aB"),
        described("a_seconds_left", "gauge", "a_seconds_left"),
        described("a", "gauge", "a{le=\"1\"}"),
        described("a", "gauge", "b"),
        described("a", "gauge", "a 1\na"),
        described("a", "gauge", "a x"),
        described("a", "histogram", "a"),
        described("a", "gauge", "a").replace("Something that is counted.", ""),
        described("a", "gauge", "a").replace("# TYPE", "# UNIT a seconds\n# TYPE"),
        described("a", "gauge", "a").replace("# TYPE a gauge\n", ""),
    ] {
        assert!(!violations(&text).is_empty(), "{text}");
    }
}

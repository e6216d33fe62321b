//! The dependency order of the workspace, as cargo reads it from the manifests.
//!
//! `codec` ← `control` ← `speculation` ← {`edge`, `cloud`, `papers`};  `models` ← {`edge`, `cloud`, `papers`};
//! `papers` ← `cloud`, by a feature;  all three ← `device` ← `cloud`;  {`models`, `speculation`} ← `webgpu` ← `edge`;
//! `fuzz` sees the first three, `tests`, `bench` and `xtask` see everything. `testing` sees the libraries before
//! `cloud`, and tests of every crate see it.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;

use cargo_metadata::{CargoOpt, DependencyKind, Metadata, MetadataCommand};

type Outcome = Result<(), Box<dyn Error>>;

/// For every crate of the workspace, the crates of the workspace that it may depend on.
const LAYERS: &[(&str, &[&str])] = &[
    ("outrider-codec", &[]),
    ("outrider-control", &["outrider-codec"]),
    ("outrider-speculation", &["outrider-codec", "outrider-control"]),
    ("outrider-models", &[]),
    ("outrider-device", &["outrider-codec", "outrider-speculation", "outrider-models"]),
    ("outrider-webgpu", &["outrider-codec", "outrider-speculation", "outrider-models"]),
    ("outrider-edge", &["outrider-codec", "outrider-speculation", "outrider-models", "outrider-webgpu"]),
    ("outrider-papers", &["outrider-codec", "outrider-speculation", "outrider-models"]),
    (
        "outrider-cloud",
        &[
            "outrider-codec",
            "outrider-control",
            "outrider-speculation",
            "outrider-models",
            "outrider-device",
            "outrider-papers",
        ],
    ),
    (TESTING, &["outrider-codec", "outrider-speculation", "outrider-models"]),
    ("outrider-tests", EVERY_LIBRARY),
    ("outrider-bench", EVERY_LIBRARY),
    ("outrider-fuzz", &["outrider-codec", "outrider-speculation"]),
    ("xtask", EVERY_LIBRARY),
    ("outrider-examples", &["outrider-codec", "outrider-speculation", "outrider-models"]),
];

const EVERY_LIBRARY: &[&str] = &[
    "outrider-codec",
    "outrider-control",
    "outrider-speculation",
    "outrider-models",
    "outrider-device",
    "outrider-webgpu",
    "outrider-edge",
    "outrider-cloud",
    TESTING,
    "outrider-papers",
];

/// The crate of toys and writers, on which every crate may have a dev-dependency.
const TESTING: &str = "outrider-testing";

/// Other dev-dependencies that point upwards: candle stays out of the workspace's tests, so that the device's tests of
/// whole sessions are its own.
const UPWARDS_IN_TESTS: [(&str, &str); 2] =
    [("outrider-device", "outrider-tests"), ("outrider-device", "outrider-cloud")];

/// Bytes and decisions know neither tensors nor sockets nor the browser, not even through others.
const PURE: [&str; 3] = ["outrider-codec", "outrider-control", "outrider-speculation"];
const IMPURE: [&str; 4] = ["candle-core", "candle-nn", "tokio", "web-sys"];

/// `from` depends on `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Edge {
    from: String,
    to: String,
}

#[test]
fn crates_depend_only_downwards() -> Outcome {
    let metadata = metadata()?;
    let members: Vec<&str> = metadata.workspace_packages().iter().map(|package| package.name.as_str()).collect();
    // Dev-dependencies included: what needs more than one crate is tested in this crate, not sideways.
    let mut edges = Vec::new();
    for package in metadata.workspace_packages() {
        for to in package.dependencies.iter().filter(|to| members.contains(&to.name.as_str())) {
            let is_known = to.name == TESTING || UPWARDS_IN_TESTS.contains(&(&package.name, &to.name));
            if !(is_known && to.kind == DependencyKind::Development) {
                edges.push(edge(&package.name, &to.name));
            }
        }
    }
    assert!(
        edges.contains(&edge("outrider-speculation", "outrider-codec")),
        "a dependency that must be there was not read"
    );
    assert_eq!(violations(&members, &edges), Vec::<String>::new());
    Ok(())
}

#[test]
fn bytes_and_decisions_reach_no_tensor_socket_or_browser() -> Outcome {
    let edges = resolved_edges(&metadata()?)?;
    // The server does reach tokio: were the graph read wrongly, nothing would reach anything.
    assert!(reachable(&edges, "outrider-cloud").contains("tokio"));
    for pure in PURE {
        let reached = reachable(&edges, pure);
        let impure: Vec<&str> = IMPURE.into_iter().filter(|name| reached.contains(*name)).collect();
        assert!(impure.is_empty(), "{pure} depends on {impure:?}");
    }
    Ok(())
}

#[test]
fn a_violating_graph_is_caught() {
    let members: Vec<&str> = LAYERS.iter().map(|(name, _)| *name).collect();
    let sound = [
        edge("outrider-speculation", "outrider-codec"),
        edge("outrider-cloud", "outrider-models"),
        edge("outrider-tests", "outrider-cloud"),
    ];
    assert_eq!(violations(&members, &sound), Vec::<String>::new());
    for bad in [
        edge("outrider-codec", "outrider-speculation"),
        edge("outrider-control", "outrider-speculation"),
        edge("outrider-speculation", "outrider-models"),
        edge("outrider-models", "outrider-codec"),
        edge("outrider-edge", "outrider-cloud"),
        edge("outrider-edge", "outrider-device"),
        edge("outrider-cloud", "outrider-webgpu"),
        edge("outrider-cloud", "outrider-edge"),
        edge("outrider-cloud", "outrider-tests"),
        edge("outrider-cloud", "outrider-testing"),
        edge("outrider-testing", "outrider-cloud"),
        edge("outrider-cloud", "xtask"),
        edge("outrider-papers", "outrider-cloud"),
        edge("outrider-speculation", "outrider-papers"),
    ] {
        let mut edges = sound.to_vec();
        edges.push(bad.clone());
        assert_eq!(violations(&members, &edges).len(), 1, "{bad:?}");
    }
}

#[test]
fn a_crate_without_a_layer_and_a_layer_without_a_crate_are_caught() {
    let mut members: Vec<&str> = LAYERS.iter().map(|(name, _)| *name).collect();
    members.push("outrider-utils");
    assert_eq!(violations(&members, &[]), ["outrider-utils has no layer"]);
    assert_eq!(violations(&members[1..LAYERS.len()], &[]), ["outrider-codec is not in the workspace"]);
}

#[test]
fn what_is_reached_through_others_is_caught() {
    let edges = [edge("a", "b"), edge("b", "c"), edge("c", "a"), edge("d", "tokio")];
    let reached: Vec<&str> = reachable(&edges, "a").into_iter().collect();
    assert_eq!(reached, ["a", "b", "c"], "a cycle must end the search, not repeat it");
    assert!(reachable(&edges, "d").contains("tokio"));
}

/// Reads the workspace as cargo does.
pub fn metadata() -> Result<Metadata, cargo_metadata::Error> {
    MetadataCommand::new()
        .manifest_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        // Dependencies of optional features count as well.
        .features(CargoOpt::AllFeatures)
        .exec()
}

fn edge(from: &str, to: &str) -> Edge {
    Edge { from: from.to_owned(), to: to.to_owned() }
}

/// A sentence for every way in which `members` and `edges` differ from [`LAYERS`].
fn violations(members: &[&str], edges: &[Edge]) -> Vec<String> {
    let layer = |name: &str| LAYERS.iter().find(|(member, _)| *member == name);
    let unplaced = members.iter().filter(|name| layer(name).is_none()).map(|name| format!("{name} has no layer"));
    let missing = LAYERS
        .iter()
        .filter(|(name, _)| !members.contains(name))
        .map(|(name, _)| format!("{name} is not in the workspace"));
    let upwards = edges
        .iter()
        .filter(|Edge { from, to }| layer(from).is_some_and(|(_, below)| !below.contains(&to.as_str())))
        .map(|Edge { from, to }| format!("{from} must not depend on {to}"));
    unplaced.chain(missing).chain(upwards).collect()
}

/// Every package that `start` depends on, directly or through others, and `start` itself where it is in a cycle.
fn reachable<'a>(edges: &'a [Edge], start: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut frontier = vec![start];
    while let Some(from) = frontier.pop() {
        for edge in edges.iter().filter(|edge| edge.from == from) {
            if reached.insert(edge.to.as_str()) {
                frontier.push(&edge.to);
            }
        }
    }
    reached
}

/// All dependencies among all packages, for every platform. Dev-dependencies are left out: they ship with nothing.
fn resolved_edges(metadata: &Metadata) -> Result<Vec<Edge>, Box<dyn Error>> {
    let resolve = metadata.resolve.as_ref().ok_or("cargo resolved no dependencies")?;
    let mut edges = Vec::new();
    for node in &resolve.nodes {
        for dependency in &node.deps {
            let ships = |kind| kind != DependencyKind::Development;
            if dependency.dep_kinds.iter().any(|info| ships(info.kind)) {
                edges.push(edge(&metadata[&node.id].name, &metadata[&dependency.pkg].name));
            }
        }
    }
    Ok(edges)
}

//! The dependency order of the workspace, and where unsafe code may stand, read from the repository itself.
//!
//! `codec` ← `control` ← `speculation` ← {`edge`, `cloud`};  `models` ← {`edge`, `cloud`};  all three ← `device` ← `cloud`;
//! {`models`, `speculation`} ← `webgpu` ← `edge`;  `fuzz`
//! sees the first three, `tests`, `bench` and `xtask` see everything.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

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
    ("outrider-report", &[]),
    (
        "outrider-cloud",
        &[
            "outrider-codec",
            "outrider-control",
            "outrider-speculation",
            "outrider-models",
            "outrider-device",
            "outrider-report",
        ],
    ),
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
    "outrider-report",
];

/// Dev-dependencies that point upwards: candle stays out of the workspace's tests, so that the device's tests of whole
/// sessions are its own.
const UPWARDS_IN_TESTS: [(&str, &str); 2] =
    [("outrider-device", "outrider-tests"), ("outrider-device", "outrider-cloud")];

/// Bytes and decisions know neither tensors nor sockets nor the browser, not even through others.
const PURE: [&str; 3] = ["outrider-codec", "outrider-control", "outrider-speculation"];
const IMPURE: [&str; 4] = ["candle-core", "candle-nn", "tokio", "web-sys"];

/// The only folder whose files may contain the keyword of [`keyword`].
const KERNELS: &str = "models/src/kernels";
/// The only other file: allocations cannot be counted without it.
const ALLOCATIONS: &str = "models/tests/memory.rs";

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
            let is_known = UPWARDS_IN_TESTS.contains(&(&package.name, &to.name));
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
fn bytes_and_decisions_forbid_unsafe_code() -> Outcome {
    let root = metadata()?.workspace_root.into_std_path_buf();
    for folder in ["shared-codec", "control", "speculation"] {
        let crate_root = fs::read_to_string(root.join(folder).join("src/lib.rs"))?;
        assert!(crate_root.lines().any(|line| line == "#![forbid(unsafe_code)]"), "{folder}");
    }
    Ok(())
}

#[test]
fn unsafe_code_stands_in_kernels_only() -> Outcome {
    let metadata = metadata()?;
    let root = metadata.workspace_root.as_std_path();
    let mut files = Vec::new();
    rust_files(root, metadata.target_directory.as_std_path(), &mut files)?;
    let here = root.join(file!());
    assert!(files.contains(&here), "this file itself was not found: {}", here.display());
    for file in files {
        if file.starts_with(root.join(KERNELS)) || file == root.join(ALLOCATIONS) {
            continue;
        }
        let source = fs::read_to_string(&file)?;
        assert_eq!(line_with_keyword(&source), None, "{}", file.display());
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
        edge("outrider-cloud", "xtask"),
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

#[test]
fn the_keyword_is_told_from_names_and_prose() {
    let keyword = keyword();
    for code in [
        format!("{keyword} {{ read() }}"),
        format!("    pub {keyword} fn read() {{}}"),
        format!("#[{keyword}(no_mangle)]"),
        format!("let a = 1;\nlet b = {keyword}{{ 2 }};"),
    ] {
        assert!(line_with_keyword(&code).is_some(), "{code}");
    }
    for code in [
        format!("#![forbid({keyword}_code)]"),
        format!("//! No {keyword} code here."),
        format!("    /// The {keyword} half lies elsewhere."),
        format!("let {keyword}ly = not_{keyword};"),
    ] {
        assert_eq!(line_with_keyword(&code), None, "{code}");
    }
}

/// What cargo knows of the workspace.
pub fn metadata() -> Result<Metadata, cargo_metadata::Error> {
    MetadataCommand::new()
        .manifest_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        // What hides behind a feature is a dependency as well.
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

/// Collects the Rust files under `folder`, leaving out what was built or fetched.
fn rust_files(folder: &Path, target: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name();
        if entry.file_type()?.is_dir() {
            let foreign = name == "node_modules"
                || name.as_encoded_bytes().starts_with(b".")
                || path == target
                || path.join("CACHEDIR.TAG").exists();
            if !foreign {
                rust_files(&path, target, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The word looked for, put together so that this file does not contain it.
fn keyword() -> String {
    ["un", "safe"].concat()
}

/// The first line of `source` with the keyword in it, unless the whole line is a comment.
fn line_with_keyword(source: &str) -> Option<&str> {
    let keyword = keyword();
    source.lines().filter(|line| !line.trim_start().starts_with("//")).find(|line| {
        line.split(|character: char| !character.is_alphanumeric() && character != '_').any(|word| word == keyword)
    })
}

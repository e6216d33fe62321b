//! Committed frames and what they mean: they must decode to the same for as long as the protocol's version is the same,
//! here and in a decoder that was written from FORMAT.md alone. tests/golden/README.md says what is in them.
//!
//! `OUTRIDER_REGENERATE_GOLDEN=1` writes the files again before they are checked.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use serde_json::{Value, json};

mod extremes;
mod reader;
mod record;
mod recorder;

use reader::{Reader, from_hex, noise, text};

const REGENERATE: &str = "OUTRIDER_REGENERATE_GOLDEN";
const LARGEST_FOLDER: u64 = 400_000;

/// The golden files, written again if the variable asks for it.
static FILES: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    if std::env::var_os(REGENERATE).is_some_and(|value| value == "1") {
        for (name, golden) in record::make() {
            fs::write(folder.join(format!("{name}.json")), text(&golden)).unwrap();
        }
    }
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    files
});

#[test]
fn golden_files_decode() {
    let (mut kinds, mut schemes, mut refused) = (BTreeSet::new(), BTreeSet::new(), 0);
    for path in FILES.iter() {
        let golden: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        for session in golden["sessions"].as_array().unwrap() {
            let name = session["name"].as_str().unwrap();
            let mut reader = Reader::new(session["vocab_size"].as_u64().unwrap() as u32);
            for (at, step) in session["frames"].as_array().unwrap().iter().enumerate() {
                let found = reader.step(&from_hex(step["hex"].as_str().unwrap()));
                // Through text, as what it is compared with: serde_json may miss a number's last bit there.
                let found: Value = serde_json::from_str(&found.to_string()).unwrap();
                assert_eq!(&found, step, "frame {at} of {name} in {}", path.display());
                kinds.insert(found["value"]["frame"].to_string());
                schemes.insert(found["value"]["parameters"].to_string());
                refused += usize::from(found.get("error").is_some());
            }
        }
        for distribution in golden.get("noise").and_then(Value::as_array).into_iter().flatten() {
            assert_eq!(&noise(distribution), distribution, "{}", path.display());
        }
    }
    // Kinds of frames that the files must contain, also after a change.
    let from_edge = "Hello Resume Prompt Generate Draft Guesses Cancel Resample";
    let from_cloud = "Welcome Verdict Distribution Evidence Tokens Error Bye";
    for kind in from_edge.split(' ').chain(from_cloud.split(' ')) {
        assert!(kinds.contains(&json!(kind).to_string()), "no {kind}");
    }
    let coded = ["K-SQS", "QS", "C-SQS"].map(|scheme| [(scheme, "enumerative"), (scheme, "adaptive")]);
    let uncoded = ["dense", "TK-SLT", "DSSD", "coupled"].map(|scheme| (scheme, ""));
    for (scheme, code) in coded.into_iter().flatten().chain(uncoded) {
        let name = json!(scheme).to_string();
        assert!(schemes.iter().any(|found| found.contains(&name) && found.contains(code)), "no {scheme} {code}");
    }
    assert!(refused >= 60, "{refused}");
    let size: u64 = FILES.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(size < LARGEST_FOLDER, "{size} bytes");
}

/// decode.py, with adaptive.py, is the other decoder. It needs nothing but Python; without it this test says so and the
/// other one stands alone.
#[test]
fn a_decoder_written_from_the_format_alone_agrees() {
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("There is no python3 on the PATH: the golden files were not read by tests/golden/decode.py.");
        return;
    }
    let decoder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/decode.py");
    let output = Command::new("python3").arg(decoder).args(FILES.iter()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.lines().count(), FILES.len(), "{said}");
}

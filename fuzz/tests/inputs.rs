//! Runs every target without libFuzzer: over the golden frames, and over choices drawn from a seed.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::fs;
use std::path::Path;

/// Inputs of choices, of lengths up to [`LONGEST`].
const DRAWN: usize = 2000;
const LONGEST: usize = 512;

/// The frames of tests/golden, which are each a line `"hex":"…"`.
fn golden_frames() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let frames: Vec<_> = texts.flat_map(|path| frames_in(&fs::read_to_string(path).unwrap())).collect();
    assert!(frames.len() > 200, "{} frames", frames.len());
    frames
}

fn frames_in(text: &str) -> Vec<Vec<u8>> {
    let hex = text.split("\"hex\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    hex.map(|hex| hex.as_bytes().chunks(2).map(byte).collect()).collect()
}

/// Inputs of the generator splitmix64.
fn drawn_inputs() -> impl Iterator<Item = Vec<u8>> {
    let mut state = 0u64;
    let mut next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 32
    };
    (0..DRAWN).map(move |_| {
        let length = next() as usize % LONGEST;
        (0..length).map(|_| next() as u8).collect()
    })
}

/// Calls `check` with every input; reports an input that fails by its bytes.
fn run(check: fn(&[u8])) {
    for input in golden_frames().into_iter().chain(drawn_inputs()) {
        let checked = std::panic::catch_unwind(|| check(&input));
        assert!(checked.is_ok(), "the input was {input:02x?}");
    }
}

macro_rules! targets {
    ($($target:ident)+) => {$(
        #[test]
        fn $target() {
            run(outrider_fuzz::$target::check);
        }
    )+};
}

targets! { frame payload edge cloud session ahead }

//! The cost of loading: the most that is allocated at once, against the size of the file. Decoding allocates nothing.
//!
//! A binary of its own with a single test, because the whole process is measured.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::print_stdout, reason = "the figures are worth reading")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    io::Cursor,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use outrider_models::{Chunk, LoadError, Model, ModelLoader, SafetensorsLoader, Scratch};
use outrider_testing::{gguf::TYPES, llama::Shape};

/// The system's allocator, counting. Growing counts both copies, although the system may do with one.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is left to the system's allocator; the default `realloc` calls these two.
#[allow(unsafe_code, reason = "an allocator can be counted no other way")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(now, Relaxed);
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's obligations are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's obligations are the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `load` and gives its outcome with the most bytes that were allocated beyond what there was before.
fn peak<T>(load: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let outcome = load();
    (outcome, PEAK.load(Relaxed) - before)
}

/// 15 million weights: 5 MB as Q2_K, 60 MB as F32.
const SMALL: Shape = Shape { vocab: 8200, hidden: 768, inner: 1280, layers: 2, heads: 12 };

/// The share of the file's size that loading may take at most.
const LIMIT: f64 = 1.3;

fn check(what: &str, file: usize, (model, peak): (Result<Model, LoadError>, usize)) {
    let model = model.unwrap();
    assert_eq!(model.config().vocab_size as u64, SMALL.vocab);
    let ratio = peak as f64 / file as f64;
    println!("{what}: {peak} bytes at most for a file of {file}: {ratio:.3}");
    assert!((0.9..LIMIT).contains(&ratio), "{what}: {ratio:.3} × the file's size");
}

/// Drafts and verifies, once to warm up and then counting. What allocates at all does so in every repetition; what
/// happens once in a process (a worker that starts late, a test runner that begins to wait) happens in one of them.
fn decoding_allocates_nothing(what: &str, model: &Model) {
    let (mut cache, mut scratch) = (model.new_cache(), Scratch::default());
    let tokens: Vec<u32> = (0..48).map(|i| i * 37 % 4096).collect();
    let mut round = |wanted: &[usize]| {
        cache.truncate(40);
        let missing = &tokens[cache.len()..40];
        model.forward_with(&mut [Chunk { cache: &mut cache, tokens: missing, positions: &[] }], &mut scratch).unwrap();
        let drafts = &tokens[40..40 + wanted.len()];
        let chunk = Chunk { cache: &mut cache, tokens: drafts, positions: wanted };
        let logits = model.forward_with(&mut [chunk], &mut scratch).unwrap();
        assert_eq!(logits.chunk(0).len(), wanted.len());
    };
    let rows: [usize; 8] = std::array::from_fn(|row| row);
    round(&rows);
    let allocations = [(); 3].map(|()| {
        let before = ALLOCATIONS.load(Relaxed);
        for count in [1, 5, 8, 1, 2] {
            round(&rows[..count]);
        }
        ALLOCATIONS.load(Relaxed) - before
    });
    assert!(allocations.contains(&0), "{what}: {allocations:?} allocations in three times ten passes after warm-up");
}

#[test]
fn loading_takes_little_more_than_the_file_and_decoding_nothing() {
    for threads in [1, 2] {
        outrider_models::threads::set(threads);
        for file in ["draft/draft-q8_0.gguf", "target/target-f16.gguf"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pair").join(file);
            decoding_allocates_nothing(file, &Model::open(&path).unwrap());
        }
        for element in TYPES {
            let file = SMALL.gguf(element).finish();
            decoding_allocates_nothing(element.0.name(), &Model::from_gguf(&mut Cursor::new(&file)).unwrap());
        }
    }

    for element in TYPES {
        let (name, file) = (element.0.name(), SMALL.gguf(element).finish());
        check(name, file.len(), peak(|| Model::from_gguf(&mut Cursor::new(&file))));
        // As a browser has it: the length is known, chunks come from elsewhere.
        let load = || {
            let mut loader = ModelLoader::new(Some(file.len() as u64));
            file.chunks(65_537).try_for_each(|chunk| loader.push(chunk))?;
            loader.finish()
        };
        check(name, file.len(), peak(load));
    }
    for dtype in ["F32", "F16", "BF16"] {
        let (config, file) = SMALL.safetensors(dtype);
        check(dtype, file.len(), peak(|| Model::from_safetensors(&config, &file)));
        let load = || {
            let mut loader = SafetensorsLoader::new(&config, None)?;
            file.chunks(65_537).try_for_each(|chunk| loader.push(chunk))?;
            loader.finish()
        };
        check(dtype, file.len(), peak(load));
    }
    lies_are_cheap();
}

/// Files of a megabyte that claim terabytes.
fn lies_are_cheap() {
    // A strip of sixteen rows is longer than the file, or is not.
    for (hidden, limit) in [(1 << 22, 4 << 20), (1 << 10, 65 << 20)] {
        let mut file = huge_header(Shape { vocab: 1 << 24, hidden, inner: 1 << 24, layers: 1, heads: 1 << 8 });
        file.resize(1 << 20, 0);
        for (total, limit) in [(None, limit), (Some(file.len() as u64), 1 << 16)] {
            let (outcome, peak) = peak(|| {
                let mut loader = ModelLoader::new(total);
                file.chunks(5000).try_for_each(|chunk| loader.push(chunk))?;
                loader.finish()
            });
            assert!(matches!(outcome, Err(LoadError::Truncated { .. } | LoadError::Gap { .. })));
            assert!(peak < limit, "{peak} bytes for a lie of rows of {hidden}, length {total:?}");
        }
    }
}

fn huge_header(shape: Shape) -> Vec<u8> {
    let mut file = shape.settings();
    for (index, (name, shape)) in shape.tensors().into_iter().enumerate() {
        file.placed(&name, &shape, 0, (index as u64) << 48);
    }
    file.finish()
}

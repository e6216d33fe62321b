//! The foundations of the benchmarks: files with random weights are models, passes are the same for every engine, and
//! medians are medians.

use std::{cell::Cell, fs};

use outrider_models::{ElementType, Model, RandomWeights};
use outrider_testing::{folder::Folder, logits::on_cpu};

use crate::{
    passes::{self, Engine, Failure, Pass},
    samples::Samples,
    shapes::{Architecture, SHAPES, SMOLLM2, Shape, Storage, TINYLLAMA},
};

fn formats() -> impl Iterator<Item = Storage> {
    RandomWeights::ELEMENTS.map(Storage::All).into_iter().chain([Storage::Q4KM, Storage::Q5KM])
}

/// Every kind of tensor, rows that are blocks of every format; the embedding table ends between two alignments.
const SMALL: Shape = Shape {
    name: "small",
    architecture: Architecture::Llama,
    hidden: 256,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    head_dim: 64,
    feed_forward: 512,
    vocabulary: 401,
    tied: false,
};

#[test]
fn logits_of_random_weights_are_as_wide_as_a_trained_models() {
    let folder = Folder::empty();
    for format in formats() {
        let tied = Shape { tied: true, name: "small-tied", ..SMALL };
        let qwen = Shape { architecture: Architecture::Qwen2, name: "small-qwen", ..SMALL };
        let gemma = Shape { architecture: Architecture::Gemma3, head_dim: 128, name: "small-gemma", ..tied };
        for shape in [SMALL, tied, qwen, gemma] {
            let path = shape.write(format, &folder).unwrap();
            let model = Model::open(&path).unwrap_or_else(|error| panic!("{}: {error}", format.name()));
            for row in on_cpu(&model, &[1, 300, 399, 7], 4) {
                let mean = row.iter().sum::<f32>() / row.len() as f32;
                let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / row.len() as f32;
                // Elements of 0.5 / √inputs against a row of size 1.
                let deviation = variance.sqrt();
                assert!((0.3..1.0).contains(&deviation), "{} {}: {deviation}", shape.name, format.name());
                assert!(mean.abs() < 0.15, "{} {}: {mean}", shape.name, format.name());
            }
        }
    }
}

#[test]
fn a_file_is_as_long_as_was_said_and_written_once() {
    let folder = Folder::empty();
    let path = SMALL.write(Storage::All(ElementType::Q4_0), &folder).unwrap();
    let (first, written) = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap());
    assert_eq!(first.len() as u64, SMALL.file_bytes(Storage::All(ElementType::Q4_0)));
    assert_eq!(SMALL.write(Storage::All(ElementType::Q4_0), &folder).unwrap(), path);
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), written, "it was there already");
    // Cut short, as by a full disk: made again, with the same bytes.
    fs::write(&path, &first[..first.len() - 1]).unwrap();
    SMALL.write(Storage::All(ElementType::Q4_0), &folder).unwrap();
    assert_eq!(fs::read(&path).unwrap(), first);
}

#[test]
fn a_pass_reads_every_matrix_but_an_embedding_table_of_its_own() {
    // SmolLM2-135M has 134 515 008 parameters, of which 61 × 576 are norms in f32; Q8_0 has 34 bytes for 32.
    let norms = 61 * 576;
    assert_eq!(SMOLLM2.streamed(Storage::All(ElementType::Q8_0)), (134_515_008 - norms) / 32 * 34 + norms * 4);
    // TinyLlama has 1 100 048 384, of which 32000 × 2048 are the embedding table and 45 × 2048 norms.
    let (table, norms) = (32_000 * 2048, 45 * 2048);
    assert_eq!(
        TINYLLAMA.streamed(Storage::All(ElementType::Q4_0)),
        (1_100_048_384 - table - norms) / 32 * 18 + norms * 4
    );
}

#[test]
fn every_shape_can_be_written_in_the_formats_that_are_compared() {
    for shape in SHAPES {
        assert!(shape.hidden % 32 == 0 && shape.feed_forward % 32 == 0, "{}: whole blocks", shape.name);
        assert_eq!(shape.hidden % shape.heads, 0, "{}", shape.name);
        assert_eq!(shape.heads % shape.kv_heads, 0, "{}", shape.name);
    }
    // As llama.cpp's own files of these models: TinyLlama's matrices in K types, SmolLM2's 576 inputs in none of them.
    let types = |shape: Shape, matters| Storage::Q4KM.element(shape.hidden, matters);
    assert_eq!([types(TINYLLAMA, false), types(TINYLLAMA, true)], [ElementType::Q4_K, ElementType::Q6_K]);
    assert_eq!([types(SMOLLM2, false), types(SMOLLM2, true)], [ElementType::Q5_0, ElementType::Q8_0]);
}

/// An engine that notes its requests. Rewinding takes ten units of its own clock, a token one.
#[derive(Default)]
struct Fake<'a> {
    clock: Option<&'a Cell<f64>>,
    cached: Vec<u32>,
    asked: Vec<(usize, Vec<u32>)>,
}

impl Fake<'_> {
    fn spend(&self, units: usize) {
        if let Some(clock) = self.clock {
            clock.set(clock.get() + units as f64);
        }
    }
}

impl Engine for Fake<'_> {
    fn rewind(&mut self, cached: usize, tokens: &[u32]) -> Result<(), Failure> {
        self.cached = tokens[..cached].to_vec();
        self.spend(10);
        Ok(())
    }

    fn run(&mut self, pass: Pass, tokens: &[u32]) -> Result<(), Failure> {
        assert_eq!(self.cached.len(), pass.cached, "what the pass before left is gone");
        self.asked.push((self.cached.len(), tokens.to_vec()));
        self.cached.extend(tokens);
        // The first pass is slow.
        self.spend(tokens.len() * if self.asked.len() == 1 { 100 } else { 1 });
        Ok(())
    }
}

#[test]
fn only_the_passes_are_timed_and_not_the_first() {
    let (clock, text) = (Cell::new(0.0), passes::text(1000));
    let mut engine = Fake { clock: Some(&clock), ..Fake::default() };
    let pass = Pass { rows: 3, cached: 16, all_logits: true };
    let times = passes::time(&mut engine, pass, 4, &text, || clock.get()).unwrap();
    assert_eq!(times, [3.0; 4]);
    assert_eq!(engine.asked, vec![(16, text[16..19].to_vec()); 5]);
    let longer = Pass { rows: 1, cached: text.len(), all_logits: true };
    assert!(passes::time(&mut engine, longer, 1, &text, || clock.get()).is_err());
}

#[test]
fn texts_are_words_of_the_vocabulary() {
    for vocabulary in [1, 2, 259, 260, 300, 32_000, 151_936] {
        assert!(passes::text(vocabulary).iter().all(|&token| token < vocabulary), "{vocabulary}");
    }
    let text = passes::text(32_000);
    assert!(text.iter().all(|&token| token >= 259), "no special tokens or bytes");
    let mut distinct = text.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), text.len(), "none repeats");
}

#[test]
fn medians_and_ranges() {
    let odd = Samples::of(&[5.0, 1.0, 2.0]).unwrap();
    assert_eq!((odd.median, odd.lowest, odd.highest), (2.0, 1.0, 5.0));
    assert_eq!(Samples::of(&[4.0, 1.0, 2.0, 9.0]).unwrap().median, 3.0);
    assert!(Samples::of(&[]).is_none());
    // Four tokens in as many seconds: the slowest is the lowest rate.
    let rate = odd.rate(4.0);
    assert_eq!((rate.median, rate.lowest, rate.highest), (2.0, 0.8, 4.0));
    assert_eq!(odd.to_string(), "2.00 [1.00–5.00]");
}

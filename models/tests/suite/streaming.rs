//! However a file is cut into pieces, the same model comes out, or the same error.

use outrider_models::{LoadError, Model, ModelLoader, Position, RopeScaling, SafetensorsLoader};
use outrider_testing::{
    gguf::{F32, Gguf, bytes, text},
    llama::{Shape, random},
    logits::{self, logits_at_all},
    safetensors::with_settings,
};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::fixture::{BLOCKS, DRAFT, gguf, wide_files};

const TINY: Shape = Shape { vocab: 37, hidden: 32, inner: 48, layers: 2, heads: 4 };

/// A loader of either kind.
trait Push {
    fn push(&mut self, bytes: &[u8]) -> Result<(), LoadError>;
    fn finish(self) -> Result<Model, LoadError>;
}

macro_rules! loaders {
    ($($loader:ty),*) => { $(
        impl Push for $loader {
            fn push(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
                self.push(bytes)
            }

            fn finish(self) -> Result<Model, LoadError> {
                self.finish()
            }
        }
    )* };
}
loaders!(ModelLoader, SafetensorsLoader);

/// Pushes `bytes` in pieces whose lengths `piece` gives.
fn load(mut loader: impl Push, mut bytes: &[u8], mut piece: impl FnMut() -> usize) -> Result<Model, LoadError> {
    while !bytes.is_empty() {
        let (now, later) = bytes.split_at(piece().min(bytes.len()));
        loader.push(now)?;
        bytes = later;
    }
    loader.finish()
}

/// Ways to cut: byte by byte, in small and in large random pieces (some of them empty), and not at all.
fn cuts(file: &[u8], mut load: impl FnMut(&mut dyn FnMut() -> usize)) {
    let mut seed = file.len() as u64;
    if file.len() < 200_000 {
        load(&mut || 1);
    }
    for limit in [7, 100, 3000, 70_000] {
        load(&mut || (random(&mut seed) % limit) as usize);
    }
    load(&mut || usize::MAX);
}

fn bits(model: &Model) -> Vec<Vec<u32>> {
    let rows = logits_at_all(model, &mut model.new_cache(), &[3, 1, 4, 1, 5, 9, 2, 6]);
    logits::bits(rows.iter().map(Vec::as_slice))
}

/// Fails unless a file makes the expected model however it is cut, with and without a known length.
fn assert_every_split<P: Push>(file: &[u8], expected: &Model, loader: impl Fn(Option<u64>) -> P) {
    for total in [None, Some(file.len() as u64)] {
        cuts(file, |piece| {
            let model = load(loader(total), file, piece).unwrap();
            assert_eq!(model.config(), expected.config());
            assert!(bits(&model) == bits(expected), "logits differ");
        });
    }
}

#[test]
fn every_split_gives_the_same_model() {
    let mut files: Vec<Vec<u8>> = BLOCKS.iter().map(|(_, bytes)| bytes.to_vec()).collect();
    files.extend([DRAFT.to_vec(), TINY.gguf(F32).finish()]);
    files.extend(wide_files().into_iter().take(2));
    for file in files {
        assert_every_split(&file, &gguf(&file), ModelLoader::new);
    }
}

#[test]
fn every_split_of_a_checkpoint_gives_the_same_model() {
    let (config, weights) = TINY.safetensors("F32");
    let checkpoints: [(&[u8], &[u8]); 3] = [
        (&config, &weights),
        (include_bytes!("../golden/grouped.config.json"), include_bytes!("../golden/grouped.safetensors")),
        (include_bytes!("../golden/llama3_rope.config.json"), include_bytes!("../golden/llama3_rope.safetensors")),
    ];
    for (config, file) in checkpoints {
        let expected = Model::from_safetensors(config, file).unwrap();
        assert_every_split(file, &expected, |total| SafetensorsLoader::new(config, total).unwrap());
    }
}

/// A checkpoint that has its settings within, as browsers load it.
#[test]
fn every_split_of_one_file_gives_the_same_model() {
    let (config, weights) = TINY.safetensors("F32");
    let file = with_settings(&config, &weights);
    assert_every_split(&file, &Model::from_safetensors(&config, &weights).unwrap(), ModelLoader::new);
    let error = load(ModelLoader::new(None), &weights, || 1000).err().unwrap();
    assert!(matches!(error, LoadError::NoSettings), "{error}");
    for len in 0..20 {
        let error = load(ModelLoader::new(None), &file[..len], || 3).err().unwrap();
        assert!(matches!(error, LoadError::Truncated { .. } | LoadError::NotGguf { .. }), "{len} bytes: {error}");
    }
}

/// The containers hold the same numbers; q and k differ in how their rows are ordered, so only what does not go
/// through them is the same: a sequence's first token attends to itself alone.
#[test]
fn both_containers_give_the_same_weights() {
    let (config, weights) = TINY.safetensors("F32");
    let checkpoint = Model::from_safetensors(&config, &weights).unwrap();
    let file = gguf(&TINY.gguf(F32).finish());
    let first = |model: &Model| logits_at_all(model, &mut model.new_cache(), &[7]);
    assert_eq!(first(&checkpoint), first(&file));
}

/// A vocabulary, arrays in arrays, empty ones, a chat template, and tensors that are not in the order of the
/// directory, with a gap between them.
fn with_everything() -> Vec<u8> {
    let count = |code: u32, count: u64| [code.to_le_bytes().as_slice(), &count.to_le_bytes()].concat();
    let tokens = (0..3000).flat_map(|i| text(&format!("token {i}"))).collect::<Vec<u8>>();
    let nested = [count(9, 3), count(8, 2), text("a"), text(""), count(9, 0), count(9, 1), count(4, 1), vec![1; 4]];
    let mut file = TINY.gguf(F32);
    file.entry("tokenizer.ggml.tokens", 9, &[count(8, 3000), tokens].concat())
        .entry("tokenizer.ggml.scores", 9, &[count(6, 3000), vec![0; 12_000]].concat())
        .entry("empty", 9, &count(8, 0))
        .entry("nested", 9, &nested.concat())
        .text("tokenizer.chat_template", &"{template}".repeat(1000))
        .entry("last", 10, &[7; 8])
        // One divisor for each pair of a head's elements.
        .tensor("rope_freqs.weight", &[4], 0, &bytes(&[1.0, 2.0, 1.5, 4.0]));
    file.finish()
}

#[test]
fn what_is_skipped_may_be_cut_anywhere() {
    let file = with_everything();
    let expected = gguf(&file);
    assert_every_split(&file, &expected, ModelLoader::new);
    let factors = RopeScaling::PerFrequency { factors: vec![1.0, 2.0, 1.5, 4.0] };
    let Position::Rotary { global, .. } = &expected.config().block.position else { panic!("it turns") };
    assert_eq!(global.scaling, factors);
}

#[test]
fn errors_do_not_depend_on_the_split() {
    let file = with_everything();
    let mut seed = 5;
    let mut errors = 0;
    for _ in 0..400 {
        let mut file = file.clone();
        file[random(&mut seed) as usize % 70_000] ^= 1 << (random(&mut seed) % 8);
        let outcome = |piece: &mut dyn FnMut() -> usize| match load(ModelLoader::new(None), &file, piece) {
            Ok(_) => String::new(),
            Err(error) => format!("{error:?}"),
        };
        let whole = outcome(&mut || usize::MAX);
        errors += usize::from(!whole.is_empty());
        assert_eq!(outcome(&mut || 1 + (random(&mut seed) % 500) as usize), whole);
    }
    assert!(errors > 20, "{errors} of 400 files were refused");
}

#[test]
fn a_file_is_refused_before_its_weights_come() {
    let file = TINY.gguf(F32).finish();
    let header = file.len() / 4;
    let altered = |from: &[u8], to: &[u8]| {
        let mut file = file.clone();
        let offset = file.windows(from.len()).position(|window| window == from).unwrap();
        file[offset..offset + to.len()].copy_from_slice(to);
        file
    };
    for (from, to) in [("blk.1.ffn_up", "blk.1.ffn_UP"), ("blk.1.ffn_up", "blk.0.ffn_up"), ("llama", "qwen2")] {
        let mut loader = ModelLoader::new(None);
        loader.push(&altered(from.as_bytes(), to.as_bytes())[..header]).unwrap_err();
        // And it stays refused.
        assert!(matches!(loader.push(&file), Err(LoadError::AfterFailure)));
        assert!(matches!(loader.finish(), Err(LoadError::AfterFailure)));
    }
    // A tensor that ends one byte after the end of the file.
    let mut loader = ModelLoader::new(Some(file.len() as u64 - 1));
    let error = loader.push(&file[..header]).unwrap_err();
    assert!(matches!(error, LoadError::Truncated { needed: 128, remaining: 127, .. }), "{error}");
    ModelLoader::new(Some(file.len() as u64)).push(&file[..header]).unwrap();
}

#[test]
fn claims_beyond_a_known_end_are_refused_at_once() {
    let huge = u64::MAX.to_le_bytes();
    let entry = |code: u32, value: &[u8]| Gguf::default().entry("key", code, value).finish();
    for file in [
        entry(8, &huge),
        entry(8, &4097u64.to_le_bytes()),
        entry(9, &[8u32.to_le_bytes().as_slice(), &huge].concat()),
        entry(9, &[0u32.to_le_bytes().as_slice(), &5000u64.to_le_bytes()].concat()),
        [b"GGUF\x03\0\0\0".as_slice(), &100u64.to_le_bytes(), &0u64.to_le_bytes()].concat(),
        [b"GGUF\x03\0\0\0".as_slice(), &0u64.to_le_bytes(), &200u64.to_le_bytes()].concat(),
    ] {
        let error = ModelLoader::new(Some(2000)).push(&file).unwrap_err();
        assert!(matches!(error, LoadError::Truncated { .. }), "{error}");
        ModelLoader::new(None).push(&file).unwrap();
    }
}

#[test]
fn tensors_must_not_overlap() {
    let mut file = TINY.gguf(F32);
    // Within the embedding table, which comes first.
    file.placed("rope_freqs.weight", &[4], 0, 32);
    let error = load(ModelLoader::new(None), &file.finish(), || usize::MAX).err().unwrap();
    assert!(matches!(&error, LoadError::Overlap { name, .. } if name == "rope_freqs.weight"), "{error}");
}

#[test]
fn nothing_but_filling_lies_between_tensors() {
    for gap in [0, 31, 32, 96] {
        let mut file = TINY.gguf(F32);
        file.gap(gap).tensor("rope_freqs.weight", &[4], 0, &bytes(&[1.0; 4]));
        let loaded = load(ModelLoader::new(None), &file.finish(), || usize::MAX);
        match loaded.err() {
            None => assert!(gap < 32, "{gap} bytes were passed over"),
            Some(error) => assert!(matches!(error, LoadError::Gap { .. }) && gap >= 32, "{gap}: {error}"),
        }
    }
}

#[test]
fn a_checkpoint_ends_where_its_last_tensor_does() {
    let (config, file) = TINY.safetensors("F32");
    for total in [file.len() - 1, file.len() + 1] {
        let loaded = load(SafetensorsLoader::new(&config, Some(total as u64)).unwrap(), &file, || usize::MAX);
        assert!(matches!(loaded, Err(LoadError::Safetensors(_))));
    }
    for len in (0..file.len()).step_by(97) {
        let loaded = load(SafetensorsLoader::new(&config, None).unwrap(), &file[..len], || 1000);
        assert!(matches!(loaded, Err(LoadError::Truncated { .. })), "{len} bytes");
    }
    let lying = [u64::MAX.to_le_bytes().as_slice(), b"{}"].concat();
    let loaded = load(SafetensorsLoader::new(&config, None).unwrap(), &lying, || usize::MAX);
    assert!(matches!(loaded, Err(LoadError::Safetensors(_))));
}

#[test]
fn a_chat_template_is_kept_unless_it_is_too_long_to_be_one() {
    for (length, kept) in [(0, true), (5000, true), (48 << 10, true), ((48 << 10) + 1, false)] {
        let template = "é".repeat(length / 2) + &"x".repeat(length % 2);
        let mut file = TINY.gguf(F32);
        file.text("tokenizer.chat_template", &template).text("tokenizer.other", &template);
        cuts(&file.finish(), |piece| {
            let model = load(ModelLoader::new(None), &file.finish(), piece).unwrap();
            assert_eq!(model.config().chat_template.as_deref(), kept.then_some(template.as_str()));
        });
    }
    assert_eq!(gguf(DRAFT).config().chat_template, None);
}

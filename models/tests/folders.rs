//! Checkpoints as folders, with the files that come with their weights.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use outrider_models::{LoadError, Model, ModelLoader, RecommendedSampling, checkpoint_in_one_file};
use outrider_testing::{folder::Folder, gguf::F32, llama::Shape, logits::on_cpu, safetensors::Safetensors};
use serde_json::{Map, json};

const CONFIG: &[u8] = include_bytes!("golden/grouped.config.json");
const WEIGHTS: &[u8] = include_bytes!("golden/grouped.safetensors");

/// A whole checkpoint, with a file beside it.
fn checkpoint(name: &str, text: &str) -> Model {
    let files = [("config.json", CONFIG), ("model.safetensors", WEIGHTS), (name, text.as_bytes())];
    Model::open(&Folder::with(files)).unwrap()
}

/// Tokens that end a text are those of generation_config.json, if it names any, as in transformers.
#[test]
fn what_ends_a_text_is_said_beside_the_config() {
    let ends = |text: &str| checkpoint("generation_config.json", text).config().eos_token_ids.clone();
    assert_eq!(ends("{\"eos_token_id\": [3, 4, 5], \"temperature\": 0.6}"), [3, 4, 5]);
    assert_eq!(ends("{\"eos_token_id\": 7}"), [7]);
    assert_eq!(ends("{\"temperature\": 0.6}"), [1, 2], "the config's own");
}

/// vLLM takes these values of the file as its defaults, too.
#[test]
fn sampling_is_recommended_beside_the_config() {
    let sampling = |text: &str| checkpoint("generation_config.json", text).config().sampling.clone();
    let qwen = sampling(
        "{\"do_sample\": true, \"eos_token_id\": [3], \"repetition_penalty\": 1.05, \"temperature\": 0.7, \"top_k\": 20, \
         \"top_p\": 0.8, \"transformers_version\": \"4.51.0\"}",
    );
    assert_eq!((qwen.temperature, qwen.top_k, qwen.top_p), (Some(0.7), Some(20), Some(0.8)));
    assert_eq!(qwen.ignored, ["repetition_penalty = 1.05"]);
    assert_eq!(sampling("{\"top_k\": null, \"temperature\": \"hot\"}"), RecommendedSampling::default());
    assert_eq!(checkpoint("README.md", "").config().sampling, RecommendedSampling::default());
}

#[test]
fn what_begins_a_prompt_is_said_beside_the_config() {
    let begins = |text: &str| checkpoint("tokenizer_config.json", text).config().first_token();
    assert_eq!(begins("{\"add_bos_token\": true}"), Some(0));
    assert_eq!(begins("{\"add_bos_token\": false}"), None);
    assert_eq!(begins("{\"tokenizer_class\": \"LlamaTokenizer\"}"), Some(0));
    assert_eq!(begins("{\"tokenizer_class\": \"GPT2Tokenizer\"}"), None);
    assert_eq!(begins("{\"tokenizer_class\": \"GPT2Tokenizer\", \"add_bos_token\": true}"), Some(0));
    assert_eq!(checkpoint("README.md", "").config().first_token(), Some(0), "nothing else is known");
}

#[test]
fn an_error_names_the_file_that_is_wrong() {
    for (name, text) in [("generation_config.json", "{"), ("tokenizer_config.json", "{\"add_bos_token\": \"yes\"}")] {
        let files = [("config.json", CONFIG), ("model.safetensors", WEIGHTS), (name, text.as_bytes())];
        let error = Model::open(&Folder::with(files)).err().unwrap();
        assert!(matches!(&error, LoadError::Beside { file, .. } if *file == name), "{error}");
    }
}

/// A checkpoint cut into three files by its tensors: settings, weights, and the index.
fn sharded_files() -> Vec<(String, Vec<u8>)> {
    let (header, start) = Safetensors::header_of(WEIGHTS);
    let tensors: Vec<_> = header.iter().filter(|(name, _)| *name != "__metadata__").collect();
    let mut files = vec![("config.json".to_owned(), CONFIG.to_vec())];
    let mut map = Map::new();
    for (number, part) in tensors.chunks(tensors.len() / 3 + 1).enumerate() {
        let file = format!("model-0000{}-of-00003.safetensors", number + 1);
        let mut shard = Safetensors::default();
        for (name, info) in part {
            let [from, to] = [0, 1].map(|at| start + info["data_offsets"][at].as_u64().unwrap() as usize);
            let shape: Vec<u64> = serde_json::from_value(info["shape"].clone()).unwrap();
            shard.tensor(name, info["dtype"].as_str().unwrap(), &shape, &WEIGHTS[from..to]);
            map.insert((*name).clone(), file.clone().into());
        }
        files.push((file, shard.finish()));
    }
    assert_eq!(files.len(), 4);
    let index = serde_json::to_vec(&json!({ "weight_map": map })).unwrap();
    files.push(("model.safetensors.index.json".to_owned(), index));
    files
}

#[test]
fn weights_may_be_in_several_files() {
    let (whole, files) = (checkpoint("README.md", ""), sharded_files());
    let sharded = Model::open(&Folder::with(files.clone())).unwrap();
    assert_eq!(logits(&sharded), logits(&whole));

    let refused = |files: &[(String, Vec<u8>)]| Model::open(&Folder::with(files.to_vec())).err().unwrap();
    let mut fewer = files.clone();
    fewer.remove(2);
    assert!(matches!(refused(&fewer), LoadError::MissingShard { name } if name.contains("00002")));
    let mut twice = files.clone();
    twice[3].1 = twice[2].1.clone();
    assert!(matches!(refused(&twice), LoadError::Duplicate { .. }));
    let mut cut = files.clone();
    cut[2].1.truncate(100);
    assert!(matches!(refused(&cut), LoadError::Safetensors(_) | LoadError::Truncated { .. }));
    let mut elsewhere = files;
    elsewhere[4].1 = br#"{"weight_map": {"model.norm.weight": "../model.safetensors"}}"#.to_vec();
    assert!(matches!(refused(&elsewhere), LoadError::MissingShard { .. }));
}

/// A checkpoint in one stream is the same model as the folder, its settings included.
#[test]
fn a_checkpoint_becomes_one_file() {
    let beside: [(&str, &[u8]); 2] = [
        ("generation_config.json", b"{\"eos_token_id\": [3, 4]}"),
        ("tokenizer_config.json", b"{\"add_bos_token\": false}"),
    ];
    let whole = [&[("config.json", CONFIG), ("model.safetensors", WEIGHTS)], &beside[..]].concat();
    let folder = Folder::with(whole);
    let expected = Model::open(&folder).unwrap();
    let file = checkpoint_in_one_file(&folder).unwrap();
    let load = |bytes: &[u8], total: Option<u64>| {
        let mut loader = ModelLoader::new(total);
        bytes.chunks(1000).try_for_each(|piece| loader.push(piece))?;
        loader.finish()
    };
    let beside = beside.map(|(name, bytes)| (name.to_owned(), bytes.to_vec()));
    let sharded = Folder::with(sharded_files().into_iter().chain(beside));
    for bytes in [&file, &checkpoint_in_one_file(&sharded).unwrap()] {
        for total in [None, Some(bytes.len() as u64)] {
            let model = load(bytes, total).unwrap();
            assert_eq!(model.config(), expected.config());
            assert_eq!(logits(&model), logits(&expected));
        }
        // It is a whole model without other files, and made of itself the same.
        let alone = Folder::with([("alone.safetensors", bytes)]);
        let path = alone.join("alone.safetensors");
        assert_eq!(logits(&Model::open(&path).unwrap()), logits(&expected));
        assert_eq!(&checkpoint_in_one_file(&path).unwrap(), bytes);
    }
    assert_eq!((expected.config().eos_token_ids.as_slice(), expected.config().first_token()), (&[3, 4][..], None));

    assert!(matches!(load(WEIGHTS, None), Err(LoadError::NoSettings)));
    assert!(matches!(load(&file, Some(file.len() as u64 - 1)), Err(LoadError::Safetensors(_))));
    assert!(matches!(load(&file[..file.len() - 1], None), Err(LoadError::Truncated { .. })));
    let binary = Folder::with([("config.json", &b"\xff"[..]), ("model.safetensors", WEIGHTS)]);
    assert!(matches!(checkpoint_in_one_file(&binary), Err(LoadError::NotUtf8 { .. })));
}

/// A file cut by `gguf-split` has its settings in the first part, tensors in all.
#[test]
fn a_gguf_model_may_be_in_several_files() {
    const SHAPE: Shape = Shape { vocab: 48, hidden: 32, inner: 64, layers: 2, heads: 4 };
    let whole = Model::from_gguf(&mut &*SHAPE.gguf(F32).finish()).unwrap();
    let mut parts = SHAPE.gguf(F32).split(3);
    for (number, part) in parts.iter_mut().enumerate() {
        part.entry("split.count", 2, &3u16.to_le_bytes()).entry("split.no", 2, &(number as u16).to_le_bytes());
    }
    let files: Vec<(String, Vec<u8>)> = parts
        .iter()
        .enumerate()
        .map(|(number, part)| (format!("a-{:05}-of-00003.gguf", number + 1), part.finish()))
        .collect();
    let there = Folder::with(files.clone());
    // Any of them names the model.
    for (name, _) in &files {
        assert_eq!(logits(&Model::open(&there.join(name)).unwrap()), logits(&whole), "{name}");
    }
    let refused =
        |files: &[(String, Vec<u8>)]| Model::open(&Folder::with(files.to_vec()).join(&files[0].0)).err().unwrap();
    let mut fewer = files.clone();
    fewer.remove(1);
    assert!(matches!(refused(&fewer), LoadError::MissingPart { name } if name == "a-00002-of-00003.gguf"));
    let mut twice = files.clone();
    twice[2].1 = twice[1].1.clone();
    assert!(matches!(refused(&twice), LoadError::Duplicate { .. }));
    let mut cut = files.clone();
    let half = cut[1].1.len() / 2;
    cut[1].1.truncate(half);
    assert!(matches!(refused(&cut), LoadError::Truncated { .. } | LoadError::Overlap { .. }));
    let mut swapped = files.clone();
    swapped.swap(0, 1);
    (swapped[0].0, swapped[1].0) = (files[0].0.clone(), files[1].0.clone());
    assert!(matches!(refused(&swapped), LoadError::InvalidSetting { key, .. } if key == "split.count"));
    // One alone, under a name that says nothing.
    let alone = Folder::with([("b.gguf", &files[0].1)]);
    let error = Model::open(&alone.join("b.gguf")).err().unwrap();
    assert!(matches!(error, LoadError::SplitGguf { parts: 3 }), "{error}");
}

fn logits(model: &Model) -> Vec<Vec<f32>> {
    on_cpu(model, &[0, 7, 3, 11], 4)
}

/// Not "no such file": what is there, and what is wanted.
#[test]
fn a_folder_without_a_checkpoint_says_what_it_has() {
    let none: &[u8] = &[];
    for (files, said) in [
        (&["config.json", "model-00001-of-00002.safetensors"][..], "no model.safetensors.index.json"),
        (&["config.json", "pytorch_model.bin"], "pytorch_model.bin"),
        (&["model-Q8_0.gguf"], "model-Q8_0.gguf, which can be named itself"),
        (&["adapter_config.json", "adapter_model.safetensors"], "a LoRA adapter; merge it into its base model"),
        (&["adapter_config.json", "adapter_model.bin", "config.json"], "a LoRA adapter; merge it into its base model"),
        (&["config.json", "model.onnx"], "model.onnx, an ONNX model; use the safetensors or a GGUF file"),
        (&["config.json", "onnx"], "onnx, an ONNX model; use the safetensors or a GGUF file"),
        (&["config.json", "tf_model.h5"], "tf_model.h5, a TensorFlow model; use the safetensors or a GGUF file"),
        (&[], "neither"),
    ] {
        let error = Model::open(&Folder::with(files.iter().map(|name| (*name, none)))).err().unwrap();
        assert!(matches!(error, LoadError::IncompleteFolder { .. }) && error.to_string().contains(said), "{error}");
    }
    let error = Model::open(&Folder::with([("model.safetensors", WEIGHTS)])).err().unwrap().to_string();
    assert!(error.contains("no config.json beside model.safetensors"), "{error}");
}

/// A file that is no model is named by its kind, whatever its name, with the way to a model.
#[test]
fn a_file_of_another_kind_says_what_it_is() {
    let onnx = b"\x08\x07\x12\x07pytorch\x1a\x051.13.";
    let adapter = Safetensors::default()
        .tensor("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", "F32", &[1], &[0; 4])
        .finish();
    let folder = Folder::with([
        ("model.onnx", &onnx[..]),
        ("model.safetensors", onnx),
        ("pytorch_model.bin", b"PK\x03\x04...."),
        ("settings.json", b"{\"model_type\": \"llama\"}"),
        ("adapter_model.safetensors", &adapter),
        ("notes.txt", b"notes"),
    ]);
    for (name, said) in [
        ("model.onnx", "an ONNX model instead of a model"),
        ("model.safetensors", "an ONNX model instead of a model"),
        ("pytorch_model.bin", "a ZIP archive or a PyTorch checkpoint"),
        ("settings.json", "a JSON file"),
        ("adapter_model.safetensors", "a LoRA adapter instead of a model; merge it into its base model"),
        ("notes.txt", "not a .gguf or .safetensors file"),
        ("absent.onnx", "not a .gguf or .safetensors file"),
    ] {
        let error = Model::open(&folder.join(name)).err().unwrap().to_string();
        assert!(error.contains(said), "{name}: {error}");
    }
}

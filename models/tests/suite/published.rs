//! Files as others publish them: what they say in more than one way, leave out, or say of what we do not compute.

use outrider_models::{GgufVocabulary, Layers, LoadError, Model, ModelConfig, Tokenizer, Window};
use outrider_testing::{gguf::Gguf, logits::on_cpu};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::fixture::{BLOCKS, DRAFT, TOKENIZER};

const CONFIG: &str = include_str!("../golden/grouped.config.json");
const WEIGHTS: &[u8] = include_bytes!("../golden/grouped.safetensors");

/// The checkpoint with some of its settings changed.
fn changed(changes: &[(&str, &str)]) -> Result<Model, LoadError> {
    let mut config = CONFIG.to_owned();
    for (from, to) in changes {
        assert!(config.contains(from), "{from}");
        config = config.replace(from, to);
    }
    Model::from_safetensors(config.as_bytes(), WEIGHTS)
}

fn error(changes: &[(&str, &str)]) -> LoadError {
    match changed(changes) {
        Ok(_) => panic!("{changes:?} was loaded"),
        Err(error) => error,
    }
}

fn logits(model: &Model) -> Vec<Vec<f32>> {
    on_cpu(model, &[0, 7, 3, 11], 4)
}

/// transformers keeps a stored head, whatever `tie_word_embeddings` says.
#[test]
fn a_head_that_is_stored_is_used() {
    let tied = changed(&[("\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true")]).unwrap();
    assert_eq!(logits(&tied), logits(&changed(&[]).unwrap()));
}

/// Training limits of a tokenizer are none of a prompt's.
#[test]
fn a_tokenizer_neither_cuts_nor_fills_up() {
    let json = std::str::from_utf8(TOKENIZER).unwrap();
    let truncation = r#""truncation":{"direction":"Right","max_length":8,"strategy":"LongestFirst","stride":0}"#;
    let padding = r#""padding":{"strategy":{"Fixed":64},"direction":"Right","pad_to_multiple_of":null,"pad_id":0,
        "pad_type_id":0,"pad_token":"<|endoftext|>"}"#;
    let mut settings: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json).unwrap();
    for setting in [truncation, padding] {
        let setting: serde_json::Map<_, _> = serde_json::from_str(&format!("{{{setting}}}")).unwrap();
        settings.extend(setting);
    }
    let limited = Tokenizer::from_bytes(&serde_json::to_vec(&settings).unwrap()).unwrap();
    let text = "Once upon a time there was a little girl who lived with her mother in a small house near the wood";
    let ids = Tokenizer::from_bytes(TOKENIZER).unwrap().encode(text).unwrap();
    assert!(ids.len() > 8);
    assert_eq!(limited.encode(text).unwrap(), ids);
}

/// The template that a tokenizer comes with says how a prompt begins; without one, the model does.
#[test]
fn a_prompt_begins_as_the_tokenizer_says() {
    let plain = Tokenizer::from_bytes(TOKENIZER).unwrap();
    let text = plain.encode("the fox").unwrap();
    assert_eq!(plain.encode_prompt(Some(5), "the fox").unwrap(), [&[5], &text[..]].concat());
    assert_eq!(plain.encode_prompt(None, "the fox").unwrap(), text);

    let with_template = |pieces: &str| {
        let mut settings: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(TOKENIZER).unwrap();
        let template = format!(
            r#"{{"type":"TemplateProcessing","single":[{pieces}],"pair":[{pieces}],"special_tokens":
            {{"<|endoftext|>":{{"id":"<|endoftext|>","ids":[0],"tokens":["<|endoftext|>"]}}}}}}"#
        );
        settings.insert("post_processor".to_owned(), serde_json::from_str(&template).unwrap());
        Tokenizer::from_bytes(&serde_json::to_vec(&settings).unwrap()).unwrap()
    };
    let begun = r#"{"SpecialToken":{"id":"<|endoftext|>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}"#;
    assert_eq!(with_template(begun).encode_prompt(Some(5), "the fox").unwrap(), [&[0], &text[..]].concat());
    let bare = r#"{"Sequence":{"id":"A","type_id":0}}"#;
    assert_eq!(with_template(bare).encode_prompt(Some(5), "the fox").unwrap(), text);
    // A template may end a text for a classifier; a prompt goes on.
    let ended = r#"{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"<|endoftext|>","type_id":0}}"#;
    assert_eq!(with_template(ended).encode_prompt(None, "the fox").unwrap(), text);
}

/// Contradicting values are refused, since one of them would be ignored.
#[test]
fn rotary_settings_that_contradict_each_other_are_refused() {
    let act = "\"hidden_act\": \"silu\"";
    let beside = |more: &str| error(&[(act, &format!("{act}, {more}"))]).to_string();
    let message = beside("\"rope_theta\": 10000.0");
    assert!(message.contains("rope_theta") && message.contains("10000") && message.contains("500000"), "{message}");
    let message = beside("\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2.0}");
    assert!(message.contains("rope_scaling"), "{message}");
    // Said twice and the same both times, it is said.
    for more in ["\"rope_theta\": 500000.0", "\"rope_scaling\": {\"type\": \"default\", \"rope_type\": \"default\"}"] {
        let model = changed(&[(act, &format!("{act}, {more}"))]).unwrap();
        assert_eq!(logits(&model), logits(&changed(&[]).unwrap()), "{more}");
    }
    let both = "\"rope_type\": \"default\", \"type\": \"linear\", \"factor\": 2.0";
    assert!(error(&[("\"rope_type\": \"default\"", both)]).to_string().contains("type"));
}

/// `LlamaConfig` has defaults, and other names for the same.
#[test]
fn what_a_config_leaves_out_or_calls_otherwise_is_understood() {
    let config = |changes: &[(&str, &str)]| -> ModelConfig { changed(changes).unwrap().config().clone() };
    assert_eq!(config(&[("\"rms_norm_eps\": 1e-05", "\"use_cache\": true")]).norm_epsilon, 1e-6);
    assert_eq!(config(&[("\"max_position_embeddings\": 48", "\"use_cache\": true")]).context_length, 2048);
    for (from, to) in [
        ("\"hidden_act\": \"silu\"", "\"hidden_act\": \"swish\""),
        ("\"hidden_act\": \"silu\"", "\"use_cache\": true"),
        ("\"model_type\": \"llama\"", "\"model_type\": \"mistral\", \"sliding_window\": null"),
    ] {
        assert_eq!(logits(&changed(&[(from, to)]).unwrap()), logits(&changed(&[]).unwrap()), "{to}");
    }
    assert!(config(&[("\"eos_token_id\": [1, 2]", "\"eos_token_id\": -1")]).eos_token_ids.is_empty());
    // Mistral's default is a window of 4096.
    for to in ["\"mistral\"", "\"mistral\", \"sliding_window\": 4096"] {
        let window = config(&[("\"llama\"", to)]).block.window;
        assert_eq!(window, Some(Window { tokens: 4096, layers: Layers::All }), "{to}");
    }
}

/// Quantized checkpoints are named by their method. `--ignore-setting` would not help: the weights are not numbers.
#[test]
fn weights_quantized_by_another_method_are_refused_with_advice() {
    for (setting, method) in [
        (r#""quantization_config": {"bits": 4, "group_size": 128, "quant_method": "gptq"}"#, "gptq"),
        (r#""quantization_config": {"bits": 4, "quant_method": "awq", "version": "gemm"}"#, "awq"),
        (r#""quantization_config": {"load_in_4bit": true, "quant_method": "bitsandbytes"}"#, "bitsandbytes"),
        (r#""quantization_config": {"format": "pack-quantized", "quant_method": "compressed-tensors"}"#, "compressed"),
        (r#""compression_config": {"format": "pack-quantized", "quant_method": "compressed-tensors"}"#, "compressed"),
        (r#""quantization_config": {"bits": 4}"#, "unknown method"),
        (r#""quantization": {"group_size": 64, "bits": 4}"#, "MLX"),
        (r#""quantization": {"group_size": 64, "bits": 4}, "quantization_config": {"group_size": 64}"#, "MLX"),
    ] {
        let act = "\"hidden_act\": \"silu\"";
        let message = error(&[(act, &format!("{act}, {setting}"))]).to_string();
        assert!(message.contains(method), "{method}: {message}");
        assert!(message.contains("use the unquantized safetensors or a GGUF file of the same model"), "{message}");
        assert!(!message.contains("--ignore-setting"), "{message}");
    }
    let none = "\"hidden_act\": \"silu\", \"quantization_config\": {}, \"quantization\": null";
    assert_eq!(logits(&changed(&[("\"hidden_act\": \"silu\"", none)]).unwrap()), logits(&changed(&[]).unwrap()));
}

/// GGUF files of other types than a model, as llama.cpp's converters write `general.type`.
#[test]
fn gguf_files_that_are_no_model_say_what_they_are() {
    for (kind, said) in [
        ("adapter", "a LoRA adapter instead of a model; merge it into its base model"),
        ("mmproj", "the image encoder of a model (mmproj) instead of a model; name the GGUF file of the language"),
        ("imatrix", "an importance matrix instead of a model; name the GGUF file of the model"),
    ] {
        let file = Gguf::default().text("general.type", kind).text("general.architecture", "llama").finish();
        let message = Model::from_gguf(&mut &*file).err().unwrap().to_string();
        assert!(message.contains(said), "{kind}: {message}");
    }
}

/// Memory that lacks while loading is that of the weights: the message says how to need less.
#[test]
fn a_model_that_does_not_fit_says_what_to_lower() {
    let message = LoadError::OutOfMemory { what: "tensor output.weight".to_owned(), needed: 1 << 30 }.to_string();
    assert!(message.starts_with("no memory for tensor output.weight of 1073741824 bytes; "), "{message}");
    assert!(message.contains("a smaller quantization of the model, such as Q4_0"), "{message}");
}

/// The GGUF file in F32 with some of its bytes replaced.
fn gguf(from: &[u8], to: &[u8]) -> LoadError {
    let mut bytes = BLOCKS[0].1.to_vec();
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    bytes.splice(at..at + from.len(), to.iter().copied());
    match Model::from_gguf(&mut &*bytes) {
        Ok(_) => panic!("it was loaded"),
        Err(error) => error,
    }
}

/// A GGUF file has its own tokens and merges: they make the tokenizer that it was made with.
#[test]
fn the_vocabulary_of_a_gguf_file_makes_its_tokenizer() {
    let vocabulary = GgufVocabulary::read(&mut &*DRAFT).unwrap().unwrap();
    let made = Tokenizer::from_bytes(&vocabulary.tokenizer_json().unwrap()).unwrap();
    let published = Tokenizer::from_bytes(TOKENIZER).unwrap();
    assert_eq!(made.fingerprint(), published.fingerprint());
    assert_eq!(vocabulary.differs_from(&published), None);
    for text in ["Once upon a time", "  two  spaces\n\nand 1234 lines\t", "it's “naïve” 🦊 日本語", "a<|endoftext|>b"]
    {
        assert_eq!(made.encode(text).unwrap(), published.encode(text).unwrap(), "{text}");
        let ids = published.encode(text).unwrap();
        assert_eq!(made.decode(&ids), published.decode(&ids));
    }
    // Random models have none.
    assert!(GgufVocabulary::read(&mut &*BLOCKS[0].1).unwrap().is_none());
    let renamed = String::from_utf8_lossy(TOKENIZER).replace("<|endoftext|>", "<|endoftexT|>");
    let other = Tokenizer::from_bytes(renamed.as_bytes()).unwrap();
    assert_eq!(vocabulary.differs_from(&other), Some((0, "<|endoftext|>".to_owned(), "<|endoftexT|>".to_owned())));
    for length in (0..4000).step_by(17) {
        assert!(GgufVocabulary::read(&mut &DRAFT[..length]).is_err(), "{length} bytes");
    }
}

/// Those of SentencePiece have scores: a vocabulary that SentencePiece trained, and texts as it encodes them
/// (`golden/make_sentencepiece.py`).
#[test]
fn a_sentencepiece_vocabulary_makes_its_tokenizer() {
    #[derive(serde::Deserialize)]
    struct Golden {
        tokens: Vec<String>,
        scores: Vec<f32>,
        kinds: Vec<i32>,
        texts: Vec<Encoded>,
    }
    #[derive(serde::Deserialize)]
    struct Encoded {
        text: String,
        ids: Vec<u32>,
    }
    let golden: Golden = serde_json::from_str(include_str!("../golden/sentencepiece.json")).unwrap();
    let file = Gguf::default()
        .text("tokenizer.ggml.model", "llama")
        .texts("tokenizer.ggml.tokens", &golden.tokens)
        .floats("tokenizer.ggml.scores", &golden.scores)
        .integers("tokenizer.ggml.token_type", &golden.kinds)
        .finish();
    let vocabulary = GgufVocabulary::read(&mut &file[..]).unwrap().unwrap();
    let made = Tokenizer::from_bytes(&vocabulary.tokenizer_json().unwrap()).unwrap();
    assert!(golden.texts.len() >= 10);
    for Encoded { text, ids } in golden.texts {
        assert_eq!(made.encode(&text).unwrap(), ids, "{text:?}");
        assert_eq!(made.decode(&ids), text);
    }
    let tool = golden.tokens.iter().position(|token| token == "<tool>").unwrap() as u32;
    assert!(made.encode("a<tool>b").unwrap().contains(&tool));
    assert_eq!(vocabulary.differs_from(&made), None);
}

/// Half of the bytes would be read as twice as many numbers.
#[test]
fn data_of_another_type_than_declared_is_refused() {
    let tensor = |code: u32| {
        [
            b"blk.0.attn_k.weight",
            &[2, 0, 0, 0][..],
            &[32, 0, 0, 0, 0, 0, 0, 0],
            &[32, 0, 0, 0, 0, 0, 0, 0],
            &code.to_le_bytes(),
        ]
        .concat()
    };
    let found = gguf(&tensor(0), &tensor(1));
    assert!(matches!(&found, LoadError::Gap { name, bytes: 2048 } if name == "blk.0.attn_k.weight"), "{found}");
}

/// Errors name what a file is, not how we store what it says.
#[test]
fn errors_are_for_readers() {
    let found = gguf(b"GGUF\x03\0\0\0", b"GGUF\0\0\0\x03");
    assert_eq!(found.to_string(), "a big-endian GGUF file; little-endian ones are read");
    let key = b"llama.vocab_size";
    let stated = |n: u32| [&key[..], &[4, 0, 0, 0], &n.to_le_bytes()].concat();
    let message = gguf(&stated(64), &stated(599)).to_string();
    assert!(message.contains("599") && !message.contains("Some"), "{message}");
}

/// The architecture is checked first: the error for Mamba's config is not that a setting of Llama's is missing.
#[test]
fn another_architecture_is_refused_by_its_name() {
    for family in ["deepseek_v3", "bert", "gemma3n", "mamba"] {
        let config = format!("{{\"model_type\": \"{family}\", \"n_embd\": 768}}");
        let Err(found) = Model::from_safetensors(config.as_bytes(), WEIGHTS) else { panic!("{family} was loaded") };
        assert!(
            matches!(&found, LoadError::UnknownFamily { what: "model_type", found, .. } if found == family),
            "{found}"
        );
    }
}

//! Files of heads: a written file is read back, and files that lie are distinguished.

use std::collections::BTreeMap;

use outrider_models::{HeadsError, HeadsFile, HeadsMetadata, LinearHead, Tokenizer};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::fixture::{BLOCKS, DRAFT, TOKENIZER, gguf};

fn file() -> HeadsFile {
    HeadsFile {
        gate: Some(LinearHead { weights: vec![0.5, -1.25, 3e-7], bias: 0.1, token: vec![] }),
        stop: Some(LinearHead { weights: vec![f32::MAX, 0.0, -0.0], bias: -2.0, token: vec![] }),
        metadata: HeadsMetadata {
            hidden_size: 3,
            vocab_size: 4096,
            tokenizer: std::array::from_fn(|i| 5 * i as u8),
            temperature: 0.7,
            top_k: 0,
            top_p: 0.95,
            lambda: 1.2,
            tau: 0.5,
            auc: 1.0 / 3.0,
            eta_tp: 0.9,
            eta_fp: 0.2,
            notes: BTreeMap::from([("seed".to_owned(), "7".to_owned())]),
        },
    }
}

/// The file with `from` replaced by `to`, which is as long, in its first occurrence.
fn altered(from: &str, to: &str) -> HeadsError {
    assert_eq!(from.len(), to.len());
    let mut bytes = file().to_bytes();
    let offset = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
    bytes[offset..offset + to.len()].copy_from_slice(to.as_bytes());
    HeadsFile::from_bytes(&bytes).unwrap_err()
}

#[test]
fn what_is_written_is_read_back() {
    let bytes = file().to_bytes();
    assert_eq!(HeadsFile::from_bytes(&bytes).unwrap(), file());
    assert_eq!(file().to_bytes(), bytes);
    type Which = fn(&mut HeadsFile) -> &mut Option<LinearHead>;
    let heads: [Which; 2] = [|file| &mut file.gate, |file| &mut file.stop];
    for head in heads {
        let mut seeing = file();
        head(&mut seeing).as_mut().unwrap().token = vec![1.0, -0.5, 0.25];
        assert_eq!(HeadsFile::from_bytes(&seeing.to_bytes()).unwrap(), seeing);
        head(&mut seeing).as_mut().unwrap().token.pop();
        let narrow = HeadsFile::from_bytes(&seeing.to_bytes());
        assert!(matches!(narrow, Err(HeadsError::TensorShape { expected: 3, .. })), "{narrow:?}");
    }
    for alone in [HeadsFile { gate: None, ..file() }, HeadsFile { stop: None, ..file() }] {
        assert_eq!(HeadsFile::from_bytes(&alone.to_bytes()).unwrap(), alone);
    }
}

#[test]
fn every_prefix_and_every_addition_is_an_error() {
    let bytes = file().to_bytes();
    for len in 0..bytes.len() {
        assert!(HeadsFile::from_bytes(&bytes[..len]).is_err(), "read {len} of {} bytes", bytes.len());
    }
    assert!(matches!(HeadsFile::from_bytes(&[&bytes[..], &[0]].concat()), Err(HeadsError::Container(_))));
    assert!(matches!(HeadsFile::from_bytes(b"<!doctype html>"), Err(HeadsError::Container(_))));
}

#[test]
fn flipped_bits_never_panic() {
    let bytes = file().to_bytes();
    for offset in 0..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[offset] ^= 1 << bit;
            let _ = HeadsFile::from_bytes(&bytes);
        }
    }
}

#[test]
fn tensors_that_cannot_be_heads() {
    let empty = HeadsFile { gate: None, stop: None, ..file() };
    assert!(matches!(HeadsFile::from_bytes(&empty.to_bytes()), Err(HeadsError::Empty)));
    assert!(matches!(altered("gate.bias", "gate.bies"), HeadsError::UnexpectedTensor { name } if name == "gate.bies"));
    let mut narrow = file();
    narrow.stop.as_mut().unwrap().weights.pop();
    assert!(matches!(
        HeadsFile::from_bytes(&narrow.to_bytes()),
        Err(HeadsError::TensorShape { name, expected: 3, found }) if name == "stop.weight" && found == [2]
    ));
    assert!(matches!(altered("\"F32\"", "\"I32\""), HeadsError::TensorType { .. }));
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut file = file();
        file.gate.as_mut().unwrap().weights[2] = bad;
        let error = HeadsFile::from_bytes(&file.to_bytes()).unwrap_err();
        assert!(matches!(error, HeadsError::NotFinite { name, index: 2 } if name == "gate.weight"));
        let mut file = self::file();
        file.stop.as_mut().unwrap().bias = bad;
        let error = HeadsFile::from_bytes(&file.to_bytes()).unwrap_err();
        assert!(matches!(error, HeadsError::NotFinite { name, index: 0 } if name == "stop.bias"));
    }
    // A weight without its bias: the name of the gate's bias becomes that of a second weight elsewhere.
    let mut bytes = HeadsFile { stop: None, ..file() }.to_bytes();
    let offset = bytes.windows(9).position(|window| window == b"gate.bias").unwrap();
    bytes[offset..offset + 9].copy_from_slice(b"stop.bias");
    let error = HeadsFile::from_bytes(&bytes).unwrap_err();
    assert!(matches!(error, HeadsError::MissingTensor { name } if name == "gate.bias"));
}

#[test]
fn metadata_that_make_no_sense() {
    assert!(matches!(altered("\"lambda\"", "\"lambdo\""), HeadsError::MissingKey { key: "lambda" }));
    for (from, to, key) in [
        ("\"lambda\":\"1.2\"", "\"lambda\":\"inf\"", "lambda"),
        ("\"tau\":\"0.5\"", "\"tau\":\"1.5\"", "tau"),
        ("\"eta_tp\":\"0.9\"", "\"eta_tp\":\"NaN\"", "eta_tp"),
        ("\"temperature\":\"0.7\"", "\"temperature\":\"-.7\"", "temperature"),
        ("\"top_p\":\"0.95\"", "\"top_p\":\"0.00\"", "top_p"),
        ("\"hidden_size\":\"3\"", "\"hidden_size\":\"0\"", "hidden_size"),
        ("\"tokenizer\":\"00", "\"tokenizer\":\"0g", "tokenizer"),
    ] {
        let error = altered(from, to);
        assert!(matches!(&error, HeadsError::InvalidKey { key: found, .. } if *found == key), "{error}");
    }
}

#[test]
fn heads_know_their_draft() {
    let (draft, tokenizer) = (gguf(DRAFT), Tokenizer::from_bytes(TOKENIZER).unwrap());
    let mut heads = file();
    let differs = |heads: &HeadsFile| match heads.check_draft(draft.config(), &tokenizer) {
        Ok(()) => None,
        Err(HeadsError::OtherDraft { what, .. }) => Some(what),
        Err(other) => panic!("{other}"),
    };
    assert_eq!(differs(&heads), Some("hidden size"));
    heads.metadata.hidden_size = 128;
    assert_eq!(differs(&heads), Some("tokenizer"));
    heads.metadata.tokenizer = tokenizer.fingerprint();
    assert_eq!(differs(&heads), None);
    heads.metadata.vocab_size -= 1;
    assert_eq!(differs(&heads), Some("vocabulary size"));
    assert!(heads.check_draft(gguf(BLOCKS[0].1).config(), &tokenizer).is_err());
}

//! The frame that changes the target's logits in the generation after it.

use super::fields::take_generation;
use crate::{
    error::DecodeError,
    wire::{ByteReader, put_varint},
};

/// The most bytes of the options of a [`Shape`].
pub const MAX_OPTIONS: usize = 64 << 10;

/// A change of the target's logits in one generation: a grammar, penalties, biases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Number of the generation, whose Prompt or Generate follows.
    pub generation: u32,
    /// Number of the prompt's last tokens that are of the answer already: an answer that is continued.
    pub answered: u32,
    /// The change as JSON, in the terms of OpenAI's API; at most [`MAX_OPTIONS`] bytes.
    pub options: String,
}

impl Shape {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.generation);
        put_varint(out, self.answered);
        put_varint(out, self.options.len() as u32);
        out.extend(self.options.as_bytes());
    }

    pub(super) fn decode(input: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        let (generation, answered) = (take_generation(input)?, input.varint("answered tokens")?);
        let length = input.count("options")?;
        if length > MAX_OPTIONS {
            return Err(DecodeError::Value { field: "length of options", value: length as u64 });
        }
        let options = str::from_utf8(input.bytes(length, "options")?);
        let options = options.map_err(|_| DecodeError::Utf8 { field: "options" })?.to_owned();
        Ok(Self { generation, answered, options })
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::{super::tests::refused, *};
    use crate::frame::{Frame, SHAPE};

    #[test]
    fn options_that_are_no_text_or_too_long_are_refused() {
        assert_eq!(refused(&[SHAPE, 0, 0, 0]), "generation");
        assert_eq!(Frame::decode(&[SHAPE, 1, 0, 1, 0xff]), Err(DecodeError::Utf8 { field: "options" }));
        let long = Shape { generation: 1, answered: 0, options: " ".repeat(MAX_OPTIONS + 1) };
        assert_eq!(refused(&Frame::Shape(long).encode()), "length of options");
    }
}

//! Guesses at tokens that the target has yet to write.

use super::fields::{draft_count, take_generation, take_positive};
use crate::{
    error::DecodeError,
    wire::{ByteReader, put_varint},
};

/// Flag in the count: the chain begins as a branch.
const IS_BRANCH: u8 = 0x80;

/// Guesses at tokens that the target has yet to write. Its text does not depend on them.
///
/// A *chain* of guesses begins after a token that the edge has from the cloud, and each guess is made as if those
/// before it were right. After a wrong guess the rest of its chain is useless. A *branch* is a chain that leaves
/// another one: its first guess is an alternative to a guess of that chain at the same position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guesses {
    /// The generation they belong to.
    pub generation: u32,
    /// Number of the chain: 1, 2, … within the generation.
    pub chain: u32,
    /// Number of an earlier chain that this one begins to branch off; 0 if it begins after the text, or goes on.
    pub parent: u32,
    /// Position of the first guess; it begins the chain, or follows the last one that was sent of it.
    pub position: u32,
    /// The time that a forward pass may be held from now on for a guess at the next token, in tenths of a millisecond.
    pub patience: u32,
    /// Number of guesses; with none the frame sets the patience only.
    pub count: u8,
    /// The guessed ids in the bits of coupled drafting.
    pub payload: Vec<u8>,
}

impl Guesses {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.generation);
        put_varint(out, self.chain);
        put_varint(out, self.position);
        put_varint(out, self.patience);
        match self.parent {
            0 => out.push(self.count),
            parent => {
                out.push(self.count | IS_BRANCH);
                put_varint(out, parent);
            }
        }
        out.extend(&self.payload);
    }

    pub(super) fn decode(input: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        let generation = take_generation(input)?;
        let chain = take_positive(input, "chain")?;
        let position = input.varint("position")?;
        let patience = input.varint("patience")?;
        let count = input.u8("count of guesses")?;
        let is_branch = count & IS_BRANCH != 0;
        let count = draft_count(count & !IS_BRANCH, "count of guesses")?;
        let parent = if is_branch { input.varint("chain that is left")? } else { 0 };
        if is_branch && !(1..chain).contains(&parent) {
            return Err(DecodeError::Value { field: "chain that is left", value: parent.into() });
        }
        // Without guesses nothing more may follow.
        let payload = if count == 0 { Vec::new() } else { input.rest().to_vec() };
        Ok(Self { generation, chain, parent, position, patience, count, payload })
    }
}

#[cfg(test)]
mod tests {
    use crate::frame::{GUESSES, tests::refused};
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn forbidden_values_are_named() {
        assert_eq!(refused(&[GUESSES, 1, 0, 0, 0, 0]), "chain");
        assert_eq!(refused(&[GUESSES, 1, 1, 0, 0, 65]), "count of guesses");
        // A chain branches off an earlier one.
        assert_eq!(refused(&[GUESSES, 1, 2, 0, 0, 0x80, 0]), "chain that is left");
        assert_eq!(refused(&[GUESSES, 1, 2, 0, 0, 0x80, 2]), "chain that is left");
        assert_eq!(refused(&[GUESSES, 1, 2, 0, 0, 0x80, 9]), "chain that is left");
    }
}

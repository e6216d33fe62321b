//! Pairs of models whose sessions are measured.

use outrider_cloud::pair::PairPaths;
use outrider_models::{ActivationBits, Model, Tokenizer};
use outrider_papers::reproduce::sessions::beginnings;

use crate::{
    chat::{QUESTIONS, Template},
    passes::Failure,
};

/// Pair of models, and the kind of its texts.
pub struct Pair {
    pub paths: PairPaths,
    /// True: sessions answer questions; otherwise they continue the beginning of a tale.
    pub is_chat: bool,
}

impl Pair {
    pub fn built_in() -> Self {
        Self { paths: PairPaths::default(), is_chat: false }
    }

    /// A chat model with the draft made for it, with activations as the server has them for a published model.
    pub fn chat(target: &str, draft: &str) -> Self {
        let (target, draft) = (Some(target.into()), Some(draft.into()));
        let activation_bits = Some(ActivationBits::Sixteen);
        Self { paths: PairPaths { target, draft, activation_bits, ..PairPaths::default() }, is_chat: true }
    }

    /// Arguments of `outrider serve` for these models.
    pub fn arguments(&self) -> Vec<String> {
        let PairPaths { target, draft, activation_bits, .. } = &self.paths;
        let files = [("--target", target), ("--draft", draft)];
        let files =
            files.into_iter().filter_map(|(flag, path)| Some([flag.to_owned(), path.as_ref()?.to_str()?.to_owned()]));
        let bits =
            (*activation_bits == Some(ActivationBits::Sixteen)).then(|| ["--activation-bits", "16"].map(str::to_owned));
        files.chain(bits).flatten().collect()
    }

    /// Token ids of prompts for the target: `words` words of different sentences, or questions.
    pub fn prompts(&self, target: &Model, tokenizer: &Tokenizer, words: usize) -> Result<Vec<Vec<u32>>, Failure> {
        if self.is_chat {
            let template = Template::of(&self.paths, target, tokenizer)?;
            return QUESTIONS.iter().map(|question| template.ask(tokenizer, question)).collect();
        }
        let first = target.config().first_token();
        beginnings(words).iter().map(|text| Ok(tokenizer.encode_prompt(first, text)?)).collect()
    }
}

//! Both ends in one process: the built-in draft and target, and the frames between them in place of a socket.
//!
//! ```sh
//! cargo run --release -p outrider-examples --bin one-process "Once upon a time"
//! ```
#![expect(clippy::print_stdout, reason = "the text is what the program is for")]

use std::{env, error::Error, fs, path::Path, time::Duration};

use outrider_codec::{
    frame::{Limits, SamplingParameters},
    scheme::{Code, SchemeParameters},
};
use outrider_models::{Chunk, KvCache, Logits, Model, Tokenizer};
use outrider_speculation::{
    Forward,
    session::{
        cloud::{Admission, CloudOutput, CloudSession, TargetInfo},
        edge::{DraftInfo, EdgeOutput, EdgeSession, Event, Mode, Settings, Speculation},
    },
};

/// A model and the KV cache of the one text that it works on.
struct Running(Model, KvCache);

impl Running {
    fn load(file: &Path) -> Result<Self, Box<dyn Error>> {
        let model = Model::from_gguf(&mut fs::File::open(file)?)?;
        let cache = model.new_cache();
        Ok(Self(model, cache))
    }

    /// Runs a forward pass: cuts the KV cache back, feeds the tokens, gives the rows of logits that are wanted.
    fn run(&mut self, forward: &Forward) -> Result<Logits, Box<dyn Error>> {
        self.1.truncate(forward.keep);
        let positions: Vec<usize> = (forward.tokens.len() - forward.rows..forward.tokens.len()).collect();
        let chunk = Chunk { cache: &mut self.1, tokens: &forward.tokens, positions: &positions };
        Ok(self.0.forward(&mut [chunk])?.remove(0))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let pair = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pair");
    let tokenizer = Tokenizer::from_bytes(&fs::read(pair.join("tokenizer.json"))?)?;
    let mut draft = Running::load(&pair.join("draft/draft-q8_0.gguf"))?;
    let mut target = Running::load(&pair.join("target/target-f16.gguf"))?;

    let (tokenizer_hash, vocab_size) = (tokenizer.fingerprint(), tokenizer.vocab_size() as u32);
    let mut edge = EdgeSession::new(DraftInfo {
        vocab_size,
        tokenizer_hash,
        context_length: 512,
        heads: None,
        guess_chance: None,
    });
    let limits = TargetInfo { vocab_size, tokenizer_hash, limits: Limits::rounds(512, 16), eos_ids: vec![0] };
    let mut cloud = CloudSession::new(limits, Admission::default());

    let prompt = env::args().nth(1).unwrap_or("Once upon a time".to_owned());
    let scheme = SchemeParameters::KSqs { support_size: 32, lattice_resolution: 100, code: Code::Adaptive };
    let settings = Settings {
        mode: Mode::Speculative(Speculation::new(scheme, 4)),
        sampling: SamplingParameters { temperature: 0.7, top_k: 0, top_p: 0.95 },
        seed: 1,
        max_new_tokens: 64,
    };
    // Statistics measure with this clock; nothing else does.
    let now = Duration::ZERO;
    let mut ids = tokenizer.encode_prompt(Some(0), &prompt)?;
    loop {
        match edge.poll(now)? {
            Some(EdgeOutput::Send(frame)) => cloud.handle_frame(&frame),
            Some(EdgeOutput::Forward(forward)) => {
                for row in draft.run(&forward)?.iter() {
                    edge.handle_logits(row, &[], now)?;
                }
            }
            Some(EdgeOutput::Event(Event::Connected(_))) => edge.start(ids.clone(), &settings, now)?,
            Some(EdgeOutput::Event(Event::Committed(committed))) => {
                ids.extend(committed.tokens.iter().map(|&(id, _)| id));
            }
            Some(EdgeOutput::Event(Event::Finished(_))) => break,
            Some(EdgeOutput::Event(event)) => return Err(format!("{event:?}").into()),
            None => match cloud.poll() {
                Some(CloudOutput::Send(frame)) => edge.handle_frame(&frame, now)?,
                Some(CloudOutput::Verify(pass)) => {
                    let logits = target.run(&pass.forward)?;
                    cloud.handle_judgement(pass.judge(&logits.iter().collect::<Vec<_>>())?);
                }
                Some(
                    CloudOutput::Hold(_)
                    | CloudOutput::Draft(_)
                    | CloudOutput::Offer(_)
                    | CloudOutput::Shape(_)
                    | CloudOutput::Close,
                )
                | None => {
                    return Err("the cloud has nothing more to say".into());
                }
            },
        }
    }
    let statistics = edge.statistics();
    println!("{}", tokenizer.decode(&ids));
    println!("{} tokens in {} forward passes of the target", statistics.tokens, statistics.server_passes);
    Ok(())
}

#[test]
fn it_runs() -> Result<(), Box<dyn Error>> {
    main()
}

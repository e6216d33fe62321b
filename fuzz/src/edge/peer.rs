//! A server that is honest, mistaken or hostile.

use std::collections::BTreeSet;

use arbitrary::{Result, Unstructured};
use outrider_codec::frame::{
    Distribution, ErrorCode, ErrorFrame, Evidence, Finish, Frame, Limits, Next, TargetDist, Ticket, Tokens, Verdict,
    Welcome,
};

use super::Driver;
use crate::choose;

impl Driver {
    pub(super) fn welcome(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let mistaken = choose::rarely(input, 32)?;
        let welcome = Welcome {
            vocab_size: self.model.vocab_size + u32::from(mistaken),
            limits: Limits {
                context_length: choose::number(input, 48)?,
                max_draft_tokens: input.int_in_range(0..=64)?,
                max_in_flight: 1,
                max_guesses: 0,
                max_branches: 0,
                own_draws: false,
                fewest_passes: false,
            },
            eos_ids: choose::ids(input, 2, self.model.vocab_size)?,
            ticket: Ticket::default(),
            detached_seconds: 120,
        };
        self.deliver(&Frame::Welcome(welcome.clone()).encode());
        if !self.failed && !self.closed {
            assert!(self.server.is_none() && !mistaken);
            self.server = Some(welcome);
        }
        Ok(())
    }

    /// The server's answer to what was sent last, honest or not quite.
    pub(super) fn answer(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let vocab_size = self.model.vocab_size;
        let Some(generation) = &self.generation else { return Ok(()) };
        let number = self.begun;
        let context = self.server.as_ref().map_or(0, |server| server.limits.context_length as usize);
        let eos_ids = self.server.as_ref().map_or(&[][..], |server| &server.eos_ids);
        // What an honest server says of the end when the text has grown by these.
        let finish = |more: &[u32]| {
            let length = generation.text.len() + more.len();
            if more.last().is_some_and(|id| eos_ids.contains(id)) {
                Some(Finish::Eos)
            } else if length >= generation.prompt_length.saturating_add(generation.settings.max_new_tokens as usize) {
                Some(Finish::Length)
            } else {
                (length >= context).then_some(Finish::Context)
            }
        };
        let lies = choose::rarely(input, 12)?;
        let any_finish =
            choose::one_of(input, &[None, Some(Finish::Eos), Some(Finish::Length), Some(Finish::Context)])?;
        let frame = match &generation.sent {
            None if generation.scheme.is_none() || generation.stream > 0 => {
                let token = choose::number(input, vocab_size - 1)?;
                let finish = if lies { any_finish } else { finish(&[token]) };
                let place = generation.text.len() as u32;
                let position = if lies { choose::number(input, place)? } else { place };
                Frame::Tokens(Tokens::one(number, position, token, finish))
            }
            None => return Ok(()),
            Some((draft, _)) if generation.asked => {
                let round = if lies { input.arbitrary()? } else { draft.round };
                Frame::Distribution(Distribution { generation: number, round, target: target(input, vocab_size)? })
            }
            Some((draft, drafts)) => {
                let ids = drafts.ids();
                let honest = input.int_in_range(0..=ids.len())?;
                let accepted = if lies { input.int_in_range(0..=64)? } else { honest };
                let mut more = ids[..accepted.min(ids.len())].to_vec();
                let rejects = accepted < ids.len();
                let whole = accepted == ids.len() && accepted > 0;
                let kind = match input.int_in_range(0..=7u8)? {
                    kind @ 0..4 if lies => kind,
                    _ if more.last().is_some_and(|id| eos_ids.contains(id)) => 0,
                    _ if whole && !generation.has_bonus() => 0,
                    kind if rejects && generation.resamples() => 2 + kind % 2,
                    _ => 1,
                };
                let next = match kind {
                    0 => Next::Nothing,
                    1 => Next::Token(choose::number(input, vocab_size - 1)?),
                    2 => Next::Samples(samples(input, vocab_size)?),
                    _ => Next::Distribution(target(input, vocab_size)?),
                };
                if let Next::Token(token) = next {
                    more.push(token);
                }
                let finish = if lies { any_finish } else { finish(&more).filter(|_| kind < 2) };
                let round = if lies && choose::rarely(input, 4)? { input.arbitrary()? } else { draft.round };
                let explains = generation.speculation().is_some_and(|speculation| speculation.explain);
                let judged = if explains { ids.len().min(accepted + 1) } else { 0 };
                let verdict = Verdict { generation: number, round, accepted: accepted as u8, next, finish };
                self.evidence(input, judged, draft.round)?;
                Frame::Verdict(verdict)
            }
        };
        self.deliver(&frame.encode());
        Ok(())
    }

    /// What `judged` drafts of a round were judged by; now and then too little or too much of it, or in disorder.
    fn evidence(&mut self, input: &mut Unstructured<'_>, judged: usize, round: u32) -> Result<()> {
        let lies = choose::rarely(input, 12)?;
        let count = if lies { input.int_in_range(0..=judged + 2)? } else { judged };
        for index in 0..count {
            let index = if lies && choose::rarely(input, 4)? { input.int_in_range(0..=63)? } else { index as u8 };
            let evidence = Evidence {
                generation: self.begun,
                round: if lies && choose::rarely(input, 4)? { input.arbitrary()? } else { round },
                index,
                rejection: f32::from(input.arbitrary::<u8>()?) / 255.0,
                divergence: f32::from(input.arbitrary::<u8>()?) / 255.0,
                target: target(input, self.model.vocab_size)?,
            };
            self.deliver(&Frame::Evidence(evidence).encode());
        }
        Ok(())
    }

    /// A frame that does not answer anything.
    pub(super) fn other_frame(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let vocab_size = self.model.vocab_size;
        let generation = 1 + choose::number(input, self.begun)?.min(u32::MAX - 1);
        let round = choose::number(input, 3)?;
        let frame = match input.int_in_range(0..=9u8)? {
            0 => Frame::Error(ErrorFrame {
                generation: generation - 1,
                code: ErrorCode::from_number(input.arbitrary()?),
                text: String::new(),
            }),
            1 => {
                let place = self.generation.as_ref().map_or(0, |current| current.text.len() as u32);
                let (position, token) = (choose::number(input, place)?, choose::number(input, vocab_size - 1)?);
                Frame::Tokens(Tokens::one(generation, position, token, None))
            }
            2 => Frame::Distribution(Distribution { generation, round, target: target(input, vocab_size)? }),
            3 => Frame::Bye,
            4 => Frame::Cancel { generation },
            5 => Frame::Resample { generation, round },
            6 => {
                let index = input.int_in_range(0..=3)?;
                let target = target(input, vocab_size)?;
                Frame::Evidence(Evidence { generation, round, index, rejection: 0.0, divergence: 0.0, target })
            }
            _ => Frame::Verdict(Verdict {
                generation,
                round,
                accepted: input.int_in_range(0..=64)?,
                next: Next::Token(choose::number(input, vocab_size - 1)?),
                finish: None,
            }),
        };
        self.deliver(&frame.encode());
        Ok(())
    }
}

/// A distribution with ids ascending, as frames have them; perhaps beyond the vocabulary.
fn target(input: &mut Unstructured<'_>, vocab_size: u32) -> Result<TargetDist> {
    let count = input.int_in_range(1..=4)?;
    let ids: BTreeSet<u32> =
        (0..count).map(|_| Ok(choose::number(input, vocab_size - 1)?.min(u32::MAX - 1))).collect::<Result<_>>()?;
    Ok(TargetDist(ids.into_iter().map(|id| Ok((id, probability(input)?))).collect::<Result<_>>()?))
}

fn samples(input: &mut Unstructured<'_>, vocab_size: u32) -> Result<Vec<(u32, f32)>> {
    let count = input.int_in_range(1..=4)?;
    (0..count).map(|_| Ok((choose::number(input, vocab_size - 1)?, probability(input)?))).collect()
}

/// In (0, 1].
fn probability(input: &mut Unstructured<'_>) -> Result<f32> {
    Ok(match input.arbitrary::<u8>()? {
        0 => 1.0,
        255 => f32::from_bits(1),
        part => f32::from(part) / 256.0,
    })
}

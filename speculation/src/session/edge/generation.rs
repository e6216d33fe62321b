//! One generation on the edge: its text, and who writes it.

use core::time::Duration;

use outrider_codec::{
    frame::{Finish, Frame, Prompt, Request, Token},
    rule::RuleParameters,
};

use super::{
    drafter::Drafter,
    drafting::Drafting,
    error::{EdgeError, StartError},
    event::{Committed, Origin},
    learned::Learned,
    ledger::{Books, Ledger},
    planner::Planner,
    reaction::{LogitsRow, Reaction, Received, Step},
    settings::{self, Ends, Mode, Settings},
    text::Text,
};

/// A generation under way.
#[derive(Debug)]
pub(super) struct Generation {
    number: u32,
    text: Text,
    /// `None`: the target writes alone.
    drafting: Option<Drafting>,
}

/// What is left of a generation whose server has forgotten it.
#[derive(Debug)]
pub(super) struct Rest {
    /// What was told of the text, its prompt included.
    pub(super) text: Vec<u32>,
    /// Tokens that may still follow, and why no more.
    pub(super) left: usize,
    pub(super) limit: Finish,
}

impl Generation {
    /// Begins after a prompt, with the frame that asks for it. What was learned is taken only if nothing fails.
    pub(super) fn new(
        number: u32,
        prompt: Vec<u32>,
        settings: &Settings,
        ends: Ends<'_>,
        learned: &mut Option<Learned>,
    ) -> Result<(Self, Frame), StartError> {
        settings::check(&prompt, settings, ends)?;
        let Settings { sampling, seed, max_new_tokens, .. } = *settings;
        let request = Request { generation: number, sampling, seed, max_new_tokens, tokens: prompt.clone() };
        let text = Text::new(prompt, max_new_tokens, ends.server);
        let Mode::Speculative(speculation) = &settings.mode else {
            return Ok((Self { number, text, drafting: None }, Frame::Generate(request)));
        };
        let drafter = Drafter::new(speculation, settings, ends.draft.vocab_size, text.ids())?;
        let learned = Learned::new(speculation, sampling, ends.server, learned.take());
        let max_in_flight = speculation.max_in_flight.min(ends.server.max_in_flight);
        let planner = Planner::new(speculation, ends, learned);
        let drafting = Some(Drafting::new(number, drafter, planner, max_in_flight));
        let rule = RuleParameters { number: speculation.rule.number(), parameter: speculation.rule.parameter() as f32 };
        let (scheme, evidence) = (speculation.scheme, speculation.explain);
        let prompt = Prompt { request, scheme, rule, evidence, max_in_flight };
        Ok((Self { number, text, drafting }, Frame::Prompt(prompt)))
    }

    /// What has been learned of the link and the models, for the next generation.
    pub(super) fn into_learned(self) -> Option<Learned> {
        self.drafting.map(Drafting::into_learned)
    }

    /// What another generation would go on from, with what was learned: the text without what a sequence cascade has
    /// told nobody.
    pub(super) fn into_rest(self) -> (Rest, Option<Learned>) {
        let mut text = self.text;
        text.take_back(self.drafting.as_ref().map_or(0, Drafting::held));
        let (left, limit) = (text.left(), text.limit());
        (Rest { text: text.into_ids(), left, limit }, self.drafting.map(Drafting::into_learned))
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Prompt and committed tokens.
    pub(super) fn length(&self) -> usize {
        self.text.len()
    }

    /// What was sent is sent again: the time between was not the link's, nor the server's.
    pub(super) fn resent(&mut self, now: Duration) {
        if let Some(drafting) = &mut self.drafting {
            drafting.resent(now);
        }
    }

    /// Whether a round awaits its verdict.
    pub(super) fn awaits(&self, round: u32) -> bool {
        self.drafting.as_ref().is_some_and(|drafting| drafting.awaits(round))
    }

    /// Whether drafting goes on while rounds await their verdict.
    pub(super) fn is_ahead(&self) -> bool {
        self.drafting.as_ref().is_some_and(Drafting::is_ahead)
    }

    /// What is to be done next, if anything.
    pub(super) fn next_step(&mut self, now: Duration) -> Option<Step> {
        self.drafting.as_mut()?.next_step(&mut self.text, now)
    }

    /// A row of logits has come.
    pub(super) fn handle_logits(
        &mut self,
        row: LogitsRow<'_>,
        ledger: &mut Ledger,
        now: Duration,
    ) -> Result<Reaction, EdgeError> {
        let Some(drafting) = &mut self.drafting else { return Ok(Reaction::Wait) };
        drafting.handle_logits(row, &mut Books { text: &mut self.text, ledger }, now)
    }

    /// A frame of this generation has come.
    pub(super) fn handle_frame(
        &mut self,
        frame: Frame,
        received: Received,
        ledger: &mut Ledger,
    ) -> Result<Reaction, EdgeError> {
        let unexpected = EdgeError::Unexpected { frame: frame.name() };
        if let Frame::Token(token) = frame {
            return self.handle_token(&token, ledger, received.at);
        }
        let drafting = self.drafting.as_mut().ok_or(unexpected.clone())?;
        let books = &mut Books { text: &mut self.text, ledger };
        match frame {
            Frame::Verdict(verdict) => drafting.handle_verdict(verdict, received, books),
            Frame::Distribution(answer) => drafting.handle_distribution(&answer, received, books),
            Frame::Evidence(evidence) => drafting.handle_evidence(evidence, books.text),
            _ => Err(unexpected),
        }
    }

    /// A token has come that the target wrote alone.
    fn handle_token(&mut self, token: &Token, ledger: &mut Ledger, now: Duration) -> Result<Reaction, EdgeError> {
        let Token { position, token, finish, .. } = *token;
        if (position as usize) < self.text.len() {
            return Ok(Reaction::Stale);
        }
        if position as usize > self.text.len() {
            return Err(EdgeError::ImpossibleVerdict { what: "there is a token missing before it" });
        }
        if self.drafting.as_ref().is_some_and(|drafting| !drafting.awaits_tokens()) {
            return Err(EdgeError::Unexpected { frame: "Token" });
        }
        self.text.write_streamed(token, finish)?;
        if let Some(drafting) = &mut self.drafting {
            drafting.streamed(token, ledger, now);
        }
        ledger.written(now);
        let committed = Committed { tokens: vec![(token, Origin::Cloud)], round: None };
        Ok(Reaction::Commit { committed, finish, tell: false })
    }
}

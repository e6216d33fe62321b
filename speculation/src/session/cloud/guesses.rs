//! The guesses that lie ahead of a text which the target writes.
//!
//! The text never depends on them: under the shared noise the target's choice at a position does not depend on the
//! guesses (DESIGN of coupled drafting: Daliri, Musco, Suresh). A guess at hand lets a pass judge it, and go on after
//! it if it was right.
//!
//! Guesses come in [chains](super::chains) that may leave one another, so that they form a tree. A pass judges the most
//! probable of them that are worth their rows.

use core::time::Duration;

use outrider_codec::{
    error::ParameterError,
    frame::Guesses,
    scheme::{Drafts, Scheme, SchemeParameters},
};

use super::{
    super::tree::{Key, Tree},
    chains::{Chains, Limits},
    events::CloudEvent,
    failure::Failure,
    target::{OFFER_TAIL, Offer, OwnDraft},
};
use crate::{
    control::{
        calibration::Calibration,
        depth::Depth,
        goodput::{CandidateRates, LEAST, Prices},
        lookup_rates::LookupRates,
    },
    judge::Branch,
};

/// The longest that a pass is held, whatever patience an edge asks for.
pub const MAX_PATIENCE: Duration = Duration::from_secs(2);

/// Passes without a guess after which the server drafts one whatever it costs: else what drafts cost and how often they
/// are right would never be measured again.
const UNMEASURED: usize = 64;

/// The guesses of one generation that await their place in the text.
#[derive(Debug)]
pub(super) struct GuessQueue {
    /// The code of token ids.
    scheme: Scheme,
    chains: Chains,
    /// Guesses at the tokens after the end of the text.
    ahead: Tree<()>,
    /// Guesses of the server's own for the next pass, if it was asked to draft.
    own: Option<Vec<OwnDraft>>,
    /// Those that were made for the pass under way, which judges the first of them; `None` if it judges the edge's.
    judged_own: Option<Vec<OwnDraft>>,
    /// The server's knowledge of guesses.
    known: Known,
    /// Passes since anything was compared with what was written.
    unmeasured: usize,
    /// Frames that came, modulo 256.
    heard: u8,
    /// Number of frames that had come when the pass under way began. Later frames wait for its end, which is not time
    /// of the link.
    taken: u8,
    patience: Duration,
    hold: Hold,
}

/// State of the hold of the next pass for a guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// It has not been held yet.
    Due,
    /// It is being held now.
    On,
    /// It was held, for as long as the edge wants.
    Over,
}

/// Rates of right guesses lately, which later texts of a session begin with.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    pub(super) rates: CandidateRates,
    /// Chances of the server's own guesses by their clarity.
    calibration: Calibration,
    /// Chances of those that it looks up.
    lookups: LookupRates,
}

impl Known {
    /// The chance that a guess of the server's own is right, if those before it are.
    fn chance(&self, draft: &OwnDraft) -> f64 {
        match (draft.matched, draft.clarity) {
            (0, None) => self.rates.first.get(),
            (0, clarity) => self.calibration.chance(clarity),
            (matched, _) => self.lookups.rate(matched),
        }
    }

    /// Counts a guess of the server's own.
    fn observe(&mut self, draft: &OwnDraft, is_right: bool) {
        if draft.matched > 0 {
            return self.lookups.observe(draft.matched, is_right);
        }
        self.rates.first.observe(f64::from(u8::from(is_right)));
        if draft.clarity.is_some() {
            self.calibration.observe(draft.clarity, is_right);
        }
    }
}

/// Guesses that a pass judges.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    /// Guesses in a line, each after the one before.
    pub(super) line: Vec<u32>,
    /// Branches that leave the line or one another.
    pub(super) branches: Vec<Branch>,
}

/// Results of a frame of guesses.
#[derive(Debug)]
pub(super) struct Admitted {
    /// The event to count for it.
    pub(super) event: CloudEvent,
    /// Those of its guesses that are ahead of the text and may be right.
    pub(super) offer: Option<Offer>,
}

impl GuessQueue {
    /// A queue without guesses, over a vocabulary of V tokens, with what is known of guesses at other texts.
    pub(super) fn new(vocab_size: u32, known: Known) -> Result<Self, ParameterError> {
        Ok(Self {
            scheme: Scheme::new(SchemeParameters::Coupled, vocab_size)?,
            chains: Chains::default(),
            ahead: Tree::default(),
            own: None,
            judged_own: None,
            known,
            unmeasured: 0,
            heard: 0,
            taken: 0,
            patience: Duration::ZERO,
            hold: Hold::Due,
        })
    }

    /// Takes a frame of guesses at a text of which `written` is known, prompt included. A frame that comes again, or is
    /// of a chain that was dropped, changes nothing.
    pub(super) fn admit(
        &mut self,
        guesses: &Guesses,
        written: &[u32],
        limits: Limits,
    ) -> Result<Option<Admitted>, Failure> {
        if !self.chains.begin(guesses, written.len(), &mut self.ahead, limits)? {
            return Ok(None);
        }
        let Drafts::Ids(ids) = self.scheme.decode_round(&guesses.payload, guesses.count)? else {
            return Err(Failure::invalid_draft("guesses are ids"));
        };
        self.heard = self.heard.wrapping_add(1);
        self.patience = Duration::from_micros(100).saturating_mul(guesses.patience).min(MAX_PATIENCE);
        if self.patience.is_zero() {
            self.hold = Hold::Over;
        }
        let late = self.chains.extend(guesses.chain, &ids, written, &mut self.ahead);
        if self.ahead.len() > limits.guesses {
            let (ahead, most) = (self.ahead.len(), limits.guesses);
            return Err(Failure::invalid_draft(&format!("{ahead} guesses ahead of the text are more than {most}")));
        }
        let event = CloudEvent::Guessed { came: ids.len(), late };
        Ok(Some(Admitted { event, offer: self.offer(guesses.chain, ids.len() - late, written) }))
    }

    /// The last `count` guesses of a chain, after what they assume to be written.
    fn offer(&self, chain: u32, count: usize, written: &[u32]) -> Option<Offer> {
        let path = self.ahead.path(Some(self.chains.tip(chain)?));
        let (before, ids) = path.split_at_checked(path.len().checked_sub(count)?).filter(|(_, ids)| !ids.is_empty())?;
        let last = &written[written.len().saturating_sub(OFFER_TAIL)..];
        let known = [last, before].concat();
        let tail = known[known.len().saturating_sub(OFFER_TAIL)..].to_vec();
        Some(Offer { position: written.len() + before.len(), tail, ids: ids.to_vec() })
    }

    /// The guesses at the next tokens that are worth their rows, at most `most`: the edge's, or the server's own if
    /// those are more.
    pub(super) fn choose(&mut self, prices: Prices, most: usize) -> Chosen {
        self.taken = self.heard;
        let own = self.own.take().unwrap_or_default();
        self.judged_own = None;
        let paths = own.iter().scan(1.0, |path, draft| {
            *path *= self.known.chance(draft);
            Some(*path)
        });
        let worth = prices.rows.worth(paths, 0.0).max(self.probe(own.len())).min(most);
        let is_more = worth > self.ahead.line().take(worth).count();
        if is_more || !own.is_empty() && self.ahead.is_empty() {
            let line = own.iter().take(worth).map(|draft| draft.id).collect();
            self.judged_own = Some(own);
            return Chosen { line, branches: Vec::new() };
        }
        let mut chosen = self.ahead.most_probable(self.known.rates.get(), most, |_, path| path > LEAST);
        chosen.truncate(prices.rows.worth(chosen.iter().map(|(_, path)| *path), 0.0));
        if chosen.is_empty() {
            let probe = self.ahead.line().take(self.probe(most));
            chosen = probe.map(|key| (key, 0.0)).collect();
        }
        let chosen: Vec<Key> = chosen.into_iter().map(|(key, _)| key).collect();
        self.lines(&chosen)
    }

    /// Guesses as a line and its branches. Each comes after its parent.
    fn lines(&self, chosen: &[Key]) -> Chosen {
        let mut found = Chosen::default();
        // Starts of lines: the first guess, the line that it leaves, and the number of that line's guesses before it.
        let mut open: Vec<(Option<Key>, usize, usize)> = vec![(None, 0, 0)];
        while let Some((begins, parent, from)) = open.pop() {
            let number = found.branches.len() + usize::from(begins.is_some());
            let mut ids: Vec<u32> = begins.and_then(|key| Some(self.ahead.get(key)?.id)).into_iter().collect();
            let mut at = begins;
            loop {
                let children = self.ahead.children(at).iter().copied();
                let mut children = children.filter(|key| chosen.contains(key));
                let next = children.next();
                let depth = from + ids.len();
                open.extend(children.map(|key| (Some(key), number, depth)));
                let Some(node) = next.and_then(|key| self.ahead.get(key)) else { break };
                ids.push(node.id);
                at = next;
            }
            match begins {
                None => found.line = ids,
                Some(_) => found.branches.push(Branch { parent, from, ids }),
            }
        }
        found
    }

    /// True if the guesses that the pass judged were the server's own.
    pub(super) fn judged_own(&self) -> bool {
        self.judged_own.is_some()
    }

    /// Knowledge of guesses for another text.
    pub(super) fn known(&self) -> Known {
        self.known
    }

    /// Decides where drafts of the server's own end.
    pub(super) fn depth(&self, prices: Prices, most: usize) -> Depth {
        let Known { rates, calibration, .. } = self.known;
        Depth { calibration, rate: rates.first.get(), prices, most }
    }

    /// Number of tokens that the server is to guess itself for the next pass: as many drafts as are worth their price
    /// and their rows, all that can be looked up, none where the edge's are at hand. Asked once a pass.
    pub(super) fn begin_drafting(&self, prices: Prices, most: usize) -> usize {
        match prices.own_draft {
            _ if self.own.is_some() || !self.ahead.is_empty() => 0,
            // What is looked up costs nothing, and has a chance of its own.
            _ if prices.looks_up => most,
            Some(price) => self.worth(&prices, price, most),
            None => 0,
        }
    }

    /// Number of guesses that are worth their rows and what each costs besides, or one now and then that is not.
    fn worth(&self, prices: &Prices, besides: f64, most: usize) -> usize {
        prices.rows.paid(self.known.rates.first.get(), besides, most).max(self.probe(most))
    }

    /// Number of guesses that are judged whatever they cost.
    fn probe(&self, most: usize) -> usize {
        usize::from(self.unmeasured >= UNMEASURED).min(most)
    }

    /// The server has guessed these.
    pub(super) fn drafted(&mut self, drafts: Vec<OwnDraft>) {
        self.own = Some(drafts);
    }

    /// Takes tokens written after a text of `length` tokens, by a pass that judged a number of guesses, `judged`.
    /// Returns the number of right guesses at them that were not the first at their position.
    pub(super) fn written(&mut self, length: usize, tokens: &[u32], judged: usize) -> usize {
        (self.hold, self.own) = (Hold::Due, None);
        let compares = judged > 0 || !self.ahead.is_empty() || self.judged_own.is_some();
        self.unmeasured = if compares { 0 } else { self.unmeasured + 1 };
        // Of drafts that were not worth their rows it is seen, too, whether they were right.
        for (draft, token) in self.judged_own.iter().flatten().zip(tokens) {
            self.known.observe(draft, draft.id == *token);
            if draft.id != *token {
                break;
            }
        }
        let mut branched = 0;
        for (&token, position) in tokens.iter().zip(length..) {
            if self.ahead.is_empty() {
                break;
            }
            let step = self.ahead.advance(token);
            let right = step.right.as_ref().map(|(which, ..)| *which);
            branched += usize::from(right.is_some_and(|which| which > 0));
            if self.judged_own.is_none() {
                self.known.rates.observe(step.candidates, right);
            }
            self.chains.written(position, step.right.map(|(_, key, _)| key), &self.ahead);
        }
        branched
    }

    /// Frames that had come when the pass under way began, modulo 256.
    pub(super) fn taken(&self) -> u8 {
        self.taken
    }

    /// Time that the next pass is to be held; asked once a pass.
    pub(super) fn begin_hold(&mut self) -> Option<Duration> {
        if self.hold != Hold::Due || self.patience.is_zero() || self.has_guess() {
            return None;
        }
        self.hold = Hold::On;
        Some(self.patience)
    }

    /// True while the next pass waits.
    pub(super) fn is_held(&self) -> bool {
        self.hold == Hold::On && !self.has_guess()
    }

    /// True if there is a guess at the next token, of the edge or of the server.
    fn has_guess(&self) -> bool {
        let own = self.own.as_ref().and_then(|own| own.first());
        // What is looked up by a short match is worth less than a guess of the edge's.
        let usual = self.known.rates.first.get();
        !self.ahead.is_empty() || own.is_some_and(|own| own.matched == 0 || self.known.chance(own) >= usual)
    }

    /// Ends the hold: the pass has waited long enough.
    pub(super) fn end_hold(&mut self) {
        self.hold = Hold::Over;
    }
}

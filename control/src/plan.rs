//! The plan that a controller gives an edge session.

/// A division of the work between both ends. All but [`Alone`](Self::Alone) draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The target writes and nothing is drafted.
    Alone,
    /// Neither end waits: guesses that come in time are judged.
    AtOnce,
    /// The target waits for the first guesses after a wrong one.
    Patient,
    /// The ends take turns: the edge drafts a round, the target judges it.
    Rounds,
}

/// Sizes and times of guesses: a point on the scale from streaming to rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// Number of guesses in a frame.
    pub group: usize,
    /// Patience: time that a pass is held for them, in seconds.
    pub patience: f64,
    /// The most guesses that lie ahead of the text.
    pub lead: usize,
}

/// Instructions for an edge session until its controller has another plan.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// The division of work.
    pub mode: Mode,
    /// Guesses in a frame; γ in rounds.
    pub group: usize,
    /// Time that the target waits for them, in seconds; infinite in rounds of drafts.
    pub patience: f64,
    /// Number of guesses ahead of the text that are worth their drafting.
    pub lead: usize,
    /// Number of tokens that the target writes alone before the next plan; 0 where it has no end.
    pub stream: u32,
    /// True if second candidates are worth guessing.
    pub branches: bool,
    /// Probabilities that the first and the second candidate for a position are right.
    pub rates: [f64; 2],
    /// The time of drafts that are made together is still to be measured.
    pub tries_group: bool,
}

impl Mode {
    /// All modes, in the order of their scores.
    pub const ALL: [Self; 4] = [Self::Alone, Self::AtOnce, Self::Patient, Self::Rounds];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::AtOnce => "at once",
            Self::Patient => "patient",
            Self::Rounds => "in turn",
        }
    }
}

impl Schedule {
    /// Neither end waits, and each guess has a frame of its own.
    pub const AT_ONCE: Self = Self { group: 1, patience: 0.0, lead: usize::MAX };

    /// The mode of a fixed schedule.
    pub fn mode(&self) -> Mode {
        match self.patience > 0.0 {
            // Nothing is drafted while the target judges.
            true if self.lead <= self.group => Mode::Rounds,
            true => Mode::Patient,
            false => Mode::AtOnce,
        }
    }
}

impl Plan {
    /// The patience as frames say it, in tenths of a millisecond.
    pub fn patience_on_the_wire(&self) -> u32 {
        (self.patience * 1e4).round() as u32
    }
}

//! The first state of a session: new, resumed from another page or process, or without its server.

use outrider_codec::frame::Welcome;

use super::{
    EdgeSession,
    connection::{Connection, SavedSession},
    error::EdgeError,
    learned::Lessons,
    ledger::Ledger,
    settings::DraftInfo,
};
use crate::control::calibration::Calibration;

impl EdgeSession {
    /// A session of a draft model, about to say Hello.
    pub fn new(draft: DraftInfo) -> Self {
        Self::begun(draft, Connection::new(None, 0), 0)
    }

    /// A session whose state was lost but for what was [saved](Self::saved): about to say Resume. When it is
    /// [idle](Self::is_idle), the generation is cancelled; its text may be the prompt of the next.
    pub fn returning(draft: DraftInfo, saved: SavedSession) -> Self {
        let SavedSession { ticket, attempts, generation } = saved;
        Self::begun(draft, Connection::new(Some(ticket), attempts), generation)
    }

    /// A session with a server that cannot be reached now and granted `welcome` before: generations start at once, and
    /// the server has yet to answer. `saved` resumes a session as [`returning`](Self::returning) does.
    ///
    /// # Errors
    /// [`EdgeError::Vocabulary`] if the Welcome is for another vocabulary.
    pub fn absent(draft: DraftInfo, welcome: Welcome, saved: Option<SavedSession>) -> Result<Self, EdgeError> {
        if welcome.vocab_size != draft.vocab_size {
            return Err(EdgeError::Vocabulary { draft: draft.vocab_size, target: welcome.vocab_size });
        }
        let mut session = match saved {
            Some(saved) => Self::returning(draft, saved),
            None => Self::new(draft),
        };
        session.server = Some(welcome);
        if session.last_generation > 0 {
            session.send_cancel(session.last_generation);
        }
        Ok(session)
    }

    fn begun(draft: DraftInfo, connection: Connection, last_generation: u32) -> Self {
        let calibration = draft.guess_chance.map_or_else(Calibration::default, Calibration::beginning_with);
        let mut session = Self {
            draft,
            server: None,
            connection,
            closed: false,
            last_generation,
            generation: None,
            settings: None,
            shaping: None,
            prompt_length: 0,
            lessons: Lessons { calibration, ..Lessons::default() },
            ledger: Ledger::default(),
        };
        session.reconnected();
        session
    }
}

//! Places at which choices are written: by the target alone, or drafted in this process.

use std::{net::IpAddr, sync::Arc};

use outrider_codec::frame::{ErrorCode, ErrorFrame, Request, Tokens};
use outrider_speculation::session::cloud::{Shaping, TargetInfo};

use crate::{
    address_limits::AddressPermit, api_drafting::DraftedSession, session::in_process::InProcessSession,
    sessions::Entry, target::TargetSlot,
};

/// A slot of the target, with what the lane holds of the limits of its address.
///
/// The slot is dropped before the entry: a caller that waits for an entry to be removed wants the slot.
pub(super) enum Seat {
    /// The target writes alone.
    Alone(Box<Alone>),
    /// A draft model in this process drafts.
    Drafted(DraftedSession),
}

/// Slot of a target that writes alone.
pub(super) struct Alone {
    pub(super) slot: TargetSlot,
    pub(super) target: TargetInfo,
    pub(super) client: IpAddr,
    pub(super) _held: (Option<Entry>, Option<AddressPermit>),
}

/// The session on a seat.
pub(super) enum SeatSession<'s> {
    Alone(Box<InProcessSession<'s>>),
    Drafted(&'s mut DraftedSession),
}

impl SeatSession<'_> {
    /// Slot on which the target writes alone.
    pub(super) fn slot(&self) -> Option<&TargetSlot> {
        match self {
            Self::Alone(session) => Some(session.slot()),
            Self::Drafted(_) => None,
        }
    }

    pub(super) fn generate(&mut self, request: Request, shaping: Option<Arc<dyn Shaping>>) {
        match self {
            Self::Alone(session) => session.generate(request, shaping),
            Self::Drafted(session) => session.generate(request),
        }
    }

    pub(super) async fn next(&mut self) -> Result<Tokens, ErrorFrame> {
        match self {
            Self::Alone(session) => session.next().await,
            Self::Drafted(session) => session.next().await,
        }
    }

    pub(super) fn close(&mut self, code: ErrorCode, text: &str) -> ErrorFrame {
        match self {
            Self::Alone(session) => session.close(code, text),
            // Dropping the session ends it.
            Self::Drafted(_) => ErrorFrame { generation: 0, code, text: text.to_owned() },
        }
    }
}

//! Frames that may not have arrived, to be sent again when the session is resumed.

use outrider_codec::frame::Frame;

/// The most bytes that are kept of what may not have arrived. A round's evidence may be more; the session cannot be
/// resumed then.
pub(crate) const MAX_KEPT_BYTES: usize = 4 * 1024 * 1024;

/// The round of frames that answer none: above all, so that no Draft shows their arrival.
pub(super) const NO_ROUND: u32 = u32::MAX;

/// The frames in the order in which they were sent.
#[derive(Debug, Default)]
pub(super) struct KeptFrames {
    frames: Vec<Kept>,
    bytes: usize,
    /// The last round of which a frame was too much to be kept.
    lost: Option<u32>,
}

#[derive(Debug)]
struct Kept {
    /// The round that it answers.
    round: u32,
    /// An edge whose text is longer than this has it.
    length: usize,
    bytes: Vec<u8>,
}

impl KeptFrames {
    /// Keeps a frame that answers a round and is about a text of such a length; gives its bytes.
    pub(super) fn keep(&mut self, frame: &Frame, round: u32, length: usize) -> Vec<u8> {
        let bytes = frame.encode();
        if self.bytes + bytes.len() <= MAX_KEPT_BYTES {
            self.bytes += bytes.len();
            self.frames.push(Kept { round, length, bytes: bytes.clone() });
        } else {
            self.lost = Some(round);
        }
        bytes
    }

    /// True if all frames that may not have arrived can be sent again.
    pub(super) fn is_complete(&self) -> bool {
        self.lost.is_none()
    }

    /// The frames that an edge with a text of `length` tokens lacks.
    pub(super) fn lacking(&self, length: usize) -> impl Iterator<Item = &[u8]> {
        self.frames.iter().filter(move |kept| kept.length >= length).map(|kept| &kept.bytes[..])
    }

    /// Forgets all kept frames.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Forgets the rounds before one: the edge has all frames of these.
    pub(super) fn forget_before(&mut self, round: u32) {
        self.frames.retain(|kept| kept.round >= round);
        self.bytes = self.frames.iter().map(|kept| kept.bytes.len()).sum();
        self.lost = self.lost.filter(|&lost| lost >= round);
    }
}

#[cfg(test)]
mod tests {
    use outrider_codec::frame::{ErrorCode, ErrorFrame};
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    #[test]
    fn what_is_kept_is_bounded() {
        let mut kept = KeptFrames::default();
        let error = Frame::Error(ErrorFrame { generation: 1, code: ErrorCode::Internal, text: "x".repeat(400) });
        let most = MAX_KEPT_BYTES / error.encode().len();
        for _ in 0..most {
            kept.keep(&error, 0, 0);
        }
        assert!(kept.is_complete());
        kept.keep(&error, 0, 0);
        assert!(!kept.is_complete() && kept.frames.len() == most);
        kept.forget_before(0);
        assert!(!kept.is_complete());
        kept.forget_before(1);
        assert!(kept.is_complete() && kept.bytes == 0, "the edge has shown that it has all");
    }
}

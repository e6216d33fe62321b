//! Fuzz target of any bytes as a message.

use outrider_codec::{
    error::DecodeError,
    frame::{Frame, MAX_FRAME_BYTES},
};

/// Decodes `bytes` as a frame. A frame has to be encoded to the same bytes, and no longer or shorter string may be one;
/// an error has to be a sentence.
pub fn check(bytes: &[u8]) {
    match Frame::decode(bytes) {
        Ok(frame) => {
            assert!(bytes.len() <= MAX_FRAME_BYTES);
            assert_eq!(frame.encode(), bytes, "{frame:?}");
            assert!(!frame.name().is_empty());
            // A Draft and Guesses end with whatever is left: the scheme and V, which the frame does not know, say how
            // long that is. A Draft that has the target write alone ends with its passed tokens.
            let ends_open = match &frame {
                Frame::Draft(draft) => draft.stream == 0,
                Frame::Guesses(guesses) => guesses.count > 0,
                _ => false,
            };
            if !ends_open {
                assert!(Frame::decode(&bytes[..bytes.len() - 1]).is_err(), "{frame:?} decodes without its last byte");
                let longer = [bytes, &[0]].concat();
                assert_eq!(Frame::decode(&longer), Err(DecodeError::TrailingBytes { count: 1 }), "{frame:?}");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

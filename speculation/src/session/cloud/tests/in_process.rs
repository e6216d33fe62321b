//! A session without an edge: frames as values.

use super::*;

#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

fn tokens(session: &mut CloudSession) -> Vec<u32> {
    match session.next_frame() {
        Some(Frame::Tokens(tokens)) => tokens.ids,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_text_follows_another_without_a_byte() {
    let mut session = CloudSession::in_process(target());
    session.generate(request(0, &[0, 1]));
    assert_eq!(forward(&mut session), Forward::new(0, vec![0, 1], 1));
    answer(&mut session, &[5]);
    assert_eq!((tokens(&mut session), session.next_frame()), (vec![5], None));
    assert_eq!(forward(&mut session), Forward::new(2, vec![5], 1));
    // The rest of this text is not wanted; the judgement of its pass is dropped.
    session.generate(request(0, &[0, 1]));
    session.handle_judgement(Judgement::default());
    assert_eq!(forward(&mut session), Forward::new(0, vec![0, 1], 1));
    answer(&mut session, &[7]);
    let frame = session.next_frame();
    assert!(matches!(frame, Some(Frame::Tokens(Tokens { finish: Some(Finish::Eos), .. }))), "{frame:?}");
    assert!(!session.is_generating() && session.poll().is_none());
}

#[test]
fn what_cannot_be_written_is_an_error_frame() {
    let mut session = CloudSession::in_process(target());
    let mut error = |request| {
        session.generate(request);
        match session.next_frame() {
            Some(Frame::Error(error)) => error.code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(error(request(0, &[V])), ErrorCode::InvalidParameters);
    assert_eq!(error(request(0, &[0; 16])), ErrorCode::PromptTooLong);
    session.close(ErrorCode::ShuttingDown, "stopping");
    assert!(matches!(session.next_frame(), Some(Frame::Error(_))));
    assert_eq!(session.poll(), None);
}

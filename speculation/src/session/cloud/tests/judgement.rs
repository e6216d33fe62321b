//! Effects of judgements on a session.

use super::*;
use crate::judge::NextToken;

#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// A judge may be wrong, or lie: that ends the generation, and nothing is committed.
#[test]
fn a_judgement_that_is_none_of_the_round_ends_the_generation_only() {
    let token = |accepted, id| Judgement { accepted, next: NextToken::Token(id), ..Judgement::default() };
    for lie in [token(3, 1), token(2, V), Judgement { accepted: 1, ..Judgement::default() }] {
        let mut session = greeted();
        session.handle_frame(&prompt(1, &[0]));
        session.handle_frame(&draft(1, 0, &[1, 2]));
        forward(&mut session);
        session.handle_judgement(lie.clone());
        assert_eq!(session.events(), [CloudEvent::Failed(ErrorCode::Internal)]);
        assert_eq!(error(&mut session), (1, ErrorCode::Internal, false), "{lie:?}");
        assert!(!session.is_generating());
        session.handle_judgement(lie);
        assert_eq!(session.poll(), None, "nobody asked for it");
        // The session goes on.
        session.handle_frame(&Frame::Generate(request(2, &[0, 1])).encode());
        forward(&mut session);
        session.handle_judgement(Judgement::default());
        assert_eq!(error(&mut session), (2, ErrorCode::Internal, false), "the target wrote nothing");
        session.handle_frame(&prompt(3, &[0, 1]));
        assert_eq!(forward(&mut session).rows, 0);
        session.handle_judgement(token(0, 1));
        assert_eq!(error(&mut session), (3, ErrorCode::Internal, false), "a prompt that is read judges nothing");
    }
}

#[test]
fn events_say_what_was_accepted_and_what_was_replaced() {
    let judged = |accepted, committed, resampled| CloudEvent::Judged { proposed: 2, accepted, committed, resampled };
    for (best, ids, event) in [
        ([1, 2, 3], [1, 2], judged(2, 3, false)),
        ([1, 3, 3], [1, 2], judged(1, 2, true)),
        ([7, 2, 3], [7, 2], judged(1, 1, false)),
    ] {
        let mut session = greeted();
        session.handle_frame(&prompt(1, &[0]));
        session.handle_frame(&draft(1, 0, &ids));
        forward(&mut session);
        answer(&mut session, &best);
        assert_eq!(session.events()[0], event);
        assert_eq!(session.events().get(1), (ids[0] == 7).then_some(&CloudEvent::Finished(Finish::Eos)));
    }
}

/// A client that drafts on after an end of text gets no evidence of drafts that were dropped.
#[test]
fn evidence_ends_with_the_text() {
    let mut session = greeted();
    session.handle_frame(&Frame::Prompt(Prompt { evidence: true, ..Prompt::exact(SCHEME, request(1, &[0])) }).encode());
    session.handle_frame(&draft(1, 0, &[3, 7, 4]));
    forward(&mut session);
    answer(&mut session, &[3, 7, 5, 5]);
    for index in 0..2 {
        assert!(matches!(sent(&mut session), Frame::Evidence(evidence) if evidence.index == index));
    }
    let verdict = Verdict { generation: 1, round: 0, accepted: 2, next: Next::Nothing, finish: Some(Finish::Eos) };
    assert_eq!(sent(&mut session), Frame::Verdict(verdict));
}

/// A token that is streamed where a draft was rejected before has to have that place's noise: the choice to stream may
/// depend on the noise.
#[test]
fn streamed_tokens_have_the_noise_of_their_places_under_coupled_drafting() {
    use crate::{sample::SharedNoise, sample::transform};
    let warm = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };
    let request = Request { sampling: warm, ..request(1, &[0, 1]) };
    let noise = SharedNoise::new(request.seed);
    let mut session = greeted();
    session.handle_frame(&Frame::Prompt(Prompt::exact(SchemeParameters::Coupled, request)).encode());
    forward(&mut session);
    session.handle_judgement(Judgement::default());
    session.handle_frame(&Frame::Draft(Draft { generation: 1, stream: 3, ..Draft::default() }).encode());
    for position in 2..5 {
        forward(&mut session);
        let row: Vec<f32> = (0..V).map(|id| ((id * 3 + position) % 5) as f32 / 2.0).collect();
        answer_by(&mut session, &[&row]);
        let expected = noise.choose(position as usize, &transform(&row, &warm).unwrap());
        let Frame::Tokens(token) = sent(&mut session) else { panic!("no Tokens") };
        assert_eq!(token.ids, [expected]);
        if token.finish.is_some() {
            return;
        }
    }
}

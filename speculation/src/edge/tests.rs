use outrider_codec::{
    frame::{Draft, Next, SamplingParameters, Token, Verdict},
    scheme::{Code, SchemeParameters},
};

use super::*;
use crate::{control::StopRule, rules::Rule};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

const V: u32 = 8;
const NOW: Duration = Duration::ZERO;

fn settings(max_new_tokens: u32) -> Settings {
    let sampling = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };
    Settings { mode: Mode::CloudOnly, sampling, seed: 1, max_new_tokens }
}

fn connected(context_length: u32) -> EdgeSession {
    let mut session =
        EdgeSession::new(DraftInfo { vocab_size: V, tokenizer_hash: [1; 32], context_length: 16, heads: None });
    let welcome = Welcome { vocab_size: V, context_length, max_draft_tokens: 4, eos_ids: vec![7] };
    session.handle_frame(&Frame::Welcome(welcome).encode(), NOW).unwrap();
    session
}

fn token(finish: Option<Finish>) -> Vec<u8> {
    Frame::Token(Token { generation: 1, token: 3, finish }).encode()
}

/// What a server sends of its own was once committed without end.
#[test]
fn a_server_alone_commits_no_more_than_was_asked_for() {
    for (context_length, max_new_tokens) in [(16, 2), (4, 9)] {
        for finish in [Some(Finish::Length), None] {
            let mut session = connected(context_length);
            session.start(vec![0, 1], &settings(max_new_tokens), NOW).unwrap();
            session.handle_frame(&token(None), NOW).unwrap();
            let last = session.handle_frame(&token(finish), NOW);
            assert_eq!(last.is_ok(), finish.is_some());
            let late = session.handle_frame(&token(None), NOW);
            assert_eq!(late.is_ok(), finish.is_some(), "of a generation that is over, a token may be under way");
            assert_eq!(session.statistics().tokens, 1 + usize::from(finish.is_some()));
        }
    }
}

/// Found by the fuzz target `session`: the draft model was asked to read what it has no embedding of.
#[test]
fn a_prompt_outside_the_vocabulary_is_refused_before_anything_is_sent() {
    let mut session = connected(16);
    while session.poll(NOW).unwrap().is_some() {}
    let refused = session.start(vec![0, V, 1], &settings(4), NOW);
    assert_eq!(refused, Err(StartError::PromptToken { token: V, vocab_size: V }));
    assert_eq!(session.poll(NOW), Ok(None));
    assert!(session.is_idle());
}

/// Found by the fuzz target `edge`: C-SQS kept more tokens than there are.
#[test]
fn rows_of_another_length_are_an_error() {
    let scheme = SchemeParameters::CSqs { lattice_resolution: 10, code: Code::Enumerative };
    for found in [0, V as usize - 1, V as usize, V as usize + 1] {
        let mut session = connected(16);
        let mode = Mode::Speculative(Speculation::new(scheme, 2));
        session.start(vec![0], &Settings { mode, ..settings(4) }, NOW).unwrap();
        while !matches!(session.poll(NOW).unwrap(), Some(EdgeOutput::Forward(_))) {}
        let length = EdgeError::Draft(DraftError::Length { found, vocab_size: V });
        let expected = if found == V as usize { Ok(()) } else { Err(length) };
        assert_eq!(session.handle_logits(&vec![0.0; found], &[], NOW), expected);
    }
}

/// Found by the fuzz target `session`: after a round that ended before a token, all of which stood and which no bonus token
/// followed, the draft model was asked to read nothing.
#[test]
fn a_declined_row_is_asked_for_again_where_no_token_follows_the_round() {
    let mut session = connected(16);
    let scheme = SchemeParameters::Dense;
    let speculation = Speculation { stop: StopRule::Bild { fallback: 0.5 }, ..Speculation::new(scheme, 4) };
    let mode = Mode::Speculative(speculation.with_rule(Rule::new("lossy", 0.5).unwrap()));
    session.start(vec![0, 1], &Settings { mode, ..settings(6) }, NOW).unwrap();
    let forward = |session: &mut EdgeSession| loop {
        if let Some(EdgeOutput::Forward(forward)) = session.poll(NOW).unwrap() {
            return forward;
        }
    };
    assert_eq!(forward(&mut session), Forward { keep: 0, tokens: vec![0, 1], rows: 1 });
    let mut sure = [0.0; V as usize];
    sure[3] = 9.0;
    session.handle_logits(&sure, &[], NOW).unwrap();
    assert_eq!(forward(&mut session), Forward { keep: 2, tokens: vec![3], rows: 1 });
    session.handle_logits(&[0.0; V as usize], &[], NOW).unwrap();
    let Some(EdgeOutput::Send(bytes)) = session.poll(NOW).unwrap() else { panic!("nothing was sent") };
    assert!(matches!(Frame::decode(&bytes), Ok(Frame::Draft(Draft { count: 1, .. }))));
    let verdict = Verdict { generation: 1, round: 0, accepted: 1, next: Next::Nothing, finish: None };
    session.handle_frame(&Frame::Verdict(verdict).encode(), NOW).unwrap();
    assert_eq!(forward(&mut session), Forward { keep: 2, tokens: vec![3], rows: 1 });
}

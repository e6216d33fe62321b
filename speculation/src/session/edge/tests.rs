use outrider_codec::{
    frame::{
        Distribution, Draft, Evidence, Finish, Limits, Next, Resume, SamplingParameters, TargetDist, Ticket, Tokens,
        Verdict,
    },
    scheme::{Code, Downlink, SchemeParameters},
};

use super::*;
use crate::{
    Forward,
    control::stop::StopRule,
    draft::DraftError,
    draft::gate::{Confidence, Gate},
    judge::rules::Rule,
    study::evidence::TokenEvidence,
};

mod branches;
mod choice;
mod flight;
mod resume;

#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

const V: u32 = 8;
const NOW: Duration = Duration::ZERO;

fn settings(max_new_tokens: u32) -> Settings {
    let sampling = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };
    Settings { mode: Mode::CloudOnly, sampling, seed: 1, max_new_tokens }
}

const TICKET: Ticket = Ticket { id: [1; 16], secret: [2; 16] };

const LIMITS: Limits = Limits { max_in_flight: 3, max_guesses: 8, max_branches: 4, ..Limits::rounds(16, 4) };

fn welcome(context_length: u32) -> Welcome {
    granted(Limits { context_length, ..LIMITS })
}

fn granted(limits: Limits) -> Welcome {
    Welcome { vocab_size: V, limits, eos_ids: vec![7], ticket: TICKET, detached_seconds: 120, pass_micros: [0; 5] }
}

fn draft_info() -> DraftInfo {
    DraftInfo { vocab_size: V, tokenizer_hash: [1; 32], context_length: 16, heads: None, guess_chance: None }
}

fn connected(context_length: u32) -> EdgeSession {
    connected_to(welcome(context_length))
}

fn connected_to(welcome: Welcome) -> EdgeSession {
    let mut session = EdgeSession::new(draft_info());
    session.handle_frame(&Frame::Welcome(welcome).encode(), NOW).unwrap();
    session
}

fn token(position: u32, finish: Option<Finish>) -> Vec<u8> {
    Frame::Tokens(Tokens::one(1, position, 3, finish)).encode()
}

/// A server that writes alone commits no more tokens than were asked for.
#[test]
fn a_server_alone_commits_no_more_than_was_asked_for() {
    for (context_length, max_new_tokens) in [(16, 2), (4, 9)] {
        for finish in [Some(Finish::Length), None] {
            let mut session = connected(context_length);
            session.start(vec![0, 1], &settings(max_new_tokens), NOW).unwrap();
            session.handle_frame(&token(2, None), NOW).unwrap();
            let last = session.handle_frame(&token(3, finish), NOW);
            assert_eq!(last.is_ok(), finish.is_some());
            let late = session.handle_frame(&token(4, None), NOW);
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

const K_SQS: SchemeParameters =
    SchemeParameters::KSqs { support_size: 2, lattice_resolution: 10, code: Code::Enumerative };

/// A generation whose draft model always says 3, and the drafts of its first round, which await their verdict.
fn drafted(speculation: Speculation, max_new_tokens: u32) -> (EdgeSession, Draft) {
    let mut session = connected(16);
    let mode = Mode::Speculative(speculation);
    session.start(vec![0, 1], &Settings { mode, ..settings(max_new_tokens) }, NOW).unwrap();
    let draft = next_draft(&mut session);
    (session, draft)
}

fn row(best: usize) -> Vec<f32> {
    (0..V as usize).map(|id| f32::from(u8::from(id == best))).collect()
}

fn next_draft(session: &mut EdgeSession) -> Draft {
    loop {
        match session.poll(NOW).unwrap().expect("a draft is sent") {
            EdgeOutput::Forward(forward) => {
                for _ in 0..forward.rows {
                    session.handle_logits(&row(3), &[], NOW).unwrap();
                }
            }
            EdgeOutput::Send(bytes) => {
                if let Frame::Draft(draft) = Frame::decode(&bytes).unwrap() {
                    return draft;
                }
            }
            EdgeOutput::Event(_) => {}
        }
    }
}

fn give(session: &mut EdgeSession, frame: Frame) -> Result<(), EdgeError> {
    session.handle_frame(&frame.encode(), NOW)
}

fn verdict(accepted: u8, next: Next, finish: Option<Finish>) -> Frame {
    Frame::Verdict(Verdict { generation: 1, round: 0, accepted, next, finish })
}

fn evidence(round: u32, index: u8, ids: &[u32]) -> Frame {
    let target = TargetDist(ids.iter().map(|&id| (id, 1.0)).collect());
    Frame::Evidence(Evidence { generation: 1, round, index, rejection: 0.5, divergence: 0.0, target })
}

/// A rule whose rounds have two drafts: γ is one less where the second is in a bonus token's place.
fn ruled(name: &str) -> Speculation {
    let rule = Rule::new(name, 0.0).unwrap();
    let draft_length = if ["exact", "bild"].contains(&name) { 2 } else { 1 };
    Speculation { explain: true, rule, ..Speculation::new(K_SQS, draft_length) }
}

/// Algorithm 4's token after γ accepted drafts: where it is not drawn from p, it is one more draft. Not in flight,
/// where no rule has one, nor beyond the server's limit, the text's end and an end-of-text token.
#[test]
fn a_round_has_a_draft_in_the_bonus_token_s_place() {
    let count = |name: &str, draft_length: u32, max_in_flight: u8, max_new_tokens: u32| {
        drafted(Speculation { draft_length, max_in_flight, ..ruled(name) }, max_new_tokens).1.count
    };
    for info in Rule::all() {
        let own = ["exact", "bild"].contains(&info.name);
        assert_eq!(count(info.name, 2, 1, 6), if own { 2 } else { 3 }, "{}", info.name);
        assert_eq!(count(info.name, 2, 2, 6), 2, "{} in flight", info.name);
        assert_eq!(count(info.name, 4, 1, 9), 4, "{} at the server's limit", info.name);
        assert_eq!(count(info.name, 3, 1, 3), if own { 2 } else { 3 }, "{} at the end", info.name);
    }
}

/// Each rule ends a round in its own way, and no server in another's. Two drafts were sent.
#[test]
fn verdicts_that_a_rule_does_not_give_are_errors() {
    let token = Next::Token(5);
    let cases = [
        // Accepted, what follows, and whether it may: with a bonus token and without.
        (2, token.clone(), true, false),
        (2, Next::Nothing, false, true),
        (1, token.clone(), true, true),
        (0, token.clone(), true, true),
        (1, Next::Nothing, false, false),
        (0, Next::Nothing, false, false),
        (3, token, false, false),
        (1, Next::Token(V), false, false),
        (1, Next::Samples(vec![(5, 1.0)]), false, false),
        (1, Next::Distribution(TargetDist(vec![(5, 1.0)])), false, false),
    ];
    for (accepted, next, with_bonus, without) in cases {
        for info in Rule::all() {
            let (mut session, draft) = drafted(ruled(info.name), 6);
            assert_eq!(draft.count, 2);
            let result = give(&mut session, verdict(accepted, next.clone(), None));
            let may = if ["exact", "bild"].contains(&info.name) { with_bonus } else { without };
            // What commits nothing and goes on is no frame at all.
            let is_impossible = matches!(result, Err(EdgeError::ImpossibleVerdict { .. } | EdgeError::Decode(_)));
            assert_eq!((result.is_ok(), is_impossible), (may, !may), "{}: {accepted}, {next:?}", info.name);
        }
    }
}

#[test]
fn a_verdict_for_another_round_or_none_is_an_error() {
    let (mut session, _) = drafted(ruled("exact"), 6);
    let other = Verdict { generation: 1, round: 1, accepted: 2, next: Next::Token(3), finish: None };
    assert!(matches!(give(&mut session, Frame::Verdict(other)), Err(EdgeError::ImpossibleVerdict { .. })));
    let (mut session, _) = drafted(ruled("exact"), 6);
    give(&mut session, verdict(2, Next::Token(3), None)).unwrap();
    let twice = give(&mut session, verdict(2, Next::Token(3), None));
    assert_eq!((twice, session.statistics().tokens), (Ok(()), 3));
    let early = Verdict { generation: 1, round: 1, accepted: 0, next: Next::Token(3), finish: None };
    assert_eq!(give(&mut session, Frame::Verdict(early)), Err(EdgeError::Unexpected { frame: "Verdict" }));
}

/// Under a lossy rule drafts reach the last token, under others the bonus token has it.
#[test]
fn a_text_may_end_with_a_draft_only_where_no_bonus_token_follows() {
    for (name, count) in [("exact", 1), ("bild", 1), ("lossy", 2), ("oracle-diff", 2)] {
        let (mut session, draft) = drafted(ruled(name), 2);
        assert_eq!(draft.count, count, "{name}");
        let next = if count == 1 { Next::Token(4) } else { Next::Nothing };
        let goes_on = give(&mut session, verdict(count, next.clone(), None));
        assert!(matches!(goes_on, Err(EdgeError::ImpossibleVerdict { .. })), "{name}");
        let (mut session, _) = drafted(ruled(name), 2);
        give(&mut session, verdict(count, next, Some(Finish::Length))).unwrap();
        assert_eq!(session.statistics().tokens, 2);
        assert!(session.is_idle());
    }
}

#[test]
fn evidence_comes_in_order_between_draft_and_verdict() {
    let out_of_place = Err(EdgeError::Unexpected { frame: "Evidence" });
    for frames in [
        vec![evidence(1, 0, &[3])],
        vec![evidence(0, 1, &[3])],
        vec![evidence(0, 0, &[3]), evidence(0, 0, &[3]), evidence(0, 2, &[3])],
        vec![evidence(0, 0, &[3]), evidence(0, 1, &[3]), evidence(0, 2, &[3])],
    ] {
        let (mut session, _) = drafted(ruled("lossy"), 6);
        let results: Vec<_> = frames.into_iter().map(|frame| give(&mut session, frame)).collect();
        let (last, before) = results.split_last().unwrap();
        assert!(before.iter().all(Result::is_ok));
        assert_eq!(*last, out_of_place);
    }
    // Evidence that was not asked for; of a round that has not been sent, or is over.
    let (mut session, _) = drafted(Speculation::new(K_SQS, 2), 6);
    assert_eq!(give(&mut session, evidence(0, 0, &[3])), out_of_place);
    let (mut session, _) = drafted(ruled("lossy"), 6);
    give(&mut session, verdict(2, Next::Nothing, None)).unwrap();
    assert_eq!(give(&mut session, evidence(1, 0, &[3])), out_of_place);
    let (mut session, _) = drafted(ruled("lossy"), 6);
    assert!(matches!(give(&mut session, evidence(0, 0, &[V])), Err(EdgeError::ImpossibleVerdict { .. })));
    // Evidence for drafts after the rejected one does not count.
    let (mut session, _) = drafted(ruled("lossy"), 6);
    give(&mut session, evidence(0, 0, &[3])).unwrap();
    give(&mut session, evidence(0, 1, &[3])).unwrap();
    give(&mut session, verdict(0, Next::Token(4), None)).unwrap();
    assert_eq!(session.statistics().explanation.as_ref().unwrap().judged, 1);
}

/// Each token comes with the distributions of its own position: the one in place of a rejected draft with that draft's,
/// a bonus token with none; and nothing comes unless it was asked for.
#[test]
fn tokens_come_with_what_they_were_judged_by() {
    let told = |explain, frames: &[Frame]| {
        let (mut session, _) = drafted(Speculation { explain, ..Speculation::new(K_SQS, 2) }, 6);
        frames.iter().for_each(|frame| give(&mut session, frame.clone()).unwrap());
        let Some(EdgeOutput::Event(Event::Committed(Committed { tokens, evidence, .. }))) = session.poll(NOW).unwrap()
        else {
            panic!("tokens are committed")
        };
        let candidates = |token: &TokenEvidence| -> Vec<_> {
            token.candidates.iter().map(|found| (found.id, found.draft, found.target)).collect()
        };
        let told = evidence.iter().map(|token| (token.log_probability, candidates(token)));
        (tokens.iter().map(|token| token.0).collect::<Vec<_>>(), told.collect::<Vec<_>>())
    };
    let (one, zero) = (Some(1.0), Some(0.0));
    let rejected = [evidence(0, 0, &[3]), evidence(0, 1, &[5]), verdict(1, Next::Token(5), None)];
    let expected = vec![(zero, vec![(3, one, one)]), (zero, vec![(5, zero, one), (3, one, zero)])];
    assert_eq!(told(true, &rejected), (vec![3, 5], expected));
    let accepted = [evidence(0, 0, &[3]), evidence(0, 1, &[3]), verdict(2, Next::Token(4), None)];
    let expected = vec![(zero, vec![(3, one, one)]), (zero, vec![(3, one, one)]), (None, Vec::new())];
    assert_eq!(told(true, &accepted), (vec![3, 3, 4], expected));
    assert_eq!(told(false, &rejected[2..]), (vec![3, 5], Vec::new()));
}

/// A sequence cascade that is not sure of what it wrote asks for the whole text.
fn streamed(max_new_tokens: u32) -> EdgeSession {
    let mut session = connected(16);
    let gate = Gate::SequenceCascade { alpha: 0.0, confidence: Confidence::Mean };
    let mode = Mode::Speculative(Speculation { gate, ..Speculation::new(K_SQS, 2) });
    let sampling = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };
    session.start(vec![0, 1], &Settings { mode, sampling, ..settings(max_new_tokens) }, NOW).unwrap();
    let draft = next_draft(&mut session);
    assert_eq!((draft.count, draft.stream, draft.passed.len()), (0, max_new_tokens, 0));
    session
}

#[test]
fn a_stream_has_the_tokens_that_were_asked_for() {
    let mut session = streamed(3);
    for position in [2, 2, 3] {
        session.handle_frame(&token(position, None), NOW).unwrap();
    }
    assert_eq!(session.statistics().tokens, 2, "one came twice");
    let gap = streamed(3).handle_frame(&token(3, None), NOW);
    assert!(matches!(gap, Err(EdgeError::ImpossibleVerdict { .. })));
    let endless = session.handle_frame(&token(4, None), NOW);
    assert!(matches!(endless, Err(EdgeError::ImpossibleVerdict { .. })));
    let outside = give(&mut streamed(3), Frame::Tokens(Tokens::one(1, 2, V, None)));
    assert!(matches!(outside, Err(EdgeError::ImpossibleVerdict { .. })));
    let judged = give(&mut streamed(3), verdict(0, Next::Token(3), None));
    assert_eq!(judged, Err(EdgeError::Unexpected { frame: "Verdict" }));
    let mut session = streamed(3);
    session.handle_frame(&token(2, Some(Finish::Eos)), NOW).unwrap();
    assert!(session.is_idle(), "a stream may end early");
    // In a round the target does not write alone.
    let (mut session, _) = drafted(ruled("exact"), 6);
    assert_eq!(session.handle_frame(&token(2, None), NOW), Err(EdgeError::Unexpected { frame: "Tokens" }));
}

/// AS²'s first lesson comes after four rounds; what comes after its last token is not of it.
#[test]
fn a_token_more_than_the_stream_has_is_an_error() {
    let speculation = Speculation { adaptive_mode: true, ..Speculation::new(K_SQS, 1) };
    let (mut session, mut draft) = drafted(speculation, 14);
    while draft.stream == 0 {
        let round = draft.round;
        let rejected = Verdict { generation: 1, round, accepted: 0, next: Next::Token(4), finish: None };
        give(&mut session, Frame::Verdict(rejected)).unwrap();
        draft = next_draft(&mut session);
    }
    let first = 2 + session.statistics().tokens as u32;
    for position in first..first + draft.stream {
        session.handle_frame(&token(position, None), NOW).unwrap();
    }
    assert_eq!(
        session.handle_frame(&token(first + draft.stream, None), NOW),
        Err(EdgeError::Unexpected { frame: "Tokens" })
    );
    assert_eq!(session.statistics().streamed, draft.stream as usize);
}

#[test]
fn under_dssd_the_server_does_not_resample() {
    for downlink in [Downlink::Full, Downlink::Sampled(1)] {
        let speculation = || Speculation::new(SchemeParameters::Dssd { downlink }, 2);
        let target = TargetDist(vec![(5, 1.0)]);
        let (mut session, _) = drafted(speculation(), 6);
        let resampled = give(&mut session, verdict(1, Next::Token(5), None));
        assert!(matches!(resampled, Err(EdgeError::ImpossibleVerdict { .. })));
        let (mut session, _) = drafted(speculation(), 6);
        let unasked =
            give(&mut session, Frame::Distribution(Distribution { generation: 1, round: 0, target: target.clone() }));
        assert_eq!(unasked, Err(EdgeError::Unexpected { frame: "Distribution" }));
        // The resampled token travels with what follows.
        let (mut session, _) = drafted(speculation(), 6);
        give(&mut session, verdict(1, Next::Distribution(target), None)).unwrap();
        assert_eq!(next_draft(&mut session).resampled, Some(5));
    }
}

/// The last token was left to the target, the text before it was never sent, and the user never saw it.
#[test]
fn a_sequence_cascade_keeps_its_text_to_the_last_token() {
    let gate = Gate::SequenceCascade { alpha: 1.0, confidence: Confidence::Mean };
    for rule in ["exact", "lossy"] {
        for (context_length, finish) in [(16, Finish::Length), (5, Finish::Context)] {
            let mut session = connected(context_length);
            let mode = Mode::Speculative(Speculation { gate, ..ruled(rule) });
            let length = if context_length == 5 { 9 } else { 3 };
            session.start(vec![0, 1], &Settings { mode, ..settings(length) }, NOW).unwrap();
            let mut events = Vec::new();
            let mut sent = Vec::new();
            while let Some(output) = session.poll(NOW).unwrap() {
                match output {
                    EdgeOutput::Forward(_) => session.handle_logits(&row(3), &[], NOW).unwrap(),
                    EdgeOutput::Send(bytes) => sent.push(Frame::decode(&bytes).unwrap().name()),
                    EdgeOutput::Event(event) => events.push(event),
                }
            }
            let tokens = vec![(3, Origin::Passed); 3];
            let committed = Event::Committed(Committed { tokens, evidence: Vec::new(), round: None });
            assert_eq!(events[1..], [committed, Event::Finished(EndReason::Finish(finish))], "{rule}");
            assert_eq!(sent, ["Hello", "Prompt", "Cancel"]);
            assert_eq!(session.statistics().passed, 3);
        }
    }
}

/// A text longer than the draft model can read is the target's: what was held is not lost.
#[test]
fn a_sequence_cascade_beyond_the_drafts_context_is_the_targets() {
    let draft = DraftInfo { context_length: 4, ..draft_info() };
    let mut session = EdgeSession::new(draft);
    let welcome = welcome(16);
    session.handle_frame(&Frame::Welcome(welcome).encode(), NOW).unwrap();
    let gate = Gate::SequenceCascade { alpha: 1.0, confidence: Confidence::Mean };
    let mode = Mode::Speculative(Speculation { gate, ..ruled("exact") });
    session.start(vec![0, 1], &Settings { mode, ..settings(6) }, NOW).unwrap();
    let draft = next_draft(&mut session);
    assert_eq!((draft.stream, draft.passed), (6, vec![]));
    assert_eq!(session.statistics().tokens, 0);
}

/// Found by the fuzz target `session`: after a round that ended before a token, all of which were accepted and which no
/// bonus token followed, the draft model was asked to read nothing.
#[test]
fn a_declined_row_is_asked_for_again_where_no_token_follows_the_round() {
    let mut session = connected(16);
    let scheme = SchemeParameters::Dense;
    let speculation = Speculation { stop: StopRule::Bild { fallback: 0.5 }, ..Speculation::new(scheme, 4) };
    let mode = Mode::Speculative(Speculation { rule: Rule::new("lossy", 0.5).unwrap(), ..speculation });
    session.start(vec![0, 1], &Settings { mode, ..settings(6) }, NOW).unwrap();
    let forward = |session: &mut EdgeSession| loop {
        if let Some(EdgeOutput::Forward(forward)) = session.poll(NOW).unwrap() {
            return forward.rows_alone();
        }
    };
    assert_eq!(forward(&mut session), Forward::new(0, vec![0, 1], 1));
    let mut sure = [0.0; V as usize];
    sure[3] = 9.0;
    session.handle_logits(&sure, &[], NOW).unwrap();
    assert_eq!(forward(&mut session), Forward::new(2, vec![3], 1));
    session.handle_logits(&[0.0; V as usize], &[], NOW).unwrap();
    let Some(EdgeOutput::Send(bytes)) = session.poll(NOW).unwrap() else { panic!("nothing was sent") };
    assert!(matches!(Frame::decode(&bytes), Ok(Frame::Draft(Draft { count: 1, .. }))));
    let verdict = Verdict { generation: 1, round: 0, accepted: 1, next: Next::Nothing, finish: None };
    session.handle_frame(&Frame::Verdict(verdict).encode(), NOW).unwrap();
    assert_eq!(forward(&mut session), Forward::new(2, vec![3], 1));
}

/// All that is to be sent, and the events.
fn polled(session: &mut EdgeSession) -> (Vec<Frame>, Vec<Event>) {
    let (mut frames, mut events) = (Vec::new(), Vec::new());
    while let Some(output) = session.poll(NOW).unwrap() {
        match output {
            EdgeOutput::Send(bytes) => frames.push(Frame::decode(&bytes).unwrap()),
            EdgeOutput::Event(event) => events.push(event),
            EdgeOutput::Forward(forward) => {
                for _ in 0..forward.rows {
                    session.handle_logits(&row(3), &[], NOW).unwrap();
                }
            }
        }
    }
    (frames, events)
}

fn resume(attempt: u32, generation: u32, length: u32) -> Frame {
    Frame::Resume(Resume { ticket: TICKET, attempt, generation, length })
}

fn refusal(code: ErrorCode) -> Frame {
    Frame::Error(ErrorFrame { generation: 0, code, text: String::new() })
}

//! Content of the golden files: sessions of every scheme, extremes, and frames that must be refused.

use std::collections::BTreeSet;

use outrider_codec::{
    frame::{
        Distribution, Draft, ErrorCode, ErrorFrame, Evidence, Finish, Frame, Guesses, Hello, Limits, MAX_OPTIONS, Next,
        Prompt, Request, Resume, SamplingParameters, Shape, TargetDist, Ticket, Tokens, Verdict, Welcome,
    },
    rule::RuleParameters,
    scheme::{Code, Downlink, Drafts, SchemeParameters},
};
use outrider_speculation::{
    draft::Gate,
    judge::{Rule, Verification},
    session::edge::{Mode, Settings, Speculation},
};
use outrider_tests::{in_process::InProcess, toy::ToyModel};
use serde_json::{Value, json};

use super::{
    extremes::{
        coupled_extremes, dense_extremes, dssd_extremes, lattice_extremes, lattice_malformed, size_malformed,
        tk_slt_extremes,
    },
    reader::noise,
    recorder::{ADAPTIVE, ENUMERATIVE, GENERATION, LARGE, Recorder, Source, request, session, token},
};

/// All golden files, by name.
pub fn make() -> Vec<(&'static str, Value)> {
    type Lattice = fn(u32, u32, Code) -> SchemeParameters;
    let k_sqs: Lattice =
        |support_size, lattice_resolution, code| SchemeParameters::KSqs { support_size, lattice_resolution, code };
    let qs: Lattice = |_, lattice_resolution, code| SchemeParameters::Qs { lattice_resolution, code };
    let c_sqs: Lattice = |_, lattice_resolution, code| SchemeParameters::CSqs { lattice_resolution, code };
    let frames = [vec![one_of_each(), malformed()], too_large()].concat();
    let mut files = vec![("frames", json!({ "sessions": frames }))];
    for (name, scheme, code) in [
        ("k-sqs", k_sqs, ENUMERATIVE),
        ("k-sqs-adaptive", k_sqs, ADAPTIVE),
        ("qs", qs, ENUMERATIVE),
        ("qs-adaptive", qs, ADAPTIVE),
        ("c-sqs", c_sqs, ENUMERATIVE),
        ("c-sqs-adaptive", c_sqs, ADAPTIVE),
    ] {
        let scheme = |k, l| scheme(k, l, code);
        let mut sessions = vec![in_process(300, scheme(8, 100))];
        sessions.extend(lattice_extremes(scheme));
        match name {
            "k-sqs-adaptive" => sessions.extend([long_session(), halved_sessions(), by_ranks()]),
            "k-sqs" => sessions.push(lattice_malformed()),
            "c-sqs" => sessions.push(size_malformed()),
            _ => {}
        }
        files.push((name, json!({ "sessions": sessions })));
    }
    let sessions = [vec![in_process(24, SchemeParameters::Dense)], dense_extremes()].concat();
    files.push(("dense", json!({ "sessions": sessions })));
    let tk_slt = SchemeParameters::TkSlt { support_size: 8 };
    let sessions = [vec![in_process(300, tk_slt)], tk_slt_extremes()].concat();
    files.push(("tk-slt", json!({ "sessions": sessions })));
    let dssd = |downlink| in_process(24, SchemeParameters::Dssd { downlink });
    let sessions = [dssd(Downlink::Full), dssd(Downlink::Sampled(2)), dssd_extremes()];
    files.push(("dssd", json!({ "sessions": sessions })));
    files.push(("shape", json!({ "sessions": [shapes()] })));
    files.push(("rules", json!({ "sessions": rules() })));
    let coupled = SchemeParameters::Coupled;
    files.push((
        "coupled",
        json!({ "sessions": [in_process(300, coupled), coupled_extremes()], "noise": noise_cases() }),
    ));
    files
}

/// Rules with each kind of statistic, evidence, passed tokens and streams.
fn rules() -> Vec<Value> {
    let adaptive = SchemeParameters::KSqs { support_size: 6, lattice_resolution: 20, code: ADAPTIVE };
    let speculation = Speculation::new(adaptive, 3);
    let mut sessions: Vec<Value> = [("chow", 0.6), ("token-v1", 0.2), ("lossy", 0.3), ("bild", 2.0), ("diff", -0.25)]
        .map(|(name, parameter)| {
            let rule = Rule::new(name, parameter).unwrap();
            let explain = name == "bild";
            // Three drafts a round: where no token of p's follows, the third is in the bonus token's place.
            let draft_length = if rule.info().has_bonus { 3 } else { 2 };
            // It needs all of q.
            let (scheme, vocab_size) = if name == "bild" { (SchemeParameters::Dense, 8) } else { (adaptive, 24) };
            in_process_with(
                name,
                vocab_size,
                Speculation { scheme, explain, draft_length, rule, ..speculation.clone() },
            )
        })
        .to_vec();
    let verification = Verification::Block;
    sessions.push(in_process_with("block verification", 24, Speculation { verification, ..speculation.clone() }));
    let gate = Gate::TokenCascade { alpha: 0.75 };
    sessions.push(in_process_with("token cascade", 24, Speculation { gate, ..Speculation::new(adaptive, 3) }));
    let (mut recorder, mut scheme) = session("passed and streamed tokens", 24, adaptive, &[1, 2]);
    scheme.prime(&[1, 2]);
    let mut source = Source(9);
    let mut length = 2;
    for round in 0..4 {
        let passed = vec![source.below(24); 1 + round as usize];
        scheme.prime(&passed);
        let token = source.token(&scheme, 24, 3, 20);
        let drafts = Drafts::Distributions(vec![token]);
        let payload = scheme.encode_round(&drafts).unwrap();
        let generation = GENERATION;
        recorder.frame(&Frame::Draft(Draft {
            generation,
            round: 2 * round,
            passed,
            count: 1,
            payload,
            ..Draft::default()
        }));
        let next = Next::Token(7);
        recorder.frame(&Frame::Verdict(Verdict { generation, round: 2 * round, accepted: 1, next, finish: None }));
        scheme.commit(&drafts, 1, Some(7));
        recorder.frame(&Frame::Draft(Draft { generation, round: 2 * round + 1, stream: 2, ..Draft::default() }));
        // What passed, a draft and the bonus token.
        length += 3 + round;
        for (position, token) in (length..).zip([3, 4]) {
            recorder.frame(&Frame::Tokens(Tokens::one(generation, position, token, None)));
            scheme.prime(&[token]);
        }
        length += 2;
    }
    sessions.push(recorder.done());
    sessions
}

/// Frames that both session state machines exchange over two toy models.
fn in_process(vocab_size: u32, scheme: SchemeParameters) -> Value {
    in_process_with("two toy models", vocab_size, Speculation::new(scheme, 3))
}

fn in_process_with(name: &'static str, vocab_size: u32, speculation: Speculation) -> Value {
    let target = ToyModel::target(vocab_size, 5);
    let mut pair = InProcess::connect(target.draft(1.0), target, 64, &[]);
    pair.keep_frames = true;
    let settings = Settings {
        mode: Mode::Speculative(speculation.clone()),
        sampling: SamplingParameters { temperature: 0.6, top_k: 0, top_p: 1.0 },
        seed: 11,
        max_new_tokens: 16,
    };
    pair.generate(&[1, 2, 3, 2, 1], &settings);
    let mut recorder = Recorder::new(name, vocab_size);
    for (_, frame) in &pair.frames {
        recorder.frame(frame);
    }
    let accepted: BTreeSet<u64> =
        recorder.frames.iter().filter_map(|step| step["value"]["accepted"].as_u64()).collect();
    let drafts = speculation.gate == Gate::Never;
    assert!(!drafts || accepted.len() > 1, "{speculation:?} accepted always as many");
    recorder.done()
}

/// A session of enough rounds that decisions are halved and distributions forgotten; then drafts that have become so
/// unlikely that ranks are shorter.
fn long_session() -> Value {
    let parameters = SchemeParameters::KSqs { support_size: 2, lattice_resolution: 10, code: ADAPTIVE };
    let (mut recorder, scheme) = session("a long session", 64, parameters, &[9]);
    let mut source = Source(8);
    for _ in 0..3 {
        let tokens = (0..64).map(|_| source.below(4)).map(|id| token(&scheme, id, &[id], &[10])).collect();
        recorder.round(&Drafts::Distributions(tokens), 64, 1);
    }
    let two = |recorder: &mut Recorder, ids: &[u32]| {
        let drafts = Drafts::Distributions(vec![token(&scheme, ids[1], ids, &[7, 3])]);
        let first = recorder.payload(&drafts)[0];
        recorder.round(&drafts, 1, 2);
        first
    };
    assert!(two(&mut recorder, &[61, 63]) >= 0xfc);
    assert!(two(&mut recorder, &[1, 2]) < 0xfc);
    recorder.done()
}

/// Sessions with a prompt of such length that what the session added to the weights is halved.
fn halved_sessions() -> Value {
    let parameters = SchemeParameters::KSqs { support_size: 4, lattice_resolution: 10, code: ADAPTIVE };
    let prompt: Vec<u32> = (0..3600).map(|at| at % 100).collect();
    let (mut recorder, scheme) = session("halved sessions", 1 << 22, parameters, &prompt);
    let tokens = vec![token(&scheme, 70, &[5, 70, 4_000_000], &[3, 3, 4])];
    let payload = recorder.payload(&Drafts::Distributions(tokens));
    recorder.bytes(&recorder.draft(&payload, 1));
    recorder.done()
}

/// A word that the encoder does not choose, as the model's is shorter, but that is one.
fn by_ranks() -> Value {
    let parameters = SchemeParameters::KSqs { support_size: 4, lattice_resolution: 10, code: ADAPTIVE };
    let (mut recorder, scheme) = session("ranks where the model is shorter", 8, parameters, &[0, 5]);
    let is_longer = |payload: &&[u8; 3]| {
        scheme.decode_round(&payload[..], 1).is_ok_and(|drafts| scheme.encode_round(&drafts).unwrap().len() < 3)
    };
    let words: Vec<[u8; 3]> =
        (0xfc_0000..=0xff_ffffu32).map(|word| word.to_be_bytes()[1..].try_into().unwrap()).collect();
    for payload in words.iter().filter(is_longer).step_by(20).take(5) {
        recorder.bytes(&recorder.draft(payload, 1));
        assert!(recorder.frames.last().unwrap().get("error").is_none());
    }
    for payload in [[0xfc, 0, 0], [0xbb, 0xe0, 0xab], [0xff, 0xff, 0xff]] {
        recorder.malformed(&recorder.draft(&payload, 2));
    }
    recorder.malformed(&recorder.draft(&[0xbb], 0));
    recorder.done()
}

fn noise_cases() -> Vec<Value> {
    let mut cases = Vec::new();
    for (seed, position) in [(0, 0), (7, 1), (u64::MAX, 1_000_000), (1 << 40, 5)] {
        for shape in ["uniform", "harmonic"] {
            cases.push(json!({ "law": shape, "vocab_size": 512, "seed": seed, "position": position }));
        }
        for (first, second) in [(0, 1), (7, 8), (3, 151_935)] {
            cases.push(json!({ "law": "pair", "first": first, "second": second, "seed": seed, "position": position }));
        }
    }
    cases.iter().map(noise).collect()
}

/// Every kind of frame, and of what can be in it.
fn one_of_each() -> Value {
    let mut recorder = Recorder::new("one of each frame", 4096);
    let verdict = |next, finish| Verdict { generation: 3, round: 200, accepted: 2, next, finish };
    // Shorter by its gaps, and without them.
    let sparse = TargetDist(vec![(3, 0.25), (4, 0.5), (4000, 0.25)]);
    let full = TargetDist((0..20).filter(|id| id % 10 != 5).map(|id| (id, 1.0 / 18.0)).collect());
    let draft = |resampled, count, payload: &[u8]| {
        Frame::Draft(Draft {
            generation: 3,
            round: 200,
            resampled,
            count,
            payload: payload.to_vec(),
            ..Draft::default()
        })
    };
    let in_flight = Draft { generation: 3, count: 2, payload: vec![1, 2, 3], ..Draft::default() };
    let error = |generation, code, text: &str| Frame::Error(ErrorFrame { generation, code, text: text.into() });
    let distribution =
        |target: &TargetDist| Frame::Distribution(Distribution { generation: 3, round: 200, target: target.clone() });
    let ticket = Ticket { id: *b"the session's id", secret: [0xfe; 16] };
    let tokens = Tokens::one(3, 300, 17, None);
    let guesses = Guesses { generation: 3, ..Guesses::default() };
    let frames = [
        Frame::Hello(Hello { vocab_size: 4096, tokenizer_hash: [7; 32] }),
        Frame::Welcome(Welcome {
            vocab_size: 4096,
            limits: Limits {
                context_length: 512,
                max_draft_tokens: 64,
                max_in_flight: 8,
                max_guesses: 64,
                max_branches: 16,
                own_draws: true,
                fewest_passes: true,
            },
            eos_ids: vec![0, 200],
            ticket,
            detached_seconds: 120,
            pass_micros: [9_300, 9_301, 11_000, 16_383, 16_384],
        }),
        Frame::Welcome(Welcome {
            vocab_size: 1,
            limits: Limits::rounds(u32::MAX, 0),
            eos_ids: vec![],
            ticket: Ticket::default(),
            detached_seconds: u32::MAX,
            pass_micros: [0, 0, 0, 0, u32::MAX],
        }),
        Frame::Resume(Resume { ticket, attempt: 1, generation: 3, length: 300 }),
        Frame::Resume(Resume { ticket: Ticket::default(), attempt: u32::MAX, generation: 0, length: u32::MAX }),
        Frame::Generate(request(&[0, 300, 4095])),
        Frame::Generate(Request {
            generation: u32::MAX,
            sampling: SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 },
            seed: u64::MAX,
            max_new_tokens: u32::MAX,
            tokens: vec![0],
        }),
        draft(None, 2, &[1, 2, 3]),
        draft(None, 64, &[]),
        draft(Some(300), 0, &[]),
        Frame::Draft(Draft { generation: 3, round: 200, resampled: Some(300), stream: 16, ..Draft::default() }),
        Frame::Draft(Draft { generation: 3, passed: vec![300, 5], count: 1, payload: vec![9], ..Draft::default() }),
        Frame::Draft(Draft { round: 200, continued: true, ..in_flight.clone() }),
        Frame::Draft(Draft { round: 201, epoch: 70, continued: true, resampled: Some(300), ..in_flight.clone() }),
        Frame::Draft(Draft { round: u32::MAX, epoch: (1 << 31) - 1, ..in_flight }),
        Frame::Draft(Draft { generation: 3, round: 200, epoch: 2, stream: 16, ..Draft::default() }),
        Frame::Evidence(Evidence {
            generation: 3,
            round: 200,
            index: 63,
            rejection: 0.25,
            divergence: 0.0,
            target: sparse.clone(),
        }),
        Frame::Cancel { generation: 3 },
        Frame::Resample { generation: 3, round: 200 },
        Frame::Verdict(verdict(Next::Token(4095), None)),
        Frame::Verdict(verdict(Next::Token(4095), Some(Finish::Eos))),
        Frame::Verdict(verdict(Next::Token(4095), Some(Finish::Length))),
        Frame::Verdict(verdict(Next::Nothing, Some(Finish::Context))),
        Frame::Verdict(verdict(Next::Nothing, None)),
        Frame::Verdict(verdict(Next::Samples(vec![(7, 0.5), (4095, 1.0), (7, 0.5)]), None)),
        Frame::Verdict(verdict(Next::Distribution(sparse.clone()), None)),
        Frame::Verdict(verdict(Next::Distribution(full.clone()), None)),
        distribution(&sparse),
        distribution(&full),
        // Equally long either way.
        distribution(&TargetDist(vec![(0, 0.5), (1, 0.5), (2, 0.5), (4, 0.5)])),
        Frame::Tokens(Tokens::one(1, 300, 17, None)),
        Frame::Tokens(Tokens::one(1, 0, 17, Some(Finish::Length))),
        Frame::Tokens(Tokens { ids: vec![17, 4095, 5], accepted: 2, heard: 255, pass: 410, ..tokens.clone() }),
        Frame::Tokens(Tokens { ids: vec![17, 200], accepted: 2, own: true, finish: Some(Finish::Eos), ..tokens }),
        Frame::Guesses(Guesses { chain: 1, position: 300, ..guesses.clone() }),
        Frame::Guesses(Guesses {
            chain: 2,
            position: 302,
            patience: 150,
            count: 2,
            payload: vec![1, 2, 3],
            ..guesses.clone()
        }),
        Frame::Guesses(Guesses { chain: 300, parent: 2, position: 302, count: 1, payload: vec![1, 2], ..guesses }),
        error(0, ErrorCode::ServerFull, "No place is free."),
        error(2, ErrorCode::Other(0x04ff), "über"),
        error(2, ErrorCode::Internal, ""),
        Frame::Bye,
    ];
    frames.iter().for_each(|frame| recorder.frame(frame));
    recorder.done()
}

/// Changes of logits, and bytes that are none.
fn shapes() -> Value {
    let mut recorder = Recorder::new("changes of logits", 4096);
    let shape = |generation, answered, options: &str| Shape { generation, answered, options: options.to_owned() };
    for shape in [shape(1, 0, ""), shape(300, 200, r#"{"min_p":0.5}"#), shape(2, 0, "über")] {
        recorder.frame(&Frame::Shape(shape));
    }
    let long = Frame::Shape(shape(1, 0, &" ".repeat(MAX_OPTIONS + 1))).encode();
    for bytes in [&b"\x0a"[..], b"\x0a\x00\x00\x00", b"\x0a\x01\x00\x02a", b"\x0a\x01\x00\x01\xff", &long[..8]] {
        recorder.malformed(bytes);
    }
    recorder.done()
}

/// Bytes that are no frames, and prompts whose scheme does not exist.
fn malformed() -> Value {
    let mut recorder = Recorder::new("malformed", 4096);
    let half = 0.5f32.to_le_bytes();
    let generate = Frame::Generate(request(&[1])).encode();
    let with = |at: usize, bytes: &[u8]| [&generate[..at], bytes, &generate[at + bytes.len()..]].concat();
    for bytes in [
        &b""[..],
        &[0x77],
        b"\x01HTTP",
        b"\x01OUTR\x03\x00",
        b"\x08HTTP",
        b"\x08OUTR\x03\x00",
        b"\x08OUTR\x08\x00",
        b"\x81\x01\x00",
        &[&[0x81, 8, 0, 1, 0, 0, 0, 1, 0, 0, 0, 65, 1, 0, 0, 0][..], &[7; 32], &[0]].concat(),
        &[&[0x81, 8, 0, 1, 0, 0, 0, 1, 0, 0, 0, 64, 0, 0, 0, 0][..], &[7; 32], &[0]].concat(),
        &[0x0f, 0],
        // Varints: zero, overlong, too large, cut.
        &[0x05, 0],
        &[0x05, 0x81, 0x00],
        &[0x05, 0xff, 0xff, 0xff, 0xff, 0x1f],
        &[0x05, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        &[0x05, 0x81],
        &[0x06, 1],
        // Guesses: no chain, too many, something after none; branches of no chain, and of themselves. Tokens: none,
        // more accepted than there are, own ones of none.
        &[0x09, 1, 0, 0, 0, 0],
        &[0x09, 1, 1, 0, 0, 65],
        &[0x09, 1, 1, 0, 0, 0, 7],
        &[0x09, 1, 2, 0, 0, 0x80, 0],
        &[0x09, 1, 2, 0, 0, 0x80, 2],
        &[0x86, 1, 0, 0, 0, 0, 0, 0],
        &[0x86, 1, 1, 0, 2, 0, 0, 1, 9],
        &[0x86, 1, 0, 0, 1, 0, 0, 1, 9],
        &[0x86, 1, 0x10, 0, 0, 0, 0, 1, 9],
        // Requests: a temperature that is not a number, negative or -0; a top-p of 0 and above 1.
        &with(2, &f32::NAN.to_le_bytes()),
        &with(2, &(-1f32).to_le_bytes()),
        &with(2, &(-0f32).to_le_bytes()),
        &with(2, &f32::INFINITY.to_le_bytes()),
        &with(7, &[0; 4]),
        &with(7, &1.5f32.to_le_bytes()),
        &Frame::Generate(Request { max_new_tokens: 0, ..request(&[1]) }).encode(),
        &Frame::Generate(request(&[])).encode(),
        // Drafts and verdicts.
        &[0x04, 1, 0, 65],
        &[0x04, 1, 0, 0x80 | 65, 1],
        &[0x04, 1, 0, 0x80],
        &[0x07, 1, 0, 0, 0, 0],
        &[0x07, 1, 0, 1, 9, 0],
        &[0x07, 1, 0, 0, 9, 0, 1],
        // In flight for nothing; a round of nothing that goes on; a prompt for none.
        &[0x14, 1, 0, 0, 1],
        &[0x14, 1, 0, 1, 0],
        &[0x17, 1, 0, 3, 0, 4, 0],
        &[0x17, 1, 0, 2, 0, 0, 0],
        &[0x02, 7, 0, 0],
        &[&[0x87, 1, 0, 64][..], &half, &half, &[0, 1, 3], &half].concat(),
        &[&[0x87, 1, 0, 0][..], &half, &1.5f32.to_le_bytes(), &[0, 1, 3], &half].concat(),
        &[0x84, 1, 0, 65, 0x10, 1],
        &[0x84, 1, 0, 0, 0x00],
        &[0x84, 1, 0, 0, 0x04],
        &[0x84, 1, 0, 0, 0x40],
        &[0x84, 1, 0, 0, 0x20, 0],
        &[&[0x84, 1, 0, 0, 0x21, 1, 9][..], &half].concat(),
        &[0x84, 1, 0, 0, 0x20, 1, 9, 0, 0, 0, 0],
        // Distributions: empty, an unknown layout, the longer layout, a last probability of 0, -0, one above 1.
        &[0x85, 1, 0, 0, 0],
        &[0x85, 1, 0, 1, 0],
        &[0x85, 1, 0, 2, 0],
        &[&[0x85, 1, 0, 0, 1, 0][..], &half].concat(),
        &[&[0x85, 1, 0, 1, 2][..], &[0; 4], &half].concat(),
        &[&[0x85, 1, 0, 1, 3][..], &half, &half, &[0; 4]].concat(),
        &[&[0x85, 1, 0, 1, 3][..], &half, &[0, 0, 0, 0x80], &half].concat(),
        &[&[0x85, 1, 0, 1, 1][..], &1.5f32.to_le_bytes()].concat(),
        &[&[0x85, 1, 0, 1, 1][..], &f32::NAN.to_le_bytes()].concat(),
        &[&[0x85, 1, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x0f][..], &half].concat(),
        &[0x86, 1, 4, 0, 0],
        &[0x86, 1, 0, 0],
        &[0x8e, 0, 1, 1, 1, 0xff],
        &[&[0x8e, 0, 1, 1, 0x81, 0x04][..], &[b'a'; 513]].concat(),
        // Schemes: unknown, and the adaptive code where there is none.
        &[0x02, 0],
        &[0x02, 8],
        &[0x02, 0x84],
    ] {
        recorder.malformed(bytes);
    }
    let k_sqs =
        |support_size, lattice_resolution, code| SchemeParameters::KSqs { support_size, lattice_resolution, code };
    for scheme in [
        k_sqs(0, 1, ENUMERATIVE),
        k_sqs(4097, 1, ENUMERATIVE),
        k_sqs(1, 0, ENUMERATIVE),
        k_sqs(1, 65_537, ENUMERATIVE),
        k_sqs(0, 1, ADAPTIVE),
        k_sqs(4097, 1, ADAPTIVE),
        k_sqs(1, 0, ADAPTIVE),
        k_sqs(1, 65_537, ADAPTIVE),
        k_sqs(2049, 2049, ADAPTIVE),
        SchemeParameters::Qs { lattice_resolution: 2049, code: ADAPTIVE },
        SchemeParameters::CSqs { lattice_resolution: 2049, code: ADAPTIVE },
        SchemeParameters::TkSlt { support_size: 0 },
        SchemeParameters::TkSlt { support_size: 4097 },
    ] {
        recorder.malformed(&Frame::Prompt(Prompt::exact(scheme, request(&[1]))).encode());
    }
    // Rules: unknown, and with parameters out of their ranges.
    for (number, parameter) in [
        (16, 0.0),
        (1, 1.0),
        (3, 1.5),
        (13, f32::INFINITY),
        (14, -1.0),
        (2, -0.0),
        (11, f32::NAN),
        (5, -1.5),
        (5, -0.0),
        (3, -0.5),
    ] {
        let rule = RuleParameters { number, parameter };
        let prompt = Prompt { rule, ..Prompt::exact(SchemeParameters::Dense, request(&[1])) };
        recorder.malformed(&Frame::Prompt(prompt).encode());
    }
    recorder.done()
}

/// Schemes that depend on V.
fn too_large() -> Vec<Value> {
    let refuse = |name, vocab_size, schemes: &[SchemeParameters]| {
        let mut recorder = Recorder::new(name, vocab_size);
        for &scheme in schemes {
            recorder.malformed(&Frame::Prompt(Prompt::exact(scheme, request(&[1]))).encode());
        }
        recorder.done()
    };
    let (coupled, dense) = (SchemeParameters::Coupled, SchemeParameters::Dense);
    let lattice = [ENUMERATIVE, ADAPTIVE].map(|code| SchemeParameters::CSqs { lattice_resolution: 4097, code });
    let half = SchemeParameters::KSqs { support_size: 2049, lattice_resolution: 1 << 16, code: ENUMERATIVE };
    vec![
        refuse("V above 2^24", (1 << 24) + 1, &[coupled, dense, lattice[0], lattice[1]]),
        refuse("a token longer than a frame", 1 << 24, &[dense, SchemeParameters::TkSlt { support_size: 1 << 19 }]),
        refuse("too much work", LARGE, &[lattice[0], lattice[1], half]),
    ]
}

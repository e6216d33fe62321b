//! Guesses without a connection: after a cut, and before a server has answered.

#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use super::*;
use crate::session::edge::Ahead;

/// It guesses in the pauses between attempts to connect, up to the limit and the end of the text; cuts take 1 to 60 s.
#[test]
fn without_a_connection_guesses_go_on() {
    for (limit, expected, failures, seconds) in [(0, 0, 4, 1), (5, 5, 4, 1), (64, 39, 7, 10), (64, 39, 17, 60)] {
        let (mut driver, world) = connected();
        driver.set_retry(Retry { attempts: 32, ..RETRY });
        driver.set_offline_tokens(limit);
        {
            let mut world = world.0.borrow_mut();
            (world.failures, world.cut_behind) = (failures, Some(0));
            world.silent_until = Duration::from_secs(seconds);
        }
        let (mut tokens, mut guessed) = (Vec::new(), 0);
        let tell = |session: &EdgeSession, notice| match notice {
            Notice::Committed(committed) => tokens.extend(committed.tokens.iter().map(|token| token.0)),
            Notice::Guessed if session.guesses().offline => guessed = session.guesses().ids.len(),
            _ => {}
        };
        let mode = Mode::Ahead(Ahead::default());
        let settings = Settings { max_new_tokens: 40, ..settings(mode) };
        let end = run(driver.generate(vec![0, 1], &settings, pending(), tell));
        assert_eq!((end, guessed), (LENGTH, expected), "limit {limit}, {seconds} s");
        assert_eq!(tokens, [3; 40]);
    }
}

/// A page that was opened without its server guesses until that is there: with a new session, with the one of an
/// earlier page, and with one that the server has forgotten.
#[test]
fn without_its_server_a_session_begins_and_guesses() {
    let welcome = connected().0.session().server().expect("it is connected").clone();
    let earlier = SavedSession { ticket: TICKET, attempts: 2, generation: 4 };
    for (saved, forgets, handshake) in [
        (None, false, &["Hello", "Generate"][..]),
        (Some(earlier), false, &["Resume", "Cancel", "Generate"]),
        (Some(earlier), true, &["Resume", "Hello", "Generate"]),
    ] {
        let session = EdgeSession::absent(info(), welcome.clone(), saved).unwrap();
        let world = Shared::default();
        {
            let mut world = world.0.borrow_mut();
            (world.is_cut, world.forgets, world.failures) = (true, forgets, 5);
        }
        let mut driver = Driver::new(session, world.clone(), world.clone(), world.clone());
        driver.set_retry(Retry { attempts: 32, ..RETRY });
        driver.set_offline_tokens(3);
        let (mut tokens, mut guessed) = (Vec::new(), 0);
        let tell = |session: &EdgeSession, notice| match notice {
            Notice::Committed(committed) => tokens.extend(committed.tokens.iter().map(|token| token.0)),
            Notice::Guessed if session.guesses().offline => guessed = session.guesses().ids.len(),
            _ => {}
        };
        let mode = Mode::Ahead(Ahead::default());
        let end = run(driver.generate(vec![0, 1], &settings(mode), pending(), tell));
        assert_eq!((end, guessed, tokens), (LENGTH, 3, vec![3; 6]), "{saved:?}, forgotten: {forgets}");
        let sent = &world.0.borrow().sent;
        assert_eq!(sent[..handshake.len()], *handshake, "{sent:?}");
    }
    let other = DraftInfo { vocab_size: V + 1, ..info() };
    assert!(matches!(EdgeSession::absent(other, welcome, None), Err(EdgeError::Vocabulary { .. })));
}

/// The chances of the first guesses are those of the weights that came with the draft.
#[test]
fn a_session_begins_with_what_was_measured_of_its_draft() {
    let welcome = connected().0.session().server().expect("it is connected").clone();
    let first_chance = |guess_chance| {
        let session = EdgeSession::absent(DraftInfo { guess_chance, ..info() }, welcome.clone(), None).unwrap();
        let world = Shared::default();
        {
            let mut world = world.0.borrow_mut();
            (world.is_cut, world.failures) = (true, 5);
        }
        let mut driver = Driver::new(session, world.clone(), world.clone(), world.clone());
        driver.set_retry(Retry { attempts: 32, ..RETRY });
        driver.set_offline_tokens(3);
        let mut chance = None;
        let tell = |session: &EdgeSession, notice| {
            if matches!(notice, Notice::Guessed) {
                chance = chance.or_else(|| session.guesses().chances.first().copied());
            }
        };
        run(driver.generate(vec![0, 1], &settings(Mode::Ahead(Ahead::default())), pending(), tell)).unwrap();
        chance.expect("it guesses")
    };
    // Weights of the constant alone: the logistic function of 2 and of -2.
    assert!((first_chance(Some([2.0, 0.0, 0.0])) - 0.880_797).abs() < 1e-6);
    assert!((first_chance(Some([-2.0, 0.0, 0.0])) - 0.119_203).abs() < 1e-6);
}

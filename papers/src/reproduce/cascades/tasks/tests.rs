use std::collections::{BTreeMap, BTreeSet};

use outrider_models::Chunk;

use super::*;

const LEXICON: &str = include_str!("../../../../../pair/tasks/lexicon.txt");

#[test]
fn similarity_is_by_edits() {
    let similarity = |said, right| (similarity(said, right) * 1e4).round() / 1e4;
    assert_eq!(similarity("abc", "abc"), 1.0);
    assert_eq!(similarity("", "abc"), 0.0);
    assert_eq!(similarity("abx", "abc"), 0.6667);
    // kitten → sitting: two replaced, one put in.
    assert_eq!(similarity("kitten", "sitting"), 0.5714);
    assert_eq!(similarity("abc abc", "abc"), 0.4286);
}

#[test]
fn distance_is_that_of_the_recursion() {
    fn slow(a: &[u8], b: &[u8]) -> usize {
        match (a, b) {
            ([], rest) | (rest, []) => rest.len(),
            ([x, a @ ..], [y, b @ ..]) if x == y => slow(a, b),
            ([x, rest_a @ ..], [y, rest_b @ ..]) => {
                let _ = (x, y);
                1 + slow(rest_a, rest_b).min(slow(a, rest_b)).min(slow(rest_a, b))
            }
        }
    }
    let words = ["", "a", "ab", "ba", "abab", "baab", "bbba", "aabba"];
    for a in words {
        for b in words {
            assert_eq!(distance(a, b), slow(a.as_bytes(), b.as_bytes()), "{a} {b}");
        }
    }
}

/// The answers, worked out again from the prompts by what pair/tasks/README.md says of the tasks.
#[test]
fn held_out_answers_are_right() {
    let mut seen = BTreeMap::new();
    for Question { task, prompt, answer } in questions().unwrap() {
        let asked = prompt.strip_prefix(&task).unwrap().trim_start().strip_suffix('>').unwrap();
        let answer = answer.unwrap();
        assert_eq!(answer, answered(&task, asked), "{prompt}");
        assert!((3..LONGEST as usize).contains(&answer.len()), "{answer}");
        assert!(seen.insert(prompt, task).is_none(), "a prompt stands there twice");
    }
    for name in TASKS {
        assert!(seen.values().filter(|task| *task == name).count() >= 100, "{name}");
    }
}

#[test]
fn wrong_answers_are_seen() {
    for (task, asked, wrong) in [
        ("sum", "481+993", "3871"),
        ("sort", "bca", "acb"),
        ("say", "the dog calls a king", "keln veld noku"),
        ("mend", "dgo", "boy"),
    ] {
        assert_ne!(answered(task, asked), wrong);
    }
    // 184 + 399 = 583.
    assert_eq!(answered("sum", "481+993"), "3850");
    assert_eq!(answered("say", "wise dogs call the king"), "keli hapi veldn noku");
    assert_eq!(answered("mend", "dgo wise bearr"), "dog wise bear");
}

fn answered(task: &str, asked: &str) -> String {
    match task {
        "sum" => sum(asked),
        "sort" => {
            let mut letters: Vec<char> = asked.chars().collect();
            letters.sort_unstable();
            letters.into_iter().collect()
        }
        "say" => translated(asked),
        "mend" => asked.split(' ').map(mended).collect::<Vec<_>>().join(" "),
        _ => panic!("there is no task {task}"),
    }
}

/// By columns, as one adds on paper; units stand first.
fn sum(asked: &str) -> String {
    let (a, b) = asked.split_once('+').unwrap();
    let mut carry = 0;
    let mut digits: Vec<u32> = Vec::new();
    for (a, b) in a.chars().zip(b.chars()) {
        let column = a.to_digit(10).unwrap() + b.to_digit(10).unwrap() + carry;
        digits.push(column % 10);
        carry = column / 10;
    }
    digits.push(carry);
    digits.iter().map(ToString::to_string).collect()
}

/// (part of speech, English, translation).
fn lexicon() -> Vec<[&'static str; 3]> {
    LEXICON.lines().map(|line| line.split(' ').collect::<Vec<_>>().try_into().unwrap()).collect()
}

/// From left to right: each English word says which it is, by the lexicon and its -s.
fn translated(asked: &str) -> String {
    let lexicon = lexicon();
    let found = |part: &str, word: &str| {
        lexicon.iter().find(|entry| entry[0] == part && entry[1] == word).map(|entry| entry[2])
    };
    let words: Vec<&str> = asked.split(' ').collect();
    let noun = |word: &str| {
        let plural = word.strip_suffix('s').and_then(|word| found("noun", word)).map(|other| (other, true));
        found("noun", word).map(|other| (other, false)).or(plural)
    };
    let at = words.iter().position(|word| noun(word).is_some()).unwrap();
    let phrase = |words: &[&str]| {
        let (other, several) = noun(words.last().unwrap()).unwrap();
        let mut said = other.to_owned();
        said.push_str(if several { "i" } else { "" });
        said.push_str(if words[0] == "the" { "n" } else { "" });
        for adjective in words.iter().filter_map(|word| found("adjective", word)) {
            said = format!("{said} {adjective}{}", if several { "i" } else { "" });
        }
        (said, several)
    };
    let (subject, several) = phrase(&words[..=at]);
    let (object, _) = phrase(&words[at + 2..]);
    let verb = found("verb", words[at + 1].trim_end_matches('s')).or(found("verb", words[at + 1])).unwrap();
    format!("{subject} {object} {verb}{}", if several { 'u' } else { 'a' })
}

/// The word itself, if the lexicon has it; or else the only one there that is one error away.
fn mended(word: &str) -> &'static str {
    let words: BTreeSet<&str> = lexicon().iter().map(|entry| entry[1]).collect();
    if let Some(right) = words.get(word) {
        return right;
    }
    let near: Vec<&str> = words.into_iter().filter(|right| is_one_error(right, word)).collect();
    assert_eq!(near.len(), 1, "{word}: {near:?}");
    near.into_iter().next().unwrap()
}

/// Returns true if they are alike but for one letter put in, left out or replaced, or two neighbours exchanged.
fn is_one_error(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[head..], &b[head..]);
    let tail = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[..a.len() - tail], &b[..b.len() - tail]);
    a.len().max(b.len()) <= 1 || (a.len() == 2 && b.len() == 2 && a[0] == b[1] && a[1] == b[0])
}

/// The greedy answer of a model: the tokens after a prompt, up to the one that ends a text.
fn greedy(model: &Model, prompt: &[u32]) -> Vec<u32> {
    let (mut cache, mut fed, mut answer) = (model.new_cache(), prompt.to_vec(), Vec::new());
    while answer.len() < LONGEST as usize {
        let last = [fed.len() - 1];
        let logits = model.forward(&mut [Chunk { cache: &mut cache, tokens: &fed, positions: &last }]).unwrap();
        let row = logits[0].row(0);
        let next = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap() as u32;
        answer.push(next);
        if model.config().eos_token_ids.contains(&next) {
            break;
        }
        fed = vec![next];
    }
    answer
}

/// Greedily, on a few questions of each task.
#[test]
fn the_target_is_better_than_the_draft_but_not_everywhere() {
    let tokenizer = Tokenizer::from_bytes(TOKENIZER).unwrap();
    let questions: Vec<Question> = questions().unwrap().into_iter().take(PROMPTS * 6).collect();
    let right = models().unwrap().map(|model| {
        let exact = |question: &Question| {
            let prompt = tokenizer.encode_prompt(model.config().first_token(), &question.prompt).unwrap();
            f64::from(u8::from(Some(tokenizer.decode(&greedy(&model, &prompt))) == question.answer))
        };
        TASKS.map(|name| questions.iter().filter(|question| question.task == name).map(exact).sum::<f64>())
    });
    let [draft, target] = right;
    let sum = |right: [f64; 4]| right.iter().sum::<f64>();
    assert!(sum(target) > 1.3 * sum(draft), "{target:?} {draft:?}");
    assert!(target[0] > draft[0] && target[1] > draft[1], "{target:?} {draft:?}");
    assert!(draft[3] > target[3], "{target:?} {draft:?}");
}

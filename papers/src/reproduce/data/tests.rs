use super::*;

/// Runs with a folder of files, which is removed afterwards.
fn with_folder<T>(name: &str, files: &[(&str, &str)], run: impl FnOnce(&Path) -> T) -> T {
    let folder = std::env::temp_dir().join(format!("outrider-data-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in files {
        fs::write(folder.join(name), text).unwrap();
    }
    let result = run(&folder);
    fs::remove_dir_all(&folder).unwrap();
    result
}

fn lines(name: &str, text: &str) -> Result<Vec<Line>, DataError> {
    with_folder(name, &[(name, text)], |folder| open(&folder.join(name), usize::MAX))
}

/// Question of a line, and its reference.
fn asked(line: &Line) -> (String, &str) {
    let ask = match &line.ask {
        Ask::Prompt(prompt) => prompt.clone(),
        Ask::Messages(messages) => serde_json::to_value(messages).unwrap()[0]["content"].as_str().unwrap().to_owned(),
    };
    (ask, line.reference.as_deref().unwrap_or("–"))
}

fn check(name: &str, text: &str, expected: &[(&str, &str)]) {
    let found = lines(name, text).unwrap();
    let found: Vec<_> = found.iter().map(asked).collect();
    let expected: Vec<_> = expected.iter().map(|(ask, reference)| ((*ask).to_owned(), *reference)).collect();
    assert_eq!(found, expected, "{name}");
}

#[test]
fn lines_have_prompts_or_messages_and_may_have_references() {
    let text = "{\"prompt\": \"Once\", \"reference\": \" upon a time\", \"id\": 7, \"answer\": 8}\n\n\
                {\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}\n";
    check("own.jsonl", text, &[("Once", " upon a time"), ("Hello", "–")]);
}

#[test]
fn errors_name_the_line_and_what_it_lacks() {
    let error = |text: &str| lines("wrong.jsonl", text).unwrap_err().to_string();
    let good = "{\"prompt\": \"a\"}\n";
    assert!(error(good).ends_with("wrong.jsonl has 1 prompts; give at least 2"));
    assert!(error(&format!("{good}{{\"reference\": \"b\"}}")).contains("line 2 has no known field: it needs"));
    let both = "{\"prompt\": \"a\", \"messages\": []}";
    assert!(error(&format!("{good}\n{both}")).ends_with("line 3 needs either \"prompt\" or \"messages\""));
    assert!(error(&format!("{good}plain text")).contains("line 2 is not a JSON object with a prompt or messages"));
    let nameless = "{\"messages\": [{\"content\": \"Hello\"}]}";
    assert!(error(&format!("{good}{nameless}")).contains("line 2 is not a JSON object"));
}

/// Fields as `question.jsonl` of FastChat and of Spec-Bench have them.
#[test]
fn mt_bench_and_spec_bench_have_turns() {
    let text = "{\"question_id\": 81, \"category\": \"writing\", \"turns\": [\"Write.\", \"Rewrite.\"]}\n\
                {\"question_id\": 111, \"category\": \"math\", \"turns\": [\"1 + 1?\", \"And 2?\"], \
                \"reference\": [\"2\", \"4\"]}\n";
    check("question.jsonl", text, &[("Write.", "–"), ("1 + 1?", "2\n4")]);
    let found = lines("question.jsonl", text).unwrap();
    assert_eq!(found[0].later_turns, ["Rewrite."]);
    assert_eq!(found[0].category.as_deref(), Some("writing"));
}

/// Fields as Hugging Face's `cnn_dailymail` 3.0.0, `xsum`, `wmt14`, `gsm8k` and `lm1b` have them.
#[test]
fn published_data_sets_are_known_by_their_fields() {
    let twice = |line: &str| format!("{line}\n{line}\n");
    let of = |name, line: &str, expected| check(name, &twice(line), &[expected, expected]);
    of(
        "cnn.jsonl",
        "{\"article\": \"LONDON, England -- A.\", \"highlights\": \"A .\\nB .\", \"id\": \"42c0\"}",
        ("Summarize: LONDON, England -- A.", "A .\nB ."),
    );
    of(
        "xsum.jsonl",
        "{\"document\": \"Long.\", \"summary\": \"Short.\", \"id\": \"35232142\"}",
        ("Summarize: Long.", "Short."),
    );
    let translation = "{\"translation\": {\"de\": \"Ja.\", \"en\": \"Yes.\"}}";
    of("wmt.json", translation, ("Translate English to German: Yes.", "Ja."));
    let question = "{\"question\": \"How many?\", \"answer\": \"3 + 4 = <<3+4=7>>7\\n#### 7\"}";
    of("gsm8k.jsonl", question, ("How many?", "3 + 4 = <<3+4=7>>7\n#### 7"));
    of("lm1b.jsonl", "{\"text\": \"a b c d e f g h i j\"}", ("a b c", " d e f g h i j"));
    check("list.json", &format!("[{translation},\n{translation}]"), &[("Translate English to German: Yes.", "Ja."); 2]);
}

/// LM1B's files have a sentence a line and no known ending.
#[test]
fn other_files_have_a_text_a_line_and_folders_a_text_a_file() {
    check(
        "news.en-00001-of-00100",
        "The king is old .\n\nword\nHe  sleeps\n",
        &[("The king", " is old ."), ("He", "  sleeps")],
    );
    let files = [
        ("b.txt", "One text\nof two lines"),
        ("a.txt", "Another text"),
        (".hidden", "no text"),
        ("c.story", "(CNN)Para one.\n\nPara two.\n\n@highlight\n\nFirst\n\n@highlight\n\nSecond\n"),
        ("d.summary", "[SN]URL[SN]\nhttp://a\n\n[SN]FIRST-SENTENCE[SN]\nShort.\n\n[SN]RESTBODY[SN]\nLong.\n"),
    ];
    let found = with_folder("folder", &files, |folder| open(folder, usize::MAX).unwrap());
    let found: Vec<_> = found.iter().map(asked).collect();
    let expected = [
        ("Another", " text"),
        ("One text", "\nof two lines"),
        ("Summarize: (CNN)Para one.\n\nPara two.", "First\nSecond"),
        ("Summarize: Long.", "Short."),
    ];
    assert_eq!(found, expected.map(|(ask, reference)| (ask.to_owned(), reference)));
    let most = with_folder("most", &files, |folder| open(folder, 2).unwrap().len());
    assert_eq!(most, 2);
}

/// Files of pyarrow, compressed with Snappy as those of Hugging Face.
#[test]
fn parquet_files_have_the_same_fields() {
    let open = |name| open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name), 10).unwrap();
    let found = open("wmt.parquet");
    let resumption = "Translate English to German: Resumption of the session";
    assert_eq!(asked(&found[0]), (resumption.to_owned(), "Wiederaufnahme der Sitzungsperiode"));
    let found = open("mt-bench.parquet");
    assert_eq!(found[0].later_turns, ["Rewrite it."]);
    assert_eq!(asked(&found[1]), ("Solve x + 1 = 2.".to_owned(), "x = 1"));
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_text_and_an_empty_prompt_is_refused() {
    check("marked.jsonl", "\u{feff}{\"prompt\": \"Once\"}\n{\"prompt\": \"a\"}\n", &[("Once", "–"), ("a", "–")]);
    let lines = lines("empty.jsonl", "{\"prompt\": \"a\"}\n{\"prompt\": \"\"}\n").unwrap();
    let encode = |ask: &Ask| match ask {
        Ask::Prompt(prompt) => Ok(prompt.bytes().map(u32::from).collect()),
        Ask::Messages(_) => Ok(Vec::new()),
    };
    let error = Data::new(lines, Rc::new(encode)).unwrap_err().to_string();
    assert!(error.contains("prompt 2"), "{error}");
}

//! JavaScript interface of the edge.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use futures_channel::{mpsc::UnboundedSender, oneshot};
use futures_util::FutureExt;
use outrider_codec::frame::{Frame, Ticket, Welcome};
use outrider_models::{ChatTemplate, GuessChance, Tokenizer};
use outrider_speculation::{
    draft::{Heads, Passages},
    session::{
        edge::{DraftInfo, EdgeSession, Preview},
        edge_driver::{DriveError, Notice, Retry},
    },
};
use wasm_bindgen::prelude::*;

use crate::{
    draft::{Draft, EdgeDraft, Engine},
    error::Failure,
    link::{LinkedSocket, Links},
    options::{
        ConnectionEvent, Continuation, DraftModel, GenerateEvent, GenerateRequest, GuessEvent, HeadsInfo, LinkOptions,
        SavedObject, ServerInfo, Start, Summary, to_js,
    },
    platform::{Browser, Connection},
    writing::{Certain, Writing, Written},
};

/// Draft model, and a session with a server that verifies its drafts. Generates one text at a time.
#[wasm_bindgen]
pub struct Edge {
    shared: Rc<Shared>,
    /// Connection to the server; taken out while a generation runs.
    connection: RefCell<Option<Connection>>,
    /// Sender of changes of the network to the connection.
    change: RefCell<Option<UnboundedSender<()>>>,
    stop: Rc<RefCell<Option<oneshot::Sender<()>>>>,
}

/// Parts that all sessions of a page share.
struct Shared {
    /// Draft model; `None` where guesses are looked up only.
    draft: Option<Rc<Draft>>,
    /// Token that begins a text, if the tokenizer does not put one there itself.
    first_token: Option<u32>,
    tokenizer: Tokenizer,
    weight_bytes: usize,
    heads: Option<Arc<Heads>>,
    chat: ChatTemplate,
    links: Links,
    /// Texts of the page in which guesses are looked up.
    passages: RefCell<Arc<Passages>>,
    /// Acceptance in the last text or in an earlier visit, by which a new session plans its first text.
    acceptance: Cell<Option<[f64; 2]>>,
}

#[wasm_bindgen]
impl Edge {
    /// Information about the draft model: `{ engine, declined, vocabSize, contextLength, weightBytes, memoryBytes,
    /// heads: { gate, stop } }`.
    pub fn info(&self) -> Result<JsValue, JsValue> {
        let draft = self.shared.draft.as_ref();
        let DraftInfo { vocab_size, context_length, .. } = self.draft_info();
        Ok(to_js(&DraftModel {
            engine: draft.map_or(Engine::Lookup, |draft| draft.engine()).name(),
            declined: draft.and_then(|draft| draft.declined()),
            vocab_size,
            // Without a model the server's context alone counts.
            context_length: if draft.is_some() { context_length } else { u32::MAX },
            weight_bytes: self.shared.weight_bytes,
            memory_bytes: memory_bytes(),
            heads: self.shared.heads.as_deref().map(HeadsInfo::from).unwrap_or_default(),
        })?)
    }

    /// Creates an edge with a session and a KV cache of its own, for a text beside others. Model, texts of the page and
    /// emulated link are shared.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::of(self.shared.clone())
    }

    /// Connects to a server's WebSocket, replacing an older connection. `token` is a function that resolves to a bearer
    /// token, if the server requires one; each connection calls it. `claim`, from an event of an earlier generation,
    /// resumes that session if the server still has it.
    /// Resolves to `{ contextLength, maxDraftTokens, maxInFlight, vocabSize }`.
    pub async fn connect(
        &self,
        url: &str,
        token: Option<js_sys::Function>,
        claim: JsValue,
    ) -> Result<JsValue, JsValue> {
        self.close();
        let session = match SavedObject::from_js(claim)? {
            Some(saved) => EdgeSession::returning(self.draft_info(), saved),
            None => EdgeSession::new(self.draft_info()),
        };
        let (browser, change) = Browser::new(url, token, self.shared.links.clone())?;
        *self.change.borrow_mut() = Some(change);
        let socket = browser.open().await?;
        let opened = Connection::open(session, browser, socket, EdgeDraft::of(self.shared.draft.as_ref())).await;
        let connection = opened.map_err(|error| match error {
            DriveError::Lost => Failure::new("connection-failed", format!("{url} cannot be reached")),
            other => other.into(),
        })?;
        let info = connection.session().server().map(ServerInfo::from);
        *self.connection.borrow_mut() = Some(connection);
        Ok(to_js(&info)?)
    }

    /// The server's last Welcome for [`connect_later`](Self::connect_later), without the session's secret; undefined
    /// before the first.
    #[must_use]
    pub fn welcome(&self) -> Option<Vec<u8>> {
        let connection = self.connection.borrow();
        let welcome = connection.as_ref()?.session().server()?.clone();
        Some(Frame::Welcome(Welcome { ticket: Ticket::default(), ..welcome }).encode())
    }

    /// Begins a session with a server that cannot be reached now, on the terms of an earlier Welcome: the next
    /// generation connects, and guesses meanwhile. Takes what [`connect`](Self::connect) does, and returns what that
    /// resolves to.
    pub fn connect_later(
        &self,
        url: &str,
        token: Option<js_sys::Function>,
        claim: JsValue,
        welcome: &[u8],
    ) -> Result<JsValue, JsValue> {
        self.close();
        let Ok(Frame::Welcome(welcome)) = Frame::decode(welcome) else {
            let why = "the kept answer of the server is of another version of this page";
            return Err(Failure::new("connection-failed", why).into());
        };
        let info = ServerInfo::from(&welcome);
        let session =
            EdgeSession::absent(self.draft_info(), welcome, SavedObject::from_js(claim)?).map_err(Failure::from)?;
        let (browser, change) = Browser::new(url, token, self.shared.links.clone())?;
        *self.change.borrow_mut() = Some(change);
        let socket = LinkedSocket::closed(self.shared.links.clone());
        let connection = Connection::new(session, browser, socket, EdgeDraft::of(self.shared.draft.as_ref()));
        *self.connection.borrow_mut() = Some(connection);
        Ok(to_js(&info)?)
    }

    /// Acceptance for [`expect_acceptance`](Self::expect_acceptance) of a later visit with the same models: how many of
    /// a hundred first and second candidates were right; undefined before any text.
    #[must_use]
    pub fn acceptance(&self) -> Option<Vec<u8>> {
        let percent = |share: f64| (100.0 * share).round() as u8;
        Some(self.shared.acceptance.get()?.map(percent).to_vec())
    }

    /// Plans first texts by the [`acceptance`](Self::acceptance) of an earlier visit. Other bytes change nothing.
    pub fn expect_acceptance(&self, kept: &[u8]) {
        if let Ok(percent) = <[u8; 2]>::try_from(kept) {
            self.shared.acceptance.set(Some(percent.map(|percent| f64::from(percent) / 100.0)));
        }
    }

    /// Sets rates and delay of the emulated link for subsequent bytes.
    pub fn set_link(&self, link: JsValue) -> Result<(), JsValue> {
        let link: LinkOptions = serde_wasm_bindgen::from_value(link)
            .map_err(|error| Failure::new("invalid-parameters", format!("the link cannot be read: {error}")))?;
        self.shared.links.configure(&link);
        Ok(())
    }

    /// Generates the continuation of a prompt. Calls `on_event` for every verdict and `on_line` for changes of the
    /// connection, and `on_guess` when other guesses are shown. `continuation` is `{ attempts, stallMs, committed,
    /// guessesFrom, offlineTokens }`. Resolves to a summary.
    pub async fn generate(
        &self,
        request: JsValue,
        continuation: JsValue,
        on_event: js_sys::Function,
        on_line: js_sys::Function,
        on_guess: js_sys::Function,
    ) -> Result<JsValue, JsValue> {
        let request = GenerateRequest::from_js(request)?;
        let continuation = Continuation::from_js(continuation)?;
        let Continuation { attempts, stall_ms, committed, guesses_from, offline_tokens } = continuation;
        let mut settings = request.settings()?;
        settings.max_new_tokens = settings.max_new_tokens.saturating_sub(committed.len() as u32);
        let prompt = self.prompt(&request.start())?;
        let start = [&prompt[..], &committed].concat();
        let mut connection = self
            .connection
            .borrow_mut()
            .take()
            .ok_or_else(|| Failure::new("not-connected", "there is no connection, or a generation is under way"))?;
        let stall = Duration::try_from_secs_f64(stall_ms / 1e3).unwrap_or(Duration::MAX);
        connection.set_retry(Retry { attempts, stall, ..Retry::default() });
        connection.set_offline_tokens(offline_tokens);
        connection.set_shaping(request.shaping.clone(), committed.len());
        connection.set_passages(self.shared.passages.borrow().clone());
        if let Some(acceptance) = self.shared.acceptance.get() {
            connection.expect_acceptance(acceptance);
        }
        let (stop, stopped) = oneshot::channel();
        *self.stop.borrow_mut() = Some(stop);

        let calls = request.tools().map(|tools| self.shared.chat.call_reader(tools));
        // Text shown before a reload is not shown again, but characters and stop strings may begin in it.
        let (stops, evidence) = (request.stop_strings(), request.evidence);
        let mut writing = Writing::new(&self.shared.tokenizer, stops, calls, evidence, (&prompt, &committed));
        let mut preview = Preview::new(guesses_from);
        let stop = async {
            // A dropped sender is not a stop.
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let tell = |session: &EdgeSession, notice: Notice| {
            let claim = || session.saved().map(Into::into);
            let event = match notice {
                Notice::Begun => ConnectionEvent::Begun { claim: claim() },
                Notice::Resumed { anew } => ConnectionEvent::Resumed { anew, claim: claim() },
                Notice::Reconnecting { attempt, pause } => {
                    ConnectionEvent::Reconnecting { attempt, delay_ms: pause.as_millis() as u32 }
                }
                // Tokens after a stop string are not needed.
                Notice::Committed(_) if writing.has_stopped() => return self.stop(),
                Notice::Guessed => {
                    if !writing.has_stopped() && preview.update(&session.guesses()) {
                        call(&on_guess, &shown(&preview, &writing));
                    }
                    return;
                }
                Notice::Committed(committed) => {
                    let Certain { tokens, pieces } = writing.add(&committed);
                    let withdrawn = committed.tokens.iter().map(|(id, _)| preview.commit(*id)).sum();
                    if writing.has_stopped() {
                        self.stop();
                    }
                    let statistics = session.statistics().report();
                    let guess = shown(&preview, &writing);
                    let round = committed.round;
                    return call(&on_event, &GenerateEvent { tokens, pieces, round, statistics, guess, withdrawn });
                }
                _ => return,
            };
            call(&on_line, &event);
        };
        let result = connection.generate(start, &settings, stop, tell).await;
        self.shared.acceptance.set(connection.session().acceptance().or(self.shared.acceptance.get()));
        let statistics = connection.session().statistics().report();
        let rest = writing.finish();
        if !(rest.tokens.is_empty() && rest.pieces.is_empty()) {
            let Certain { tokens, pieces } = rest;
            let (statistics, guess) = (statistics.clone(), None);
            let event = GenerateEvent { tokens, pieces, round: None, statistics, guess, withdrawn: 0 };
            call(&on_event, &event);
        }
        let has_stopped = writing.has_stopped();
        let Written { text, ids, pieces } = writing.into_written();
        if result.as_ref().err().is_none_or(DriveError::leaves_the_session) {
            *self.connection.borrow_mut() = Some(connection);
        }
        let reason = result.map_err(Failure::from)?;
        Ok(to_js(&Summary {
            statistics,
            text,
            pieces,
            prompt_tokens: prompt.len(),
            finish: if has_stopped { "stop" } else { reason.name() },
            prompt_token_ids: prompt,
            token_ids: ids,
        })?)
    }

    /// Token ids of a prompt as [`generate`](Self::generate) encodes it: a text, or messages with tools and variables
    /// of their template, the last of which may be continued.
    pub fn tokenize(
        &self,
        prompt: JsValue,
        tools: JsValue,
        variables: JsValue,
        continues: bool,
    ) -> Result<Vec<u32>, JsValue> {
        Ok(self.prompt(&Start::from_js(prompt, tools, variables, continues)?)?)
    }

    /// Decodes token ids to text. Special tokens have no text.
    #[must_use]
    pub fn detokenize(&self, ids: &[u32]) -> String {
        self.shared.tokenizer.decode(ids)
    }

    /// Adds a text in which guesses are looked up from the next generation on, in place of one of the same name.
    pub fn add_context(&self, name: &str, text: &str) -> Result<(), JsValue> {
        let tokens = self.shared.tokenizer.encode(text).map_err(Failure::from)?;
        Arc::make_mut(&mut self.shared.passages.borrow_mut()).add(name, tokens);
        Ok(())
    }

    /// Removes the text of a name.
    pub fn remove_context(&self, name: &str) {
        Arc::make_mut(&mut self.shared.passages.borrow_mut()).remove(name);
    }

    /// Stops the running generation; its promise resolves with finish `cancelled`.
    pub fn stop(&self) {
        if let Some(stop) = self.stop.borrow_mut().take() {
            let _ = stop.send(());
        }
    }

    /// Reports that the network may have changed, so that a silent connection counts as lost sooner.
    pub fn network_changed(&self) {
        if let Some(change) = &*self.change.borrow() {
            // A connection that is gone needs no notice.
            let _ = change.unbounded_send(());
        }
    }

    /// Closes the connection to the server.
    pub fn close(&self) {
        if let Some(mut connection) = self.connection.borrow_mut().take() {
            // Closing never waits, so the future is ready at once.
            let _ = connection.close().now_or_never();
        }
    }
}

impl Edge {
    /// Assembles an edge from its loaded parts; without a draft model guesses are looked up only. `weight_bytes` is the
    /// size of the model's file.
    pub(crate) fn assemble(
        draft: Option<Draft>,
        tokenizer: Tokenizer,
        weight_bytes: usize,
        heads: Option<Heads>,
        chat: ChatTemplate,
    ) -> Self {
        let first_token = match &draft {
            Some(draft) => draft.config().first_token(),
            None => chat.source().first_token,
        };
        Self::of(Rc::new(Shared {
            draft: draft.map(Rc::new),
            first_token,
            tokenizer,
            weight_bytes,
            heads: heads.map(Arc::new),
            chat,
            links: Links::unlimited(),
            passages: RefCell::default(),
            acceptance: Cell::new(None),
        }))
    }

    fn of(shared: Rc<Shared>) -> Self {
        Self { shared, connection: RefCell::new(None), change: RefCell::new(None), stop: Rc::default() }
    }

    fn draft_info(&self) -> DraftInfo {
        let config = self.shared.draft.as_ref().map(|draft| draft.config());
        DraftInfo {
            vocab_size: config.map_or(self.shared.tokenizer.vocab_size(), |config| config.vocab_size) as u32,
            tokenizer_hash: self.shared.tokenizer.fingerprint(),
            context_length: config.map_or(0, |config| config.context_length) as u32,
            heads: self.shared.heads.clone(),
            guess_chance: config.and_then(|config| config.guess_chance).map(GuessChance::weights),
        }
    }

    fn prompt(&self, start: &Start) -> Result<Vec<u32>, Failure> {
        let first = self.shared.first_token;
        Ok(match start {
            Start::Text(text) => self.shared.tokenizer.encode_prompt(first, text)?,
            Start::Conversation(said) => self.shared.chat.encode(&self.shared.tokenizer, first, said, local_time())?,
        })
    }
}

/// Guesses that a preview shows after the text; `None` if there are none, or a stop string has ended it.
fn shown(preview: &Preview, writing: &Writing<'_>) -> Option<GuessEvent> {
    if preview.ids().is_empty() || writing.has_stopped() {
        return None;
    }
    let (ids, text) = (preview.ids().to_vec(), writing.text_of_guesses(preview.ids()));
    Some(GuessEvent { ids, text, chance: preview.chance(), offline: preview.is_offline() })
}

/// Local time as seconds since 1970, as if the time zone were UTC, because templates print the user's date.
fn local_time() -> i64 {
    let now = js_sys::Date::new_0();
    (now.get_time() / 1e3 - now.get_timezone_offset() * 60.0) as i64
}

/// Calls a JavaScript listener. Exceptions in the listener are ignored, and the generation continues.
fn call(listener: &js_sys::Function, event: &impl serde::Serialize) {
    if let Ok(event) = to_js(event) {
        let _ = listener.call1(&JsValue::NULL, &event);
    }
}

/// Size of this module's linear memory in bytes. It never shrinks, so this is also its peak.
fn memory_bytes() -> u64 {
    const PAGE_BYTES: u64 = 1 << 16;
    core::arch::wasm32::memory_size::<0>() as u64 * PAGE_BYTES
}

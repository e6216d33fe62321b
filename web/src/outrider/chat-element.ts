/**
 * `<outrider-chat>`: a conversation as a custom element. Importing `outrider/chat-element` defines it.
 * @module chat-element
 */

import { abortion, Outrider, unlessAborted } from './index.js';
import type { GenerateOptions, LoadOptions, Message } from './index.js';

const style = `
:host { display: flex; flex-direction: column; gap: 0.5rem; block-size: 24rem; }
:host([hidden]) { display: none; }
[part='log'] { flex: 1; overflow-y: auto; display: flex; flex-direction: column; gap: 0.5rem; }
[part~='message'] { margin: 0; padding: 0.4rem 0.7rem; border: 1px solid; border-radius: 0.7rem; max-inline-size: 85%;
  align-self: flex-start; white-space: pre-wrap; overflow-wrap: anywhere; }
[part~='user'] { align-self: flex-end; }
[part='author'] { position: absolute; clip-path: inset(50%); inline-size: 1px; block-size: 1px; overflow: hidden; }
[part='error']:empty { display: none; }
[part='form'] { display: flex; gap: 0.5rem; align-items: end; }
label { flex: 1; display: flex; flex-direction: column; }
textarea { font: inherit; resize: vertical; }
button { font: inherit; }
`;

/** The accessible name of a conversation without a label. */
const unnamed = 'Conversation';

// There are no elements where a page is rendered on a server, which may import this module.
const Base = globalThis.HTMLElement ?? (class {} as typeof HTMLElement);

/**
 * A chat with the server's model, drafted in the page. Enter sends, Shift and Enter begins a line, Escape stops the
 * answer. A message without an answer comes back into the input. Its parts are `log`, `message`, `user`, `assistant`,
 * `author`, `error`, `form`, `input`, `send` and `stop`.
 *
 * | attribute | meaning |
 * |---|---|
 * | `server` | the address of the server, from the next message on; the page's own origin if not given |
 * | `system` | the system message of the conversation |
 * | `label` | the accessible name of the conversation; "Conversation" if not given |
 *
 * Events: `message` (a `CustomEvent` with the {@link Message}) after each complete message, `error` (with the error).
 *
 * ```html
 * <script type="module">import 'outrider/chat-element';</script>
 * <outrider-chat server="https://models.example.com"></outrider-chat>
 * ```
 */
export class OutriderChat extends Base {
  /** Options of `Outrider.load()` beside the attribute `server`; to be set before the element is in the page. */
  declare loadOptions: LoadOptions;
  /** Options of each answer; without `maxNewTokens` an answer may fill the context. */
  declare generateOptions: GenerateOptions;

  #messages: Message[] = [];
  #loading: Promise<Outrider> | null = null;
  /** Resolves when the last answer has ended. */
  #answering: Promise<void> = Promise.resolve();
  /** Ends the answer that is being written; null if there is none. */
  #writing: AbortController | null = null;
  readonly #log = create('div', 'log', { role: 'log', tabindex: '0', 'aria-label': unnamed });
  readonly #error = create('p', 'error', { role: 'alert' });
  readonly #input = create('textarea', 'input', { rows: '2', enterkeyhint: 'send', dir: 'auto' });
  readonly #send = create('button', 'send', { type: 'submit' }, 'Send');
  readonly #stop = create('button', 'stop', { type: 'button' }, 'Stop');

  /** @internal Takes over the properties that the page has set before this element was defined. */
  constructor() {
    super();
    this.loadOptions ??= {};
    this.generateOptions ??= {};
    const { messages } = this;
    Reflect.deleteProperty(this, 'messages');
    this.messages = messages;
  }

  /** The messages so far, without the system message. */
  get messages(): readonly Message[] {
    return [...this.#messages];
  }

  /** Replaces the conversation. */
  set messages(messages: readonly Message[]) {
    this.stop();
    this.#messages = [...messages];
    if (!this.shadowRoot) return;
    this.#setWriting(null);
    this.#log.replaceChildren();
    for (const message of messages) this.#show(message);
  }

  /** True while an answer is being written. */
  get isWriting(): boolean {
    return this.#writing !== null;
  }

  /** @internal Shows the conversation and begins to load. */
  connectedCallback(): void {
    if (!this.shadowRoot) this.#build();
    // The draft model loads while the first message is typed, with the options that the page sets meanwhile. An error
    // is shown once a message is sent.
    queueMicrotask(() => this.isConnected && this.#load().catch(() => {}));
  }

  /** @internal Stops the answer and closes the instance once the element is out of the page. */
  disconnectedCallback(): void {
    // An element that is moved is connected again at once.
    queueMicrotask(() => {
      if (this.isConnected) return;
      this.stop();
      void this.#unload();
    });
  }

  /** @internal Names of the attributes that may change while the element is in the page. */
  static readonly observedAttributes = ['server', 'label'];

  /** @internal Takes another name at once, and another server with the next message. */
  attributeChangedCallback(name: string, before: string | null, after: string | null): void {
    if (name === 'label') this.#log.setAttribute('aria-label', after ?? unnamed);
    else if (before !== after) void this.#unload();
  }

  /** Sends a message and resolves when the answer is complete. Does nothing while another answer is being written. */
  async send(text: string): Promise<void> {
    if (this.isWriting || text.trim() === '') return;
    await (this.#answering = this.#answer(text));
  }

  async #answer(text: string): Promise<void> {
    const { controller: writing, signal, forget } = abortion(this.generateOptions ?? {});
    this.#setWriting(writing);
    this.#error.textContent = '';
    const message: Message = { role: 'user', content: text };
    const messages = this.#messages;
    const asked = this.#show(message);
    const answered = this.#show({ role: 'assistant', content: '' });
    const takeBack = (): void => {
      asked.remove();
      answered.remove();
      // The text is not lost.
      this.#input.value ||= text;
    };
    try {
      const outrider = await unlessAborted(this.#load(), signal);
      const system = this.getAttribute('system');
      const prompt = [...(system ? [{ role: 'system', content: system } as const] : []), ...messages, message];
      const maxNewTokens = outrider.ranges.maxNewTokens.max;
      const generation = outrider.generate(prompt, { maxNewTokens, ...this.generateOptions, signal });
      for await (const token of generation) {
        const follows = this.#isAtEnd;
        answered.append(token.text);
        if (follows) this.#scrollToEnd();
      }
      const { text: content } = await generation.summary;
      // The page may have replaced the conversation.
      if (this.#messages !== messages) return;
      if (content === '') {
        takeBack();
        if (!signal.aborted) this.#error.textContent = 'The model has written nothing.';
        return;
      }
      const answer: Message = { role: 'assistant', content };
      this.#messages.push(message, answer);
      for (const detail of [message, answer]) this.dispatchEvent(new CustomEvent('message', { detail }));
    } catch (error) {
      takeBack();
      if (signal.aborted) return;
      this.#error.textContent = (error as Error).message;
      this.dispatchEvent(new CustomEvent('error', { detail: error }));
    } finally {
      forget();
      if (this.#writing === writing) this.#setWriting(null);
    }
  }

  /** Ends the answer that is being written. Its text so far stays. */
  stop(): void {
    this.#writing?.abort();
  }

  #load(): Promise<Outrider> {
    if (this.#loading) return this.#loading;
    const server = this.getAttribute('server') ?? undefined;
    const loading = (this.#loading = Outrider.load({ server, ...this.loadOptions }));
    // The next message tries again.
    loading.catch(() => this.#loading === loading && (this.#loading = null));
    return loading;
  }

  /** Closes the instance once the last answer has ended. The next message loads another. */
  async #unload(): Promise<void> {
    const loading = this.#loading;
    this.#loading = null;
    await this.#answering;
    await loading?.then(
      (outrider) => outrider.close(),
      () => {},
    );
  }

  #setWriting(writing: AbortController | null): void {
    this.#writing = writing;
    // Screen readers read the answer when it is complete.
    this.#log.setAttribute('aria-busy', String(writing !== null));
    if (this.shadowRoot?.activeElement === this.#stop) this.#input.focus();
    this.#send.hidden = writing !== null;
    this.#stop.hidden = writing === null;
  }

  #show({ role, content }: Message): HTMLElement {
    const text = typeof content === 'string' ? content : (content ?? []).map(({ text }) => text).join('');
    // Its direction is apart from that of the text.
    const author = create('span', 'author', { dir: 'ltr' }, role === 'user' ? 'You: ' : 'Assistant: ');
    const shown = create('p', `message ${role}`, { dir: 'auto' }, author, text);
    this.#log.append(shown);
    this.#scrollToEnd();
    return shown;
  }

  /** True if the log shows its end, up to fractions of a pixel. */
  get #isAtEnd(): boolean {
    const { scrollTop, scrollHeight, clientHeight } = this.#log;
    return scrollHeight - scrollTop - clientHeight <= 2;
  }

  #scrollToEnd(): void {
    this.#log.scrollTop = this.#log.scrollHeight;
  }

  #build(): void {
    const root = this.attachShadow({ mode: 'open' });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(style);
    root.adoptedStyleSheets = [sheet];
    const form = create(
      'form',
      'form',
      {},
      create('label', 'label', {}, 'Message', this.#input),
      this.#send,
      this.#stop,
    );
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      if (this.isWriting) return;
      const { value } = this.#input;
      this.#input.value = '';
      this.#input.focus();
      void this.send(value);
    });
    this.#input.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      form.requestSubmit();
    });
    this.addEventListener('keydown', ({ key, isComposing }) => key === 'Escape' && !isComposing && this.stop());
    this.#stop.addEventListener('click', () => this.stop());
    root.append(this.#log, this.#error, form);
    this.#setWriting(null);
    for (const message of this.#messages) this.#show(message);
  }
}

function create<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  part: string,
  attributes: Readonly<Record<string, string>>,
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  element.setAttribute('part', part);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

declare global {
  interface HTMLElementTagNameMap {
    'outrider-chat': OutriderChat;
  }
}

globalThis.customElements?.define('outrider-chat', OutriderChat);

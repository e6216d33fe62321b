import type { Guess } from '../outrider/index.js';
import { AnswerBubble, questionBubble } from './bubble-view.js';
import type { BubbleActions } from './bubble-view.js';
import type { Turn } from './conversation.js';
import { element, make } from './elements.js';
import { renderMarkdown } from './markdown.js';
import { examplePrompts, exampleQuestions } from './settings.js';
import type { Gain } from './twin.js';

/** The activity of the chat: nothing, an answer, or its twin. */
export type Phase = 'idle' | 'answering' | 'comparing';

/** The visitor's actions in the chat. */
export interface ChatActions {
  /** Sends a message; those from `editing` on, if given, are replaced. Returns false if it is not taken. */
  send(said: string, editing: number | null): boolean;
  regenerate(): void;
  stop(): void;
  forget(): void;
}

const TEMPLATE_NOTE = 'The model remembers the conversation.';
const STORY_NOTE = 'This model continues stories: write a beginning, or what happens next.';

/** The chat: bubbles, the message field, suggestions, and the gain of the last answer over its twin. */
export class ChatView {
  readonly #chat = element('chat', HTMLElement);
  readonly #log = element('chat-log', HTMLElement);
  readonly #bubbles = element('bubbles', HTMLOListElement);
  readonly #starters = element('starters', HTMLElement);
  readonly #message = element('message', HTMLTextAreaElement);
  readonly #send = element('send', HTMLButtonElement);
  readonly #stop = element('chat-stop', HTMLButtonElement);
  readonly #cancel = element('cancel-edit', HTMLButtonElement);
  readonly #spoken = element('chat-spoken', HTMLElement);
  readonly #twin = element('twin-text', HTMLElement);
  readonly #actions: ChatActions;
  readonly #bubbleActions: BubbleActions;
  #turns: readonly Readonly<Turn>[] = [];
  #editing: number | null = null;
  /** The text of the field before an edit. */
  #unsent = '';
  #phase: Phase = 'idle';
  /** The length of the answer's text that has been announced. */
  #announced = 0;
  /** True unless the reader has scrolled up: the log stays at its end when it or its content changes its size. */
  #follows = true;
  /** The position of the log that was seen last, in CSS pixels. */
  #top = 0;

  constructor(actions: ChatActions) {
    this.#actions = actions;
    this.#bubbleActions = {
      edit: (position) => {
        if (this.#phase !== 'answering') this.edit(position);
      },
      // Rejects where there is no clipboard, as without https.
      copy: async (text) => navigator.clipboard.writeText(text),
      regenerate: () => actions.regenerate(),
    };
    element('chat-form', HTMLFormElement).addEventListener('submit', (event) => {
      event.preventDefault();
      this.submit();
    });
    this.#message.addEventListener('keydown', (event) => {
      if (event.isComposing) return;
      if (event.key === 'Escape' && this.#editing !== null) {
        event.preventDefault();
        this.#endEdit();
      }
      if (event.key !== 'Enter' || event.shiftKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      this.submit();
    });
    this.#message.addEventListener('input', () => this.#fit());
    this.#log.addEventListener('scroll', () => {
      const { scrollTop, scrollHeight, clientHeight } = this.#log;
      // The event comes late: the text may have grown since the log was put to its end.
      if (scrollHeight - scrollTop - clientHeight < 48) this.#follows = true;
      else if (scrollTop < this.#top) this.#follows = false;
      this.#top = scrollTop;
    });
    const sizes = new ResizeObserver(() => this.#follows && this.#toEnd());
    for (const part of [this.#log, this.#bubbles]) sizes.observe(part);
    this.#stop.addEventListener('click', () => {
      actions.stop();
      // The text of another view, with which the button vanishes.
      if (this.#phase === 'idle') this.#message.focus();
    });
    this.#cancel.addEventListener('click', () => {
      this.#endEdit();
      this.#message.focus();
    });
    element('forget', HTMLButtonElement).addEventListener('click', () => {
      this.#endEdit();
      this.message = '';
      actions.forget();
      this.#message.focus();
    });
  }

  /** Sets the text of the message field. */
  set message(text: string) {
    this.#message.value = text;
    this.#fit();
  }

  get phase(): Phase {
    return this.#phase;
  }

  set phase(phase: Phase) {
    this.#phase = phase;
    this.#chat.dataset['phase'] = phase;
    this.#send.setAttribute('aria-disabled', String(phase === 'answering'));
    // The focus must not be on a button that vanishes.
    if (phase === 'idle' && document.activeElement === this.#stop) this.#message.focus();
  }

  /** Sends the text of the message field. */
  submit(): void {
    const said = this.#message.value.trim();
    if (said === '' || this.#phase === 'answering') return;
    if (this.#actions.send(said, this.#editing)) this.#endEdit();
  }

  /** Offers suggestions and a note that fit the server's model. */
  offer(hasTemplate: boolean): void {
    element('chat-note', HTMLElement).textContent = hasTemplate ? TEMPLATE_NOTE : STORY_NOTE;
    this.#message.placeholder = hasTemplate ? 'Ask something' : 'Begin a story';
    this.#starters.replaceChildren(
      ...(hasTemplate ? exampleQuestions : examplePrompts).map((example) => {
        const chip = make('button', { type: 'button', class: 'chip' }, example);
        chip.addEventListener('click', () => {
          if (this.#phase === 'answering') return;
          this.#message.focus();
          this.#actions.send(example, null);
        });
        return chip;
      }),
    );
  }

  /** Shows the conversation; a last turn without an answer gets an empty bubble. */
  show(turns: readonly Readonly<Turn>[]): void {
    this.#turns = turns.map((turn) => ({ ...turn }));
    this.#starters.hidden = turns.length > 0;
    const items = turns.flatMap(({ said, answer, costs = '' }, position) => {
      const bubble = new AnswerBubble(this.#bubbleActions);
      bubble.confirm(answer);
      bubble.end(costs, position === turns.length - 1);
      return [questionBubble(said, position, this.#bubbleActions), bubble.item];
    });
    // The focus must not be on a button that vanishes.
    const hadFocus = this.#bubbles.contains(document.activeElement);
    this.#bubbles.replaceChildren(...items);
    if (hadFocus) this.#log.focus({ preventScroll: true });
    this.#toEnd();
  }

  /** Begins the answer to the last message in a bubble of its own. */
  beginAnswer(): AnswerBubble {
    const bubble = new AnswerBubble(this.#bubbleActions);
    for (const again of this.#bubbles.querySelectorAll('[data-again]')) again.remove();
    this.#bubbles.lastElementChild?.replaceWith(bubble.item);
    this.#spoken.replaceChildren();
    this.#announced = 0;
    this.#toEnd();
    return bubble;
  }

  /** Shows the confirmed text of an answer. */
  confirm(bubble: AnswerBubble, text: string): void {
    bubble.confirm(text);
    this.#announce(text, false);
  }

  /** Shows guesses after an answer's confirmed text; null removes them. */
  guess(bubble: AnswerBubble, guess: Guess | null): void {
    bubble.guess(guess);
  }

  /** Ends the answer that was begun last. */
  endAnswer(bubble: AnswerBubble, text: string, costs: string): void {
    bubble.confirm(text);
    bubble.end(costs, true);
    this.#announce(text, true);
  }

  /** Shows the text of the server alone: its end while it is written. */
  showTwin(text: string, isWritten = false): void {
    this.#twin.replaceChildren(renderMarkdown(text));
    this.#twin.scrollTop = isWritten ? this.#twin.scrollHeight : 0;
  }

  /** Shows a sentence about the twin. */
  set twinSentence(sentence: string) {
    element('twin-sentence', HTMLElement).textContent = sentence;
  }

  showGain(gain: Gain): void {
    for (const name of ['speed', 'passes', 'time'] as const) {
      const [value, note] = gain[name];
      element(`gain-${name}`, HTMLElement).textContent = value;
      element(`gain-${name}-note`, HTMLElement).textContent = note;
    }
  }

  /** Puts the message at a position into the field, or another text in place of it. */
  edit(position: number, text = this.#turns[position]?.said): void {
    if (text === undefined) return;
    if (this.#editing === null) this.#unsent = this.#message.value;
    this.#editing = position;
    // The button takes some of the field's width.
    this.#cancel.hidden = false;
    this.message = text;
    this.#message.focus();
  }

  /** Ends an edit, if there is one, and empties the field, or gives back the text that the edit has replaced. */
  #endEdit(): void {
    this.#editing = null;
    this.#cancel.hidden = true;
    this.message = this.#unsent;
    this.#unsent = '';
  }

  /** Announces whole sentences of the confirmed text, each once. */
  #announce(text: string, isEnd: boolean): void {
    const rest = text.slice(this.#announced);
    const sentences = isEnd ? rest : (/^[^]*[.!?:\n](?=\s)/.exec(rest)?.[0] ?? '');
    if (sentences.trim() === '') return;
    this.#announced += sentences.length;
    this.#spoken.append(make('span', {}, sentences));
  }

  #fit(): void {
    this.#message.style.height = 'auto';
    const border = this.#message.offsetHeight - this.#message.clientHeight;
    this.#message.style.height = `${this.#message.scrollHeight + border}px`;
  }

  #toEnd(): void {
    this.#follows = true;
    this.#log.scrollTop = this.#log.scrollHeight;
    this.#top = this.#log.scrollTop;
  }
}

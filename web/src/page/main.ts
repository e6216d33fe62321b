import { Outrider, willBeAhead } from '../outrider/index.js';
import type {
  Choices,
  ConnectionEvent,
  EngineInfo,
  Generation,
  LoadProgress,
  Mode,
  NumberOption,
  Prompt,
  Round,
  Summary,
  SuspendedGeneration,
} from '../outrider/index.js';
import { ChoicesView } from './choices-view.js';
import { Conversation, shown } from './conversation.js';
import { CountersView } from './counters-view.js';
import { element } from './elements.js';
import { FieldsView } from './fields-view.js';
import { formatBytes } from './format.js';
import { showGuarantee } from './guarantee-view.js';
import { LinkView } from './link-view.js';
import { onOwnDraft, ownDraft } from './own-draft-view.js';
import { PoliciesView } from './policies-view.js';
import { defaultPolicies, guaranteeOf, optionsFrom } from './policies.js';
import type { ChosenPolicies } from './policies.js';
import { PredictionView } from './prediction-view.js';
import { sameLink } from './prediction.js';
import { RaceView } from './race-view.js';
import { lanes } from './race.js';
import { endSentence, engineSentence, modelsSentence, sentenceFor } from './sentences.js';
import { isUsed, queryFromSettings, settingsFromQuery } from './settings.js';
import { forget, keep, kept } from './suspended.js';
import { TextView } from './text-view.js';
import { UplinkView } from './uplink-view.js';

/**
 * What the page is doing, in `data-state` of the main element: `loading`, `ready`, `generating`, `finished` (with
 * `data-finish`), or `failed` (with a sentence in the alert).
 */
type State = 'loading' | 'ready' | 'generating' | 'finished' | 'failed';

/** After this long without a round the page says whom it is waiting for. */
const PATIENCE_MS = 8_000;

const main = element('main', HTMLElement);
const prompt = element('prompt', HTMLTextAreaElement);
const generateButton = element('generate', HTMLButtonElement);
const stopButton = element('stop', HTMLButtonElement);
const cloudOnlyButton = element('cloud-only', HTMLButtonElement);
const raceButton = element('race', HTMLButtonElement);
const chat = element('chat', HTMLInputElement);
const retryButton = element('retry', HTMLButtonElement);
const alert = element('alert', HTMLElement);
const status = element('status', HTMLElement);
const guarantee = element('guarantee', HTMLElement);

const settings = settingsFromQuery(new URLSearchParams(location.search));
prompt.value = settings.prompt;
const text = new TextView();
const counters = new CountersView();
const choices = new ChoicesView(settings.choices, () => {
  showUsedFields();
  promise();
  remember();
});
const fields = new FieldsView(settings.texts, remember);
const policies = new PoliciesView(settings.policies, settings.choices.scheme, () => {
  showUsedFields();
  promise();
  remember();
});
const raceView = new RaceView();
const prediction = new PredictionView(settings.link);
const uplink = new UplinkView(settings.link.uplinkBitsPerSecond);
const link = new LinkView(settings.link, (changed) => {
  outrider?.setLink(changed);
  uplink.setUplink(changed.uplinkBitsPerSecond);
  prediction.setLink(changed);
  remember();
});

let outrider: Outrider | null = null;
let generation: Generation | null = null;
let hasText = false;
const conversation = new Conversation();
/** What a page before this one was at. */
let suspended = kept();

function setState(state: State): void {
  main.dataset['state'] = state;
  // aria-disabled rather than disabled: a button that vanishes from under the focus strands the keyboard.
  const generating = state === 'generating';
  const canGenerate = outrider !== null && !generating;
  generateButton.setAttribute('aria-disabled', String(!canGenerate));
  cloudOnlyButton.setAttribute('aria-disabled', String(!canGenerate));
  raceButton.setAttribute('aria-disabled', String(!canGenerate));
  stopButton.setAttribute('aria-disabled', String(!generating));
}

/** Whether the server writes the next text, and is drafted ahead of. */
function isAhead(): boolean {
  const { scheme } = choices.choices;
  const { names, adaptiveMode } = policies.settings;
  const next = { mode: 'speculative', scheme, ...names, adaptiveMode, compareSchemes: false } as const;
  // A server that is not known yet takes guesses, as most do.
  return willBeAhead(next, outrider?.session ?? { maxGuesses: 1 });
}

function showUsedFields(): void {
  const { stopRule, gate } = policies.settings.names;
  const { scheme } = choices.choices;
  const ahead = isAhead();
  const effective = ahead ? 'ahead' : scheme;
  choices.show(effective);
  policies.setScheme(scheme, ahead);
  fields.show((option) => isUsed(option, { ...choices.choices, scheme: effective }, stopRule, gate));
}

/** Until there is a text, what is said of its guarantee is said of the next. */
function promise(): void {
  if (!hasText && policies.guarantee) showGuarantee(guarantee, policies.guarantee, true);
}

function complain(sentence: string): void {
  alert.textContent = sentence;
}

/** What is being loaded; another choice gives it up. */
let loading = new AbortController();

async function load(): Promise<void> {
  loading.abort();
  loading = new AbortController();
  const { signal } = loading;
  const draft = ownDraft();
  complain('');
  retryButton.hidden = true;
  setState('loading');
  try {
    const { build, threads } = settings.engine;
    outrider = await Outrider.load({
      link: link.link,
      signal,
      onProgress: showProgress,
      onConnection: showConnection,
      // The page says why a draft cannot run, in place of going on without.
      fallback: 'none',
      ...(suspended && { resume: suspended }),
      ...(draft && { draft }),
      build,
      ...(threads !== null && { threads }),
      ...(settings.token !== null && { token: settings.token }),
    });
    showEngine(outrider.engine);
    outrider.setLink(link.link);
    fields.limit(outrider.ranges);
    policies.offer(outrider.model.heads);
    showUsedFields();
    promise();
    const { weightBytes, memoryBytes, vocabSize, contextLength } = outrider.model;
    const size = `${formatBytes(weightBytes)} (${formatBytes(memoryBytes)} of memory)`;
    showLoad(`Draft ready: ${size}, ${vocabSize} tokens, context ${contextLength}`, null);
    setState('ready');
    if (suspended) void start(suspended.request.mode, suspended);
    suspended = null;
  } catch (error) {
    if (signal.aborted) return;
    showLoad('Not ready', null);
    complain(sentenceFor(error));
    retryButton.hidden = false;
    setState('failed');
  }
}

function showProgress(progress: LoadProgress): void {
  switch (progress.stage) {
    case 'download': {
      const { loadedBytes, totalBytes } = progress;
      const share = totalBytes ? loadedBytes / totalBytes : undefined;
      const total = totalBytes === null ? '' : ` of ${formatBytes(totalBytes)}`;
      showLoad(`Draft model: ${formatBytes(loadedBytes)}${total}`, share);
      return;
    }
    case 'prepare':
      showLoad('Preparing the draft model', undefined);
      return;
    case 'connect':
      showLoad('Connecting to the server', undefined);
  }
}

/** @param share how far, 0 to 1; undefined if nobody knows; null hides the bar */
function showLoad(words: string, share: number | undefined | null): void {
  element('load-text', HTMLElement).textContent = words;
  const bar = element('load-bar', HTMLProgressElement);
  bar.hidden = share === null;
  if (typeof share === 'number') bar.value = share;
  else bar.removeAttribute('value');
}

function showEngine(engine: EngineInfo): void {
  const shown = element('engine', HTMLElement);
  shown.dataset['build'] = engine.build;
  shown.dataset['threads'] = String(engine.threads);
  shown.textContent = engineSentence(engine);
  shown.title = engine.failed.map(({ build, message }) => `${build} did not start: ${message}`).join('\n');
}

/** Says which models these are, if the server tells. */
async function showModels(): Promise<void> {
  try {
    const response = await fetch('/v1/info');
    const { models, elsewhere } = (await response.json()) as {
      models: { target: string; draft: string };
      elsewhere?: { name: string; url: string }[];
    };
    const shown = element('models', HTMLElement);
    shown.textContent = modelsSentence(models);
    for (const { name, url } of elsewhere ?? []) {
      const link = document.createElement('a');
      link.href = url;
      link.textContent = `Try ${name}`;
      shown.append(' ', link, '.');
    }
    shown.hidden = false;
  } catch {
    // Those who need a token for it, and other servers, tell nothing: the page works without.
  }
}

/** What the user may want to know of the connection while a text is written. */
function showConnection(event: ConnectionEvent): void {
  main.dataset['connection'] = event.state;
  status.textContent =
    event.state === 'reconnecting' ? 'The connection is lost; connecting again' : 'Connected again';
}

/** What a run is asked for. */
interface Task {
  prompt: Prompt;
  mode: Mode;
  values: Partial<Record<NumberOption, number>>;
  choices: Choices;
  /** Null for the server alone, which needs none. */
  policies: ChosenPolicies | null;
  /** Whether to compute what other schemes would have cost, where there are rounds. */
  compares: boolean;
}

/** The numbers of the form; null if one is out of range, which the page then says. */
function readNumbers(): Task['values'] | null {
  complain('');
  const options = fields.read();
  if (!('reason' in options)) return options.values;
  complain(options.reason);
  return null;
}

/**
 * Runs what the form asks for.
 * @param before a generation to go on with, in place of a new one
 */
async function start(mode: Mode, before: SuspendedGeneration | null = null): Promise<void> {
  if (!outrider || generation) return;
  const values = readNumbers();
  if (!values) return;
  const chosen = mode === 'speculative' ? policies.read() : null;
  if (chosen && 'reason' in chosen) return complain(chosen.reason);
  const prompted = before?.request.prompt ?? nextPrompt();
  const task = { prompt: prompted, mode, values, choices: choices.choices, policies: chosen, compares: true };
  const summary = await run(task, () => {}, before);
  if (!summary || typeof prompted === 'string') return;
  conversation.answered(prompted, summary.text);
  chat.checked = true;
  prompt.value = '';
}

/** What is gone on from: the prompt, or the conversation with it. */
function nextPrompt(): Prompt {
  return chat.checked ? conversation.with(prompt.value) : prompt.value;
}

/** Runs the lanes one after the other: at once they would take the processor from each other. */
async function race(): Promise<void> {
  if (!outrider || generation) return;
  const values = readNumbers();
  if (!values) return;
  // The form may change while they run.
  const prompted = nextPrompt();
  const linkAtFirst = link.link;
  raceView.begin(values.maxNewTokens ?? 1);
  for (const { name, mode, scheme } of lanes) {
    if (name === 'ahead' && outrider.session.maxGuesses === 0) {
      raceView.skip(name, 'This server takes no guesses: it cannot be drafted ahead of.');
      continue;
    }
    const summary = await run(
      {
        prompt: prompted,
        mode,
        values,
        choices: { ...choices.choices, scheme },
        policies: mode === 'speculative' ? defaultPolicies() : null,
        compares: false,
      },
      (round) => raceView.add(name, round),
    );
    if (!summary || summary.finish === 'cancelled') break;
    raceView.finish(name, summary);
  }
  raceView.end(!sameLink(linkAtFirst, link.link));
}

/**
 * Runs a task, and shows all of it.
 * @param before a generation to go on with, in place of a new one
 * @returns null if it failed
 */
async function run(
  task: Task,
  onRound: (round: Round) => void,
  before: SuspendedGeneration | null = null,
): Promise<Summary | null> {
  if (!outrider) return null;
  const { mode, values, policies: chosenPolicies } = task;
  delete main.dataset['finish'];
  const linkAtFirst = link.link;
  const { rule, gate, stopRule } = chosenPolicies?.policies ?? defaultPolicies().policies;
  const asked = {
    mode,
    scheme: task.choices.scheme,
    rule: rule.name,
    gate: gate.name,
    stopRule: stopRule.name,
    adaptiveMode: chosenPolicies?.adaptiveMode ?? false,
    maxInFlight: values.maxInFlight ?? 1,
    compareSchemes: false,
  };
  const ahead = willBeAhead(before?.request ?? asked, outrider.session);
  const chosen = {
    ...task.choices,
    ...{ rule: rule.name, gate: gate.name, stopRule: stopRule.name },
    adaptiveMode: chosenPolicies?.adaptiveMode ?? false,
    maxInFlight: values.maxInFlight ?? 1,
    isAhead: ahead,
  };
  text.begin(shown(task.prompt));
  counters.show(null, mode, chosen);
  if (chosenPolicies) {
    uplink.begin(chosen);
    prediction.begin(chosenPolicies, chosen.maxInFlight, ahead);
  }
  hasText = true;
  showGuarantee(guarantee, guaranteeOf(chosenPolicies, ahead), true);
  const waiting = new Patience(() => {
    status.textContent = `No answer from the server for ${PATIENCE_MS / 1000} s. Keep waiting, or press Stop.`;
  });
  const progress = ahead
    ? 'The server writes, and is drafted ahead of'
    : mode === 'speculative'
      ? 'Drafting and verifying'
      : 'The server decodes alone';
  try {
    generation = before
      ? outrider.resume(before)
      : outrider.generate(task.prompt, {
          ...values,
          ...task.choices,
          ...(chosenPolicies && optionsFrom(chosenPolicies)),
          compareSchemes: task.compares && !ahead,
          mode,
        });
    setState('generating');
    status.textContent = progress;
    waiting.renew();
    for await (const round of generation.rounds()) {
      waiting.renew();
      if (status.textContent !== progress) status.textContent = progress;
      keep(generation.suspend());
      text.add(round);
      onRound(round);
      counters.show(round.statistics, mode, chosen);
      link.show(round.statistics);
      uplink.add(round);
      if (mode === 'speculative') prediction.add(round);
    }
    const summary = await generation.summary;
    if (summary.tokens > 0) counters.show(summary, mode, chosen);
    counters.keep(summary, mode, ahead);
    // A link that changed meanwhile was two links.
    if (mode === 'cloud-only' && sameLink(linkAtFirst, link.link)) {
      prediction.compareWith(summary, linkAtFirst);
    }
    main.dataset['finish'] = summary.finish;
    status.textContent = endSentence(summary);
    generation = null;
    setState('finished');
    return summary;
  } catch (error) {
    generation = null;
    status.textContent = '';
    complain(sentenceFor(error));
    setState('failed');
    return null;
  } finally {
    forget();
    waiting.end();
    text.end();
    uplink.end();
  }
}

/** Calls back when nothing has renewed it for {@link PATIENCE_MS}. */
class Patience {
  readonly #exhausted: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(exhausted: () => void) {
    this.#exhausted = exhausted;
  }

  renew(): void {
    this.end();
    this.#timer = setTimeout(this.#exhausted, PATIENCE_MS);
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

/** Keeps the settings in the page's address, so that a reload or a link repeats them. */
function remember(): void {
  const query = queryFromSettings({
    prompt: prompt.value,
    texts: fields.texts,
    choices: choices.choices,
    policies: policies.settings,
    link: link.link,
    engine: settings.engine,
    token: settings.token,
  }).toString();
  // Browsers allow a limited number of these per second; sliders exceed it.
  clearTimeout(rememberTimer);
  rememberTimer = setTimeout(() => {
    history.replaceState(null, '', query === '' ? location.pathname : `?${query}`);
  }, 300);
}
let rememberTimer: ReturnType<typeof setTimeout> | undefined;

element('compose', HTMLFormElement).addEventListener('submit', (event) => {
  event.preventDefault();
  void start('speculative');
});
cloudOnlyButton.addEventListener('click', () => void start('cloud-only'));
raceButton.addEventListener('click', () => void race());
stopButton.addEventListener('click', () => generation?.stop());
retryButton.addEventListener('click', () => void load());
onOwnDraft(() => {
  outrider?.close();
  outrider = null;
  void load();
});
prompt.addEventListener('input', remember);
chat.addEventListener('change', () => conversation.forget());
document.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    void start('speculative');
  } else if (event.key === 'Escape') {
    generation?.stop();
  }
});

showUsedFields();
void showModels();
void load();

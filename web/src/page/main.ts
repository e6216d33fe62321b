// The page's entry: creates the views, and connects them with what a visitor does.

import { Outrider, OutriderError, willBeAhead } from '../outrider/index.js';
import type { ConnectionEvent, Mode } from '../outrider/index.js';
import { BreakEvenView } from './break-even-view.js';
import { ChatRun } from './chat-run.js';
import type { ChatTask } from './chat-run.js';
import { ChoicesView } from './choices-view.js';
import { CountersView } from './counters-view.js';
import { element, make } from './elements.js';
import { FieldsView } from './fields-view.js';
import { formatBytes } from './format.js';
import { showGuarantee } from './guarantee-view.js';
import { LinkView } from './link-view.js';
import { askModels, askTemplate, isRefused, LoadView } from './loader.js';
import { MenuView } from './menu-view.js';
import { keepForOffline } from './offline.js';
import { beginWith, onOwnDraft, ownDraft, ownDraftAddress } from './own-draft-view.js';
import { PictureView } from './picture-view.js';
import { PoliciesView } from './policies-view.js';
import { PredictionView } from './prediction-view.js';
import { runRace } from './race-run.js';
import { RaceView } from './race-view.js';
import { Runner } from './runner.js';
import type { Task } from './runner.js';
import { RunsView } from './runs-view.js';
import {
  awaySentence,
  cutSentence,
  offlineSentence,
  originRefusedSentence,
  reconnectingSentence,
  sentenceFor,
} from './sentences.js';
import { examplePrompts, isUsed, queryFromSettings, settingsFromQuery } from './settings.js';
import { complain, report, setConnection, setState, withdraw } from './stage.js';
import { accessToken, forget, kept } from './suspended.js';
import type { Kept } from './suspended.js';
import { TextView } from './text-view.js';
import { TimelineView } from './timeline-view.js';
import { UplinkView } from './uplink-view.js';
import { ViewsView } from './views-view.js';

const prompt = element('prompt', HTMLTextAreaElement);
const evidence = element('evidence', HTMLInputElement);
const retryButton = element('retry', HTMLButtonElement);
const query = new URLSearchParams(location.search);
const settings = settingsFromQuery(query);
const token = accessToken(settings.token);
if (query.has('token')) {
  // The address may be copied, and the token must not go with it.
  query.delete('token');
  history.replaceState(null, '', `${location.pathname}?${query}${location.hash}`);
}
prompt.value = settings.prompt;
evidence.checked = settings.evidence;
beginWith(settings.draft);

const changed = (): void => {
  showUsedFields();
  promise();
  remember();
};
new MenuView();
const picture = new PictureView();
const load = new LoadView();
const choices = new ChoicesView(settings.choices, changed);
const fields = new FieldsView(settings.texts, remember);
const policies = new PoliciesView(settings.policies, settings.choices.scheme, changed);
const uplink = new UplinkView(settings.link.uplinkBitsPerSecond);
const prediction = new PredictionView(settings.link);
const breakEven = new BreakEvenView(settings.link);
const raceView = new RaceView();
const runner = new Runner(
  {
    ...{ text: new TextView(), counters: new CountersView(), uplink, prediction, picture },
    ...{ timeline: new TimelineView(), runs: new RunsView(), breakEven },
  },
  () => link.link,
);
const link = new LinkView(settings.link, (changed) => {
  outrider?.setLink(changed);
  runner.linkChanged();
  uplink.setUplink(changed.uplinkBitsPerSecond);
  prediction.setLink(changed);
  breakEven.setLink(changed);
  remember();
});
const chat = new ChatRun(runner, chatTask, isAhead, () => askTemplate(token));
const tabs = new ViewsView(() => {
  showView();
  // An entry of the history may have earlier settings.
  writeAddress();
});

let outrider: Outrider | null = null;
/** The generation of an earlier page, to be resumed. */
let suspended = kept();
// A reload during a comparison does not go on with it.
if (suspended?.generation.request.mode === 'cloud-only' && tabs.view === 'chat') {
  suspended = null;
  forget();
}

/** Decides whether the next text is drafted ahead of the server. */
function isAhead(): boolean {
  const { scheme } = choices.choices;
  const { names, adaptiveMode } = policies.settings;
  const next = { mode: 'speculative', scheme, ...names, adaptiveMode, compareSchemes: evidence.checked } as const;
  // Most servers take guesses; assume it until the server is known.
  return willBeAhead(next, outrider?.session ?? { maxGuesses: 1 });
}

function showUsedFields(): void {
  const { stopRule, gate } = policies.settings.names;
  const { scheme } = choices.choices;
  const ahead = isAhead();
  const effective = ahead ? 'ahead' : scheme;
  choices.show(effective);
  policies.setScheme(scheme, ahead, outrider?.session.ownDraws ?? false);
  fields.show((option) => isUsed(option, { ...choices.choices, scheme: effective }, stopRule, gate));
}

/** Shows the guarantee of the next text until there is a text. */
function promise(): void {
  if (!runner.hasText && policies.guarantee) {
    showGuarantee(element('guarantee', HTMLElement), policies.guarantee, true);
  }
}

/** Applies what differs between the views: the place of messages, and the conversation. */
function showView(): void {
  const place = tabs.view === 'chat' ? 'chat-messages' : 'compose-messages';
  element(place, HTMLElement).append(element('messages', HTMLElement));
  // The laboratory has everything at hand.
  element('rates', HTMLDetailsElement).open = tabs.view === 'laboratory';
  if (tabs.view === 'chat') void chat.open();
}

/** True if the page is from its own cache and the server does not answer. */
async function isAway(): Promise<boolean> {
  if (!navigator.serviceWorker?.controller) return false;
  return fetch('healthz', { cache: 'no-store' }).then(
    () => false,
    () => true,
  );
}

/** Aborts the current load when another model is chosen. */
let loading = new AbortController();

async function begin(): Promise<void> {
  loading.abort();
  loading = new AbortController();
  const { signal } = loading;
  const draft = ownDraft();
  complain('');
  retryButton.hidden = true;
  setState('loading', false);
  chat.outrider = null;
  setConnection(null);
  load.begin();
  try {
    const { engine, build, threads } = settings.engine;
    let refusal: OutriderError | null = null;
    const loaded = await Outrider.load({
      link: link.link,
      signal,
      onProgress: (progress) => load.progress(progress),
      onConnection: showConnection,
      onFallback: (reason) => (refusal = reason),
      offline: true,
      ...(suspended && { resume: suspended.generation }),
      ...(draft && { draft }),
      engine,
      onEngine: (engine) => load.drafts(engine),
      build,
      ...(threads !== null && { threads }),
      ...(token !== null && { token }),
    });
    signal.addEventListener('abort', () => void loaded.close());
    // The chat does not wait: the server writes alone until the draft model joins, in the middle of an answer as well.
    fields.limit(loaded.ranges);
    policies.offer(loaded.model.heads);
    if (!suspended) chat.outrider = loaded;
    await loaded.ready;
    if (refusal) throw refusal as OutriderError;
    if (signal.aborted) return;
    outrider = loaded;
    outrider.setLink(link.link);
    fields.limit(outrider.ranges);
    policies.offer(outrider.model.heads);
    showUsedFields();
    promise();
    load.ready(outrider.engine, outrider.model);
    picture.setDraft(formatBytes(outrider.model.weightBytes));
    if (!runner.isRunning) setState('ready', true);
    if (outrider.offline) goOffline();
    else void keepForOffline(outrider.engine.build);
    const before = suspended;
    suspended = null;
    if (before && (await chat.isOwn(before))) {
      chat.outrider = outrider;
      return chat.resume(before);
    }
    chat.outrider = outrider;
    if (before) void start(before.generation.request.mode, before);
  } catch (error) {
    if (signal.aborted) return;
    load.failed();
    complain(navigator.onLine && !(await isAway()) ? sentenceFor(error) : offlineSentence);
    const isUnreachable = error instanceof OutriderError && error.code === 'connection-failed';
    if (isUnreachable && (await isRefused())) complain(originRefusedSentence);
    retryButton.hidden = false;
    setState('failed', false);
  }
}

/** Says that the draft model writes without the server. */
function goOffline(): void {
  setConnection('offline');
  complain(awaySentence);
  retryButton.hidden = false;
}

/** Reports changes of the connection while a text is written. */
function showConnection({ state }: ConnectionEvent): void {
  setConnection(state);
  // The time of an outage is not the draft's.
  if (state === 'reconnecting') runner.linkChanged();
  report(state === 'reconnecting' ? reconnectingSentence : 'Connected again');
  if (state === 'resumed') retryButton.hidden = true;
}

/** Reads the numbers of the form; null if one is out of range, which the page then reports. */
function readNumbers(): Task['values'] | null {
  complain('');
  const options = fields.read();
  return 'reason' in options ? refuse(options) : options.values;
}

/** Reports a setting that is out of range, and the view that has it. */
function refuse({ reason }: { reason: string }): null {
  refusal = tabs.view === 'laboratory' ? reason : `${reason} Change it in the Laboratory.`;
  complain(refusal);
  return null;
}

/** The last reported setting. */
let refusal = '';
document.addEventListener('change', () => withdraw(refusal));

/**
 * Runs a generation with the settings of the form.
 * @param before a generation to resume instead of a new one
 */
async function start(mode: Mode, before: Kept | null = null, given?: string): Promise<void> {
  if (!outrider || runner.isRunning) return;
  const values = readNumbers();
  if (!values) return;
  const chosen = mode === 'speculative' ? policies.read() : null;
  if (chosen && 'reason' in chosen) return void refuse(chosen);
  writeAddress();
  const asked = before?.generation.request.prompt ?? given ?? prompt.value;
  const explains = evidence.checked && mode === 'speculative';
  // The server's probabilities of drafts exist in rounds only.
  const scheme = explains && choices.choices.scheme === 'auto' ? 'k-sqs' : choices.choices.scheme;
  await runner.run(
    outrider,
    {
      ...{ prompt: asked, mode, values, choices: { ...choices.choices, scheme }, policies: chosen },
      ...{ compares: true, evidence: explains },
    },
    () => {},
    before,
  );
}

/** The settings of an answer in the chat; null if one is out of range. */
function chatTask(): ChatTask | null {
  const values = readNumbers();
  if (!values) return null;
  const chosen = policies.read();
  if ('reason' in chosen) return refuse(chosen);
  writeAddress();
  return { values, choices: choices.choices, policies: chosen };
}

async function race(): Promise<void> {
  if (!outrider || runner.isRunning) return;
  if (link.link.isCut) return complain(cutSentence);
  const values = readNumbers();
  if (!values) return;
  writeAddress();
  // The form may change while they run.
  const asked = { prompt: prompt.value, values, choices: choices.choices };
  await runRace(outrider, runner, raceView, asked, () => link.link);
}

/** Does the main action of the view. */
function act(): void {
  if (tabs.view === 'chat') chat.submit();
  else void (tabs.view === 'race' ? race() : start('speculative'));
}

/** Keeps the settings in the page's address, so that a reload or a link repeats them. */
function remember(): void {
  // Browsers allow a limited number of these per second; sliders exceed it.
  clearTimeout(rememberTimer);
  rememberTimer = setTimeout(writeAddress, 300);
}

function writeAddress(): void {
  clearTimeout(rememberTimer);
  const query = queryFromSettings({
    prompt: prompt.value,
    texts: fields.texts,
    choices: choices.choices,
    policies: policies.settings,
    link: link.link,
    engine: settings.engine,
    evidence: evidence.checked,
    draft: ownDraftAddress(),
    token: null,
  }).toString();
  history.replaceState(null, '', `${location.pathname}${query && `?${query}`}#${tabs.view}`);
}
let rememberTimer: ReturnType<typeof setTimeout> | undefined;

for (const example of examplePrompts) {
  const button = make('button', { type: 'button' }, example);
  button.addEventListener('click', () => {
    prompt.value = example;
    remember();
  });
  element('examples', HTMLElement).append(button);
}
element('compose', HTMLFormElement).addEventListener('submit', (event) => {
  event.preventDefault();
  void start('speculative');
});
element('cloud-only', HTMLElement).addEventListener('click', () => void start('cloud-only'));
element('race', HTMLElement).addEventListener('click', () => void race());
element('stop', HTMLElement).addEventListener('click', () => runner.stop());
element('continue', HTMLElement).addEventListener('click', () => {
  if (runner.continuation !== null) void start('speculative', null, runner.continuation);
});
// A new start would end the text that is being written.
retryButton.addEventListener('click', () => !runner.isRunning && void begin());
addEventListener('online', () => {
  if (!retryButton.hidden && !runner.isRunning) void begin();
});
onOwnDraft(() => {
  outrider = null;
  remember();
  void begin();
});
prompt.addEventListener('input', remember);
evidence.addEventListener('change', changed);
document.addEventListener('keydown', (event) => {
  if (event.isComposing || event.defaultPrevented) return;
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    act();
  } else if (event.key === 'Escape') {
    runner.stop();
  }
});

if (tabs.view === 'chat') void chat.open(query.get('prompt'));
showView();
showUsedFields();
void begin();
// After the package, to which the answer belongs that came with the page.
void askModels(token).then((told) => told && picture.setModels(told.models, told.elsewhere));

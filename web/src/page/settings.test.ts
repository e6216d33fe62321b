import { expect, test } from 'vitest';
import {
  choiceDefaults,
  codes,
  downlinks,
  goals,
  generationDefaults,
  generationRanges,
  policyOptions,
  schemes,
  verifications,
} from '../outrider/index.js';
import { openLink } from '../outrider/index.js';
import type { Choices, Code, Downlink, Goal, NumberOption, Scheme, Verification } from '../outrider/index.js';
import {
  defaultSettings,
  fields,
  isUsed,
  parseField,
  queryFromSettings,
  selects,
  settingsFromQuery,
  stepped,
} from './settings.js';

test('every option has exactly one field', () => {
  expect(fields.map(({ option }) => option).sort()).toEqual(Object.keys(generationDefaults).sort());
  expect(selects.map(({ option }) => option).sort()).toEqual(Object.keys(choiceDefaults).sort());
});

test('names in the address are all different', () => {
  const names = [
    ...['prompt', 'uplink', 'downlink', 'roundTrip', 'build', 'threads'],
    ...fields.map(({ option }) => option),
    ...selects.map(({ id }) => id),
    ...Object.entries(policyOptions).flatMap(([option, { parameter }]) => [option, parameter]),
    'adaptiveMode',
  ];
  expect(new Set(names).size).toBe(names.length);
});

test('the defaults need no query', () => {
  expect(queryFromSettings(defaultSettings()).toString()).toBe('');
  expect(settingsFromQuery(new URLSearchParams())).toEqual(defaultSettings());
});

test('settings come back from their query', () => {
  const settings = defaultSettings();
  settings.prompt = 'The fox & the crow = ?';
  settings.texts.temperature = '0';
  settings.texts.supportSize = 'many';
  settings.policies.names.rule = 'opt';
  settings.policies.texts.rule = '0.7';
  settings.link = { ...settings.link, uplinkBitsPerSecond: 20_000, roundTripMs: 300 };
  settings.engine = { engine: 'webgpu', build: 'simd128-threads', threads: 2 };
  settings.evidence = true;
  settings.draft = 'https://models.example/draft.gguf';
  expect(settingsFromQuery(new URLSearchParams(queryFromSettings(settings).toString()))).toEqual(settings);
});

test('a decimal comma is a point', () => {
  const range = { min: 0, max: 5, integer: false };
  expect(parseField({ label: 'Temperature' }, '0,7', range)).toBe(0.7);
  expect(parseField({ label: 'Temperature' }, '1,000,0', range)).toEqual({ reason: 'Temperature must be a number.' });
});

test('a whole number has no comma and no point, which may separate thousands', () => {
  const range = { min: 1, max: 4096, integer: true };
  for (const text of ['1,000', '1.000', '1.0']) {
    const reason = 'Length must be a whole number without a comma or a point.';
    expect(parseField({ label: 'Length' }, text, range)).toEqual({ reason });
  }
  expect(parseField({ label: 'Length' }, '1000', range)).toBe(1000);
});

test('the access token is read from an address, and written into none', () => {
  const settings = settingsFromQuery(new URLSearchParams('token=0123456789abcdef&seed=2'));
  expect(settings.token).toBe('0123456789abcdef');
  expect(queryFromSettings(settings).toString()).toBe('seed=2');
});

test('every choice comes back from its query', () => {
  for (const scheme of Object.keys(schemes) as Scheme[]) {
    for (const code of Object.keys(codes) as Code[]) {
      for (const downlink of Object.keys(downlinks) as Downlink[]) {
        for (const goal of Object.keys(goals) as Goal[]) {
          for (const verification of Object.keys(verifications) as Verification[]) {
            const settings = { ...defaultSettings(), choices: { scheme, code, downlink, goal, verification } };
            settings.texts.stepSize = '0.5';
            const query = new URLSearchParams(queryFromSettings(settings).toString());
            expect(settingsFromQuery(query)).toEqual(settings);
          }
        }
      }
    }
  }
});

test('a name that is none is the default', () => {
  const query = new URLSearchParams('scheme=toString&code=zip&afterRejection=&downlink=sampled&build=fast&threads=1.5');
  expect(settingsFromQuery(query)).toEqual(defaultSettings());
});

test('only what the scheme uses is shown', () => {
  const everywhere = [
    ...['temperature', 'topP', 'topK', 'seed', 'maxNewTokens'],
    ...['draftTemperature', 'draftLength', 'maxInFlight'],
  ];
  const shown = (choices: Partial<Choices>): string[] => {
    const all = { ...choiceDefaults, ...choices };
    return [...selects, ...fields]
      .filter(({ option }) => isUsed(option, all))
      .map(({ option }) => option)
      .filter((option) => option !== 'scheme' && !everywhere.includes(option))
      .sort();
  };
  for (const option of everywhere) expect(isUsed(option as NumberOption, choiceDefaults)).toBe(true);
  expect(isUsed('scheme', choiceDefaults)).toBe(true);
  expect(shown({ scheme: 'dense' })).toEqual(['verification']);
  expect(shown({ scheme: 'qs' })).toEqual(['bitBudget', 'code', 'latticeResolution', 'verification']);
  const kSqs = ['bitBudget', 'code', 'latticeResolution', 'supportSize', 'verification'];
  expect(shown({ scheme: 'k-sqs' })).toEqual(kSqs);
  expect(shown({ scheme: 'c-sqs' })).toEqual([
    ...['bitBudget', 'code', 'droppedMassTarget', 'initialThreshold'],
    ...['latticeResolution', 'stepSize', 'verification'],
  ]);
  expect(shown({ scheme: 'tk-slt' })).toEqual(['supportSize', 'verification']);
  expect(shown({ scheme: 'dssd' })).toEqual(['downlink', 'downlinkSamples']);
  expect(shown({ scheme: 'dssd', downlink: 'full' })).toEqual(['downlink']);
  expect(shown({ scheme: 'coupled' })).toEqual([]);
  expect(shown({ scheme: 'auto' })).toEqual([...kSqs, 'goal'].sort());
  expect(shown({ scheme: 'ahead' })).toEqual(['candidates', 'goal', 'groupSize', 'lead', 'patience']);
  const ahead = fields.filter(({ option }) => isUsed(option, { ...choiceDefaults, scheme: 'ahead' }));
  expect(new Set(ahead.map(({ group }) => group))).toEqual(new Set(['sampling', 'drafting']));
});

test('γ is shown to the stop rules that go by it', () => {
  const shown = (stopRule?: string) => isUsed('draftLength', choiceDefaults, stopRule);
  expect([shown(), shown('fixed'), shown('odld')]).toEqual([true, true, true]);
  expect([shown('adaedl'), shown('specdec'), shown('bild')]).toEqual([false, false, false]);
});

test('rounds in flight are shown where no gate lets tokens pass', () => {
  const shown = (gate?: string) => isUsed('maxInFlight', choiceDefaults, 'fixed', gate);
  expect([shown(), shown('none'), shown('sprinter'), shown('token-cascade')]).toEqual([true, true, false, false]);
});

test('a step stays inside the range, without binary fractions', () => {
  const step = (option: NumberOption, value: number, direction: 1 | -1): number => {
    const field = fields.find((candidate) => candidate.option === option);
    if (!field) throw new Error('no such field');
    return stepped(field, value, generationRanges[option], direction);
  };
  expect(step('temperature', 0.2, 1)).toBe(0.3);
  expect(step('temperature', 0, -1)).toBe(0);
  expect(step('droppedMassTarget', 0.0005, 1)).toBe(0.001);
  expect(step('droppedMassTarget', 0.9996, 1)).toBe(0.9996);
  expect(step('stepSize', 0.001, -1)).toBe(0);
  expect(step('stepSize', 0, -1)).toBe(0);
  expect(step('downlinkSamples', 64, 1)).toBe(64);
});

test('a senseless link in the query is no link', () => {
  const { link } = settingsFromQuery(new URLSearchParams('uplink=-3&downlink=fast&roundTrip=NaN'));
  expect(link).toEqual(openLink);
});

test('a field that hangs on others may be empty', () => {
  const field = fields.find(({ option }) => option === 'draftTemperature');
  if (!field) throw new Error('no such field');
  expect(defaultSettings().texts.draftTemperature).toBe('');
  expect(parseField(field, ' ', generationRanges.draftTemperature)).toBeNull();
  expect(parseField(field, '0', generationRanges.draftTemperature)).toBe(0);
});

test('a field without a default of its own may be empty, others not', () => {
  const range = { min: 1, max: 16, integer: true };
  expect(parseField({ label: 'Samples' }, '', range)).toEqual({ reason: 'Samples needs a number.' });
});

test('a field says why it is wrong', () => {
  const field = fields.find(({ option }) => option === 'draftLength');
  if (!field) throw new Error('no such field');
  const range = { min: 1, max: 16, integer: true };
  expect(parseField(field, ' 4 ', range)).toBe(4);
  expect(parseField(field, '', range)).toBeNull();
  expect(parseField(field, 'four', range)).toEqual({ reason: 'Draft length must be a number.' });
  expect(parseField(field, '1.5', range)).toEqual({
    reason: 'Draft length must be a whole number without a comma or a point.',
  });
  expect(parseField(field, '0', range)).toEqual({ reason: 'Draft length must be at least 1.' });
  expect(parseField(field, '17', range)).toEqual({ reason: 'Draft length must be at most 16.' });
});

import { expect, test } from 'vitest';
import { generationDefaults, generationRanges, reasonAgainst } from '../outrider/index.js';
import { defaultSettings, fields, parseField, queryFromSettings, settingsFromQuery } from './settings.js';

test('every number option has exactly one field, and a default inside its range', () => {
  expect(fields.map(({ option }) => option).sort()).toEqual(Object.keys(generationDefaults).sort());
  for (const { option } of fields) {
    expect(reasonAgainst(generationDefaults[option], generationRanges[option])).toBeNull();
  }
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
  settings.link = { uplinkBitsPerSecond: 20_000, downlinkBitsPerSecond: null, roundTripMs: 300 };
  expect(settingsFromQuery(new URLSearchParams(queryFromSettings(settings).toString()))).toEqual(settings);
});

test('a senseless link in the query is no link', () => {
  const { link } = settingsFromQuery(new URLSearchParams('uplink=-3&downlink=fast&roundTrip=NaN'));
  expect(link).toEqual({ uplinkBitsPerSecond: null, downlinkBitsPerSecond: null, roundTripMs: 0 });
});

test('a field says why it is wrong', () => {
  const field = fields.find(({ option }) => option === 'draftLength');
  if (!field) throw new Error('no such field');
  const range = { min: 1, max: 16, integer: true };
  expect(parseField(field, ' 4 ', range)).toBe(4);
  expect(parseField(field, '', range)).toEqual({ reason: 'Draft length needs a number.' });
  expect(parseField(field, 'four', range)).toEqual({ reason: 'Draft length must be a number.' });
  expect(parseField(field, '1.5', range)).toEqual({ reason: 'Draft length must be a whole number.' });
  expect(parseField(field, '0', range)).toEqual({ reason: 'Draft length must be at least 1.' });
  expect(parseField(field, '17', range)).toEqual({ reason: 'Draft length must be at most 16.' });
});

import { expect, test } from 'vitest';
import { Conversation, said, turnsFrom } from './conversation.js';

const shown = (prompt: Parameters<typeof said>[0]) =>
  said(prompt)
    .map(({ who, text }) => (who ? `${who}: ${text}` : text))
    .join('');

test('a conversation grows by what is said and answered', () => {
  const conversation = new Conversation();
  conversation.say('Hello');
  expect(conversation.prompt(true)).toEqual([{ role: 'user', content: 'Hello' }]);
  conversation.answer(' Hi. ');
  conversation.say('Why?');
  expect(shown(conversation.prompt(true))).toBe('You: Hello\n\nModel: Hi.\n\nYou: Why?\n\nModel: ');
  conversation.cut(0);
  conversation.say('Hello');
  expect(conversation.prompt(true)).toEqual([{ role: 'user', content: 'Hello' }]);
});

test('without a form for conversations both go on with one story', () => {
  const conversation = new Conversation();
  conversation.say('Once upon a time');
  expect(conversation.prompt(false)).toBe('Once upon a time');
  conversation.answer(' there was a fox.\n');
  conversation.say('It was hungry');
  expect(conversation.prompt(false)).toBe('Once upon a time there was a fox. It was hungry');
  conversation.cut(0);
  conversation.say(' A king ');
  expect(conversation.prompt(false)).toBe('A king');
});

test('an answer that is to be written again is asked for with the same prompt', () => {
  const conversation = new Conversation();
  conversation.say('Hello');
  conversation.answer('Hi.');
  conversation.say('Why?');
  const prompts = [conversation.prompt(true), conversation.prompt(false)];
  conversation.answer(' Because.', '3 tokens');
  conversation.unanswer();
  expect([conversation.prompt(true), conversation.prompt(false)]).toEqual(prompts);
  expect(conversation.turns.at(-1)).toEqual({ said: 'Why?', answer: '' });
});

test('a message whose answer failed is no part of later prompts', () => {
  const conversation = new Conversation();
  conversation.say('word '.repeat(3000));
  conversation.say('Hello');
  expect(conversation.prompt(true)).toEqual([{ role: 'user', content: 'Hello' }]);
  expect(conversation.prompt(false)).toBe('Hello');
});

test('stored turns survive, and what is no turn does not stop the page', () => {
  const conversation = new Conversation();
  conversation.say('Hello');
  conversation.answer('Hi.', '2 tokens');
  const stored = JSON.stringify(conversation.turns);
  expect(new Conversation(turnsFrom(stored)).turns).toEqual(conversation.turns);
  for (const broken of [null, '', '{', '{}', '[1, null, {"said": 2}]']) expect(turnsFrom(broken)).toEqual([]);
});

test('what tools have to do with is shown as far as it is text', () => {
  const calls = [{ function: { name: 'f', arguments: {} } }];
  const part = { type: 'text', text: '4' } as const;
  const text = shown([
    { role: 'assistant', content: null, tool_calls: calls },
    { role: 'assistant', tool_calls: calls },
    { role: 'tool', content: [part, part] },
  ]);
  expect(text).toBe('Model: \n\nModel: \n\nTool: 44\n\nModel: ');
});

test('a text is shown as it is', () => expect(shown('Once')).toBe('Once'));

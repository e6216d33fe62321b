'use client';

import { useEffect, useState } from 'react';
import type { FormEvent } from 'react';
import { useChat } from '@ai-sdk/react';
import { DirectChatTransport, ToolLoopAgent } from 'ai';
import { createOutrider } from 'outrider/ai-sdk';
import type { OutriderMetadata } from 'outrider/ai-sdk';

// Made once, also where Next.js renders the page; nothing is loaded there.
const outrider = createOutrider({ server: process.env.NEXT_PUBLIC_OUTRIDER_SERVER ?? 'http://127.0.0.1:8787' });
const transport = new DirectChatTransport({
  agent: new ToolLoopAgent({ model: outrider(), maxOutputTokens: 200 }),
  messageMetadata: ({ part }) => (part.type === 'finish-step' ? part.providerMetadata?.outrider : undefined),
});

export function Chat() {
  const { messages, sendMessage, status, stop, error } = useChat({ transport });
  const [said, setSaid] = useState('');
  const isWriting = status === 'submitted' || status === 'streaming';
  const costs = messages.at(-1)?.metadata as OutriderMetadata | undefined;

  // The draft model loads while the first message is typed. The first request shows its error.
  useEffect(() => void outrider.load().catch(() => {}), []);

  function send(event: FormEvent) {
    event.preventDefault();
    void sendMessage({ text: said });
    setSaid('');
  }

  return (
    <>
      <section role="log" aria-busy={isWriting}>
        {messages.map(({ id, role, parts }) => (
          <p key={id} data-role={role}>
            {parts.map((part) => (part.type === 'text' ? part.text : ''))}
          </p>
        ))}
      </section>
      <form onSubmit={send}>
        <input aria-label="Message" required value={said} onChange={({ target }) => setSaid(target.value)} />
        <button disabled={isWriting}>Send</button>
        <button type="button" disabled={!isWriting} onClick={() => void stop()}>
          Stop
        </button>
      </form>
      {error && <p role="alert">{error.message}</p>}
      <p role="status">{costs && `${costs.serverPasses} forward passes of the server`}</p>
    </>
  );
}

import { useState } from 'react';
import type { FormEvent } from 'react';
import type { Message } from 'outrider';
import { useOutrider } from 'outrider/react';

const server = import.meta.env.VITE_OUTRIDER_SERVER ?? 'http://127.0.0.1:8787';

export function Chat() {
  const { isReady, isWriting, text, summary, error, generate, stop } = useOutrider({ server });
  const [messages, setMessages] = useState<Message[]>([]);
  const [said, setSaid] = useState('');

  function send(event: FormEvent) {
    event.preventDefault();
    // The last answer becomes a part of the conversation.
    const answered: Message[] = text === '' ? messages : [...messages, { role: 'assistant', content: text }];
    const conversation: Message[] = [...answered, { role: 'user', content: said }];
    setMessages(conversation);
    setSaid('');
    void generate(conversation, { maxNewTokens: 200 });
  }

  return (
    <main>
      <h1>Outrider with React</h1>
      <section role="log" aria-busy={isWriting}>
        {messages.map(({ role, content }, index) => (
          <p key={index} data-role={role}>
            {String(content)}
          </p>
        ))}
        {messages.length > 0 && <p data-role="assistant">{text}</p>}
      </section>
      <form onSubmit={send}>
        <input aria-label="Message" required value={said} onChange={({ target }) => setSaid(target.value)} />
        <button disabled={!isReady || isWriting}>Send</button>
        <button type="button" disabled={!isWriting} onClick={stop}>
          Stop
        </button>
      </form>
      {error && <p role="alert">{error.message}</p>}
      <p role="status">
        {summary && `${summary.tokens} tokens in ${summary.serverPasses} forward passes of the server`}
        {!isReady && !error && 'Connecting to the server'}
      </p>
    </main>
  );
}

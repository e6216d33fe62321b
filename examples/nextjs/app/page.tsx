import { Chat } from './chat';

export default function Page() {
  return (
    <main>
      <h1>Outrider with Next.js and the AI SDK</h1>
      <Chat />
    </main>
  );
}

'use client';

import { useEffect } from 'react';
import { run } from '../app.js';

export default function Page() {
  useEffect(() => void run(), []);
  return <h1>Outrider</h1>;
}

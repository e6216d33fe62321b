import type { Link, Statistics } from '../outrider/index.js';
import { element, make } from './elements.js';
import { formatBits, formatMilliseconds, formatRate } from './format.js';
import { sameLink } from './prediction.js';
import { positionOf, rateAt, rateSteps } from './scale.js';
import { linkPresets } from './settings.js';

/** The link panel: two logarithmic rates and a round trip, each with its value in words. */
export class LinkView {
  readonly #uplink = element('uplink', HTMLInputElement);
  readonly #downlink = element('downlink', HTMLInputElement);
  readonly #roundTrip = element('round-trip', HTMLInputElement);
  readonly #presets: { button: HTMLButtonElement; link: Link }[] = [];
  readonly #calm = matchMedia('(prefers-reduced-motion: reduce)');
  #link: Link;

  constructor(link: Link, onChange: (link: Link) => void) {
    this.#link = { ...link };
    const change = (part: Partial<Link>): void => {
      this.#link = { ...this.#link, ...part };
      this.#showLink();
      onChange(this.#link);
    };
    this.#uplink.max = this.#downlink.max = String(rateSteps);
    this.#uplink.addEventListener('input', () => {
      change({ uplinkBitsPerSecond: rateAt(this.#uplink.valueAsNumber) });
    });
    this.#downlink.addEventListener('input', () => {
      change({ downlinkBitsPerSecond: rateAt(this.#downlink.valueAsNumber) });
    });
    this.#roundTrip.addEventListener('input', () => {
      change({ roundTripMs: this.#roundTrip.valueAsNumber });
    });
    for (const { name, link: preset } of linkPresets) {
      const button = make('button', { type: 'button' }, name);
      button.addEventListener('click', () => change(preset));
      this.#presets.push({ button, link: preset });
      element('presets', HTMLElement).append(button);
    }
    this.#showLink();
  }

  get link(): Link {
    return this.#link;
  }

  /** Writes what travels onto the wires and draws one exchange, as long as it took but never too quick to be seen. */
  show({ uplinkBitsPerToken, downlinkBitsPerToken, roundTripMs }: Statistics): void {
    element('drafts', HTMLElement).textContent = `${formatBits(uplinkBitsPerToken)} per token →`;
    element('verdicts', HTMLElement).textContent = `← ${formatBits(downlinkBitsPerToken)} per token`;
    if (this.#calm.matches) return;
    const duration = Math.min(1200, Math.max(240, roundTripMs));
    const frames = (from: string, to: string): Keyframe[] => [
      { left: from, opacity: 0 },
      { opacity: 1, offset: 0.15 },
      { opacity: 1, offset: 0.85 },
      { left: to, opacity: 0 },
    ];
    for (const [id, from, to] of [
      ['wire-up', '0%', '100%'],
      ['wire-down', '100%', '0%'],
    ] as const) {
      element(id, HTMLElement).animate(frames(from, to), { duration, easing: 'ease-in-out' });
    }
  }

  #showLink(): void {
    const { uplinkBitsPerSecond, downlinkBitsPerSecond, roundTripMs } = this.#link;
    showSlider(this.#uplink, positionOf(uplinkBitsPerSecond), formatRate(uplinkBitsPerSecond));
    showSlider(this.#downlink, positionOf(downlinkBitsPerSecond), formatRate(downlinkBitsPerSecond));
    showSlider(this.#roundTrip, roundTripMs, roundTripMs === 0 ? 'none' : formatMilliseconds(roundTripMs));
    for (const { button, link } of this.#presets) {
      button.setAttribute('aria-pressed', String(sameLink(link, this.#link)));
    }
  }
}

function showSlider(slider: HTMLInputElement, position: number, words: string): void {
  slider.valueAsNumber = position;
  slider.setAttribute('aria-valuetext', words);
  const share = slider.valueAsNumber / Number(slider.max);
  slider.style.setProperty('--share', String(share));
  element(`${slider.id}-value`, HTMLOutputElement).textContent = words;
}

import type { Link } from '../outrider/index.js';
import { element, make } from './elements.js';
import { formatMilliseconds, formatRate } from './format.js';
import { sameLink } from './prediction.js';
import { positionOf, rateAt, rateSteps } from './scale.js';
import { linkPresets } from './settings.js';

/** The link panel: two logarithmic rates and a round trip, each with its value in words. */
export class LinkView {
  readonly #uplink = element('uplink', HTMLInputElement);
  readonly #downlink = element('downlink', HTMLInputElement);
  readonly #roundTrip = element('round-trip', HTMLInputElement);
  readonly #presets: { button: HTMLButtonElement; link: Link }[] = [];
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

// The frame around every chart: it redraws when its width changes, has a
// name for people who do not see it, and takes the arrow keys.

import { h } from '../dom';

export interface Chart {
  readonly element: HTMLElement;
  /** Stops watching the width. */
  readonly end: () => void;
}

export interface FigureOptions {
  /** What the chart shows, in a sentence. */
  readonly name: string;
  readonly draw: (width: number) => SVGSVGElement;
}

const KEYS = new Set(['ArrowLeft', 'ArrowRight', 'Home', 'End', 'Escape']);

export function figure(options: FigureOptions): Chart {
  const element = h('div', { class: 'chart', role: 'group', tabindex: 0, 'aria-label': `${options.name}. The arrow keys read values; the numbers follow as a table.` });
  let width = 0;
  let svg: SVGSVGElement | undefined;
  const redraw = (): void => {
    const now = Math.max(280, Math.floor(element.clientWidth || 720));
    if (now === width) return;
    width = now;
    svg = options.draw(width);
    svg.setAttribute('role', 'img');
    svg.setAttribute('aria-label', options.name);
    element.replaceChildren(svg);
  };
  element.addEventListener('keydown', (event) => {
    if (!KEYS.has(event.key)) return;
    event.preventDefault();
    svg?.dispatchEvent(new CustomEvent('reading-key', { detail: event.key }));
  });
  element.addEventListener('blur', () => svg?.dispatchEvent(new CustomEvent('reading-key', { detail: 'Escape' })));
  const watch = new ResizeObserver(redraw);
  watch.observe(element);
  redraw();
  return {
    element,
    end: () => {
      watch.disconnect();
    },
  };
}

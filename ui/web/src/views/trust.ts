// Why the numbers may be believed, and how far: validity, the noise floor,
// and how the machine drifted.

import { airy } from '../chart/axis';
import { lineChart, type Series } from '../chart/line';
import type { Findings } from '../documents';
import { h } from '../dom';
import { count, percent, plain, plural, scaleFor, value } from '../format';
import type { Model } from '../model';
import { tickText } from './overhead';
import { folded, legend, Live, nothing, section, table, type Slice, type View } from './parts';

export function validity(model: Model): HTMLElement {
  const v = model.findings.validity;
  const share = v.trials > 0 ? v.valid / v.trials : 0;
  return section(
    'validity',
    'Validity and noise',
    h('div', { class: 'meter', role: 'img', 'aria-label': `${v.valid} of ${v.trials} trials are valid` },
      h('div', { class: 'bar' }, h('div', { style: `width:${(100 * share).toFixed(2)}%` })),
      h('p', {}, `${count(v.valid)} of ${plural(v.trials, 'trial')} are valid, in ${plural(v.blocks, 'block')}.`)),
    (v.reasons ?? []).length > 0 && h('ul', { class: 'reasons' }, (v.reasons ?? []).map((r) =>
      h('li', {}, h('strong', {}, r.check.replaceAll('_', ' ')), ` failed in ${plural(r.trials, 'trial')}`, r.example !== '' && h('span', { class: 'note' }, r.example)))),
    noise(model.findings, model),
  );
}

function noise(f: Findings, model: Model): HTMLElement | null {
  const floors = f.noise_floor ?? [];
  if (floors.length === 0) return null;
  const numbers = table('Noise floor', [{ head: 'measure' }, { head: 'baseline' }, { head: 'floor', number: true }, { head: 'of its value', number: true }, { head: 'blocks', number: true }],
    floors.map((n) => [model.words(n.measure), model.fullLabel(n.cell), value(scaleFor(n.unit, n.floor), n.floor), percent(n.relative_ratio), count(n.blocks)]));
  return h('div', {},
    h('p', {}, 'The baseline runs twice in every block. The difference between the two is the noise floor; an overhead below it is not called real.'),
    floors.length > 8 ? folded(`Noise floor of ${plural(floors.length, 'baseline measure')}`, numbers) : numbers);
}

export function drift(model: Model, slice: Slice): View | null {
  if (!model.cells.some((c) => (c.block_p50_us ?? []).length > 0)) return null;
  const live = new Live((selection, chart) => {
    const shown = slice.cells(selection).filter((c) => (c.block_p50_us ?? []).length > 0);
    if (shown.length === 0) return [nothing()];
    const values = shown.flatMap((c) => (c.block_p50_us ?? []).map((b) => b.value));
    const scale = scaleFor('us', Math.max(...values));
    const series: Series[] = shown.flatMap((c) => {
      const repeats = [...new Set((c.block_p50_us ?? []).map((b) => b.repeat))].sort((a, b) => a - b);
      return repeats.map((repeat) => ({
        label: model.label(c.cell, shown) + (repeats.length > 1 ? (repeat === 0 ? ', first' : ', again') : ''),
        look: model.look(c.cell),
        points: (c.block_p50_us ?? []).filter((b) => b.repeat === repeat).map((b) => ({ x: b.block + 1, y: b.value, hollow: repeat > 0 })).sort((a, b) => a.x - b.x),
      }));
    });
    const blocks = [...new Set(series.flatMap((one) => one.points.map((p) => p.x)))].sort((a, b) => a - b);
    const step = Math.ceil(blocks.length / 12);
    return [
      legend(model, shown, true),
      chart(lineChart({
        name: `Median ${model.kind.measured} of each cell in each block`,
        series,
        x: { kind: 'linear', title: 'block', format: String, domain: airy(blocks, 'linear'), ticks: blocks.filter((_b, i) => i % step === 0).map((b) => ({ value: b, text: String(b) })) },
        y: { kind: 'log', title: `p50, ${scale.unit}`, format: (v) => tickText(v / scale.div) },
        readX: (b) => `block ${b}`,
        readY: (us) => plain(scale, us),
        markers: true,
        labels: false,
      })),
      folded('Medians by block as a table', table(`p50 by block, ${scale.unit}`, [{ head: 'cell' }, ...blocks.map((b) => ({ head: String(b), number: true }))],
        series.map((one) => [one.label, ...blocks.map((b) => {
          const p = one.points.find((q) => q.x === b);
          return p ? plain(scale, p.y) : '–';
        })]))),
    ];
  });
  return {
    element: section('drift', 'Drift', h('p', { class: 'lead' }, 'The median of every cell in every block. Machines drift: differences are taken within a block, where drift affects both sides alike.'),
      h('div', { class: 'controls' }, slice.control(live.again)), live.element),
    update: live.update,
  };
}

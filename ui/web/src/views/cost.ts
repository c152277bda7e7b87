// What a request costs beyond time: CPU by part, user and kernel apart, and
// memory by part.

import { bars, type BarRow } from '../chart/bars';
import { lineChart, type Series } from '../chart/line';
import type { CellSummary } from '../documents';
import { h, type Child } from '../dom';
import { interval, percent, plain, quantity, scaleFor } from '../format';
import { factorWords, key, level, levelWords, partColor, pick, type Model } from '../model';
import { groupBy, tickText } from './overhead';
import { choice, folded, legend, Live, nothing, section, table, type Slice, type View } from './parts';

const MICRO = { div: 1, unit: 'µs' };

export function cpu(model: Model, slice: Slice): View | null {
  const parts = model.parts((c) => c.cpu_us_per_request);
  if (parts.length === 0) return null;
  const stacked = parts.filter((p) => p !== 'machine');
  const live = new Live((selection, chart) => {
    const shown = slice.cells(selection).filter((c) => Object.keys(c.cpu_us_per_request ?? {}).length > 0);
    if (shown.length === 0) return [nothing()];
    const machine = shown.some((c) => c.cpu_us_per_request && Object.hasOwn(c.cpu_us_per_request, 'machine'));
    return [
      partLegend(stacked, true, machine, (part) => model.partWords(part)),
      chart(bars({
        name: 'CPU time per request by cell, stacked by part, kernel time hatched',
        title: 'CPU per request, µs',
        rows: shown.map((c) => cpuRow(model, c, shown, stacked)),
        format: tickText,
      })),
      folded('CPU as a table', cpuTable(model, model.selected(selection), parts)),
    ];
  });
  const against = model.numeric ? cpuLines(model, parts) : null;
  return {
    element: section('cpu', 'CPU per request', h('p', { class: 'lead' }, 'CPU time as the kernel accounts it over the window, divided by the requests completed in it.'),
      against?.element, h('div', { class: 'controls' }, slice.control(live.again)), live.element),
    update: (selection) => {
      live.update(selection);
      against?.update(selection);
    },
  };
}

function cpuRow(model: Model, c: CellSummary, shown: readonly CellSummary[], parts: readonly string[]): BarRow {
  const all = new Map(Object.entries(c.cpu_us_per_request ?? {}));
  const machine = all.get('machine');
  let sum = 0;
  const pieces = parts.flatMap((part) => {
    const one = all.get(part);
    if (!one) return [];
    sum += one.user_us + one.system_us;
    return [
      { color: partColor(part), value: one.user_us, hatched: false, says: `${model.partWords(part)}${one.whole ? '' : ', user'}: ${plain(MICRO, one.user_us)} µs` },
      { color: partColor(part), value: one.system_us, hatched: true, says: `${model.partWords(part)}, kernel: ${plain(MICRO, one.system_us)} µs` },
    ];
  });
  const total = machine ? machine.user_us + machine.system_us : 0;
  return {
    label: model.label(c.cell, shown),
    says: machine ? `${plain(MICRO, sum)} of ${plain(MICRO, total)} µs` : `${plain(MICRO, sum)} µs`,
    pieces,
    ...(machine ? { mark: { value: total, low: machine.low_us, high: machine.high_us, says: `whole machine: ${quantity(MICRO, total, machine.low_us, machine.high_us)}` } } : {}),
  };
}

function partLegend(parts: readonly string[], kernel: boolean, machine: boolean, words: (part: string) => string): HTMLElement {
  return h('div', { class: 'legend' }, h('ul', {},
    parts.map((part) => h('li', {}, h('span', { class: 'box', style: `background:${partColor(part)}`, 'aria-hidden': 'true' }), words(part))),
    kernel && h('li', {}, h('span', { class: 'box kernel', 'aria-hidden': 'true' }), 'hatched: in the kernel'),
    machine && h('li', {}, h('span', { class: 'tickmark', 'aria-hidden': 'true' }), 'whole machine'),
  ));
}

/** CPU of one part against the numeric factor. */
function cpuLines(model: Model, parts: readonly string[]): View {
  let part = parts[0] ?? '';
  const numeric = model.numeric;
  const live = new Live((selection, chart) => {
    const shown = model.selected(selection).filter((c) => c.cpu_us_per_request && Object.hasOwn(c.cpu_us_per_request, part));
    if (!numeric || shown.length === 0) return [nothing()];
    const others = model.factors.filter((f) => f !== numeric);
    const series: Series[] = groupBy(shown, (c) => key(pick(c.cell, others.map((f) => f.factor)))).map((group) => ({
      label: others.filter((f) => f.levels.length > 1).map((f) => levelWords(f, level(group[0]?.cell, f.factor))).join(' · ') || model.partWords(part),
      look: model.look(group[0]?.cell ?? null),
      points: group.flatMap((c) => {
        const one = c.cpu_us_per_request?.[part];
        return one ? [{ x: Number(level(c.cell, numeric.factor)), y: one.user_us + one.system_us, low: one.low_us, high: one.high_us, says: interval(MICRO, one.user_us + one.system_us, one.low_us, one.high_us) }] : [];
      }).sort((a, b) => a.x - b.x),
    }));
    const levels = [...new Set(shown.map((c) => Number(level(c.cell, numeric.factor))))].sort((a, b) => a - b);
    const unit = numeric.unit ?? factorWords(numeric.factor);
    return [
      legend(model, shown, true),
      chart(lineChart({
        name: `CPU time per request of the ${model.partWords(part)} against ${factorWords(numeric.factor)}, with 95% intervals`,
        series,
        x: { kind: levels.every((v) => v > 0) ? 'log' : 'linear', title: unit, format: String, ticks: levels.map((v) => ({ value: v, text: v.toLocaleString('en') })) },
        y: { kind: 'linear', title: 'CPU per request, µs', format: tickText, fromZero: true },
        readX: (x) => `${x.toLocaleString('en')} ${unit}`,
        readY: (v) => plain(MICRO, v),
        markers: true,
        height: 280,
      })),
    ];
  });
  const control = choice('part', parts.map((p) => ({ id: p, text: model.partWords(p) })), part, (p) => {
    part = p;
    live.again();
  });
  return { element: h('div', {}, h('div', { class: 'controls' }, control), live.element), update: live.update };
}

function cpuTable(model: Model, cells: readonly CellSummary[], parts: readonly string[]): HTMLElement {
  return table('CPU per request, µs (95% interval), and its share in the kernel', [{ head: 'cell' }, ...parts.flatMap((p) => [{ head: model.partWords(p), number: true }, { head: 'kernel', number: true }])],
    cells.map((c) => [model.label(c.cell, cells), ...parts.flatMap((p) => {
      const one = new Map(Object.entries(c.cpu_us_per_request ?? {})).get(p);
      if (!one) return ['–', ''];
      const sum = one.user_us + one.system_us;
      return [interval(MICRO, sum, one.low_us, one.high_us), one.whole ? '–' : percent(one.system_us / sum)];
    })]));
}

export function memory(model: Model, slice: Slice): View | null {
  const parts = model.parts((c) => c.memory_bytes);
  if (parts.length === 0) return null;
  const scale = scaleFor('bytes', Math.max(...model.cells.flatMap((c) => Object.values(c.memory_bytes ?? {}))));
  const words = (part: string): string => model.kind.parts.get(part) ?? model.partWords(part);
  const live = new Live((selection, chart) => {
    const shown = slice.cells(selection).filter((c) => Object.keys(c.memory_bytes ?? {}).length > 0);
    if (shown.length === 0) return [nothing()];
    const rows: BarRow[] = shown.map((c) => {
      const all = new Map(Object.entries(c.memory_bytes ?? {}));
      const pieces = parts.flatMap((p) => {
        const bytes = all.get(p);
        return bytes === undefined ? [] : [{ color: partColor(p), value: bytes / scale.div, hatched: false, says: `${words(p)}: ${plain(scale, bytes)} ${scale.unit}` }];
      });
      return { label: model.label(c.cell, shown), says: `${plain(scale, [...all.values()].reduce((a, b) => a + b, 0))} ${scale.unit}`, pieces };
    });
    const content: Child[] = [
      partLegend(parts, false, false, words),
      chart(bars({ name: 'Memory by cell, stacked by part', title: `memory, ${scale.unit}`, rows, format: tickText })),
      folded('Memory as a table', table(`Memory, ${scale.unit}`, [{ head: 'cell' }, ...parts.map((p) => ({ head: words(p), number: true }))],
        model.selected(selection).map((c, _i, cells) => [model.label(c.cell, cells), ...parts.map((p) => {
          const bytes = new Map(Object.entries(c.memory_bytes ?? {})).get(p);
          return bytes === undefined ? '–' : plain(scale, bytes);
        })]))),
    ];
    return content;
  });
  return {
    element: section('memory', 'Memory', h('p', { class: 'lead' }, 'Proportional set size of each part’s processes at the end of the window, median over trials.'), h('div', { class: 'controls' }, slice.control(live.again)), live.element),
    update: live.update,
  };
}

// What the compared cells add to their baselines: against a numeric factor
// (connections) as lines, otherwise as rows of estimates with intervals.

import { airy } from '../chart/axis';
import { forest, type ForestRow } from '../chart/forest';
import { lineChart, type Series } from '../chart/line';
import type { CellSummary, Finding } from '../documents';
import { h, type Child } from '../dom';
import { interval, oneValue, percent, plain, plural, scaleFor, type Scale } from '../format';
import { factorWords, key, level, levelWords, pick, stands, verdictWords, type Model } from '../model';
import { choice, folded, legend, Live, notes, nothing, section, table, toggle, type CellText, type View } from './parts';

interface Measure {
  readonly id: string;
  /** In a switch or the head of a column. */
  readonly text: string;
  /** In a title: "to the median latency". */
  readonly to: string;
}

const DIFFERENCE = '_overhead';

/** The measures whose differences are drawn: latency, and what levers of the control plane are for. */
function measuresOf(model: Model): Measure[] {
  const found = new Map(model.all.filter((f) => f.against && !(model.kind.hidesInvalid && f.verdict === 'invalid')).map((f) => [f.name, f]));
  return model.names
    .filter((n) => n.name.endsWith(DIFFERENCE) && found.has(n.name) && (n.section === 'levers' || found.get(n.name)?.probe === 'latency'))
    .map((n) => ({ id: n.name.slice(0, -DIFFERENCE.length), text: model.words(n.name.slice(0, -DIFFERENCE.length)), to: n.phrase }));
}

export function overhead(model: Model): View | null {
  const measures = measuresOf(model);
  if (measures.length === 0) return null;
  let measure: string = measures[0]?.id ?? '';
  let log = false;
  const numeric = model.numeric;
  const live = new Live((selection, chart) => {
    const shown = model.selected(selection).filter((c) => measures.some((m) => model.overhead(m.id, c.cell)));
    if (shown.length === 0) return [nothing()];
    const drawn: Child[] = [];
    const within = numeric ? measures.filter((m) => m.id === measure) : measures;
    if (numeric) {
      const groups = groupBy(shown, (c) => key(pick(c.cell, model.compared)));
      const all = shown.flatMap((c) => model.overhead(measure, c.cell) ?? []);
      const scale = scaleFor(all[0]?.unit ?? 'us', Math.max(...all.map(extent)));
      const kind = log ? 'log' : 'linear';
      const domain = airy(all.flatMap((f) => [f.low, f.estimate, f.high]), kind, true); // one for all panels
      drawn.push(legend(model, shown, true));
      drawn.push(h('div', { class: 'panels two' }, groups.map((cells) => h('div', { class: 'panel' }, h('h3', {}, comparedLabel(model, cells[0])), chart(lines(model, cells, measure, scale, kind, domain))))));
    } else {
      const said = new Remarks(model, shown, within);
      drawn.push(h('div', { class: 'panels two' }, within.map((m) => h('div', { class: 'panel' }, h('h3', {}, `Added ${m.to}`), refused(model, shown, m) ?? chart(rows(model, shown, m)), notes(said.of(m))))));
      drawn.push(notes(said.ofMany));
      drawn.push(h('p', { class: 'key' }, h('span', { class: 'noise-key', 'aria-hidden': 'true' }), 'Noise floor: how much two identical baselines differ. Hollow marks are not significant.'));
    }
    if (numeric) {
      const said = new Remarks(model, shown, within);
      drawn.push(notes([...said.ofMany, ...within.flatMap((m) => said.of(m))]));
    }
    drawn.push(folded('Overhead as a table', overheadTable(model, shown, measures)));
    return drawn;
  });
  const controls = numeric && h('div', { class: 'controls' },
    choice('measure', measures, measure, (id) => {
      measure = id;
      live.again();
    }),
    toggle('logarithmic', log, (on) => {
      log = on;
      live.again();
    }),
  );
  return {
    element: section('overhead', numeric ? `Overhead against ${factorWords(numeric.factor)}` : model.kind.differences,
      h('p', { class: 'lead' }, 'The within-block difference to the baseline, with its 95% interval over blocks.'), controls, live.element),
    update: live.update,
  };
}

/** Measures in which the same warning stands are said together from this number on. */
const MANY = 3;

/**
 * What is odd about differences, each remark with the cells it is about, and
 * few: those of one measure that differ in their figures only are one, and one
 * that stands in many measures is said once for all.
 */
class Remarks {
  readonly ofMany: readonly string[];
  private readonly all: readonly { readonly measure: string; readonly label: string; readonly text: string; readonly shape: string }[];

  constructor(model: Model, shown: readonly CellSummary[], measures: readonly Measure[]) {
    const found = measures.flatMap((m) => shown.flatMap((c) => {
      const f = model.overhead(m.id, c.cell);
      return f ? [{ measure: m.id, label: model.label(c.cell, shown), f }] : [];
    }));
    // The verdict says "no effect" already; the first warning says the reason.
    this.all = found.flatMap(({ measure, label, f }) => (f.warnings ?? []).slice(f.reason === 'within_margin' ? 1 : 0)
      .map((text) => ({ measure, label, text, shape: text.replace(/[\d.,]+/g, '#') })));
    this.ofMany = groupBy(this.all, (w) => w.text).filter((group) => this.widespread(group[0]?.text ?? '')).map((group) => `${group[0]?.text ?? ''} (${plural(group.length, 'difference')} of ${found.length})`);
  }

  private widespread(text: string): boolean {
    return new Set(this.all.filter((w) => w.text === text).map((w) => w.measure)).size >= MANY;
  }

  /** What is said of one measure alone. */
  of(m: Measure): string[] {
    const own = this.all.filter((w) => w.measure === m.id && !this.widespread(w.text));
    return groupBy(own, (w) => w.shape).map((group) => {
      const [first, ...rest] = group;
      const [text, labels] = [first?.text ?? '', [...new Set(group.map((w) => w.label))]];
      if (rest.every((w) => w.text === text)) return `${labels.join(', ')}: ${text}`;
      return `${labels[0] ?? ''}: ${text}` + (labels.length > 1 ? ` (similar: ${labels.slice(1).join(', ')})` : '');
    });
  }
}

function extent(f: Finding | undefined): number {
  return f ? Math.max(Math.abs(f.estimate), Math.abs(f.high), Math.abs(f.low)) : 0;
}

export function groupBy<T>(items: readonly T[], by: (item: T) => string): T[][] {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(by(item));
    if (group) group.push(item);
    else groups.set(by(item), [item]);
  }
  return [...groups.values()];
}

function comparedLabel(model: Model, cell: CellSummary | undefined): string {
  const words = model.factors.filter((f) => model.compared.includes(f.factor)).map((f) => levelWords(f, level(cell?.cell, f.factor))).join(' · ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** What stands for a finding's figure. */
export function says(f: Finding, scale: Scale): string {
  if (f.verdict === 'invalid') return f.reason === 'not_reached' ? 'not reached' : f.reason === 'too_few_counted' ? 'too few' : 'not valid';
  return oneValue(f.low, f.high) ? `${plain(scale, f.estimate)} (same)` : interval(scale, f.estimate, f.low, f.high);
}

function lines(model: Model, cells: readonly CellSummary[], measure: string, scale: Scale, kind: 'linear' | 'log', domain: readonly [number, number]) {
  const numeric = model.numeric;
  const others = model.factors.filter((f) => f !== numeric && !model.compared.includes(f.factor));
  const series: Series[] = groupBy(cells, (c) => key(pick(c.cell, others.map((f) => f.factor)))).map((group) => ({
    label: others.filter((f) => f.levels.length > 1).map((f) => levelWords(f, level(group[0]?.cell, f.factor))).join(' · ') || 'overhead',
    look: model.look(group[0]?.cell ?? null),
    points: group
      .flatMap((c) => {
        const f = model.overhead(measure, c.cell);
        if (!f || f.verdict === 'invalid') return [];
        return [{ x: Number(level(c.cell, numeric?.factor ?? '')), y: f.estimate, low: f.low, high: f.high, hollow: !stands(f.verdict), says: `${says(f, scale)}${f.verdict === 'inconclusive' ? ' inconclusive' : ''}` }];
      })
      .sort((a, b) => a.x - b.x),
  }));
  const levels = (numeric?.levels ?? []).map(Number).filter((v) => cells.some((c) => Number(level(c.cell, numeric?.factor ?? '')) === v));
  const to = measuresOf(model).find((m) => m.id === measure)?.to ?? '';
  const unit = numeric?.unit ?? factorWords(numeric?.factor ?? '');
  return lineChart({
    name: `Overhead ${to} against ${factorWords(numeric?.factor ?? '')}, ${comparedLabel(model, cells[0]).toLowerCase()}, with 95% intervals`,
    series,
    x: { kind: levels.every((v) => v > 0) ? 'log' : 'linear', title: unit, format: String, ticks: levels.map((v) => ({ value: v, text: v.toLocaleString('en') })) },
    y: { kind, title: `added ${to}, ${scale.unit}`, format: (v) => tickText(v / scale.div), domain },
    readX: (x) => `${x.toLocaleString('en')} ${unit}`,
    readY: (v) => plain(scale, v),
    markers: true,
  });
}

/** A tick's number: short, never rounded away. */
export function tickText(v: number): string {
  const text = Math.abs(v) >= 1e4 ? v.toLocaleString('en', { maximumFractionDigits: 0 }) : String(Number(v.toPrecision(3)));
  return text.replace('-', '−');
}

/** In place of a chart in which nothing could be drawn. */
function refused(model: Model, cells: readonly CellSummary[], measure: Measure): Child {
  const findings = cells.flatMap((c) => model.overhead(measure.id, c.cell) ?? []);
  if (findings.some((f) => f.verdict !== 'invalid')) return null;
  const words = new Set(findings.map((f) => says(f, scaleFor(f.unit, 0))));
  return h('p', { class: 'empty' }, `Not estimated: ${[...words].join(', ')}.`);
}

function rows(model: Model, cells: readonly CellSummary[], measure: Measure) {
  const findings = cells.flatMap((c) => {
    const f = model.overhead(measure.id, c.cell);
    return f ? [{ c, f }] : [];
  });
  const scale = scaleFor(findings[0]?.f.unit ?? 'us', Math.max(...findings.map(({ f }) => extent(f))));
  const list: ForestRow[] = findings.map(({ c, f }) => {
    const noise = model.noise(f)?.floor;
    const look = model.look(c.cell);
    return {
      label: model.label(c.cell, cells),
      color: look.color,
      shape: look.dash,
      estimate: f.estimate,
      low: f.low,
      high: f.high,
      ...(noise === undefined ? {} : { noise }),
      hollow: !stands(f.verdict),
      refused: f.verdict === 'invalid',
      says: `${says(f, scale)}${f.verdict === 'inconclusive' ? ' inconclusive' : ''}`,
    };
  });
  return forest({ name: `Overhead ${measure.to} by cell, with 95% intervals and the noise floor`, title: `added ${measure.to}, ${scale.unit}`, rows: list, scale, format: (v) => tickText(v / scale.div) });
}

/** An overhead as a share of its baseline's own value, where a figure is given at all. */
function share(f: Finding): string {
  if (!f.relative || f.verdict === 'invalid') return '–';
  return (f.relative.estimate > 0 ? '+' : '') + percent(f.relative.estimate);
}

function overheadTable(model: Model, cells: readonly CellSummary[], measures: readonly Measure[]): HTMLElement {
  const scales = scalesOf(model, cells, measures);
  const one = new Set([...scales.values()].map((scale) => scale.unit)).size === 1;
  const head = (m: Measure): string => (one ? m.text : `${m.text}, ${scales.get(m.id)?.unit ?? ''}`);
  return table(
    one ? `Overhead, ${[...scales.values()][0]?.unit ?? ''} (95% interval)` : 'Overhead (95% interval)',
    [{ head: 'cell' }, ...measures.flatMap((m) => [{ head: head(m), number: true }, { head: 'of baseline', number: true }, { head: 'verdict' }])],
    cells.map((c) => [
      model.label(c.cell, cells),
      ...measures.flatMap((m): CellText[] => {
        const f = model.overhead(m.id, c.cell);
        if (!f) return ['–', '', ''];
        const text = says(f, scales.get(m.id) ?? scaleFor(f.unit, f.estimate));
        return [{ text, ...(f.verdict === 'real' ? {} : { tone: 'dim' as const }) }, share(f), verdictWords(f.verdict)];
      }),
    ]),
  );
}

/** A scale for each measure; those of one unit share one. */
function scalesOf(model: Model, cells: readonly CellSummary[], measures: readonly Measure[]): Map<string, Scale> {
  const all = measures.flatMap((m) => cells.flatMap((c) => {
    const f = model.overhead(m.id, c.cell);
    return f ? [{ id: m.id, f }] : [];
  }));
  return new Map(all.map(({ id, f }) => [id, scaleFor(f.unit, Math.max(...all.filter((o) => o.f.unit === f.unit).map((o) => extent(o.f))))]));
}

// A study of resilience: verdicts, the timeline, the service graph, windows,
// steps, and the ledger.

import { swatch } from '../chart/line';
import { services } from '../chart/services';
import { kinds, timeline } from '../chart/timeline';
import type { CellSummary, ScenarioSummary, ScenarioWindow } from '../documents';
import { h, type Child } from '../dom';
import { count, fixed, magnitude, plain, plural, scaleFor, value } from '../format';
import { key, type Model } from '../model';
import { choice, folded, Live, notes, section, table, type CellText, type View } from './parts';

interface Judged {
  readonly cell: CellSummary;
  readonly data: ScenarioSummary;
}

const judged = (cells: readonly CellSummary[]): Judged[] => cells.flatMap((cell) => (cell.scenario ? [{ cell, data: cell.scenario }] : []));

const share = (v: number): string => {
  const p = 100 * v;
  return p === 0 ? '0%' : `${fixed(p, Math.max(0, Math.min(4, 1 - magnitude(p))))}%`;
};

const list = (counts: Readonly<Record<string, number>> | undefined): string => Object.entries(counts ?? {}).filter(([, n]) => n !== 0).sort((a, b) => b[1] - a[1]).map(([name, n]) => `${name} ${count(n)}`).join(', ');

const after = (us: number | undefined): CellText => (us === undefined ? { text: '–', tone: 'dim' } : value(scaleFor('us', us), us));

const tone = (verdict: string, good: boolean): CellText => ({ text: verdict, tone: good && verdict !== 'inconclusive' ? 'good' : 'bad' });

/** Expected verdicts beside those found, and every assertion. */
export function verdicts(model: Model): HTMLElement | null {
  const all = judged(model.cells);
  if (all.length === 0) return null;
  const rows = all.map(({ cell, data }): CellText[] => {
    const trials = data.trials ?? [];
    const agreed = trials.filter((t) => t.verdict === data.expected).length;
    return [model.fullLabel(cell.cell), data.expected, tone(data.verdict, data.as_expected), `${agreed} of ${trials.length}`, because(data)];
  });
  const assertions = all.flatMap(({ cell, data }) => (shown(data)?.assertions ?? []).map((a): CellText[] => [
    model.fullLabel(cell.cell), tone(a.outcome, a.outcome === 'pass'), [a.expr, a.time].filter(Boolean).join(' '), a.detail,
  ]));
  return section('verdicts', 'Verdicts',
    table('Expected vs. actual verdict', [{ head: 'cell' }, { head: 'expected' }, { head: 'actual' }, { head: 'trials as expected', number: true }, { head: 'because', prose: true }], rows),
    folded(`${plural(assertions.length, 'assertion')} of one trial each, with when and by how much`,
      table('Assertions', [{ head: 'cell' }, { head: 'outcome' }, { head: 'assertion', prose: true }, { head: 'detail', prose: true }], assertions)));
}

const shown = (data: ScenarioSummary) => (data.trials ?? []).find((t) => t.trial === data.shown) ?? data.trials?.[0];

function because(data: ScenarioSummary): string {
  const trial = (data.trials ?? []).find((t) => t.verdict === data.verdict);
  if (!trial) return '';
  if (trial.verdict === 'inconclusive') return trial.why?.[0] ?? '';
  const bad = (trial.assertions ?? []).find((a) => a.outcome === 'fail');
  return bad ? `${[bad.expr, bad.time].filter(Boolean).join(' ')}: ${bad.detail}` : `held: ${plural((trial.assertions ?? []).length, 'assertion')}`;
}

/** What happened in one trial of each cell. */
export function happened(model: Model): View | null {
  const all = judged(model.cells).filter(({ data }) => data.shown !== '');
  if (all.length === 0) return null;
  let cell = key(all.find(({ data }) => data.total.failed > 0)?.cell.cell ?? all[0]?.cell.cell);
  let window = '';
  const live = new Live((selection, chart) => {
    const cells = new Set(model.selected(selection));
    const here = all.filter((one) => cells.has(one.cell));
    const one = here.find((j) => key(j.cell.cell) === cell) ?? here[0];
    if (!one) return [h('p', { class: 'empty' }, 'No cell is selected.')];
    const { data } = one;
    const label = model.fullLabel(one.cell.cell);
    const windows = [data.total, ...(data.windows ?? [])];
    const at = windows.find((w) => w.name === window) ?? data.total;
    const bad = kinds(data);
    return [
      h('div', { class: 'controls' },
        here.length > 1 && choice('cell', here.map((j) => ({ id: key(j.cell.cell), text: model.fullLabel(j.cell.cell) })), key(one.cell.cell), (id) => {
          cell = id;
          live.again();
        })),
      notes(windows.flatMap((w) => w.surprises ?? []).map((w) => `Surprise: ${w}`)),
      h('div', { class: 'legend' }, h('ul', {}, bad.map((k) => h('li', {}, h('span', { class: 'box', style: `background:${k.color}` }), `${k.name}: ${count(k.total)}`))),
        h('ul', {}, h('li', {}, swatch({ color: 'var(--series-1)', dash: 0 }), 'median latency'), h('li', {}, swatch({ color: 'var(--series-2)', dash: 1 }), 'p99'))),
      chart(timeline(`What happened with ${label}: failures by kind and latency over the timeline, with its steps`, data)),
      h('h3', {}, 'Service graph'),
      h('div', { class: 'controls' }, choice('window', windows.map((w) => ({ id: w.name, text: w.name })), at.name, (id) => {
        window = id;
        live.again();
      })),
      chart(services(`The service graph in ${at.name} with ${label}: rate, errors and latency on each edge`, data, at)),
      h('p', { class: 'key' }, 'On each edge: requests per second (with attempts per request where there were more), the share that failed, median and p99 latency, by the caller’s proxy.'),
      windowTable(data, label),
      notes(windows.some((w) => w.answered > 0 && (w.latency_us.p50 === 0 || w.latency_us.p99 === 0)) ? ['–: too few requests for the percentile: p50 needs 60, p99 3,000, so that 30 lie beyond it.'] : []),
      stepTable(data),
      expectation(data),
    ];
  });
  return {
    element: section('timeline', 'Timeline', h('p', { class: 'lead' }, `One trial of each cell (${all.map(({ data }) => data.shown).join(', ')}), from the first request on. Steps are marked where they happened.`), live.element),
    update: live.update,
  };
}

/** Services with fewer endpoints than the graph gives them. */
const fewer = (data: ScenarioSummary, w: ScenarioWindow): string => (data.graph.nodes ?? []).flatMap((node) => {
  const n = w.ready?.[node.service];
  return n !== undefined && n < node.replicas ? [`${node.service} ${n}`] : [];
}).join(', ');

function windowTable(data: ScenarioSummary, label: string): HTMLElement {
  const scale = scaleFor('us', data.total.latency_us.max);
  const failed = (w: ScenarioWindow): CellText => ({ text: `${count(w.failed + (w.unfinished ?? 0))} (${share(w.error_share)})`, ...(w.failed + (w.unfinished ?? 0) > 0 ? { tone: 'bad' as const } : {}) });
  const row = (w: ScenarioWindow): CellText[] => [
    w.name, w.from_s.toFixed(2), w.to_s.toFixed(2), count(w.requests), failed(w), list({ ...w.failed_by, unfinished: w.unfinished ?? 0 }),
    ...[w.latency_us.p50, w.latency_us.p99, w.latency_us.max].map((us) => (us > 0 ? plain(scale, us) : '–')),
    after(w.longest_failing_run_us > 0 ? w.longest_failing_run_us : undefined), w.attempts > 0 ? w.attempts.toFixed(2) : '–', count(w.hidden), count(w.phantom), fewer(data, w), list(w.ejected),
  ];
  return table(`Windows with ${label}; times in s, latency in ${scale.unit}`,
    [{ head: 'window' }, ...['from', 'to', 'due', 'failed'].map((head) => ({ head, number: true })), { head: 'by kind' }, ...['p50', 'p99', 'max', 'longest failing run', 'attempts per request', 'hidden failures', 'to stale endpoints'].map((head) => ({ head, number: true })), { head: 'fewer ready' }, { head: 'most ejected' }],
    [...(data.windows ?? []), data.total].map(row));
}

function stepTable(data: ScenarioSummary): HTMLElement {
  return table('Steps; times until the next step', [{ head: 'step' }, { head: 'does' }, { head: 'at, s', number: true }, { head: 'late', number: true }, { head: 'to detect', number: true }, { head: 'to eject', number: true }, { head: 'to recover', number: true }, { head: 'failed', number: true }, { head: 'proof', prose: true }],
    (data.steps ?? []).map((one): CellText[] => [
      one.name, `${one.op} ${one.object}`, one.begin_s.toFixed(3) + (one.end_s ? ` to ${one.end_s.toFixed(3)}` : ''), after(one.late_us), after(one.detect_us), after(one.eject_us),
      one.still_failing ? { text: 'still failing', tone: 'bad' } : after(one.recover_us), count(one.failed),
      one.error ? { text: one.error, tone: 'bad' } : (one.proven_s ?? 0) > 0 ? (one.proof ?? '') : { text: 'not proven', tone: 'bad' },
    ]));
}

function expectation(data: ScenarioSummary): HTMLElement {
  return folded('Expected by arithmetic vs. observed', table(`Expected vs. observed; ${data.retries}`,
    [{ head: 'window' }, { head: 'demand', number: true }, { head: 'tightest service' }, { head: 'capacity', number: true }, { head: 'left', number: true }, { head: 'expected to fail', number: true }, { head: 'failed', number: true }, { head: 'attempts bound', number: true }, { head: 'attempts', number: true }, { head: 'surprise', prose: true }],
    (data.windows ?? []).map((w): CellText[] => {
      const e = w.expected;
      const bounded = (e.service ?? '') !== '';
      const left = e.demand_rps > 0 ? (e.capacity_rps ?? 0) / e.demand_rps - 1 : 0;
      return [w.name, `${fixed(e.demand_rps, 0)}/s`, bounded ? `${e.service ?? ''}, ${plural(e.replicas ?? 0, 'replica')}` : 'nothing bounded', bounded ? `${fixed(e.capacity_rps ?? 0, 0)}/s` : '–',
        bounded ? { text: `${fixed(100 * left, 0)}%`, ...(left < 0 ? { tone: 'bad' as const } : {}) } : '–', share(e.error_share), share(w.error_share), fixed(e.attempts, 0), w.attempts.toFixed(2), (w.surprises ?? []).join('; ')];
    })));
}

const HOPS: Readonly<Record<string, string>> = { client: 'the client', 'client-proxy': 'the calling proxy', network: 'the network', 'server-proxy': 'the called proxy', worker: 'the worker' };

/** Where requests failed, and whether client, proxies and workers agree. */
export function ledger(model: Model): HTMLElement | null {
  const all = judged(model.cells).filter(({ data }) => data.shown !== '' && data.ledger_of !== 'clients');
  if (all.length === 0) return null;
  const inbound = all.some(({ data }) => data.ledger_of === 'inbound');
  const name = ({ cell }: Judged): string => model.fullLabel(cell.cell);
  const faults = all.flatMap((one) => (one.data.ledger.faults ?? []).map((f): CellText[] => [name(one), count(f.count), HOPS[f.hop] ?? f.hop, f.service ?? '', (f.flag ?? '') === '' ? 'none' : (f.flag ?? ''), f.meaning ?? '', f.cause ?? '']));
  const balances = all.flatMap((one) => (one.data.ledger.equations ?? []).map((e): CellText[] => [name(one), e.name, count(e.left), count(e.arrived), list(e.lost),
    e.holds ? { text: e.open ? 'yes (some senders do not log)' : 'yes', tone: 'good' } : { text: `no: ${count(e.missing ?? 0)} missing, ${count(e.surplus ?? 0)} too many`, tone: 'bad' }]));
  const odd = all.flatMap((one) => (one.data.ledger.unreconciled ?? []).map((r): CellText[] => [name(one), r.id, r.at_s.toFixed(3), r.outcome, (r.lacks ?? []).join('; ')]));
  const content: Child[] = [
    h('p', { class: 'lead' }, all.every(({ data }) => data.ledger.reconciled)
      ? `Client, proxies and workers agree on every one of ${count(all.reduce((n, { data }) => n + data.ledger.requests, 0))} requests.${inbound ? ' Linkerd\'s proxies do not log what they send, so attempts that never arrived are unknown.' : ''}`
      : `${plural(odd.length, 'request')} ${odd.length === 1 ? 'does' : 'do'} not reconcile; each is named.`),
    faults.length > 0 && table('Where requests failed', [{ head: 'cell' }, { head: 'requests', number: true }, { head: 'hop' }, { head: 'service' }, { head: 'flag' }, { head: 'meaning', prose: true }, { head: 'usual cause', prose: true }], faults),
    odd.length > 0 && folded(`${plural(odd.length, 'request')} that do not reconcile`, table('Requests that do not reconcile', [{ head: 'cell' }, { head: 'request' }, { head: 'at, s', number: true }, { head: 'outcome' }, { head: 'lacks', prose: true }], odd)),
    folded('The balances between stations', table('Requests sent vs. received between stations', [{ head: 'cell' }, { head: 'balance', prose: true }, { head: 'left', number: true }, { head: 'arrived', number: true }, { head: 'lost, by cause' }, { head: 'holds' }], balances)),
  ];
  return section('ledger', 'Ledger', ...content);
}

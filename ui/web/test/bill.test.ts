// @vitest-environment happy-dom
// The bill and a request's way: what is drawn, and what stands in the tables.

import { describe, expect, it } from 'vitest';
import type { Bill, Hops, Priced } from '../src/bill';
import type { Findings } from '../src/data';
import { Model } from '../src/model';
import { bill } from '../src/views/bill';
import { hops } from '../src/views/hops';

const priced = (estimate: number, half: number, unit = 'us/request', verdict = 'real'): Priced => ({ estimate, low: estimate - half, high: estimate + half, unit, blocks: 6, verdict });

const model = new Model({ cells: [], findings: [], factors: [{ factor: 'rate', levels: ['500', '1000'] }], noise_floor: [] } as unknown as Findings);

const one: Bill = {
  cell: { rate: '500' },
  level: 0.95,
  parts: [
    { name: 'lua', levels: {}, figures: { cpu: priced(240, 5), share: priced(0.3, 0.01, 'ratio'), money: priced(9600, 200, 'USD/month') }, rank_low: 1, rank_high: 1, says: '' },
    { name: 'nothing', levels: {}, figures: { cpu: priced(0.2, 3, 'us/request', 'inconclusive') }, rank_low: 2, rank_high: 3, says: '' },
    { name: 'broken', levels: {}, figures: { cpu: priced(0, 0, 'us/request', 'invalid') }, rank_low: 0, rank_high: 0, says: '' },
  ],
  removed: [{ name: 'lua', levels: {}, figures: { cpu: priced(230, 5) }, rank_low: 1, rank_high: 1, says: '' }],
  together: { parts: ['lua', 'nothing'], sum: priced(240, 6), together: priced(250, 5), interaction: priced(10, 7), says: 'They interact.' },
};

describe('the bill', () => {
  it('is not there without one', () => {
    expect(bill(model, [])).toBeNull();
  });
  it('tells each part, its place, the sum and what is saved', () => {
    const view = bill(model, [one]);
    view?.update(model.initial());
    const text = view?.element.textContent ?? '';
    for (const part of ['1  lua', '2–3  nothing', 'sum of the parts', 'all together', 'beyond the sum', 'They interact.', 'At rate 500', 'saved without it', '9,600 (9,400 to 9,800)', 'not valid']) {
      expect(text).toContain(part);
    }
    // A list is on one scale, however large: microseconds.
    expect(text).toContain('240 (235–245)');
    expect(text).not.toContain('–  broken (');
  });
});

describe('a request’s way', () => {
  const way: Hops = {
    cell: null,
    terms: [
      { name: 'path', doc: 'without sidecars', figures: { latency_p50: priced(140, 4, 'us', 'measured') } },
      { name: 'tls', doc: 'mutual TLS', figures: { latency_p50: priced(0, 0, 'us', 'invalid') } },
      { name: 'residual', doc: 'what is left', figures: { latency_p50: priced(3, 9, 'us', 'inconclusive') } },
      { name: 'total', doc: 'all of it', figures: { latency_p50: priced(160, 5, 'us', 'measured') } },
    ],
    says: ['Of the median latency, most is path.'],
  };
  it('is not there without one', () => {
    expect(hops(model, [])).toBeNull();
  });
  it('tells every term', () => {
    const view = hops(model, [way]);
    view?.update(model.initial());
    const text = view?.element.textContent ?? '';
    for (const part of ['path without sidecars', '140 (136–144)', 'residual', 'in all', 'not valid', 'Of the median latency, most is path.']) {
      expect(text).toContain(part);
    }
  });
});

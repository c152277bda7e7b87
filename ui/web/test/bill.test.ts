// @vitest-environment happy-dom
// The bill and a request's way: what is drawn, and what stands in the tables.

import { describe, expect, it } from 'vitest';
import type { Bill } from '../src/documents';
import { Model } from '../src/model';
import { bill } from '../src/views/bill';
import { hops } from '../src/views/hops';
import { findings, first, rows } from './fixtures';

const priced = findings('bill');
const one = first(priced.bills);

function drawn(of: Bill): { readonly text: string; readonly table: string[][] } {
  const model = new Model(priced);
  const view = bill(model, [of]);
  view?.update(model.initial());
  return { text: view?.element.textContent ?? '', table: rows(view?.element.querySelector('table')) };
}

describe('the bill', () => {
  it('is not there without one', () => {
    expect(bill(new Model(findings('hops')), [])).toBeNull();
  });
  it('tells each part, its place, the sum and what is saved', () => {
    const { text, table } = drawn(one);
    for (const part of ['1  json-log', '2–3  ', '4  nothing', 'sum of the parts', 'all together', 'beyond the sum', one.together?.says ?? '?', 'saved without it']) {
      expect(text).toContain(part);
    }
    expect(table.map((row) => row[0])).toEqual([...(one.parts ?? []), ...(one.removed ?? [])].map((p) => p.name));
    // A list is on one scale, however large: microseconds.
    expect(table[0]?.[3]).toMatch(/^2\d\.\d \(2\d\.\d–2\d\.\d\)$/);
    expect(text).toContain(first(one.parts).figures?.['money']?.estimate.toFixed(0));
  });
  it('says which combination of the other factors it is of, and what has no price', () => {
    const [part, ...rest] = one.parts ?? [];
    const cpu = part?.figures?.['cpu'];
    if (!part || !cpu) throw new Error('no price');
    const broken = { ...part, name: 'broken', rank_low: 0, rank_high: 0, figures: { cpu: { ...cpu, verdict: 'invalid' } } };
    const model = new Model({ ...priced, factors: [{ factor: 'rate', levels: ['500', '1000'] }] });
    const view = bill(model, [{ ...one, cell: { rate: '500' }, parts: [...rest, broken] }]);
    view?.update(model.initial());
    const text = view?.element.textContent ?? '';
    expect(text).toContain('At rate 500');
    expect(text).toContain('not valid');
    expect(text).not.toContain('–  broken (');
  });
});

describe('a request’s way', () => {
  it('is not there without one', () => {
    expect(hops(new Model(priced), [])).toBeNull();
  });
  it('tells every term, and which have no figure', () => {
    const model = new Model(findings('hops'));
    const all = findings('hops').hops ?? [];
    const view = hops(model, all);
    view?.update(model.initial());
    const text = view?.element.textContent ?? '';
    for (const part of ['path without sidecars', 'residual', 'in all', ...(first(all).says ?? ['?'])]) expect(text).toContain(part);
    const table = rows(view?.element.querySelector('table'));
    expect(table.filter((row) => row[1] === 'not valid').map((row) => row[0])).toEqual(['TLS', 'interception']);
    expect(table.find((row) => row[0] === 'path without sidecars')?.[1]).toMatch(/^0\.1\d/);
  });
});

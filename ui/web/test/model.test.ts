import { expect, test } from 'vitest';
import type { CellSummary, Findings } from '../src/documents';
import { isNumeric, key, level, levelWords, Model } from '../src/model';
import { findings as read, first } from './fixtures';

const findings = read('data-plane');

/** A study of connections by sidecars by arrival, one finding a compared cell. */
function threeFactors(): Findings {
  const factors = [
    { factor: 'connections', levels: ['2', '16'] },
    { factor: 'sidecars', levels: ['none', 'server', 'both'] },
    { factor: 'arrival', levels: ['poisson', 'burst'] },
  ];
  const cells = ['2', '16'].flatMap((connections) =>
    ['none', 'server', 'both'].flatMap((sidecars) => ['poisson', 'burst'].map((arrival) => ({ ...first(findings.cells), cell: { connections, sidecars, arrival } } satisfies CellSummary))),
  );
  return {
    ...findings,
    factors,
    cells,
    noise_floor: [
      { measure: 'latency_p50', cell: { connections: '2', sidecars: 'none', arrival: 'burst' }, floor: 3, unit: 'us', blocks: 4, relative_ratio: 0.1 },
      { measure: 'latency_p50', cell: { connections: '16', sidecars: 'none', arrival: 'burst' }, floor: 9, unit: 'us', blocks: 4, relative_ratio: 0.1 },
    ],
    findings: cells.filter((c) => c.cell.sidecars !== 'none').map((c) => ({
      name: 'latency_p50_overhead', probe: 'latency', cell: c.cell, against: { ...c.cell, sidecars: 'none' }, estimate: 1, low: 0.5, high: 2, unit: 'us', blocks: 4, verdict: 'real',
    })),
  };
}

test('a study of one factor is coloured by it, the baseline grey', () => {
  const model = new Model(findings);
  expect(model.compared).toEqual(['sidecars']);
  expect(model.numeric).toBeUndefined();
  expect(model.colorFactor?.factor).toBe('sidecars');
  expect(model.look({ sidecars: 'none' }).color).toBe('var(--series-0)');
  expect(new Set(model.cells.map((c) => model.look(c.cell).color)).size).toBe(3);
});

test('of three factors one is the axis, one the colour, one the dash', () => {
  const model = new Model(threeFactors());
  expect(model.numeric?.factor).toBe('connections');
  expect(model.colorFactor?.factor).toBe('arrival');
  expect(model.dashFactor?.factor).toBe('sidecars');
  const both = model.look({ connections: '2', sidecars: 'both', arrival: 'burst' });
  expect(both.dash).toBe(0);
  expect(model.look({ connections: '16', sidecars: 'both', arrival: 'burst' })).toEqual(both);
  expect(model.look({ connections: '2', sidecars: 'none', arrival: 'burst' })).toEqual({ ...both, dash: 2 });
});

test('selection takes cells away by level', () => {
  const model = new Model(threeFactors());
  const selection = model.initial();
  expect(model.selected(selection)).toHaveLength(12);
  selection.get('arrival')?.delete('burst');
  selection.get('connections')?.delete('2');
  expect(model.selected(selection).map((c) => c.cell?.['sidecars'])).toEqual(['none', 'server', 'both']);
  selection.get('sidecars')?.clear();
  expect(model.selected(selection)).toEqual([]);
});

test('a finding is judged by the noise of its own baseline, or else by the largest', () => {
  const model = new Model(threeFactors());
  const at = (connections: string, arrival: string) => model.overhead('latency_p50', { connections, sidecars: 'both', arrival });
  const noise = (connections: string, arrival: string) => {
    const f = at(connections, arrival);
    return f && model.noise(f)?.floor;
  };
  expect(noise('2', 'burst')).toBe(3);
  expect(noise('16', 'burst')).toBe(9);
  expect(noise('2', 'poisson')).toBe(9);
});

test('keys are the same as in Go, whatever the order', () => {
  expect(key({ b: '2', a: '1' })).toBe('a=1,b=2');
  expect(key(null)).toBe('');
});

test('levels named like members of objects are no trap', () => {
  expect(level({}, 'constructor')).toBe('');
  expect(level(JSON.parse('{"__proto__": "x"}') as Record<string, string>, '__proto__')).toBe('x');
  expect(isNumeric({ factor: 'x', levels: ['1', ''] })).toBe(false);
  expect(isNumeric({ factor: 'x', levels: ['1', '2.5'] })).toBe(true);
});

test('labels name what differs among the cells shown', () => {
  const model = new Model(threeFactors());
  const shown = model.cells.filter((c) => c.cell?.['connections'] === '16');
  expect(model.label(shown[0]?.cell ?? null, shown)).toBe('no sidecars · poisson');
  expect(model.label(shown[5]?.cell ?? null, model.cells)).toBe('16 connections · both sidecars · burst');
  expect(['server', 'ambient'].map((level) => levelWords({ factor: 'sidecars', levels: ['none', 'server', 'ambient'] }, level))).toEqual(['server sidecar', 'ambient']);
});

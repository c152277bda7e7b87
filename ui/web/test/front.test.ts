// @vitest-environment happy-dom
// The front of a tuning: which settings are marked how, and in which measures.

import { expect, test } from 'vitest';
import type { Tuning, TunedCell } from '../src/documents';
import { Model } from '../src/model';
import { front } from '../src/views/front';
import { broken, findings, press, source, texts } from './fixtures';

const value = (estimate: number) => ({ known: true, estimate, low: 0.9 * estimate, high: 1.1 * estimate });

const cell = (label: string, pushes: number, convergence: number, more: Partial<TunedCell> = {}): TunedCell => ({
  cell: { debounce_after: label }, label, trials: 2, objective: { estimate: 0, low: 0, high: 0 }, allowed: 1,
  values: [value(pushes), value(convergence), { known: false, estimate: 0, low: 0, high: 0 }], front: false, ...more,
});

const tuning: Tuning = {
  objectives: ['pushes'], grid: 8, trials: 8, most_trials: 12, blocks: 2, trial_seconds: 60,
  measures: [
    { finding: 'pushes', unit: 'pushes', axis: true, noise_ratio: 0.03 },
    { finding: 'convergence_p99', unit: 'us', axis: true, noise_ratio: 0.1 },
    { finding: 'stale_proxy_seconds_per_change', unit: 's/change', axis: false, noise_ratio: 0, missing: 'no trial has one' },
  ],
  cells: [cell('1s', 60, 1.2e6, { front: true, recommended: true }), cell('installed', 500, 1.2e5, { front: true, present: true }), cell('5s', 61, 5e6)],
};

test('it marks the front, the setting in use and the recommended one', () => {
  const model = new Model(findings('control-plane'));
  const view = front(model, tuning);
  view?.update(model.initial());
  const root = view?.element ?? document.body;
  expect(root.querySelectorAll('.marker')).toHaveLength(3);
  expect(root.querySelectorAll('.marker.hollow')).toHaveLength(1);
  expect(texts(root, 'svg title').map((t) => t.split(':')[0])).toEqual(['1s', 'installed', '5s']);
  expect(root.querySelectorAll('input[type=radio]')).toHaveLength(4); // what no trial has is no choice
  const before = source(root.querySelector('svg'));
  press(root, '.controls fieldset:first-child input[value=pushes]');
  expect(source(root.querySelector('svg'))).not.toBe(before);
  expect(source(root)).not.toMatch(broken);
});

test('it is not there without two measures', () => {
  const model = new Model(findings('control-plane'));
  expect(front(model, undefined)).toBeNull();
  expect(front(model, { ...tuning, measures: (tuning.measures ?? []).slice(0, 1) })).toBeNull();
  expect(front(model, { ...tuning, cells: [] })).toBeNull();
});

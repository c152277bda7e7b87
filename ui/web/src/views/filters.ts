// Which cells are shown: a row of switches for each factor.

import { h } from '../dom';
import { count } from '../format';
import { factorWords, type Model, type Selection } from '../model';

export function filters(model: Model, changed: (selection: Selection) => void): HTMLElement | null {
  const varying = model.factors.filter((f) => f.levels.length > 1);
  if (varying.length === 0) return null;
  const selection = model.initial();
  const status = h('p', { class: 'status', role: 'status' });
  const apply = (): void => {
    const n = model.selected(selection).length;
    status.textContent = `${count(n)} of ${count(model.cells.length)} cells shown`;
    changed(selection);
  };
  const inputs: HTMLInputElement[] = [];
  const groups = varying.map((factor) =>
    h(
      'fieldset',
      { class: 'chips' },
      h('legend', {}, factorWords(factor.factor)),
      factor.levels.map((l) => {
        const input = h('input', { type: 'checkbox', checked: true });
        inputs.push(input);
        input.addEventListener('change', () => {
          const set = selection.get(factor.factor);
          if (input.checked) set?.add(l);
          else set?.delete(l);
          apply();
        });
        return h('label', {}, input, h('span', {}, l));
      }),
    ),
  );
  const reset = h('button', { type: 'button' }, 'Show all');
  reset.addEventListener('click', () => {
    for (const input of inputs) input.checked = true;
    for (const factor of varying) for (const l of factor.levels) selection.get(factor.factor)?.add(l);
    apply();
  });
  const n = model.cells.length;
  status.textContent = `${count(n)} of ${count(n)} cells shown`;
  return h('form', { class: 'filters', 'aria-label': 'Cells shown' }, groups, h('div', { class: 'summary' }, status, reset));
}

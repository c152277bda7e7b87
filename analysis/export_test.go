package analysis

import (
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Searches returns only the findings of a run's searches.
func (kinds Kinds) Searches(plan *study.Plan, run record.Run) ([]record.Finding, error) {
	o, err := kinds.Of(plan.Study).observe(plan, run)
	if err != nil {
		return nil, err
	}
	return o.searches(), nil
}

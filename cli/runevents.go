package cli

import (
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/study"
)

// showEvent tells a person what the runner does.
func showEvent(p *progress, plan *study.Plan, e runner.Event) {
	switch e.Stage {
	case "trial":
		if e.Record == nil && plan.Study.Tune != nil {
			p.Say("block %d, trial %d: %s", e.Block+1, e.Trial, e.Cell)
		} else if e.Record == nil && e.Trials == 0 {
			p.Say("block %d of at most %d, trial %d of the search: %s", e.Block+1, plan.Study.Blocks.Max, e.Trial, e.Cell)
		} else if e.Record == nil {
			p.Say("block %d of at most %d, trial %d of %d: %s", e.Block+1, plan.Study.Blocks.Max, e.Trial, e.Trials, e.Cell)
		} else if !e.Record.Validity.Valid && p.width > 0 {
			p.Note("trial %s (%s) is not valid: %s", e.Record.ID, e.Cell, firstFailure(e.Record.Validity))
		}
	case "step", "timeline":
		p.Say("  %s", e.Text)
	case runner.StageWait:
		p.Note("%s", e.Text)
	case "block":
		p.Say("block %d done", e.Block+1)
	default:
		p.Say("%s", e.Text)
	}
}

func firstFailure(v record.Validity) string {
	for _, c := range v.Checks {
		if !c.OK {
			return c.Name + ": " + c.Detail
		}
	}
	return "no reason recorded"
}

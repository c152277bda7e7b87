package cli

import (
	"fmt"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
)

// rejudged is a run as the flags want it judged: as it was, with a word on
// stderr if the rules have changed since, or anew.
func rejudged(env *Env, f reportFlags, run record.Run) (record.Run, error) {
	kind, err := kinds.OfRun(run.Header)
	if !f.rejudge {
		if len(f.limits) > 0 {
			return run, errs.WithHint(errs.Usage("--limit requires --rejudge"), "give both")
		}
		if words := verdict.Outdated(run.Header.Rules, kind.Limits); words != "" && err == nil {
			fmt.Fprintf(env.Stderr, "meshtrial: run %s: %s; --rejudge judges them by today's\n", run.Header.RunID, words)
		}
		return run, nil
	}
	if err != nil {
		return run, err
	}
	limits, err := verdict.ParseLimits(f.limits, kind.Limits)
	if err != nil {
		return run, err
	}
	out, notes, err := kinds.Rejudge(run, limits, func(name string) func(mesh.Evidence) []record.Check {
		return app.Mesh(name, lab.Images{}).Verify
	})
	for _, note := range notes {
		fmt.Fprintf(env.Stderr, "meshtrial: %s\n", note)
	}
	return out, err
}

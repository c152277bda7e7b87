package findings

import (
	"errors"
	"io/fs"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// BookOf reads the log entries of a trial's requests; s is the study of the run.
func BookOf(run *record.Run, s *study.Study, t *record.Trial) (*ledger.Book, error) {
	if run.Requests == nil {
		return nil, errors.New("the run keeps none")
	}
	r, err := run.Requests(t.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("there is no such file")
	}
	if err != nil {
		return nil, err
	}
	book, err := ledger.Read(r, bookOptions(s, t))
	if closeErr := r.Close(); err == nil {
		err = closeErr
	}
	return book, err
}

// maxNamed limits the number of requests that findings name.
const maxNamed = 1000

// bookOptions returns the stations that a trial's requests pass, by its study's graph and its pods.
func bookOptions(s *study.Study, t *record.Trial) ledger.Options {
	sidecars, side := map[string]bool{}, ""
	var pods []record.ScenarioPod
	if t.Scenario != nil {
		pods, side = t.Scenario.Pods, t.Scenario.Ledger
	}
	for _, p := range pods {
		sidecars[p.Service] = sidecars[p.Service] || p.Sidecar
	}
	options := verdict.LedgerOptions(resilience.Of(s), t.Cell, side, func(service string) bool { return sidecars[service] })
	options.Gone, options.Names = gone(pods), maxNamed
	return options
}

// left reports whether a pod stopped being an endpoint for good.
func left(p record.ScenarioPod) bool { return p.GoneNS > p.BackNS }

// gone lists addresses that pods gave up, each until the next pod with that address was ready.
func gone(pods []record.ScenarioPod) []ledger.Gone {
	var out []ledger.Gone
	for _, p := range pods {
		if p.GoneNS == 0 || p.IP == "" || p.Service == fault.LoadService {
			continue
		}
		g := ledger.Gone{Address: p.IP, FromNS: p.GoneNS}
		if !left(p) {
			g.UntilNS = p.BackNS
		}
		for _, q := range pods {
			if q.IP == p.IP && q.ReadyNS > p.GoneNS && (g.UntilNS == 0 || q.ReadyNS < g.UntilNS) {
				g.UntilNS = q.ReadyNS
			}
		}
		out = append(out, g)
	}
	return out
}

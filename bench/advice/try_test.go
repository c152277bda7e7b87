package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// program stands in for meshtrial: for a run it makes the directory; for advice it prints a
// file for a world's first or second run. An empty file means that advice failed.
const program = `#!/bin/sh
case $1 in
run) mkdir -p "$4"; cp "$2" "$4/study.yaml"; exit 4 ;;
assess) case $3 in *-1-*) f=first ;; *) f=second ;; esac; [ -s $f.json ] || exit 1; cat $f.json ;;
esac
`

// A world is run as planted, then next to a cell with the first advice applied. The result
// of both is a line, and runs are kept if it is unexpected.
func TestTry(t *testing.T) {
	w := worlds[0]
	expect := &advice.Expected{Quantity: "total", Now: 4.2, Low: 0.1, High: 0.9}
	planted := advice.Report{Advice: []advice.Judgement{{Rule: w.planted, Confidence: 0.95, Expect: expect,
		Try: []advice.Step{{Do: "look"}, {Lever: study.FactorDebounceAfter, Level: "100ms"}}}}}
	beside := func(total float64) []advice.Report {
		one, other := planted, advice.Report{Cell: record.Cell{study.FactorVariant: advised},
			Values: []advice.Value{{Name: "total", Value: total}}}
		one.Cell = record.Cell{study.FactorVariant: asPlanted}
		return []advice.Report{one, other}
	}
	another := advice.Report{Advice: []advice.Judgement{{Rule: "throttle"}}}
	for name, c := range map[string]struct {
		first, second []advice.Report
		check         func(line) bool
		kept          int
	}{
		"as promised": {[]advice.Report{planted}, beside(0.5), func(l line) bool {
			return l.First == w.planted && l.Effect.Within && l.Effect.Applied == "debounce_after: 100ms"
		}, 0},
		"not": {[]advice.Report{planted}, beside(2),
			func(l line) bool { return l.First == w.planted && !l.Effect.Within && l.Effect.After == 2 }, 1},
		"another advice": {[]advice.Report{another, planted}, nil,
			func(l line) bool { return l.First == "throttle" && l.Effect == nil }, 1},
		"silence":   {[]advice.Report{{}}, nil, func(l line) bool { return l.First == "" && l.Failed == "" }, 1},
		"no answer": {nil, nil, func(l line) bool { return strings.Contains(l.Failed, "advice") }, 1},
		"no second": {[]advice.Report{planted}, nil,
			func(l line) bool { return strings.Contains(l.Effect.Failed, "advice") && !l.Effect.Within }, 1},
	} {
		t.Chdir(t.TempDir())
		must.OK(t, os.MkdirAll("bin", 0o755))
		must.OK(t, os.WriteFile("bin/meshtrial", []byte(program), 0o755))
		for file, reports := range map[string][]advice.Report{"first.json": c.first, "second.json": c.second} {
			if reports == nil {
				continue
			}
			data, err := json.Marshal(map[string]any{"schema": 1, "reports": reports})
			must.OK(t, err)
			must.OK(t, os.WriteFile(file, data, 0o644))
		}
		l, err := w.try(t.Context(), ".")
		if err != nil || !c.check(l) || l.World != w.name || l.Seconds <= 0 {
			t.Errorf("%s: %+v %+v, %v", name, l, l.Effect, err)
		}
		kept, err := filepath.Glob("advice-*")
		if err != nil || len(kept) != c.kept || len(l.Runs) != c.kept {
			t.Errorf("%s: kept %v, says %v, %v", name, kept, l.Runs, err)
		}
	}
}

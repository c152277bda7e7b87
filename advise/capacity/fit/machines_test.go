package fit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/capacity/push"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// on sets the machines of istiod and the simulated sidecars in trials of a run.
func on(run record.Run, istiod, simulators string, trials ...int) {
	for _, i := range trials {
		run.Trials[i].Nodes = map[string]record.NodeAt{}
		for part, all := range map[string]string{record.PartControl: istiod, record.PartSimulator: simulators} {
			for k, machine := range strings.Split(all, "+") {
				run.Trials[i].Nodes[record.OfHand(part, k)] = record.NodeAt{Name: fmt.Sprint("node-", k), Machine: machine}
			}
		}
	}
}

// Trials on unusual machines do not enter the model: it is that of the others alone, and names both.
func TestUnlikeMachines(t *testing.T) {
	const two = "  a: {proxies: 50, services: 50, change_rate: 2}\n  b: {proxies: 100, services: 50, change_rate: 2}\n"
	slow := truth()
	for p := range slow {
		slow[p] *= 2
	}
	plan, options := cells(t, two), Options{Seed: 1, Draws: 10}
	most := madeUp(t, truth(), plan, 3, 0.02, 1)
	want, err := Fit([]record.Run{most}, options)
	must.OK(t, err)
	beside := madeUp(t, truth(), plan, 3, 0.02, 1)
	on(beside, "m", "m", 0, 1, 2, 3, 4, 5)
	other := madeUp(t, slow, plan, 3, 0.02, 1)
	for i, machines := range [][2]string{{"n", "m"}, {"m", "n"}, {"m+n", "m"}, {"n", "m"}, {"m", "m+n"}} {
		on(other, machines[0], machines[1], i)
		trial := other.Trials[i]
		trial.ID = "other-" + trial.ID
		beside.Trials = append(beside.Trials, trial)
		for _, e := range other.Events {
			if "other-"+e.Trial == trial.ID {
				e.Trial = trial.ID
				beside.Events = append(beside.Events, e)
			}
		}
	}
	m, err := Fit([]record.Run{beside}, options)
	must.OK(t, err)
	if !reflect.DeepEqual(m.Parameters, want.Parameters) {
		t.Errorf("parameters are %+v, of the usual machine alone %+v", m.Parameters, want.Parameters)
	}
	said := fmt.Sprint(m.Notes)
	for _, l := range m.Runs[0].Left {
		said += fmt.Sprintf("; %d: %s", l.Trials, l.Why)
	}
	if m.Runs[0].Trials != 6 || m.Runs[0].Machine != "m" {
		t.Errorf("%d trials on %s", m.Runs[0].Trials, m.Runs[0].Machine)
	}
	for _, name := range []string{"5 trials on other machines", "2: istiod on n, and in most trials on m", "1: istiod on m and n,",
		"1: the simulated sidecars on n,", "1: the simulated sidecars on m and n,"} {
		if !strings.Contains(said, name) {
			t.Errorf("it lacks %q: %s", name, said)
		}
	}
	if _, left, err := Against(want, beside, model.Options{Seed: 1, Draws: 5}); err != nil || len(left) != 5 {
		t.Errorf("held against a run of machines that differ: %v, %v", left, err)
	}
	held := options
	held.HoldOut = record.Cell{"variant": "b"}
	on(most, "n", "n", 1, 3, 5)
	on(most, "m", "m", 0, 2, 4)
	if _, err := Fit([]record.Run{most}, held); err == nil || !strings.Contains(err.Error(), "no trial that can be used") {
		t.Errorf("what is held out is of another machine: %v", err)
	}
	most.Trials = most.Trials[4:]
	if _, err := Fit([]record.Run{most}, options); err == nil || !strings.Contains(err.Error(), "left out: 1 (istiod on n, and in most trials on m)") {
		t.Errorf("one trial of each machine: %v", err)
	}
}

// Trials beside other programs are used, and noted.
func TestSharedMachine(t *testing.T) {
	run := madeUp(t, truth(), cells(t, "  a: {proxies: 50, services: 50, change_rate: 2}\n  b: {proxies: 100, services: 50, change_rate: 2}\n"), 2, 0.02, 1)
	for i, share := range []float64{0.4, 0.05} {
		run.Trials[i].Others = &record.Others{UnattributedRatio: share}
	}
	m, err := Fit([]record.Run{run}, Options{Seed: 1, Draws: 10})
	must.OK(t, err)
	if m.Runs[0].Trials != 4 || !slices.ContainsFunc(m.Notes, func(n model.Note) bool { return n.Code == model.NoteShared && n.N == 1 && n.Of == 4 }) {
		t.Errorf("%d trials, %v", m.Runs[0].Trials, m.Notes)
	}
}

// The usual machine is determined for each part; an unknown machine never counts as different.
func TestUsual(t *testing.T) {
	for name, c := range map[string]struct {
		trials []string // machine of istiod and of the simulators
		want   string
		apart  string
	}{
		"alike":          {[]string{"m n", "m n"}, "m n", ""},
		"most":           {[]string{"n n", "m n", "m n"}, "m n", "0"},
		"as many":        {[]string{"n n", "m n"}, "n n", "1"},
		"part by part":   {[]string{"m m", "m n", "m n", "n m", "n m"}, "m n", "0 3 4"},
		"not known":      {[]string{"? n", "m ?", "? ?"}, "m n", ""},
		"nothing known":  {[]string{"? ?", "? ?"}, "? ?", ""},
		"one is unknown": {[]string{"? m", "m n", "m n"}, "m n", "0"},
	} {
		var all []*Observation
		for _, line := range c.trials {
			o := &Observation{}
			o.on[0], o.on[1], _ = strings.Cut(strings.ReplaceAll(line, "?", ""), " ")
			all = append(all, o)
		}
		most := usual(all)
		if got := most[0] + " " + most[1]; got != strings.ReplaceAll(c.want, "?", "") {
			t.Errorf("%s: most were on %q", name, got)
		}
		var apart []string
		for i, o := range all {
			if o.apart(most).Code != "" {
				apart = append(apart, fmt.Sprint(i))
			}
		}
		if got := strings.Join(apart, " "); got != c.apart {
			t.Errorf("%s: apart are %q, want %q", name, got, c.apart)
		}
	}
}

// A profile divides CPU time among the generators of types, each including its callees;
// one that is too short, of another kind, or unreadable gives no result.
func TestGeneration(t *testing.T) {
	const xds = "istio.io/istio/pilot/pkg/xds."
	stacks := strings.Join([]string{
		"run;" + xds + "(*DiscoveryServer).pushDeltaXds;" + xds + "(*EdsGenerator).GenerateDeltas;build;alloc 600000000",
		"run;" + xds + "(*EdsGenerator).Generate;build 200000000",
		"run;" + xds + "RdsGenerator.Generate;build;alloc 400000000",
		"run;" + xds + "CdsGenerator.GenerateDeltas 300000000",
		"run;" + xds + "LdsGenerator.Generate 500000000",
		"run;" + xds + "EcdsGenerator.Generate 900000000",
		"run;collect 5000000000",
		"",
	}, "\n")
	pprof := func(folded string) []byte {
		p, err := profile.ReadFolded(strings.NewReader(folded))
		must.OK(t, err)
		var out bytes.Buffer
		must.OK(t, p.WritePprof(&out))
		return out.Bytes()
	}
	files := map[string][]byte{
		"profiles/long-istiod-0-cpu.pb.gz":   pprof(stacks),
		"profiles/short-istiod-0-cpu.pb.gz":  pprof(strings.ReplaceAll(stacks, "00000000\n", "0000000\n")),
		"profiles/broken-istiod-0-cpu.pb.gz": []byte("no profile"),
	}
	run := record.Run{Profile: func(name string) (io.ReadCloser, error) {
		data, ok := files[name]
		if !ok {
			return nil, errors.New("no such file")
		}
		return io.NopCloser(bytes.NewReader(data)), nil
	}}
	of := func(run record.Run, id string, kinds ...string) *[push.Types]float64 {
		c := &record.Control{}
		for _, kind := range kinds {
			c.Profiles = append(c.Profiles, record.Profile{Kind: kind})
		}
		return generation(run, &record.Trial{ID: id, Control: c})
	}
	got := of(run, "long", "mutex", "cpu")
	want := [push.Types]float64{push.CDS: 0.15, push.EDS: 0.4, push.LDS: 0.25, push.RDS: 0.2}
	if got == nil {
		t.Fatal("nothing is read")
	}
	for k := range want {
		if math.Abs(got[k]-want[k]) > 1e-9 {
			t.Errorf("%s: %g, want %g", push.Type(k), got[k], want[k])
		}
	}
	for id, kinds := range map[string][]string{"short": {"cpu"}, "broken": {"cpu"}, "missing": {"cpu"}, "long": {"mutex"}} {
		if got := of(run, id, kinds...); got != nil {
			t.Errorf("%s: %v", id, got)
		}
	}
	if got := of(record.Run{}, "long", "cpu"); got != nil {
		t.Errorf("a run without profiles: %v", got)
	}
}

// Two types that always come together while pushes overlap are separated if a profile
// shows the cost of each: istiod's timers include waiting there, and the total CPU time
// does not separate them.
func TestProfileTellsApart(t *testing.T) {
	trial := func(proxies int, waited, cpu float64, types ...push.Type) *Observation {
		o := &Observation{Cell: fmt.Sprint(proxies, waited), Proxies: proxies, Replicas: 1, Namespaces: 1, Services: 100, CPU: cpu, Waited: waited, Contexts: 10, ChangesMade: 10}
		o.Replay.Window = 10
		for _, k := range types {
			o.Pushes[k], o.Times[k] = float64(proxies*10), 1
		}
		return o
	}
	all := []*Observation{trial(100, 0.01, 1, push.NDS), trial(200, 0.01, 2, push.NDS), trial(100, 2, 3, push.LDS, push.RDS), trial(200, 2, 6, push.LDS, push.RDS)}
	all[2].Generation = &[push.Types]float64{push.LDS: 0.25, push.RDS: 0.75}
	all[3].Generation = all[2].Generation
	if !all[0].calm() || all[3].calm() {
		t.Fatal("the first is to be calm, the last not")
	}
	e := estimateOf(all, map[*Observation]simulation{}, nil, preference{})
	each := func(t push.Type) float64 { return e.values[model.CPUOf(t)] + 100*e.values[model.CPUPerServiceOf(t)] }
	lds, rds := each(push.LDS), each(push.RDS)
	if math.Abs(lds/0.00075-1) > 0.02 || math.Abs(rds/0.00225-1) > 0.02 {
		t.Errorf("lds takes %.3g s a push, rds %.3g s", lds, rds)
	}
}

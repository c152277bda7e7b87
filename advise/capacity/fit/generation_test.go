package fit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/capacity/push"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

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

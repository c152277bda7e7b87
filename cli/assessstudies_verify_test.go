//go:build verify

package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// luaFilter is an EnvoyFilter of a namespace without pods: what it adds is for a study to measure.
const luaFilter = `
apiVersion: v1
kind: Namespace
metadata: {name: planted}
---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: header, namespace: planted}
spec:
  configPatches:
  - applyTo: HTTP_FILTER
    match: {context: SIDECAR_INBOUND, listener: {filterChain: {filter: {name: envoy.filters.network.http_connection_manager, subFilter: {name: envoy.filters.http.router}}}}}
    patch:
      operation: INSERT_BEFORE
      value:
        name: planted.header
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
          default_source_code: {inline_string: "function envoy_on_request(h) h:headers():add('x-planted', 'yes') end"}
`

// TestAssessStudies has the shop assessed, runs each study that the assessment writes as it is, of which two blocks
// are enough here, and has the shop assessed again with what these runs measured: it then knows what it did not.
func TestAssessStudies(t *testing.T) {
	m := labtest.New(t)
	var up, ztunnel []string
	if dir := os.Getenv("MESHTRIAL_ZTUNNEL"); dir != "" {
		up, ztunnel = []string{"--ztunnel", dir}, []string{"--ztunnel", dir}
	} else {
		ztunnel = []string{"--set", "sidecars=[none,both]"} // as the study's file says
	}
	w := &world{guests: guests{machine: m, lab: m.Up(t, up...)}, t: t, mesh: shop, dir: t.TempDir()}
	labtest.Namespace(t, w.lab, "planted")
	labtest.Kubectl(t, w.lab, luaFilter, "apply", "-f", "-")
	first := w.whileItRuns()
	for _, gap := range []assess.Gap{assess.NoOwnModel, assess.NoHTTPOpen} {
		if gap.In(first.Unknown) != (gap == assess.NoOwnModel) {
			t.Errorf("unknown at first: %v", first.Unknown)
		}
	}
	want := []string{assess.StudyLatency, assess.StudyModes, assess.StudyFilters, assess.StudyCapacity, assess.StudyReplica}
	studies := first.Settle
	for _, name := range want {
		if !slices.ContainsFunc(studies, func(s assess.Study) bool { return s.Name == name }) {
			t.Errorf("the assessment has no study %s", name)
		}
	}
	// Sidecars are generated for workloads that have run for a day.
	narrow := &generate.Result{Sidecars: []generate.Sidecar{{Namespace: "shop", Name: "default", Change: generate.Create}}}
	sized := assess.Assess(assess.Evidence{Proxies: []assess.Proxy{{Kind: assess.Sidecar, Namespace: "shop"}, {Kind: assess.Sidecar, Namespace: "front"}, {Kind: assess.Istiod}},
		Objects: first.Mesh.Objects, Limits: first.Limits, Scope: &scope.Report{}, Sidecars: narrow})
	for _, s := range sized.Settle {
		if s.Name == assess.StudyScope {
			studies = append(studies, s)
		}
	}
	runs := map[string]string{}
	for _, s := range studies {
		began := time.Now()
		runs[s.Name] = filepath.Join(t.TempDir(), s.Name)
		args := []string{"run", labtest.Study(t, s.File), "--out", runs[s.Name], "--set", "blocks.min=2", "--set", "blocks.max=2", "--limit", "unattributed=100%"}
		if s.Name == assess.StudyModes {
			args = append(args, ztunnel...)
		}
		m.Succeeds(t, args...)
		t.Logf("%s: %.0f s", s.Name, time.Since(began).Seconds())
	}
	model := filepath.Join(w.dir, "model.json")
	m.Succeeds(t, "assess", "capacity", "fit", runs[assess.StudyCapacity], "-o", model)
	settled := w.whileItRuns("--with", runs[assess.StudyLatency], "--with", runs[assess.StudyModes], "--model", model)
	for _, gap := range []assess.Gap{assess.NoLatency, assess.NoUnitCosts, assess.NoOwnModel, assess.OtherModel, assess.NoCapacity, assess.OtherBuild} {
		if gap.In(settled.Unknown) {
			t.Errorf("still unknown: %v", settled.Unknown)
		}
	}
	if p := settled.Capacity; p == nil || p.Limits == nil || p.Limits.Proxies == 0 {
		t.Errorf("capacity: %+v", p)
	}
	if l := settled.Cost.Latency; len(l) == 0 || l[0].Shipped || l[0].P50 == nil || !(l[0].P50.Estimate > 0) {
		t.Errorf("latency: %+v", l)
	}
	if modes := settled.Modes; len(modes) == 0 || modes[0].Shipped || len(modes[0].Sizing.Ways) < 2 && len(up) > 0 {
		t.Errorf("ways: %+v", modes)
	}
}

// whileItRuns makes the mesh and has it assessed.
func (w *world) whileItRuns(args ...string) assess.Assessment {
	t := w.t
	study := w.machine.Command(t, "run", labtest.Study(t, w.mesh.study), "--out", filepath.Join(t.TempDir(), "run"))
	said, ended := labtest.Background(t, study)
	eventually.Succeeds(t, 4*time.Minute, "the mesh is as planted", func() error {
		select {
		case <-ended:
			t.Fatalf("the study has ended:\n%s", said)
		default:
		}
		return w.mesh.ready(w)
	})
	a, _ := w.assess(append([]string{"--lab=local", "--duration", "40s", "--proxies", "0"}, args...)...)
	must.OK(t, study.Process.Signal(os.Interrupt))
	<-ended
	if a.Limits == nil || !slices.ContainsFunc(a.Limits.Values, func(v advice.Value) bool { return v.Name == advice.QuantityProxies }) {
		t.Fatalf("istiod was not watched: %v", a.Unknown)
	}
	return a
}

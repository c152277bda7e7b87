package ingress_test

import (
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/ingress"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

const text = "name: n\nquestion: How soon?\nchurn: {changes: 4}\nfactors: {ingress: [istio, envoy-gateway], routes: [10, 100]}\nbaseline: {ingress: istio, routes: 10}\n"

func TestStudy(t *testing.T) {
	s, err := study.Parse([]byte(text), "n.yaml", nil)
	must.OK(t, err)
	plan, err := study.NewPlan(s, 1)
	must.OK(t, err)
	c := ingress.Of(s)
	if s.Kind != ingress.Kind || s.Mesh != study.MeshNone || c.Changes != 4 || c.Watched != 10 || len(plan.Cells) != 4 {
		t.Errorf("%s of mesh %s: %+v, cells %v", s.Kind, s.Mesh, c, plan.Cells)
	}
	if !ingress.Uses(plan, ingress.EnvoyGateway) || !ingress.Uses(plan, ingress.Istio) || ingress.Uses(plan, "other") {
		t.Errorf("ingresses %v", ingress.Ingresses(plan))
	}
	l, err := ingress.LevelsOf(plan.Cells[0])
	if want := (ingress.Levels{Ingress: "istio", Routes: 10, Listeners: 1, ChangeRate: 1}); err != nil || l != want {
		t.Errorf("%+v, %v", l, err)
	}
	if got := ingress.ChangeTime(c, l); got != 4*time.Second {
		t.Errorf("changes take %v", got)
	}
}

// Levels and fields that do not fit together are refused with their place in the file.
func TestRefused(t *testing.T) {
	for change, says := range map[string]string{
		"routes: [10, 100]|routes: [0, 100]":                                       "n.yaml:4:",
		"routes: [10, 100]|routes: [10, 100], certificates: [2]":                   "2 certificates for 1 listeners",
		"routes: [10, 100]|routes: [10, 100], listeners: [500], certificates: [2]": "500 listeners for 2 certificates",
		"ingress: [istio, envoy-gateway]|ingress: [istio, nginx]":                  `unknown level "nginx"`,
		"{changes: 4}|{changes: 4, unattached: 5}":                                 "n.yaml:3:33: 5 of 4 added routes",
		"{changes: 4}|{changes: 4, watched: 100, watch_every: 1ms}":                "100000 requests per second",
		"{changes: 4}|{changes: 0}":                                                "n.yaml:3:18",
		"{changes: 4}|{sidecars: 4}":                                               "sidecars",
		"churn: {changes: 4}|churn: {changes: 4}\nload: {rate: 10}":                "load",
	} {
		from, to, _ := strings.Cut(change, "|")
		s, err := study.Parse([]byte(strings.Replace(text, from, to, 1)), "n.yaml", nil)
		if err == nil {
			_, err = study.NewPlan(s, 1)
		}
		if err == nil || !strings.Contains(err.Error()+errs.Hint(err), says) {
			t.Errorf("%s: %v, want %q", to, err, says)
		}
	}
}

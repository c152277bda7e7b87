package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Pods are listed by pages, and of each proxy what it holds and counts is read and reduced.
func TestReadManyProxies(t *testing.T) {
	dump, clusters := manyServices(t, 40)
	r, _ := readMany(t, 520, &answers{dump: dump, clusters: clusters})
	if len(r.proxies) != 520 || len(r.scope) != 520 || len(r.rates) != 520 || len(r.e.Unknown) > 20 {
		t.Fatalf("%d proxies, %d were read, %d counted twice: %v", len(r.proxies), len(r.scope), len(r.rates), r.e.Unknown)
	}
	for _, p := range r.scope {
		if len(p.Clusters)+len(p.Owners)+len(p.Largest)+len(p.Calls) > 0 {
			t.Fatalf("%s is not reduced", p.Name)
		}
		if c := r.first[p.Name]; len(c.Endpoints) != 2 || len(c.Calls) != 2 {
			t.Fatalf("counters of %s are not reduced: %d", p.Name, len(c.Endpoints))
		}
	}
	held := r.e.Scope
	if len(held.Proxies) != 520 || held.DumpBytes != 520*held.Proxies[0].DumpBytes || len(held.Owners) != 50 || held.Uncalled.Clusters == 0 {
		t.Errorf("%d proxies hold %d bytes by %d owners, %+v", len(held.Proxies), held.DumpBytes, len(held.Owners), held.Uncalled)
	}
	detail := 0
	for _, p := range held.Proxies {
		if len(p.Largest) > 50 || len(p.Clusters) > 0 {
			t.Errorf("%s has %d resources and %d clusters", p.Name, len(p.Largest), len(p.Clusters))
		}
		if len(p.Owners) > 0 {
			detail++
		}
	}
	if detail != detailed {
		t.Errorf("%d proxies have lists", detail)
	}
}

// A proxy that hangs is given up, and those that nobody had time for are counted.
func TestProxiesThatHang(t *testing.T) {
	hanging := &http.Client{Transport: answering{&answers{hang: 1}, "web-00000"}}
	err := getLively(t.Context(), hanging, 10*time.Millisecond, "/clusters", func(io.Reader) error { return nil })
	if !errors.Is(err, errSilent) {
		t.Errorf("a proxy that hangs: %v", err)
	}
	slow := func(in io.Reader) error {
		must.OK(t, must.Err(io.ReadAll(in)))
		time.Sleep(time.Millisecond)
		return nil
	}
	if err := getLively(t.Context(), &http.Client{Transport: answering{&answers{clusters: []byte("x")}, "web-00000"}}, time.Minute, "/clusters", slow); err != nil {
		t.Error(err)
	}
	r := &meshRead{}
	var all []int
	for i := range 100 {
		all = append(all, i)
	}
	taken := 0
	ask := func(ctx context.Context, i int) (int, error) {
		switch {
		case i == 3:
			return 0, errors.New("no answer")
		case i >= 50:
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}
		return i, nil
	}
	must.OK(t, eachOf(t.Context(), r, 50*time.Millisecond, all, func(i int) string { return fmt.Sprint(i) }, ask, func(i, got int, err error) {
		if err == nil && got == i {
			taken++
		}
	}))
	if taken != 49 || !assess.ProxiesLate.In(r.e.Unknown) || !assess.NotRead.In(r.e.Unknown) || len(r.e.Unknown) != 2 {
		t.Errorf("%d were taken: %v", taken, r.e.Unknown)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := eachOf(ended, r, time.Minute, all, func(i int) string { return fmt.Sprint(i) }, ask, func(int, int, error) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupt: %v", err)
	}
}

// A ztunnel is read where configuration alone is wanted, and not asked for clusters that it has not.
func TestReadZtunnel(t *testing.T) {
	m := &fakeMesh{looks: map[string]int{}}
	api := httptest.NewServer(m)
	defer api.Close()
	dump, err := os.ReadFile("../advise/scope/testdata/ztunnel.json")
	must.OK(t, err)
	r := newMeshRead(Assessment{Section: assess.SectionConfiguration, IstiodWatch: IstiodWatch{Say: func(string) {}}}, "", openFake(t, api.URL, http.DefaultClient), func(_, pod string, _ int) (*http.Client, func() error) {
		return &http.Client{Transport: answering{&answers{dump: dump, clusters: []byte("no page")}, pod}}, func() error { return nil }
	})
	must.OK(t, r.listProxies(t.Context()))
	r.pods = slices.DeleteFunc(r.pods, func(pod corev1.Pod) bool { p, _, _ := proxyOf(pod); return p.Kind != assess.Ztunnel })
	must.OK(t, r.readSidecars(t.Context()))
	if len(r.scope) != 1 || r.scope[0].Kind != scope.NodeZtunnel || len(r.e.Unknown) > 0 {
		t.Errorf("%+v, %v", r.scope, r.e.Unknown)
	}
}

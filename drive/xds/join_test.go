package xds_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A join lasts from the first request to the last response, whatever happened
// before or concurrently.
func TestJoin(t *testing.T) {
	s := newFake(t)
	began := time.Now()
	j, err := xds.Join(t.Context(), testSpec(s.address, 1))
	must.OK(t, err)
	if j.Proxy != "p-0.ns" || j.Namespace != "ns" || j.TotalUS <= 0 || j.TotalUS >= time.Since(began).Microseconds() {
		t.Errorf("%+v within %v", j, time.Since(began))
	}
	sum := int64(0)
	for kind, resources := range map[string]int64{"cds": 2, "eds": 1, "lds": 1, "rds": 1} {
		got := j.Types[kind]
		if got.Responses != 1 || got.Resources != resources || got.Bytes == 0 || got.FirstUS <= 0 || got.LastUS < got.FirstUS || got.LastUS > j.TotalUS {
			t.Errorf("%s: %+v", kind, got)
		}
		sum += got.Bytes
	}
	if len(j.Types) != 4 || j.Bytes() != sum || j.Types["rds"].LastUS != j.TotalUS {
		t.Errorf("%+v", j)
	}
	if j.Types["cds"].FirstUS > j.Types["eds"].FirstUS || j.Types["eds"].FirstUS > j.Types["lds"].FirstUS {
		t.Errorf("out of order: %+v", j.Types)
	}
}

func TestJoinFails(t *testing.T) {
	s := newFake(t)
	if _, err := xds.Join(t.Context(), testSpec(s.address, 2)); errs.Code(err) != errs.CodeUsage {
		t.Errorf("two proxies: %v", err)
	}
	s.mu.Lock()
	s.refuse = 1
	s.mu.Unlock()
	if _, err := xds.Join(t.Context(), testSpec(s.address, 1)); err == nil || !strings.Contains(err.Error(), "p-0.ns joins: it lost its stream") {
		t.Errorf("turned away: %v", err)
	}
	s.mu.Lock()
	s.silent = true
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := xds.Join(ctx, testSpec(s.address, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answers: %v", err)
	}
}

// Sizes are kept separately by namespace.
func TestNamespaceConfig(t *testing.T) {
	s := newFake(t)
	spec := testSpec(s.address, 3)
	spec.Proxies[2].Namespace = "other"
	f := start(t, spec)
	synced(t, f)
	a := f.Account()
	for _, namespace := range []string{"ns", "other"} {
		for kind, bytes := range a.Config {
			if a.NamespaceConfig[namespace][kind] != bytes {
				t.Errorf("%s %s: %d bytes, %d in all", namespace, kind, a.NamespaceConfig[namespace][kind], bytes)
			}
		}
	}
	if len(a.NamespaceConfig) != 2 || a.Config["cds"] == 0 {
		t.Errorf("%+v", a.NamespaceConfig)
	}
}

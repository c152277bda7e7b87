//go:build integration

package fidelity_test

import (
	"context"
	"testing"
	"time"

	"github.com/meshmark/meshmark/lab"
)

func TestRecordFirst(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	m := newMesh(t, ctx)
	m.listen(t, ctx)
	m.apply(t, ctx, service("one", "192.0.2.11")+service("two", "192.0.2.21", "192.0.2.22"))
	m.apply(t, ctx, client("client", "delta"))
	if err := lab.WaitPods(ctx, m.kube, "fidelity", "app=client", 1); err != nil {
		t.Error(err)
	}
	for _, tr := range m.quiet(t, ctx, 1) {
		t.Log(tr.Normalise(nil).String())
	}
}

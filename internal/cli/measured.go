package cli

import (
	"context"

	"github.com/meshmark/meshmark/components"
	"github.com/meshmark/meshmark/lab"
	"github.com/meshmark/meshmark/record"
)

// measuredPrograms are those whose versions a report of the local lab names.
var measuredPrograms = []string{"pilot-discovery", "pilot-agent", "envoy", "kube-apiserver", "kubelet", "containerd", "runc", "coredns"}

// measuredComponents names the binaries of a local lab. What a user's
// cluster runs is found by the mesh and the running sidecars.
func measuredComponents(ctx context.Context, where lab.Lab) ([]record.Component, error) {
	if where.Kind() != lab.KindLocal {
		return nil, nil
	}
	builder, err := components.New(components.Options{})
	if err != nil {
		return nil, err
	}
	set, err := builder.Ensure(ctx, measuredPrograms...) // all there: the lab runs
	if err != nil {
		return nil, err
	}
	var out []record.Component
	for _, v := range set.Versions() {
		c := record.Component{Name: v.Name, Version: v.Version, Digest: v.Digest, Source: v.Source}
		if v.Lacks != "" {
			c.Lacks = []string{v.Lacks}
		}
		out = append(out, c)
	}
	return out, nil
}

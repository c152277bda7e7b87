package app

import (
	"context"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/record"
)

// measuredPrograms lists the programs of a local lab whose versions a report names.
var measuredPrograms = []string{"pilot-discovery", "pilot-agent", "envoy", "kube-apiserver", "kubelet", "containerd",
	"runc", "coredns"}

// reported lists the components of measuredPrograms that a report names.
var reported = []string{"istiod", "pilot-agent", "envoy", "kubernetes", "etcd", "containerd", "runc", "cni", "coredns"}

// measuredComponents returns the components of a local lab. In a user's cluster the mesh and the
// running sidecars report their own versions.
func measuredComponents(ctx context.Context, where lab.Lab) ([]record.Component, error) {
	if where.Kind() != lab.KindLocal {
		return nil, nil
	}
	builder, err := components.New(components.Options{Recorded: true}) // lab up read them
	if err != nil {
		return nil, err
	}
	set, err := builder.Ensure(ctx, measuredPrograms...) // all present: the lab is running
	if err != nil {
		return nil, err
	}
	var out []record.Component
	for _, v := range set.Versions() {
		name, _, _ := strings.Cut(v.Name, "@") // such as envoy@1.40.0
		if !slices.Contains(reported, name) {
			continue // a library that a component brought along
		}
		c := record.Component{Name: name, Version: v.Version, Digest: v.Digest, Source: v.Source}
		if v.Lacks != "" {
			c.Lacks = []string{v.Lacks}
		}
		out = append(out, c)
	}
	return out, nil
}

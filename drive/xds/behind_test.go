package xds_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/drive/xds/wire"
	"github.com/meshtrial/meshtrial/testing/eventually"
)

// Sidecars that subscribe to workloads are behind where istiod sends ztunnels alone what
// comes, changes and goes. Services, which a ztunnel holds too, are none of theirs.
func TestBehindZtunnels(t *testing.T) {
	const a, b = "Kubernetes//Pod/ns/a", "Kubernetes//Pod/ns/b"
	pod := raw([]byte{0x0a, 0x01, 'a'})
	s := ofZtunnels(t)
	s.set(wire.WorkloadType, a, pod)
	spec := ztunnels(s.address, 3)
	spec.Proxies, spec.HBONE = append(spec.Proxies, testSpec(s.address, 2).Proxies...), true
	f := start(t, spec)
	synced(t, f)
	push := func(node, typeURL string, resources map[string]proto.Message, removed ...string) {
		t.Helper()
		for _, one := range s.live() {
			if strings.HasPrefix(one.requests()[0].node, node+"~") {
				if err := one.send(typeURL, resources, removed); err != nil {
					t.Error(err)
				}
			}
		}
	}
	now := func(what string, want xds.Behind) {
		t.Helper()
		eventually.Holds(t, what, func() bool { got := f.Account().Behind; return got != nil && *got == want })
	}
	now("all hold the same", xds.Behind{Proxies: 2, Workloads: 1})
	push(xds.NodeZtunnel, wire.AddressType, map[string]proto.Message{b: workload("10.1.0.2", true), "ns/new.ns.svc.cluster.local": raw([]byte{0x12, 0x01, 'n'})})
	now("one came", xds.Behind{Proxies: 2, Behind: 2, Most: 1, Workloads: 2})
	push(xds.NodeSidecar, wire.WorkloadType, map[string]proto.Message{b: pod})
	now("they have it too", xds.Behind{Proxies: 2, Workloads: 2})
	s.mu.Lock()
	s.version = "8"
	s.mu.Unlock()
	push(xds.NodeZtunnel, wire.AddressType, map[string]proto.Message{a: workload("10.1.0.1", false)}, b)
	now("one changed and one went", xds.Behind{Proxies: 2, Behind: 2, Most: 2, Workloads: 1})
	push(xds.NodeSidecar, wire.WorkloadType, map[string]proto.Message{a: pod}, b)
	now("they know", xds.Behind{Proxies: 2, Workloads: 1})

	alone := testSpec(s.address, 2)
	alone.HBONE = true
	mixed := ztunnels(s.address, 1)
	mixed.Proxies = append(mixed.Proxies, testSpec(s.address, 1).Proxies...)
	for what, spec := range map[string]xds.Spec{"without ztunnels": alone, "without a subscription": mixed} {
		f := start(t, spec)
		synced(t, f)
		if got := f.Account().Behind; got != nil {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// Of several fleets each holds its sidecars against its own ztunnels.
func TestBehindTogether(t *testing.T) {
	parts := []xds.Part[xds.Account]{{Said: xds.Account{Behind: &xds.Behind{Proxies: 4, Behind: 1, Most: 7, Workloads: 9}}}, {},
		{Said: xds.Account{Behind: &xds.Behind{Proxies: 3, Behind: 2, Most: 5, Workloads: 9}}}}
	if got := xds.AccountOf(parts).Behind; got == nil || *got != (xds.Behind{Proxies: 7, Behind: 3, Most: 7, Workloads: 9}) {
		t.Errorf("%+v", got)
	}
	if got := xds.AccountOf(parts[1:2]).Behind; got != nil {
		t.Errorf("%+v", got)
	}
}

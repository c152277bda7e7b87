//go:build integration || verify

package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

const scopeManifests = `
apiVersion: v1
kind: Namespace
metadata: {name: scoped, labels: {istio-injection: enabled}}
---
apiVersion: v1
kind: Service
metadata: {name: shop, namespace: scoped}
spec: {selector: {app: shop}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: shop-routes, namespace: scoped}
spec: {hosts: [shop], http: [{route: [{destination: {host: shop, subset: v1}}]}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: shop-subsets, namespace: scoped}
spec: {host: shop, subsets: [{name: v1, labels: {app: shop}}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: outside, namespace: scoped}
spec: {hosts: [outside.example.com], resolution: STATIC, endpoints: [{address: 192.0.2.1}], ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: scoped}
spec:
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers: [{name: worker, image: "docker.io/meshtrial/meshtrial:lab", imagePullPolicy: IfNotPresent, args: [worker]}]
`

const scopeSidecar = `
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: scoped}
spec: {egress: [{hosts: ["./*"]}]}
`

// scopedShop is a sidecar whose configuration scope reads.
type scopedShop struct {
	t   *testing.T
	lab *local.Lab
}

func newScopedShop(t *testing.T) scopedShop {
	t.Helper()
	s := scopedShop{t, labtest.Start(t)}
	labtest.Namespace(t, s.lab, "scoped")
	s.kubectl(scopeManifests, "apply", "-f", "-")
	s.kubectl("", "-n", "scoped", "rollout", "status", "deployment/shop", "--timeout=240s")
	return s
}

func (s scopedShop) kubectl(input string, args ...string) {
	s.t.Helper()
	labtest.Kubectl(s.t, s.lab, input, args...)
}

// read returns scope's report on the sidecar, and its totals by owner.
func (s scopedShop) read() (scope.Report, map[scope.Owner]scope.OwnerTotal) {
	t := s.t
	t.Helper()
	out, _ := succeeds(t, "assess", "config", "-n", "scoped", "--top", "0", "--json")
	var r scope.Report
	must.OK(t, json.Unmarshal([]byte(out), &r))
	owners, sum := map[scope.Owner]scope.OwnerTotal{}, int64(0)
	for _, o := range r.Owners {
		owners[o.Owner], sum = o, sum+o.DumpBytes
	}
	if len(r.Proxies) != 1 || sum != r.DumpBytes || sum == 0 {
		t.Fatalf("%d proxies, %d bytes, by owner %d", len(r.Proxies), r.DumpBytes, sum)
	}
	return r, owners
}

// known reads until every owner has contributed something, since a ready proxy may still have
// older configuration. After a minute it fails with the owners that are missing.
func (s scopedShop) known(owners ...scope.Owner) (scope.Report, map[scope.Owner]scope.OwnerTotal) {
	s.t.Helper()
	var r scope.Report
	var total map[scope.Owner]scope.OwnerTotal
	eventually.Within(s.t, time.Minute, fmt.Sprintf("each of %v brings something", owners), func() bool {
		r, total = s.read()
		return !slices.ContainsFunc(owners, func(o scope.Owner) bool { return total[o].DumpBytes == 0 })
	})
	return r, total
}

// narrowed limits the sidecar's scope to its own namespace and reads until holds returns true.
func (s scopedShop) narrowed(limit time.Duration, holds func(r scope.Report, owners map[scope.Owner]scope.OwnerTotal) bool) {
	s.t.Helper()
	s.kubectl(scopeSidecar, "apply", "-f", "-")
	eventually.Succeeds(s.t, limit, "the scope is narrowed", func() error {
		after, owners := s.read()
		if holds(after, owners) {
			return nil
		}
		return fmt.Errorf("istiod's services have %d of %d bytes", owners[istiodService].DumpBytes, after.DumpBytes)
	})
}

var istiodService = scope.Owner{Kind: "Service", Namespace: "istio-system", Name: "istiod"}

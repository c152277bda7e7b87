//go:build integration

package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/labtest"
	"github.com/meshtrial/meshtrial/scope"
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

// TestScopeOfALab reads a real sidecar, finds who its configuration is from,
// and sees a Sidecar resource take the others' away.
func TestScopeOfALab(t *testing.T) {
	l := labtest.Start(t)
	labtest.Namespace(t, l, "scoped")
	kubectl := func(input string, args ...string) string {
		t.Helper()
		return labtest.Kubectl(t, l, input, args...)
	}
	read := func() (scope.Report, map[scope.Owner]scope.OwnerTotal) {
		t.Helper()
		var out, said bytes.Buffer
		env := &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &said}
		if err := Run(t.Context(), []string{"scope", "--lab", "local", "-n", "scoped", "--stats", "--top", "0", "--json"}, env); err != nil {
			t.Fatalf("%v\n%s", err, said.String())
		}
		var r scope.Report
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		owners, sum := map[scope.Owner]scope.OwnerTotal{}, int64(0)
		for _, o := range r.Owners {
			owners[o.Owner], sum = o, sum+o.DumpBytes
		}
		if len(r.Proxies) != 1 || sum != r.DumpBytes || sum == 0 {
			t.Fatalf("%d proxies, %d bytes, by owner %d", len(r.Proxies), r.DumpBytes, sum)
		}
		return r, owners
	}
	kubectl(scopeManifests, "apply", "-f", "-")
	kubectl("", "-n", "scoped", "rollout", "status", "deployment/shop", "--timeout=240s")
	istiod := scope.Owner{Kind: "Service", Namespace: "istio-system", Name: "istiod"}
	var before scope.Report
	var lacks []scope.Owner
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(500 * time.Millisecond) { // a ready proxy may have older configuration
		var owners map[scope.Owner]scope.OwnerTotal
		before, owners = read()
		lacks = slices.DeleteFunc([]scope.Owner{istiod, {Kind: "Service", Namespace: "scoped", Name: "shop"}, {Kind: "VirtualService", Namespace: "scoped", Name: "shop-routes"},
			{Kind: "DestinationRule", Namespace: "scoped", Name: "shop-subsets"}, {Kind: "ServiceEntry", Namespace: "scoped", Name: "outside.example.com"}},
			func(o scope.Owner) bool { return owners[o].DumpBytes > 0 })
		if len(lacks) == 0 || time.Now().After(deadline) {
			break
		}
	}
	for _, o := range lacks {
		t.Errorf("%s brought nothing", o)
	}
	if u := before.Uncalled; u == nil || u.Clusters < 4 || u.Never != u.Clusters {
		t.Errorf("a workload that calls nobody: %+v", u)
	}
	kubectl(scopeSidecar, "apply", "-f", "-")
	// An Envoy holds a removed listener while it drains, 45 s as Istio sets it.
	for deadline := time.Now().Add(4 * time.Minute); ; time.Sleep(500 * time.Millisecond) {
		after, owners := read()
		if owners[istiod].DumpBytes == 0 && after.DumpBytes < before.DumpBytes {
			t.Logf("%d bytes without a Sidecar, %d with", before.DumpBytes, after.DumpBytes)
			return
		}
		if time.Now().After(deadline) {
			var left []scope.Resource
			for _, x := range after.Proxies[0].Largest {
				if x.Owner == istiod {
					left = append(left, x)
				}
			}
			t.Fatalf("istiod's services are still there: %d of %d bytes: %+v", owners[istiod].DumpBytes, after.DumpBytes, left)
		}
	}
}

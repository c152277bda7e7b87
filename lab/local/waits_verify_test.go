//go:build verify

package local_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/podstate"
	"github.com/meshtrial/meshtrial/internal/podwait"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestWaits makes a real cluster fail at each stage of a pod's start, and checks the
// messages of the waits and when they end.
func TestWaits(t *testing.T) {
	l := newBench(t).up(t)
	client, err := kubernetes.NewForConfig(l.RESTConfig())
	must.OK(t, err)
	const limit = 2 * time.Minute
	cases := []struct {
		name string
		pod  string // in addition to the container's image, or instead of it
		code podstate.Code
		ends time.Duration // at the latest; limit if the deadline ends it
		says string
	}{
		{"sandbox", `runtimeClassName: nosuch, containers: [{name: c, image: PAUSE}]`, podstate.Sandbox, 110 * time.Second, "nosuch"},
		{"object", `containers: [{name: c, image: PAUSE, volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, configMap: {name: nosuch}}]`, podstate.ObjectMissing, 90 * time.Second, `"nosuch" not found`},
		{"name", `containers: [{name: c, image: "No:Such:Name"}]`, podstate.ImageName, 30 * time.Second, "No:Such:Name"},
		{"absent", `containers: [{name: c, image: "registry.invalid/x:1", imagePullPolicy: Never}]`, podstate.ImageAbsent, 30 * time.Second, "registry.invalid/x:1"},
		{"pull", `containers: [{name: c, image: "registry.invalid/x:1"}]`, podstate.ImagePull, 110 * time.Second, "registry.invalid/x:1"},
		{"config", `containers: [{name: c, image: PAUSE, env: [{name: E, valueFrom: {secretKeyRef: {name: nosuch, key: k}}}]}]`, podstate.ContainerConfig, 90 * time.Second, "nosuch"},
		{"start", `containers: [{name: c, image: PAUSE, command: [/nosuch]}]`, podstate.ContainerStart, limit, "/nosuch"},
		{"crash", `containers: [{name: c, image: PROXY, command: [/usr/local/bin/envoy, --nosuch]}]`, podstate.Crash, limit, "exit code 1"},
		{"nowhere", `nodeSelector: {no: such}, containers: [{name: c, image: PAUSE}]`, podstate.Unschedulable, limit, "node affinity/selector"},
		{"refused", `containers: [{name: c, image: PAUSE}]`, podstate.Refused, 40 * time.Second, "exceeded quota"},
	}
	kubectl(t, "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: nosuch}\nhandler: nosuch\n", "apply", "-f", "-")
	var all sync.WaitGroup
	for _, c := range cases {
		quota := ""
		if c.code == podstate.Refused {
			quota = "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: small, namespace: waits-refused}\nspec: {hard: {pods: 0}}\n"
		}
		pod := strings.NewReplacer("PAUSE", "docker.io/meshtrial/pause:1", "PROXY", l.Images().Meshes["istio"]["proxy"]).Replace(c.pod)
		kubectl(t, fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: waits-%[1]s}
%[2]s---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: waits-%[1]s}
spec: {minReadySeconds: 5, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {%[3]s}}}
`, c.name, quota, pod), "apply", "-f", "-")
		all.Go(func() {
			var mu sync.Mutex
			var shown []string
			ctx, cancel := context.WithTimeout(podwait.Reporting(t.Context(), func(text string) {
				mu.Lock()
				defer mu.Unlock()
				shown = append(shown, text)
			}), limit)
			defer cancel()
			began := time.Now()
			err := lab.WaitDeployment(ctx, client, "waits-"+c.name, "web")
			took := time.Since(began)
			t.Logf("%s: after %v: %v\n  shown: %q", c.name, took, err, shown)
			var terminal *podwait.TerminalError
			switch {
			case err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "wait for Deployment waits-"+c.name+"/web"):
				t.Errorf("%s: %v, want %q", c.name, err, c.says)
			case errors.As(err, &terminal) && (terminal.Problem.Code != c.code || took > c.ends):
				t.Errorf("%s: code %s after %v", c.name, terminal.Problem.Code, took)
			case terminal == nil && (c.ends < limit || !errors.Is(err, context.DeadlineExceeded)):
				t.Errorf("%s: it waited for %v: %v", c.name, took, err)
			}
			if took > podwait.ShownAfter+5*time.Second && len(shown) == 0 {
				t.Errorf("%s: nothing was shown in %v", c.name, took)
			}
		})
	}
	all.Wait()
}

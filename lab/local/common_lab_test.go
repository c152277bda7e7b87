//go:build integration || verify

package local_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
)

// serverYAML returns a Deployment and Service that answer "hello" on port 8080,
// using the sidecar's own Envoy with another configuration.
func serverYAML(images lab.Images) string {
	return strings.ReplaceAll(`
apiVersion: v1
kind: ConfigMap
metadata: {name: server}
data:
  envoy.yaml: |
    admin: {address: {socket_address: {address: 127.0.0.1, port_value: 15000}}}
    static_resources:
      listeners:
      - address: {socket_address: {address: 0.0.0.0, port_value: 8080}}
        filter_chains:
        - filters:
          - name: http
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
              stat_prefix: in
              http_filters: [{name: router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]
              route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, direct_response: {status: 200, body: {inline_string: hello}}}]}]}
---
apiVersion: v1
kind: Secret
metadata: {name: word}
stringData: {word: sesame}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: server}
spec:
  selector: {matchLabels: {app: server}}
  template:
    metadata: {labels: {app: server}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: server
        image: PROXY
        command: [/usr/local/bin/envoy, -c, /config/envoy.yaml, --concurrency, "1"]
        volumeMounts:
        - {name: config, mountPath: /config}
        - {name: scratch, mountPath: /scratch}
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
      volumes:
      - name: config
        projected: {sources: [{configMap: {name: server}}, {secret: {name: word}}]}
      - name: scratch
        emptyDir: {}
---
apiVersion: v1
kind: Service
metadata: {name: server}
spec: {selector: {app: server}, ports: [{port: 80, targetPort: 8080}]}
`, "PROXY", images.Meshes["istio"]["proxy"])
}

// names queries the lab's DNS, from the host, through its cluster IP.
func names(t *testing.T, ctx context.Context) {
	status, err := local.GetStatus("")
	must.OK(t, err)
	server := strings.Replace(status.Services, ".0.0/16", ".0.10:53", 1)
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", server)
	}}
	for name, want := range map[string]string{
		"kubernetes.default.svc.cluster.local.": strings.Replace(status.Services, ".0.0/16", ".0.1", 1),
		"www.example.com.":                      "203.0.113.1",
		"any.slow.test.":                        "192.0.2.53",
	} {
		// On a busy machine the answer may arrive after the resolver's timeout,
		// and the rules of the cluster IP may come a moment after the lab.
		eventually.Succeeds(t, time.Minute, name, func() error {
			began := time.Now()
			got, err := resolver.LookupNetIP(ctx, "ip4", name)
			if err == nil && (len(got) != 1 || got[0].Unmap().String() != want) {
				err = fmt.Errorf("it is %v", got)
			}
			if took := time.Since(began); err == nil && strings.Contains(name, "slow") && took < time.Second {
				t.Errorf("%s answered after %s, which is not slow", name, took)
			}
			return err
		})
	}
	if got, err := resolver.LookupHost(ctx, "any.fail.test."); err == nil {
		t.Errorf("any.fail.test: %v", got)
	}
	if got, err := resolver.LookupHost(ctx, "none.default.svc.cluster.local."); err == nil {
		t.Errorf("a Service that is not: %v", got)
	}
}

// hello checks that the server of [serverYAML] answers at a URL.
func hello(url string) error {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && string(body) != "hello" {
		err = fmt.Errorf("%s: %.100q", response.Status, body)
	}
	return err
}

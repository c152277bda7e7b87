package istio

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
)

// Istiod serves /debug to everyone on its pod's loopback, where the API server's
// port-forward ends (pilot/pkg/xds/debug.go, allowAuthenticatedOrLocalhost).

// maxDebugAnswer limits the size of a debug response, in bytes. A Sidecar's scope
// lists every service.
const maxDebugAnswer = 256 << 20

// debugTimeout is the timeout of a request to istiod.
const debugTimeout = 30 * time.Second

// ask reads a JSON response from istiod into out.
func (c *ControlPlane) ask(ctx context.Context, pod mesh.ControlPod, port int, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, debugTimeout)
	defer cancel()
	client := c.dialer.Client(pod.Namespace, pod.Name, port)
	defer client.CloseIdleConnections()
	if err := fetch(ctx, client, path, out); err != nil {
		return fmt.Errorf("pod %s port %d%s: %w", pod.Name, port, path, err)
	}
	return nil
}

// fetch reads a JSON response of an istiod into out.
func fetch(ctx context.Context, client *http.Client, path string, out any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://istiod"+path, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body := io.LimitReader(answer.Body, maxDebugAnswer)
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(body, 200))
		return fmt.Errorf("%s: %s", answer.Status, strings.TrimSpace(string(text)))
	}
	return json.NewDecoder(body).Decode(out)
}

// environmentOf returns the environment of the running istiod, as shown by its
// ControlZ (pkg/ctrlz/topics/env.go).
func (c *ControlPlane) environmentOf(ctx context.Context, pod mesh.ControlPod) (map[string]string, error) {
	var vars []struct{ Name, Value string }
	if err := c.ask(ctx, pod, controlZPort, "/envj/", &vars); err != nil {
		return nil, err
	}
	out := make(map[string]string, len(vars))
	for _, v := range vars {
		out[v.Name] = v.Value
	}
	return out, nil
}

// activeMesh returns the MeshConfig that a running istiod uses.
func (c *ControlPlane) activeMesh(ctx context.Context, pod mesh.ControlPod) (map[string]any, error) {
	var out map[string]any
	return out, c.ask(ctx, pod, monitoringPort, "/debug/mesh", &out)
}

// activeSidecar is the part of a proxy's SidecarScope that shows which Sidecar
// selected it; Name is [noSidecar] if none did.
type activeSidecar struct {
	Name                  string `json:"name"`
	Namespace             string `json:"namespace"`
	OutboundTrafficPolicy struct {
		Mode string `json:"mode"`
	} `json:"outboundTrafficPolicy"`
	Sidecar *struct {
		Egress []struct {
			Hosts []string `json:"hosts"`
		} `json:"egress"`
	} `json:"sidecar"`
}

// noSidecar is istiod's name for the scope of a proxy that no Sidecar selects.
const noSidecar = "default-sidecar"

// scopeOf queries the replicas, one of which serves the proxy.
func (c *ControlPlane) scopeOf(ctx context.Context, pods []mesh.ControlPod, id string) (out proxyScope) {
	// istiod's ID of the proxy is the third part of the node ID.
	if parts := strings.Split(id, "~"); len(parts) == 4 {
		id = parts[2]
	}
	for _, pod := range pods {
		out = proxyScope{}
		path := "/debug/sidecarz?proxyID=" + url.QueryEscape(id)
		if out.err = c.ask(ctx, pod, monitoringPort, path, &out.activeSidecar); out.err == nil {
			break
		}
	}
	return out
}

// outboundMode reads an OutboundTrafficPolicy from JSON, which omits its zero
// value REGISTRY_ONLY (istio.io/api/mesh/v1alpha1/config.proto).
func outboundMode(mode string) string {
	if mode == "" {
		return "REGISTRY_ONLY"
	}
	return mode
}

// meshFields returns the parts of an active MeshConfig that the levers set, as
// pairs of actual and wanted value, by name.
func meshFields(active map[string]any, l mesh.Levers) map[string][2]any {
	out := map[string][2]any{}
	if mode := meshPolicy(l); mode != "" {
		out["outbound_policy"] = [2]any{activePolicy(active), mode}
	}
	if l.Named(controlplane.FactorDiscoverySelectors) {
		found, _ := active["discoverySelectors"].([]any)
		out["discovery_selectors"] = [2]any{found, discoverySelectors(l.Level(controlplane.FactorDiscoverySelectors))}
	}
	for _, f := range controlplane.Levers() {
		if f.Lever.ProxyMetadata != "" && l.Named(f.Name) {
			out[f.Name] = [2]any{activeMetadata(active)[f.Lever.ProxyMetadata], any(l.Level(f.Name))}
		}
	}
	if l.Named(controlplane.FactorExportTo) {
		for _, field := range exportFields {
			to, _ := active[field].([]any)
			out["export_to "+field] = [2]any{to, []any{l.Level(controlplane.FactorExportTo)}}
		}
	}
	return out
}

// activePolicy returns the outbound policy of an active MeshConfig.
func activePolicy(active map[string]any) string {
	policy, _ := active["outboundTrafficPolicy"].(map[string]any)
	mode, _ := policy["mode"].(string)
	return outboundMode(mode)
}

// activeMetadata returns what an active MeshConfig adds to the metadata of
// sidecars.
func activeMetadata(active map[string]any) map[string]any {
	proxy, _ := active["defaultConfig"].(map[string]any)
	metadata, _ := proxy["proxyMetadata"].(map[string]any)
	return metadata
}

// agree compares a JSON value with one of ours.
func agree(pair [2]any) bool {
	got, want := pair[0], pair[1]
	if a, ok := got.([]any); ok && len(a) == 0 {
		b, ok := want.([]any)
		return ok && len(b) == 0
	}
	return reflect.DeepEqual(got, want)
}

package envoygateway

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/mesh"
)

// className is the GatewayClass of an installation here.
const className = "envoy-gateway"

// controllerName is how Envoy Gateway recognises its GatewayClasses.
const controllerName = "gateway.envoyproxy.io/gatewayclass-controller"

// envoyRef is the image of the proxies.
const envoyRef = hub + "/envoy:meshtrial-" + components.DefaultEnvoy

// User in Envoy Gateway's images.
const user = "65532:65532"

// render renders Envoy Gateway's own chart, and assembles or pulls the images.
func render(ctx context.Context, b *components.Builder, from string) (*mesh.Rendered, error) {
	s, err := findSource(ctx, b, from)
	if err != nil {
		return nil, err
	}
	charts, err := b.RenderCharts(ctx, components.Chart{Path: s.chart, Release: "eg", Namespace: Namespace, Values: s.installValues()})
	if err != nil {
		return nil, fmt.Errorf("rendering Envoy Gateway's chart: %w", err)
	}
	objects, err := lab.ParseObjects([]byte(charts[0].Manifests))
	if err != nil {
		return nil, fmt.Errorf("Envoy Gateway's chart: %w", err)
	}
	definitions, err := lab.GatewayAPI(ctx, b)
	if err != nil {
		return nil, err
	}
	out := &mesh.Rendered{Installation: installation(objects, definitions), Facts: map[string]string{lab.Status: s.version}}
	const bin = "usr/local/bin/"
	path := []string{"PATH=/" + bin}
	plans := []components.Plan{{Ref: envoyRef, Name: "image_envoy", System: true, Layers: [][]components.File{{{Name: bin + "envoy", Mode: 0o755, Program: "envoy"}}},
		Config: v1.Config{Entrypoint: []string{"/" + bin + "envoy"}, User: user, Env: path}}}
	if s.program != nil {
		plans = append(plans, components.Plan{Ref: s.image(), Name: "image_envoy_gateway", System: true,
			Layers: [][]components.File{{{Name: bin + program, Mode: 0o755, From: *s.program}}},
			Config: v1.Config{Entrypoint: []string{"/" + bin + program}, User: user, Env: path}})
	}
	if out.Images, err = b.Assemble(ctx, plans...); err != nil || s.program != nil {
		return out, err
	}
	pulled, err := b.Pull(ctx, components.Pull{Refs: []string{s.image()}, Hint: "an image is assembled here from a folder with Envoy Gateway's program (--envoy-gateway DIR)"})
	out.Images = append(out.Images, pulled...)
	return out, err
}

// installValues returns the values of the chart: its own template's, and ours.
func (s *source) installValues() map[string]any {
	return merge(s.values, map[string]any{
		"global": map[string]any{"images": map[string]any{
			"envoyGateway": map[string]any{"image": s.image(), "pullPolicy": "IfNotPresent"},
			"envoyProxy":   map[string]any{"image": envoyRef, "pullPolicy": "IfNotPresent"},
		}},
		// A lab's node is small; the limit of the chart, 1 GiB, would end it under thousands of routes.
		"deployment": map[string]any{"envoyGateway": map[string]any{"resources": map[string]any{
			"requests": map[string]any{"cpu": "10m", "memory": "40Mi"}, "limits": map[string]any{"memory": nil}}}},
		// It tells proxies their zone as their pods are scheduled.
		"topologyInjector": map[string]any{"enabled": false},
	})
}

// merge returns values with more over them. A nil value removes a default of the chart.
func merge(values, more map[string]any) map[string]any {
	out := maps.Clone(values)
	if out == nil {
		out = map[string]any{}
	}
	for name, v := range more {
		under, _ := out[name].(map[string]any)
		if over, ok := v.(map[string]any); ok {
			out[name] = merge(under, over)
			continue
		}
		if v == nil && values != nil {
			delete(out, name)
			continue
		}
		out[name] = v
	}
	return out
}

const gatewayGroup = "gateway.networking.k8s.io"

// installation returns the chart's objects with our definitions of the Gateway API in place of
// its own, which are of another channel, and with a GatewayClass.
func installation(objects, definitions []*unstructured.Unstructured) lab.Installation {
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		// Their policies reject definitions of another channel or version.
		return strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy") || strings.HasSuffix(o.GetName(), "."+gatewayGroup)
	})
	class := &unstructured.Unstructured{Object: map[string]any{"apiVersion": gatewayGroup + "/v1", "kind": "GatewayClass",
		"metadata": map[string]any{"name": className}, "spec": map[string]any{"controllerName": controllerName}}}
	return lab.Installation{
		Mesh:      Name,
		Namespace: &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": Namespace}}},
		Selector:  selector,
		Stages:    [][]*unstructured.Unstructured{append(definitions, class), objects},
	}
}

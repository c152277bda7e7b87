package envoygateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/mesh"
)

// Names in a folder and in a registry.
const (
	program = "envoy-gateway"
	chart   = "gateway-helm"
	hub     = "docker.io/envoyproxy"
)

// source is a complete Envoy Gateway.
type source struct {
	chart string // path
	// values are those of a chart in its project's source, which has them as a template; nil for a
	// published chart.
	values map[string]any
	// program is what an image is assembled from; nil: the image is pulled.
	program *components.Source
	version string
}

// image returns the reference of the image.
func (s *source) image() string { return hub + "/gateway:" + s.version }

var sources = mesh.Origin{Name: "Envoy Gateway", Setting: Name, Variable: "MESHTRIAL_ENVOY_GATEWAY",
	Programs: []mesh.Program{{Name: program, Purpose: "the control plane, and the shutdown manager of its proxies"}}, Charts: []string{chart},
	Release: regexp.MustCompile(`^v?[0-9]+\.[0-9]+\.[0-9]+[0-9a-z.-]*$`),
	SameRelease: func(version, name string) bool {
		return strings.TrimPrefix(version, "v") == strings.TrimPrefix(name, "v")
	},
	Hint: "name a folder with Envoy Gateway's program (envoy-gateway) and chart (charts/gateway-helm or charts/gateway-helm-VERSION.tgz), " +
		"or a release such as v1.9.1, with --envoy-gateway or MESHTRIAL_ENVOY_GATEWAY"}

func findSource(ctx context.Context, b *components.Builder, from string) (*source, error) {
	switch folder, err := sources.IsFolder(from); {
	case err != nil:
		return nil, err
	case folder:
		return readFolder(from)
	}
	return findRelease(ctx, b, hub, from)
}

// findRelease pulls a release's chart.
func findRelease(ctx context.Context, b *components.Builder, hub, name string) (*source, error) {
	tag := "v" + strings.TrimPrefix(name, "v")
	path, _, err := b.PullChart(ctx, hub+"/"+chart+":"+tag, "a folder with Envoy Gateway's program and chart (--envoy-gateway DIR) needs no registry")
	if err != nil {
		return nil, err
	}
	return &source{chart: path, version: tag}, nil
}

// readFolder reads a folder with Envoy Gateway's program and chart.
func readFolder(dir string) (*source, error) {
	f, err := sources.Read(dir)
	if err != nil {
		return nil, err
	}
	made := f.Programs[program]
	s := &source{chart: f.Charts[0], program: &made, version: f.Tag}
	s.values, err = templateValues(s.chart)
	return s, err
}

// templateValues returns the values of a chart in its project's source: values.tmpl.yaml, whose
// placeholders are values that an installation sets.
func templateValues(chart string) (map[string]any, error) {
	path := filepath.Join(chart, "values.tmpl.yaml")
	if _, err := os.Stat(filepath.Join(chart, "values.yaml")); err == nil {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err != nil && strings.HasSuffix(chart, ".tgz") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(text, &values); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return values, nil
}

package envoygateway

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/components"
)

// Names in a folder and in a registry.
const (
	program = "envoy-gateway"
	chart   = "gateway-helm"
	hub     = "docker.io/envoyproxy"
)

const sourceHint = "name a folder with Envoy Gateway's program (envoy-gateway) and chart (charts/gateway-helm or charts/gateway-helm-VERSION.tgz), " +
	"or a release such as v1.9.1, with --envoy-gateway or " + variable

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

var (
	release     = regexp.MustCompile(`^v?[0-9]+\.[0-9]+\.[0-9]+[0-9a-z.-]*$`)
	versionText = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,80}$`)
)

// sourceFolder reports whether a source is a folder rather than the name of a release.
func sourceFolder(from string) (bool, error) {
	if _, err := os.Stat(from); err == nil {
		return true, nil
	}
	if !release.MatchString(from) {
		return false, errs.WithHint(errs.Usage("Envoy Gateway's source %s is neither a folder nor the name of a release", from), "%s", sourceHint)
	}
	return false, nil
}

// isFrom checks a source, and reports whether an Envoy Gateway of this version comes from it.
func isFrom(version, from string) (bool, error) {
	switch folder, err := sourceFolder(from); {
	case err != nil:
		return false, err
	case folder:
		s, err := readFolder(from)
		return err == nil && s.version == version, err
	}
	return strings.TrimPrefix(version, "v") == strings.TrimPrefix(from, "v"), nil
}

func findSource(ctx context.Context, b *components.Builder, from string) (*source, error) {
	switch folder, err := sourceFolder(from); {
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

// readFolder reads a folder with Envoy Gateway's program, its chart, and optionally a file
// VERSION. A single error names everything that is missing.
func readFolder(dir string) (*source, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	var lacks []string
	s := &source{chart: components.FindChart(dir, chart)}
	made, err := components.OpenSource(filepath.Join(dir, program))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		lacks = append(lacks, "the program "+program+" (the control plane, and the shutdown manager of its proxies)")
	case err != nil:
		return nil, err
	}
	if s.chart == "" {
		lacks = append(lacks, fmt.Sprintf("the chart %s (charts/%s or charts/%s-VERSION.tgz)", chart, chart, chart))
	}
	if len(lacks) > 0 {
		return nil, errs.WithHint(errs.Usage("Envoy Gateway's folder %s lacks:\n  %s", dir, strings.Join(lacks, "\n  ")),
			"put the program of one version of Envoy Gateway there, with the folder charts of its source or its published chart beside it")
	}
	if s.values, err = templateValues(s.chart); err != nil {
		return nil, err
	}
	version := "built"
	if text, err := os.ReadFile(filepath.Join(dir, "VERSION")); err == nil {
		if version = strings.TrimSpace(string(text)); !versionText.MatchString(version) {
			return nil, errs.Usage("%s holds an invalid version: use at most 81 letters, digits, dots, dashes and underscores", filepath.Join(dir, "VERSION"))
		}
	}
	sum, err := hex.DecodeString(strings.TrimPrefix(made.Sum, "sha256:"))
	if err != nil {
		return nil, err
	}
	s.program, s.version = &made, version+"-"+hex.EncodeToString(sum[:6])
	return s, nil
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

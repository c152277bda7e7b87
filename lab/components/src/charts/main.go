// Command charts renders Helm charts as `helm template` does, for meshes
// that are installed by charts of their own.
//
// It reads a request as JSON from its standard input and writes the answer as
// JSON to its standard output, so that keys among the values are never in a
// file or in an argument. A chart is a folder or an archive. What a chart in a
// folder depends on by a file:// repository, as charts in their sources do,
// is loaded from there.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"helm.sh/helm/v4/pkg/strvals"
)

// request asks for charts to be rendered.
type request struct {
	KubeVersion string         `json:"kube_version"` // that the charts are for, as 1.36.3
	Charts      []chartRequest `json:"charts"`
}

type chartRequest struct {
	Path      string         `json:"path"`
	Release   string         `json:"release"`
	Namespace string         `json:"namespace"`
	Values    map[string]any `json:"values"`
	Set       []string       `json:"set"` // NAME=VALUE as of helm install --set, over Values
}

// rendered answers one chart of a request.
type rendered struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	AppVersion string `json:"app_version"`
	Manifests  string `json:"manifests"` // YAML documents
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "charts: %v\n", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	var r request
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	version, err := common.ParseKubeVersion(r.KubeVersion)
	if err != nil {
		return fmt.Errorf("version of Kubernetes %q: %w", r.KubeVersion, err)
	}
	capabilities := *common.DefaultCapabilities
	capabilities.KubeVersion = *version
	answer := []rendered{}
	for _, c := range r.Charts {
		one, err := render(c, &capabilities)
		if err != nil {
			return fmt.Errorf("chart %s: %w", c.Path, err)
		}
		answer = append(answer, one)
	}
	return json.NewEncoder(out).Encode(answer)
}

func render(c chartRequest, capabilities *common.Capabilities) (rendered, error) {
	loaded, err := load(c.Path, nil)
	if err != nil {
		return rendered{}, err
	}
	values := c.Values
	if values == nil {
		values = map[string]any{}
	}
	for _, s := range c.Set {
		if err := strvals.ParseInto(s, values); err != nil {
			return rendered{}, fmt.Errorf("setting %q: %w", s, err)
		}
	}
	options := common.ReleaseOptions{Name: c.Release, Namespace: c.Namespace, Revision: 1, IsInstall: true}
	all, err := commonutil.ToRenderValues(loaded, values, options, capabilities)
	if err != nil {
		return rendered{}, err
	}
	files, err := engine.Render(loaded, all)
	if err != nil {
		return rendered{}, err
	}
	var text strings.Builder
	add := func(document string) { text.WriteString("---\n" + strings.TrimSpace(document) + "\n") }
	for _, crd := range loaded.CRDObjects() {
		add(string(crd.File.Data))
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if base := filepath.Base(name); strings.HasPrefix(base, "_") || strings.HasSuffix(base, ".txt") {
			continue // helpers, and notes for a person
		}
		if strings.TrimSpace(files[name]) != "" {
			add(files[name])
		}
	}
	return rendered{loaded.Name(), loaded.Metadata.Version, loaded.AppVersion(), text.String()}, nil
}

// load reads a chart and what it depends on. above are the charts that led to
// it, outermost first: one of them again is a circle.
func load(path string, above []string) (*chart.Chart, error) {
	path = filepath.Clean(path)
	if i := slices.Index(above, path); i >= 0 {
		return nil, fmt.Errorf("charts depend on each other in a circle: %s", strings.Join(append(above[i:], path), ", "))
	}
	above = append(slices.Clip(above), path)
	c, err := loader.Load(path)
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	for _, d := range c.Dependencies() {
		have[d.Name()] = true
	}
	for _, d := range c.Metadata.Dependencies {
		if have[d.Name] {
			continue
		}
		beside, ok := strings.CutPrefix(d.Repository, "file://")
		if !ok {
			return nil, fmt.Errorf("it depends on the chart %s of %s, which it does not hold", d.Name, d.Repository)
		}
		other, err := load(filepath.Join(path, beside), above)
		if err != nil {
			return nil, fmt.Errorf("it depends on the chart %s: %w", d.Name, err)
		}
		c.AddDependency(other)
	}
	return c, nil
}

package components

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// chartRequests is the input of lab/components/src/charts.
type chartRequests struct {
	KubeVersion string  `json:"kube_version"`
	Charts      []Chart `json:"charts"`
}

// Chart is a Helm chart, a folder or an archive, with the settings to render it with.
type Chart struct {
	Path      string         `json:"path"`
	Release   string         `json:"release"`
	Namespace string         `json:"namespace"`
	Values    map[string]any `json:"values"`
	Set       []string       `json:"set,omitempty"` // NAME=VALUE as of helm install --set
}

// FindChart finds a chart by name in dir/charts or dir: a folder, or a single archive. It
// returns "" if there is none.
func FindChart(dir, name string) string {
	for _, in := range []string{filepath.Join(dir, "charts"), dir} {
		if _, err := os.Stat(filepath.Join(in, name, "Chart.yaml")); err == nil {
			return filepath.Join(in, name)
		}
		if found, _ := filepath.Glob(filepath.Join(in, name+"-[0-9]*.tgz")); len(found) == 1 {
			return found[0]
		}
	}
	return ""
}

// RenderedChart is a rendered chart, as YAML documents.
type RenderedChart struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	AppVersion string `json:"app_version"`
	Manifests  string `json:"manifests"`
}

// RenderCharts renders charts as helm template does. It writes nothing to disk, since
// values and manifests may contain keys.
func (b *Builder) RenderCharts(ctx context.Context, charts ...Chart) ([]RenderedChart, error) {
	set, err := b.Ensure(ctx, "charts")
	if err != nil {
		return nil, err
	}
	renderer, _ := set.Program("charts")
	return renderCharts(ctx, renderer.Path, charts)
}

func renderCharts(ctx context.Context, renderer string, charts []Chart) ([]RenderedChart, error) {
	in, err := json.Marshal(chartRequests{kubernetesVersion, charts})
	if err != nil {
		return nil, err
	}
	out, err := Run(ctx, in, renderer)
	if err != nil {
		return nil, err
	}
	var answer []RenderedChart
	if err := json.Unmarshal(out, &answer); err != nil {
		return nil, fmt.Errorf("output of the chart renderer: %w", err)
	}
	if len(answer) != len(charts) {
		return nil, fmt.Errorf("the chart renderer rendered %d of %d charts", len(answer), len(charts))
	}
	return answer, nil
}

// Run runs a program with an input and returns its output. Its error contains the program's
// stderr, or is the context's.
func Run(ctx context.Context, in []byte, path string, args ...string) ([]byte, error) {
	var out, log bytes.Buffer
	cmd := command(ctx, path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &log
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, withOutput(err, log.Bytes())
	}
	return out.Bytes(), nil
}

package components

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
)

// chartRequests is what lab/components/src/charts reads.
type chartRequests struct {
	KubeVersion string         `json:"kube_version"`
	Charts      []chartRequest `json:"charts"`
}

type chartRequest struct {
	Path      string         `json:"path"`
	Release   string         `json:"release"`
	Namespace string         `json:"namespace"`
	Values    map[string]any `json:"values"`
	Set       []string       `json:"set,omitempty"`
}

// renderedChart is one of its answers.
type renderedChart struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	AppVersion string `json:"app_version"`
	Manifests  string `json:"manifests"`
}

// renderCharts renders charts by the given renderer. Nothing of it is kept:
// values and manifests may hold keys.
func renderCharts(ctx context.Context, renderer string, r chartRequests) ([]renderedChart, error) {
	in, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var out, log bytes.Buffer
	cmd := command(ctx, renderer)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &log
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, withOutput(err, log.Bytes())
	}
	var answer []renderedChart
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		return nil, fmt.Errorf("answer of the renderer of charts: %w", err)
	}
	if len(answer) != len(r.Charts) {
		return nil, fmt.Errorf("the renderer of charts rendered %d of %d", len(answer), len(r.Charts))
	}
	return answer, nil
}

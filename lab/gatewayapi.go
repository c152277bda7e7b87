package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/lab/components"
)

// GatewayAPI returns the definitions of the Gateway API.
func GatewayAPI(ctx context.Context, b *components.Builder) ([]*unstructured.Unstructured, error) {
	set, err := b.Ensure(ctx, components.GatewayAPI)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(set.Dir(components.GatewayAPI), "*.yaml"))
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		objects, err := ParseObjects(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		out = append(out, objects...)
	}
	return out, nil
}

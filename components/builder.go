package components

import (
	"context"
	"errors"
)

const (
	istioVersion   = "1.31-eed52ebb66ad"
	coreDNSVersion = "1.14.6"
	DefaultEnvoy   = "1.40.0"
)

var errPending = errors.New("components: not built yet")

type builder struct{ options Options }

func newBuilder(o Options) (*Builder, error) { return &Builder{builder{options: o}}, nil }
func (b *builder) ensure(ctx context.Context, names []string) (*Set, error) {
	return nil, errPending
}
func (b *builder) images(ctx context.Context, o ImageOptions) ([]Image, error) {
	return nil, errPending
}
func (b *builder) manifests(ctx context.Context, o ManifestOptions) (Manifests, error) {
	return Manifests{}, errPending
}

// Component is a line of [Table].
type Component struct {
	Name     string   `json:"name"`
	Version  string   `json:"version"`
	Kind     Kind     `json:"kind"`
	Source   string   `json:"source"`  // module, wheel or Debian package
	Digest   string   `json:"digest"`  // h1:... of the module, sha256:... of the file
	Purpose  string   `json:"purpose"` // what a lab needs it for
	Programs []string `json:"programs"`
	Optional bool     `json:"optional"` // made only when named
	Lacks    string   `json:"lacks,omitempty"`
}

// Kind says where a component comes from.
type Kind string

// Kinds of components.
const (
	KindGo     Kind = "go"
	KindWheel  Kind = "wheel"
	KindDebian Kind = "debian"
)

// Table lists every component: what is pinned, and where it comes from.
func Table() []Component { return nil }

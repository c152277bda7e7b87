package components

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Pull names images to pull from their registries.
type Pull struct {
	Refs []string
	// Pins holds digests by reference. Such an image is pulled by its digest, even
	// if its tag has moved, but keeps the name of its tag.
	Pins map[string]string
	Hint string // an alternative to reaching the registry
}

// Pull copies images from their registries into the cache. A pulled image stays: if
// its tag moves later, it is not pulled again.
func (b *Builder) Pull(ctx context.Context, p Pull) ([]Image, error) {
	m := newMeter(b.options.Progress)
	var images []Image
	for _, ref := range p.Refs {
		from := ref
		if p.Pins[ref] != "" {
			from += "@" + p.Pins[ref]
		}
		r, err := pulled(m, ref, from, p.Hint, saveImage)
		if err != nil {
			return nil, err
		}
		r.inputs = map[string]any{"pull": from, "arch": runtime.GOARCH}
		image, err := b.image(ctx, m, r)
		if err != nil {
			return nil, err
		}
		images = append(images, image)
	}
	return images, nil
}

// pulled returns a recipe, without inputs, for what a registry has under the reference from. keep
// stores it in the entry's folder as ref.
func pulled(m *meter, ref, from, hint string, keep func(ctx context.Context, dir, ref string, image v1.Image) error) (recipe, error) {
	parsed, err := name.ParseReference(from, name.StrictValidation)
	if err != nil {
		return recipe{}, errs.Usage("image %s: %v", from, err)
	}
	registry := parsed.Context().RegistryStr()
	return recipe{name: entryName(ref), make: func(ctx context.Context, dir string) ([]Version, error) {
		m.step(ref, PhaseDownload, 0, "from "+registry)
		image, err := remote.Image(parsed, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
			remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
		if err == nil {
			err = keep(ctx, dir, ref, image)
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, errs.WithHint(fmt.Errorf("pulling %s: %w", from, err), "registry %s must be reachable and have it; %s", registry, hint)
		}
		digest, err := image.Digest()
		return []Version{{Name: ref, Version: parsed.Identifier(), Source: "registry:" + registry, Digest: digest.String()}}, err
	}}, nil
}

// chartLayer is the media type of a Helm chart's archive in a registry.
const chartLayer types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

// PullChart copies a Helm chart from a registry into the cache, and returns the path of its archive.
// A pulled chart stays, like an image. hint is an alternative to reaching the registry.
func (b *Builder) PullChart(ctx context.Context, ref, hint string) (path string, versions []Version, err error) {
	const file = "chart.tgz"
	r, err := pulled(newMeter(b.options.Progress), ref, ref, hint, func(_ context.Context, dir, _ string, image v1.Image) error {
		text, err := chartOf(image)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, file), text, 0o644)
	})
	if err != nil {
		return "", nil, err
	}
	r.inputs = map[string]any{"chart": ref}
	e, err := b.cache.ensure(ctx, r)
	return e.path(file), e.Versions, err
}

// chartOf reads the archive of a chart.
func chartOf(image v1.Image) ([]byte, error) {
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	for _, l := range layers {
		if kind, err := l.MediaType(); err != nil || kind != chartLayer {
			continue
		}
		archive, err := l.Compressed()
		if err != nil {
			return nil, err
		}
		defer archive.Close()
		text, err := io.ReadAll(io.LimitReader(archive, maxChart+1))
		if err == nil && len(text) > maxChart {
			err = fmt.Errorf("the chart has more than %d MiB", maxChart>>20)
		}
		return text, err
	}
	return nil, errors.New("it has no layer with a Helm chart")
}

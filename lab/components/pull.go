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
		parsed, err := name.ParseReference(from, name.StrictValidation)
		if err != nil {
			return nil, errs.Usage("image %s: %v", from, err)
		}
		r := recipe{name: entryName(ref), inputs: map[string]any{"pull": from, "arch": runtime.GOARCH}}
		r.make = func(ctx context.Context, dir string) ([]Version, error) {
			m.step(ref, PhaseDownload, 0, "from "+parsed.Context().RegistryStr())
			image, err := remote.Image(parsed, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
				remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
			if err == nil {
				err = saveImage(ctx, dir, ref, image)
			}
			if err != nil {
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				return nil, errs.WithHint(fmt.Errorf("pulling %s: %w", from, err), "registry %s must be reachable and have the image; %s", parsed.Context().RegistryStr(), p.Hint)
			}
			digest, err := image.Digest()
			return []Version{{Name: ref, Version: parsed.Identifier(), Source: "registry:" + parsed.Context().RegistryStr(), Digest: digest.String()}}, err
		}
		image, err := b.image(ctx, m, r)
		if err != nil {
			return nil, err
		}
		images = append(images, image)
	}
	return images, nil
}

// chartLayer is the media type of a Helm chart's archive in a registry.
const chartLayer types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

// PullChart copies a Helm chart from a registry into the cache, and returns the path of its archive.
// A pulled chart stays, like an image. hint is an alternative to reaching the registry.
func (b *Builder) PullChart(ctx context.Context, ref, hint string) (path string, versions []Version, err error) {
	parsed, err := name.ParseReference(ref, name.StrictValidation)
	if err != nil {
		return "", nil, errs.Usage("chart %s: %v", ref, err)
	}
	const file = "chart.tgz"
	dir, versions, err := b.Make(ctx, Recipe{Name: entryName(ref), Inputs: map[string]any{"chart": ref}, Make: func(ctx context.Context, dir string) ([]Version, error) {
		b.Say(ref, PhaseDownload, "from "+parsed.Context().RegistryStr())
		image, err := remote.Image(parsed, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
		var text []byte
		if err == nil {
			text, err = chartOf(image)
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, errs.WithHint(fmt.Errorf("pulling chart %s: %w", ref, err), "registry %s must be reachable and have the chart; %s", parsed.Context().RegistryStr(), hint)
		}
		digest, err := image.Digest()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, file), text, 0o644)
		}
		return []Version{{Name: ref, Version: parsed.Identifier(), Source: "registry:" + parsed.Context().RegistryStr(), Digest: digest.String()}}, err
	}})
	return filepath.Join(dir, file), versions, err
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

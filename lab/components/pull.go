package components

import (
	"context"
	"fmt"
	"runtime"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

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

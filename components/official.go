package components

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/meshtrial/meshtrial/errs"
)

// officialRefs names the images of an Istio release: pilot, then proxyv2.
func officialRefs(hub, tag string) []string {
	hub, tag = cmp.Or(strings.TrimSuffix(hub, "/"), IstioHub), cmp.Or(tag, istioOfficial)
	return []string{hub + "/pilot:" + tag, hub + "/proxyv2:" + tag}
}

// official pulls Istio's images into the cache, or only names them.
func (b *builder) official(ctx context.Context, m *meter, o ImageOptions) ([]Image, error) {
	return b.pull(ctx, m, officialRefs(o.Hub, o.Tag), o.ByReference,
		"the images built here (--images built) need no registry")
}

// pull takes images from their registries into the cache, or only names
// them. A pulled image stays as it is: a tag that moves later is not pulled
// again. The hint says what else can be done than to make the registry answer.
func (b *builder) pull(ctx context.Context, m *meter, refs []string, byReference bool, hint string) ([]Image, error) {
	var images []Image
	for _, ref := range refs {
		parsed, err := parse(ref)
		if err != nil {
			return nil, err
		}
		if byReference {
			images = append(images, Image{Ref: ref})
			continue
		}
		r := recipe{name: entryName(ref), inputs: map[string]any{"pull": ref, "arch": runtime.GOARCH}}
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
				return nil, errs.WithHint(fmt.Errorf("pulling %s: %w", ref, err), "the registry %s must be reachable and hold the image; %s", parsed.Context().RegistryStr(), hint)
			}
			return []Version{{Name: ref, Version: parsed.Identifier(), Source: "registry:" + parsed.Context().RegistryStr(), Digest: digestOf(image)}}, nil
		}
		image, err := b.image(ctx, m, r)
		if err != nil {
			return nil, err
		}
		images = append(images, image)
	}
	return images, nil
}

func digestOf(image v1.Image) string {
	h, err := image.Digest()
	if err != nil {
		return ""
	}
	return h.String()
}

// settings are what Istio is installed with, before the user's own.
func (o ManifestOptions) settings() []string {
	s := []string{
		"profile=minimal",
		"values.global.imagePullPolicy=IfNotPresent",
		// A lab's node is small, and what a proxy may use is a factor of
		// studies: the defaults would leave room for 20 proxies on two cores.
		"values.global.proxy.resources.requests.cpu=10m",
		"values.global.proxy.resources.requests.memory=40Mi",
		"values.global.proxy_init.resources.requests.cpu=10m",
		"values.global.proxy_init.resources.requests.memory=10Mi",
		"values.pilot.resources.requests.cpu=100m",
		"values.pilot.resources.requests.memory=256Mi",
		// One istiod: no autoscaler changes what is measured.
		"values.pilot.autoscaleEnabled=false",
	}
	if o.Official {
		hub, tag := cmp.Or(strings.TrimSuffix(o.Hub, "/"), IstioHub), cmp.Or(o.Tag, istioOfficial)
		s = append(s, "hub="+hub, "tag="+tag)
	} else {
		// An upstream Envoy lacks the filters that these would configure,
		// and rejects its listeners if they are.
		s = append(s, "hub="+IstioHub, "tag="+IstioTag,
			"values.telemetry.enabled=false",
			"values.pilot.env.PILOT_ENABLE_METADATA_EXCHANGE=false",
			"values.pilot.env.PILOT_ENABLE_ALPN_FILTER=false")
	}
	return append(s, o.Set...)
}

func (b *builder) manifests(ctx context.Context, o ManifestOptions) (Manifests, error) {
	m := newMeter(b.options.Progress)
	entries, err := b.entries(ctx, []string{"istio"}, m)
	if err != nil {
		return Manifests{}, err
	}
	renderer := entries["istio"]
	settings := o.settings()
	e, err := b.cache.ensure(ctx, recipe{
		name:   "manifests",
		inputs: map[string]any{"renderer": renderer.digest("manifests"), "settings": settings},
		make: func(ctx context.Context, dir string) ([]Version, error) {
			cmd := command(ctx, renderer.path("manifests"), append([]string{dir}, settings...)...)
			out, err := cmd.CombinedOutput()
			if err == nil {
				return nil, nil
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			err = fmt.Errorf("rendering Istio's charts: %w", withOutput(err, out))
			if len(o.Set) > 0 {
				err = errs.WithHint(errs.WithCode(err, errs.CodeUsage), "the settings are those of `istioctl install --set`")
			}
			return nil, err
		},
	})
	if err != nil {
		return Manifests{}, err
	}
	var out Manifests
	if out.CRDs, err = os.ReadFile(e.path("crds.yaml")); err != nil {
		return Manifests{}, err
	}
	out.Istio, err = os.ReadFile(e.path("istio.yaml"))
	return out, err
}

package components

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// official pulls Istio's images into the cache, or only names them.
func (b *Builder) official(ctx context.Context, m *meter, o ImageOptions) ([]Image, error) {
	r, err := parseRelease(o.Tag)
	if err != nil {
		return nil, err
	}
	refs := r.refs(o.Hub)
	if o.Ambient {
		refs = append(refs, r.ambientRefs(o.Hub)...)
	}
	return b.pull(ctx, m, pull{refs: refs, pins: r.pins(o.Hub), byReference: o.ByReference,
		hint: "the images built here (--images built) need no registry"})
}

// pull names images to take from their registries.
type pull struct {
	refs []string
	// pins are digests by reference: such an image is pulled by its digest, wherever
	// its tag points by now, and still named by its tag.
	pins        map[string]string
	byReference bool   // only name them
	hint        string // an alternative to reaching the registry
}

// pull takes images from their registries into the cache. A pulled image stays: a
// tag that moves later is not pulled again.
func (b *Builder) pull(ctx context.Context, m *meter, p pull) ([]Image, error) {
	var images []Image
	for _, ref := range p.refs {
		from := ref
		if p.pins[ref] != "" {
			from += "@" + p.pins[ref]
		}
		parsed, err := name.ParseReference(from, name.StrictValidation)
		if err != nil {
			return nil, errs.Usage("image %s: %v", from, err)
		}
		if p.byReference {
			images = append(images, Image{Ref: from})
			continue
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
				return nil, errs.WithHint(fmt.Errorf("pulling %s: %w", from, err), "the registry %s must be reachable and hold the image; %s", parsed.Context().RegistryStr(), p.hint)
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

// settings of Istio's installation: ours, more, then the user's.
func (o ManifestOptions) settings(more ...string) ([]string, error) {
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
		r, err := parseRelease(o.Tag)
		if err != nil {
			return nil, err
		}
		s = append(s, r.settings(o.Hub, o.ByReference)...)
	} else {
		// An upstream Envoy lacks the filters that these would configure,
		// and rejects its listeners if they are.
		s = append(s, "hub="+IstioHub, "tag="+IstioTag,
			"values.telemetry.enabled=false",
			"values.pilot.env.PILOT_ENABLE_METADATA_EXCHANGE=false",
			"values.pilot.env.PILOT_ENABLE_ALPN_FILTER=false")
	}
	if o.Ambient != nil {
		s = append(s, "values.pilot.env.PILOT_ENABLE_AMBIENT=true",
			"values.global.waypoint.resources.requests.cpu=10m", "values.global.waypoint.resources.requests.memory=40Mi")
	}
	return slices.Concat(s, more, o.Set), nil
}

// Manifests renders Istio's own charts from the pinned module.
func (b *Builder) Manifests(ctx context.Context, o ManifestOptions) (Manifests, error) {
	out, err := b.render(ctx, o)
	if err != nil {
		return out, err
	}
	if o.GatewayAPI || o.Ambient != nil {
		definitions, err := b.gatewayCRDs(ctx)
		if err != nil {
			return out, err
		}
		out.CRDs = append(out.CRDs, definitions...)
	}
	if o.Ambient == nil {
		return out, nil
	}
	// With its node agent enabled, Istio's renderer leaves the redirection of sidecars to
	// that agent. A lab's sidecars redirect themselves: take only the additional objects.
	all, err := b.render(ctx, o, o.Ambient.settings()...)
	if err != nil {
		return out, err
	}
	if out.Ambient, err = beyond(all.Istio, out.Istio); err != nil {
		return out, fmt.Errorf("rendering Istio's charts for an ambient mesh: %w", err)
	}
	return out, nil
}

// render renders Istio's charts with more settings of ours.
func (b *Builder) render(ctx context.Context, o ManifestOptions, more ...string) (Manifests, error) {
	settings, err := o.settings(more...)
	if err != nil {
		return Manifests{}, err
	}
	m := newMeter(b.options.Progress)
	entries, err := b.entries(ctx, []string{"istio"}, m)
	if err != nil {
		return Manifests{}, err
	}
	renderer := entries["istio"]
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

// istioRelease is an Istio release by its tag, and by the digests of pilot and proxyv2
// if the user gave them, since a tag may move.
type istioRelease struct{ tag, pilot, proxy string }

var reDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// parseRelease reads TAG or TAG@PILOT,PROXYV2, where the two are digests of
// images; "" is the release nearest to the pinned module.
func parseRelease(text string) (istioRelease, error) {
	tag, pins, pinned := strings.Cut(text, "@")
	r := istioRelease{tag: cmp.Or(tag, istioOfficial)}
	if !pinned {
		return r, nil
	}
	pilot, proxy, both := strings.Cut(pins, ",")
	if r.pilot, r.proxy = pilot, proxy; tag == "" || !both || !reDigest.MatchString(pilot) || !reDigest.MatchString(proxy) {
		return istioRelease{}, errs.WithHint(errs.Usage("tag %q: want TAG@sha256:PILOT,sha256:PROXYV2", text),
			"`crane digest %s/pilot:%s` prints a digest, as does the registry's page; both images need theirs", IstioHub, r.tag)
	}
	return r, nil
}

// refs names the images: pilot, then proxyv2.
func (r istioRelease) refs(hub string) []string {
	hub = cmp.Or(strings.TrimSuffix(hub, "/"), IstioHub)
	return []string{hub + "/pilot:" + r.tag, hub + "/proxyv2:" + r.tag}
}

// ambientRefs names the images of an ambient mesh beside those: the node agent, then
// ztunnel.
func (r istioRelease) ambientRefs(hub string) []string {
	hub = cmp.Or(strings.TrimSuffix(hub, "/"), IstioHub)
	return []string{hub + "/install-cni:" + r.tag, hub + "/ztunnel:" + r.tag}
}

// pins are the digests by the names of the images; nil if there are none.
func (r istioRelease) pins(hub string) map[string]string {
	if r.pilot == "" {
		return nil
	}
	refs := r.refs(hub)
	return map[string]string{refs[0]: r.pilot, refs[1]: r.proxy}
}

// settings name the images in Istio's charts. Digests are for a cluster that pulls the
// images; a local lab has pulled them by digest, and names them by tag.
func (r istioRelease) settings(hub string, byReference bool) []string {
	out := []string{"hub=" + cmp.Or(strings.TrimSuffix(hub, "/"), IstioHub), "tag=" + r.tag}
	if r.pilot == "" || !byReference {
		return out
	}
	// The charts validate tags, but take an image with a slash as it is.
	refs := r.refs(hub)
	pilot, proxy := refs[0]+"@"+r.pilot, refs[1]+"@"+r.proxy
	return append(out, "values.pilot.image="+pilot, "values.global.proxy.image="+proxy, "values.global.proxy_init.image="+proxy)
}

// CheckTag validates a tag of Istio's images.
func CheckTag(text string) error {
	_, err := parseRelease(text)
	return err
}

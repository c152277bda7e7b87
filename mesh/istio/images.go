package istio

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study"
)

// Facts about Istio's images in a lab: see [lab.Images]. A proxy with a version of Envoy is
// factProxy+"@"+version; official images contain only the Envoy that Istio ships.
const (
	factHub     = "hub"
	factTag     = "tag"
	factIstiod  = "istiod"
	factProxy   = "proxy"
	factZtunnel = "ztunnel"
)

// order is an Istio to install, or to prepare, according to the settings.
type order struct {
	official bool   // the images come from a registry, and contain Istio's own Envoy
	hub, tag string // of the images
	// pilot and proxy are digests of official images, if the user gave them, because tags may
	// move.
	pilot, proxy string
	envoys       []string // versions of Envoy to build proxy images with
	set          []string // of istioctl install --set
	gatewayAPI   bool     // also install the Gateway API's definitions; an ambient mesh always has them
	ambient      bool
	ztunnelDir   string
	ztunnel      ztunnel // from the user's folder
	secondFrom   string  // folder or release of the second Istio; "" for none
	second       *second
	charts       string // folder with the second's charts, once it has images
}

func orderOf(s mesh.Settings) (order, error) {
	o := order{official: s.Get(setImages) == official, hub: components.IstioHub, tag: components.IstioVersion,
		set: slices.Concat(ManifestSettings(), s[setCharts]), ambient: s[setAmbient] != nil, gatewayAPI: s[setGatewayAPI] != nil,
		ztunnelDir: s.Get(setZtunnel), secondFrom: s.Get(setSecond)}
	if o.official {
		r, err := parseRelease(s.Get(setTag))
		o.tag, o.pilot, o.proxy, o.hub = r.tag, r.pilot, r.proxy, cmp.Or(strings.TrimSuffix(s.Get(setHub), "/"), components.IstioHub)
		return o, err
	}
	o.envoys = append(slices.Clone(s[setEnvoy]), components.DefaultEnvoy)
	slices.Sort(o.envoys)
	o.envoys = slices.Compact(o.envoys)
	for _, v := range o.envoys {
		if have := components.EnvoyVersions(); !slices.Contains(have, v) {
			return o, errs.Usage("no wheel of Envoy %s is pinned; available: %s", v, strings.Join(have, ", "))
		}
	}
	return o, nil
}

// proxyRef returns the proxy image with a version of Envoy; "" is the default one.
func proxyRef(envoy string) string {
	ref := components.IstioHub + "/proxyv2:" + components.IstioVersion
	if envoy == "" || envoy == components.DefaultEnvoy {
		return ref
	}
	return ref + "-envoy" + envoy
}

// facts returns the facts about the images.
func (o order) facts(installed bool) map[string]string {
	out := map[string]string{factHub: o.hub, factTag: o.tag, factIstiod: o.hub + "/pilot:" + o.tag, factProxy: o.hub + "/proxyv2:" + o.tag}
	for _, v := range o.envoys {
		out[factProxy+"@"+v] = proxyRef(v)
	}
	if o.ambient {
		out[factZtunnel] = o.ztunnelRef()
	}
	if installed {
		out[lab.Status] = o.tag
		if o.ambient {
			out[lab.Status] += ", ambient with " + o.ztunnelRef()
		}
	}
	if o.second != nil {
		maps.Copy(out, o.second.facts(o.charts, o.ambient))
		if installed {
			out[lab.Status] += ", second " + o.second.tag
		}
	}
	return out
}

func (o order) ztunnelRef() string {
	if o.official {
		return o.hub + "/ztunnel:" + o.tag
	}
	return o.ztunnel.ref()
}

// New returns the adapter for a lab with these images.
func New(images lab.Images) *Mesh {
	facts := images.Meshes[study.MeshIstio]
	return &Mesh{images: facts, ProxyImage: func(envoy string) (string, error) { return proxyImage(facts, envoy) }}
}

// proxyImage returns the sidecar's image with a version of Envoy; "" is the usual one.
func proxyImage(facts map[string]string, envoy string) (string, error) {
	if envoy == "" {
		return facts[factProxy], nil
	}
	if ref, ok := facts[factProxy+"@"+envoy]; ok {
		return ref, nil
	}
	var have []string
	for name := range facts {
		if v, ok := strings.CutPrefix(name, factProxy+"@"); ok {
			have = append(have, v)
		}
	}
	slices.Sort(have)
	return "", errs.WithHint(errs.Usage("this lab has no sidecar image with Envoy %s", envoy),
		"it has %v; `meshtrial lab up --envoy VERSION` adds others to a local lab", have)
}

// components returns the names of the components that images are assembled from and charts
// rendered with.
func (o order) components() []string {
	names := []string{"istio-manifests"}
	for _, p := range o.plans("") {
		for _, f := range slices.Concat(p.Layers...) {
			if f.Program != "" {
				names = append(names, f.Program)
			}
		}
	}
	if o.ambient || o.gatewayAPI {
		names = append(names, "gateway-api")
	}
	if o.second != nil {
		names = append(names, "charts")
	}
	return names
}

// images assembles or pulls the images.
func (o *order) images(ctx context.Context, b *components.Builder) ([]components.Image, error) {
	images, err := o.ownImages(ctx, b)
	if err != nil || o.second == nil {
		return images, err
	}
	more, charts, err := o.second.images(ctx, b, o.ambient)
	o.charts = charts
	return append(images, more...), err
}

// ownImages returns the images of the Istio to install.
func (o order) ownImages(ctx context.Context, b *components.Builder) ([]components.Image, error) {
	if o.official {
		pilot, proxy := o.hub+"/pilot:"+o.tag, o.hub+"/proxyv2:"+o.tag
		pull := components.Pull{Refs: []string{pilot, proxy},
			Hint: "images that are built here (--images built) need no registry"}
		if o.pilot != "" {
			pull.Pins = map[string]string{pilot: o.pilot, proxy: o.proxy}
		}
		if o.ambient {
			pull.Refs = append(pull.Refs, o.hub+"/install-cni:"+o.tag, o.hub+"/ztunnel:"+o.tag)
		}
		return b.Pull(ctx, pull)
	}
	set, err := b.Ensure(ctx, "istiod")
	if err != nil {
		return nil, err
	}
	template, err := os.ReadFile(filepath.Join(set.Dir("istiod"), components.BootstrapTemplate))
	if err != nil {
		return nil, err
	}
	bootstrap, err := upstreamBootstrap(string(template))
	if err != nil {
		return nil, err
	}
	return b.Assemble(ctx, o.plans(bootstrap)...)
}

// istioUser is the UID whose traffic is not redirected.
const istioUser = "1337:1337"

// bin is the folder of programs in Istio's images.
const bin = "usr/local/bin/"

// pilotPlan returns an image of istiod.
func pilotPlan(ref string, discovery components.File) components.Plan {
	discovery.Name, discovery.Mode = bin+"pilot-discovery", 0o755
	return components.Plan{Ref: ref, Layers: [][]components.File{{discovery}},
		Config: v1.Config{Entrypoint: []string{"/" + discovery.Name}, User: istioUser}}
}

// proxyPlan returns an image of a sidecar. version identifies its Envoy, bootstrap is the template
// of Envoy's bootstrap.
func proxyPlan(ref string, agent, envoy components.File, version, bootstrap string) components.Plan {
	agent.Name, agent.Mode = bin+"pilot-agent", 0o755
	envoy.Name, envoy.Mode = bin+"envoy", 0o755
	return components.Plan{Ref: ref, System: true, Layers: [][]components.File{
		{agent,
			{Name: "var/lib/istio/envoy/" + components.BootstrapTemplate, Mode: 0o644, Data: bootstrap},
			{Name: "etc/istio/proxy", Mode: fs.ModeDir | 0o777}, {Name: "home/istio-proxy", Mode: fs.ModeDir | 0o777}},
		{envoy}},
		Config: v1.Config{Entrypoint: []string{"/" + agent.Name}, WorkingDir: "/", Env: []string{"ISTIO_META_ISTIO_PROXY_SHA=" + version}}}
}

// plans returns the images to assemble, laid out like Istio's own.
func (o order) plans(bootstrap string) []components.Plan {
	if o.official {
		return nil
	}
	program := func(name, in string) components.File { return components.File{Name: in, Mode: 0o755, Program: name} }
	out := []components.Plan{pilotPlan(o.hub+"/pilot:"+o.tag, components.File{Program: "pilot-discovery"})}
	for _, v := range o.envoys {
		out = append(out, proxyPlan(proxyRef(v), components.File{Program: "pilot-agent"}, components.File{Program: "envoy@" + v}, "envoy-"+v, bootstrap))
	}
	if !o.ambient {
		return out
	}
	return append(out,
		components.Plan{Ref: o.hub + "/install-cni:" + o.tag, System: true,
			Layers: [][]components.File{{program("install-cni", bin+"install-cni"), program("istio-cni", "opt/cni/bin/istio-cni")}},
			Config: v1.Config{Entrypoint: []string{"/" + bin + "install-cni"}, WorkingDir: "/opt/cni/bin"}},
		ztunnelPlan("image_ztunnel", o.ztunnelRef(), o.ztunnel.Source, o.ztunnel.version))
}

// ztunnelPlan returns an image of a ztunnel with a version of Istio.
func ztunnelPlan(name, ref string, from components.Source, version string) components.Plan {
	return components.Plan{Ref: ref, Name: name, System: true,
		Layers: [][]components.File{{{Name: bin + "ztunnel", Mode: 0o755, From: from}}},
		Config: v1.Config{Entrypoint: []string{"/" + bin + "ztunnel"}, WorkingDir: "/", Env: []string{"ISTIO_META_ISTIO_VERSION=" + version}}}
}

// upstreamBootstrap returns Istio's bootstrap template without Istio's own extensions.
// pilot-agent always enables peer discovery for a waypoint, an extension without which an
// upstream Envoy does not start.
func upstreamBootstrap(template string) (string, error) {
	const begin, end = "{{- if .metadata_discovery }}", "{{- end }}"
	_, list, ok := strings.Cut(template, `"bootstrap_extensions": [`)
	before, rest, has := strings.Cut(list, begin)
	block, after, closed := strings.Cut(rest, end)
	if !ok || !has || !closed || strings.TrimSpace(before) != "" || !strings.Contains(block, "istio.workload.BootstrapExtension") {
		return "", errs.WithHint(fmt.Errorf("%s of Istio %s does not begin its bootstrap_extensions with that of the discovery of peers", components.BootstrapTemplate, components.IstioVersion),
			"mesh/istio/images.go says what of it is left out; see tools/packaging/common/envoy_bootstrap.json")
	}
	return strings.TrimSuffix(template, list) + after, nil
}

// release is an Istio release by its tag, and by the digests of pilot and proxyv2 if the user
// gave them.
type release struct{ tag, pilot, proxy string }

var reDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// parseRelease parses TAG or TAG@PILOT,PROXYV2, where the latter two are image digests; "" is
// the release closest to the pinned module.
func parseRelease(text string) (release, error) {
	tag, pins, pinned := strings.Cut(text, "@")
	r := release{tag: cmp.Or(tag, components.IstioRelease)}
	if !pinned {
		return r, nil
	}
	pilot, proxy, both := strings.Cut(pins, ",")
	if r.pilot, r.proxy = pilot, proxy; tag == "" || !both || !reDigest.MatchString(pilot) || !reDigest.MatchString(proxy) {
		return release{}, errs.WithHint(errs.Usage("tag %q: want TAG@sha256:PILOT,sha256:PROXYV2", text),
			"`crane digest %s/pilot:%s` prints a digest; both images need one", components.IstioHub, r.tag)
	}
	return r, nil
}

// builtHere reports whether the images in a lab were assembled here rather than being Istio's
// own.
func builtHere(facts map[string]string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(facts)), func(name string) bool { return strings.HasPrefix(name, factProxy+"@") })
}

package components

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// LinkerdNamespace is where Linkerd's control plane runs: its charts' and
// its own tools' default.
const LinkerdNamespace = "linkerd"

// LinkerdOptions say which Linkerd is wanted, and how it is installed.
type LinkerdOptions struct {
	// Source is a folder with Linkerd's programs and charts, of which images
	// are assembled here, or the name of a release (edge-26.8.3), whose
	// charts and images are pulled. "edge" is the newest edge release.
	Source string
	// Set are values of the chart of the control plane, NAME=VALUE as of
	// helm install --set, applied over ours.
	Set []string
	// ByReference leaves the pulling of a release's images to the cluster:
	// the images returned have no Path.
	ByReference bool
}

// Linkerd is one installation of Linkerd, ready to apply.
type Linkerd struct {
	Version string  // tag of its images
	Images  []Image // all that its control plane and its sidecars run
	// Controller and Proxy are the references of the image of the control
	// plane's programs and of the image of a sidecar.
	Controller, Proxy string
	// CRDs and ControlPlane are YAML documents to apply: CRDs first. The
	// latter holds the private keys of this installation, made for it: it
	// belongs into no file.
	CRDs, ControlPlane []byte
	// Versions say what it was made from.
	Versions []Version
}

// linkerdSource is a complete set of Linkerd's charts, and perhaps programs.
type linkerdSource struct {
	tag      string // of the images; "" is that of the charts
	crds     string // path of the chart
	control  string
	programs map[string]program // of images to assemble; nil: the images are pulled
	versions []Version
}

// release is what names a release: its app version or chart version.
var release = regexp.MustCompile(`^((edge|stable)(-[0-9][0-9a-z.]*)?|[0-9]+\.[0-9]+\.[0-9]+[0-9a-z.-]*)$`)

func (b *Builder) linkerdSource(ctx context.Context, m *meter, source string) (*linkerdSource, error) {
	switch folder, err := sourceFolder(source); {
	case err != nil:
		return nil, err
	case folder:
		return linkerdFolder(source)
	}
	return b.linkerdRelease(ctx, m, source)
}

// sourceFolder reports whether a source is a folder rather than the name of a release.
func sourceFolder(source string) (bool, error) {
	if source == "" {
		return false, errs.WithHint(errs.Usage("no source of Linkerd is given"), "%s", linkerdHint)
	}
	if _, err := os.Stat(source); err == nil {
		return true, nil
	}
	if !release.MatchString(source) || strings.ContainsRune(source, filepath.Separator) {
		return false, errs.WithHint(errs.Usage("Linkerd's source %s is neither a folder nor the name of a release", source), "%s", linkerdHint)
	}
	return false, nil
}

// LinkerdIs reports whether a Linkerd of this version may come from the source. For a
// channel any of its releases will do: the newest is not looked up.
func LinkerdIs(version, source string) (bool, error) {
	switch folder, err := sourceFolder(source); {
	case err != nil:
		return false, err
	case folder:
		s, err := linkerdFolder(source)
		return err == nil && s.tag == version, err
	}
	channel := source == "edge" || source == "stable"
	return version == source || channel && release.MatchString(version) && strings.HasPrefix(version, source+"-"), nil
}

const linkerdHint = "name a folder with Linkerd's programs and charts, or a release as edge-26.8.3: --linkerd, or MESHTRIAL_LINKERD in the environment"

// Linkerd renders Linkerd's own charts with keys made for this one
// installation, and assembles or pulls the images they name.
func (b *Builder) Linkerd(ctx context.Context, o LinkerdOptions) (*Linkerd, error) {
	m := newMeter(b.options.Progress)
	source, err := b.linkerdSource(ctx, m, o.Source)
	if err != nil {
		return nil, err
	}
	entries, err := b.entries(ctx, []string{"charts"}, m)
	if err != nil {
		return nil, err
	}
	keys, err := newLinkerdKeys(time.Now())
	if err != nil {
		return nil, err
	}
	answer, err := renderCharts(ctx, entries["charts"].path("charts"), chartRequests{KubeVersion: kubernetesVersion, Charts: []chartRequest{
		{Path: source.crds, Release: "linkerd-crds", Namespace: LinkerdNamespace, Values: map[string]any{"installGatewayAPI": true}},
		{Path: source.control, Release: "linkerd-control-plane", Namespace: LinkerdNamespace, Values: source.values(keys), Set: o.Set},
	}})
	if err != nil {
		err = fmt.Errorf("rendering Linkerd's charts: %w", err)
		if len(o.Set) > 0 {
			err = errs.WithHint(errs.WithCode(err, errs.CodeUsage), "the settings are those of `helm install --set` for the chart linkerd-control-plane")
		}
		return nil, err
	}
	out := &Linkerd{CRDs: []byte(answer[0].Manifests), ControlPlane: []byte(answer[1].Manifests), Versions: source.versions}
	containers, err := containerImages(out.ControlPlane)
	if err != nil {
		return nil, fmt.Errorf("Linkerd's rendered chart: %w", err)
	}
	out.Controller, out.Proxy = containers["destination"], containers["linkerd-proxy"]
	if out.Controller == "" || out.Proxy == "" {
		return nil, fmt.Errorf("Linkerd's rendered chart has no container destination or linkerd-proxy")
	}
	_, tag, _ := strings.Cut(out.Proxy[strings.LastIndex(out.Proxy, "/")+1:], ":")
	out.Version = cmp.Or(source.tag, tag, answer[1].AppVersion)
	if source.programs != nil {
		out.Images, err = b.linkerdImages(ctx, m, source, out)
	} else {
		refs := slices.Compact(slices.Sorted(maps.Values(containers)))
		out.Images, err = b.pull(ctx, m, pull{refs: refs, byReference: o.ByReference,
			hint: "images are assembled here from a folder with Linkerd's programs (--linkerd DIR)"})
	}
	return out, err
}

// values are what Linkerd's control plane is installed with, before the
// user's own.
func (s *linkerdSource) values(keys linkerdKeys) map[string]any {
	not := func(key string, values ...string) any {
		m := map[string]any{"key": key, "operator": "DoesNotExist"}
		if len(values) > 0 {
			m["operator"], m["values"] = "NotIn", values
		}
		return m
	}
	v := map[string]any{
		"identityTrustAnchorsPEM": keys.anchor,
		"identity":                map[string]any{"issuer": map[string]any{"tls": map[string]any{"crtPEM": keys.issuer, "keyPEM": keys.issuerKey}}},
		"imagePullPolicy":         "IfNotPresent",
		"disableHeartBeat":        true, // it tells the project about the installation
		// The images assembled here carry no file capabilities, which the
		// program that redirects a pod's traffic needs otherwise.
		"proxyInit": map[string]any{"runAsRoot": true, "iptablesMode": "nft"},
		// A sidecar that starts before its application and ends after it, as
		// Istio's; the kubelet, not a program in the image, awaits it.
		"proxy": map[string]any{"nativeSidecar": true, "await": true},
		// A pod that was to get a sidecar must not start without one.
		"webhookFailurePolicy": "Fail",
		"proxyInjector": map[string]any{
			// The chart's own two of each, and what is Istio's: its control
			// plane, and simulated pods that carry its sidecar, of which there
			// are thousands. Studies of Istio in the same lab would wait for
			// Linkerd's injector.
			"namespaceSelector": map[string]any{"matchExpressions": []any{
				not("config.linkerd.io/admission-webhooks", "disabled"),
				not("kubernetes.io/metadata.name", "kube-system", "cert-manager", "istio-system"),
				not("meshtrial.dev/population"),
			}},
			"objectSelector": map[string]any{"matchExpressions": []any{
				not("linkerd.io/control-plane-component"), not("linkerd.io/cni-resource"), not("security.istio.io/tlsMode"),
			}},
		},
	}
	if s.tag != "" {
		v["linkerdVersion"] = s.tag
	}
	return v
}

// containerImages maps the names of the containers of YAML documents to
// their images.
func containerImages(documents []byte) (map[string]string, error) {
	images := map[string]string{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			for _, list := range []string{"containers", "initContainers"} {
				items, _ := v[list].([]any)
				for _, item := range items {
					if c, ok := item.(map[string]any); ok {
						name, _ := c["name"].(string)
						if image, ok := c["image"].(string); ok {
							images[name] = image
						}
					}
				}
			}
			for _, item := range v {
				walk(item)
			}
		}
	}
	for n, document := range reDocument.Split(string(documents), -1) {
		var v any
		if err := yaml.Unmarshal([]byte(document), &v); err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		walk(v)
	}
	return images, nil
}

// linkerdImages assembles the two images that the chart names.
func (b *Builder) linkerdImages(ctx context.Context, m *meter, source *linkerdSource, l *Linkerd) ([]Image, error) {
	units, err := unitsOf([]string{"ca-certificates"})
	if err != nil {
		return nil, err
	}
	entries, err := b.entries(ctx, units, m)
	if noApt := (missingApt{}); errors.As(err, &noApt) {
		return nil, errs.WithHint(fmt.Errorf("Linkerd's images hold files of Debian packages, which cannot be fetched here: %w", noApt),
			"assemble them on Debian or Ubuntu, or take a release (--linkerd edge-26.8.3)")
	}
	if err != nil {
		return nil, err
	}
	plans, err := linkerdPlans(entries["debian"], source, l)
	if err != nil {
		return nil, err
	}
	return b.assemble(ctx, m, plans)
}

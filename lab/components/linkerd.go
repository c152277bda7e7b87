package components

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
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

// LinkerdOptions select a Linkerd and configure its installation.
type LinkerdOptions struct {
	// Source is a folder with Linkerd's programs and charts, from which images are
	// assembled, or the name of a release (edge-26.8.3), whose charts and images are
	// pulled. "edge" is the newest edge release.
	Source string
	// Set has values of the control plane's chart, NAME=VALUE as for helm install
	// --set, applied over ours.
	Set []string
	// ByReference leaves the pulling of a release's images to the cluster:
	// the images returned have no Path.
	ByReference bool
}

// Linkerd is one installation of Linkerd, ready to apply.
type Linkerd struct {
	Version string  // tag of its images
	Images  []Image // of its control plane and its sidecars
	// Controller and Proxy are the references of the control plane's image and of the
	// sidecar's.
	Controller, Proxy string
	// CRDs and ControlPlane are YAML documents to apply, CRDs first. The latter holds
	// the private keys of this installation: never write it to a file.
	CRDs, ControlPlane []byte
	// Versions identify its sources.
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

// values of Linkerd's control plane, before the user's.
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
		"disableHeartBeat":        true, // it reports the installation to the project
		// The images assembled here carry no file capabilities, which the
		// program that redirects a pod's traffic needs otherwise.
		"proxyInit": map[string]any{"runAsRoot": true, "iptablesMode": "nft"},
		// The sidecar starts before its application and ends after it, like Istio's;
		// the kubelet waits for it, not a program in the image.
		"proxy": map[string]any{"nativeSidecar": true, "await": true},
		// A pod must not start without its sidecar.
		"webhookFailurePolicy": "Fail",
		"proxyInjector": map[string]any{
			// The chart's own exclusions, and Istio's control plane and thousands
			// of simulated pods with its sidecar: studies of Istio in the same lab
			// would wait for Linkerd's injector.
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

// linkerdKeys are the certificates and key of one installation, as PEM. Linkerd
// requires ECDSA on P-256. The trust anchor's key is discarded once it has signed the
// issuer.
type linkerdKeys struct {
	anchor            string
	issuer, issuerKey string
}

// linkerdKeysLast is how long an installation's certificates are valid.
const linkerdKeysLast = 365 * 24 * time.Hour

func newLinkerdKeys(now time.Time) (linkerdKeys, error) {
	root, rootKey, err := authority("root.linkerd.cluster.local", now, nil, nil)
	if err != nil {
		return linkerdKeys{}, fmt.Errorf("Linkerd's trust anchor: %w", err)
	}
	issuer, issuerKey, err := authority("identity.linkerd.cluster.local", now, root, rootKey)
	if err != nil {
		return linkerdKeys{}, fmt.Errorf("Linkerd's issuer: %w", err)
	}
	key, err := x509.MarshalECPrivateKey(issuerKey)
	if err != nil {
		return linkerdKeys{}, err
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return linkerdKeys{anchor: text("CERTIFICATE", root.Raw), issuer: text("CERTIFICATE", issuer.Raw), issuerKey: text("EC PRIVATE KEY", key)}, nil
}

// authority makes the certificate of an authority, signed by parent or by itself.
func authority(name string, now time.Time, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(linkerdKeysLast), // clocks of a cluster's nodes differ
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	if parent == nil {
		parent, parentKey = template, key
	} else {
		template.MaxPathLen, template.MaxPathLenZero = 0, true
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return certificate, key, err
}

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

// renderCharts runs the renderer. Nothing is written to disk: values and manifests may
// hold keys.
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

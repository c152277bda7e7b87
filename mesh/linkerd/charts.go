package linkerd

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study"
)

// source is a complete set of Linkerd's charts, optionally with programs.
type source struct {
	tag      string // of the images; "" is the tag in the charts
	crds     string // path of the chart
	control  string
	programs map[string]components.Source // of images to assemble; nil: images are pulled
}

// release matches the names of a release: its app version or chart version.
var release = regexp.MustCompile(`^((edge|stable)(-[0-9][0-9a-z.]*)?|[0-9]+\.[0-9]+\.[0-9]+[0-9a-z.-]*)$`)

// findSource finds the charts, and programs if any, of a folder or a release. charts is
// where releases are published; "" is Linkerd's own location.
func findSource(ctx context.Context, b *components.Builder, charts, from string) (*source, error) {
	switch folder, err := sources.IsFolder(from); {
	case err != nil:
		return nil, err
	case folder:
		return readFolder(from)
	}
	return findRelease(ctx, b, charts, from)
}

// order is a Linkerd to install.
type order struct {
	// source is a folder with Linkerd's programs and charts, from which images are
	// assembled, or the name of a release (edge-26.8.3), whose charts and images are pulled.
	// "edge" is the newest edge release.
	source string
	// set has values of the control plane's chart, NAME=VALUE as for helm install --set,
	// which override ours.
	set []string
}

// render renders Linkerd's own charts with keys created for this installation, and assembles
// or pulls the images they name. Never write the result to a file: it contains the installation's
// private keys.
func (o order) render(ctx context.Context, b *components.Builder) (*mesh.Rendered, error) {
	source, err := findSource(ctx, b, "", o.source)
	if err != nil {
		return nil, err
	}
	keys, err := newKeys(time.Now())
	if err != nil {
		return nil, err
	}
	answer, err := b.RenderCharts(ctx,
		components.Chart{Path: source.crds, Release: "linkerd-crds", Namespace: Namespace, Values: map[string]any{"installGatewayAPI": true}},
		components.Chart{Path: source.control, Release: "linkerd-control-plane", Namespace: Namespace, Values: source.values(keys), Set: o.set})
	if err != nil {
		err = fmt.Errorf("rendering Linkerd's charts: %w", err)
		if len(o.set) > 0 {
			err = errs.WithHint(errs.WithCode(err, errs.CodeUsage), "the settings are those of `helm install --set` for the chart linkerd-control-plane")
		}
		return nil, err
	}
	var stages [][]*unstructured.Unstructured
	for _, chart := range answer {
		objects, err := lab.ParseObjects([]byte(chart.Manifests))
		if err != nil {
			return nil, fmt.Errorf("linkerd: chart %s: %w", chart.Name, err)
		}
		stages = append(stages, objects)
	}
	containers := containerImages(stages[1])
	controller, proxy := containers["destination"], containers[proxyContainer]
	if controller == "" || proxy == "" {
		return nil, fmt.Errorf("Linkerd's rendered chart has no container destination or %s", proxyContainer)
	}
	_, tag, _ := strings.Cut(proxy[strings.LastIndex(proxy, "/")+1:], ":")
	version := cmp.Or(source.tag, tag, answer[1].AppVersion)
	out := &mesh.Rendered{Installation: installation(stages), Facts: map[string]string{"controller": controller, "proxy": proxy, lab.Status: version}}
	if source.programs != nil {
		out.Images, err = b.Assemble(ctx, source.plans(version, controller, proxy)...)
	} else {
		out.Images, err = b.Pull(ctx, components.Pull{Refs: slices.Compact(slices.Sorted(maps.Values(containers))),
			Hint: "images are assembled here from a folder with Linkerd's programs (--linkerd DIR)"})
	}
	return out, err
}

// installation returns Linkerd's rendered charts, ready to apply. It matches Linkerd's own
// tool: its pods contain their sidecars from the start, its webhooks ignore them, and
// traffic redirection needs permissions that only a privileged namespace grants.
func installation(stages [][]*unstructured.Unstructured) lab.Installation {
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
		"name":        Namespace,
		"annotations": map[string]any{"linkerd.io/inject": "disabled"},
		"labels": map[string]any{
			"linkerd.io/is-control-plane": "true", "config.linkerd.io/admission-webhooks": "disabled",
			"linkerd.io/control-plane-ns": Namespace, "pod-security.kubernetes.io/enforce": "privileged"}}}}
	return lab.Installation{Mesh: study.MeshLinkerd, Namespace: namespace, Selector: "linkerd.io/control-plane-ns=" + Namespace, Stages: stages}
}

// values returns the values of Linkerd's control plane, before the user's.
func (s *source) values(keys keys) map[string]any {
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
		// The images assembled here have no file capabilities, which the program that
		// redirects a pod's traffic would otherwise need.
		"proxyInit": map[string]any{"runAsRoot": true, "iptablesMode": "nft"},
		// The sidecar starts before its application and ends after it, like Istio's. The
		// kubelet waits for it, not a program in the image.
		"proxy": map[string]any{"nativeSidecar": true, "await": true},
		// A pod must not start without its sidecar.
		"webhookFailurePolicy": "Fail",
		"proxyInjector": map[string]any{
			// The chart's own exclusions, plus Istio's control plane and thousands of
			// simulated pods with its sidecar: studies of Istio in the same lab would
			// otherwise wait for Linkerd's injector.
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

// containerImages returns the images of the containers in objects, by container name.
func containerImages(objects []*unstructured.Unstructured) map[string]string {
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
	for _, o := range objects {
		walk(o.Object)
	}
	return images
}

// plans returns the images of a folder's programs, laid out like Linkerd's own.
func (s *source) plans(version, controllerRef, proxyRef string) []components.Plan {
	var controller, proxy []components.File
	for _, p := range programs {
		made, ok := s.programs[p.Name]
		if !ok {
			continue
		}
		files := &proxy
		if p.controller {
			files = &controller
		}
		*files = append(*files, components.File{Name: p.in, Mode: 0o755, From: made})
	}
	override := "LINKERD_CONTAINER_VERSION_OVERRIDE=" + version
	return []components.Plan{
		{Ref: controllerRef, Name: "image_linkerd_controller", System: true, Layers: [][]components.File{controller},
			Config: v1.Config{Entrypoint: []string{"/controller"}, User: controllerUser, Env: []string{override}}},
		{Ref: proxyRef, Name: "image_linkerd_proxy", System: true, Layers: [][]components.File{proxy},
			Config: v1.Config{Entrypoint: []string{"/usr/lib/linkerd/linkerd2-proxy-identity"}, User: proxyUser,
				Env: []string{override, "LINKERD2_PROXY_LOG=warn,linkerd=info", "LINKERD2_PROXY_LOG_FORMAT=plain"}}},
	}
}

// keys has the certificates and the key of one installation, as PEM. Linkerd requires ECDSA
// on P-256. The trust anchor's key is discarded once it has signed the issuer.
type keys struct {
	anchor            string
	issuer, issuerKey string
}

// keysLast is the validity of an installation's certificates.
const keysLast = 365 * 24 * time.Hour

func newKeys(now time.Time) (keys, error) {
	root, rootKey, err := authority("root.linkerd.cluster.local", now, nil, nil)
	if err != nil {
		return keys{}, fmt.Errorf("Linkerd's trust anchor: %w", err)
	}
	issuer, issuerKey, err := authority("identity.linkerd.cluster.local", now, root, rootKey)
	if err != nil {
		return keys{}, fmt.Errorf("Linkerd's issuer: %w", err)
	}
	key, err := x509.MarshalECPrivateKey(issuerKey)
	if err != nil {
		return keys{}, err
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return keys{anchor: text("CERTIFICATE", root.Raw), issuer: text("CERTIFICATE", issuer.Raw), issuerKey: text("EC PRIVATE KEY", key)}, nil
}

// authority creates the certificate of an authority, signed by parent or self-signed.
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
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(keysLast), // the clocks of a cluster's nodes differ
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

// Command manifests renders Istio's own charts, as they are embedded in the
// pinned module, into YAML to apply. It is what `istioctl manifest generate`
// does, made deterministic, with CRDs and the rest apart, because the rest
// can be created only once the CRDs are established.
//
//	manifests OUT [SETTING]...
//
// It writes OUT/crds.yaml and OUT/istio.yaml; a SETTING is as of --set.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"istio.io/istio/operator/pkg/manifest"
	"istio.io/istio/operator/pkg/render"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: manifests OUT [SETTING]...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "manifests: %v\n", err)
		os.Exit(1)
	}
}

// order is the order kinds are created in; what is not named comes between
// the workloads and the webhooks, which must not refuse what comes before
// them.
var order = []string{
	"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
	"ConfigMap", "Secret", "Service", "Deployment", "DaemonSet",
	"",
	"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
}

func rank(m manifest.Manifest) int {
	if i := slices.Index(order, m.GetKind()); i >= 0 {
		return i
	}
	return slices.Index(order, "")
}

func run(out string, settings []string) error {
	sets, _, err := render.GenerateManifest(nil, settings, false, nil, nil)
	if err != nil {
		return fmt.Errorf("rendering with %s: %w", strings.Join(settings, " "), err)
	}
	var all []manifest.Manifest
	for _, set := range sets {
		all = append(all, set.Manifests...)
	}
	slices.SortFunc(all, func(a, b manifest.Manifest) int {
		return cmp.Or(rank(a)-rank(b), cmp.Compare(a.GetKind(), b.GetKind()),
			cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	var crds, rest bytes.Buffer
	rest.WriteString("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: istio-system\n")
	for _, m := range all {
		to := &rest
		if m.GetKind() == "CustomResourceDefinition" {
			to = &crds
		}
		if to.Len() > 0 {
			to.WriteString("---\n")
		}
		to.WriteString(strings.TrimSpace(m.Content) + "\n")
	}
	if crds.Len() == 0 {
		return fmt.Errorf("the charts hold no custom resource definitions")
	}
	if err := os.WriteFile(filepath.Join(out, "crds.yaml"), crds.Bytes(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "istio.yaml"), rest.Bytes(), 0o644)
}

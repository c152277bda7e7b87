package istio

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/study"
)

// settings returns the values for istioctl install --set: ours, more, then the user's.
func (o order) settings(more ...string) []string {
	s := []string{
		"profile=minimal",
		"values.global.imagePullPolicy=IfNotPresent",
		// A lab's node is small, and a proxy's resources are a factor of studies. The
		// defaults would leave room for 20 proxies on two cores.
		"values.global.proxy.resources.requests.cpu=10m",
		"values.global.proxy.resources.requests.memory=40Mi",
		"values.global.proxy_init.resources.requests.cpu=10m",
		"values.global.proxy_init.resources.requests.memory=10Mi",
		"values.pilot.resources.requests.cpu=100m",
		"values.pilot.resources.requests.memory=256Mi",
		// One istiod without an autoscaler, which would change what is measured.
		"values.pilot.autoscaleEnabled=false",
		"hub=" + o.hub, "tag=" + o.tag,
	}
	if !o.official {
		// An upstream Envoy lacks the filters that these would configure, and would reject
		// its listeners.
		s = append(s, "values.telemetry.enabled=false",
			"values.pilot.env.PILOT_ENABLE_METADATA_EXCHANGE=false",
			"values.pilot.env.PILOT_ENABLE_ALPN_FILTER=false")
	}
	if o.ambient {
		s = append(s, ambientSettings...)
	}
	return slices.Concat(s, more, o.set)
}

// ambientSettings are those of istiod and waypoints in an ambient mesh.
var ambientSettings = []string{"values.pilot.env." + ambientEnv + "=true",
	"values.global.waypoint.resources.requests.cpu=10m", "values.global.waypoint.resources.requests.memory=40Mi"}

// nodeSettings returns additional settings for the parts of an ambient mesh on nodes. The
// charts' own requests would take a large part of a lab's node.
func (o order) nodeSettings() []string {
	s := []string{"components.cni.enabled=true", "components.ztunnel.enabled=true", "values.cni.ambient.enabled=true",
		"values.cni.cniBinDir=" + lab.CNIBinDir, "values.cni.cniConfDir=" + lab.CNIConfDir,
		"values.cni.resources.requests.cpu=10m", "values.cni.resources.requests.memory=40Mi",
		"values.ztunnel.resources.requests.cpu=10m", "values.ztunnel.resources.requests.memory=40Mi",
	}
	if !o.official {
		s = append(s, "values.ztunnel.image="+o.ztunnelRef())
	}
	return s
}

// installation renders Istio's own charts from the pinned module.
func (o order) installation(ctx context.Context, b *components.Builder) (lab.Installation, error) {
	set, err := b.Ensure(ctx, "istio-manifests")
	if err != nil {
		return lab.Installation{}, err
	}
	renderer, _ := set.Program("manifests")
	objects, err := o.render(ctx, b, renderer)
	if err != nil {
		return lab.Installation{}, err
	}
	if o.gatewayAPI || o.ambient {
		definitions, err := lab.GatewayAPI(ctx, b)
		if err != nil {
			return lab.Installation{}, err
		}
		objects = append(objects, definitions...)
	}
	var onNodes []string
	if o.ambient {
		// With its node agent enabled, Istio's renderer leaves the redirection of sidecars to
		// that agent. A lab's sidecars redirect themselves, so take only the additional
		// objects.
		all, err := o.render(ctx, b, renderer, o.nodeSettings()...)
		if err != nil {
			return lab.Installation{}, err
		}
		for _, object := range beyond(all, objects) {
			if object.GetKind() == "DaemonSet" {
				onNodes = append(onNodes, object.GetName())
			}
			objects = append(objects, object)
		}
	}
	return lab.Installation{
		Mesh:      study.MeshIstio,
		Namespace: &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": Namespace}}},
		Selector:  istiodLabel, DaemonSets: onNodes,
		// istiod waits for the CRDs it watches, so everything can be applied together;
		// objects applied too early are applied again.
		Stages: [][]*unstructured.Unstructured{objects},
	}, nil
}

// render renders Istio's charts, definitions first, with additional settings.
func (o order) render(ctx context.Context, b *components.Builder, renderer components.Program, more ...string) ([]*unstructured.Unstructured, error) {
	settings := o.settings(more...)
	dir, err := b.Make(ctx, components.Recipe{
		Name:   "manifests",
		Inputs: map[string]any{"renderer": renderer.Digest, "settings": settings},
		Make: func(ctx context.Context, dir string) ([]components.Version, error) {
			_, err := components.Run(ctx, nil, renderer.Path, append([]string{dir}, settings...)...)
			if err == nil || ctx.Err() != nil {
				return nil, err
			}
			return nil, errs.WithHint(errs.WithCode(fmt.Errorf("rendering Istio's charts: %w", err), errs.CodeUsage),
				"the settings are those of `istioctl install --set`")
		},
	})
	if err != nil {
		return nil, err
	}
	return readObjects(filepath.Join(dir, "crds.yaml"), filepath.Join(dir, "istio.yaml"))
}

func readObjects(files ...string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		objects, err := lab.ParseObjects(text)
		if err != nil {
			return nil, fmt.Errorf("istio: %s: %w", filepath.Base(file), err)
		}
		out = append(out, objects...)
	}
	return out, nil
}

// beyond returns the objects that are not among others, by name.
func beyond(objects, others []*unstructured.Unstructured) []*unstructured.Unstructured {
	type name struct{ version, kind, namespace, name string }
	of := func(o *unstructured.Unstructured) name {
		return name{o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName()}
	}
	have := map[name]bool{}
	for _, o := range others {
		have[of(o)] = true
	}
	return slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool { return have[of(o)] })
}

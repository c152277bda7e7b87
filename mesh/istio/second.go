package istio

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study"
)

// second is another version of Istio that a lab has in addition to the installed one, for steps
// that start an istiod of it: a folder with programs and charts, or a release.
type second struct {
	release   string // of official images; "" for a folder
	tag       string // of its images, unique to the contents of a folder
	hub       string
	folder    mesh.Folder
	bootstrap string // a folder's template of Envoy's bootstrap
}

// Contents of a folder with a second Istio. Names are those of Istio's images and source.
const (
	secondBootstrap = "envoy_bootstrap.json"
	discoveryChart  = "istio-control/istio-discovery"
	baseChart       = "base"
)

var secondOrigin = mesh.Origin{Name: "Istio", Setting: setSecond, Variable: "MESHTRIAL_SECOND_ISTIO",
	Programs: []mesh.Program{{Name: "pilot-discovery", Purpose: "istiod"}, {Name: "pilot-agent", Purpose: "starts Envoy in each sidecar"},
		{Name: "envoy", Purpose: "the proxy", Optional: true}, {Name: ztunnelName, Purpose: "an ambient mesh's proxy on each node", Optional: true}},
	Charts:  []string{discoveryChart, baseChart},
	Files:   []mesh.File{{Name: secondBootstrap, Source: "of tools/packaging/common/ of Istio's source"}},
	Version: knownMinor,
	Release: regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$`),
	Hint: "--second-istio (or MESHTRIAL_SECOND_ISTIO) names a folder with pilot-discovery, pilot-agent, " +
		"charts, " + secondBootstrap + " and VERSION, or a release whose images are pulled, such as 1.30.2 (untested); see docs/lab.md"}

func knownMinor(name string) bool {
	_, ok := minor(name)
	return ok
}

// openSecond reads a folder with a second Istio, or takes the name of a release. hub has a
// release's images.
func openSecond(from, hub string) (*second, error) {
	folder, err := secondOrigin.IsFolder(from)
	if err != nil || !folder {
		return &second{release: from, tag: from, hub: hub}, err
	}
	f, err := secondOrigin.Read(from)
	if err != nil {
		return nil, err
	}
	s := &second{tag: f.Tag, hub: components.IstioHub, folder: f}
	if s.bootstrap, err = upstreamBootstrap(f.Files[secondBootstrap]); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(from, secondBootstrap), err)
	}
	return s, nil
}

func (s *second) pilotRef() string { return s.hub + "/pilot:" + s.tag }
func (s *second) proxyRef() string { return s.hub + "/proxyv2:" + s.tag }

// ztunnelRef returns the image of its ztunnel for an ambient mesh; "" if that keeps the first Istio's.
func (s *second) ztunnelRef(ambient bool) string {
	if _, own := s.folder.Programs[ztunnelName]; !ambient || !own && s.release == "" {
		return ""
	}
	return s.hub + "/ztunnel:" + s.tag
}

// plans returns the images to assemble from a folder.
func (s *second) plans(ambient bool) []components.Plan {
	pilot, agent := s.folder.Programs["pilot-discovery"], s.folder.Programs["pilot-agent"]
	envoy := components.File{Program: "envoy@" + components.DefaultEnvoy}
	version := "envoy-" + components.DefaultEnvoy
	if own, ok := s.folder.Programs["envoy"]; ok {
		envoy, version = components.File{From: own}, "envoy-"+strings.TrimPrefix(own.Sum, "sha256:")[:12]
	}
	out := []components.Plan{
		pilotPlan(s.pilotRef(), components.File{From: pilot}),
		proxyPlan(s.proxyRef(), components.File{From: agent}, envoy, version, s.bootstrap),
	}
	out[0].Name, out[1].Name = "image_second_pilot", "image_second_proxyv2"
	if ref := s.ztunnelRef(ambient); ref != "" {
		out = append(out, ztunnelPlan("image_second_ztunnel", ref, s.folder.Programs[ztunnelName], s.folder.Version))
	}
	return out
}

// images assembles or pulls the images, and keeps the charts, from which runs render an
// istiod of their revision. It returns the folder with the charts.
func (s *second) images(ctx context.Context, b *components.Builder, ambient bool) (made []components.Image, charts string, err error) {
	if charts, err = s.keepCharts(ctx, b); err != nil {
		return nil, "", err
	}
	if s.release != "" {
		pull := components.Pull{Refs: []string{s.pilotRef(), s.proxyRef()}, Hint: "a folder with its programs (--second-istio DIR) needs no registry"}
		if ref := s.ztunnelRef(ambient); ref != "" {
			pull.Refs = append(pull.Refs, ref)
		}
		made, err = b.Pull(ctx, pull)
	} else {
		made, err = b.Assemble(ctx, s.plans(ambient)...)
	}
	return made, charts, err
}

// Charts as they are kept.
const (
	keptBase      = "base"
	keptDiscovery = "istiod"
	packed        = ".tgz"
)

// chartRepository is where the Istio project publishes its charts. See istio.io/docs, Install
// with Helm.
const chartRepository = components.ChartRepository("https://istio-release.storage.googleapis.com/charts/")

// keepCharts copies the charts to the cache, or downloads those of a release.
func (s *second) keepCharts(ctx context.Context, b *components.Builder) (string, error) {
	dir, err := b.Make(ctx, components.Recipe{Name: "istio_charts", Inputs: map[string]any{"release": s.release, "folder": s.folder.Sum},
		Make: func(ctx context.Context, dir string) ([]components.Version, error) {
			if s.release != "" {
				b.Say("istio", components.PhaseDownload, "the charts of "+s.release)
				return chartRepository.Fetch(ctx, dir, s.release, keptBase, keptDiscovery)
			}
			for i, name := range []string{keptDiscovery, keptBase} { // in the order of secondOrigin.Charts
				if err := keepChart(s.folder.Charts[i], filepath.Join(dir, name)); err != nil {
					return nil, err
				}
			}
			return []components.Version{{Name: "istio-charts", Version: s.tag, Source: "folder", Digest: "sha256:" + s.folder.Sum}}, nil
		}})
	return dir, err
}

// keepChart copies a chart, which may be packed.
func keepChart(from, to string) error {
	if filepath.Ext(from) != packed {
		return os.CopyFS(to, os.DirFS(from))
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to+packed, data, 0o644)
}

// Facts about the second Istio in a lab.
const (
	factSecondHub     = "second-hub"
	factSecondTag     = "second-tag"
	factSecondCharts  = "second-charts"  // folder in the cache
	factSecondImages  = "second-images"  // built or official
	factSecondZtunnel = "second-ztunnel" // its image, if it has one
)

func (s *second) facts(charts string, ambient bool) map[string]string {
	images := built
	if s.release != "" {
		images = official
	}
	return map[string]string{factSecondHub: s.hub, factSecondTag: s.tag, factSecondCharts: charts, factSecondImages: images, factSecondZtunnel: s.ztunnelRef(ambient)}
}

// renderSecond renders an istiod of a revision, and the definitions that the version brings, from
// the charts of the lab's second Istio.
func renderSecond(ctx context.Context, b *components.Builder, facts map[string]string, revision string) (objects, definitions []*unstructured.Unstructured, err error) {
	charts := facts[factSecondCharts]
	at := func(name string) string {
		path := filepath.Join(charts, name)
		if exists(path + packed) {
			path += packed
		}
		return path
	}
	if charts == "" || !exists(at(keptDiscovery)) {
		return nil, nil, errs.WithHint(errs.Usage("the running lab has no second Istio, which a step starts"),
			"run `meshtrial lab down`, and give one to the lab that the run starts: --second-istio DIR")
	}
	o := order{official: facts[factSecondImages] == official, hub: facts[factSecondHub], tag: facts[factSecondTag],
		ambient: facts[factZtunnel] != "", set: ManifestSettings()}
	answer, err := b.RenderCharts(ctx,
		components.Chart{Path: at(keptDiscovery), Release: "istiod-" + revision, Namespace: Namespace, Set: helmSettings(o.settings("revision=" + revision))},
		components.Chart{Path: at(keptBase), Release: "istio-base", Namespace: Namespace})
	if err != nil {
		return nil, nil, fmt.Errorf("rendering the charts of the second Istio: %w", err)
	}
	if objects, err = lab.ParseObjects([]byte(answer[0].Manifests)); err != nil {
		return nil, nil, fmt.Errorf("istio: chart %s: %w", answer[0].Name, err)
	}
	if definitions, err = lab.ParseObjects([]byte(answer[1].Manifests)); err != nil {
		return nil, nil, fmt.Errorf("istio: chart %s: %w", answer[1].Name, err)
	}
	definitions = slices.DeleteFunc(definitions, func(o *unstructured.Unstructured) bool { return o.GetKind() != "CustomResourceDefinition" })
	if len(definitions) == 0 {
		return nil, nil, errs.Usage("chart %s of the second Istio has no CRDs, with which those of the cluster could be compared", answer[1].Name)
	}
	return objects, definitions, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// helmSettings converts settings of istioctl install to those of the chart istiod.
func helmSettings(settings []string) []string {
	var out []string
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		switch {
		case name == "profile": // the chart alone is the minimal one
			continue
		case name == "hub", name == "tag":
			name = "global." + name
		default:
			name = strings.TrimPrefix(name, "values.")
		}
		out = append(out, name+"="+value)
	}
	return out
}

// secondPlan reports whether a step of a plan starts an istiod of the second version.
func secondPlan(plan *study.Plan) bool {
	return plan.Study.Kind == resilience.Kind && slices.ContainsFunc(resilience.Of(plan.Study).Timeline.Steps, func(s fault.Step) bool {
		r, ok := s.Action.(*fault.Revision)
		return ok && r.Istio == fault.Second
	})
}

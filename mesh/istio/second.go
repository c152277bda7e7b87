package istio

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/trusted"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/study"
)

// second is another version of Istio that a lab has in addition to the installed one, for steps
// that start an istiod of it: a folder with programs and charts, or a release.
type second struct {
	release string // of official images; "" for a folder
	tag     string // of its images, unique to the contents of a folder
	hub     string
	// programs of a folder by name, its template of Envoy's bootstrap, and the digest of its charts.
	programs  map[string]components.Source
	bootstrap string
	dir, sum  string
}

// Contents of a folder with a second Istio. Names are those of Istio's images and source.
const (
	secondBootstrap = "envoy_bootstrap.json"
	discoveryChart  = "charts/istio-control/istio-discovery"
	baseChart       = "charts/base"
	versionFile     = "VERSION"
)

// secondVariable is the environment variable with the location of the second Istio, which a flag
// overrides.
const secondVariable = "MESHTRIAL_SECOND_ISTIO"

const secondHint = "--second-istio (or " + secondVariable + ") names a folder with pilot-discovery, pilot-agent, " +
	"charts, " + secondBootstrap + " and VERSION, or a release whose images are pulled, such as 1.30.2 (untested); see docs/lab.md"

// reRelease matches Istio's releases.
var reRelease = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$`)

// openSecond reads a folder with a second Istio, or takes the name of a release. hub has a
// release's images.
func openSecond(from, hub string) (*second, error) {
	info, err := os.Stat(from)
	switch {
	case err == nil && info.IsDir():
		return secondFolder(from)
	case reRelease.MatchString(from):
		return &second{release: from, tag: from, hub: hub}, nil
	}
	return nil, errs.WithHint(errs.Usage("--second-istio %s is neither a folder nor a release of Istio", from), secondHint)
}

// secondFolder reads a folder. A single error names everything that is missing.
func secondFolder(dir string) (*second, error) {
	owner, err := trusted.Owner(dir)
	if err == nil {
		dir, err = trusted.Folder(dir, owner)
	}
	if err != nil {
		return nil, fmt.Errorf("folder of the second Istio: %w", err)
	}
	s := &second{hub: components.IstioHub, dir: dir, programs: map[string]components.Source{}}
	var lacks []string
	all := sha256.New()
	for _, p := range []struct {
		name, purpose string
		optional      bool
	}{{"pilot-discovery", "istiod", false}, {"pilot-agent", "starts Envoy in each sidecar", false}, {"envoy", "the proxy", true}} {
		switch made, err := openProgram(dir, p.name, owner); {
		case err == nil:
			s.programs[p.name] = made
			fmt.Fprintf(all, "%s %s\n", p.name, made.Sum)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		case !p.optional:
			lacks = append(lacks, fmt.Sprintf("the program %s (%s)", p.name, p.purpose))
		}
	}
	for _, chart := range []string{discoveryChart, baseChart} {
		if _, err := os.Stat(filepath.Join(dir, chart, "Chart.yaml")); err != nil {
			lacks = append(lacks, "the chart "+chart+" (of manifests/ of Istio's source, or of a release's archive)")
		}
	}
	var text, version []byte
	for _, f := range []struct {
		name, about string
		to          *[]byte
	}{
		{secondBootstrap, secondBootstrap + " (of tools/packaging/common/ of Istio's source)", &text},
		{versionFile, "the file " + versionFile + " (such as " + components.IstioRelease + ")", &version},
	} {
		switch *f.to, err = readSecond(dir, f.name, owner); {
		case errors.Is(err, fs.ErrNotExist):
			lacks = append(lacks, f.about)
		case err != nil:
			return nil, err
		}
	}
	if len(lacks) > 0 {
		return nil, errs.WithHint(errs.Usage("the folder %s of the second Istio lacks:\n  %s", dir, strings.Join(lacks, "\n  ")), secondHint)
	}
	name := strings.TrimSpace(string(version))
	if _, ok := minor(name); !ok || !reTag.MatchString(name) {
		return nil, errs.WithHint(errs.Usage("%s does not contain a version of Istio", filepath.Join(dir, versionFile)), "such as %s", components.IstioRelease)
	}
	if s.bootstrap, err = upstreamBootstrap(string(text)); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, secondBootstrap), err)
	}
	if _, err = trusted.Tree(filepath.Join(dir, "charts"), owner); err == nil {
		s.sum, err = sumTree(filepath.Join(dir, "charts"))
	}
	if err != nil {
		return nil, fmt.Errorf("charts of the second Istio: %w", err)
	}
	fmt.Fprintf(all, "%s %x\n", s.sum, sha256.Sum256(text))
	s.tag = name + "-" + hex.EncodeToString(all.Sum(nil)[:6])
	return s, nil
}

// maxSecondFile limits a text file of the folder, in bytes.
const maxSecondFile = 1 << 20

// readSecond reads a small file of the folder.
func readSecond(dir, name string, owner uint32) ([]byte, error) {
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSecondFile {
		return nil, errs.WithHint(errs.Usage("%s is not a file of at most %d KiB", path, maxSecondFile>>10), secondHint)
	}
	if path, err = trusted.Folder(path, owner); err != nil {
		return nil, fmt.Errorf("folder of the second Istio: %w", err)
	}
	return os.ReadFile(path)
}

// openProgram rejects a program that is not executable.
func openProgram(dir, name string, owner uint32) (components.Source, error) {
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if err != nil {
		return components.Source{}, err
	}
	if info.Mode().IsRegular() && info.Mode()&0o111 == 0 {
		return components.Source{}, errs.WithHint(errs.Usage("%s is not executable", path), "chmod +x %s", path)
	}
	if path, err = trusted.Folder(path, owner); err != nil {
		return components.Source{}, fmt.Errorf("folder of the second Istio: %w", err)
	}
	return components.OpenSource(path)
}

// Limits on the charts of a folder.
const (
	maxChartFiles = 2000
	maxChartBytes = 32 << 20
)

// sumTree returns a digest of the names and contents of the files in a folder.
func sumTree(dir string) (string, error) {
	all := sha256.New()
	files, size := 0, int64(0)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return errs.Usage("%s is not a regular file", path)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if files, size = files+1, size+info.Size(); files > maxChartFiles || size > maxChartBytes {
			return errs.Usage("%s has more than %d files or %d MiB", dir, maxChartFiles, maxChartBytes>>20)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		fmt.Fprintf(all, "%q %x\n", name, sha256.Sum256(text))
		return err
	})
	return hex.EncodeToString(all.Sum(nil)), err
}

func (s *second) pilotRef() string { return s.hub + "/pilot:" + s.tag }
func (s *second) proxyRef() string { return s.hub + "/proxyv2:" + s.tag }

// plans returns the images to assemble from a folder.
func (s *second) plans() []components.Plan {
	pilot, agent := s.programs["pilot-discovery"], s.programs["pilot-agent"]
	envoy := components.File{Program: "envoy@" + components.DefaultEnvoy}
	version := "envoy-" + components.DefaultEnvoy
	if own, ok := s.programs["envoy"]; ok {
		envoy, version = components.File{From: own}, "envoy-"+strings.TrimPrefix(own.Sum, "sha256:")[:12]
	}
	out := []components.Plan{
		pilotPlan(s.pilotRef(), components.File{From: pilot}),
		proxyPlan(s.proxyRef(), components.File{From: agent}, envoy, version, s.bootstrap),
	}
	out[0].Name, out[1].Name = "image_second_pilot", "image_second_proxyv2"
	return out
}

// images assembles or pulls the images, and keeps the charts, from which runs render an
// istiod of their revision. It returns the folder with the charts.
func (s *second) images(ctx context.Context, b *components.Builder) (made []components.Image, charts string, err error) {
	if charts, err = s.keepCharts(ctx, b); err != nil {
		return nil, "", err
	}
	if s.release != "" {
		made, err = b.Pull(ctx, components.Pull{Refs: []string{s.pilotRef(), s.proxyRef()},
			Hint: "a folder with its programs (--second-istio DIR) needs no registry"})
	} else {
		made, err = b.Assemble(ctx, s.plans()...)
	}
	return made, charts, err
}

// Charts as they are kept.
const (
	keptBase      = "base"
	keptDiscovery = "istiod"
)

// chartRepository is where the Istio project publishes its charts. See istio.io/docs, Install
// with Helm.
const chartRepository = components.ChartRepository("https://istio-release.storage.googleapis.com/charts/")

// keepCharts copies the charts to the cache, or downloads those of a release.
func (s *second) keepCharts(ctx context.Context, b *components.Builder) (string, error) {
	dir, _, err := b.Make(ctx, components.Recipe{Name: "istio_charts", Inputs: map[string]any{"release": s.release, "charts": s.sum},
		Make: func(ctx context.Context, dir string) ([]components.Version, error) {
			if s.release != "" {
				b.Say("istio", components.PhaseDownload, "the charts of "+s.release)
				return chartRepository.Fetch(ctx, dir, s.release, keptBase, keptDiscovery)
			}
			for name, from := range map[string]string{keptBase: baseChart, keptDiscovery: discoveryChart} {
				if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(s.dir, from))); err != nil {
					return nil, err
				}
			}
			return []components.Version{{Name: "istio-charts", Version: s.tag, Source: "folder", Digest: "sha256:" + s.sum}}, nil
		}})
	return dir, err
}

// Facts about the second Istio in a lab.
const (
	factSecondHub    = "second-hub"
	factSecondTag    = "second-tag"
	factSecondCharts = "second-charts" // folder in the cache
	factSecondImages = "second-images" // built or official
)

func (s *second) facts(charts string) map[string]string {
	images := built
	if s.release != "" {
		images = official
	}
	return map[string]string{factSecondHub: s.hub, factSecondTag: s.tag, factSecondCharts: charts, factSecondImages: images}
}

// renderSecond renders an istiod of a revision, and the definitions that the version brings, from
// the charts of the lab's second Istio.
func renderSecond(ctx context.Context, b *components.Builder, facts map[string]string, revision string) (objects, definitions []*unstructured.Unstructured, err error) {
	charts := facts[factSecondCharts]
	at := func(name string) string {
		if packed := filepath.Join(charts, name+".tgz"); exists(packed) {
			return packed
		}
		return filepath.Join(charts, name)
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

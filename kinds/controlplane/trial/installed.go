package trial

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study"
)

// learn reads the values of the levers that the cell leaves as installed, for the trial's record
// and for code that needs a value.
func (t *controlTrial) learn(ctx context.Context) error {
	found, err := t.c.mesh.Found(ctx, t.levers)
	if err != nil {
		return err
	}
	t.seen.Installed, t.out.Control.Installed = found, found
	t.seen.Requests, t.out.Control.InstalledRequests = t.applied.Requests, t.applied.Requests
	known, strange := controlplane.Known(t.job.Cell, found)
	for _, factor := range strange {
		f, _ := controlplane.LeverByName(factor)
		if f.Usual != "" {
			t.warn(noteNoLevel, factor, found[factor], f.Usual)
		}
	}
	if t.levels, err = controlplane.LevelsOf(known); err != nil {
		return err
	}
	t.known = leversOf(controlplane.Of(t.c.study), known, t.sizes)
	return t.watched(ctx, found[controlplane.FactorDiscoverySelectors])
}

// watched rejects an installation whose istiod does not watch the population's namespaces: no proxy
// would ever receive a change there.
func (t *controlTrial) watched(ctx context.Context, selectors string) error {
	if selectors == "" || selectors == study.LevelNone {
		return nil
	}
	namespace, err := t.c.Kube.CoreV1().Namespaces().Get(ctx, population.Namespace(0), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the labels of namespace %s: %w", population.Namespace(0), err)
	}
	return watches(selectors, namespace.Name, namespace.Labels)
}

// watches fails unless selectors select a namespace.
func watches(selectors, namespace string, of map[string]string) error {
	switch ok, err := selects(selectors, of); {
	case err != nil:
		return fmt.Errorf("discovery selectors of the installation, %s: %w", selectors, err)
	case !ok:
		return errs.WithHint(errs.Usage("istiod is installed to watch only namespaces with %s, which excludes %s, where the study's proxies are", selectors, namespace),
			"settings: {discovery_selectors: none} makes it watch all namespaces while a trial runs")
	}
	return nil
}

// selects reports whether selectors, as [mesh.ControlPlane] finds them, select a namespace with
// these labels: either one requirement in the format of factor discovery_selectors, or a JSON list
// of Kubernetes selectors, of which one must match.
func selects(selectors string, of map[string]string) (bool, error) {
	var list []metav1.LabelSelector
	if err := json.Unmarshal([]byte(selectors), &list); err != nil {
		one, err := labels.Parse(selectors)
		return err == nil && one.Matches(labels.Set(of)), err
	}
	for i := range list {
		one, err := metav1.LabelSelectorAsSelector(&list[i])
		if err != nil {
			return false, err
		}
		if one.Matches(labels.Set(of)) {
			return true, nil
		}
	}
	return false, nil
}

// leverEvidence returns the proof of the levers.
func (t *controlTrial) leverEvidence() mesh.ControlEvidence {
	e := mesh.ControlEvidence{Rises: t.out.Control.Istiod}
	seen := map[string]bool{}
	for _, id := range t.ids {
		key := id.Namespace + "/" + id.Workload
		gateway := id.Type == population.Router
		if id.Type == population.Ztunnel { // Sidecars do not apply to ztunnels
			continue
		}
		if seen[id.Namespace] && key != t.levers.Namespaces[0]+"/"+t.levers.Workload[population.AppLabel] || seen[key] {
			continue
		}
		seen[id.Namespace], seen[key] = true, true
		e.Proxies = append(e.Proxies, mesh.ControlProxy{ID: id.Name + "." + id.Namespace, Namespace: id.Namespace, Labels: id.Labels, Gateway: gateway})
	}
	if len(t.c.reals) > 0 { // all in one namespace, of one workload
		real := t.c.reals[0]
		e.Proxies = append(e.Proxies, mesh.ControlProxy{ID: real.Name + "." + real.Namespace, Namespace: real.Namespace,
			Labels: map[string]string{population.AppLabel: t.realWorkload()}})
	}
	return e
}

package istio

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study"
)

// quantity parses a limit or a request; nil for none, and for one that stays as
// installed.
func quantity(factor, level string) (*resource.Quantity, error) {
	if level == mesh.LevelNone || level == study.LevelInstalled {
		return nil, nil
	}
	q, err := resource.ParseQuantity(level)
	if err != nil || q.Sign() <= 0 {
		return nil, errs.Usage("%s %q: must be a quantity such as 500m or 1536Mi", factor, level)
	}
	return &q, nil
}

// resourceLever is a resource of istiod's container with its levels.
type resourceLever struct {
	factor, limit, request string
	name                   corev1.ResourceName
}

// limited reports whether its limit is named, requested whether its request is.
func (r resourceLever) limited() bool { return r.limit != study.LevelInstalled }

func (r resourceLever) requested() bool { return r.request != study.LevelInstalled }

// quantities returns the wanted values; nil for none, and for unnamed ones.
func (r resourceLever) quantities() (limit, request *resource.Quantity, err error) {
	if limit, err = quantity(r.factor, r.limit); err != nil {
		return nil, nil, err
	}
	request, err = quantity(r.factor+"_request", r.request)
	return limit, request, err
}

func resourceLevers(l mesh.Levers) []resourceLever {
	return []resourceLever{
		{"istiod_cpu", l.Level(controlplane.FactorIstiodCPU), l.Level(controlplane.FactorIstiodCPURequest), corev1.ResourceCPU},
		{"istiod_memory", l.Level(controlplane.FactorIstiodMemory), l.Level(controlplane.FactorIstiodMemRequest), corev1.ResourceMemory},
	}
}

// setResource sets the named ones of a limit and a request. A named request must
// not exceed the limit, wherever that comes from.
func setResource(container *corev1.Container, r resourceLever) error {
	limit, request, err := r.quantities()
	if err != nil {
		return err
	}
	most, as := limit, ""
	if !r.limited() {
		if q, ok := container.Resources.Limits[r.name]; ok {
			most, as = &q, ", as installed"
		}
	}
	if most != nil && request != nil && request.Cmp(*most) > 0 {
		return errs.Usage("%s_request %s is more than %s %s%s", r.factor, r.request, r.factor, most, as)
	}
	setRequest(container, r.name, request)
	if r.limited() {
		setLimit(container, r.name, limit)
	}
	return nil
}

// setRequest sets a request; nil leaves it unchanged.
func setRequest(container *corev1.Container, name corev1.ResourceName, request *resource.Quantity) {
	if request == nil {
		return
	}
	if container.Resources.Requests == nil {
		container.Resources.Requests = corev1.ResourceList{}
	}
	container.Resources.Requests[name] = *request
}

// setLimit sets or removes a limit and reduces a request that exceeds it.
func setLimit(container *corev1.Container, name corev1.ResourceName, limit *resource.Quantity) {
	if limit == nil {
		delete(container.Resources.Limits, name)
		return
	}
	if container.Resources.Limits == nil {
		container.Resources.Limits = corev1.ResourceList{}
	}
	container.Resources.Limits[name] = *limit
	if request, ok := container.Resources.Requests[name]; ok && request.Cmp(*limit) > 0 {
		container.Resources.Requests[name] = *limit
	}
}

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
	if level == study.LevelNone || level == study.LevelInstalled {
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
	of := &container.Resources
	if request != nil {
		of.Requests = withAmount(of.Requests, r.name, *request)
	}
	switch {
	case limit != nil:
		of.Limits = withAmount(of.Limits, r.name, *limit)
		if now, ok := of.Requests[r.name]; ok && now.Cmp(*limit) > 0 { // the API server would reject it
			of.Requests[r.name] = *limit
		}
	case r.limited():
		delete(of.Limits, r.name)
	}
	return nil
}

func withAmount(list corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) corev1.ResourceList {
	if list == nil {
		list = corev1.ResourceList{}
	}
	list[name] = q
	return list
}

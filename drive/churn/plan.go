package churn

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

const defaultBurst = 10

// NewPlan returns the plan of a spec. The same spec gives the same plan.
func NewPlan(s Spec) (*Plan, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	s.Endpoints = cmp.Or(s.Endpoints, EndpointsControllers)
	if s.Namespaces == nil {
		s.Namespaces = s.Population.NamespaceNames()
	}
	times, err := s.times()
	if err != nil {
		return nil, err
	}
	b := &builder{spec: s, plan: &Plan{Spec: s}, rng: rand.New(rand.NewPCG(s.Seed, 0x636875726e)), slots: map[string]int{}, direct: map[int]*directSlice{}}
	for group, at := range times {
		kind := at.Kind
		if kind == KindMixed {
			kind = b.mixed()
		}
		first := len(b.plan.Changes)
		if err := b.add(kind); err != nil {
			return nil, err
		}
		for i := first; i < len(b.plan.Changes); i++ {
			c := &b.plan.Changes[i]
			c.Group, c.OffsetNS, c.Kind = group, at.OffsetNS, kind
			for k := range c.Markers {
				c.Markers[k].Change = i
			}
		}
		if len(b.plan.Changes) > MaxChanges {
			return nil, errs.Usage("more than %d changes; use a shorter or slower schedule", MaxChanges)
		}
	}
	return b.plan, nil
}

// times returns the times and kinds of changes.
func (s Spec) times() ([]TraceChange, error) {
	if s.Trace != nil {
		return s.Trace, nil
	}
	limit := cmp.Or(s.DurationS, 1e7)
	var schedule arrival.Schedule
	switch s.Arrival {
	case ArrivalUniform:
		schedule = arrival.Uniform(s.Shape, limit)
	case ArrivalPoisson:
		schedule = arrival.Poisson(s.Shape, limit, s.Seed)
	case ArrivalBurst:
		schedule = arrival.Burst(s.Shape, limit, cmp.Or(s.BurstSize, defaultBurst))
	}
	var out []TraceChange
	for s.Count == 0 || len(out) < s.Count {
		r, ok := schedule.Next()
		if !ok {
			break
		}
		if len(out) == MaxChanges {
			return nil, errs.Usage("more than %d changes; use a shorter or slower schedule", MaxChanges)
		}
		out = append(out, TraceChange{OffsetNS: r.Offset, Kind: s.Kind})
	}
	if len(out) == 0 {
		return nil, errs.Usage("no change falls into %v s at this rate", s.DurationS)
	}
	if s.Count > len(out) {
		return nil, errs.Usage("only %d of %d changes fall into %v s at this rate", len(out), s.Count, limit)
	}
	return out, nil
}

// DurationNS is the offset of the last change.
func (p *Plan) DurationNS() int64 { return p.Changes[len(p.Changes)-1].OffsetNS }

// builder adds the changes of a plan in order.
type builder struct {
	spec Spec
	plan *Plan
	rng  *rand.Rand
	// slots counts the changes of each kind so far.
	slots    map[string]int
	direct   map[int]*directSlice
	based    bool // the Service of target has been prepared
	realMade bool // the real gateway has been prepared
}

// mixture lists the kinds of mixed changes with their weights: endpoints change more
// often than configuration.
var mixture = []struct {
	kind   string
	weight int
}{
	{KindEndpointsReplace, 4}, {KindEndpointsFlap, 2}, {KindEndpointsScale, 2}, {KindPodLabels, 1}, {KindService, 2},
	{KindVirtualService, 2}, {KindDestinationRule, 2}, {KindServiceEntry, 1}, {KindNoOp, 2},
}

func (b *builder) mixed() string {
	sum := 0
	for _, m := range mixture {
		sum += m.weight
	}
	for {
		n := b.rng.IntN(sum)
		for _, m := range mixture {
			if n -= m.weight; n < 0 {
				if b.cannot(m.kind) != nil {
					break // draw again
				}
				return m.kind
			}
		}
	}
}

// needsPods reports whether a kind of change needs pods of Services.
func (b *builder) needsPods(kind string) bool {
	switch kind {
	case KindEndpointsScale, KindEndpointsReplace, KindEndpointsFlap, KindRollingRestart:
		return b.spec.Endpoints == EndpointsControllers
	case KindPodLabels:
		return true
	}
	return false
}

// cannot returns what the population lacks for a kind of change.
func (b *builder) cannot(kind string) error {
	if b.spec.On != nil {
		return nil // Validate has checked it
	}
	p := b.spec.Population
	if b.needsPods(kind) && p.Services*p.EndpointsPerService == 0 {
		return errs.Usage("%s needs Services with endpoints in the population", kind)
	}
	switch kind {
	case KindEndpointsScale, KindEndpointsReplace, KindEndpointsFlap, KindRollingRestart:
		if p.Services == 0 {
			return errs.Usage("%s needs a Service in the population", kind)
		}
		if (b.spec.Trace != nil || b.spec.Kind == KindMixed) && p.Services <= classes[kind] {
			return errs.Usage("%s among other kinds needs a Service of its own: at least %d in the population", kind, classCount)
		}
	}
	return nil
}

func (b *builder) add(kind string) error {
	if err := b.cannot(kind); err != nil {
		return err
	}
	n := b.slots[kind]
	b.slots[kind]++
	for _, k := range kinds {
		if k.name == kind {
			k.add(b, kind, n)
		}
	}
	return nil
}

// text returns the unique text of the next change. It ends with the same number of
// digits in all changes, so that none is a prefix of another.
func (b *builder) text() string { return fmt.Sprintf("mm-%s-%05d", b.spec.Trial, b.index()) }

// index returns the index of the next change.
func (b *builder) index() int { return len(b.plan.Changes) }

// number returns the unique port of the next change.
func (b *builder) number() int64 { return int64(10_000 + b.index()) }

// namespace returns the namespace in which change n of a kind creates its object.
func (b *builder) namespace(n int) string { return b.spec.Namespaces[n%len(b.spec.Namespaces)] }

// slot names the object of change n of a kind, and reports whether the change creates
// it.
func (b *builder) slot(n int) (name, namespace string, first bool) {
	if b.spec.Objects == 0 {
		return b.text(), b.namespace(n), true
	}
	k := n % b.spec.Objects
	return fmt.Sprintf("mm-%s-object-%d", b.spec.Trial, k), b.namespace(k), n < b.spec.Objects
}

// append adds a change, without markers of ztunnels if there are none.
func (b *builder) append(c Change, markers ...record.Marker) {
	c.Index = b.index()
	if b.spec.Population.Ztunnels > 0 {
		c.Scope.Ztunnels = c.pods != nil || slices.ContainsFunc(markers, record.Marker.OfZtunnels)
	} else {
		markers = slices.DeleteFunc(markers, record.Marker.OfZtunnels)
	}
	c.Markers = markers
	b.plan.Changes = append(b.plan.Changes, c)
}

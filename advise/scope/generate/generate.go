package generate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Options configures the generation.
type Options struct {
	// Window is how long before the newest observation a call still counts; 0 means unlimited.
	Window time.Duration
	// Always lists egress hosts (namespace/name) for every Sidecar. Proxies reach istiod and the
	// tracer of their bootstrap without them.
	Always []string
	// Only lists the namespaces that get Sidecars; nil means all of them and the mesh's default.
	Only []string
	// Watched is how long a workload must have been watched before it may be narrowed.
	Watched time.Duration
	// Now is the time of the inventory; zero means unknown.
	Now time.Time
}

const hour = time.Hour

// Defaults of the command.
const (
	DefaultWindow  = 30 * 24 * hour
	DefaultWatched = 24 * hour
)

// exception is the share of the saving from a workload's own Sidecar that may be lost by omitting
// it.
const exception = 0.05

// Result is what was generated, its basis, and what is unknown.
type Result struct {
	Schema       int           `json:"schema"`
	Window       time.Duration `json:"window_ns"`
	Watched      time.Duration `json:"watched_ns"`
	Sources      []string      `json:"sources"`
	Observed     Span          `json:"observed"` // according to sources with times
	Edges        int           `json:"edges"`    // kept pairs of workload and host
	Sidecars     []Sidecar     `json:"sidecars"`
	Old          []Edge        `json:"old"` // last seen before the window, and not kept
	Open         []Open        `json:"uncovered"`
	Saving       Prediction    `json:"predicted"`
	RegistryOnly bool          `json:"registry_only"` // a call to a host that a Sidecar omits fails
	Notes        []string      `json:"notes"`

	existing map[string]Sidecar
}

// ResultSchema is the version of Result's JSON.
const ResultSchema = 3

// Open is something that the observations do not cover.
type Open struct {
	Code OpenCode `json:"code"`
	Workload
	Hosts []string `json:"hosts,omitempty"`
	Count int      `json:"count,omitempty"` // number of pods or workloads
	// Why belongs to OpenUnseen. Sidecar is the workload's current one, which may be Fixed.
	Why     Uncovered `json:"why,omitzero"`
	Idle    bool      `json:"idle,omitempty"` // it currently has no pods
	Sidecar string    `json:"sidecar,omitempty"`
	Fixed   bool      `json:"fixed,omitempty"` // it has its own egress listeners
}

// OpenCode identifies what is not covered.
type OpenCode string

// What may be uncovered.
const (
	OpenUnseen      OpenCode = "not_known"
	OpenOwn         OpenCode = "own_sidecar"
	OpenProxyless   OpenCode = "no_proxy"
	OpenMachines    OpenCode = "machines"
	OpenConnections OpenCode = "connections_not_seen"
	OpenPassthrough OpenCode = "outside_the_mesh"
	OpenGone        OpenCode = "gone"
	OpenUnknown     OpenCode = "unknown_host" // without a Service or ServiceEntry; kept by name
	OpenUnwritable  OpenCode = "no_host"      // names that a Sidecar cannot contain
	OpenByHand      OpenCode = "let_in_by_hand"
)

type generator struct {
	inv     *Inventory
	obs     *Observations
	acc     Accounts
	o       Options
	callers []Workload
	kept    map[Workload]set
	needs   map[Workload]set // cache of needed, once kept is complete
	views   map[string]*view // by namespace
	mesh    Sidecar          // the default
	out     []Sidecar
	result  *Result
}

// view is what proxies of a namespace may see.
type view struct {
	hosts  []Host
	number map[string]int // by the hosts' namespaces
	weight int64
}

func newGenerator(inv *Inventory, obs *Observations, acc Accounts, o Options, r *Result) *generator {
	return &generator{inv: inv, obs: obs, acc: acc, o: o, callers: inv.callers(), kept: map[Workload]set{},
		needs: map[Workload]set{}, views: map[string]*view{}, result: r}
}

// Generate generates Sidecars. It fails if no workload with a sidecar is known. It checks its own
// result: a Sidecar that does not admit a call to be kept is an error.
func Generate(inv *Inventory, obs *Observations, acc Accounts, o Options) (Result, error) {
	r := Result{Schema: ResultSchema, Window: o.Window, Watched: o.Watched, Sources: obs.sources.Names(), Observed: obs.span,
		existing: map[string]Sidecar{}, Sidecars: []Sidecar{}, Old: []Edge{}, Open: []Open{}, Notes: []string{},
		RegistryOnly: inv.outbound == "REGISTRY_ONLY"}
	inv.link()
	inv.addIdle()
	g := newGenerator(inv, obs, acc, o, &r)
	switch {
	case obs.err != nil:
		return r, obs.err
	case len(g.callers) == 0:
		return r, errs.WithHint(errs.Usage("no workload with a sidecar is known"), "name the pods: --from with "+
			"kubectl get pods -A -o json, or the dumps of their proxies")
	}
	slices.SortFunc(inv.existing, func(a, b Sidecar) int { return b2i(b.older(a)) - b2i(a.older(b)) })
	for _, s := range inv.existing {
		r.existing[s.String()] = s
	}
	g.keep()
	g.meshDefault()
	byNamespace := map[string][]Workload{}
	for _, w := range g.callers {
		byNamespace[w.Namespace] = append(byNamespace[w.Namespace], w)
	}
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		if g.concerns(namespace) {
			g.namespace(namespace, byNamespace[namespace])
		}
	}
	g.finish()
	if err := g.verify(); err != nil {
		return r, err
	}
	g.open()
	g.predict()
	g.notes()
	return r, nil
}

// concerns reports whether a namespace gets Sidecars.
func (g *generator) concerns(namespace string) bool {
	return len(g.o.Only) == 0 || slices.Contains(g.o.Only, namespace)
}

// holds returns the Sidecar among all that governs a workload.
func (g *generator) holds(all []Sidecar, w Workload) Sidecar {
	return effective(all, g.inv.Root, w.Namespace, g.inv.workloads[w].labels)
}

// view returns what exportTo lets proxies of a namespace see.
func (g *generator) view(namespace string) *view {
	v := g.views[namespace]
	if v == nil {
		v = &view{number: map[string]int{}}
		for _, h := range g.inv.hosts() {
			if g.inv.visible(h, namespace) {
				v.hosts = append(v.hosts, h)
				v.number[h.Namespace]++
				v.weight += g.acc.weigh(g.inv.services[h])
			}
		}
		g.views[namespace] = v
	}
	return v
}

// weight returns the bytes that egress hosts admit for a proxy of a namespace.
func (g *generator) weight(hosts []string, namespace string) (sum int64) {
	for _, h := range g.view(namespace).hosts {
		if admits(hosts, namespace, h) {
			sum += g.acc.weigh(g.inv.services[h])
		}
	}
	return sum
}

// finish decides what happens to each Sidecar, and lists the workloads that it governs.
func (g *generator) finish() {
	r := g.result
	for _, s := range g.out {
		s.Change = Create
		if old, found := r.existing[s.String()]; found {
			s.Change = Change
			same := slices.Equal(tidy(slices.Clone(old.Hosts)), tidy(slices.Clone(s.Hosts)))
			if same && maps.Equal(old.Selector, s.Selector) && old.whole["egress"] != nil {
				s.Change, s.Hosts = Same, old.Hosts
			}
		}
		s.mesh = s.Namespace == g.inv.Root && !s.selective()
		r.Sidecars = append(r.Sidecars, s)
	}
	for _, e := range g.inv.existing {
		if slices.ContainsFunc(g.out, func(s Sidecar) bool { return s.String() == e.String() }) {
			continue
		}
		e.Change, e.Reason = Same, ReasonTheirs
		if e.generated() && g.concerns(e.Namespace) {
			e.Change, e.Reason = Delete, ReasonUseless
		}
		r.Sidecars = append(r.Sidecars, e)
	}
	slices.SortStableFunc(r.Sidecars, func(a, b Sidecar) int {
		key := func(s Sidecar) string { return fmt.Sprint(b2i(!s.mesh), s.Namespace, " ", b2i(s.selective()), s.Name) }
		return strings.Compare(key(a), key(b))
	})
	after := g.after()
	for _, w := range g.callers {
		name := g.holds(after, w).String()
		for i := range r.Sidecars {
			if s := &r.Sidecars[i]; s.String() == name && s.Change != Delete {
				s.Workloads = append(s.Workloads, w.String())
			}
		}
	}
}

// after returns the Sidecars that exist once everything has been applied.
func (g *generator) after() []Sidecar {
	return slices.DeleteFunc(slices.Clone(g.result.Sidecars), func(s Sidecar) bool { return s.Change == Delete })
}

// verify checks by istiod's rules that the result admits all calls to be kept, and everything that
// an unobserved workload has now.
func (g *generator) verify() error {
	after := g.after()
	for _, w := range g.callers {
		s, now := g.holds(after, w), g.holds(g.inv.existing, w)
		if s.Change == Same && s.String() == now.String() {
			continue // unchanged
		}
		must := set{}
		for h := range g.needed(w) {
			if g.covered(w) || admits(now.Hosts, w.Namespace, h) {
				must.add(h)
			}
		}
		if !g.covered(w) {
			for _, h := range g.view(w.Namespace).hosts {
				if admits(now.Hosts, w.Namespace, h) {
					must.add(h)
				}
			}
		}
		if lost := missing(s.Hosts, w.Namespace, must); len(lost) > 0 {
			return fmt.Errorf("Sidecar %s would leave out %s, which %s has to keep: this is a fault of meshtrial; "+
				"nothing was written", s, lost[0], w)
		}
	}
	return nil
}

// open lists what the observations do not cover, besides unobserved workloads.
func (g *generator) open() {
	r := g.result
	add := func(o Open) { r.Open = append(r.Open, o) }
	blind, unseen := 0, set{}
	for _, w := range g.callers {
		if !g.covered(w) {
			continue
		}
		had := blind
		for _, h := range g.view(w.Namespace).hosts {
			if s := g.inv.services[h]; !s.external && g.blind(w, s) {
				blind = had + 1
				unseen.add(h)
			}
		}
	}
	if len(unseen) > 0 {
		add(Open{Code: OpenConnections, Hosts: names(unseen.sorted()), Count: blind})
	}
	for w := range g.kept {
		if w.Name != "" && g.inv.workloads[w] == nil {
			add(Open{Code: OpenGone, Workload: w})
		}
	}
	for _, w := range g.callers {
		if s := g.obs.seen[w]; s != nil && len(s.outside) > 0 {
			add(Open{Code: OpenPassthrough, Workload: w, Hosts: slices.Sorted(maps.Keys(s.outside))})
		}
	}
	without := map[string]int{}
	for w, p := range g.inv.workloads {
		without[w.Namespace] += p.number - p.proxied
	}
	for code, number := range map[OpenCode]map[string]int{OpenProxyless: without, OpenMachines: g.inv.machines} {
		for namespace, n := range number {
			if n > 0 {
				add(Open{Code: code, Workload: Workload{Namespace: namespace}, Count: n})
			}
		}
	}
	g.openByHand()
	slices.SortStableFunc(r.Open, func(a, b Open) int {
		return strings.Compare(string(a.Code)+" "+a.Workload.String(), string(b.Code)+" "+b.Workload.String())
	})
}

// openByHand lists the hosts that a manually written Sidecar admits by name, that no workload under
// it was observed to call, and that one of these workloads loses: the author may know of a call.
func (g *generator) openByHand() {
	after := g.after()
	governed := map[string][]Workload{}
	for _, w := range g.callers {
		name := g.holds(g.inv.existing, w).String()
		governed[name] = append(governed[name], w)
	}
	for _, e := range g.inv.existing {
		if e.selective() || e.generated() {
			continue
		}
		called, lost := set{}, set{}
		for _, w := range governed[e.String()] {
			maps.Copy(called, g.needed(w))
			then := g.holds(after, w)
			for _, entry := range e.Hosts {
				for _, h := range g.named(entry, w.Namespace) {
					if !admits(then.Hosts, w.Namespace, h) {
						lost.add(h)
					}
				}
			}
		}
		var gone []string
		for _, h := range lost.sorted() {
			if _, needed := called[h]; !needed {
				gone = append(gone, h.String())
			}
		}
		if len(gone) > 0 {
			g.result.Open = append(g.result.Open, Open{Code: OpenByHand, Workload: Workload{Namespace: e.Namespace}, Hosts: gone, Sidecar: e.String()})
		}
	}
}

// named returns the hosts that an egress entry without a wildcard in its host admits for proxies of
// a namespace.
func (g *generator) named(entry, own string) (hosts []Host) {
	namespace, name, _ := strings.Cut(entry, "/")
	switch {
	case strings.Contains(name, "*") || strings.HasPrefix(namespace, "~"):
	case namespace == "*":
		for _, h := range g.view(own).hosts {
			if h.Name == name {
				hosts = append(hosts, h)
			}
		}
	default:
		hosts = []Host{{cmp.Or(strings.TrimPrefix(namespace, "."), own), name}}
	}
	return hosts
}

func names(hosts []Host) (out []string) {
	for _, h := range hosts {
		out = append(out, h.String())
	}
	return out
}

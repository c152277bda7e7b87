package generate

import (
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Options say how to generate.
type Options struct {
	// Window is how long before the newest observation a call still counts; 0 is unlimited.
	Window time.Duration
	// Always are egress hosts (namespace/name) that every Sidecar has. Proxies reach istiod and the
	// tracer of their bootstrap without them.
	Always []string
	// Only are the namespaces that get Sidecars; nil is all of them and the mesh's default.
	Only []string
	// Exception is the share, 0 to 1, of the saving of a workload's own Sidecar that may be lost by
	// having none.
	Exception float64
	// Watched is how long a workload must have been watched to be narrowed.
	Watched time.Duration
	// Now is the time of the inventory; zero is unknown.
	Now time.Time
}

const hour = time.Hour

// rare is the number of calls up to which a dependency counts as rare.
const rare = 10

// Defaults of the command.
const (
	DefaultWindow    = 30 * 24 * hour
	DefaultException = 0.05
	DefaultWatched   = 24 * hour
)

// Result is what was generated, from what, and what is not known.
type Result struct {
	Schema   int        `json:"schema"`
	Rule     Rule       `json:"rule"`
	Sources  Sources    `json:"sources"`
	Observed Span       `json:"observed"` // by sources that know times
	Edges    int        `json:"edges"`    // pairs of workload and host that are kept
	Sidecars []Sidecar  `json:"sidecars"`
	Rare     []Kept     `json:"rare"`
	Old      []Edge     `json:"old"`     // last seen before the window, and not kept
	Unknown  []Kept     `json:"unknown"` // hosts that no Service or ServiceEntry has, kept by name
	Open     []Open     `json:"uncovered"`
	Others   []Other    `json:"alternatives"`
	Saving   Prediction `json:"predicted"`
	// RegistryOnly says that a call to a host that a Sidecar leaves out fails.
	RegistryOnly bool   `json:"registry_only"`
	Notes        []Note `json:"notes"`

	existing map[string]Sidecar
}

// ResultSchema is the version of Result's JSON.
const ResultSchema = 2

// Rule is what was kept.
type Rule struct {
	Window    time.Duration `json:"window_ns"`
	Watched   time.Duration `json:"watched_ns"`
	Exception float64       `json:"exception_ratio"`
}

// Kept is a call that deserves a look.
type Kept struct {
	Edge
	To  []Host   `json:"to"`
	Why KeptCode `json:"why"`
}

// KeptCode names why a kept call deserves a look.
type KeptCode string

// The calls that deserve a look.
const (
	KeptUnknown KeptCode = "unknown_host"
	KeptRare    KeptCode = "few_calls"
	KeptHours   KeptCode = "few_hours"
	KeptOutside KeptCode = "passthrough" // today's scope leaves the host out
)

// Open is something that the observations do not cover.
type Open struct {
	Code OpenCode `json:"code"`
	Workload
	Hosts []string `json:"hosts,omitempty"`
	Count int      `json:"count,omitempty"` // of hosts, pods or workloads, if not all are named
	// Why is of OpenUnseen. Sidecar holds for the workload; it may be Fixed.
	Why     Uncovered `json:"why,omitzero"`
	Sidecar string    `json:"sidecar,omitempty"`
	Fixed   bool      `json:"fixed,omitempty"` // it has egress listeners of its own
}

// OpenCode names what is not covered.
type OpenCode string

// What may be uncovered.
const (
	OpenUnseen      OpenCode = "not_known"
	OpenOwn         OpenCode = "own_sidecar"
	OpenProxyless   OpenCode = "no_proxy"
	OpenConnections OpenCode = "connections_not_seen"
	OpenAlias       OpenCode = "external_name"
	OpenPassthrough OpenCode = "outside_the_mesh"
	OpenDNS         OpenCode = "looked_up_only"
	OpenGone        OpenCode = "gone"
	OpenFinished    OpenCode = "finished_job"
	OpenUnwritable  OpenCode = "no_host"       // names that no Sidecar can have
	OpenMadeUp      OpenCode = "made_up_hosts" // that clients may have written
	OpenManyMadeUp  OpenCode = "many_made_up_hosts"
	OpenByHand      OpenCode = "let_in_by_hand"
	OpenMachines    OpenCode = "machines"
)

// Note is a limitation of the observations or the inventory.
type Note struct {
	Code NoteCode      `json:"code"`
	For  time.Duration `json:"for_ns,omitempty"`
	Kind string        `json:"kind,omitempty"` // of objects
	// Workload has no selector of its own; From called To by a host that Kiali does not name.
	Workload Workload `json:"workload,omitzero"`
	To       Workload `json:"to,omitzero"`
	Text     string   `json:"text,omitempty"` // of NoteSource
}

// NoteCode names a limitation.
type NoteCode string

// The limitations.
const (
	NoteDeclared   NoteCode = "declared_only"
	NoteCounters   NoteCode = "counters_only"
	NoteUndated    NoteCode = "undated"
	NoteBrief      NoteCode = "brief" // the sources cover less than a week
	NoteMetrics    NoteCode = "metrics_undated"
	NoteNoList     NoteCode = "no_list" // of objects of a Kind
	NoteAhead      NoteCode = "clock_ahead"
	NoteEverything NoteCode = "default_lets_in_everything"
	NoteKiali      NoteCode = "kiali_without_host"
	NoteSource     NoteCode = "source" // a file or a server that could not be read completely
)

// set is a set of hosts.
type set map[Host]struct{}

func (s set) add(hosts ...Host) {
	for _, h := range hosts {
		s[h] = struct{}{}
	}
}

func (s set) merge(o set) { maps.Copy(s, o) }

func (s set) sorted() []Host { return hostsOf(s) }

type generator struct {
	inv    *Inventory
	obs    *Observations
	acc    Accounts
	o      Options
	kept   map[Workload]set
	needs  map[Workload]set // by needed, once kept is complete
	views  map[string]*view // by namespace
	mesh   Sidecar          // the default
	out    []Sidecar
	result *Result
}

// view is what proxies of a namespace may see.
type view struct {
	hosts  []Host
	number map[string]int // by the hosts' namespaces
	weight int64
}

// Generate makes Sidecars. It fails if no workload with a sidecar is known. It checks its own
// result: one that does not let in a call to be kept is an error.
func Generate(inv *Inventory, obs *Observations, acc Accounts, o Options) (Result, error) {
	r := Result{Schema: ResultSchema, Rule: Rule{o.Window, o.Watched, o.Exception}, Sources: obs.sources, Observed: obs.span, existing: map[string]Sidecar{},
		Sidecars: []Sidecar{}, Rare: []Kept{}, Old: []Edge{}, Unknown: []Kept{}, Open: []Open{}, Others: []Other{}, RegistryOnly: inv.Outbound == "REGISTRY_ONLY", Notes: append([]Note{}, obs.notes...)}
	g := &generator{inv: inv, obs: obs, acc: acc, o: o, kept: map[Workload]set{}, views: map[string]*view{}, result: &r}
	inv.link()
	inv.idle()
	inv.age()
	callers := inv.callers()
	if len(callers) == 0 {
		return r, errs.WithHint(errs.Usage("no workload with a sidecar is known"), "name the pods: --inventory with kubectl get pods -A -o json, or --lab, or the dumps of their proxies")
	}
	sort.Slice(inv.existing, func(i, j int) bool {
		a, b := &inv.existing[i], &inv.existing[j]
		return a.Namespace < b.Namespace || a.Namespace == b.Namespace && a.older(*b)
	})
	for _, s := range inv.existing {
		r.existing[s.String()] = s
	}
	g.keep()
	g.meshDefault(callers)
	byNamespace := map[string][]Workload{}
	for _, w := range callers {
		byNamespace[w.Namespace] = append(byNamespace[w.Namespace], w)
	}
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		if !g.concerns(namespace) {
			continue
		}
		g.namespace(namespace, byNamespace[namespace])
	}
	g.finish(callers)
	if err := g.verify(callers); err != nil {
		return r, err
	}
	g.open(callers)
	g.predict(callers)
	g.others(callers)
	g.notes()
	return r, nil
}

// concerns reports whether a namespace gets Sidecars.
func (g *generator) concerns(namespace string) bool {
	return len(g.o.Only) == 0 || slices.Contains(g.o.Only, namespace)
}

// view returns what exportTo lets proxies of a namespace see.
func (g *generator) view(namespace string) *view {
	if v := g.views[namespace]; v != nil {
		return v
	}
	v := &view{number: map[string]int{}}
	for _, h := range g.inv.hosts() {
		s := g.inv.services[h]
		if g.inv.visible(h, namespace) {
			v.hosts = append(v.hosts, h)
			v.number[h.Namespace]++
			v.weight += g.acc.weigh(s).Dump
		}
	}
	g.views[namespace] = v
	return v
}

// weight returns the bytes that egress hosts let in for a proxy of a namespace.
func (g *generator) weight(hosts []string, namespace string) int64 {
	sum := int64(0)
	for _, h := range g.view(namespace).hosts {
		if admits(hosts, namespace, h) {
			sum += g.acc.weigh(g.inv.services[h]).Dump
		}
	}
	return sum
}

// needed returns the hosts that a workload keeps: those that it calls, those that some unknown
// workload of its namespace calls, those that the mesh's configuration names, those that sources
// cannot see, and those that routes lead to.
func (g *generator) needed(w Workload) set {
	if known, done := g.needs[w]; done {
		return known
	}
	if g.needs == nil {
		g.needs = map[Workload]set{}
	}
	out := set{}
	g.needs[w] = out
	out.merge(g.kept[w])
	out.merge(g.kept[Workload{Namespace: w.Namespace}])
	for _, n := range g.inv.needs {
		if n.namespace == "" || n.namespace == g.inv.Root || n.namespace == w.Namespace {
			if to := g.needHosts(n, w.Namespace); !n.ifKnown || g.inv.known(to[0]) {
				out.add(to...)
			}
		}
	}
	for _, h := range g.view(w.Namespace).hosts {
		if s := g.inv.services[h]; s.External || g.blind(w, s) {
			out.add(h)
		}
	}
	g.routes(out, w.Namespace)
	g.aliases(out, w.Namespace)
	return out
}

// aliases adds the Services of type ExternalName that stand for hosts in the set. istiod looks for
// them in the namespace of the target (matchingAliasService), whatever their own.
func (g *generator) aliases(hosts set, caller string) {
	for _, h := range g.view(caller).hosts {
		s := g.inv.services[h]
		to := s.Alias
		for range 10 { // one may stand for another, and for itself
			if to == "" {
				break
			}
			next := ""
			for _, target := range g.inv.resolve(to, "", caller) {
				known := g.inv.services[target]
				if known != nil && known.External {
					next = known.Alias
				} else if _, in := hosts[target]; in {
					hosts.add(Host{target.Namespace, h.Name})
				}
			}
			to = next
		}
	}
}

func (g *generator) needHosts(n need, caller string) []Host {
	if namespace, host, found := strings.Cut(n.host, "/"); found {
		return g.inv.resolve(host, namespace, caller)
	}
	return g.inv.resolve(n.host, "", caller)
}

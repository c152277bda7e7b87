package generate

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Options say how to generate.
type Options struct {
	// Window is how far before the newest observation a call still counts; 0
	// is without bound.
	Window time.Duration
	// Always are egress hosts (namespace/name) that every Sidecar has. Proxies
	// reach istiod and their tracers of the bootstrap without.
	Always []string
	// Only are the namespaces that get Sidecars; nil is all, and the mesh's
	// default.
	Only []string
	// Exception is the share, 0 to 1, of what a workload's own Sidecar would
	// save that may be lost by having none.
	Exception float64
	// Rare is the number of calls up to which a dependency counts as rare.
	Rare int64
	// Watched is for how long a workload must have been watched to be narrowed.
	Watched time.Duration
	// Now is the time of the inventory; zero if nobody knows.
	Now time.Time
}

const hour = time.Hour

// Defaults of the command.
const (
	DefaultWindow    = 30 * 24 * hour
	DefaultException = 0.05
	DefaultRare      = 10
	DefaultWatched   = 24 * hour
)

// Result is what was generated, from what, and what is left open.
type Result struct {
	Schema   int        `json:"schema"`
	Rule     []string   `json:"rule"`
	Sources  Sources    `json:"sources"`
	Observed Span       `json:"observed"` // by sources that know times
	Edges    int        `json:"edges"`    // different pairs of workload and host that are kept
	Sidecars []Sidecar  `json:"sidecars"`
	Rare     []Kept     `json:"rare"`
	Old      []Edge     `json:"old"`     // not kept: last seen before the window
	Unknown  []Kept     `json:"unknown"` // hosts that no Service or ServiceEntry has; kept by their names
	Open     []Open     `json:"uncovered"`
	Others   []Other    `json:"alternatives"`
	Saving   Prediction `json:"predicted"`
	Notes    []string   `json:"notes"`

	existing map[string]Sidecar
}

// ResultSchema is the version of Result's JSON.
const ResultSchema = 1

// Kept is a call that is worth a look.
type Kept struct {
	Edge
	To  []Host `json:"to"`
	Why string `json:"why"`
}

// Open is what the observations do not cover, and what that means.
type Open struct {
	What string `json:"what"` // of the constants below
	Workload
	Hosts []string `json:"hosts,omitempty"`
	Count int      `json:"count,omitempty"` // of hosts, pods or workloads, where not all are named
	Why   string   `json:"why"`
	Risk  string   `json:"risk"`
	Done  string   `json:"done"`
}

// What may be uncovered.
const (
	OpenUnseen      = "not known"
	OpenOwn         = "Sidecar of its own"
	OpenProxyless   = "no proxy"
	OpenConnections = "connections not seen"
	OpenAlias       = "external name"
	OpenPassthrough = "outside of the mesh"
	OpenDNS         = "looked up only"
	OpenGone        = "gone"
	OpenOdd         = "no host"
	OpenByHand      = "let in by hand"
	OpenMachines    = "machines"
)

// Rule says in words what is kept.
func (o Options) rule() []string {
	window := "Every call that any source saw is kept, however rare: one is enough."
	if o.Window > 0 {
		window = fmt.Sprintf("Every call that any source saw within %s before the newest observation is kept, however rare: one is enough. What was last seen before that is listed, and not kept.", spell(o.Window))
	}
	return []string{
		window,
		"What is declared (a service graph), and what proxies' counters have, which do not say when it was, is kept whatever its age.",
		"A workload that no source watched, or that neither called nor served anybody, keeps the scope that it has." + o.shortest(),
		fmt.Sprintf("A workload gets a Sidecar of its own where the one of its namespace, or of the mesh, would lose more than %g%% of what its own saves.", 100*o.Exception),
	}
}

func (o Options) shortest() string {
	if o.Watched <= 0 {
		return ""
	}
	return fmt.Sprintf(" So does one that was watched for less than %s.", spell(o.Watched))
}

func spell(d time.Duration) string {
	if d >= 24*hour && d%(24*hour) == 0 {
		if d == 24*hour {
			return "24 h"
		}
		return fmt.Sprintf("%d days", d/(24*hour))
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

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

// Generate makes Sidecars. It fails if the result would not let in a call that
// is to be kept, which a fault of this program alone could cause.
func Generate(inv *Inventory, obs *Observations, acc Accounts, o Options) (Result, error) {
	r := Result{Schema: ResultSchema, Rule: o.rule(), Sources: obs.sources, Observed: obs.span, existing: map[string]Sidecar{},
		Sidecars: []Sidecar{}, Rare: []Kept{}, Old: []Edge{}, Unknown: []Kept{}, Open: []Open{}, Others: []Other{}, Notes: slices.Clone(obs.notes)}
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

// concerns says whether Sidecars are wanted for a namespace.
func (g *generator) concerns(namespace string) bool {
	return len(g.o.Only) == 0 || slices.Contains(g.o.Only, namespace)
}

// view is what proxies of a namespace may see, by exportTo.
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

// weight is what egress hosts let in for a namespace's proxies, bytes.
func (g *generator) weight(hosts []string, namespace string) int64 {
	sum := int64(0)
	for _, h := range g.view(namespace).hosts {
		if admits(hosts, namespace, h) {
			sum += g.acc.weigh(g.inv.services[h]).Dump
		}
	}
	return sum
}

// needed are the hosts that a workload is to keep: those it calls, those that
// its namespace calls without anybody knowing who, what the mesh's
// configuration names, what sources cannot see, and what routes lead to.
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

// aliases adds the names of type ExternalName that stand for what is there.
// istiod looks for them among the hosts of that one's namespace
// (matchingAliasService), whatever their own.
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

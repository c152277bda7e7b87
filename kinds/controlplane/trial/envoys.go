package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	neturl "net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
)

// Real Envoys are watched by periodically requesting from each, by name, the resources that should
// show one of the next few changes, which keeps responses small. Each request costs an Envoy CPU,
// more the more it holds. On a small machine that would slow down what is measured, and differently
// in each cell. So an Envoy is only asked for what it needs, not before a change is due, and less
// often the longer it takes to answer.
const (
	envoyEvery = 20 * time.Millisecond
	envoyRest  = 20 // multiple of the response time
	envoyAhead = 8  // changes
	envoyLead  = 500 * time.Millisecond
)

// envoyWatch records when real Envoys have changes in force, by querying their admin interfaces.
// Without Envoys it does nothing.
type envoyWatch struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	rest   time.Duration // as a multiple of the response time

	// wants reports whether an Envoy needs a change, and when it is due after the first one.
	wants func(envoy, change int) (bool, time.Duration)
	zero  atomic.Int64 // when the first change is due, Unix nanoseconds
	pause atomic.Int64 // longest time between two polls, nanoseconds

	mu      sync.Mutex
	markers []record.Marker
	seen    []map[int]int64 // by Envoy: marker to first sighting, Unix nanoseconds
}

// begin sets when the first change is due.
func (w *envoyWatch) begin(at time.Time) { w.zero.Store(at.UnixNano()) }

// due reports whether to query an Envoy for a change by now.
func (w *envoyWatch) due(envoy, change int) bool {
	needed, after := w.wants(envoy, change)
	zero := w.zero.Load()
	return needed && zero != 0 && time.Now().UnixNano() >= zero+int64(after-envoyLead)
}

// watchEnvoys starts watching the real pods' Envoys. If convergence is not measured, they are only
// asked after the last change whether they have all changes.
func (t *controlTrial) watchEnvoys(ctx context.Context) *envoyWatch {
	ctx, cancel := context.WithCancel(ctx)
	w := &envoyWatch{cancel: cancel, rest: envoyRest}
	audience := t.seen.Audience
	timed := t.c.study.Measured(controlplane.MeasureConvergence)
	if !timed {
		w.rest = 1
	}
	w.wants = func(envoy, change int) (bool, time.Duration) {
		due := time.Duration(t.plan.Changes[change].OffsetNS)
		if !timed {
			due = time.Duration(t.plan.DurationNS()) + envoyLead
		}
		return audience.Needs(change, int32(audience.Simulated+envoy)), due
	}
	for _, pod := range t.c.reals {
		if pod.Proxy == nil {
			w.seen = append(w.seen, nil)
			continue
		}
		index := len(w.seen)
		w.seen = append(w.seen, map[int]int64{})
		get := pod.Proxy.Get
		w.done.Go(func() { w.poll(ctx, index, get) })
	}
	return w
}

// stop ends the watch. Its sightings stay available.
func (w *envoyWatch) stop() {
	w.cancel()
	w.done.Wait()
}

func (w *envoyWatch) announce(markers []record.Marker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.markers = append(w.markers, markers...)
}

// sightings returns when each Envoy showed each marker, in the order of the markers' announcement;
// times of receipt and acknowledgement are unknown. Envoys are numbered starting at first. It
// returns nil without Envoys.
func (w *envoyWatch) sightings(first int32) []xds.MarkerSightings {
	if len(w.seen) == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]xds.MarkerSightings, len(w.markers))
	for i, m := range w.markers {
		out[i] = xds.MarkerSightings{Change: m.Change, Marker: i, Type: m.Type, Gone: m.Gone}
		for envoy, seen := range w.seen {
			if at, ok := seen[i]; ok {
				out[i].Proxy = append(out[i].Proxy, first+int32(envoy))
				out[i].ReceivedNS, out[i].AckedNS = append(out[i].ReceivedNS, at), append(out[i].AckedNS, record.Never)
			}
		}
	}
	return out
}

// next returns the markers to look for: those of the first few changes that the Envoy has not
// shown, by type.
func (w *envoyWatch) next(envoy int) map[string][]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	pending := map[int]bool{}
	for i, m := range w.markers {
		if _, ok := w.seen[envoy][i]; !ok && !m.OfZtunnels() && w.due(envoy, m.Change) {
			pending[m.Change] = true
		}
	}
	changes := slices.Sorted(maps.Keys(pending))
	// Changes that never arrive must not hide later ones, so also look for the newest.
	if len(changes) > 2*envoyAhead {
		changes = append(changes[:envoyAhead:envoyAhead], changes[len(changes)-envoyAhead:]...)
	}
	out := map[string][]int{}
	for i, m := range w.markers {
		if _, ok := w.seen[envoy][i]; !ok && !m.OfZtunnels() && slices.Contains(changes, m.Change) {
			out[m.Type] = append(out[m.Type], i)
		}
	}
	return out
}

// dumped names the field of Envoy's config dump with a type's active resources
// (envoy/admin/v3/config_dump.proto).
var dumped = map[string]string{
	"cds": "dynamic_active_clusters", "eds": "dynamic_endpoint_configs", "lds": "dynamic_listeners",
	"rds": "dynamic_route_configs", "sds": "dynamic_active_secrets", "ecds": "ecds_filters",
}

// poll queries an Envoy repeatedly.
func (w *envoyWatch) poll(ctx context.Context, envoy int, get func(context.Context, string, neturl.Values) ([]byte, error)) {
	// A marker that something must vanish counts only after it was present.
	there := map[int]bool{}
	for rest := envoyEvery; wake.Pause(ctx, rest) == nil; {
		begin := time.Now()
		for kind, wanted := range w.next(envoy) {
			if dumped[kind] == "" {
				continue
			}
			body, err := get(ctx, "/config_dump", dumpQuery(kind, w.named(wanted)))
			if err != nil {
				continue // the next round retries; what it has then counts
			}
			w.note(envoy, wanted, resourcesIn(body), there)
		}
		rest = max(envoyEvery, w.rest*time.Since(begin))
		w.pause.Store(max(w.pause.Load(), int64(rest)))
	}
}

func (w *envoyWatch) named(wanted []int) []record.Marker {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]record.Marker, len(wanted))
	for i, at := range wanted {
		out[i] = w.markers[at]
	}
	return out
}

// dumpQuery requests the resources of one type that markers name.
func dumpQuery(kind string, markers []record.Marker) neturl.Values {
	q := neturl.Values{"resource": {dumped[kind]}}
	if kind == "eds" {
		q.Set("include_eds", "")
	}
	var names []string
	for _, m := range markers {
		if m.Resource == "" {
			return q // any resource may show it
		}
		names = append(names, regexp.QuoteMeta(m.Resource))
	}
	q.Set("name_regex", "^("+strings.Join(names, "|")+")$")
	return q
}

// resourcesIn returns the resources of a config dump by name; those without a name are under "".
func resourcesIn(body []byte) map[string][]byte {
	var dump struct {
		Configs []json.RawMessage `json:"configs"`
	}
	out := map[string][]byte{}
	if json.Unmarshal(body, &dump) != nil {
		return out
	}
	for _, c := range dump.Configs {
		var one struct {
			Name     string                `json:"name"`
			Cluster  struct{ Name string } `json:"cluster"`
			Endpoint struct {
				Name string `json:"cluster_name"`
			} `json:"endpoint_config"`
			Route    struct{ Name string } `json:"route_config"`
			Active   json.RawMessage       `json:"active_state"`
			Draining json.RawMessage       `json:"draining_state"`
		}
		if json.Unmarshal(c, &one) != nil {
			continue
		}
		name := one.Name + one.Cluster.Name + one.Endpoint.Name + one.Route.Name
		if one.Active != nil || one.Draining != nil {
			c = one.Active // a listener: a warming one is not in force
		}
		if one.Endpoint.Name != "" {
			c = serving(c)
		}
		out[name] = append(out[name], c...)
	}
	return out
}

// serving returns the endpoints of a cluster's endpoint_config that receive traffic: istiod also
// sends those that are not ready, marked as such.
func serving(config []byte) []byte {
	var cluster struct {
		Config struct {
			Localities []struct {
				Endpoints []json.RawMessage `json:"lb_endpoints"`
			} `json:"endpoints"`
		} `json:"endpoint_config"`
	}
	if json.Unmarshal(config, &cluster) != nil {
		return config
	}
	var out []byte
	for _, locality := range cluster.Config.Localities {
		for _, endpoint := range locality.Endpoints {
			var state struct {
				Health string `json:"health_status"`
			}
			_ = json.Unmarshal(endpoint, &state) // already parsed as part of an object
			switch state.Health {
			case "UNHEALTHY", "DRAINING", "TIMEOUT":
			default:
				out = append(out, endpoint...)
			}
		}
	}
	return out
}

// note records which of the wanted markers show.
func (w *envoyWatch) note(envoy int, wanted []int, resources map[string][]byte, there map[int]bool) {
	now := time.Now().UnixNano()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range wanted {
		m := w.markers[i]
		shows := false
		for name, body := range resources {
			if (m.Resource == "" || name == m.Resource) && holds(body, m.Text) {
				shows = true
			}
		}
		switch {
		case !m.Gone && shows:
			w.seen[envoy][i] = now
		case m.Gone && shows:
			there[i] = true
		case m.Gone && there[i]:
			w.seen[envoy][i] = now
		}
	}
}

// holds reports whether a body contains a text as a whole, not followed by a letter or digit.
func holds(body []byte, text string) bool {
	for rest := body; ; {
		at := bytes.Index(rest, []byte(text))
		if at < 0 {
			return false
		}
		rest = rest[at+len(text):]
		next, _ := utf8.DecodeRune(rest)
		if len(rest) == 0 || !unicode.IsLetter(next) && !unicode.IsDigit(next) {
			return true
		}
	}
}

package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
)

const (
	// lately is the time before the end of the timeline in which requests count as its last ones.
	lately = 2 * time.Second
	// afterSteps limits the wait, after the timeline, for proxies that steps removed. A longer
	// absence is a result of the trial.
	afterSteps = 10 * time.Second
	// oneSeat limits the search for one such proxy before the last reading of the counters.
	oneSeat = time.Second
)

// noteFresh records proxies that replaced others because of steps, so that the last reading
// includes their use.
func (t *scenarioTrial) noteFresh(ctx context.Context) {
	if len(t.timeline.Steps) == 0 {
		return
	}
	for _, part := range t.scene.way() {
		place, at := t.seats(part)
		for _, node := range at {
			limited, cancel := context.WithTimeout(ctx, oneSeat)
			if pod, err := t.AwaitProxy(limited, t.FindProxy, t.proxiesAt(place), node); err == nil {
				t.shared.note(part, pod)
			}
			cancel()
		}
	}
}

// checkAfterwards records how the proxies that exist after the steps carried the timeline's
// requests, and whether there were any if requests were answered to the end. The counters of a
// proxy are lost when it goes.
func (t *scenarioTrial) checkAfterwards(ctx context.Context, got outcome, book *ledger.Book) error {
	limited, cancel := context.WithTimeout(ctx, afterSteps)
	defer cancel()
	present, err := t.present(limited)
	var now tallies
	if err == nil {
		now, err = t.ask(limited, present)
	}
	switch {
	case ctx.Err() != nil, runner.IsFatal(err):
		return err
	case err != nil:
		t.evidence.Carried = append(t.evidence.Carried, record.Check{Name: "carriers" + afterwards, Detail: fmt.Sprintf("the proxies that carry requests do not respond %v after the timeline: %v", afterSteps, err)})
		return nil
	}
	checks, err := t.scene.afterwards(now.since(t.shared.began), t.lastNodes(got, book, t.lastSince(present[record.PartNode])))
	t.evidence.Carried = append(t.evidence.Carried, checks...)
	return err
}

// lastSince returns the time from which requests count as the timeline's last: shortly before its
// end, after every effect of steps, and after the end of node proxies that are gone, which may have
// carried earlier requests. Steps undone at the end of the timeline come later.
func (t *scenarioTrial) lastSince(present []site.Pod) int64 {
	end := t.zero.Add(t.timeline.Duration)
	since := end.Add(-lately).UnixNano()
	for _, e := range t.events {
		if e.SentNS < end.UnixNano() {
			since = max(since, e.CommittedNS)
		}
	}
	for _, old := range t.shared.all()[record.PartNode] {
		if !slices.ContainsFunc(present, func(p site.Pod) bool { return p.UID == old.UID }) {
			since = max(since, t.looks.seen(old)+2*costEvery.Nanoseconds())
		}
	}
	return since
}

// lastNodes returns the nodes on which the sides of services, such as front-client and
// front-server, had the last answered requests of the timeline, by the clients' records and, if
// they write logs, the workers'. It returns nil if no client was answered.
func (t *scenarioTrial) lastNodes(got outcome, book *ledger.Book, since int64) map[string][]string {
	out := map[string][]string{}
	add := func(service, side, node string) {
		if key := service + "-" + side; !slices.Contains(out[key], node) {
			out[key] = append(out[key], node)
		}
	}
	for i, one := range t.clients.all {
		if got.answered[i] >= since {
			add(t.scene.scenario.Entry, record.SideClient, one.Node)
		}
	}
	if len(out) == 0 {
		return nil
	}
	served := map[string]bool{} // pods whose workers answered one of them successfully
	book.Each(func(r *ledger.Request) bool {
		for _, e := range r.Workers {
			if e.StartNS >= since && e.Ended == ledger.EndAnswered && e.Status/100 == 2 {
				served[e.Pod] = true
			}
		}
		return true
	})
	for _, pod := range t.census.account() {
		if !served[pod.Name] {
			continue
		}
		add(pod.Service, record.SideServer, pod.Node)
		one, _ := t.scene.scenario.Graph.Service(pod.Service)
		for _, call := range one.Calls {
			if call.Probability >= 1 {
				add(call.To, record.SideClient, pod.Node)
			}
		}
	}
	return out
}

// Suffixes of check names.
const (
	hboneCheck = "-hbone"         // how connections were carried, however many
	bytesCheck = "-ztunnel-bytes" // minimum number of bytes
	afterwards = "-afterwards"
)

// afterwards checks, by the proxies' counters for the timeline, that requests went over HBONE,
// whatever their number. If requests flowed to the end, it also checks that each side of each
// service had some: on each node of the last requests or, if those nodes are unknown, on all nodes
// together. Nodes that pods reached late are not checked.
func (s *scene) afterwards(counted tallies, last map[string][]string) ([]record.Check, error) {
	one := func(of tallies) ([]record.Check, error) { return s.carried(of.together(), flowed{1, 1}, 1) }
	all, err := one(counted)
	if err != nil {
		return nil, err
	}
	onNode := map[string][]record.Check{}
	for _, node := range counted.nodes() {
		if onNode[node], err = one(counted.on(node)); err != nil {
			return nil, err
		}
	}
	var out []record.Check
	for _, c := range all {
		side, weighed := strings.CutSuffix(c.Name, bytesCheck)
		check := record.Check{Name: c.Name + afterwards, OK: c.OK, Detail: c.Detail}
		switch nodes := last[side]; {
		case strings.HasSuffix(c.Name, hboneCheck):
		case !weighed || last == nil:
			continue
		case len(nodes) == 0:
			check.Detail += ", on all nodes together"
		default:
			if check.OK, check.Detail = eachOf(nodes, onNode, c.Name); check.Detail == "" {
				continue
			}
		}
		out = append(out, check)
	}
	return out, nil
}

// eachOf reports whether a check holds on each of the nodes that have it.
func eachOf(nodes []string, onNode map[string][]record.Check, name string) (ok bool, detail string) {
	var said []string
	ok = true
	for _, node := range nodes {
		for _, c := range onNode[node] {
			if c.Name == name {
				ok, said = ok && c.OK, append(said, "on node "+node+", "+c.Detail)
			}
		}
	}
	return ok, strings.Join(said, "; ")
}

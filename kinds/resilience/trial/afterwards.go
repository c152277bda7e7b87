package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
)

const (
	// lately is how long before the timeline's end requests are its last.
	lately = 2 * time.Second
	// afterSteps is how long, after the timeline, proxies are waited for that steps took
	// away: one that is away for longer is what the trial shows.
	afterSteps = 10 * time.Second
	// oneSeat is how long one of them is looked for before the last look at the counters.
	oneSeat = time.Second
)

// noteFresh notes proxies that steps had come in the place of others, so that the last look
// counts what they used.
func (t *scenarioTrial) noteFresh(ctx context.Context) {
	if len(t.timeline.Steps) == 0 {
		return
	}
	for _, part := range t.scene.way() {
		place, at := t.seats(part)
		for _, node := range at {
			limited, cancel := context.WithTimeout(ctx, oneSeat)
			if pod, err := t.awaitProxy(limited, place, node); err == nil {
				t.shared.note(part, pod)
			}
			cancel()
		}
	}
}

// checkAfterwards notes how the proxies that there are after steps carried what came to
// them in the timeline; and that something did, where requests were answered to the end. A
// proxy that is not there any more took its counters along.
func (t *scenarioTrial) checkAfterwards(ctx context.Context, got outcome) error {
	limited, cancel := context.WithTimeout(ctx, afterSteps)
	defer cancel()
	present, err := t.present(limited)
	var now tallies
	if err == nil {
		now, err = t.ask(limited, present)
	}
	switch {
	case ctx.Err() != nil, runner.IsFutile(err):
		return err
	case err != nil:
		t.evidence.Carried = append(t.evidence.Carried, record.Check{Name: "carriers" + afterwards, Detail: fmt.Sprintf("what carries requests cannot be asked %v after the timeline: %v", afterSteps, err)})
		return nil
	}
	checks, err := t.scene.afterwards(now.since(t.shared.began), t.lastNodes(got, t.lastSince(present[record.PartNode])))
	t.evidence.Carried = append(t.evidence.Carried, checks...)
	return err
}

// lastSince is since when requests are the timeline's last: they were sent right before its
// end, after all that steps did, and after the end of those proxies of nodes that are not
// there any more, which may have carried earlier ones. What is undone at the timeline's end
// comes later than that.
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

// lastNodes are the nodes on which the sides of services, as front-client and front-server,
// had the timeline's last requests that were answered: by what the clients know, and the
// workers where they write it down. nil: no client was answered.
func (t *scenarioTrial) lastNodes(got outcome, since int64) map[string][]string {
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
	served := t.scribe.lastServed()
	pods, _ := t.census.account()
	for _, pod := range pods {
		if served[pod.Name] < since {
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

// Ends of the names of checks.
const (
	hboneCheck = "-hbone"         // how connections were carried, however many
	bytesCheck = "-ztunnel-bytes" // how much at least
	afterwards = "-afterwards"
)

// afterwards checks by what proxies counted in the timeline, however little, that it went
// over HBONE; and where requests flowed to the end, that each side of each service had some:
// on each node that had the last ones, or, if nobody knows which had, on all together. Of
// nodes to which pods came at the last nobody was asked.
func (s *scene) afterwards(counted tallies, last map[string][]string) ([]record.Check, error) {
	one := func(of tallies) ([]record.Check, error) { return s.carriedLeast(of.together(), flowed{1, 1}, 1) }
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

// eachOf says whether a check holds on each of some nodes, as far as they have it.
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

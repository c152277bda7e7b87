package trial

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/testing/must"
)

// countingProxy reports fixed counts.
type countingProxy struct {
	mesh.Admin
	counters map[string]float64
}

func (p countingProxy) Stats(context.Context, string) (observe.ProxyStats, error) {
	return observe.ProxyStats{Counters: p.counters}, nil
}

// Counts of the timeline exclude what the same process had counted before. A pod may be the same
// while its process is not.
func TestTallies(t *testing.T) {
	trial := sharedTrial(fakecluster.New())
	container := trial.proxiesAt(record.PlaceNode).Containers[0]
	pod := func(uid, node, process string, counted float64) site.Pod {
		return site.Pod{Name: uid, UID: uid, Node: node, Containers: map[string]string{container: process, "other": fmt.Sprint(counted)}, Proxy: countingProxy{counters: map[string]float64{"bytes": counted}}}
	}
	ask := func(pods ...site.Pod) tallies {
		all, err := trial.ask(t.Context(), map[string][]site.Pod{record.PartNode: pods})
		must.OK(t, err)
		return all
	}
	before := ask(pod("a", "one", "1", 100), pod("b", "two", "2", 50), pod("c", "three", "3", 70)).byProcess()
	now := ask(pod("a", "one", "1", 130), pod("b", "two", "4", 90), pod("d", "three", "3", 0))
	got := map[string]float64{}
	for _, one := range now.since(before) {
		got[one.node] = one.counters["bytes"]
	}
	if want := map[string]float64{"one": 30, "two": 90, "three": 0}; !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
	if sum := now.since(before).together()[record.PartNode]["bytes"]; sum != 120 {
		t.Errorf("together %g", sum)
	}
	if _, err := trial.ask(t.Context(), map[string][]site.Pod{record.PartNode: {{Name: "mute", Node: "one"}}}); err == nil || !strings.Contains(err.Error(), "mute") {
		t.Errorf("a pod without a proxy: %v", err)
	}
}

// After steps proxies may count little. If requests flowed to the end, any count suffices on each
// node that had the last ones, whatever others counted, and a connection that was not carried fails
// the check.
func TestAfterwards(t *testing.T) {
	s := ambientScene(t)
	carried := func(services ...string) map[string]float64 {
		some := map[string]float64{}
		for _, service := range services {
			for _, reporter := range []string{"source", "destination"} {
				series(some, s.namespace, service, reporter, "mutual_tls", 1, 50)
			}
		}
		return some
	}
	plain := carried("front", "back")
	series(plain, s.namespace, "back", "destination", "unknown", 1, 500)
	sides := []string{"back-client", "back-server", "front-client", "front-server"}
	on := func(nodes ...string) map[string][]string {
		out := map[string][]string{}
		for _, side := range sides {
			out[side] = nodes
		}
		return out
	}
	bytes := func(sides ...string) string {
		return strings.Join(sides, "-ztunnel-bytes-afterwards ") + "-ztunnel-bytes-afterwards"
	}
	without := func(last map[string][]string, side string, nodes ...string) map[string][]string {
		last[side] = nodes
		return last
	}
	for name, c := range map[string]struct {
		one, two map[string]float64 // ztunnel's counts there
		last     map[string][]string
		failed   string
		says     string
	}{
		"some":                     {carried("front", "back"), nil, on("one"), "", ""},
		"nothing, and none flowed": {nil, nil, nil, "", ""},
		"nothing, though some did": {nil, nil, on("one"), bytes(sides...), "on node one, bytes"},
		"plain":                    {plain, nil, on("one"), "back-server-hbone-afterwards", ""},
		"plain, and none flowed":   {plain, nil, nil, "back-server-hbone-afterwards", ""},
		"plain on the other":       {carried("front", "back"), plain, on("one"), "back-server-hbone-afterwards", ""},
		"a fresh one is passed by": {carried("front", "back"), nil, on("one", "two"), bytes(sides...), "on node two, bytes through ztunnel"},
		"a fresh one is passed by on the way to servers": {carried("front", "back"), carried("back"), without(on("one"), "front-server", "one", "two"), bytes("front-server"), "on node two"},
		"both have some":              {carried("front", "back"), carried("front", "back"), on("one", "two"), "", ""},
		"the other had none":          {carried("front", "back"), nil, on("one"), "", ""},
		"nobody knows which had":      {carried("front", "back"), nil, map[string][]string{"front-client": {"one"}}, "", ""},
		"nobody knows, and none":      {carried("front"), nil, map[string][]string{"front-client": {"one"}}, bytes("back-client", "back-server"), "on all nodes together"},
		"on a node that pods came to": {carried("front"), nil, without(without(on("one"), "back-client", "three"), "back-server", "three"), "", ""},
	} {
		checks, err := s.afterwards(tallies{{record.PartNode, "one", "1", c.one}, {record.PartNode, "two", "2", c.two}}, c.last)
		if err != nil || len(checks) == 0 {
			t.Fatal(checks, err)
		}
		for _, check := range checks {
			if !check.OK {
				if !strings.Contains(check.Detail, c.says) {
					t.Errorf("%s: %s says %q, want %q", name, check.Name, check.Detail, c.says)
				}
			}
		}
		if got := failedIn(checks); got != c.failed {
			t.Errorf("%s: failed %s, want %s", name, got, c.failed)
		}
		if weighed := slices.ContainsFunc(checks, func(check record.Check) bool { return strings.HasSuffix(check.Name, "-bytes-afterwards") }); weighed != (c.last != nil) {
			t.Errorf("%s: bytes were asked for: %v", name, weighed)
		}
	}
}

// Requests are the last ones if they were sent right before the end, after everything that happened
// in the timeline, and after the end of proxies that no longer exist, by our clock.
func TestLastSince(t *testing.T) {
	zero := time.Unix(1000, 0)
	end := zero.Add(30 * time.Second)
	for name, c := range map[string]struct {
		acted   time.Duration // before the end
		ended   time.Duration // of the old proxy
		ahead   time.Duration // the clock of its node
		present []site.Pod
		want    time.Duration // before the end
	}{
		"long ago":                     {20 * time.Second, 15 * time.Second, 0, nil, 2 * time.Second},
		"a late step":                  {time.Second, 15 * time.Second, 0, nil, time.Second},
		"a proxy that ended late":      {20 * time.Second, 3 * time.Second, 0, nil, time.Second},
		"a proxy that is ending":       {20 * time.Second, 0, 0, nil, -2 * time.Second},
		"a proxy that is there yet":    {20 * time.Second, 0, 0, []site.Pod{{UID: "old"}}, 2 * time.Second},
		"long ago, by a clock ahead":   {20 * time.Second, 15 * time.Second, 40 * time.Second, nil, 2 * time.Second},
		"it ended late, by one behind": {20 * time.Second, 3 * time.Second, -time.Hour, nil, time.Second},
	} {
		trial := &scenarioTrial{stage: &stage{ahead: map[string]int64{"one": int64(c.ahead)}}, zero: zero, events: []record.Event{{SentNS: end.Add(-c.acted).UnixNano(), CommittedNS: end.Add(-c.acted).UnixNano()},
			{SentNS: end.UnixNano(), CommittedNS: end.Add(time.Millisecond).UnixNano()}}}
		trial.timeline.Duration = 30 * time.Second
		trial.shared.note(record.PartNode, site.Pod{UID: "old", Node: "one"})
		trial.looks = &looks{t: trial, last: map[string]usage{"old": {at: observe.Sample{AtUnixNS: end.Add(c.ahead - c.ended).UnixNano()}}}}
		if got := end.Sub(time.Unix(0, trial.lastSince(c.present))); got != c.want {
			t.Errorf("%s: since %v before the end, want %v", name, got, c.want)
		}
	}
}

// The last requests were on the nodes of answered clients, of workers that answered, and of those
// that these certainly called from.
func TestLastNodes(t *testing.T) {
	pod := func(name, service, node string) *resident {
		return &resident{uid: name, ScenarioPod: record.ScenarioPod{Name: name, Service: service, Node: node}}
	}
	for name, c := range map[string]struct {
		answered []int64
		workers  []ledger.WorkerEntry
		want     string
	}{
		"nobody":            {[]int64{0, 99}, []ledger.WorkerEntry{{Pod: "f1", StartNS: 200, Ended: ledger.EndAnswered, Status: 200}}, ""},
		"one client":        {[]int64{100, 99}, nil, "front-client:one"},
		"both, not written": {[]int64{100, 200}, nil, "front-client:one,two"},
		"workers": {[]int64{100, 99}, []ledger.WorkerEntry{
			{Pod: "f1", StartNS: 99, Ended: ledger.EndAnswered, Status: 200},
			{Pod: "f2", StartNS: 150, Ended: ledger.EndAnswered, Status: 200},
			{Pod: "f2", StartNS: 100, Ended: ledger.EndAnswered, Status: 200},
			{Pod: "f1", StartNS: 150, Ended: ledger.EndGone, Status: 499},
			{Pod: "f1", StartNS: 150, Ended: ledger.EndAnswered, Status: 503},
			{Pod: "b1", StartNS: 151, Ended: ledger.EndAnswered, Status: 200},
			{Pod: "r1", StartNS: 151, Ended: ledger.EndAnswered, Status: 200}},
			"back-client:two back-server:three front-client:one front-server:two rare-server:one"},
	} {
		trial := &scenarioTrial{scene: graphScene(t, "{front: {calls: [{to: back}, {to: rare, probability: 1%}]}, back: {}, rare: {}}"),
			clients: &clients{all: []*client{{resident: pod("c1", roleClients, "one")}, {resident: pod("c2", roleClients, "two")}}},
			census:  &census{pods: map[string]*resident{}}}
		for _, r := range []*resident{pod("f1", "front", "one"), pod("f2", "front", "two"), pod("b1", "back", "three"), pod("r1", "rare", "one")} {
			trial.census.pods[r.uid] = r
		}
		book := ledger.New(ledger.Options{})
		for i, e := range c.workers {
			e.ID = fmt.Sprint("mm-", i)
			book.AddWorker(e)
		}
		last := trial.lastNodes(outcome{answered: c.answered}, book, 100)
		var got []string
		for _, side := range slices.Sorted(maps.Keys(last)) {
			got = append(got, side+":"+strings.Join(last[side], ","))
		}
		if got := strings.Join(got, " "); got != c.want || (last == nil) != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

package trial

import (
	"math"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site/sitetest"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// graphScene returns a scene of ambientServices with another graph, called at front.
func graphScene(t *testing.T, services string, sets ...string) *scene {
	t.Helper()
	at := strings.Index(ambientServices, "graph:")
	end := at + strings.Index(ambientServices[at:], "\n")
	plan := studytest.Plan(t, ambientServices[:at]+"graph: {services: "+services+"}"+ambientServices[end:], sets...)
	return sceneIn(t, plan, plan.Cells[0], sitetest.Istio())
}

// The number of requests to a service is certain if calls are, and otherwise lies between the
// minimum and the maximum.
func TestVisits(t *testing.T) {
	for name, c := range map[string]struct {
		services    string
		n           int64
		least, most int64 // at back
	}{
		"certain":                     {"{front: {calls: [{to: back, times: 2}]}, back: {}}", 500, 1000, 1000},
		"rare":                        {"{front: {calls: [{to: back, probability: 1%}]}, back: {}}", 200, 0, 200},
		"by chance, and many":         {"{front: {calls: [{to: back, probability: 50%}]}, back: {}}", 500, 125, 500},
		"by chance, few of many":      {"{front: {calls: [{to: back, probability: 10%}]}, back: {}}", 5000, 250, 1500},
		"by chance, in lumps":         {"{front: {calls: [{to: back, probability: 10%, times: 100}]}, back: {}}", 500, 0, 50_000},
		"one for certain":             {"{front: {calls: [{to: back}, {to: back, probability: 1%}]}, back: {}}", 50, 50, 100},
		"repeated":                    {"{front: {calls: [{to: back, retries: 2}]}, back: {}}", 10, 10, 30},
		"repeated often":              {"{front: {calls: [{to: back, retries: 9}]}, back: {}}", 5000, 5000, 50_000},
		"by chance, and repeated":     {"{front: {calls: [{to: back, probability: 12.5%, retries: 2}]}, back: {}}", 4000, 250, 4500},
		"by two, one of them certain": {"{front: {calls: [{to: back}, {to: mid, probability: 50%}]}, mid: {calls: [{to: back, times: 3}]}, back: {}}", 10, 10, 40},
		"by nobody that is called":    {"{front: {}, mid: {calls: [{to: back}]}, back: {}}", 500, 0, 0},
		"no request":                  {"{front: {calls: [{to: back}]}, back: {}}", 0, 0, 0},
	} {
		s := graphScene(t, c.services)
		all, err := s.visits()
		must.OK(t, err)
		for i, one := range s.scenario.Graph.Services {
			if least, most := all[i].of(c.n); one.Name == "back" && (least != c.least || most != c.most) {
				t.Errorf("%s: %d to %d, want %d to %d", name, least, most, c.least, c.most)
			}
		}
	}
}

// Requests to each service must have passed ztunnel, a waypoint counts them, and neither must show
// what need not have happened.
func TestCarriedByChance(t *testing.T) {
	const (
		rare  = "{front: {calls: [{to: back, probability: 1%}]}, back: {}}"
		even  = "{front: {calls: [{to: back, probability: 50%}]}, back: {}}"
		known = "{front: {calls: [{to: back}]}, back: {}}"
		spare = "{front: {}, spare: {calls: [{to: back}]}, back: {}}"
	)
	for name, c := range map[string]struct {
		services, payload string
		of                int64   // requests at the entry, all answered
		requests          float64 // that reach back
		ambient, waypoint string  // what fails
	}{
		"calls weigh what they do, whatever clients send": {known, "64KiB", 500, 500, "", ""},
		"rare, and none":             {rare, "0B", 200, 0, "", ""},
		"rare, and more":             {rare, "0B", 200, 9, "", ""},
		"rare, none, with a payload": {rare, "64KiB", 200, 0, "", ""},
		"even, and fewer":            {even, "64KiB", 500, 230, "", ""},
		"even, and none": {even, "0B", 500, 0, "back-client-ztunnel back-client-ztunnel-bytes back-server-ztunnel back-server-ztunnel-bytes",
			"back-client-ztunnel back-client-ztunnel-bytes back-server-ztunnel-bytes back-waypoint-requests"},
		"even, and too many": {even, "0B", 500, 501, "", "back-waypoint-requests"},
		"certain, and none": {known, "0B", 2, 0, "back-client-ztunnel back-client-ztunnel-bytes back-server-ztunnel back-server-ztunnel-bytes",
			"back-client-ztunnel back-client-ztunnel-bytes back-server-ztunnel-bytes back-waypoint-requests"},
		"called by nobody": {spare, "0B", 500, 0, "", ""},
	} {
		for level, want := range map[string]string{"ambient": c.ambient, "waypoint": c.waypoint} {
			s := graphScene(t, c.services, "payload="+c.payload, "sidecars="+level)
			rise, waypoint := map[string]float64{}, map[string]float64{}
			received := 300.0
			if c.payload == "64KiB" {
				received = 65_600
			}
			s.passed(rise, waypoint, "front", 24, float64(c.of), received*float64(c.of))
			s.passed(rise, waypoint, "back", min(24, c.requests), c.requests, 300*c.requests)
			all := risesOf{record.PartNode: rise}
			if level == "waypoint" {
				all[record.PartWaypoint] = waypoint
			}
			checks, err := s.carried(all, flowed{c.of, c.of}, math.MaxInt64)
			if err != nil || len(checks) == 0 {
				t.Fatal(checks, err)
			}
			if got := failedIn(checks); got != want {
				t.Errorf("%s, %s: failed %q, want %q", name, level, got, want)
			}
		}
	}
}

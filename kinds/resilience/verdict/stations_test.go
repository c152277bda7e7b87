package verdict

import (
	"reflect"
	"testing"

	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/observe/ledger"
)

// A successful answer needs the unconditional calls, as often as each is made.
func TestStations(t *testing.T) {
	g := graph.Graph{Services: []graph.Service{
		{Name: "front", Sidecar: true, Calls: []graph.Call{{To: "back", Times: 2, Retries: 3}, {To: "old", Probability: 0.5}}},
		{Name: "back"}, {Name: "old"},
	}}.WithDefaults()
	want := map[string]ledger.Station{
		"front": {Sidecar: true, Calls: []ledger.Call{{To: "back", Least: 2}, {To: "old"}}},
		"back":  {CalledBy: []string{"front"}}, "old": {CalledBy: []string{"front"}},
	}
	if got := stations(g, func(service string) bool { return service == "front" }); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

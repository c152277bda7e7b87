package fidelity

import (
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/testing/must"
)

func TestComparisonSeesOrder(t *testing.T) {
	const (
		begin     = "mode: delta\nsteps:\n- {kind: client, type: cds, nonce: none, node: {id: it, metadata: [A, B]}}\n- {kind: server, type: cds, resources: [{name: a, refs: [eds=a]}]}\n"
		subscribe = "- {kind: client, type: eds, nonce: none, subscribe: [a]}\n"
		ackCDS    = "- {kind: client, type: cds, nonce: due, answer: ack}\n"
		eds       = "- {kind: server, type: eds, resources: [{name: a}]}\n"
		ackEDS    = "- {kind: client, type: eds, nonce: due, answer: ack}\n"
	)
	real := parse(t, begin+subscribe+ackCDS+eds+ackEDS)
	for _, c := range []struct {
		name, text string
		same       bool
	}{
		{"a repeated push before the first mark is chance", subscribe + ackCDS + eds + ackEDS + eds + ackEDS, true},
		{"ACK before the subscription", ackCDS + subscribe + eds + ackEDS, false},
		{"another name", strings.Replace(subscribe, "[a]", "[b]", 1) + ackCDS + eds + ackEDS, false},
		{"no last ACK", subscribe + ackCDS + eds, false},
	} {
		if diff := Differences(real, parse(t, begin+c.text), nil, Core...); (diff == "") != c.same {
			t.Errorf("%s: differences %q", c.name, diff)
		}
	}
}

func TestNormalise(t *testing.T) {
	const begin, middle = "mode: delta\nsteps:\n- {kind: client, type: cds, nonce: none, node: {id: ", "}}\n- {kind: server, type: lds, resources: "
	tr := parse(t, begin+"sidecar~10.2.0.1~pod-x.n~n"+middle+"[{name: 10.10.0.1_80}, {name: 10.9.0.1_80}, {name: 0.0.0.0_80}, {name: 10.2.0.1_80}]}\n")
	want := parse(t, begin+"sidecar~ADDRESS1~POD.n~n"+middle+"[{name: 0.0.0.0_80}, {name: ADDRESS1_80}, {name: ADDRESS2_80}, {name: ADDRESS3_80}]}\n")
	if got := tr.Normalise(map[string]string{"pod-x": "POD"}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// parse parses a transcript in its file format.
func parse(t *testing.T, text string) *Transcript {
	t.Helper()
	out := &Transcript{}
	must.OK(t, yaml.UnmarshalStrict([]byte(text), out))
	return out
}

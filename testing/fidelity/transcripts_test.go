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
		score      float64
		diff       string
	}{
		{"a repeated push before the first mark is chance", subscribe + ackCDS + eds + ackEDS + eds + ackEDS, 1, ""},
		{"ACK before the subscription", ackCDS + subscribe + eds + ackEDS, 6. / 7, "+ kind: client\n+ nonce: none\n+ subscribe:\n+ - a\n+ type: eds\n"},
		{"another name", strings.Replace(subscribe, "[a]", "[b]", 1) + ackCDS + eds + ackEDS, 6. / 7, "- - a\n"},
		{"no last ACK", subscribe + ackCDS + eds, 6. / 7, "- answer: ack\n- kind: client\n- nonce: due\n- type: eds\n"},
	} {
		other := parse(t, begin+c.text)
		got := Compare(real, other, nil, Core...)
		if got.Score() != c.score || !strings.Contains(got.Diff, c.diff) || (got.Diff == "") != (c.score == 1) || Compare(other, real, nil, Core...).Score() != c.score {
			t.Errorf("%s: %s, want %v\n%s", c.name, got, c.score, got.Diff)
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
